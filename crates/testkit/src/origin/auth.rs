//! Who may ask: SigV4 header signatures, checked by signing the request again with the AWS
//! crate and comparing. Presigned URLs and SigV2 are absent: nothing that Forebay sends to an
//! origin uses them. The signatures of single aws-chunked chunks are not checked.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{
    PercentEncodingMode, SignableBody, SignableRequest, SigningSettings, UriPathNormalizationMode,
    sign,
};
use aws_sigv4::sign::v4;
use http::StatusCode;
use http::header::{AUTHORIZATION, HOST};
use time::macros::format_description;
use time::{PrimitiveDateTime, UtcDateTime};

use super::error::S3Error;
use super::http::Request;
use crate::sign::{AccessKey, UNSIGNED_PAYLOAD, encode_path, sha256_hex};

/// How far a client's clock may be off, as at S3.
const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// The access keys that count.
#[derive(Debug)]
pub(super) struct Gate {
    secrets: BTreeMap<String, String>,
    anonymous: bool,
}

/// The fields of an `AWS4-HMAC-SHA256` header.
#[derive(Debug)]
struct Claim<'a> {
    key_id: &'a str,
    day: &'a str,
    region: &'a str,
    signed_headers: Vec<&'a str>,
    signature: &'a str,
}

impl Gate {
    pub(super) fn new(keys: &[AccessKey], anonymous: bool) -> Self {
        let secrets = keys.iter().map(|key| (key.id.clone(), key.secret.clone())).collect();
        Self { secrets, anonymous }
    }

    /// Lets the request in, or says why not. A signature that is sent must be right even
    /// where none is asked for.
    pub(super) fn check(&self, request: &Request, now: SystemTime) -> Result<(), S3Error> {
        let Some(header) = request.header(AUTHORIZATION.as_str()) else {
            return if self.anonymous {
                Ok(())
            } else {
                Err(S3Error::denied("AccessDenied", "Access Denied"))
            };
        };
        let claim = Claim::parse(header).ok_or_else(malformed)?;
        let secret = self.secrets.get(claim.key_id).ok_or_else(|| {
            let message = "The AWS Access Key Id you provided does not exist in our records.";
            S3Error::denied("InvalidAccessKeyId", message)
        })?;
        let signed_at = signed_at(request, &claim)?;
        let skew = now.duration_since(signed_at).unwrap_or_else(|early| early.duration());
        if skew > MAX_SKEW {
            let message =
                "The difference between the request time and the current time is too large.";
            return Err(S3Error::denied("RequestTimeTooSkewed", message));
        }
        claim.check(request, secret, signed_at)
    }
}

/// Checks a body against the hash that was signed with the head.
pub(super) fn check_payload(request: &Request, body: &[u8]) -> Result<(), S3Error> {
    let declared = request.header("x-amz-content-sha256").unwrap_or(UNSIGNED_PAYLOAD);
    if declared == UNSIGNED_PAYLOAD || is_streaming(request) || declared == sha256_hex(body) {
        return Ok(());
    }
    let message = "The provided 'x-amz-content-sha256' header does not match what was computed.";
    Err(S3Error::new(StatusCode::BAD_REQUEST, "XAmzContentSHA256Mismatch", message))
}

/// Whether the body comes in aws-chunked framing.
pub(super) fn is_streaming(request: &Request) -> bool {
    request.header("x-amz-content-sha256").is_some_and(|hash| hash.starts_with("STREAMING-"))
        || request.header("content-encoding").is_some_and(|coding| coding.contains("aws-chunked"))
}

impl<'a> Claim<'a> {
    fn parse(header: &'a str) -> Option<Self> {
        let fields = header.strip_prefix("AWS4-HMAC-SHA256")?;
        let field = |name: &str| {
            let mut fields = fields.split(',').map(str::trim);
            fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
        };
        let mut scope = field("Credential")?.rsplitn(5, '/');
        let (end, service) = (scope.next()?, scope.next()?);
        let (region, day, key_id) = (scope.next()?, scope.next()?, scope.next()?);
        let signed_headers: Vec<_> = field("SignedHeaders")?.split(';').collect();
        let is_whole = end == "aws4_request" && service == "s3" && signed_headers.contains(&"host");
        is_whole.then_some(Self {
            key_id,
            day,
            region,
            signed_headers,
            signature: field("Signature")?,
        })
    }

    /// Both forms of the path count: as it was sent, and encoded as S3 itself would.
    fn check(&self, request: &Request, secret: &str, at: SystemTime) -> Result<(), S3Error> {
        let decoded = percent_encoding::percent_decode_str(&request.path).decode_utf8_lossy();
        let canonical = encode_path(&decoded);
        for path in [request.path.as_str(), canonical.as_str()] {
            if self.signature_of(request, path, secret, at)? == self.signature {
                return Ok(());
            }
        }
        let message = "The request signature we calculated does not match the signature you provided. \
                       Check your key and signing method.";
        Err(S3Error::denied("SignatureDoesNotMatch", message))
    }

    fn signature_of(
        &self,
        request: &Request,
        path: &str,
        secret: &str,
        at: SystemTime,
    ) -> Result<String, S3Error> {
        let identity = Credentials::new(self.key_id, secret, None, None, "fault-origin").into();
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(self.region)
            .name("s3")
            .time(at)
            .settings(as_sent())
            .build()
            .map_err(|_| malformed())?;
        let headers = request
            .headers
            .iter()
            .filter(|(name, _)| self.signed_headers.contains(&name.as_str()))
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap_or_default()));
        let payload = request.header("x-amz-content-sha256").unwrap_or(UNSIGNED_PAYLOAD);
        let host = request.header(HOST.as_str()).unwrap_or_default();
        let url = format!("http://{host}{path}?{}", request.query);
        let body = SignableBody::Precomputed(payload.into());
        let signable = SignableRequest::new(request.method.as_str(), url, headers, body)
            .map_err(|_| malformed())?;
        Ok(sign(signable, &params.into()).map_err(|_| malformed())?.into_parts().1)
    }
}

/// Signs exactly the headers that are handed in, and the path as it is.
fn as_sent() -> SigningSettings {
    let mut settings = SigningSettings::default();
    settings.percent_encoding_mode = PercentEncodingMode::Single;
    settings.uri_path_normalization_mode = UriPathNormalizationMode::Disabled;
    settings.excluded_headers = None;
    settings
}

fn signed_at(request: &Request, claim: &Claim<'_>) -> Result<SystemTime, S3Error> {
    let form = format_description!("[year][month][day]T[hour][minute][second]Z");
    let text = request.header("x-amz-date").filter(|date| date.starts_with(claim.day));
    let date = PrimitiveDateTime::parse(text.ok_or_else(malformed)?, &form);
    let date: UtcDateTime = date.map_err(|_| malformed())?.as_utc();
    Ok(date.into())
}

fn malformed() -> S3Error {
    let message = "The authorization header that you provided is not valid.";
    S3Error::new(StatusCode::BAD_REQUEST, "AuthorizationHeaderMalformed", message)
}
