//! The text of requests. What is the same each time is written once; a signature stands for the
//! second that it names, so each object is signed at most once a second.
//!
//! The Range header is not among the signed ones: S3 asks only for Host and `x-amz-*`.

use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_testkit::sign::{Signable, Signer, UNSIGNED_PAYLOAD};
use forebay_types::ByteRange;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method};

use crate::feed::{Piece, Plan};
use crate::target::Target;

/// Writes the requests of one thread for one target.
#[derive(Debug)]
pub(crate) struct Requests {
    objects: Vec<Fixed>,
    signer: Option<Signer>,
    host: HeaderValue,
    is_always_ranged: bool,
}

/// What all requests for one object have in common.
#[derive(Debug)]
struct Fixed {
    path: String,
    size_bytes: u64,
    head: String,
    signed: String,
    signed_at_s: u64,
}

impl Requests {
    pub(crate) fn new(target: &Target, plan: &Plan) -> Self {
        let fixed = |object: &crate::objects::Object| {
            let path = target.path(&object.key);
            let head = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n", target.authority());
            let (signed, signed_at_s) = (String::new(), 0);
            Fixed { path, size_bytes: object.size_bytes, head, signed, signed_at_s }
        };
        Self {
            objects: plan.objects().iter().map(fixed).collect(),
            signer: target.key().map(|key| Signer::new(key.clone(), target.region())),
            // An authority that was resolved is printable.
            host: HeaderValue::from_str(target.authority()).unwrap_or(HeaderValue::from_static("")),
            is_always_ranged: target.is_always_ranged(),
        }
    }

    /// Writes the request for `piece` over what is in `out`.
    pub(crate) fn write(&mut self, piece: Piece, at: SystemTime, out: &mut Vec<u8>) {
        let fixed = &mut self.objects[piece.object];
        if let Some(signer) = &self.signer {
            fixed.sign(signer, &self.host, at);
        }
        out.clear();
        out.extend_from_slice(fixed.head.as_bytes());
        out.extend_from_slice(fixed.signed.as_bytes());
        let whole = || self.is_always_ranged.then(|| ByteRange::new(0, fixed.size_bytes)).flatten();
        if let Some(range) = piece.range.or_else(whole) {
            // Writing to memory does not fail.
            let _ = write!(out, "Range: bytes={}-{}\r\n", range.start(), range.end() - 1);
        }
        out.extend_from_slice(b"\r\n");
    }
}

impl Fixed {
    fn sign(&mut self, signer: &Signer, host: &HeaderValue, at: SystemTime) {
        let at_s = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.signed_at_s == at_s {
            return;
        }
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(HOST, host.clone());
        let (method, path) = (&Method::GET, self.path.as_str());
        let signable = Signable { method, path, query: "", payload: UNSIGNED_PAYLOAD };
        signer.sign(&signable, at, &mut headers);
        headers.remove(HOST);
        self.signed.clear();
        for (name, value) in &headers {
            let value = value.to_str().unwrap_or_default();
            self.signed.extend([name.as_str(), ": ", value, "\r\n"]);
        }
        self.signed_at_s = at_s;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_testkit::AccessKey;

    use super::*;
    use crate::objects::Object;
    use crate::workload::{Order, Read};

    fn written(target: &Target, range: Option<ByteRange>, at_s: &[u64]) -> Vec<String> {
        let plan = Plan::new(vec![Object::new("a b", 100)], Read::Whole, Order::Turns);
        let mut requests = Requests::new(target, &plan);
        let mut out = Vec::new();
        let write = |at_s: &u64| {
            let at = UNIX_EPOCH + Duration::from_secs(*at_s);
            requests.write(Piece { object: 0, range }, at, &mut out);
            String::from_utf8(out.clone()).unwrap()
        };
        at_s.iter().map(write).collect()
    }

    fn target() -> Target {
        Target::new(&"http://127.0.0.1:9000".parse().unwrap(), "train")
    }

    #[test]
    fn a_request_names_host_path_and_range_and_nothing_else() {
        let start = "GET /train/a%20b HTTP/1.1\r\nHost: 127.0.0.1:9000\r\n";
        assert_eq!(written(&target(), None, &[0]), [format!("{start}\r\n")]);
        let ranged = format!("{start}Range: bytes=8-15\r\n\r\n");
        assert_eq!(written(&target(), ByteRange::new(8, 16), &[0]), [ranged]);
        let whole = format!("{start}Range: bytes=0-99\r\n\r\n");
        assert_eq!(written(&target().always_ranged(), None, &[0]), [whole]);
    }

    #[test]
    fn a_signature_is_made_anew_each_second() {
        let signed = target().signed_by(AccessKey::new("id", "secret"), "us-east-1");
        let written = written(&signed, None, &[60, 60, 61]);
        assert!(written[0].contains("x-amz-date: 19700101T000100Z\r\n"), "{}", written[0]);
        assert!(written[0].contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date,"));
        assert_eq!(written[0], written[1]);
        assert_ne!(written[1], written[2]);
    }
}
