//! What the parsers of single things are given.

use proptest::prelude::*;

use super::edits::{anything, edited};
use super::{Budget, Outcome, checks};

const RANGES: [&str; 7] = [
    "bytes=0-0",
    "bytes=0-8388607",
    "bytes=100-",
    "bytes=-65536",
    "bytes=0-1,3-4",
    "Bytes = 5 - 9",
    "bytes=18446744073709551614-18446744073709551615",
];
const RANGE_WORDS: [&str; 14] =
    ["bytes", "=", "-", ",", "0", "9", "1", " ", "\t", "+", "99999999999999999999", "*", "/", ";"];

pub(super) fn range(budget: Budget) -> Outcome {
    let value = prop_oneof![edited(&RANGES, &RANGE_WORDS), anything(&RANGE_WORDS)];
    let size = prop_oneof![0..20u64, any::<u64>(), Just(u64::MAX)];
    budget.spend(&(value, size), |(value, size)| checks::range::check(&value, size))
}

const QUERIES: [&str; 5] = [
    "list-type=2&prefix=a%2Fb+c&delimiter=/&max-keys=1000&encoding-type=url",
    "versionId=3%2FL4kqtJlcpXroDTDmJ&response-content-type=text%2Fhtml&x-id=GetObject",
    "uploads",
    "partNumber=1&uploadId=VXBsb2Fk%3D%3D",
    "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A%2F20260101%2Fr%2Fs3%2Faws4_request",
];
const QUERY_WORDS: [&str; 16] = [
    "&", "=", "+", "%", "%20", "%2B", "%26", "%3D", "%00", "%C3%A9", "%ff", "prefix", "a", ";",
    "?", "#",
];

pub(super) fn query(budget: Budget) -> Outcome {
    let raw = prop_oneof![edited(&QUERIES, &QUERY_WORDS), anything(&QUERY_WORDS)];
    budget.spend(&raw, |raw| checks::query::check(&raw))
}

const PATHS: [&str; 8] = [
    "/bucket/data/shard-00000.tar",
    "/bucket/a/../b/./c",
    "/bucket//a//b/",
    "/bucket/a+b%20c%2Bd%2Fe%252F",
    "/bucket/%E2%98%83/%F0%9F%98%80",
    "/bucket/..%2f..%2Fetc%2Fpasswd%00",
    "/my.bucket-1_x/",
    "bucket/key?versionId=a%26b",
];
const PATH_WORDS: [&str; 16] = [
    "/",
    "//",
    "..",
    "/../",
    ".",
    "%2F",
    "%2e",
    "%25",
    "%",
    "%00",
    "%C3%A9",
    "%ff",
    "+",
    "%20",
    "bucket",
    "?versionId=",
];

pub(super) fn key(budget: Budget) -> Outcome {
    let long = (0..1100usize, "[a-z]|%20|\u{e9}").prop_map(|(n, c)| format!("/b/{}", c.repeat(n)));
    let near = edited(&PATHS, &PATH_WORDS);
    let path = prop_oneof![4 => near, 4 => anything(&PATH_WORDS), 1 => long];
    budget.spend(&path, |path| checks::key::check(&path))
}

const DOCUMENTS: [&str; 4] = [
    "<Delete><Object><Key>a</Key></Object></Delete>",
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
     <Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>\
     <Object><Key>a &amp; b/&#x2603;</Key><VersionId>v</VersionId></Object></Delete>",
    "<Delete>\n <Object>\n  <Key>&#49;&lt;&gt;&quot;&apos;</Key><ETag>e</ETag>\n \
     <Size>1</Size></Object> <Object><Key> b </Key></Object>\n</Delete>\n",
    "<Error><Code>NoSuchKey</Code><Message>none &amp; never</Message></Error>",
];
const XML_WORDS: [&str; 24] = [
    "<",
    ">",
    "/",
    "&",
    ";",
    "&amp;",
    "&#",
    "&#x",
    "&#0;",
    "&#xD800;",
    "<Key>",
    "</Key>",
    "<Object>",
    "</Object>",
    "<Delete>",
    "</Delete>",
    "<Delete/>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE d [<!ENTITY e 'x'>]>",
    "<?xml ?>",
    "<Code>",
];

pub(super) fn xml(budget: Budget) -> Outcome {
    let document = prop_oneof![2 => edited(&DOCUMENTS, &XML_WORDS), 1 => anything(&XML_WORDS)];
    let names = prop::collection::vec(("\\PC{1,12}", prop::option::of("\\PC{0,6}")), 1..6);
    budget.spend(&(document, names, "\\PC{0,20}"), |(document, names, text)| {
        checks::xml::check(&document);
        checks::xml::check_names(&names);
        checks::xml::check_error(&text);
    })
}
