//! The XML that S3 speaks: writing an error, reading the list of a DeleteObjects call.
//!
//! The reader takes exactly the documented grammar and nothing else: no document type, no
//! unknown or repeated element. What it does not understand it refuses, because the origin
//! might understand it differently from the authorization that rests on it.

use std::borrow::Cow;

use quick_xml::escape::partial_escape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;

use crate::code::Code;
use crate::error::S3Error;

/// Objects that one DeleteObjects call may name.
const MAX_DELETE_OBJECTS: usize = 1000;

/// Writes an error body.
pub(crate) fn error_body(
    error: &S3Error,
    resource: &str,
    request_id: &str,
    host_id: &str,
) -> String {
    let message = text(error.message());
    let resource = text(resource);
    let code = text(error.code());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code>\
         <Message>{message}</Message><Resource>{resource}</Resource>\
         <RequestId>{request_id}</RequestId><HostId>{host_id}</HostId></Error>"
    )
}

/// Escapes markup, and replaces the characters that XML 1.0 cannot hold at all.
fn text(raw: &str) -> Cow<'_, str> {
    let illegal = |c: char| c < ' ' && !matches!(c, '\t' | '\n' | '\r');
    if raw.contains(illegal) {
        return Cow::Owned(partial_escape(raw.replace(illegal, "\u{fffd}")).into_owned());
    }
    partial_escape(raw)
}

/// The code and message of an error body, as far as it has them.
pub(crate) fn parse_error(xml: &str) -> Option<(String, String)> {
    let mut reader = Reader::from_str(xml);
    let (mut code, mut message) = (None, String::new());
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) if start.name().as_ref() == b"Code" => {
                code = Some(element_text(&mut reader, b"Code").ok()?);
            }
            Event::Start(start) if start.name().as_ref() == b"Message" => {
                message = element_text(&mut reader, b"Message").ok()?;
            }
            Event::Eof => return Some((code?, message)),
            _ => {}
        }
    }
}

/// One object of a DeleteObjects call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteEntry {
    pub(crate) key: String,
    pub(crate) version_id: Option<String>,
}

/// Reads the body of a DeleteObjects call.
pub(crate) fn parse_delete(xml: &str) -> Result<Vec<DeleteEntry>, S3Error> {
    let mut reader = Reader::from_str(xml);
    match next_markup(&mut reader)? {
        Event::Start(start) if start.name().as_ref() == b"Delete" => {}
        _ => return Err(malformed("the root element is not Delete")),
    }
    let entries = delete_entries(&mut reader)?;
    match next_markup(&mut reader)? {
        Event::Eof => Ok(entries),
        _ => Err(malformed("something follows the root element")),
    }
}

fn delete_entries(reader: &mut Reader<&[u8]>) -> Result<Vec<DeleteEntry>, S3Error> {
    let mut entries = Vec::new();
    let mut quiet_seen = false;
    loop {
        match next_markup(reader)? {
            Event::Start(start) if start.name().as_ref() == b"Object" => {
                if entries.len() == MAX_DELETE_OBJECTS {
                    return Err(malformed("more than 1000 objects"));
                }
                entries.push(delete_entry(reader)?);
            }
            Event::Start(start) if start.name().as_ref() == b"Quiet" && !quiet_seen => {
                quiet_seen = true;
                element_text(reader, b"Quiet")?;
            }
            Event::End(_) if entries.is_empty() => return Err(malformed("no object is named")),
            Event::End(_) => return Ok(entries),
            _ => return Err(malformed("Delete holds something other than Object and Quiet")),
        }
    }
}

fn delete_entry(reader: &mut Reader<&[u8]>) -> Result<DeleteEntry, S3Error> {
    let (mut key, mut version_id) = (None, None);
    let mut seen: Vec<&'static [u8]> = Vec::with_capacity(5);
    loop {
        let name = match next_markup(reader)? {
            Event::Start(start) => object_field(&start)?,
            Event::End(_) => break,
            _ => return Err(malformed("Object holds something that is no element")),
        };
        if seen.contains(&name) {
            return Err(malformed("an element of Object is repeated"));
        }
        seen.push(name);
        let value = element_text(reader, name)?;
        match name {
            b"Key" => key = Some(value),
            b"VersionId" => version_id = Some(value),
            _ => {}
        }
    }
    let key = key.filter(|key| !key.is_empty()).ok_or_else(|| malformed("Object has no Key"))?;
    Ok(DeleteEntry { key, version_id })
}

