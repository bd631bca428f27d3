//! A small S3 client that judges what it reads.
//!
//! Plain HTTP/1.1 with keep-alive and optional SigV4, and no hidden retries: what failed once
//! on the wire is reported as failed. Fast enough to be the load of a benchmark on one core.

mod answer;
mod any_of;
mod ask;
mod pool;
mod verify;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use forebay_rt::{SharedClock, SystemClock};
use forebay_types::ByteRange;
use http::header::{HOST, HeaderValue, RANGE, USER_AGENT};
use http::{Method, Request, StatusCode};
use http_body_util::Full;

pub use self::answer::{Answer, Listed, Listing};
pub use self::any_of::AnyOf;
pub use self::ask::{Ask, Payload};
use self::pool::Pool;
pub use self::verify::{UpTo, Verified, VerifyError, Versions};
use crate::sign::{AccessKey, Signable, Signer};

/// Signatures name a region; an origin that has none takes any.
const REGION: &str = "us-east-1";

/// A client of one endpoint. Clones share connections.
#[derive(Debug, Clone)]
pub struct Reader {
    host: HeaderValue,
    pool: Arc<Pool>,
    signer: Option<Arc<Signer>>,
    clock: SharedClock,
    user_agent: Option<HeaderValue>,
}

/// Why there is no answer, or not all of one.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The endpoint is not an address over plain HTTP.
    #[error("endpoint {0:?}: write http://ADDRESS:PORT")]
    Endpoint(String),
    /// What was asked cannot be written as an HTTP request.
    #[error("request cannot be written: {0}")]
    Request(#[from] http::Error),
    /// No connection.
    #[error("connect: {0}")]
    Connect(#[source] std::io::Error),
    /// The connection ended, or went wrong, before the answer did.
    #[error("broken answer: {0:?}")]
    Broken(#[source] hyper::Error),
    /// An answer other than the one that the call is for.
    #[error("status {status}: {code}")]
    Status {
        /// The status.
        status: StatusCode,
        /// The S3 error code, where the body has one.
        code: String,
    },
    /// A listing that cannot be read.
    #[error("listing is not the XML of ListObjectsV2")]
    Listing,
}

impl Reader {
    /// A client that does not sign.
    pub fn new(endpoint: &str) -> Result<Self, ReadError> {
        let invalid = || ReadError::Endpoint(endpoint.into());
        let authority = endpoint.strip_prefix("http://").ok_or_else(invalid)?;
        let authority = authority.trim_end_matches('/');
        let address: SocketAddr = authority.parse().map_err(|_| invalid())?;
        Ok(Self {
            host: HeaderValue::from_str(authority).map_err(|_| invalid())?,
            pool: Arc::new(Pool::new(address)),
            signer: None,
            clock: Arc::new(SystemClock),
            user_agent: None,
        })
    }

    /// Signs with this key.
    pub fn signed_by(mut self, key: &AccessKey) -> Self {
        self.signer = Some(Arc::new(Signer::new(key.clone(), REGION)));
        self
    }

    /// Takes time, and the date of signatures, from this clock.
    pub fn with_clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// Names itself so. An invalid header value is left out.
    pub fn named(mut self, user_agent: &str) -> Self {
        self.user_agent = HeaderValue::from_str(user_agent).ok();
        self
    }

    /// Asks for an object or a range of it.
    pub async fn get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<ByteRange>,
    ) -> Result<Answer, ReadError> {
        self.request(ranged(bucket, key, range)).await
    }

    /// Asks for an object's headers.
    pub async fn head(&self, bucket: &str, key: &str) -> Result<Answer, ReadError> {
        self.request(Ask::new(Method::HEAD, bucket, key)).await
    }

    /// Writes an object; its hash is signed.
    pub async fn put(&self, bucket: &str, key: &str, body: Bytes) -> Result<Answer, ReadError> {
        self.request(Ask::new(Method::PUT, bucket, key).body(body)).await
    }

    /// Deletes an object.
    pub async fn delete(&self, bucket: &str, key: &str) -> Result<Answer, ReadError> {
        self.request(Ask::new(Method::DELETE, bucket, key)).await
    }

    /// One page of a bucket's keys.
    pub async fn list_v2(
        &self,
        bucket: &str,
        prefix: &str,
        token: Option<&str>,
    ) -> Result<Listing, ReadError> {
        let mut ask = Ask::new(Method::GET, bucket, "").query("list-type", "2");
        ask = ask.query("prefix", prefix);
        if let Some(token) = token {
            ask = ask.query("continuation-token", token);
        }
        self.list(ask).await
    }

    /// One page of whatever listing `ask` asks for.
    pub async fn list(&self, ask: Ask) -> Result<Listing, ReadError> {
        Listing::parse(&self.request(ask).await?.success().await?)
    }

    /// Reads an object or a range and checks every byte against the version that the answer's
    /// ETag names.
    pub async fn verify_get(
        &self,
        bucket: &str,
        key: &str,
        range: Option<ByteRange>,
        versions: &dyn Versions,
    ) -> Result<Verified, VerifyError> {
        let answer = self.get(bucket, key, range).await?;
        verify::verify(answer, (bucket, key), range, versions).await
    }

    /// Sends any request, once.
    pub async fn request(&self, ask: Ask) -> Result<Answer, ReadError> {
        let timing = Timing { clock: Arc::clone(&self.clock), asked_at: self.clock.now() };
        let request = self.write(ask)?;
        let (response, lease) = self.pool.send(request).await?;
        Ok(Answer::new(response, lease, timing))
    }

    fn write(&self, ask: Ask) -> Result<Request<Full<Bytes>>, ReadError> {
        let (path, query, payload) = (ask.path(), ask.query_string(), ask.payload_hash());
        let Ask { method, mut headers, body, .. } = ask;
        headers.insert(HOST, self.host.clone());
        if let Some(name) = &self.user_agent {
            headers.insert(USER_AGENT, name.clone());
        }
        if let Some(signer) = &self.signer {
            let signable =
                Signable { method: &method, path: &path, query: &query, payload: &payload };
            signer.sign(&signable, self.clock.wall(), &mut headers);
        }
        let target = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut request = Request::builder().method(method).uri(target).body(Full::new(body))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Since when an answer is waited for.
#[derive(Debug)]
struct Timing {
    clock: SharedClock,
    asked_at: Instant,
}

impl Timing {
    fn elapsed(&self) -> Duration {
        self.clock.now().duration_since(self.asked_at)
    }
}

fn ranged(bucket: &str, key: &str, range: Option<ByteRange>) -> Ask {
    let ask = Ask::new(Method::GET, bucket, key);
    match range {
        Some(range) => ask.header(RANGE.as_str(), &range.to_range_header()),
        None => ask,
    }
}
