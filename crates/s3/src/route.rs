//! What a request wants, as a closed list; each entry knows which permission it needs.
//!
//! A plain GET or HEAD of an object is the cache's. Everything else is the origin's, and is
//! told apart only as far as authorization and invalidation need it. A sub-resource that
//! is not known here is forwarded, never answered from the cache.

use forebay_types::{BucketName, ObjectKey};
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};

use crate::address::{Address, Domains};
use crate::code::Code;
use crate::copy_source::{COPY_SOURCE, CopySource};
use crate::error::S3Error;
use crate::query::Query;

/// A request, parsed as far as it can be before anybody is asked whether it is allowed.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) address: Address,
    pub(crate) query: Query,
    pub(crate) operation: Operation,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Operation {
    /// GET or HEAD of an object's bytes: the cache answers.
    ReadObject(ReadObject),
    /// A read of an object that the cache cannot answer: a part, an ACL, an SSE-C object.
    AskObject(BucketName, ObjectKey),
    /// Names, not bytes: LIST in all forms, and what else a GET tells of a bucket.
    ListBucket { bucket: BucketName, prefix: String },
    /// Whether the bucket is there, and where.
    ProbeBucket(BucketName),
    /// The names of all buckets.
    ListBuckets,
    /// Anything that changes one object, or may.
    WriteObject(WriteObject),
    /// POST ?delete: which objects, only the body says.
    DeleteObjects(BucketName),
    /// Anything that changes a bucket.
    WriteBucket(BucketName),
}

/// GET or HEAD of an object's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadObject {
    pub(crate) bucket: BucketName,
    pub(crate) key: ObjectKey,
    pub(crate) version_id: Option<String>,
    /// False for HEAD.
    pub(crate) body: bool,
}

/// A change of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WriteObject {
    pub(crate) bucket: BucketName,
    pub(crate) key: ObjectKey,
    pub(crate) version_id: Option<String>,
    /// The object that is copied, which takes the right to read it.
    pub(crate) source: Option<CopySource>,
    /// Whether a reader may notice: a part that is uploaded is not yet an object.
    pub(crate) visible: bool,
}

impl Call {
    /// Classifies a request. The query has been taken from the URI, signature and all.
    pub(crate) fn parse(parts: &Parts, query: Query, domains: &Domains) -> Result<Self, S3Error> {
        let address = Address::parse(parts, domains)?;
        let operation = match address.clone() {
            Address::Service => of_service(&parts.method)?,
            Address::Bucket(bucket) => of_bucket(parts, &query, bucket)?,
            Address::Object(bucket, key) => of_object(parts, &query, bucket, key)?,
        };
        Ok(Self { address, query, operation })
    }
}

impl Operation {
    /// The name in metrics and logs.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::ReadObject(ReadObject { body: true, .. }) => "get",
            Self::ReadObject(ReadObject { body: false, .. }) => "head",
            Self::AskObject(..) => "ask_object",
            Self::ListBucket { .. } => "list",
            Self::ProbeBucket(_) => "head_bucket",
            Self::ListBuckets => "list_buckets",
            Self::WriteObject(WriteObject { source: Some(_), .. }) => "copy",
            Self::WriteObject(_) => "write",
            Self::DeleteObjects(_) => "delete_objects",
            Self::WriteBucket(_) => "write_bucket",
        }
    }
}

/// The parameters of ListObjects, ListObjectsV2, ListObjectVersions and ListMultipartUploads.
const LISTING_PARAMETERS: [&str; 17] = [
    "list-type",
    "prefix",
    "delimiter",
    "marker",
    "max-keys",
    "start-after",
    "continuation-token",
    "encoding-type",
    "fetch-owner",
    "versions",
    "key-marker",
    "version-id-marker",
    "uploads",
    "upload-id-marker",
    "max-uploads",
    "metadata",
    "x-id",
];

fn of_service(method: &Method) -> Result<Operation, S3Error> {
    match *method {
        Method::GET | Method::HEAD => Ok(Operation::ListBuckets),
        _ => Err(not_allowed(method)),
    }
}

