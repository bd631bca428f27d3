//! Who sent a request: finds the form of its signature and has the right verifier check it.
//!
//! What a caller may do is `authorize`'s question. Afterwards nothing in the request tells of
//! the signature any more, so that none can be handed on.

use std::sync::Arc;
use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::request::Parts;

use crate::authorize::{Caller, not_signed};
use crate::aws_chunked;
use crate::checksum;
use crate::code::Code;
use crate::error::S3Error;
use crate::keys::{AccessKeys, Grant};
use crate::presigned;
use crate::query::Query;
use crate::received::Received;
use crate::s3s_verifier::S3sVerifier;
use crate::sigv4;

/// Who may talk to the endpoint at all.
#[derive(Debug)]
pub enum Auth {
    /// `auth = "none"`: everybody may do everything. Signatures are not looked at.
    None,
    /// Holders of keys, and whoever does not sign, as far as it is granted something.
    Keys {
        /// The keys.
        keys: Arc<AccessKeys>,
        /// What callers may do that do not sign; a denial beats every permission.
        anonymous: Arc<[Grant]>,
    },
}

/// Checks signatures.
pub(crate) enum Authenticator {
    Open,
    Keys { keys: Arc<AccessKeys>, s3s: S3sVerifier, anonymous: Arc<[Grant]> },
}

/// A request whose sender is known.
pub(crate) struct Authenticated {
    pub(crate) caller: Caller,
    pub(crate) request: Received,
    /// Whether it carried a signature.
    pub(crate) signed: bool,
}

/// How a request is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Header,
    PresignedV4,
    PresignedV2,
}

impl Authenticator {
    /// Prepares the verifiers.
    pub(crate) fn new(auth: Auth, domains: &crate::address::Domains) -> Self {
        match auth {
            Auth::None => Self::Open,
            Auth::Keys { keys, anonymous } => {
                let s3s = S3sVerifier::new(keys.clone(), domains.clone());
                Self::Keys { keys, s3s, anonymous }
            }
        }
    }

    /// Finds out who sent a request.
    pub(crate) async fn authenticate(
        &self,
        request: Received,
        now: SystemTime,
    ) -> Result<Authenticated, S3Error> {
        let form = form_of(&request.parts, &request.query)?;
        let (caller, mut request) = match (self, form) {
            (Self::Open, _) => (Caller::Anybody, aws_chunked::unwrap(request)?),
            (Self::Keys { keys, s3s, .. }, Some(form)) => {
                verify(keys, s3s, request, form, now).await?
            }
            (Self::Keys { anonymous, .. }, None) => unsigned(anonymous, request)?,
        };
        check_trailers(&mut request)?;
        presigned::strip(&mut request);
        request.parts.headers.remove(AUTHORIZATION);
        Ok(Authenticated { caller, request, signed: form.is_some() })
    }
}

/// What is unwrapped by now is checked against the trailers that came with it.
fn check_trailers(request: &mut Received) -> Result<(), S3Error> {
    if aws_chunked::has_trailer(&request.parts.headers)
        && let Some(body) = request.body.take()
    {
        request.body = Some(checksum::checked(body, &request.parts.headers)?);
    }
    Ok(())
}

async fn verify(
    keys: &AccessKeys,
    s3s: &S3sVerifier,
    request: Received,
    form: Form,
    now: SystemTime,
) -> Result<(Caller, Received), S3Error> {
    let Received { parts, query, body, .. } = &request;
    match form {
        Form::Header if is_read(parts) && body.is_none() => {
            let key = sigv4::verify(keys, parts, query, now)?.clone();
            return Ok((Caller::Holder(key), request));
        }
        Form::Header => {
            let authorization = sigv4::Authorization::of(&parts.headers)?;
            sigv4::require_signed(&parts.headers, &authorization.signed_headers)?;
            sigv4::check_date(&authorization, &parts.headers, now)?;
        }
        Form::PresignedV4 => presigned::check_v4(parts, query)?,
        Form::PresignedV2 => presigned::check_v2(query)?,
    }
    s3s.verify(request).await
}

/// Lets in a caller that does not say who it is, where such callers may do anything at all.
fn unsigned(grants: &Arc<[Grant]>, request: Received) -> Result<(Caller, Received), S3Error> {
    // What is left of a signature is a bad one, not none.
    let is_torn = request.query.names().any(presigned::is_signature)
        || aws_chunked::is_signed(&request.parts.headers);
    if grants.is_empty() || is_torn {
        return Err(not_signed());
    }
    Ok((Caller::Anonymous(grants.clone()), aws_chunked::unwrap(request)?))
}

fn is_read(parts: &Parts) -> bool {
    matches!(parts.method, http::Method::GET | http::Method::HEAD)
}

