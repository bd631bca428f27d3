//! Checksums that follow a body in its trailer, checked while the body is read.
//!
//! Origins check them as well, but not all do. The last piece of a body is held back until its
//! checksum has been seen to be right: of a body that is not what its sender meant, no origin ever
//! gets the end.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use crc_fast::{CrcAlgorithm, Digest};
use forebay_cache::{BoxError, ForwardBody};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use ring::digest::{Context as Hash, SHA1_FOR_LEGACY_USE_ONLY, SHA256};

use crate::code::Code;
use crate::error::S3Error;

/// The header that announces which trailers a body will have.
pub(crate) const TRAILER: &str = "x-amz-trailer";

/// A body that is checked against the trailers that `headers` announce, and keeps them.
pub(crate) fn checked(body: ForwardBody, headers: &HeaderMap) -> Result<ForwardBody, S3Error> {
    let sums: Vec<Sum> = announced(headers)?.into_iter().map(Sum::new).collect();
    if sums.is_empty() {
        return Ok(body);
    }
    Ok(Checked { body, sums, held_back: None, trailers: None, over: false }.boxed_unsync())
}

/// A checksum that will follow a body.
#[derive(Debug, Clone)]
pub(crate) struct Announced {
    header: HeaderName,
    kind: Kind,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

/// The trailers that `headers` announce.
pub(crate) fn announced(headers: &HeaderMap) -> Result<Vec<Announced>, S3Error> {
    let lists = headers.get_all(TRAILER).iter().map(|value| value.to_str().unwrap_or("?"));
    let names = lists.flat_map(|list| list.split(',')).map(str::trim);
    names.filter(|name| !name.is_empty()).map(Announced::parse).collect()
}

impl Announced {
    fn parse(name: &str) -> Result<Self, S3Error> {
        let name = name.to_ascii_lowercase();
        let kind = match name.strip_prefix("x-amz-checksum-") {
            Some("crc32") => Kind::Crc32,
            Some("crc32c") => Kind::Crc32c,
            Some("crc64nvme") => Kind::Crc64Nvme,
            Some("sha1") => Kind::Sha1,
            Some("sha256") => Kind::Sha256,
            _ => return Err(unknown()),
        };
        let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unknown())?;
        Ok(Self { header, kind })
    }

    /// Bytes of the trailer's line, without its end.
    pub(crate) fn line_len(&self) -> usize {
        let sum_bytes: usize = match self.kind {
            Kind::Crc32 | Kind::Crc32c => 4,
            Kind::Crc64Nvme => 8,
            Kind::Sha1 => 20,
            Kind::Sha256 => 32,
        };
        self.header.as_str().len() + ":".len() + sum_bytes.div_ceil(3) * 4
    }
}

/// One checksum on its way.
struct Sum {
    header: HeaderName,
    running: Running,
}

enum Running {
    Crc32(Digest),
    Crc64(Digest),
    Hash(Hash),
}