fn of_bucket(parts: &Parts, query: &Query, bucket: BucketName) -> Result<Operation, S3Error> {
    match parts.method {
        Method::HEAD => Ok(Operation::ProbeBucket(bucket)),
        Method::GET if query.has("location") && query.names().all(is_location) => {
            Ok(Operation::ProbeBucket(bucket))
        }
        Method::GET => {
            // Where the origin would ignore the prefix, it grants nothing.
            let is_listing = query.names().all(|name| LISTING_PARAMETERS.contains(&name));
            let prefix = query.get("prefix").filter(|_| is_listing).unwrap_or_default().to_owned();
            Ok(Operation::ListBucket { bucket, prefix })
        }
        Method::POST if query.has("delete") => Ok(Operation::DeleteObjects(bucket)),
        Method::POST if is_form(parts) => Err(S3Error::new(
            Code::NotImplemented,
            "Uploads by HTML form are not supported: use PUT or a multipart upload.",
        )),
        Method::PUT | Method::DELETE | Method::POST => Ok(Operation::WriteBucket(bucket)),
        _ => Err(not_allowed(&parts.method)),
    }
}

fn of_object(
    parts: &Parts,
    query: &Query,
    bucket: BucketName,
    key: ObjectKey,
) -> Result<Operation, S3Error> {
    let version_id = query.get("versionId").map(str::to_owned);
    match parts.method {
        Method::GET | Method::HEAD if is_plain_read(parts, query) => {
            let body = parts.method == Method::GET;
            Ok(Operation::ReadObject(ReadObject { bucket, key, version_id, body }))
        }
        Method::GET | Method::HEAD => Ok(Operation::AskObject(bucket, key)),
        // S3 Select reads, although it is a POST; with anything else beside it, an origin may
        // take it for something that writes.
        Method::POST if query.has("select") && query.names().all(is_select) => {
            Ok(Operation::AskObject(bucket, key))
        }
        Method::PUT | Method::POST | Method::DELETE => {
            refuse_writes_elsewhere(&parts.headers)?;
            let source = CopySource::of(&parts.headers)?;
            let visible = is_visible(&parts.method, query);
            Ok(Operation::WriteObject(WriteObject { bucket, key, version_id, source, visible }))
        }
        _ => Err(not_allowed(&parts.method)),
    }
}

/// Whether the cache can answer: nothing in the query or the headers asks for anything but
/// bytes of a version, in a form that every reader may share.
fn is_plain_read(parts: &Parts, query: &Query) -> bool {
    let known = |name: &str| {
        matches!(name, "versionId" | "x-id") || crate::overrides::header_of(name).is_some()
    };
    let private = |name: &str| {
        // SSE-C: the bytes are the key holder's alone. An expected owner only the origin knows.
        name.starts_with("x-amz-server-side-encryption-customer-")
            || name == "x-amz-expected-bucket-owner"
    };
    query.names().all(known)
        && !parts.headers.keys().any(|name| private(name.as_str()))
        && !wants_checksums_alone(parts)
}

/// Checksums of whole objects are not kept. Clients ask for them with nearly every GET, and check
/// what they get; who asks with a HEAD wants nothing else.
fn wants_checksums_alone(parts: &Parts) -> bool {
    let mode = parts.headers.get("x-amz-checksum-mode");
    parts.method == Method::HEAD
        && mode.is_some_and(|mode| mode.as_bytes().eq_ignore_ascii_case(b"enabled"))
}

/// Refuses headers that make a write touch other keys than the one in its path, which is all
/// that is authorized and forgotten.
fn refuse_writes_elsewhere(headers: &HeaderMap) -> Result<(), S3Error> {
    const RENAME: &str = "x-amz-rename-source";
    const SNOWBALL: &str = "x-amz-meta-snowball-auto-extract";
    // MinIO's own: force-delete removes a prefix, others replicate.
    const MINIO: &str = "x-minio-";
    let elsewhere = |name: &&str| [RENAME, SNOWBALL].contains(name) || name.starts_with(MINIO);
    match headers.keys().map(HeaderName::as_str).find(elsewhere) {
        None => Ok(()),
        Some(name) => {
            let why = format!("{name} is not supported: write each object by its own key.");
            Err(S3Error::new(Code::NotImplemented, why))
        }
    }
}