fn form_of(parts: &Parts, query: &Query) -> Result<Option<Form>, S3Error> {
    let mut headers = parts.headers.get_all(AUTHORIZATION).iter();
    let header = headers.next();
    let forms = [
        header.map(|_| Form::Header),
        query.has("X-Amz-Signature").then_some(Form::PresignedV4),
        query.has("Signature").then_some(Form::PresignedV2),
    ];
    let mut found = forms.into_iter().flatten();
    let form = found.next();
    if found.next().is_some() || headers.next().is_some() {
        let why = "Only one auth mechanism allowed: one Authorization header or one presigned URL.";
        return Err(S3Error::new(Code::InvalidArgument, why));
    }
    let is_v4 = header.is_none_or(|value| value.as_bytes().starts_with(sigv4::SCHEME.as_bytes()));
    if !is_v4 {
        let why = "The authorization mechanism you have provided is not supported. \
                   Please use AWS4-HMAC-SHA256.";
        return Err(S3Error::new(Code::InvalidRequest, why));
    }
    Ok(form)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, ID, Signer};
    use aws_sigv4::http_request::SignableBody;
    use bytes::Bytes;
    use http::Request;
    use http_body_util::{BodyExt, Empty, Full};
    use std::time::Duration;

    fn form(target: &str, authorization: &[&str]) -> Result<Option<Form>, S3Error> {
        let mut request = Request::get(target);
        for value in authorization {
            request = request.header(AUTHORIZATION, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        form_of(&parts, &Query::parse(parts.uri.query()).unwrap())
    }

    #[test]
    fn a_request_is_signed_in_one_way_or_none() {
        let v4 = "AWS4-HMAC-SHA256 Credential=x";
        assert_eq!(form("/b/k", &[]), Ok(None));
        assert_eq!(form("/b/k", &[v4]), Ok(Some(Form::Header)));
        assert_eq!(form("/b/k?X-Amz-Signature=s", &[]), Ok(Some(Form::PresignedV4)));
        assert_eq!(form("/b/k?Signature=s", &[]), Ok(Some(Form::PresignedV2)));
        for (target, headers) in [
            ("/b/k", &[v4, v4][..]),
            ("/b/k?X-Amz-Signature=s", &[v4]),
            ("/b/k?X-Amz-Signature=s&Signature=s", &[]),
            ("/b/k", &["AWS AKIA:signature"]),
            ("/b/k", &["Bearer x"]),
        ] {
            assert!(form(target, headers).is_err(), "{target} {headers:?}");
        }
    }

    const HOUR: Duration = Duration::from_secs(3600);

    async fn sent<B>(request: Request<B>) -> Result<Authenticated, S3Error>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<forebay_cache::BoxError>,
    {
        let authenticator =
            Authenticator::new(testing::auth(), &crate::address::Domains::default());
        authenticator.authenticate(Received::new(request, None).unwrap(), testing::now()).await
    }

    fn get(target: &str) -> Request<Empty<Bytes>> {
        Request::get(target).body(Empty::new()).unwrap()
    }

    async fn code_of<B>(request: Request<B>) -> String
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<forebay_cache::BoxError>,
    {
        sent(request).await.err().expect("it is refused").code().to_owned()
    }

    #[tokio::test]
    async fn a_signed_url_is_good_for_what_it_names_and_until_it_expires() {
        let signed =
            Signer::url(HOUR).sign(get("/b/a%20b?versionId=v&x-amz-checksum-mode=ENABLED"));
        let known = sent(signed.clone()).await.unwrap();
        assert!(known.signed && matches!(&known.caller, Caller::Holder(key) if &*key.id == ID));
        let left: Vec<&str> = known.request.query.names().collect();
        assert_eq!(left, ["versionId", "x-amz-checksum-mode"]);

        let mut other = signed.clone();
        let target = other.uri().to_string().replace("a%20b", "a%20c");
        *other.uri_mut() = target.parse().unwrap();
        assert_eq!(code_of(other).await, "SignatureDoesNotMatch");

        let mut longer = signed;
        let target = longer.uri().to_string().replace("Expires=3600", "Expires=7200");
        *longer.uri_mut() = target.parse().unwrap();
        assert_eq!(code_of(longer).await, "SignatureDoesNotMatch");

        let mut early = Signer::url(HOUR);
        early.at -= 2 * HOUR;
        assert_eq!(code_of(early.sign(get("/b/k"))).await, "AccessDenied");
    }

    #[tokio::test]
    async fn boto3s_v2_urls_still_work() {
        // HMAC-SHA1 of "GET\n\n\n4102444800\n/b/a%20b?versionId=v1", made elsewhere.
        let url = format!(
            "/b/a%20b?AWSAccessKeyId={ID}&Signature=z%2BCF4SJ7iL0ZxmF%2FC2u3G4XNfqo%3D\
             &Expires=4102444800&versionId=v1"
        );
        let known = sent(get(&url)).await.unwrap();
        assert_eq!(known.request.query.names().collect::<Vec<_>>(), ["versionId"]);
        assert_eq!(code_of(get(&url.replace("=v1", "=v2"))).await, "SignatureDoesNotMatch");
        assert_eq!(code_of(get(&format!("{url}&attributes"))).await, "AccessDenied");
        let past = url.replace("4102444800", "1");
        assert_eq!(code_of(get(&past)).await, "AccessDenied");
    }

    #[tokio::test]
    async fn a_signed_body_is_checked_while_it_is_read() {
        let put = |body: &'static str| {
            let request = Request::put("/b/k").header("content-length", body.len());
            request.body(Full::new(Bytes::from(body))).unwrap()
        };
        let mut signer = Signer::header();
        signer.body = SignableBody::Bytes(b"hello");
        let mut known = sent(signer.sign(put("hello"))).await.unwrap();
        let body = known.request.take_body().collect().await.unwrap().to_bytes();
        assert_eq!(body, "hello");
        let mut forged = sent(signer.sign(put("jello"))).await.unwrap();
        assert!(forged.request.take_body().collect().await.is_err());
    }

    #[tokio::test]
    async fn a_streamed_body_arrives_unwrapped_signed_or_not() {
        let wrapped = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
        let put = || {
            Request::put("/b/k")
                .header("content-encoding", "aws-chunked")
                .header("x-amz-decoded-content-length", "5")
                .header("x-amz-trailer", "x-amz-checksum-crc32")
                .body(Full::new(Bytes::from(wrapped)))
                .unwrap()
        };
        let mut signer = Signer::header();
        signer.body = SignableBody::StreamingUnsignedPayloadTrailer;
        let mut known = sent(signer.sign(put())).await.unwrap();
        assert_eq!(known.request.take_body().collect().await.unwrap().to_bytes(), "hello");

        let open = Authenticator::new(Auth::None, &crate::address::Domains::default());
        let request = Received::new(signer.sign(put()), None).unwrap();
        let mut known = open.authenticate(request, testing::now()).await.unwrap();
        assert!(matches!(known.caller, Caller::Anybody));
        assert_eq!(known.request.take_body().collect().await.unwrap().to_bytes(), "hello");
        assert!(!known.request.parts.headers.contains_key(AUTHORIZATION));
    }

    #[tokio::test]
    async fn a_key_that_is_too_long_is_named_as_such_whoever_verifies() {
        let long = format!("/b/{}", "k".repeat(1025));
        let url = Signer::url(HOUR).sign(get(&long));
        let put = Request::put(&long).header("content-length", "1");
        let put = Signer::header().sign(put.body(Full::new(Bytes::from("x"))).unwrap());
        assert_eq!(code_of(url).await, "KeyTooLongError");
        assert_eq!(code_of(put).await, "KeyTooLongError");
    }

    #[tokio::test]
    async fn dates_that_are_none_are_refused_whoever_verifies() {
        let url = Signer::url(HOUR).sign(get("/b/k"));
        let put = Request::put("/b/k").header("content-length", "1");
        let put = Signer::header().sign(put.body(Full::new(Bytes::from("x"))).unwrap());
        for parameter in ["X-Amz-Date=", "X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F"] {
            let mut url = url.clone();
            let target = url.uri().to_string().replace(parameter, &format!("{parameter}-"));
            assert_ne!(target, url.uri().to_string());
            *url.uri_mut() = target.parse().unwrap();
            assert_eq!(code_of(url).await, "AuthorizationQueryParametersError", "{parameter}");
        }
        let mut other = put.clone();
        other.headers_mut().insert("x-amz-date", "-0261120T195430Z".parse().unwrap());
        assert_eq!(code_of(other).await, "AccessDenied");
        let mut other = put;
        let header = other.headers()[AUTHORIZATION].to_str().unwrap().replace("/20", "/-0");
        other.headers_mut().insert(AUTHORIZATION, header.parse().unwrap());
        assert_eq!(code_of(other).await, "AuthorizationHeaderMalformed");
    }

    #[tokio::test]
    async fn strangers_are_refused() {
        assert_eq!(code_of(get("/b/k")).await, "AccessDenied");
        let stranger = Signer { id: "STRANGER", ..Signer::header() };
        assert_eq!(code_of(stranger.sign(get("/b/k"))).await, "InvalidAccessKeyId");
        let stranger = Signer { id: "STRANGER", ..Signer::url(HOUR) };
        assert_eq!(code_of(stranger.sign(get("/b/k"))).await, "InvalidAccessKeyId");
    }
}
