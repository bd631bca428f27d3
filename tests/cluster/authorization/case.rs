//! One cell of the matrix: what is asked, what must come back, and whether it did.

use forebay_testkit::Pattern;
use forebay_testkit::reader::{Answer, Ask};
use http::{Method, StatusCode};

use super::policy::{ANONYMOUS, KEYS, Need, Statement, may};

/// What a caller can do to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Get,
    GetRange,
    GetPart,
    Head,
    Put,
    CopyFromOpen,
    CopyFromSecret,
    BeginUpload,
    Delete,
    DeleteMany,
    ListBelow,
    ListBelowV1,
    ListAll,
    HeadBucket,
    Location,
    ListBuckets,
}

/// Operations on an object, each asked of cached and of uncached ones.
pub(super) const OBJECT_OPS: [Op; 10] = [
    Op::Get,
    Op::GetRange,
    Op::GetPart,
    Op::Head,
    Op::Put,
    Op::CopyFromOpen,
    Op::CopyFromSecret,
    Op::BeginUpload,
    Op::Delete,
    Op::DeleteMany,
];

/// Operations on names below a prefix.
pub(super) const PREFIX_OPS: [Op; 2] = [Op::ListBelow, Op::ListBelowV1];

/// Operations on a bucket.
pub(super) const BUCKET_OPS: [Op; 3] = [Op::ListAll, Op::HeadBucket, Op::Location];

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Caller {
    /// The holder of this one of [`KEYS`].
    Holder(usize),
    /// Nobody says who, and may do what [`ANONYMOUS`] says.
    Anonymous,
    UnknownId,
    WrongSecret,
}

impl Caller {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let holders = (0..KEYS.len()).map(Self::Holder);
        holders.chain([Self::Anonymous, Self::UnknownId, Self::WrongSecret])
    }
}

/// One cell of the matrix. Each that is about an object has one of its own.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) caller: Caller,
    pub(super) worker: usize,
    pub(super) op: Op,
    pub(super) bucket: &'static str,
    pub(super) prefix: &'static str,
    pub(super) key: String,
    /// Whether the object is cached before.
    pub(super) warm: bool,
}

/// What must come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Allowed,
    /// 403 with this code.
    Refused(&'static str),
    /// Allowed, but nobody configured such a bucket.
    NoBucket,
}

/// A bucket that some keys may use and no rule knows.
pub(super) const ABSENT: &str = "absent";
/// What copies read.
pub(super) const SOURCES: [&str; 2] = ["/train/open/00000000", "/train/secret/00000000"];
/// Bytes of every object.
pub(super) const SIZE_BYTES: u64 = 1000;

impl Case {
    pub(super) fn verdict(&self) -> Verdict {
        match self.caller {
            Caller::Anonymous => self.verdict_on(ANONYMOUS),
            Caller::UnknownId => Verdict::Refused("InvalidAccessKeyId"),
            Caller::WrongSecret => Verdict::Refused("SignatureDoesNotMatch"),
            Caller::Holder(key) => self.verdict_on(KEYS[key].statements),
        }
    }

    fn verdict_on(&self, statements: &[Statement]) -> Verdict {
        let may = |needs: &[Need]| needs.iter().all(|need| may(statements, need));
        let is_absent = self.bucket == ABSENT && self.op != Op::ListBuckets;
        // Which objects are deleted stands in a body that is not read before the bucket is known.
        let enters = self.op == Op::DeleteMany && may(&[Need::Bucket(self.bucket)]);
        match (may(&self.needs()), is_absent) {
            (true, false) => Verdict::Allowed,
            (true, true) => Verdict::NoBucket,
            (false, true) if enters => Verdict::NoBucket,
            (false, _) => Verdict::Refused("AccessDenied"),
        }
    }

    fn needs(&self) -> Vec<Need> {
        let on_key = |right| Need::Key(right, self.bucket, self.key.clone());
        let source = |prefix: &str| Need::Key('r', "train", format!("{prefix}00000000"));
        match self.op {
            Op::Get | Op::GetRange | Op::GetPart | Op::Head => vec![on_key('r')],
            Op::Put | Op::BeginUpload | Op::Delete => vec![on_key('w')],
            Op::CopyFromOpen => vec![on_key('w'), source("open/")],
            Op::CopyFromSecret => vec![on_key('w'), source("secret/")],
            Op::DeleteMany => vec![Need::Bucket(self.bucket), on_key('w')],
            Op::ListBelow | Op::ListBelowV1 => vec![Need::Names(self.bucket, self.prefix.into())],
            Op::ListAll => vec![Need::Names(self.bucket, String::new())],
            Op::HeadBucket | Op::Location => vec![Need::Bucket(self.bucket)],
            Op::ListBuckets => vec![Need::Buckets],
        }
    }

