//! One HTTP/1.1 connection that asks, reads and judges. It keeps one buffer for good, and
//! copies each byte once: from the socket into it.

use std::io;
use std::time::{Duration, Instant};

use forebay_rt::{Clock, SystemClock, timeout};
use forebay_testkit::{Mismatch, Pattern};
use forebay_types::ByteRange;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::limits::{BUFFER_BYTES, CONNECT_LIMIT, MAX_HEADERS, MAX_VERSIONS};
use crate::objects::Object;
use crate::target::Target;

/// How much of an answer is checked, besides status, length and range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Nothing more.
    Lengths,
    /// Every byte, against the version of the pattern object that the ETag names.
    NamedVersion,
    /// Every byte, against this version: for servers with ETags of their own.
    Version(u64),
}

/// What was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) bucket: &'a str,
    pub(crate) object: &'a Object,
    pub(crate) range: Option<ByteRange>,
    pub(crate) check: Check,
}

/// An answer that was right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) bytes: u64,
    pub(crate) first_byte: Duration,
    pub(crate) source: Source,
}

/// Where a Forebay says that an answer comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Hit,
    Peer,
    Miss,
    Unsaid,
}

/// What is wrong with an answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The connection was not made or broke.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// An answer that is no 200 or 206.
    #[error("status {status} {code}")]
    Status {
        /// The status.
        status: u16,
        /// The S3 error code, where there is one.
        code: String,
    },
    /// Not HTTP, or not with a declared length.
    #[error("no answer of HTTP/1.1 with a Content-Length")]
    Malformed,
    /// Another length than was asked for.
    #[error("{declared} bytes are declared where {expected} were asked for")]
    Length {
        /// What the answer declares.
        declared: u64,
        /// What it should be.
        expected: u64,
    },
    /// Another range than was asked for.
    #[error("asked for {asked}, answered {answered:?}")]
    Range {
        /// What was asked.
        asked: String,
        /// The Content-Range.
        answered: String,
    },
    /// More bytes than declared.
    #[error("more bytes than the declared {0}")]
    Excess(u64),
    /// Bytes that cannot be checked.
    #[error(
        "ETag {0:?} is of no pattern object: bytes can be checked only in those of `forebay demo` \
         and the test kit; leave --verify out"
    )]
    NoPattern(String),
    /// A wrong byte.
    #[error(transparent)]
    WrongByte(#[from] Mismatch),
}

impl AnswerError {
    /// Whether the server failed honestly, so that asking again makes sense.
    pub fn is_failure(&self) -> bool {
        match self {
            Self::Broken(_) | Self::Status { .. } => true,
            Self::Malformed
            | Self::Length { .. }
            | Self::Range { .. }
            | Self::Excess(_)
            | Self::NoPattern(_)
            | Self::WrongByte(_) => false,
        }
    }
}

/// A connection. After an error it is of no use any more.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Box<[u8]>,
}

#[derive(Debug)]
struct Head {
    length: u64,
    source: Source,
    pattern: Option<Pattern>,
    /// Bytes in the buffer: of the head, and with those of the body that came along.
    head_bytes: usize,
    filled: usize,
}

impl Connection {
    pub(crate) async fn open(target: &Target) -> io::Result<Self> {
        let connecting = TcpStream::connect(target.address());
        let stream = timeout(&SystemClock, CONNECT_LIMIT, connecting)
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no connection in time"))??;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: vec![0; BUFFER_BYTES].into_boxed_slice() })
    }

    /// Sends a request and reads its answer to the end.
    pub(crate) async fn ask(
        &mut self,
        request: &[u8],
        asked: Asked<'_>,
    ) -> Result<Answered, AnswerError> {
        let asked_at = SystemClock.now();
        self.stream.write_all(request).await?;
        let head = self.read_head(asked).await?;
        let first_byte = self.read_body(&head, asked, asked_at).await?;
        Ok(Answered { bytes: head.length, first_byte, source: head.source })
    }