/// Starting, feeding and aborting a multipart upload changes nothing that a GET returns;
/// completing it does, and so does whatever an origin may take for a plain write.
fn is_visible(method: &Method, query: &Query) -> bool {
    match *method {
        Method::POST => !query.has("uploads") || query.has("uploadId"),
        Method::PUT => !(query.has("uploadId") && query.has("partNumber")),
        _ => !query.has("uploadId"),
    }
}

fn is_location(name: &str) -> bool {
    matches!(name, "location" | "x-id")
}

fn is_select(name: &str) -> bool {
    matches!(name, "select" | "select-type" | "x-id")
}

fn is_form(parts: &Parts) -> bool {
    let content_type = parts.headers.get(http::header::CONTENT_TYPE);
    let media = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    media.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
}

fn not_allowed(method: &Method) -> S3Error {
    let why = format!("The method {method} is not allowed against this resource.");
    S3Error::new(Code::MethodNotAllowed, why)
}

/// Moves the `x-amz-*` parameters of a presigned URL to the headers that they stand for.
///
/// Afterwards a header is the only place where an operation can hide: an origin cannot read
/// `x-amz-copy-source` where authorization did not look.
pub(crate) fn lift_headers(parts: &mut Parts, query: &mut Query) -> Result<(), S3Error> {
    let lifted = query.take(|name| {
        let name = name.as_bytes();
        name.len() > 6 && name[..6].eq_ignore_ascii_case(b"x-amz-")
    });
    for (name, value) in lifted {
        let bad = || S3Error::new(Code::InvalidArgument, format!("Query parameter {name:?}"));
        let header = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let value = http::HeaderValue::from_str(&value).map_err(|_| bad())?;
        parts.headers.entry(header).or_insert(value);
    }
    Ok(())
}