fn object_field(start: &BytesStart<'_>) -> Result<&'static [u8], S3Error> {
    match start.name().as_ref() {
        b"Key" => Ok(b"Key"),
        b"VersionId" => Ok(b"VersionId"),
        b"ETag" => Ok(b"ETag"),
        b"LastModifiedTime" => Ok(b"LastModifiedTime"),
        b"Size" => Ok(b"Size"),
        _ => Err(malformed("Object has an unknown element")),
    }
}

/// The next event that is neither white space nor the XML declaration.
fn next_markup<'a>(reader: &mut Reader<&'a [u8]>) -> Result<Event<'a>, S3Error> {
    loop {
        match reader.read_event().map_err(|error| malformed(&error.to_string()))? {
            Event::Text(text) if text.iter().all(u8::is_ascii_whitespace) => {}
            Event::Decl(_) => {}
            Event::DocType(_) | Event::PI(_) | Event::Comment(_) => {
                return Err(malformed("only elements and text are taken"));
            }
            event => return Ok(event),
        }
    }
}

/// The text up to the end of the element `name`, references resolved.
fn element_text(reader: &mut Reader<&[u8]>, name: &[u8]) -> Result<String, S3Error> {
    let mut value = String::new();
    loop {
        match reader.read_event().map_err(|error| malformed(&error.to_string()))? {
            Event::Text(text) => {
                value.push_str(&text.decode().map_err(|error| malformed(&error.to_string()))?);
            }
            Event::GeneralRef(reference) => {
                let entity = reference.decode().map_err(|error| malformed(&error.to_string()))?;
                value.push(character(&entity)?);
            }
            Event::End(end) if end.name().as_ref() == name => return Ok(value),
            _ => return Err(malformed("an element that should hold text holds something else")),
        }
    }
}

fn character(entity: &str) -> Result<char, S3Error> {
    let number =
        |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let found = match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => match (entity.strip_prefix("#x"), entity.strip_prefix('#')) {
            (Some(hex), _) => number(hex, 16),
            (None, Some(decimal)) => number(decimal, 10),
            (None, None) => None,
        },
    };
    found.ok_or_else(|| malformed("an unknown character reference"))
}

fn malformed(why: &str) -> S3Error {
    S3Error::new(Code::MalformedXml, format!("The XML you provided was not well-formed: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_boto3_sends_is_read() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
            <Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
              <Object><Key>a &amp; b/&#x2603;</Key></Object>
              <Object><Key> c </Key><VersionId>v1</VersionId></Object>
              <Quiet>true</Quiet>
            </Delete>"#;
        let entries = parse_delete(xml).unwrap();
        let expected = [
            DeleteEntry { key: "a & b/\u{2603}".into(), version_id: None },
            DeleteEntry { key: " c ".into(), version_id: Some("v1".into()) },
        ];
        assert_eq!(entries, expected);
    }

    #[test]
    fn whatever_two_parsers_could_read_differently_is_refused() {
        for xml in [
            "",
            "<Delete/>",
            "<Delete></Delete>",
            "<Delete><Object></Object></Delete>",
            "<Delete><Object><Key>a</Key><Key>b</Key></Object></Delete>",
            "<Delete><Object><Key>a<!-- x -->b</Key></Object></Delete>",
            "<Delete><Object><Key><![CDATA[a]]></Key></Object></Delete>",
            "<Delete><Object><Key>&e;</Key></Object></Delete>",
            "<Delete><Object><s:Key>a</s:Key></Object></Delete>",
            "<Delete><Object><Key>a</Key><Other>b</Other></Object></Delete>",
            "<!DOCTYPE d [<!ENTITY e 'x'>]><Delete><Object><Key>a</Key></Object></Delete>",
            "<Delete><Object><Key>a</Key></Object></Delete><Delete/>",
            "<Remove><Object><Key>a</Key></Object></Remove>",
            "<Delete><Object><Key>a</Key></Object>",
        ] {
            assert!(parse_delete(xml).is_err(), "{xml}");
        }
    }

    #[test]
    fn an_error_can_be_read_back_whatever_its_text() {
        let error = S3Error::new(Code::InvalidArgument, "a<b & \"c\"");
        let xml = error_body(&error, "/b/\u{1}<k>", "R", "H");
        let (code, message) = parse_error(&xml).unwrap();
        assert_eq!((code.as_str(), message.as_str()), ("InvalidArgument", "a<b & \"c\""));
        assert!(!xml.contains('\u{1}'));
    }

    proptest! {
        #[test]
        fn no_body_makes_the_readers_panic(xml in "(<|>|/|&|;|#x|Delete|Object|Key|!--|\\PC){0,60}") {
            let _ = parse_delete(&xml);
            let _ = parse_error(&xml);
        }
    }
}