impl Sum {
    fn new(Announced { header, kind }: Announced) -> Self {
        let running = match kind {
            Kind::Crc32 => Running::Crc32(Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            Kind::Crc32c => Running::Crc32(Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Kind::Crc64Nvme => Running::Crc64(Digest::new(CrcAlgorithm::Crc64Nvme)),
            Kind::Sha1 => Running::Hash(Hash::new(&SHA1_FOR_LEGACY_USE_ONLY)),
            Kind::Sha256 => Running::Hash(Hash::new(&SHA256)),
        };
        Self { header, running }
    }

    fn update(&mut self, data: &[u8]) {
        match &mut self.running {
            Running::Crc32(digest) | Running::Crc64(digest) => digest.update(data),
            Running::Hash(hash) => hash.update(data),
        }
    }

    /// The trailer, if it is right.
    fn check(self, trailers: &HeaderMap) -> Result<(HeaderName, HeaderValue), S3Error> {
        let Self { header, running } = self;
        let mut values = trailers.get_all(&header).iter();
        let (Some(said), None) = (values.next(), values.next()) else {
            let why = format!("The trailer {header} was announced and is not there once.");
            return Err(S3Error::new(Code::MalformedTrailerError, why));
        };
        let sum = running.finish();
        if said.as_bytes().trim_ascii() == sum.as_bytes()
            && let Ok(sum) = HeaderValue::try_from(sum)
        {
            return Ok((header, sum));
        }
        let why = format!("The {header} you specified did not match what we received.");
        Err(S3Error::new(Code::BadDigest, why))
    }
}

impl Running {
    /// As it is written in a header.
    fn finish(self) -> String {
        match self {
            Self::Crc32(digest) => STANDARD.encode((digest.finalize() as u32).to_be_bytes()),
            Self::Crc64(digest) => STANDARD.encode(digest.finalize().to_be_bytes()),
            Self::Hash(hash) => STANDARD.encode(hash.finish()),
        }
    }
}

fn unknown() -> S3Error {
    let why = "The value specified in the x-amz-trailer header is not supported: use \
               x-amz-checksum-crc32, -crc32c, -crc64nvme, -sha1 or -sha256.";
    S3Error::new(Code::InvalidRequest, why)
}

struct Checked {
    body: ForwardBody,
    sums: Vec<Sum>,
    /// The last piece that came; who comes next sends it on.
    held_back: Option<Bytes>,
    /// What has been found right, and comes after the body.
    trailers: Option<HeaderMap>,
    over: bool,
}

impl Checked {
    fn end(&mut self, trailers: &HeaderMap) -> Result<Option<Bytes>, S3Error> {
        self.over = true;
        let sums = std::mem::take(&mut self.sums).into_iter();
        self.trailers = Some(sums.map(|sum| sum.check(trailers)).collect::<Result<_, _>>()?);
        Ok(self.held_back.take())
    }
}

impl Body for Checked {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while !self.over {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx)).transpose()?;
            let ended = match frame.map(Frame::into_data) {
                Some(Ok(data)) if data.is_empty() => continue,
                Some(Ok(data)) => {
                    self.sums.iter_mut().for_each(|sum| sum.update(&data));
                    let Some(before) = self.held_back.replace(data) else { continue };
                    return Poll::Ready(Some(Ok(Frame::data(before))));
                }
                Some(Err(frame)) => self.end(frame.trailers_ref().unwrap_or(&HeaderMap::new())),
                None => self.end(&HeaderMap::new()),
            };
            if let Some(last) = ended? {
                return Poll::Ready(Some(Ok(Frame::data(last))));
            }
        }
        Poll::Ready(self.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn size_hint(&self) -> SizeHint {
        let held_back = self.held_back.as_ref().map_or(0, |held_back| held_back.len() as u64);
        match self.body.size_hint().exact() {
            Some(left) => SizeHint::with_exact(left + held_back),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::StreamBody;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs.map(|(name, v)| (HeaderName::from_static(name), v.parse().unwrap())).collect()
    }

    /// What comes out of a body of two pieces, and the error it ends with.
    async fn read(announce: &str, trailers: &[(&'static str, &str)]) -> (Vec<u8>, Option<S3Error>) {
        let pieces = ["1234", "56789"].map(|piece| Frame::data(Bytes::from(piece)));
        let frames = pieces.into_iter().chain([Frame::trailers(headers(trailers))]);
        let frames: Vec<Result<_, BoxError>> = frames.map(Ok).collect();
        let body = StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync();
        let announce = HeaderMap::from_iter([(
            HeaderName::from_static(TRAILER),
            HeaderValue::from_str(announce).unwrap(),
        )]);
        let mut body = checked(body, &announce).unwrap();
        let mut out = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => match frame.into_data() {
                    Ok(data) => out.extend_from_slice(&data),
                    Err(frame) => assert_eq!(frame.into_trailers().unwrap(), headers(trailers)),
                },
                Err(error) => return (out, error.downcast_ref().cloned()),
            }
        }
        (out, None)
    }

    /// The check values of "123456789" that the standards give, and two hashes of it.
    const RIGHT: [(&str, &str); 5] = [
        ("x-amz-checksum-crc32", "y/Q5Jg=="),
        ("x-amz-checksum-crc32c", "4waSgw=="),
        ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
        ("x-amz-checksum-sha1", "98O8HYCOBHMq32eZZczDTKeuNEE="),
        ("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="),
    ];

    #[tokio::test]
    async fn a_right_checksum_of_any_kind_lets_the_whole_body_through() {
        for (name, sum) in RIGHT {
            assert_eq!(read(name, &[(name, sum)]).await, (b"123456789".to_vec(), None), "{name}");
        }
        let both = read("x-amz-checksum-crc32, X-Amz-Checksum-SHA1", &[RIGHT[0], RIGHT[3]]);
        assert_eq!(both.await, (b"123456789".to_vec(), None));
    }

    #[tokio::test]
    async fn the_end_of_a_body_with_a_wrong_checksum_never_comes() {
        for (name, sum) in RIGHT {
            let wrong = format!("A{}", &sum[1..]);
            for (trailers, code) in
                [(&[(name, wrong.as_str())][..], "BadDigest"), (&[], "MalformedTrailerError")]
            {
                let (out, error) = read(name, trailers).await;
                assert_eq!((out.as_slice(), error.unwrap().code()), (&b"1234"[..], code), "{name}");
            }
        }
        let one_of_two = read("x-amz-checksum-crc32,x-amz-checksum-sha1", &[RIGHT[0]]).await;
        assert_eq!(one_of_two.1.unwrap().code(), "MalformedTrailerError");
    }

    #[test]
    fn a_trailer_that_cannot_be_checked_is_refused() {
        for name in ["x-amz-checksum-md4", "x-amz-meta-a", "x-amz-checksum-crc32,x-a"] {
            let refused = announced(&headers(&[(TRAILER, name)])).err().unwrap();
            assert_eq!(refused.code(), "InvalidRequest", "{name}");
        }
        assert!(announced(&HeaderMap::new()).unwrap().is_empty());
    }
}
