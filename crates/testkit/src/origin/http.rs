//! One HTTP/1.1 connection, by hand: a server that has to lie about lengths and break off in
//! the middle cannot be built on a library that prevents both.

use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest request head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Most headers in a request.
const MAX_HEADERS: usize = 128;
/// Longest request body.
const MAX_BODY_BYTES: u64 = 1 << 30;
/// Longest line that frames a chunk.
const MAX_LINE_BYTES: usize = 16 << 10;

/// A request without its body.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: Method,
    /// As sent, encoded.
    pub(super) path: String,
    /// As sent, encoded; empty for none.
    pub(super) query: String,
    pub(super) headers: HeaderMap,
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("connection: {0}")]
    Io(#[from] std::io::Error),
    #[error("request is not HTTP/1.1: {0}")]
    NotHttp(&'static str),
    #[error("request is larger than {0} bytes")]
    TooLarge(u64),
}

/// A client's connection and what was read ahead from it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: TcpStream,
    buffer: BytesMut,
}

impl Request {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn wants_close(&self) -> bool {
        self.header(CONNECTION.as_str()).is_some_and(|v| v.eq_ignore_ascii_case("close"))
    }
}

impl Connection {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// The next request; `None` when the client has closed between two.
    pub(super) async fn next_request(&mut self) -> Result<Option<Request>, ConnectionError> {
        loop {
            if let Some((head_bytes, request)) = parse_head(&self.buffer)? {
                self.buffer.advance(head_bytes);
                return Ok(Some(request));
            }
            if self.buffer.len() >= MAX_HEAD_BYTES {
                return Err(ConnectionError::TooLarge(MAX_HEAD_BYTES as u64));
            }
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return if self.buffer.is_empty() {
                    Ok(None)
                } else {
                    Err(ConnectionError::NotHttp("the head ends early"))
                };
            }
        }
    }

    /// The body of the request just read, out of its transfer encoding.
    pub(super) async fn body(&mut self, request: &Request) -> Result<Bytes, ConnectionError> {
        let is_chunked = request
            .header(TRANSFER_ENCODING.as_str())
            .is_some_and(|coding| coding.eq_ignore_ascii_case("chunked"));
        let length = match request.header(CONTENT_LENGTH.as_str()) {
            Some(_) if is_chunked => {
                return Err(ConnectionError::NotHttp("both Content-Length and chunked"));
            }
            Some(text) => text.parse().map_err(|_| ConnectionError::NotHttp("Content-Length"))?,
            None => 0,
        };
        if length > MAX_BODY_BYTES {
            return Err(ConnectionError::TooLarge(MAX_BODY_BYTES));
        }
        let awaits_leave = request
            .header(EXPECT.as_str())
            .is_some_and(|expect| expect.eq_ignore_ascii_case("100-continue"));
        if awaits_leave && (is_chunked || length > 0) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if is_chunked { self.chunked_body().await } else { self.take(length as usize).await }
    }

    /// Completes when the client has closed or reset; whatever it still sends is dropped.
    pub(super) async fn until_client_leaves(&mut self) {
        loop {
            self.buffer.clear();
            if !matches!(self.stream.read_buf(&mut self.buffer).await, Ok(1..)) {
                return;
            }
        }
    }

    async fn chunked_body(&mut self) -> Result<Bytes, ConnectionError> {
        let mut body = BytesMut::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = u64::from_str_radix(size, 16)
                .map_err(|_| ConnectionError::NotHttp("the size of a chunk"))?;
            if size.saturating_add(body.len() as u64) > MAX_BODY_BYTES {
                return Err(ConnectionError::TooLarge(MAX_BODY_BYTES));
            }
            if size == 0 {
                break;
            }
            body.extend_from_slice(&self.take(size as usize).await?);
            self.line().await?;
        }
        while !self.line().await?.is_empty() {}
        Ok(body.freeze())
    }

    async fn take(&mut self, len: usize) -> Result<Bytes, ConnectionError> {
        if self.buffer.len() < len {
            self.buffer.reserve(len - self.buffer.len());
        }
        while self.buffer.len() < len {
            self.more().await?;
        }
        Ok(self.buffer.split_to(len).freeze())
    }

    /// Up to the next line break, which is taken too.
    async fn line(&mut self) -> Result<String, ConnectionError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|&b| b == b'\n') {
                let line = self.buffer.split_to(end + 1);
                return Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned());
            }
            if self.buffer.len() > MAX_LINE_BYTES {
                return Err(ConnectionError::TooLarge(MAX_LINE_BYTES as u64));
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<(), ConnectionError> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err(ConnectionError::NotHttp("the body ends early"));
        }
        Ok(())
    }
}

fn parse_head(buffer: &[u8]) -> Result<Option<(usize, Request)>, ConnectionError> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let parsed = head.parse(buffer).map_err(|_| ConnectionError::NotHttp("the head"))?;
    let httparse::Status::Complete(head_bytes) = parsed else { return Ok(None) };

    let method = head.method.unwrap_or_default();
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| ConnectionError::NotHttp("the method"))?;
    let (path, query) = split_target(head.path.unwrap_or_default());
    let headers = head
        .headers
        .iter()
        .map(|header| {
            let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
            Some((name, HeaderValue::from_bytes(header.value).ok()?))
        })
        .collect::<Option<HeaderMap>>()
        .ok_or(ConnectionError::NotHttp("a header"))?;
    Ok(Some((head_bytes, Request { method, path, query, headers })))
}

/// Path and query of a request target, which some clients send with scheme and host.
fn split_target(target: &str) -> (String, String) {
    let target = target
        .strip_prefix("http://")
        .map_or(target, |rest| rest.find('/').map_or("/", |slash| &rest[slash..]));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    (path.into(), query.into())
}
