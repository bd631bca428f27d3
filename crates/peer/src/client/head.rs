//! The head of an ask as it is sent, and of an answer as it is read.
//!
//! HTTP/1.1 as our own server speaks it, and no more: every answer says how long it is, and
//! nothing is chunked. Whatever else comes is an error, which costs the connection.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::peer::Ask;
use crate::limits::{HEAD_BYTES_MAX, HEADERS_MAX};
use crate::protocol::ASK;

/// The head of an answer, and how many bytes follow.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body_bytes: u64,
}

/// Why an answer cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum HeadError {
    #[error("the answer is not HTTP: {0}")]
    Http(#[from] httparse::Error),
    #[error("the answer has a header that is none")]
    Header,
    #[error("the answer has status {0}")]
    Status(u16),
    #[error("the answer does not say how long it is")]
    Length,
    #[error("the answer's head has more than {HEAD_BYTES_MAX} bytes")]
    TooLong,
}

/// An ask, head and body.
pub(super) fn encode(ask: &Ask) -> Bytes {
    let message = ask.message.as_ref().map_or(&[][..], HeaderValue::as_bytes);
    let mut bytes = BytesMut::with_capacity(128 + message.len() + ask.body.len());
    let (method, path) = (ask.op.method(), ask.op.path());
    for part in [method.as_str(), " ", path, " HTTP/1.1\r\nhost: forebay\r\n"] {
        bytes.put(part.as_bytes());
    }
    if !message.is_empty() {
        bytes.put(ASK.as_str().as_bytes());
        bytes.put(&b": "[..]);
        bytes.put(message);
        bytes.put(&b"\r\n"[..]);
    }
    bytes.put(format!("content-length: {}\r\n\r\n", ask.body.len()).as_bytes());
    bytes.put(ask.body.clone());
    bytes.freeze()
}

/// Takes the head of an answer from the front of `received`; `None` while it is not all there.
pub(super) fn decode(received: &mut BytesMut) -> Result<Option<Head>, HeadError> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_bytes) = response.parse(received)? else {
        let is_too_long = received.len() > HEAD_BYTES_MAX;
        return if is_too_long { Err(HeadError::TooLong) } else { Ok(None) };
    };
    let code = response.code.unwrap_or_default();
    let status = StatusCode::from_u16(code).map_err(|_| HeadError::Status(code))?;
    if status.is_informational() {
        return Err(HeadError::Status(code));
    }
    let headers = headers_of(response.headers)?;
    let body_bytes = length_of(&headers)?;
    received.advance(head_bytes);
    Ok(Some(Head { status, headers, body_bytes }))
}

fn headers_of(lines: &[httparse::Header<'_>]) -> Result<HeaderMap, HeadError> {
    let mut headers = HeaderMap::with_capacity(lines.len());
    for line in lines {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| HeadError::Header)?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| HeadError::Header)?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn length_of(headers: &HeaderMap) -> Result<u64, HeadError> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let (Some(length), None) = (lengths.next(), lengths.next()) else {
        return Err(HeadError::Length);
    };
    let is_chunked = headers.contains_key(header::TRANSFER_ENCODING);
    let digits = length.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let length = digits.filter(|_| !is_chunked).and_then(|digits| digits.parse().ok());
    length.ok_or(HeadError::Length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Op;

    fn read(bytes: &[u8]) -> Result<Option<Head>, HeadError> {
        decode(&mut BytesMut::from(bytes))
    }

    #[test]
    fn an_ask_says_what_it_asks_and_how_long_it_is() {
        let message = Some(HeaderValue::from_static("abc"));
        let ask = Ask { op: Op::Forget, message, body: Bytes::from_static(b"names") };
        assert_eq!(
            encode(&ask),
            "POST /v1/forget HTTP/1.1\r\nhost: forebay\r\nx-forebay-ask: abc\r\n\
             content-length: 5\r\n\r\nnames"
        );
    }

    #[test]
    fn what_follows_a_head_is_left_and_what_is_cut_is_waited_for() {
        let answer = b"HTTP/1.1 200 OK\r\nX-Forebay-Epoch: 7\r\nContent-Length: 9\r\n\r\nbo";
        let mut received = BytesMut::from(&answer[..]);
        let head = decode(&mut received).unwrap().unwrap();
        assert_eq!((head.status, head.body_bytes), (StatusCode::OK, 9));
        assert_eq!(head.headers["x-forebay-epoch"], "7");
        assert_eq!(received, "bo");
        for end in 0..answer.len() - 2 {
            assert!(read(&answer[..end]).unwrap().is_none(), "{end}");
        }
    }

    #[test]
    fn an_answer_whose_end_is_not_known_is_refused() {
        for headers in [
            "",
            "content-length: 5\r\ncontent-length: 5\r\n",
            "content-length: +5\r\n",
            "content-length: 99999999999999999999\r\n",
            "transfer-encoding: chunked\r\n",
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
        ] {
            let answer = format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
            assert!(matches!(read(answer.as_bytes()), Err(HeadError::Length)), "{headers}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for answer in [
            "HTTP/1.1 100 Continue\r\ncontent-length: 0\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n",
            &format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(HEADERS_MAX + 1)),
            &format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(HEAD_BYTES_MAX)),
        ] {
            assert!(read(answer.as_bytes()).is_err(), "{}", &answer[..20]);
        }
    }
}
