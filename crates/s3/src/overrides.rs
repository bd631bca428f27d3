//! The `response-*` parameters: headers that this one answer carries instead of the object's.

use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::code::Code;
use crate::error::S3Error;
use crate::query::Query;

/// The header that a `response-*` parameter stands for.
pub(crate) fn header_of(parameter: &str) -> Option<HeaderName> {
    match parameter {
        "response-content-type" => Some(header::CONTENT_TYPE),
        "response-content-language" => Some(header::CONTENT_LANGUAGE),
        "response-expires" => Some(header::EXPIRES),
        "response-cache-control" => Some(header::CACHE_CONTROL),
        "response-content-disposition" => Some(header::CONTENT_DISPOSITION),
        "response-content-encoding" => Some(header::CONTENT_ENCODING),
        _ => None,
    }
}

/// Refuses overrides in a request that is not signed, as S3 does: a link that anybody can write
/// must not decide as what a browser shows an object. Where it is forwarded, the origin sees our
/// signature and would grant them.
pub(crate) fn refuse_unsigned(query: &Query, signed: bool) -> Result<(), S3Error> {
    if signed || !query.names().any(|name| header_of(name).is_some()) {
        return Ok(());
    }
    let why = "Request specific response headers cannot be used for anonymous GET requests.";
    Err(S3Error::new(Code::InvalidRequest, why))
}

/// Reads the overrides of a request.
pub(crate) fn overrides(query: &Query, signed: bool) -> Result<HeaderMap, S3Error> {
    refuse_unsigned(query, signed)?;
    let mut headers = HeaderMap::new();
    for name in query.names() {
        let Some(header) = header_of(name) else { continue };
        let value = query.get(name).unwrap_or_default();
        let value = HeaderValue::from_str(value).map_err(|_| {
            S3Error::new(Code::InvalidArgument, format!("{name}: {value:?} cannot be a header."))
        })?;
        headers.insert(header, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_for_signed_requests_and_real_header_values() {
        let query =
            Query::parse(Some("response-content-type=text%2Fplain&x-id=GetObject")).unwrap();
        assert_eq!(overrides(&query, true).unwrap()[header::CONTENT_TYPE], "text/plain");
        assert!(overrides(&query, false).is_err());
        assert!(
            overrides(&Query::parse(Some("x-id=GetObject")).unwrap(), false).unwrap().is_empty()
        );
        let split = Query::parse(Some("response-content-type=a%0D%0Aset-cookie:x")).unwrap();
        assert!(overrides(&split, true).is_err());
    }
}
