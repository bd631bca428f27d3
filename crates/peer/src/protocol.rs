//! Asks and answers as HTTP: one path for each operation, messages in headers, bytes as bodies.

use forebay_wire::peer::Failure;
use http::{HeaderName, Method, StatusCode};

/// The message of an ask.
pub(crate) const ASK: HeaderName = HeaderName::from_static("x-forebay-ask");
/// The message of an answer: the operation's where the status is 200, else a [`Failure`].
pub(crate) const ANSWER: HeaderName = HeaderName::from_static("x-forebay-answer");
/// The epoch that the answering worker is on. In every answer.
pub(crate) const EPOCH: HeaderName = HeaderName::from_static("x-forebay-epoch");

/// What a worker can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Open,
    Read,
    Peek,
    Recall,
    Warm,
    Forget,
    View,
    Ping,
}

impl Op {
    pub(crate) const ALL: [Self; 8] = [
        Self::Open,
        Self::Read,
        Self::Peek,
        Self::Recall,
        Self::Warm,
        Self::Forget,
        Self::View,
        Self::Ping,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Peek => "peek",
            Self::Recall => "recall",
            Self::Warm => "warm",
            Self::Forget => "forget",
            Self::View => "view",
            Self::Ping => "ping",
        }
    }

    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Open => "/v1/open",
            Self::Read => "/v1/read",
            Self::Peek => "/v1/peek",
            Self::Recall => "/v1/recall",
            Self::Warm => "/v1/warm",
            Self::Forget => "/v1/forget",
            Self::View => "/v1/view",
            Self::Ping => "/v1/ping",
        }
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Warm | Self::Forget => Method::POST,
            Self::Open | Self::Read | Self::Peek | Self::Recall | Self::View | Self::Ping => {
                Method::GET
            }
        }
    }

    /// The operation that a request names.
    pub(crate) fn of(method: &Method, path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.path() == path && op.method() == method)
    }
}

/// The status of a failure: for people who look at the wire. Peers read the message.
pub(crate) fn status_of(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Refused { status, .. } => StatusCode::from_u16(*status)
            .ok()
            .filter(|status| status.is_client_error() || status.is_server_error())
            .unwrap_or(StatusCode::BAD_GATEWAY),
        Failure::Uncacheable(_) => StatusCode::UNPROCESSABLE_ENTITY,
        Failure::Moved => StatusCode::CONFLICT,
        Failure::SlowDown => StatusCode::SERVICE_UNAVAILABLE,
        Failure::OriginUnavailable(_) => StatusCode::BAD_GATEWAY,
        Failure::NotOwner(_) => StatusCode::MISDIRECTED_REQUEST,
        Failure::NoSuchRule => StatusCode::NOT_FOUND,
        Failure::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_own_request_only() {
        for op in Op::ALL {
            assert_eq!(Op::of(&op.method(), op.path()), Some(op));
            assert_eq!(Op::of(&Method::PUT, op.path()), None);
        }
        assert_eq!(Op::of(&Method::GET, "/v1/forget"), None);
        assert_eq!(Op::of(&Method::GET, "/"), None);
    }

    #[test]
    fn no_failure_looks_like_a_success() {
        for status in [0, 100, 200, 304, 999] {
            let (code, message) = (String::new(), String::new());
            let failure = Failure::Refused { status, code, message };
            assert!(!status_of(&failure).is_success(), "{status}");
        }
    }
}
