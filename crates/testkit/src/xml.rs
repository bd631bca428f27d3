//! The little XML that S3 needs, for the origin that writes it and the reader that reads it.

use std::fmt::{Display, Write};
use std::time::SystemTime;

use quick_xml::Reader;
use quick_xml::escape::escape;
use quick_xml::events::Event;
use time::OffsetDateTime;
use time::macros::format_description;

/// A document that is not XML, or not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

/// A document with one root element.
#[derive(Debug)]
pub(crate) struct Document {
    text: String,
    root: &'static str,
}

impl Document {
    pub(crate) fn new(root: &'static str) -> Self {
        let text =
            format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<{root} xmlns=\"{NAMESPACE}\">");
        Self { text, root }
    }

    pub(crate) fn leaf(&mut self, name: &str, value: impl Display) -> &mut Self {
        // Writing to a String cannot fail.
        let _ = write!(self.text, "<{name}>{}</{name}>", escape(format!("{value}")));
        self
    }

    pub(crate) fn group(&mut self, name: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let _ = write!(self.text, "<{name}>");
        fill(self);
        let _ = write!(self.text, "</{name}>");
        self
    }

    pub(crate) fn finish(&mut self) -> String {
        let _ = write!(self.text, "</{}>", self.root);
        std::mem::take(&mut self.text)
    }
}

/// The body of an error answer, which has no namespace.
pub(crate) fn error(code: &str, message: &str, resource: &str, request_id: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{}</Code><Message>{}</Message>\
         <Resource>{}</Resource><RequestId>{}</RequestId></Error>",
        escape(code),
        escape(message),
        escape(resource),
        escape(request_id),
    )
}

/// A date as listings write it.
pub(crate) fn date(at: SystemTime) -> String {
    let form = format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].000Z");
    OffsetDateTime::from(at).format(&form).unwrap_or_default()
}

/// The children of every `element` of a document, as (name, text).
pub(crate) fn children(xml: &[u8], element: &str) -> Result<Vec<Vec<(String, String)>>, Malformed> {
    let text = std::str::from_utf8(xml).map_err(|_| Malformed)?;
    let mut reader = Reader::from_str(text);
    let mut found = Vec::new();
    let mut path: Vec<String> = Vec::new();
    loop {
        let event = reader.read_event().map_err(|_| Malformed)?;
        match event {
            Event::Eof if path.is_empty() => return Ok(found),
            Event::Eof => return Err(Malformed),
            Event::Start(tag) => {
                let name = String::from_utf8_lossy(tag.local_name().as_ref()).into_owned();
                if name == element {
                    found.push(Vec::new());
                } else if path.last().is_some_and(|parent| parent == element)
                    && let Some(fields) = found.last_mut()
                {
                    fields.push((name.clone(), String::new()));
                }
                path.push(name);
            }
            Event::End(_) => drop(path.pop()),
            other => append_text(&other, &path, element, &mut found)?,
        }
    }
}

/// Adds text, or a reference such as `&amp;`, to the leaf that is open below `element`.
fn append_text(
    event: &Event<'_>,
    path: &[String],
    element: &str,
    found: &mut [Vec<(String, String)>],
) -> Result<(), Malformed> {
    let [.., parent, _] = path else { return Ok(()) };
    if parent != element {
        return Ok(());
    }
    let Some((_, text)) = found.last_mut().and_then(|fields| fields.last_mut()) else {
        return Ok(());
    };
    match event {
        Event::Text(piece) => text.push_str(&piece.decode().map_err(|_| Malformed)?),
        Event::CData(piece) => {
            text.push_str(&piece.decode().map_err(|_| Malformed)?);
        }
        Event::GeneralRef(name) => {
            let name = name.decode().map_err(|_| Malformed)?;
            let reference = format!("&{name};");
            text.push_str(&quick_xml::escape::unescape(&reference).map_err(|_| Malformed)?);
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_as_it_was_escaped() {
        let key = "a<b>&\"c' \u{1f600}";
        let mut document = Document::new("Delete");
        document.group("Object", |d| {
            d.leaf("Key", key);
        });
        let xml = document.finish();
        let objects = children(xml.as_bytes(), "Object").unwrap();
        assert_eq!(objects, [[("Key".to_owned(), key.to_owned())]]);
    }

    #[test]
    fn broken_documents_are_refused() {
        for xml in ["<Delete><Object>", "<a></b>", "\u{0}<"] {
            assert!(children(xml.as_bytes(), "Object").is_err(), "{xml}");
        }
    }
}