    async fn read_head(&mut self, asked: Asked<'_>) -> Result<Head, AnswerError> {
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await?;
            if read == 0 {
                return Err(closed().into());
            }
            filled += read;
            if let Some(head) = parse(&self.buffer[..filled], asked)? {
                return Ok(head);
            }
            if filled == self.buffer.len() {
                return Err(AnswerError::Malformed);
            }
        }
    }

    /// Reads the body; returns how long its first byte took.
    async fn read_body(
        &mut self,
        head: &Head,
        asked: Asked<'_>,
        asked_at: Instant,
    ) -> Result<Duration, AnswerError> {
        let mut at = asked.range.map_or(0, ByteRange::start);
        let end = at + head.length;
        let mut body = head.head_bytes..head.filled;
        let mut first_byte = None;
        loop {
            if body.len() as u64 > end - at {
                return Err(AnswerError::Excess(head.length));
            }
            if !body.is_empty() {
                first_byte.get_or_insert_with(|| SystemClock.now().duration_since(asked_at));
            }
            if let Some(pattern) = &head.pattern {
                pattern.verify(at, &self.buffer[body.clone()])?;
            }
            at += body.len() as u64;
            if at == end {
                break;
            }
            let room = self.buffer.len().min((end - at) as usize);
            body = 0..self.stream.read(&mut self.buffer[..room]).await?;
            if body.is_empty() {
                return Err(closed().into());
            }
        }
        Ok(first_byte.unwrap_or_else(|| SystemClock.now().duration_since(asked_at)))
    }
}

/// The head of an answer once all of it is there, if it is what was asked for.
fn parse(bytes: &[u8], asked: Asked<'_>) -> Result<Option<Head>, AnswerError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(bytes).map_err(|_| AnswerError::Malformed)?;
    let httparse::Status::Complete(head_bytes) = parsed else { return Ok(None) };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.and_then(|header| std::str::from_utf8(header.value).ok())
    };
    let status = response.code.unwrap_or(0);
    if !matches!(status, 200 | 206) {
        let code = error_code(&bytes[head_bytes..]);
        return Err(AnswerError::Status { status, code });
    }
    let length = header("content-length").and_then(|text| text.trim().parse().ok());
    let length: u64 = length.ok_or(AnswerError::Malformed)?;
    check_range(asked, status, length, header("content-range"))?;
    Ok(Some(Head {
        length,
        source: source(header("x-forebay-cache")),
        pattern: pattern(asked, header("etag").unwrap_or_default())?,
        head_bytes,
        filled: bytes.len(),
    }))
}

fn check_range(
    asked: Asked<'_>,
    status: u16,
    length: u64,
    content_range: Option<&str>,
) -> Result<(), AnswerError> {
    let expected = asked.range.map_or(asked.object.size_bytes, ByteRange::len);
    if length != expected {
        return Err(AnswerError::Length { declared: length, expected });
    }
    let wanted = match asked.range {
        Some(range) => range,
        // A server that answers only ranges was asked for all of it as one.
        None if status == 206 => match ByteRange::new(0, length) {
            Some(range) => range,
            None => return Ok(()),
        },
        None => return Ok(()),
    };
    let answered = content_range.filter(|_| status == 206).unwrap_or_default();
    let is_right = parse_content_range(answered) == Some(wanted);
    let asked = || wanted.to_range_header();
    is_right
        .then_some(())
        .ok_or_else(|| AnswerError::Range { asked: asked(), answered: answered.to_owned() })
}

