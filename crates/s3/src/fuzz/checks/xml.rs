//! What is named in the list of a DeleteObjects call is what is read, and errors can be read
//! back.

use crate::code::Code;
use crate::error::S3Error;
use crate::xml::{DeleteEntry, error_body, parse_delete, parse_error};

/// Checks any text as a document.
pub(crate) fn check(document: &str) {
    let _ = parse_error(document);
    let Ok(entries) = parse_delete(document) else { return };
    assert!((1..=1000).contains(&entries.len()));
    assert!(entries.iter().all(|entry| !entry.key.is_empty()));
    assert_eq!(parse_delete(&written(&entries)).ok(), Some(entries));
}

/// Checks a list of keys, not empty, and their versions.
pub(crate) fn check_names(names: &[(String, Option<String>)]) {
    let entries = names.iter().cloned().map(|(key, version_id)| DeleteEntry { key, version_id });
    let entries: Vec<_> = entries.collect();
    assert_eq!(parse_delete(&written(&entries)).ok(), Some(entries));
}

/// Checks the message of an error, of characters that XML can hold.
pub(crate) fn check_error(text: &str) {
    let error = S3Error::new(Code::InvalidArgument, text.to_owned());
    let read = parse_error(&error_body(&error, text, "R", "H"));
    assert_eq!(read, Some(("InvalidArgument".into(), text.to_owned())));
}

fn written(entries: &[DeleteEntry]) -> String {
    let objects = entries.iter().map(|DeleteEntry { key, version_id }| {
        let version = version_id.as_deref().map(escaped);
        let version = version.map(|id| format!("<VersionId>{id}</VersionId>")).unwrap_or_default();
        format!("<Object><Key>{}</Key>{version}</Object>", escaped(key))
    });
    format!("<Delete>{}</Delete>", objects.collect::<String>())
}

/// Every character as a reference: what it is cannot be in doubt.
fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |text, c| text + "&#" + &u32::from(c).to_string() + ";")
}
