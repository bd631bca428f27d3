//! ListObjects, versions 1 and 2: one walk over the keys, two ways to write it down.

use std::ops::Bound;

use super::error::S3Error;
use super::objects::{Object, Objects};
use super::op::{Call, Op};
use super::reply::Reply;
use crate::sign::encode_path;
use crate::xml::{self, Document};

/// Most entries in one answer, as at S3.
const MAX_KEYS: usize = 1000;

/// What a listing asks for.
#[derive(Debug)]
struct Ask<'a> {
    prefix: &'a str,
    delimiter: &'a str,
    max_keys: usize,
    encodes: bool,
    after: Bound<String>,
}

/// One page of a listing.
#[derive(Debug, Default)]
struct Page {
    objects: Vec<(String, Object)>,
    prefixes: Vec<String>,
    /// The last entry, when there are more.
    last: Option<String>,
}

pub(super) fn list(objects: &Objects, call: &Call) -> Result<Reply, S3Error> {
    if !objects.has_bucket(&call.bucket) {
        return Err(S3Error::no_such_bucket());
    }
    let ask = Ask::parse(call)?;
    let page = ask.walk(objects, &call.bucket);
    Ok(Reply::xml(match call.op {
        Op::ListObjectsV2 => ask.write_v2(call, &page),
        _ => ask.write_v1(call, &page),
    }))
}

impl<'a> Ask<'a> {
    fn parse(call: &'a Call) -> Result<Self, S3Error> {
        let query = &call.query;
        let invalid = |what: &str| S3Error::invalid_argument(format!("{what} is not valid"));
        let max_keys = match query.get("max-keys") {
            None => MAX_KEYS,
            Some(text) => text.parse::<usize>().map_err(|_| invalid("max-keys"))?.min(MAX_KEYS),
        };
        let after = match query.get("continuation-token") {
            Some(token) => token_key(token).ok_or_else(|| invalid("continuation-token"))?,
            None => query.get("start-after").or(query.get("marker")).unwrap_or("").into(),
        };
        Ok(Self {
            prefix: query.get("prefix").unwrap_or(""),
            delimiter: query.get("delimiter").unwrap_or(""),
            max_keys,
            encodes: query.get("encoding-type") == Some("url"),
            after: if after.is_empty() { Bound::Unbounded } else { Bound::Excluded(after) },
        })
    }

    fn walk(&self, objects: &Objects, bucket: &str) -> Page {
        let mut page = Page::default();
        let mut from = self.start();
        let mut last = None;
        while let Some((key, object)) = objects.next(bucket, &from) {
            if !key.starts_with(self.prefix) {
                break;
            }
            if page.objects.len() + page.prefixes.len() == self.max_keys {
                page.last = last;
                break;
            }
            if let Some(group) = self.group_of(&key) {
                from = after_all_with(group);
                last = Some(group.to_owned());
                page.prefixes.push(group.to_owned());
            } else {
                from = Bound::Excluded(key.clone());
                last = Some(key.clone());
                page.objects.push((key, object));
            }
        }
        page
    }

    /// Where the walk begins. A page that ended with a common prefix goes on behind all of it.
    fn start(&self) -> Bound<String> {
        match &self.after {
            Bound::Excluded(after) if after.as_str() >= self.prefix => match self.group_of(after) {
                Some(group) if group == after => after_all_with(group),
                _ => self.after.clone(),
            },
            _ => Bound::Included(self.prefix.to_owned()),
        }
    }

    /// The common prefix that `key` is rolled up into.
    fn group_of<'k>(&self, key: &'k str) -> Option<&'k str> {
        let rest = key.strip_prefix(self.prefix)?;
        let end = rest.find(self.delimiter).filter(|_| !self.delimiter.is_empty())?;
        Some(&key[..self.prefix.len() + end + self.delimiter.len()])
    }

    fn write_v2(&self, call: &Call, page: &Page) -> String {
        let mut answer = self.head(call, page);
        answer.leaf("KeyCount", page.objects.len() + page.prefixes.len());
        for (parameter, element) in
            [("continuation-token", "ContinuationToken"), ("start-after", "StartAfter")]
        {
            if let Some(value) = call.query.get(parameter) {
                answer.leaf(element, value);
            }
        }
        if let Some(last) = &page.last {
            answer.leaf("NextContinuationToken", hex::encode(last));
        }
        self.entries(&mut answer, page);
        answer.finish()
    }

    fn write_v1(&self, call: &Call, page: &Page) -> String {
        let mut answer = self.head(call, page);
        answer.leaf("Marker", self.encode(call.query.get("marker").unwrap_or("")));
        // As at S3, without a delimiter the last key is the marker and is not said again.
        if let Some(last) = page.last.as_ref().filter(|_| !self.delimiter.is_empty()) {
            answer.leaf("NextMarker", self.encode(last));
        }
        self.entries(&mut answer, page);
        answer.finish()
    }

    fn head(&self, call: &Call, page: &Page) -> Document {
        let mut answer = Document::new("ListBucketResult");
        answer.leaf("Name", &call.bucket).leaf("Prefix", self.encode(self.prefix));
        if !self.delimiter.is_empty() {
            answer.leaf("Delimiter", self.encode(self.delimiter));
        }
        if self.encodes {
            answer.leaf("EncodingType", "url");
        }
        answer.leaf("MaxKeys", self.max_keys).leaf("IsTruncated", page.last.is_some());
        answer
    }

    fn entries(&self, answer: &mut Document, page: &Page) {
        for (key, object) in &page.objects {
            answer.group("Contents", |entry| {
                entry.leaf("Key", self.encode(key));
                entry.leaf("LastModified", xml::date(object.last_modified));
                entry.leaf("ETag", &object.etag).leaf("Size", object.size_bytes);
                entry.leaf("StorageClass", "STANDARD");
            });
        }
        for prefix in &page.prefixes {
            answer.group("CommonPrefixes", |entry| {
                entry.leaf("Prefix", self.encode(prefix));
            });
        }
    }

    fn encode(&self, text: &str) -> String {
        if self.encodes { encode_path(text) } else { text.to_owned() }
    }
}

fn token_key(token: &str) -> Option<String> {
    String::from_utf8(hex::decode(token).ok()?).ok()
}

/// The bound behind every key that begins with `group`: its last character raised by one.
fn after_all_with(group: &str) -> Bound<String> {
    let mut bound = group.to_owned();
    while let Some(last) = bound.pop() {
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            bound.push(next);
            return Bound::Included(bound);
        }
    }
    // Only characters that nothing follows: no key is behind them.
    Bound::Excluded(char::MAX.to_string().repeat(forebay_types::names::MAX_KEY_BYTES))
}
