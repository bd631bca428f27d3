//! Derived signing keys, remembered: four HMACs a day and client instead of a request.

use forebay_telemetry::Secret;
use quick_cache::sync::Cache;
use ring::hmac;

use super::authorization::Authorization;

/// Derived keys kept. Two days of two regions of a hundred access keys fit.
const MAX_SIGNING_KEYS: usize = 512;

/// Signing keys by credential: `AKID/20130524/us-east-1/s3/aws4_request`.
///
/// Belongs to one set of access keys and goes with it, so a changed secret leaves nothing
/// behind.
pub(crate) struct SigningKeys(Cache<Box<str>, hmac::Key>);

impl SigningKeys {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self(Cache::new(MAX_SIGNING_KEYS))
    }

    /// The signing key of a credential.
    pub(super) fn get(&self, authorization: &Authorization<'_>, secret: &Secret) -> SigningKey {
        match self.0.get(authorization.credential) {
            Some(key) => SigningKey { key, is_new: false },
            None => SigningKey { key: derive(authorization, secret), is_new: true },
        }
    }

    /// Remembers a key that has just verified a signature: without the secret nobody can fill
    /// the cache with credentials of their own invention.
    pub(super) fn remember(&self, authorization: &Authorization<'_>, signing_key: SigningKey) {
        if signing_key.is_new {
            self.0.insert(authorization.credential.into(), signing_key.key);
        }
    }
}

/// A key derived from a secret for one day, region and service.
pub(super) struct SigningKey {
    pub(super) key: hmac::Key,
    is_new: bool,
}

fn derive(authorization: &Authorization<'_>, secret: &Secret) -> hmac::Key {
    let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{}", secret.reveal()).as_bytes());
    [authorization.date, authorization.region, "s3", "aws4_request"].iter().fold(
        first,
        |key, part| {
            let derived = hmac::sign(&key, part.as_bytes());
            hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref())
        },
    )
}
