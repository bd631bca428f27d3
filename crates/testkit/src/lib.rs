//! What every promise of Forebay is proven with.
//!
//! [`pattern`] objects whose every byte can be checked without a reference copy, a fault
//! [`origin`] that serves them as S3 and lies on request, a TCP fault [`proxy`], a verifying
//! [`reader`], and a harness for real [`process`]es on loopback. Nothing here imports what it
//! tests: a cache that is wrong must not be judged by its own code.

pub mod cluster;
pub mod origin;
mod pace;
pub mod pattern;
pub mod process;
pub mod proxy;
pub mod reader;
pub mod sign;
mod socket;
mod xml;

pub use origin::{Fault, FaultOrigin, FaultRule, Op, OriginConfig, PatternSet, Shape};
pub use pattern::{Mismatch, Pattern};
pub use process::Process;
pub use proxy::FaultProxy;
pub use reader::Reader;
pub use sign::AccessKey;
