//! A worker as a real process, between a fault origin and a reader that checks every byte.

mod damage;
mod world;

pub use damage::{damage, is_resident};
pub use world::{BUCKET, CLIENT, ORIGIN, Setup, Worker, World, forebay_binary, is_long, read};
