//! Which S3 operation a request is. Path style only: an origin on loopback has no name.

use http::{HeaderMap, Method};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

use super::error::S3Error;

/// The operations that this origin answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names are those of the S3 API reference")]
pub enum Op {
    ListBuckets,
    HeadBucket,
    CreateBucket,
    GetBucketLocation,
    ListObjects,
    ListObjectsV2,
    GetObject,
    HeadObject,
    PutObject,
    CopyObject,
    DeleteObject,
    DeleteObjects,
    CreateMultipartUpload,
    UploadPart,
    CompleteMultipartUpload,
    AbortMultipartUpload,
    ListParts,
    /// Anything else: answered `501 NotImplemented`.
    Unknown,
}

/// An operation with what it is about.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) op: Op,
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) query: Query,
}

/// The decoded query of a request, in the order in which it came.
#[derive(Debug, Clone, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Call {
    pub(super) fn parse(
        method: &Method,
        path: &str,
        query: &str,
        headers: &HeaderMap,
    ) -> Result<Self, S3Error> {
        let (bucket, key) = split_path(path)?;
        let query = Query::parse(query);
        let op = match (bucket.is_empty(), key.is_empty()) {
            (true, _) if method == Method::GET => Op::ListBuckets,
            (true, _) => Op::Unknown,
            (false, true) => bucket_op(method, &query),
            (false, false) => object_op(method, &query, headers),
        };
        Ok(Self { op, bucket, key, query })
    }
}

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (decode_query(name), decode_query(value)))
                .collect(),
        )
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether every parameter is one of `known` or only decorates.
    fn only(&self, known: &[&str]) -> bool {
        self.0.iter().all(|(name, _)| {
            known.contains(&name.as_str()) || name == "x-id" || name.starts_with("response-")
        })
    }
}

fn split_path(path: &str) -> Result<(String, String), S3Error> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
    let decode = |text: &str| {
        percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| {
            S3Error::new(http::StatusCode::BAD_REQUEST, "InvalidURI", "path is not UTF-8")
        })
    };
    Ok((decode(bucket)?, decode(key)?))
}

fn decode_query(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn bucket_op(method: &Method, query: &Query) -> Op {
    const LIST: &[&str] = &["prefix", "delimiter", "max-keys", "encoding-type", "marker"];
    const LIST_V2: &[&str] = &[
        "list-type",
        "prefix",
        "delimiter",
        "max-keys",
        "encoding-type",
        "continuation-token",
        "start-after",
        "fetch-owner",
    ];
    match *method {
        Method::HEAD => Op::HeadBucket,
        Method::PUT if query.only(&[]) => Op::CreateBucket,
        Method::POST if query.has("delete") => Op::DeleteObjects,
        Method::GET if query.has("location") => Op::GetBucketLocation,
        Method::GET if query.get("list-type") == Some("2") && query.only(LIST_V2) => {
            Op::ListObjectsV2
        }
        Method::GET if query.only(LIST) => Op::ListObjects,
        _ => Op::Unknown,
    }
}

fn object_op(method: &Method, query: &Query, headers: &HeaderMap) -> Op {
    let copies = headers.contains_key("x-amz-copy-source");
    let in_upload = query.has("uploadId");
    match *method {
        Method::GET if in_upload => Op::ListParts,
        Method::GET if query.only(&["versionId", "partNumber"]) => Op::GetObject,
        Method::HEAD => Op::HeadObject,
        Method::PUT if in_upload && query.has("partNumber") && !copies => Op::UploadPart,
        Method::PUT if query.only(&[]) && copies => Op::CopyObject,
        Method::PUT if query.only(&[]) => Op::PutObject,
        Method::POST if query.has("uploads") => Op::CreateMultipartUpload,
        Method::POST if in_upload => Op::CompleteMultipartUpload,
        Method::DELETE if in_upload => Op::AbortMultipartUpload,
        Method::DELETE if query.only(&["versionId"]) => Op::DeleteObject,
        _ => Op::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(method: &Method, path: &str, query: &str) -> Call {
        Call::parse(method, path, query, &HeaderMap::new()).unwrap()
    }

    #[test]
    fn keys_are_the_decoded_path_and_never_normalised() {
        for (path, key) in [
            ("/b/a/../c", "a/../c"),
            ("/b//x", "/x"),
            ("/b/a%2Fb%20c+d", "a/b c+d"),
            ("/b/%2e%2e/", "../"),
        ] {
            assert_eq!(call(&Method::GET, path, "x-id=GetObject").key, key);
        }
    }

    #[test]
    fn a_sub_resource_that_is_not_implemented_is_never_taken_for_an_object() {
        assert_eq!(call(&Method::GET, "/b/k", "tagging").op, Op::Unknown);
        assert_eq!(call(&Method::PUT, "/b/k", "acl=").op, Op::Unknown);
        assert_eq!(call(&Method::GET, "/b", "policy").op, Op::Unknown);
        assert_eq!(call(&Method::GET, "/b/k", "").op, Op::GetObject);
    }
}