fn parse_content_range(text: &str) -> Option<ByteRange> {
    let (range, _size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    ByteRange::new(first.parse().ok()?, last.parse::<u64>().ok()?.checked_add(1)?)
}

fn source(header: Option<&str>) -> Source {
    match header {
        Some("hit") => Source::Hit,
        Some("peer") => Source::Peer,
        Some(_) => Source::Miss,
        None => Source::Unsaid,
    }
}

fn pattern(asked: Asked<'_>, etag: &str) -> Result<Option<Pattern>, AnswerError> {
    let key = &asked.object.key;
    match asked.check {
        Check::Lengths => Ok(None),
        Check::Version(version) => Ok(Some(Pattern::new(asked.bucket, key, version))),
        Check::NamedVersion => {
            let found = Pattern::find(asked.bucket, key, etag, 1..=MAX_VERSIONS);
            let (_, pattern) = found.ok_or_else(|| AnswerError::NoPattern(etag.to_owned()))?;
            Ok(Some(pattern))
        }
    }
}

/// What stands in `<Code>`, as far as the body came along with the head.
fn error_code(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    code.map(|(code, _)| code.to_owned()).unwrap_or_default()
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended before the answer did")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(object: &Object, range: Option<ByteRange>, check: Check) -> Asked<'_> {
        Asked { bucket: "b", object, range, check }
    }

    fn judged(head: &str, range: Option<ByteRange>, check: Check) -> Result<Head, AnswerError> {
        let object = Object::new("k", 100);
        let text = format!("HTTP/1.1 {head}\r\n\r\n<Error><Code>SlowDown</Code>");
        parse(text.as_bytes(), asked(&object, range, check)).map(|head| head.expect("complete"))
    }

    fn said(error: Result<Head, AnswerError>) -> String {
        error.map(|head| head.length).unwrap_err().to_string()
    }

    #[test]
    fn what_was_asked_for_is_accepted() {
        let whole = judged("200 OK\r\nContent-Length: 100", None, Check::Lengths).unwrap();
        assert_eq!((whole.length, whole.source), (100, Source::Unsaid));
        let part = "206 Partial\r\ncontent-length: 8\r\ncontent-range: bytes 8-15/100\r\n\
                    x-forebay-cache: peer";
        let part = judged(part, ByteRange::new(8, 16), Check::Lengths).unwrap();
        assert_eq!((part.length, part.source), (8, Source::Peer));
        let ranged = "206 Partial\r\nContent-Length: 100\r\nContent-Range: bytes 0-99/100";
        assert!(judged(ranged, None, Check::Lengths).is_ok());
    }

    #[test]
    fn what_was_not_asked_for_is_refused_and_only_failures_are_honest() {
        let range = ByteRange::new(8, 16);
        let short = judged("200 OK\r\nContent-Length: 99", None, Check::Lengths);
        assert_eq!(said(short), "99 bytes are declared where 100 were asked for");
        let other = "206 Partial\r\nContent-Length: 8\r\nContent-Range: bytes 0-7/100";
        assert_eq!(
            said(judged(other, range, Check::Lengths)),
            "asked for bytes=8-15, answered \"bytes 0-7/100\""
        );
        let whole = judged("200 OK\r\nContent-Length: 8", range, Check::Lengths);
        assert_eq!(said(whole), "asked for bytes=8-15, answered \"\"");
        let chunked = judged("200 OK\r\nTransfer-Encoding: chunked", None, Check::Lengths);
        assert!(matches!(chunked, Err(AnswerError::Malformed)));
        let busy = judged("503 Slow Down\r\nContent-Length: 9", None, Check::Lengths);
        assert!(busy.as_ref().is_err_and(AnswerError::is_failure));
        assert_eq!(said(busy), "status 503 SlowDown");
    }

    #[test]
    fn bytes_are_checked_against_the_version_that_the_etag_names() {
        let etag = Pattern::new("b", "k", 3).etag();
        let head = format!("200 OK\r\nContent-Length: 100\r\nETag: {etag}");
        let named = judged(&head, None, Check::NamedVersion).unwrap().pattern;
        assert_eq!(named, Some(Pattern::new("b", "k", 3)));
        let other = judged("200 OK\r\nContent-Length: 100\r\nETag: x", None, Check::NamedVersion);
        assert!(said(other).starts_with("ETag \"x\" is of no pattern object"));
    }

    #[test]
    fn half_a_head_is_waited_for() {
        let object = Object::new("k", 100);
        let asked = asked(&object, None, Check::Lengths);
        assert!(parse(b"HTTP/1.1 200 OK\r\nContent-Le", asked).unwrap().is_none());
    }
}
