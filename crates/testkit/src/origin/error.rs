//! S3 errors as this origin answers them.

use http::StatusCode;

use crate::xml::Malformed;

/// An S3 error code with its status and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct S3Error {
    pub(super) status: StatusCode,
    pub(super) code: String,
    pub(super) message: String,
    /// `Content-Range` of a 416.
    pub(super) size_bytes: Option<u64>,
}

impl S3Error {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), size_bytes: None }
    }

    pub(super) fn no_such_key() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NoSuchKey", "The specified key does not exist.")
    }

    pub(super) fn no_such_bucket() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NoSuchBucket", "The specified bucket does not exist")
    }

    pub(super) fn no_such_upload() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NoSuchUpload", "The specified upload does not exist.")
    }

    pub(super) fn precondition_failed() -> Self {
        Self::new(
            StatusCode::PRECONDITION_FAILED,
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
        )
    }

    pub(super) fn invalid_range(size_bytes: u64) -> Self {
        let mut error = Self::new(
            StatusCode::RANGE_NOT_SATISFIABLE,
            "InvalidRange",
            "The requested range is not satisfiable",
        );
        error.size_bytes = Some(size_bytes);
        error
    }

    pub(super) fn slow_down() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "SlowDown", "Please reduce your request rate.")
    }

    pub(super) fn malformed_xml() -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "MalformedXML",
            "The XML you provided was not well-formed or did not validate",
        )
    }

    pub(super) fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "InvalidArgument", message)
    }

    pub(super) fn not_implemented(what: &str) -> Self {
        let message = format!("the fault origin does not implement {what}");
        Self::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    pub(super) fn denied(code: &str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, message)
    }
}

impl From<Malformed> for S3Error {
    fn from(_: Malformed) -> Self {
        Self::malformed_xml()
    }
}
