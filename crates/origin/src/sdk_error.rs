//! From what the SDK says went wrong to what it means.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;

use crate::error::{Failure, OriginError, RetryReason};

/// What a failed call of the SDK means. `pinned`: it asked for one version and no other.
pub(crate) fn failure<E>(error: &SdkError<E, HttpResponse>, pinned: bool) -> Failure
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(service) => answered(
            service.raw().status().as_u16(),
            service.err().code().unwrap_or_default(),
            service.err().message().unwrap_or_default(),
            pinned,
        ),
        SdkError::ResponseError(response) => {
            answered(response.raw().status().as_u16(), "", "", pinned)
        }
        SdkError::DispatchFailure(dispatch) => {
            dispatch.as_connector_error().map_or_else(|| broken(error), unanswered)
        }
        SdkError::TimeoutError(_) => Failure::again(RetryReason::Timeout, detail(error)),
        _ => broken(error),
    }
}

/// No answer came.
pub(crate) fn unanswered(error: &ConnectorError) -> Failure {
    let reason = if is_credentials(error) {
        RetryReason::Credentials
    } else if error.is_timeout() {
        RetryReason::Timeout
    } else {
        RetryReason::Connection
    };
    Failure::again(reason, detail(error))
}

/// What an error status with its S3 code means. HEAD has no body, hence no code.
pub(crate) fn answered(status: u16, code: &str, message: &str, pinned: bool) -> Failure {
    let said = || if code.is_empty() { status.to_string() } else { format!("{status} {code}") };
    match (status, code) {
        (200..300, _) => {
            Failure::last(OriginError::Uncacheable("a header of the answer is malformed"))
        }
        (412, _) => Failure::last(OriginError::Moved),
        // The pinned version, or bytes that it had, are gone.
        (416, _) | (404, "NoSuchVersion") if pinned => Failure::last(OriginError::Moved),
        (416, _) => Failure::last(OriginError::Unsatisfiable),
        (429 | 503, _) | (_, "SlowDown") => Failure::again(RetryReason::Throttled, said()),
        (400 | 403, "ExpiredToken" | "TokenRefreshRequired") => {
            Failure::again(RetryReason::Credentials, said())
        }
        (408, _) | (400, "RequestTimeout") => Failure::again(RetryReason::Timeout, said()),
        (500.., _) => Failure::again(RetryReason::ServerError, said()),
        (400..500, _) => {
            // What the SDK makes of a 404 without a body is not a code of S3.
            let is_absent = code.is_empty() || code == "NotFound";
            let code = if is_absent { code_of(status) } else { code };
            Failure::last(OriginError::refused(status, code, message))
        }
        _ => Failure::last(OriginError::Unavailable(format!(
            "unexpected status {}; if the bucket is in another region, set the rule's region",
            said()
        ))),
    }
}

/// An error with its causes, on one line. Causes of the SDK hold no secrets.
pub(crate) fn detail(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.ends_with(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

fn broken<E>(error: &SdkError<E, HttpResponse>) -> Failure
where
    E: Error + 'static,
{
    let reason =
        if is_credentials(error) { RetryReason::Credentials } else { RetryReason::Connection };
    Failure::again(reason, detail(error))
}

fn is_credentials(error: &(dyn Error + 'static)) -> bool {
    std::iter::successors(Some(error), |&error| error.source())
        .any(<dyn Error>::is::<CredentialsError>)
}

/// The code that S3 would have given with a body.
fn code_of(status: u16) -> &'static str {
    match status {
        401 | 403 => "AccessDenied",
        404 => "NoSuchKey",
        405 => "MethodNotAllowed",
        409 => "OperationAborted",
        _ => "InvalidRequest",
    }
}
