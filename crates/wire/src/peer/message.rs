//! The bytes of a message, in a header or in a body.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use bytes::{Buf, Bytes};
use http::HeaderValue;
use prost::Message as _;

use crate::WireError;
use crate::limits::HEADER_BYTES_MAX;

/// A message of the data port.
///
/// What comes from a peer is checked here as what comes from a client is at the S3 edge: a value
/// of one of these types holds valid names, ranges that lie in one block, and so on.
pub trait Message: Sized {
    /// For errors.
    const NAME: &'static str;
    /// Longest that [`Message::decode`] looks at.
    const BYTES_MAX: usize;

    /// The bytes of the message.
    fn encode(&self) -> Vec<u8>;

    /// Reads what [`Message::encode`] wrote.
    fn decode(bytes: &[u8]) -> Result<Self, WireError>;
}

/// A message that travels in a header: base64url without padding.
pub trait InHeader: Message {
    /// The header's value. An error where it would be longer than [`HEADER_BYTES_MAX`], which an
    /// origin with headers of such a length can cause.
    fn to_header(&self) -> Result<HeaderValue, WireError>;

    /// Reads what [`InHeader::to_header`] wrote.
    fn from_header(value: &HeaderValue) -> Result<Self, WireError>;
}

/// Something that is said in a generated type. The checks are in `from_proto`.
pub(super) trait Form: Sized {
    type Proto: prost::Message + Default;

    fn to_proto(&self) -> Self::Proto;
    fn from_proto(proto: Self::Proto) -> Result<Self, Invalid>;
}

/// A whole message.
pub(super) trait Whole: Form {
    const NAME: &'static str;
    const BYTES_MAX: usize = HEADER_MESSAGE_BYTES_MAX;
}

/// A whole message with an upper limit that fits into a header.
pub(super) trait Short: Whole {}

/// Bytes in [`HEADER_BYTES_MAX`] of base64.
const HEADER_MESSAGE_BYTES_MAX: usize = HEADER_BYTES_MAX / 4 * 3;

/// Why something is not what it should be.
pub(super) struct Invalid(String);

/// A part that the message cannot be without.
pub(super) fn required<T: Form>(part: Option<T::Proto>, name: &str) -> Result<T, Invalid> {
    let part = part.ok_or_else(|| Invalid::because(format_args!("no {name}")))?;
    T::from_proto(part)
}

impl Invalid {
    pub(super) fn because(reason: impl fmt::Display) -> Self {
        Self(reason.to_string())
    }

    fn of<T: Whole>(self) -> WireError {
        WireError { message: T::NAME, reason: self.0 }
    }
}

impl<E: std::error::Error> From<E> for Invalid {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl<T: Whole> Message for T {
    const NAME: &'static str = <T as Whole>::NAME;
    const BYTES_MAX: usize = <T as Whole>::BYTES_MAX;

    fn encode(&self) -> Vec<u8> {
        self.to_proto().encode_to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        read(bytes).map_err(Invalid::of::<T>)
    }
}

impl<T: Short> InHeader for T {
    fn to_header(&self) -> Result<HeaderValue, WireError> {
        write_header(&self.encode()).map_err(Invalid::of::<T>)
    }

    fn from_header(value: &HeaderValue) -> Result<Self, WireError> {
        // The message's byte fields share the decoded bytes.
        read_header(value).and_then(read).map_err(Invalid::of::<T>)
    }
}

fn read<T: Whole>(bytes: impl Buf) -> Result<T, Invalid> {
    let limit = <T as Whole>::BYTES_MAX;
    if bytes.remaining() > limit {
        return Err(Invalid::because(format_args!("{} bytes of {limit}", bytes.remaining())));
    }
    T::from_proto(T::Proto::decode(bytes)?)
}

fn write_header(bytes: &[u8]) -> Result<HeaderValue, Invalid> {
    if bytes.len() > HEADER_MESSAGE_BYTES_MAX {
        let len = bytes.len();
        return Err(Invalid::because(format_args!("{len} bytes do not fit into a header")));
    }
    Ok(HeaderValue::from_maybe_shared(Bytes::from(BASE64.encode(bytes)))?)
}

fn read_header(value: &HeaderValue) -> Result<Bytes, Invalid> {
    if value.len() > HEADER_BYTES_MAX {
        return Err(Invalid::because(format_args!("a header of {} bytes", value.len())));
    }
    Ok(BASE64.decode(value)?.into())
}
