//! The Authorization header, read in place.

use http::{HeaderMap, header};

use crate::code::Code;
use crate::error::S3Error;

/// The one signing scheme.
pub(crate) const SCHEME: &str = "AWS4-HMAC-SHA256";

/// Headers that a signature may cover.
const MAX_SIGNED_HEADERS: usize = 64;

/// A signature and what it claims to be made with and over.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Authorization<'a> {
    pub(crate) access_key: &'a str,
    /// `20130524`.
    pub(crate) date: &'a str,
    pub(crate) region: &'a str,
    /// `20130524/us-east-1/s3/aws4_request`.
    pub(crate) scope: &'a str,
    /// `AKID/20130524/us-east-1/s3/aws4_request`.
    pub(crate) credential: &'a str,
    /// Lower-case names in ascending order, as the canonical request wants them.
    pub(crate) signed_headers: Vec<&'a str>,
    pub(crate) signature: [u8; 32],
}

impl<'a> Authorization<'a> {
    /// Reads the header of a request.
    pub(crate) fn of(headers: &'a HeaderMap) -> Result<Self, S3Error> {
        let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        Self::parse(value.ok_or_else(|| malformed("it is missing or not text"))?)
    }

    fn parse(value: &'a str) -> Result<Self, S3Error> {
        let fields = value
            .strip_prefix(SCHEME)
            .filter(|rest| rest.starts_with(' '))
            .ok_or_else(|| malformed("the scheme is not AWS4-HMAC-SHA256"))?;
        let (mut credential, mut signed_headers, mut signature) = (None, None, None);
        for field in fields.split(',').map(str::trim) {
            let (name, value) =
                field.split_once('=').ok_or_else(|| malformed("a field has no value"))?;
            let slot = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed_headers,
                "Signature" => &mut signature,
                _ => return Err(malformed("a field is unknown")),
            };
            if slot.replace(value).is_some() {
                return Err(malformed("a field is repeated"));
            }
        }
        let credential = credential.ok_or_else(|| malformed("Credential is missing"))?;
        let signed_headers = signed_headers.ok_or_else(|| malformed("SignedHeaders is missing"))?;
        let signature = signature.ok_or_else(|| malformed("Signature is missing"))?;
        Self::of_fields(credential, signed_headers, signature)
    }

    fn of_fields(
        credential: &'a str,
        signed_headers: &'a str,
        signature: &str,
    ) -> Result<Self, S3Error> {
        let Credential { access_key, date, region } = Credential::parse(credential)?;
        let scope = &credential[access_key.len() + 1..];
        let signed_headers = parse_signed_headers(signed_headers)?;
        let mut bytes = [0; 32];
        hex::decode_to_slice(signature, &mut bytes)
            .map_err(|_| malformed("the signature is not 64 hexadecimal digits"))?;
        Ok(Self { access_key, date, region, scope, credential, signed_headers, signature: bytes })
    }
}

/// Who claims to have signed, on which day and for which region.
pub(crate) struct Credential<'a> {
    pub(crate) access_key: &'a str,
    pub(crate) date: &'a str,
    pub(crate) region: &'a str,
}

impl<'a> Credential<'a> {
    /// Reads `AKID/20130524/us-east-1/s3/aws4_request`.
    pub(crate) fn parse(text: &'a str) -> Result<Self, S3Error> {
        let not_one = || malformed("the credential is not key/date/region/s3/aws4_request");
        let mut fields = text.splitn(5, '/');
        let mut field = || fields.next().ok_or_else(not_one);
        let (access_key, date, region) = (field()?, field()?, field()?);
        let (service, terminator) = (field()?, field()?);
        let is_day = date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit());
        if service != "s3" || terminator != "aws4_request" || access_key.is_empty() || !is_day {
            return Err(not_one());
        }
        Ok(Self { access_key, date, region })
    }
}

/// Splits a SignedHeaders list. Some clients send it in no order but sign it in order.
pub(crate) fn parse_signed_headers(list: &str) -> Result<Vec<&str>, S3Error> {
    let mut names: Vec<&str> = list.split(';').take(MAX_SIGNED_HEADERS + 1).collect();
    let plain = |name: &&str| {
        !name.is_empty() && !name.bytes().any(|b| b.is_ascii_uppercase() || b.is_ascii_whitespace())
    };
    if names.len() > MAX_SIGNED_HEADERS || !names.iter().all(plain) {
        return Err(malformed("SignedHeaders is not a list of lower-case names"));
    }
    if !names.is_sorted() {
        names.sort_unstable();
    }
    Ok(names)
}

fn malformed(why: &str) -> S3Error {
    let message = format!("The authorization header that you provided is not valid: {why}.");
    S3Error::new(Code::AuthorizationHeaderMalformed, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIGNATURE: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

    #[test]
    fn the_documented_header_is_read() {
        let value = format!(
            "AWS4-HMAC-SHA256 Credential=AKIA/20130524/us-east-1/s3/aws4_request,\
             SignedHeaders=host;range;x-amz-date, Signature={SIGNATURE}"
        );
        let read = Authorization::parse(&value).unwrap();
        assert_eq!((read.access_key, read.date, read.region), ("AKIA", "20130524", "us-east-1"));
        assert_eq!(read.scope, "20130524/us-east-1/s3/aws4_request");
        assert_eq!(read.signed_headers, ["host", "range", "x-amz-date"]);
        assert_eq!(hex::encode(read.signature), SIGNATURE);
    }

    #[test]
    fn headers_that_lack_something_are_refused() {
        let good = format!(
            "Credential=A/20130524/r/s3/aws4_request, SignedHeaders=host, Signature={SIGNATURE}"
        );
        assert!(Authorization::parse(&format!("AWS4-HMAC-SHA256 {good}")).is_ok());
        for bad in [
            format!("AWS4-HMAC-SHA512 {good}"),
            format!("AWS4-HMAC-SHA256{good}"),
            format!("AWS4-HMAC-SHA256 {good}, Signature={SIGNATURE}"),
            format!("AWS4-HMAC-SHA256 {}", good.replace("/s3/", "/sts/")),
            format!("AWS4-HMAC-SHA256 {}", good.replace("/r/", "/")),
            format!("AWS4-HMAC-SHA256 {}", good.replace("2013", "-201")),
            format!("AWS4-HMAC-SHA256 {}", good.replace("host", "Host")),
            format!("AWS4-HMAC-SHA256 {}", good.replace("host", "host;")),
            format!("AWS4-HMAC-SHA256 {}", &good[..good.len() - 1]),
            "AWS4-HMAC-SHA256 ".into(),
        ] {
            let error = Authorization::parse(&bad).unwrap_err();
            assert_eq!(error.code(), "AuthorizationHeaderMalformed", "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_header_makes_the_parser_panic(value in "AWS4-HMAC-SHA256 (Credential=|SignedHeaders=|Signature=|/|,|;|=|s3|[ -~]){0,30}") {
            let _ = Authorization::parse(&value);
        }
    }
}
