//! Access keys and what each may do.

use std::collections::HashMap;
use std::sync::Arc;

use forebay_telemetry::Secret;
use forebay_types::BucketName;

use crate::code::Code;
use crate::error::S3Error;
use crate::sigv4::SigningKeys;

/// A client's identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessKey {
    /// What the client calls itself.
    pub id: Arc<str>,
    /// What it signs with.
    pub secret: Secret,
    /// What it may do. Nothing else; and a denial beats every permission.
    pub grants: Vec<Grant>,
}

/// One line of what an access key may or may not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Whether it permits or denies.
    pub effect: Effect,
    /// In which bucket.
    pub bucket: BucketPattern,
    /// On which keys: those that begin so. Empty for all, and for the bucket itself.
    pub prefix: String,
    /// GET and HEAD of objects.
    pub read: bool,
    /// Everything that changes something.
    pub write: bool,
    /// LIST, and what else a bucket tells of itself.
    pub list: bool,
}

/// Whether a grant permits or denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It permits.
    Allow,
    /// It denies, whatever another grant permits.
    Deny,
}

/// Which buckets a rule or a grant is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BucketPattern {
    /// `*`.
    Any,
    /// This one.
    Exactly(BucketName),
}

impl BucketPattern {
    /// Whether `bucket` is meant.
    pub fn matches(&self, bucket: &BucketName) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(name) => name == bucket,
        }
    }
}

/// All access keys of an endpoint.
pub struct AccessKeys {
    by_id: HashMap<Arc<str>, Arc<AccessKey>>,
    pub(crate) signing: SigningKeys,
}

impl AccessKeys {
    /// The keys by their ids; of two with the same id the later one counts.
    pub fn new(keys: impl IntoIterator<Item = AccessKey>) -> Self {
        let by_id = keys.into_iter().map(|key| (key.id.clone(), Arc::new(key))).collect();
        Self { by_id, signing: SigningKeys::new() }
    }

    /// The key of that id.
    pub(crate) fn get(&self, id: &str) -> Result<&Arc<AccessKey>, S3Error> {
        self.by_id.get(id).ok_or_else(|| {
            S3Error::new(
                Code::InvalidAccessKeyId,
                "The AWS Access Key Id you provided does not exist in our records.",
            )
        })
    }
}

impl std::fmt::Debug for AccessKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.by_id.keys()).finish()
    }
}
