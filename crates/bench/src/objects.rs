//! The objects of a bucket that a load may read.

use forebay_testkit::Reader;

use crate::error::BenchError;
use crate::limits::MAX_LISTED;
use crate::target::Target;

/// An object's key and size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The key.
    pub key: String,
    /// The size.
    pub size_bytes: u64,
}

impl Object {
    /// An object that is known to be there.
    pub fn new(key: &str, size_bytes: u64) -> Self {
        Self { key: key.to_owned(), size_bytes }
    }
}

/// Lists what is below `prefix`, as S3 does; at most 20,000 objects.
pub async fn list(target: &Target, prefix: &str) -> Result<Vec<Object>, BenchError> {
    let failed = |reason: String| BenchError::List {
        target: target.name().to_owned(),
        bucket: target.bucket().to_owned(),
        prefix: prefix.to_owned(),
        reason,
    };
    let endpoint = format!("http://{}", target.address());
    let mut reader = Reader::new(&endpoint).map_err(|error| failed(error.to_string()))?;
    if let Some(key) = target.key() {
        reader = reader.signed_by(key);
    }
    let mut objects = Vec::new();
    let mut token = None;
    loop {
        let page = reader.list_v2(target.bucket(), prefix, token.as_deref()).await;
        let page = page.map_err(|error| failed(error.to_string()))?;
        let listed = page.objects.iter().map(|found| Object::new(&found.key, found.size_bytes));
        objects.extend(listed);
        token = page.next;
        if token.is_none() || objects.len() >= MAX_LISTED {
            break;
        }
    }
    if objects.is_empty() {
        return Err(failed("nothing there: name another --bucket or --prefix".into()));
    }
    Ok(objects)
}
