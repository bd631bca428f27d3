//! A reader of several endpoints that answer alike, as an SDK behind one name sees them: when
//! its connection breaks, or an answer says to try again, it asks another one.

use forebay_types::ByteRange;

use super::{ReadError, Reader, Verified, VerifyError, Versions};

/// Clients of the same objects.
#[derive(Debug, Clone)]
pub struct AnyOf {
    readers: Vec<Reader>,
}

impl AnyOf {
    /// Asks these, at least one.
    pub fn new(readers: Vec<Reader>) -> Self {
        Self { readers }
    }

    /// As [`Reader::verify_get`], first of the endpoint `first`, modulo their number. Each is
    /// asked once; what only that endpoint could do wrong is not asked again.
    pub async fn verify_get(
        &self,
        first: usize,
        (bucket, key): (&str, &str),
        range: Option<ByteRange>,
        versions: &dyn Versions,
    ) -> Result<Verified, VerifyError> {
        let count = self.readers.len();
        let mut last = None;
        for reader in self.readers.iter().cycle().skip(first % count).take(count) {
            match reader.verify_get(bucket, key, range, versions).await {
                Err(error) if is_worth_another(&error) => last = Some(error),
                settled => return settled,
            }
        }
        Err(last.unwrap_or_else(|| ReadError::Endpoint("no endpoint".into()).into()))
    }
}

fn is_worth_another(error: &VerifyError) -> bool {
    match error {
        VerifyError::Failed(ReadError::Connect(_) | ReadError::Broken(_)) => true,
        VerifyError::Status { status, .. } => status.is_server_error(),
        _ => false,
    }
}
