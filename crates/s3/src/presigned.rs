//! Presigned URLs: what has to be in one before its signature is worth checking, and taking
//! the signature out once it has been checked.

use http::request::Parts;

use crate::code::Code;
use crate::error::S3Error;
use crate::query::Query;
use crate::received::Received;
use crate::sigv4::{Credential, SCHEME, parse_amz_date, parse_signed_headers, require_signed};

/// How long a presigned URL may be good for.
const MAX_EXPIRES_S: u64 = 7 * 24 * 3600;

/// The parameters that a SigV2 signature covers, and those that carry it. Whatever else is in
/// the query anybody could have added to somebody else's URL.
const V2_COVERED: [&str; 23] = [
    "AWSAccessKeyId",
    "Expires",
    "Signature",
    "acl",
    "delete",
    "location",
    "partNumber",
    "policy",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
];

/// Checks the parts of a SigV4 URL that its verifier leaves open.
pub(crate) fn check_v4(parts: &Parts, query: &Query) -> Result<(), S3Error> {
    if query.get("X-Amz-Algorithm") != Some(SCHEME) {
        return Err(bad("X-Amz-Algorithm only supports AWS4-HMAC-SHA256"));
    }
    let expires_s = query.get("X-Amz-Expires").and_then(|value| value.parse::<u64>().ok());
    if expires_s.is_none_or(|seconds| seconds > MAX_EXPIRES_S) {
        return Err(bad("X-Amz-Expires must be a number of seconds of up to a week"));
    }
    if query.get("X-Amz-Date").and_then(parse_amz_date).is_none() {
        return Err(bad("X-Amz-Date must be of the form 20130524T000000Z"));
    }
    let credential = query.get("X-Amz-Credential").unwrap_or_default();
    Credential::parse(credential).map_err(|error| bad(error.message()))?;
    let list = query.get("X-Amz-SignedHeaders").unwrap_or_default();
    let signed = parse_signed_headers(list).map_err(|error| bad(error.message()))?;
    require_signed(&parts.headers, &signed)
}

/// Refuses what a SigV2 URL does not sign.
pub(crate) fn check_v2(query: &Query) -> Result<(), S3Error> {
    let covered = |name: &str| {
        V2_COVERED.contains(&name) || name.eq_ignore_ascii_case("x-amz-security-token")
    };
    match query.names().find(|name| !covered(name)) {
        None => Ok(()),
        Some(name) => {
            let why =
                format!("Query parameter {name:?} is not covered by a SigV2 signature: use SigV4.");
            Err(S3Error::new(Code::AccessDenied, why))
        }
    }
}

/// Takes the signature out of the query.
pub(crate) fn strip(request: &mut Received) {
    if request.query.is_empty() {
        return;
    }
    request.query.take(is_signature);
}

/// Whether a parameter is part of a signature, in whatever case.
pub(crate) fn is_signature(name: &str) -> bool {
    const V4: [&str; 7] = [
        "x-amz-algorithm",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-signedheaders",
        "x-amz-signature",
        "x-amz-security-token",
    ];
    V4.iter().any(|known| name.eq_ignore_ascii_case(known))
        || matches!(name, "AWSAccessKeyId" | "Signature" | "Expires")
}

fn bad(why: &str) -> S3Error {
    S3Error::new(Code::AuthorizationQueryParametersError, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    const SIGNED: &str = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F20130524%2Fr%2Fs3%2Faws4_request\
         &X-Amz-Date=20130524T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host";

    fn v4(query: &str, headers: &[(&str, &str)]) -> Result<(), S3Error> {
        let mut request = Request::get("/b/k").header("host", "h");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_v4(&request.body(()).unwrap().into_parts().0, &Query::parse(Some(query)).unwrap())
    }

    #[test]
    fn a_v4_url_lives_for_a_week_at_most_and_signs_what_matters() {
        assert_eq!(v4(SIGNED, &[]), Ok(()));
        assert_eq!(v4(SIGNED, &[("range", "bytes=0-1")]), Ok(()));
        assert_eq!(v4(SIGNED, &[("x-amz-acl", "public-read")]).unwrap_err().code(), "AccessDenied");
        for query in [
            SIGNED.replace("=60", "=604801"),
            SIGNED.replace("=60", "=-1"),
            SIGNED.replace("SHA256", "SHA1"),
            SIGNED.replace("=host", ""),
            SIGNED.replace("=2013", "=-013"),
            SIGNED.replace("%2F2013", "%2F-013"),
            SIGNED.replace("X-Amz-Date", "x-amz-date"),
        ] {
            let code = "AuthorizationQueryParametersError";
            assert_eq!(v4(&query, &[]).unwrap_err().code(), code, "{query}");
        }
        assert!(v4(&SIGNED.replace("=host", "=range"), &[("range", "bytes=0-1")]).is_err());
    }

    #[test]
    fn a_v2_url_cannot_be_given_further_parameters() {
        let v2 = |query| check_v2(&Query::parse(Some(query)).unwrap());
        assert_eq!(v2("AWSAccessKeyId=a&Expires=1&Signature=s&versionId=v"), Ok(()));
        for query in
            ["Signature=s&attributes", "Signature=s&x-amz-copy-source=b/k", "Signature=s&prefix="]
        {
            assert!(v2(query).is_err(), "{query}");
        }
    }
}
