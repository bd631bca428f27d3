//! A thin client that knows the ring: it asks the worker that owns a block, without a detour.
//!
//! It follows the ring through `GET /-/ring` at any worker's S3 port. A read goes to the owner of
//! its first block, then to the next owners clockwise, then to any other worker, then to the
//! origin. A large read is cut at block boundaries and several owners are read at once, all of
//! them held to the version of the first answer: bytes are of one version, or there is an error.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use forebay_client::{Client, ClientConfig};
//!
//! let client = Client::connect(ClientConfig::new(vec!["http://10.0.0.5:9000".parse()?])).await?;
//! let shard = client.get("train", "shards/000042.tar").await?;
//! println!("{} bytes of {}", shard.head.stamp.size, shard.head.stamp.etag.as_str());
//! let bytes = shard.body.bytes().await?;
//! # let _ = bytes;
//! # Ok(())
//! # }
//! ```

mod answer;
mod ask;
mod body;
mod client;
mod cluster;
mod config;
mod error;
mod follow;
mod limits;
mod object;
mod part;
mod route;
mod servers;
mod sign;
mod transport;

pub use body::Body;
pub use client::Client;
pub use config::{ClientConfig, Credentials, OriginConfig};
pub use error::{ConnectError, ReadError};
pub use object::Object;

pub use forebay_types::{BlockIndex, ByteRange, ETag, ObjectHead, RangeAsk, Stamp};