    pub(super) fn ask(&self) -> Ask {
        let object = |method| Ask::new(method, self.bucket, &self.key);
        let bucket = |method| Ask::new(method, self.bucket, "");
        let copy = |source| object(Method::PUT).header("x-amz-copy-source", source);
        match self.op {
            Op::Get => object(Method::GET),
            Op::GetRange => object(Method::GET).header("range", "bytes=100-299"),
            Op::GetPart => object(Method::GET).query("partNumber", "1"),
            Op::Head => object(Method::HEAD),
            Op::Put => object(Method::PUT).body("written"),
            Op::CopyFromOpen => copy(SOURCES[0]),
            Op::CopyFromSecret => copy(SOURCES[1]),
            Op::BeginUpload => object(Method::POST).query("uploads", ""),
            Op::Delete => object(Method::DELETE),
            Op::DeleteMany => bucket(Method::POST)
                .query("delete", "")
                .body(format!("<Delete><Object><Key>{}</Key></Object></Delete>", self.key)),
            Op::ListBelow => bucket(Method::GET)
                .query("list-type", "2")
                .query("prefix", self.prefix)
                .query("max-keys", "3"),
            Op::ListBelowV1 => {
                bucket(Method::GET).query("prefix", self.prefix).query("max-keys", "3")
            }
            Op::ListAll => bucket(Method::GET).query("list-type", "2").query("max-keys", "3"),
            Op::HeadBucket => bucket(Method::HEAD),
            Op::Location => bucket(Method::GET).query("location", ""),
            Op::ListBuckets => Ask::new(Method::GET, "", ""),
        }
    }

    /// Whether an answer is the one that the rules say, and nothing more.
    pub(super) async fn judge(&self, answer: Answer) -> Result<Seen, String> {
        let (status, headers) = (answer.status, answer.headers.clone());
        let body = answer.bytes().await.map_err(|error| error.to_string())?;
        let answer = Seen { status, headers, body: body.to_vec() };
        match self.verdict() {
            Verdict::Allowed => self.judge_allowed(&answer)?,
            Verdict::Refused(code) => {
                answer.is_error(StatusCode::FORBIDDEN, code, self.is_head())?;
            }
            Verdict::NoBucket => {
                answer.is_error(StatusCode::NOT_FOUND, "NoSuchBucket", self.is_head())?;
            }
        }
        Ok(answer)
    }

    pub(super) fn is_head(&self) -> bool {
        matches!(self.op, Op::Head | Op::HeadBucket)
    }

    fn judge_allowed(&self, answer: &Seen) -> Result<(), String> {
        if !answer.status.is_success() {
            return Err(format!("refused: {} {}", answer.status, answer.text()));
        }
        match self.op {
            Op::Get | Op::GetPart => self.judge_bytes(answer, 0, SIZE_BYTES),
            Op::GetRange => self.judge_bytes(answer, 100, 200),
            Op::Head => (answer.header("etag") == Some(&self.pattern().etag()))
                .then_some(())
                .ok_or_else(|| "another object's ETag".into()),
            Op::ListBelow | Op::ListBelowV1 => self.judge_names(answer),
            _ => Ok(()),
        }
    }

    fn judge_bytes(&self, answer: &Seen, start: u64, len: u64) -> Result<(), String> {
        self.pattern().verify(start, &answer.body).map_err(|wrong| wrong.to_string())?;
        if answer.body.len() as u64 != len {
            return Err(format!("{} bytes", answer.body.len()));
        }
        Ok(())
    }

    fn judge_names(&self, answer: &Seen) -> Result<(), String> {
        let text = answer.text();
        let mut keys = text.split("<Key>").skip(1);
        match keys.find(|key| !key.starts_with(self.prefix)) {
            None => Ok(()),
            Some(key) => Err(format!("a listing of {:?} shows {key}", self.prefix)),
        }
    }

    fn pattern(&self) -> Pattern {
        Pattern::new(self.bucket, &self.key, 1)
    }
}

/// An answer, all of it.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) status: StatusCode,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

/// All that a refusal may carry.
const HEADERS_OF_REFUSALS: [&str; 6] =
    ["content-length", "content-type", "date", "server", "x-amz-id-2", "x-amz-request-id"];

impl Seen {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn is_error(&self, status: StatusCode, code: &str, is_head: bool) -> Result<(), String> {
        let text = self.text();
        let opening = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error>";
        let is_said = if is_head {
            text.is_empty()
        } else {
            text.starts_with(&format!("{opening}<Code>{code}</Code><Message>"))
                && text.ends_with("</Error>")
                && self.header("content-type") == Some("application/xml")
        };
        let more = self.headers.keys().find(|name| !HEADERS_OF_REFUSALS.contains(&name.as_str()));
        match more {
            Some(name) => Err(format!("a refusal carries {name}")),
            None if self.status == status && is_said => Ok(()),
            None => Err(format!("{status} {code} expected, answered {} {text}", self.status)),
        }
    }

    /// What of an error must not depend on what is cached: all but ids, date and resource.
    pub(super) fn shape(&self) -> String {
        let text = self.text();
        let (said, rest) = text.split_once("<Resource>").unwrap_or((&text, ""));
        let elements: String =
            rest.split('<').skip(1).filter_map(|tag| tag.split('>').next()).collect();
        let mut names: Vec<_> = self.headers.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        format!("{} {names:?} {said} {elements}", self.status)
    }
}
