//! A load generator for S3 reads.
//!
//! [`Workload`]s are asked of one or more [`Target`]s in interleaved rounds ([`compare`]), over
//! HTTP/1.1 connections that do nothing but ask, count and, if told to, check every byte of a
//! pattern object. What comes out are [`Row`]s: medians with the smallest and the largest value,
//! and the CPU time of the servers where their processes are named. [`disk`] measures the disk
//! below a cache.
//!
//! Everything here but listing blocks its caller: a round has threads of its own.

mod compare;
mod connection;
pub mod disk;
mod error;
mod feed;
mod figures;
mod histogram;
pub mod limits;
pub mod machine;
mod objects;
mod request;
mod round;
mod target;
mod warm;
mod workload;

pub use compare::{Case, Pace, Step, compare};
pub use connection::Check;
pub use error::BenchError;
pub use feed::Plan;
pub use figures::{Row, Spread};
pub use objects::{Object, list};
pub use round::Round;
pub use target::{NamedEndpoint, NamedPids, Target};
pub use warm::warm;
pub use workload::{Order, Read, Workload};
