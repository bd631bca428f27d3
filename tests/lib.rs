//! A worker as a real process, between a fault origin and a reader that checks every byte.

mod cluster_world;
mod damage;
mod world;

pub use cluster_world::{ClusterSetup, ClusterWorld, Load, RunningLoad, in_private_network};
pub use damage::{damage, is_resident};
pub use world::{
    BUCKET, CLIENT, ORIGIN, Setup, Worker, World, forebay_binary, is_long, pages_asked, read,
};
