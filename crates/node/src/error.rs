//! Why a worker did not start: what failed, why, and what to do.

use forebay_origin::SetupError;
use forebay_store::StoreError;
use forebay_telemetry::ExporterError;
use forebay_zerocopy::ListenError;

/// Why a worker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The cache directories cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An origin cannot be used as it is configured.
    #[error("bucket {bucket}: {source}")]
    Origin {
        /// The rule's bucket.
        bucket: String,
        /// What is wrong.
        source: SetupError,
    },
    /// Another recorder is installed in this process.
    #[error(transparent)]
    Metrics(#[from] ExporterError),
}
