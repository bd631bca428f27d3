//! Multipart uploads. Parts may be smaller than S3's 5 MiB, so that tests can be.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::ETAG;
use http::{HeaderMap, StatusCode};

use super::error::S3Error;
use super::http::Request;
use super::objects::{Held, Objects};
use super::op::Call;
use super::reply::Reply;
use super::write::{Context, check_conditions, content_tag, field, hold, kept_headers, written};
use crate::xml::{self, Document};

/// Most uploads at a time.
const MAX_UPLOADS: usize = 10_000;
/// Most parts of one, as at S3.
const MAX_PARTS: u32 = 10_000;

/// The uploads that have begun and neither been completed nor aborted.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    begun: u64,
    open: BTreeMap<String, Upload>,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    key: String,
    headers: HeaderMap,
    parts: BTreeMap<u32, Part>,
}

#[derive(Debug)]
struct Part {
    etag: String,
    held: Arc<Held>,
}

impl Uploads {
    pub(super) fn create(
        &mut self,
        objects: &Objects,
        call: &Call,
        request: &Request,
    ) -> Result<Reply, S3Error> {
        if !objects.has_bucket(&call.bucket) {
            return Err(S3Error::no_such_bucket());
        }
        if self.open.len() >= MAX_UPLOADS {
            return Err(S3Error::slow_down());
        }
        self.begun += 1;
        let id = format!("upload-{:08}", self.begun);
        let upload = Upload {
            bucket: call.bucket.clone(),
            key: call.key.clone(),
            headers: kept_headers(&request.headers),
            parts: BTreeMap::new(),
        };
        self.open.insert(id.clone(), upload);
        let mut answer = Document::new("InitiateMultipartUploadResult");
        answer.leaf("Bucket", &call.bucket).leaf("Key", &call.key).leaf("UploadId", id);
        Ok(Reply::xml(answer.finish()))
    }

    pub(super) fn part(
        &mut self,
        ctx: Context<'_>,
        call: &Call,
        body: Bytes,
    ) -> Result<Reply, S3Error> {
        let number = call.query.get("partNumber").and_then(|text| text.parse().ok());
        let number = number.filter(|n| (1..=MAX_PARTS).contains(n)).ok_or_else(|| {
            S3Error::invalid_argument("Part number must be an integer between 1 and 10000")
        })?;
        let upload = self.upload(call)?;
        let etag = content_tag(&body);
        let mut reply = Reply::empty(StatusCode::OK);
        reply.set(ETAG, &etag);
        upload.parts.insert(number, Part { etag, held: hold(ctx.budget, body)? });
        Ok(reply)
    }

    pub(super) fn list_parts(&mut self, call: &Call) -> Result<Reply, S3Error> {
        let upload = self.upload(call)?;
        let mut answer = Document::new("ListPartsResult");
        answer.leaf("Bucket", &call.bucket).leaf("Key", &call.key);
        answer.leaf("UploadId", upload_id(call)).leaf("IsTruncated", false);
        for (number, part) in &upload.parts {
            answer.group("Part", |entry| {
                entry.leaf("PartNumber", number).leaf("ETag", &part.etag);
                entry.leaf("Size", part.held.bytes.len());
            });
        }
        Ok(Reply::xml(answer.finish()))
    }

    pub(super) fn abort(&mut self, call: &Call) -> Result<Reply, S3Error> {
        self.upload(call)?;
        self.open.remove(upload_id(call));
        Ok(Reply::empty(StatusCode::NO_CONTENT))
    }

    /// Joins the parts named. The upload stays open when that fails.
    pub(super) fn complete(
        &mut self,
        objects: &mut Objects,
        ctx: Context<'_>,
        call: &Call,
        request: &Request,
        body: &[u8],
    ) -> Result<Reply, S3Error> {
        let upload = self.upload(call)?;
        check_conditions(objects, call, request)?;
        let chosen = upload.choose(&xml::children(body, "Part")?)?;

        let joined = chosen.iter().fold(BytesMut::new(), |mut joined, part| {
            joined.extend_from_slice(&part.held.bytes);
            joined
        });
        let tags: String = chosen.iter().map(|part| part.etag.as_str()).collect();
        let etag = content_tag(tags.as_bytes());
        let etag = format!("\"{}-{}\"", etag.trim_matches('"'), chosen.len());
        let headers = std::mem::take(&mut upload.headers);
        let held = hold(ctx.budget, joined.freeze())?;
        objects.put(&call.bucket, &call.key, written(etag.clone(), held, headers, ctx.now));
        self.open.remove(upload_id(call));

        let mut answer = Document::new("CompleteMultipartUploadResult");
        answer.leaf("Bucket", &call.bucket).leaf("Key", &call.key).leaf("ETag", etag);
        Ok(Reply::xml(answer.finish()))
    }

    fn upload(&mut self, call: &Call) -> Result<&mut Upload, S3Error> {
        self.open
            .get_mut(upload_id(call))
            .filter(|upload| upload.bucket == call.bucket && upload.key == call.key)
            .ok_or_else(S3Error::no_such_upload)
    }
}

impl Upload {
    fn choose(&self, named: &[Vec<(String, String)>]) -> Result<Vec<&Part>, S3Error> {
        let refuse = |code, message| S3Error::new(StatusCode::BAD_REQUEST, code, message);
        let mut last = 0;
        let mut chosen = Vec::with_capacity(named.len());
        for fields in named {
            let number = field(fields, "PartNumber").and_then(|text| text.parse().ok());
            let number: u32 = number.ok_or_else(S3Error::malformed_xml)?;
            if number <= last {
                return Err(refuse("InvalidPartOrder", "The list of parts was not ascending."));
            }
            last = number;
            let tag = field(fields, "ETag").unwrap_or_default().trim_matches('"');
            let part = self.parts.get(&number).filter(|p| p.etag.trim_matches('"') == tag);
            let message = "One or more of the specified parts could not be found.";
            chosen.push(part.ok_or_else(|| refuse("InvalidPart", message))?);
        }
        if chosen.is_empty() { Err(S3Error::malformed_xml()) } else { Ok(chosen) }
    }
}

fn upload_id(call: &Call) -> &str {
    call.query.get("uploadId").unwrap_or_default()
}
