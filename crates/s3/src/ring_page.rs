//! `GET /-/ring`: how blocks are placed, for clients that ask the owner of a block themselves.
//!
//! `-` is no bucket's name. What the page says is the caller's; who may read it is decided like
//! for any other request: it has to be signed where the endpoint has keys, whatever callers are
//! granted that do not sign.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};

use crate::address::{Domains, host};
use crate::body::S3Body;

const PATH: &str = "/-/ring";

/// Gives the page as it is now.
pub type RingPage = Arc<dyn Fn() -> Page + Send + Sync>;

/// The page, and the tag that stands for it until it changes.
#[derive(Debug, Clone)]
pub struct Page {
    /// A strong entity tag, quotes included.
    pub etag: HeaderValue,
    /// JSON.
    pub json: Bytes,
}

/// Below a base domain, the path is a key of a bucket.
pub(crate) fn is_asked(parts: &Parts, domains: &Domains) -> bool {
    let is_key = || host(&parts.headers).is_some_and(|host| domains.bucket_of(host).is_some());
    parts.method == Method::GET && parts.uri.path() == PATH && !is_key()
}

pub(crate) fn answer(page: &Page, asked: &HeaderMap) -> Response<S3Body> {
    if asked.get(IF_NONE_MATCH) == Some(&page.etag) {
        return with_tag(StatusCode::NOT_MODIFIED, page, S3Body::empty());
    }
    let mut response = with_tag(StatusCode::OK, page, S3Body::text(page.json.clone()));
    set(&mut response, CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn with_tag(status: StatusCode, page: &Page, body: S3Body) -> Response<S3Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    set(&mut response, ETAG, page.etag.clone());
    response
}

fn set(response: &mut Response<S3Body>, name: HeaderName, value: HeaderValue) {
    response.headers_mut().insert(name, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    #[test]
    fn the_page_is_no_key_of_any_bucket() {
        let domains = Domains::new(["s3.test".to_owned()]);
        let asked = |host: &str, path: &str| {
            let request = Request::get(path).header("host", host).body(()).unwrap();
            is_asked(&request.into_parts().0, &domains)
        };
        assert!(asked("127.0.0.1:9000", "/-/ring") && asked("s3.test", "/-/ring"));
        assert!(!asked("train.s3.test", "/-/ring") && !asked("s3.test", "/train/-/ring"));
    }

    #[test]
    fn a_client_that_has_the_page_gets_only_its_tag() {
        let page = Page { etag: HeaderValue::from_static("\"7\""), json: Bytes::from("{}") };
        assert_eq!(answer(&page, &HeaderMap::new()).status(), StatusCode::OK);
        let known = HeaderMap::from_iter([(IF_NONE_MATCH, page.etag.clone())]);
        assert_eq!(answer(&page, &known).status(), StatusCode::NOT_MODIFIED);
    }
}
