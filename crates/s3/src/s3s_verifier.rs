//! `s3s` as a verifier, and as nothing else: for presigned URLs and for requests with a body.
//!
//! Its route is always ours, so it checks the signature, wraps the body so that hashes and
//! chunk signatures are checked while it streams, and hands the request back. It knows no
//! operation. What it leaves open (unsigned headers, absent signed ones, other schemes, the
//! life of a URL) is checked before a request gets here.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::Bytes;
use forebay_cache::{BoxError, ForwardBody};
use http::request::Parts;
use http::{Extensions, HeaderMap, Method, Uri};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use s3s::auth::{S3Auth, SecretKey};
use s3s::host::{S3Host, VirtualHost};
use s3s::route::S3Route;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, S3Request, S3Response, S3Result, TrailingHeaders};

use crate::address::{Address, Domains};
use crate::authorize::Caller;
use crate::code::Code;
use crate::error::S3Error;
use crate::keys::AccessKeys;
use crate::received::{Received, read_all};
use crate::sigv4::MISMATCH;
use crate::xml;

/// An error body of `s3s` is a few hundred bytes.
const MAX_ERROR_BODY_BYTES: usize = 16 << 10;

/// Checks signatures with `s3s`.
pub(crate) struct S3sVerifier {
    service: S3Service,
    keys: Arc<AccessKeys>,
    domains: Domains,
}

impl S3sVerifier {
    /// A verifier of these keys.
    pub(crate) fn new(keys: Arc<AccessKeys>, domains: Domains) -> Self {
        let mut builder = S3ServiceBuilder::new(NoOperations);
        builder.set_auth(Secrets(keys.clone()));
        builder.set_host(Hosts(domains.clone()));
        builder.set_validation(AnyName);
        builder.set_route(HandBack);
        Self { service: builder.build(), keys, domains }
    }

    /// Checks a request's signature and gives it back, its body de-chunked and checked as it
    /// is read.
    pub(crate) async fn verify(&self, request: Received) -> Result<(Caller, Received), S3Error> {
        let Received { mut parts, query, body, pass } = request;
        // `s3s` refuses a long key too, but not in S3's words.
        Address::parse(&parts, &self.domains).map_or_else(long_key, |_| Ok(()))?;
        let handed_back = HandedBack::default();
        parts.extensions.insert(handed_back.clone());
        let had_body = body.is_some();
        let answer = self.service.call(http::Request::from_parts(parts, to_s3s(body))).await;
        let Some(verified) = handed_back.0.lock().take() else {
            return Err(refusal(answer).await);
        };
        let key = self.keys.get(&verified.access_key)?.clone();
        let body = had_body.then(|| {
            WithTrailers { body: verified.body, trailers: verified.trailers }.boxed_unsync()
        });
        Ok((Caller::Holder(key), Received { parts: verified.parts, query, body, pass }))
    }
}

fn to_s3s(body: Option<ForwardBody>) -> Body {
    body.map_or_else(Body::empty, Body::http_body_unsync)
}

fn long_key(error: S3Error) -> Result<(), S3Error> {
    match error {
        S3Error::Ours { code: Code::KeyTooLongError, .. } => Err(error),
        _ => Ok(()),
    }
}

/// A body with its trailers at its end again, where `s3s` has found some.
struct WithTrailers {
    body: ForwardBody,
    trailers: Option<TrailingHeaders>,
}

impl http_body::Body for WithTrailers {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            return Poll::Ready(Some(frame));
        }
        let trailers = self.trailers.take().and_then(|trailers| trailers.take());
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads back what `s3s` would have answered.
async fn refusal(answer: Result<s3s::HttpResponse, s3s::HttpError>) -> S3Error {
    let unreadable = || S3Error::new(Code::InternalError, "The signature could not be checked.");
    let Ok(response) = answer else { return unreadable() };
    let body = read_all(response.into_body().boxed_unsync(), MAX_ERROR_BODY_BYTES).await;
    let body = body.ok().flatten().unwrap_or_default();
    let Some((code, message)) = std::str::from_utf8(&body).ok().and_then(xml::parse_error) else {
        return unreadable();
    };
    let known = [
        Code::AccessDenied,
        Code::InternalError,
        Code::InvalidAccessKeyId,
        Code::InvalidArgument,
        Code::InvalidUri,
        Code::MissingContentLength,
        Code::NotImplemented,
        Code::RequestTimeTooSkewed,
        Code::SignatureDoesNotMatch,
    ];
    let code = known.into_iter().find(|known| known.as_str() == code);
    if code == Some(Code::SignatureDoesNotMatch) && message.is_empty() {
        return S3Error::new(Code::SignatureDoesNotMatch, MISMATCH);
    }
    S3Error::new(code.unwrap_or(Code::InvalidRequest), message)
}

/// Where the route leaves a verified request for its verifier.
#[derive(Clone, Default)]
struct HandedBack(Arc<Mutex<Option<Verified>>>);

struct Verified {
    access_key: String,
    parts: Parts,
    body: ForwardBody,
    trailers: Option<TrailingHeaders>,
}

struct HandBack;

#[async_trait]
impl S3Route for HandBack {
    fn is_match(&self, _: &Method, _: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        true
    }

    async fn check_access(&self, request: &mut S3Request<Body>) -> S3Result<()> {
        // An STS signature is made with the same secret, but not for this service.
        match (&request.credentials, request.service.as_deref()) {
            (Some(_), Some("s3")) => Ok(()),
            _ => Err(s3s::s3_error!(AccessDenied, "A signature for S3 is required")),
        }
    }

    async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let handed_back = request.extensions.remove::<HandedBack>();
        if let (Some(handed_back), Some(credentials)) = (handed_back, request.credentials) {
            let (mut parts, ()) = http::Request::new(()).into_parts();
            parts.method = request.method;
            parts.uri = request.uri;
            parts.headers = request.headers;
            parts.extensions = request.extensions;
            let body = request.input.boxed_unsync();
            let access_key = credentials.access_key;
            let trailers = request.trailing_headers;
            let verified = Verified { access_key, parts, body, trailers };
            *handed_back.0.lock() = Some(verified);
        }
        Ok(S3Response::new(Body::empty()))
    }
}

struct Secrets(Arc<AccessKeys>);

#[async_trait]
impl S3Auth for Secrets {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        match self.0.get(access_key) {
            Ok(key) => Ok(SecretKey::from(key.secret.reveal())),
            Err(error) => Err(s3s::s3_error!(InvalidAccessKeyId, "{}", error.message())),
        }
    }
}

struct Hosts(Domains);

impl S3Host for Hosts {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let address = VirtualHost::new(host);
        Ok(match self.0.bucket_of(host) {
            Some(bucket) => address.with_bucket(bucket),
            None => address,
        })
    }
}

/// Names are checked where requests are routed.
struct AnyName;

impl NameValidation for AnyName {
    fn validate_bucket_name(&self, _: &str) -> bool {
        true
    }
}

struct NoOperations;

impl s3s::S3 for NoOperations {}
