//! aws-chunked: the framing inside a body that SDKs use to send trailing checksums.

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;

use super::error::S3Error;

/// Takes the framing off. Chunk signatures and trailers are dropped unread.
pub(super) fn decode(mut framed: Bytes, declared_bytes: Option<u64>) -> Result<Bytes, S3Error> {
    let mut body = BytesMut::with_capacity(framed.len());
    loop {
        let line = take_line(&mut framed).ok_or_else(incomplete)?;
        let size = line.split(|&b| b == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(size).ok().and_then(|s| usize::from_str_radix(s, 16).ok());
        match size.ok_or_else(incomplete)? {
            0 => break,
            size if framed.len() < size.saturating_add(2) => return Err(incomplete()),
            size => {
                body.extend_from_slice(&framed[..size]);
                framed.advance(size);
                if take_line(&mut framed).is_none_or(|line| !line.is_empty()) {
                    return Err(incomplete());
                }
            }
        }
    }
    if declared_bytes.is_some_and(|declared| declared != body.len() as u64) {
        return Err(incomplete());
    }
    Ok(body.freeze())
}

fn take_line(framed: &mut Bytes) -> Option<Bytes> {
    let end = framed.windows(2).position(|pair| pair == b"\r\n")?;
    let line = framed.split_to(end);
    framed.advance(2);
    Some(line)
}

fn incomplete() -> S3Error {
    let message = "The body is not aws-chunked, or is not as long as was declared.";
    S3Error::new(StatusCode::BAD_REQUEST, "IncompleteBody", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_join_and_trailers_go() {
        let framed =
            "5;chunk-signature=ab\r\nhello\r\n3\r\n, w\r\n0\r\nx-amz-checksum-crc32c:AA==\r\n\r\n";
        assert_eq!(decode(framed.into(), Some(8)).unwrap(), "hello, w");
    }

    #[test]
    fn a_body_that_is_cut_or_miscounted_is_refused() {
        let framed = "5\r\nhello\r\n0\r\n\r\n";
        for cut in 0..12 {
            assert!(decode(Bytes::from(&framed[..cut]), None).is_err(), "{cut}");
        }
        assert!(decode(framed.into(), Some(6)).is_err());
    }
}
