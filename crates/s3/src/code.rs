//! The S3 error codes that Forebay itself answers with, and the HTTP status of each.
//!
//! Codes that the origin answers with are not listed: they are handed on as text.

use http::StatusCode;

/// An error code of the S3 dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Code {
    /// The caller may not do this.
    AccessDenied,
    /// The Authorization header cannot be read.
    AuthorizationHeaderMalformed,
    /// The query parameters of a presigned URL cannot be read.
    AuthorizationQueryParametersError,
    /// No other site may use the bucket from a browser.
    AccessForbidden,
    /// The body is not the one that its checksum was made of.
    BadDigest,
    /// Something that the request needs is not there.
    BadRequest,
    /// The request body is too large for the operation.
    EntityTooLarge,
    /// The body ends before its length.
    IncompleteBody,
    /// A mistake of ours.
    InternalError,
    /// No such access key.
    InvalidAccessKeyId,
    /// A header or parameter has a value that S3 does not take.
    InvalidArgument,
    /// The bucket name cannot exist.
    InvalidBucketName,
    /// No byte of the object lies in the range.
    InvalidRange,
    /// The request as a whole makes no sense.
    InvalidRequest,
    /// The path or query cannot be decoded.
    InvalidUri,
    /// The key is longer than S3 allows.
    KeyTooLongError,
    /// The body is not the XML that the operation takes.
    MalformedXml,
    /// The trailer that was announced is not there or cannot be read.
    MalformedTrailerError,
    /// The resource does not know the method.
    MethodNotAllowed,
    /// A body of unknown length where S3 wants one.
    MissingContentLength,
    /// No rule names the bucket.
    NoSuchBucket,
    /// The key does not exist.
    NoSuchKey,
    /// A feature of S3 that Forebay does not have.
    NotImplemented,
    /// A conditional header does not hold.
    PreconditionFailed,
    /// The client has stopped sending.
    RequestTimeout,
    /// The signature is too old or from the future.
    RequestTimeTooSkewed,
    /// The origin cannot be reached: ask again later.
    ServiceUnavailable,
    /// The signature is not the one that the secret gives.
    SignatureDoesNotMatch,
    /// A limit was reached: ask again later.
    SlowDown,
    /// The body is not the one whose hash was signed.
    XAmzContentSha256Mismatch,
}

impl Code {
    /// The text between `<Code>` and `</Code>`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AccessDenied => "AccessDenied",
            Self::AuthorizationHeaderMalformed => "AuthorizationHeaderMalformed",
            Self::AuthorizationQueryParametersError => "AuthorizationQueryParametersError",
            Self::AccessForbidden => "AccessForbidden",
            Self::BadDigest => "BadDigest",
            Self::BadRequest => "BadRequest",
            Self::EntityTooLarge => "EntityTooLarge",
            Self::IncompleteBody => "IncompleteBody",
            Self::InternalError => "InternalError",
            Self::InvalidAccessKeyId => "InvalidAccessKeyId",
            Self::InvalidArgument => "InvalidArgument",
            Self::InvalidBucketName => "InvalidBucketName",
            Self::InvalidRange => "InvalidRange",
            Self::InvalidRequest => "InvalidRequest",
            Self::InvalidUri => "InvalidURI",
            Self::KeyTooLongError => "KeyTooLongError",
            Self::MalformedXml => "MalformedXML",
            Self::MalformedTrailerError => "MalformedTrailerError",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::MissingContentLength => "MissingContentLength",
            Self::NoSuchBucket => "NoSuchBucket",
            Self::NoSuchKey => "NoSuchKey",
            Self::NotImplemented => "NotImplemented",
            Self::PreconditionFailed => "PreconditionFailed",
            Self::RequestTimeout => "RequestTimeout",
            Self::RequestTimeTooSkewed => "RequestTimeTooSkewed",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::SignatureDoesNotMatch => "SignatureDoesNotMatch",
            Self::SlowDown => "SlowDown",
            Self::XAmzContentSha256Mismatch => "XAmzContentSHA256Mismatch",
        }
    }

    /// The HTTP status that S3 gives it.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::AccessDenied
            | Self::AccessForbidden
            | Self::InvalidAccessKeyId
            | Self::RequestTimeTooSkewed
            | Self::SignatureDoesNotMatch => StatusCode::FORBIDDEN,
            Self::AuthorizationHeaderMalformed
            | Self::AuthorizationQueryParametersError
            | Self::BadDigest
            | Self::BadRequest
            | Self::EntityTooLarge
            | Self::IncompleteBody
            | Self::InvalidArgument
            | Self::InvalidBucketName
            | Self::InvalidRequest
            | Self::InvalidUri
            | Self::KeyTooLongError
            | Self::MalformedTrailerError
            | Self::MalformedXml
            | Self::RequestTimeout
            | Self::XAmzContentSha256Mismatch => StatusCode::BAD_REQUEST,
            Self::NoSuchBucket | Self::NoSuchKey => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::MissingContentLength => StatusCode::LENGTH_REQUIRED,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::InvalidRange => StatusCode::RANGE_NOT_SATISFIABLE,
            Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            Self::ServiceUnavailable | Self::SlowDown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}
