//! The secret that every process of a cluster holds, in the one form in which it is used.

use std::fmt;
use std::sync::Arc;

use ring::hmac;

use crate::limits::SECRET_BYTES_MIN;

/// Proves and checks membership of the cluster. Clones share one key; the text is not kept.
#[derive(Clone)]
pub struct ClusterSecret(Arc<hmac::Key>);

/// A text that cannot be a cluster secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// It can be guessed.
    #[error(
        "the cluster secret has {0} bytes, at least {SECRET_BYTES_MIN} are needed: make one with \
         `head -c 32 /dev/urandom | base64`"
    )]
    Short(usize),
}

impl ClusterSecret {
    /// Takes the text of a secret's file. White space around it does not count.
    pub fn from_text(text: &str) -> Result<Self, SecretError> {
        let secret = text.trim().as_bytes();
        if secret.len() < SECRET_BYTES_MIN {
            return Err(SecretError::Short(secret.len()));
        }
        Ok(Self(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, secret))))
    }

    pub(crate) fn key(&self) -> &hmac::Key {
        &self.0
    }
}

impl fmt::Debug for ClusterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_secret_does_not_count() {
        let text = "s".repeat(SECRET_BYTES_MIN);
        let [one, two] = [text.clone(), format!("  {text}\r\n")]
            .map(|text| ClusterSecret::from_text(&text).unwrap());
        let tag = hmac::sign(one.key(), b"claim");
        assert!(hmac::verify(two.key(), b"claim", tag.as_ref()).is_ok());
    }

    #[test]
    fn a_short_secret_is_refused_with_what_to_do_and_without_showing_it() {
        let error = ClusterSecret::from_text("  open-sesame-open-sesame-sesame \n").unwrap_err();
        assert_eq!(error, SecretError::Short(30));
        let message = error.to_string();
        assert!(message.contains("at least 32") && !message.contains("sesame"), "{message}");
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = ClusterSecret::from_text(&"sesame".repeat(8)).unwrap();
        assert_eq!(format!("{secret:?}"), "***");
    }
}
