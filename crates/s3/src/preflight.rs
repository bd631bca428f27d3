//! OPTIONS: what a browser asks before a request from another site, without a signature.
//!
//! Training jobs run in no browser, and buckets have no CORS rules here, so the answer is the one
//! of a bucket without any. Nothing is forwarded for a caller who has not said who it is.

use http::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::code::Code;
use crate::error::S3Error;

/// Refuses a preflight, as S3 refuses it.
pub(crate) fn refuse(parts: &Parts) -> Result<(), S3Error> {
    if parts.method == Method::OPTIONS { Err(refusal(&parts.headers)) } else { Ok(()) }
}

fn refusal(headers: &HeaderMap) -> S3Error {
    let missing = |what| {
        S3Error::new(Code::BadRequest, format!("Insufficient information. {what} header needed."))
    };
    if !headers.contains_key(ORIGIN) {
        return missing("Origin request");
    }
    if !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
        return missing("Access-Control-Request-Method");
    }
    S3Error::new(
        Code::AccessForbidden,
        "CORSResponse: CORS is not enabled for this bucket. Ask the origin itself from a browser.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: &str, headers: &[(&'static str, &'static str)]) -> Option<String> {
        let mut request = http::Request::builder().method(method).uri("/b/k");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        refuse(&parts).err().map(|error| error.code().to_string())
    }

    #[test]
    fn a_preflight_is_refused_for_what_it_lacks_and_for_want_of_rules() {
        let asks = ("access-control-request-method", "GET");
        assert_eq!(code("OPTIONS", &[]).unwrap(), "BadRequest");
        assert_eq!(code("OPTIONS", &[("origin", "http://a")]).unwrap(), "BadRequest");
        assert_eq!(code("OPTIONS", &[("origin", "http://a"), asks]).unwrap(), "AccessForbidden");
        assert_eq!(code("GET", &[("origin", "http://a"), asks]), None);
    }
}
