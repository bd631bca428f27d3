//! What two servers in a row could frame or address differently: refused before anything else is
//! looked at, and the connection is closed.
//!
//! hyper refuses most of it (two lengths, folded lines, bad chunks). What it lets pass and RFC
//! 9112 does not is refused here.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Request, Version};

use crate::code::Code;
use crate::error::S3Error;

/// Refuses a head that somebody before us may have understood in another way.
pub(crate) fn check<B>(request: &Request<B>) -> Result<(), S3Error> {
    one_coding(request)?;
    one_host(request)
}

/// Section 6.1: a coding that is not understood cannot be skipped, and `chunked` comes once.
fn one_coding<B>(request: &Request<B>) -> Result<(), S3Error> {
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"chunked");
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None) if is_chunked(coding.as_bytes()) => Ok(()),
        _ => Err(S3Error::new(
            Code::NotImplemented,
            "Transfer-Encoding may be chunked, once, and nothing else.",
        )),
    }
}

/// Sections 3.2 and 3.2.2: one Host, and the same one in the target if that names any.
fn one_host<B>(request: &Request<B>) -> Result<(), S3Error> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let host = hosts.next();
    let named = request.uri().authority();
    let same = match (host, named) {
        (Some(host), Some(named)) => {
            host.as_bytes().eq_ignore_ascii_case(named.as_str().as_bytes())
        }
        (Some(_), None) => true,
        (None, _) => request.version() == Version::HTTP_10,
    };
    if same && hosts.next().is_none() {
        return Ok(());
    }
    let why = "A request has one Host header, and its target names no other host.";
    Err(S3Error::new(Code::InvalidRequest, why))
}
