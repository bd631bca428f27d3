//! The bytes of what voters keep and send each other: a version, then postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Of every form that this crate writes. A release that writes another one still reads this.
const VERSION: u8 = 1;

/// Bytes that this release cannot use.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// Written by a newer release: upgrade this voter.
    #[error("written in version {0} of the format, this release knows version {VERSION}")]
    Version(u8),
    /// Not what was written.
    #[error("damaged: {0}")]
    Damaged(#[from] postcard::Error),
    /// Nothing at all.
    #[error("empty")]
    Empty,
}

/// The bytes of `value`.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>, FormatError> {
    Ok(postcard::to_extend(value, vec![VERSION])?)
}

/// Reads what [`to_bytes`] wrote.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormatError> {
    match bytes {
        [VERSION, body @ ..] => Ok(postcard::from_bytes(body)?),
        [version, ..] => Err(FormatError::Version(*version)),
        [] => Err(FormatError::Empty),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_form_is_refused_and_not_guessed_at() {
        let mut bytes = to_bytes(&(1u64, "text")).unwrap();
        assert_eq!(from_bytes::<(u64, String)>(&bytes).unwrap(), (1, "text".to_owned()));
        bytes[0] = 2;
        assert!(matches!(from_bytes::<(u64, String)>(&bytes), Err(FormatError::Version(2))));
        assert!(matches!(from_bytes::<u64>(&[]), Err(FormatError::Empty)));
        assert!(matches!(from_bytes::<u64>(&[1]), Err(FormatError::Damaged(_))));
    }
}