/// Refuses a second copy source: the origin might read the one that was not authorized.
pub(crate) fn refuse_ambiguous_headers(parts: &Parts) -> Result<(), S3Error> {
    if parts.headers.get_all(COPY_SOURCE).iter().count() > 1 {
        return Err(S3Error::new(Code::InvalidArgument, "x-amz-copy-source is repeated."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use proptest::prelude::*;

    fn call(method: &str, target: &str, headers: &[(&str, &str)]) -> Result<Operation, S3Error> {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let query = Query::parse(parts.uri.query())?;
        Ok(Call::parse(&parts, query, &Domains::default())?.operation)
    }

    fn label(method: &str, target: &str) -> &'static str {
        call(method, target, &[]).unwrap().label()
    }

    #[test]
    fn plain_reads_are_the_caches() {
        for target in ["/b/k", "/b/k?x-id=GetObject", "/b/k?versionId=v", "/b/k?response-expires=x"]
        {
            assert_eq!((label("GET", target), label("HEAD", target)), ("get", "head"), "{target}");
        }
    }

    #[test]
    fn what_the_cache_cannot_know_is_forwarded() {
        for target in
            ["/b/k?partNumber=1", "/b/k?acl", "/b/k?tagging", "/b/k?attributes", "/b/k?new-in-2030"]
        {
            assert_eq!(label("GET", target), "ask_object", "{target}");
        }
        let sse_c = [("x-amz-server-side-encryption-customer-algorithm", "AES256")];
        assert_eq!(call("GET", "/b/k", &sse_c).unwrap().label(), "ask_object");
        assert_eq!(label("POST", "/b/k?select&select-type=2"), "ask_object");
        let checksums = [("x-amz-checksum-mode", "ENABLED")];
        let asked = |method: &str| call(method, "/b/k", &checksums).unwrap().label();
        assert_eq!((asked("HEAD"), asked("GET")), ("ask_object", "get"));
    }

    #[test]
    fn everything_else_finds_its_permission() {
        for (method, target, expected) in [
            ("GET", "/", "list_buckets"),
            ("GET", "/b?list-type=2&prefix=p", "list"),
            ("GET", "/b/?delimiter=&max-keys=1", "list"),
            ("GET", "/b?policy", "list"),
            ("HEAD", "/b", "head_bucket"),
            ("GET", "/b?location", "head_bucket"),
            ("PUT", "/b", "write_bucket"),
            ("DELETE", "/b", "write_bucket"),
            ("PUT", "/b?policy", "write_bucket"),
            ("POST", "/b?delete", "delete_objects"),
            ("PUT", "/b/k", "write"),
            ("DELETE", "/b/k?versionId=v", "write"),
            ("POST", "/b/k?uploads", "write"),
        ] {
            assert_eq!(label(method, target), expected, "{method} {target}");
        }
        for (method, target) in
            [("PATCH", "/b/k"), ("OPTIONS", "/b/k"), ("PUT", "/"), ("TRACE", "/b")]
        {
            assert_eq!(call(method, target, &[]).unwrap_err().code(), "MethodNotAllowed");
        }
    }

    #[test]
    fn only_writes_that_a_reader_can_notice_are_visible() {
        for (method, target, expected) in [
            ("PUT", "/b/k", true),
            ("DELETE", "/b/k", true),
            ("PUT", "/b/k?tagging", true),
            ("POST", "/b/k?uploadId=u", true),
            ("POST", "/b/k?uploads", false),
            ("PUT", "/b/k?partNumber=1&uploadId=u", false),
            ("DELETE", "/b/k?uploadId=u", false),
            ("PUT", "/b/k?uploadId=u", true),
            ("POST", "/b/k?uploads&uploadId=u", true),
        ] {
            let Operation::WriteObject(write) = call(method, target, &[]).unwrap() else {
                panic!()
            };
            assert_eq!(write.visible, expected, "{method} {target}");
        }
    }

    #[test]
    fn what_an_origin_might_take_for_a_write_needs_the_permission_to_write() {
        assert_eq!(label("POST", "/b/k?select&uploadId=u"), "write");
        assert_eq!(label("POST", "/b/k?select&uploads"), "write");
        for header in ["x-amz-meta-snowball-auto-extract", "x-minio-force-delete"] {
            for method in ["PUT", "DELETE"] {
                let refused = call(method, "/b/k", &[(header, "true")]).unwrap_err();
                assert_eq!(refused.code(), "NotImplemented", "{method} {header}");
            }
        }
    }

    #[test]
    fn a_prefix_counts_only_where_the_origin_heeds_it() {
        for (target, expected) in [
            ("/b?list-type=2&prefix=p", "p"),
            ("/b?uploads&prefix=p", "p"),
            ("/b?policy&prefix=p", ""),
            ("/b?location&prefix=p&acl", ""),
        ] {
            let Operation::ListBucket { prefix, .. } = call("GET", target, &[]).unwrap() else {
                panic!("{target}")
            };
            assert_eq!(prefix, expected, "{target}");
        }
    }

    #[test]
    fn a_copy_names_its_source_wherever_it_is_written() {
        let source = CopySource::parse("/other/a%20b?versionId=v").unwrap();
        let by_header = call("PUT", "/b/k", &[("x-amz-copy-source", "/other/a%20b?versionId=v")]);
        let Operation::WriteObject(write) = by_header.unwrap() else { panic!() };
        assert_eq!(write.source.as_ref(), Some(&source));

        let request =
            Request::put("/b/k?X-Amz-Copy-Source=other/a%2520b?versionId=v").body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        let mut query = Query::parse(parts.uri.query()).unwrap();
        lift_headers(&mut parts, &mut query).unwrap();
        let operation = Call::parse(&parts, query, &Domains::default()).unwrap().operation;
        let Operation::WriteObject(write) = operation else { panic!() };
        assert_eq!(write.source, Some(source));
    }

    proptest! {
        #[test]
        fn no_request_line_makes_the_parser_panic(
            method in "(GET|HEAD|PUT|POST|DELETE|PATCH|FOO)",
            target in "/[a-z%/+.]{0,12}(\\?(acl|uploads|uploadId=|versionId=v|&|=|%20|%|delete){0,6})?",
        ) {
            let _ = call(&method, &target, &[("x-amz-copy-source", &target)]);
        }
    }
}
