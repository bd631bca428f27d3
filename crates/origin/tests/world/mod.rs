//! What the tests of this crate are set up with.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forebay_origin::{
    CredentialsSource, ForwardBody, Origin, OriginBody, OriginConfig, OriginError,
};
use forebay_rt::{Backoff, SeededRng, SystemClock};
use forebay_telemetry::Secret;
use forebay_types::{BucketName, ByteRange, ObjectKey, ObjectName, RuleId};
use futures_util::StreamExt;
use http_body_util::{BodyExt, Full};

pub(crate) const ACCESS_KEY: &str = "AKIDEXAMPLE";
pub(crate) const SECRET: &str = "wJalrXUtnFEMIhush";

pub(crate) fn keys(access_key_id: &str, secret: &str) -> CredentialsSource {
    CredentialsSource::Static {
        access_key_id: access_key_id.into(),
        secret: Secret::new(secret),
        session_token: None,
    }
}

/// Patient enough for a busy machine, quick to try again.
pub(crate) fn config(endpoint: &str) -> OriginConfig {
    let waits = Duration::from_millis(1);
    OriginConfig {
        retry: Backoff { base: waits, cap: waits, tries: 3 },
        first_byte_timeout: Duration::from_secs(5),
        stall_timeout: Duration::from_secs(5),
        ..OriginConfig::at(endpoint, keys(ACCESS_KEY, SECRET))
    }
}

pub(crate) async fn connect(config: OriginConfig) -> Arc<Origin> {
    let rng = Arc::new(SeededRng::new(1));
    Origin::connect(config, Arc::new(SystemClock), rng).await.unwrap()
}

pub(crate) fn bucket(name: &str) -> BucketName {
    BucketName::new(name).unwrap()
}

pub(crate) fn object(key: &str) -> ObjectName {
    ObjectName {
        rule: RuleId(1),
        bucket: bucket("train"),
        key: ObjectKey::new(key).unwrap(),
        version_id: None,
    }
}

pub(crate) fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end).unwrap()
}

/// All bytes of a body, and the error that ended it, if one did.
pub(crate) async fn drain(mut body: OriginBody) -> (Vec<u8>, Option<OriginError>) {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frames.next().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(&frame),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

pub(crate) fn request(
    method: &str,
    target: &str,
    body: impl Into<Bytes>,
) -> http::Request<ForwardBody> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    http::Request::builder().method(method).uri(target).body(body).unwrap()
}

pub(crate) async fn body_of(response: http::Response<ForwardBody>) -> Vec<u8> {
    response.into_body().collect().await.unwrap().to_bytes().to_vec()
}

#[allow(dead_code, reason = "not every test has an origin that fails")]
pub(crate) fn unavailable(error: Option<OriginError>) -> String {
    match error {
        Some(OriginError::Unavailable(detail)) => detail,
        other => panic!("expected an unavailable origin, got {other:?}"),
    }
}
