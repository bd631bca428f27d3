//! The S3 edge of one worker: parse, verify, authorize, ask the cache, answer.
//!
//! The only crate that speaks S3 to clients. It knows the face of the cache and nothing behind
//! it: no disk, no origin. Reads of objects are answered through [`forebay_cache::Cache::open`];
//! everything else is written anew and forwarded, so the endpoint is a complete S3 endpoint.
//!
//! [`serve`] and [`serve_tls`] accept connections, [`Edge`] answers requests. The story of a GET is
//! `get_object::get_object`.

mod address;
mod app_name;
mod authenticate;
mod authorize;
mod aws_chunked;
mod body;
mod checksum;
mod code;
mod conditions;
mod copy_source;
mod edge;
mod error;
mod forward;
mod framing;
#[cfg(test)]
mod fuzz;
mod get_object;
mod keys;
mod limits;
mod metrics;
mod overrides;
mod preflight;
mod presigned;
mod query;
mod range;
mod received;
mod respond;
mod ring_page;
mod route;
mod rules;
mod s3s_verifier;
mod serve;
mod sigv4;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod trailing;
mod upload;
mod xml;

pub use address::Domains;
pub use authenticate::Auth;
pub use body::S3Body;
pub use code::Code;
pub use edge::{DEFAULT_MAX_CONNECTIONS, Edge, EdgeParts};
pub use error::S3Error;
pub use keys::{AccessKey, AccessKeys, BucketPattern, Effect, Grant};
pub use ring_page::{Page, RingPage};
pub use rules::{BucketRule, BucketRules};
pub use serve::{serve, serve_tls};
pub use tls::{Certificate, CertificateError, TlsServer};
