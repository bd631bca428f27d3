//! The S3 origin: asking for versions, fetching byte ranges, forwarding everything else.
//!
//! The only crate that knows the AWS SDK. It knows neither the cache nor who asks; `node` adapts
//! [`Origin`] to what the cache needs. What the origin says is checked here before anybody
//! believes it: an answer is of exactly the version and the bytes that were asked, or an error.

mod answer;
mod body;
mod config;
mod connect;
mod credentials;
mod error;
mod forward;
mod limit;
mod metrics;
mod objects;
mod origin;
mod probe;
mod reach;
mod retry;
mod sdk_error;
mod watchdog;
mod web_identity;

pub use body::OriginBody;
pub use config::{CredentialsSource, MinRate, OriginConfig, WebIdentity};
pub use error::{OriginError, OriginReply, SetupError};
pub use forward::{BoxError, ForwardBody};
pub use origin::Origin;
