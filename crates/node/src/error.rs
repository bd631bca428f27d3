//! Why a process did not start: what failed, why, and what to do.

use forebay_meta::VoterError;
use forebay_origin::SetupError;
use forebay_store::StoreError;
use forebay_telemetry::ExporterError;
use forebay_zerocopy::ListenError;

use crate::identity::IdentityError;
use crate::tls_port::TlsError;

/// Why a process did not start.
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
    /// It is not known who this worker is.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The certificate of the S3 port cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The voter in this process.
    #[error(transparent)]
    Voter(#[from] VoterError),
    /// Another recorder is installed in this process.
    #[error(transparent)]
    Metrics(#[from] ExporterError),
}
