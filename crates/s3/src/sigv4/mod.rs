//! Our own verifier for the requests that make up nearly all traffic: GET and HEAD without a
//! body, signed in the Authorization header (AWS4-HMAC-SHA256).
//!
//! It costs one SHA-256 and one HMAC a request, because derived signing keys are remembered.
//! Everything else (presigned, streaming, with a body) is `s3s_verifier`'s; a differential
//! test holds the two to the same verdicts.

mod authorization;
mod canonical;
mod signing_keys;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use http::request::Parts;
use ring::{digest, hmac};

pub(crate) use authorization::{Authorization, Credential, SCHEME, parse_signed_headers};
pub(crate) use signing_keys::SigningKeys;

use crate::code::Code;
use crate::error::S3Error;
use crate::keys::{AccessKey, AccessKeys};
use crate::query::Query;

/// How far the client's clock may be from ours, in either direction.
pub(crate) const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// What a request without a streamed body may say of its payload.
pub(crate) const CONTENT_SHA256: &str = "x-amz-content-sha256";

/// What S3 says of a wrong signature.
pub(crate) const MISMATCH: &str = "The request signature we calculated does not match the \
                                   signature you provided. Check your key and signing method.";

/// Checks the signature of a request that has no body, and says whose it is.
pub(crate) fn verify<'k>(
    keys: &'k AccessKeys,
    parts: &Parts,
    query: &Query,
    now: SystemTime,
) -> Result<&'k Arc<AccessKey>, S3Error> {
    let authorization = Authorization::of(&parts.headers)?;
    require_signed(&parts.headers, &authorization.signed_headers)?;
    let amz_date = check_date(&authorization, &parts.headers, now)?;
    let payload_hash = payload_hash(&parts.headers)?;
    let key = keys.get(authorization.access_key)?;

    let signing_key = keys.signing.get(&authorization, &key.secret);
    let request = canonical::Request { parts, query, authorization: &authorization, payload_hash };
    for path in canonical::paths(parts.uri.path()) {
        let hash = digest::digest(&digest::SHA256, &request.canonical(&path));
        let to_sign = string_to_sign(amz_date, authorization.scope, hash.as_ref());
        if hmac::verify(&signing_key.key, &to_sign, &authorization.signature).is_ok() {
            keys.signing.remember(&authorization, signing_key);
            return Ok(key);
        }
    }
    Err(S3Error::new(Code::SignatureDoesNotMatch, MISMATCH))
}

/// Every header that can change what a request means has to be signed, and every header that
/// is said to be signed has to be there.
pub(crate) fn require_signed(headers: &HeaderMap, signed: &[&str]) -> Result<(), S3Error> {
    let is_signed = |name: &str| signed.contains(&name);
    let unsigned = std::iter::once("host")
        .chain(
            headers.keys().map(http::HeaderName::as_str).filter(|name| name.starts_with("x-amz-")),
        )
        .find(|name| !is_signed(name));
    if let Some(name) = unsigned {
        let why =
            format!("There were headers present in the request which were not signed: {name}");
        return Err(S3Error::new(Code::AccessDenied, why));
    }
    if let Some(name) = signed.iter().find(|name| !headers.contains_key(**name)) {
        let why = format!("The signed header {name} is not in the request.");
        return Err(S3Error::new(Code::SignatureDoesNotMatch, why));
    }
    Ok(())
}

fn amz_date(headers: &HeaderMap) -> Result<&str, S3Error> {
    headers.get("x-amz-date").and_then(|value| value.to_str().ok()).ok_or_else(|| {
        S3Error::new(Code::AccessDenied, "AWS authentication requires a valid x-amz-date header")
    })
}

/// Checks when a request says that it was signed, and gives that back.
pub(crate) fn check_date<'h>(
    authorization: &Authorization<'_>,
    headers: &'h HeaderMap,
    now: SystemTime,
) -> Result<&'h str, S3Error> {
    let amz_date = amz_date(headers)?;
    let signed_at = parse_amz_date(amz_date).ok_or_else(|| {
        S3Error::new(Code::AccessDenied, "x-amz-date is not of the form 20130524T000000Z")
    })?;
    if amz_date.get(..8) != Some(authorization.date) {
        let why = "The date in the credential scope is not the date of x-amz-date.";
        return Err(S3Error::new(Code::SignatureDoesNotMatch, why));
    }
    let apart = now.duration_since(signed_at).unwrap_or_else(|early| early.duration());
    if apart > MAX_SKEW {
        let why = "The difference between the request time and the current time is too large.";
        return Err(S3Error::new(Code::RequestTimeTooSkewed, why));
    }
    Ok(amz_date)
}

/// Reads `20130524T000000Z`.
pub(crate) fn parse_amz_date(text: &str) -> Option<SystemTime> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |at: std::ops::Range<usize>| {
        bytes[at].iter().try_fold(0u16, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u16::from(digit - b'0'))
        })
    };
    let small = |at| number(at).map(|number| number as u8);
    let month = time::Month::try_from(small(4..6)?).ok()?;
    let date =
        time::Date::from_calendar_date(i32::from(number(0..4)?), month, small(6..8)?).ok()?;
    let moment = date.with_hms(small(9..11)?, small(11..13)?, small(13..15)?).ok()?;
    let seconds = u64::try_from(moment.assume_utc().unix_timestamp()).ok()?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

fn payload_hash(headers: &HeaderMap) -> Result<&str, S3Error> {
    let value =
        headers.get(CONTENT_SHA256).and_then(|value| value.to_str().ok()).ok_or_else(|| {
            S3Error::new(
                Code::InvalidRequest,
                "Missing required header for this request: x-amz-content-sha256",
            )
        })?;
    let is_hash = || value.len() == 64 && value.bytes().all(|b| b.is_ascii_hexdigit());
    if value == "UNSIGNED-PAYLOAD" || is_hash() {
        return Ok(value);
    }
    let why = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD or a valid sha256 value.";
    Err(S3Error::new(Code::InvalidArgument, why))
}

fn string_to_sign(amz_date: &str, scope: &str, canonical_hash: &[u8]) -> Vec<u8> {
    let mut hex_hash = [0; 64];
    // A SHA-256 is 32 bytes, which is 64 digits; anything else would leave zeros, which match
    // no signature.
    let _ = hex::encode_to_slice(canonical_hash, &mut hex_hash);
    let mut out = Vec::with_capacity(160);
    for part in
        [SCHEME.as_bytes(), b"\n", amz_date.as_bytes(), b"\n", scope.as_bytes(), b"\n", &hex_hash]
    {
        out.extend_from_slice(part);
    }
    out
}

#[cfg(test)]
mod tests;
