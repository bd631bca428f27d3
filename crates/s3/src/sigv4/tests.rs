//! AWS's documented examples, and one verdict from both verifiers.

use http::{HeaderName, HeaderValue, Method, Request};
use proptest::prelude::*;

use super::*;
use crate::address::Domains;
use crate::authorize::Caller;
use crate::received::Received;
use crate::s3s_verifier::S3sVerifier;
use crate::testing::{self, ID, Signer};

const EMPTY_SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Amazon S3 API reference, "Authenticating Requests: Using the Authorization Header".
fn documented(target: &str, range: Option<&str>, signature: &str) -> Request<()> {
    let extra = if range.is_some() { "range;" } else { "" };
    let authorization = format!(
        "AWS4-HMAC-SHA256 Credential={ID}/20130524/us-east-1/s3/aws4_request,\
         SignedHeaders=host;{extra}x-amz-content-sha256;x-amz-date,Signature={signature}"
    );
    let mut request = Request::get(target)
        .header("host", "examplebucket.s3.amazonaws.com")
        .header("x-amz-date", "20130524T000000Z")
        .header(CONTENT_SHA256, EMPTY_SHA256)
        .header("authorization", authorization);
    if let Some(range) = range {
        request = request.header("range", range);
    }
    request.body(()).unwrap()
}

fn ours(request: &Request<()>, now: SystemTime) -> Result<Arc<AccessKey>, S3Error> {
    let query = Query::parse(request.uri().query())?;
    let parts = request.clone().into_parts().0;
    verify(&testing::keys(), &parts, &query, now).cloned()
}

#[test]
fn the_documented_signatures_verify() {
    let day = parse_amz_date("20130524T000000Z").unwrap();
    for (target, range, signature) in [
        (
            "/test.txt",
            Some("bytes=0-9"),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        ("/?lifecycle", None, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        (
            "/?max-keys=2&prefix=J",
            None,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        let request = documented(target, range, signature);
        assert_eq!(&*ours(&request, day).unwrap().id, ID, "{target}");
        let mut changed = request.clone();
        *changed.uri_mut() = "/other".parse().unwrap();
        assert_eq!(ours(&changed, day).unwrap_err().code(), "SignatureDoesNotMatch");
        let late = day + MAX_SKEW + Duration::from_secs(1);
        assert_eq!(ours(&request, late).unwrap_err().code(), "RequestTimeTooSkewed");
        assert!(ours(&request, day - MAX_SKEW).is_ok());
    }
}

#[test]
fn dates_that_do_not_exist_are_refused() {
    for text in [
        "20130524T000000",
        "20130230T000000Z",
        "20131324T000000Z",
        "20130524T240000Z",
        "2013052aT000000Z",
    ] {
        assert_eq!(parse_amz_date(text), None, "{text}");
    }
    let epoch = parse_amz_date("19700101T000001Z");
    assert_eq!(epoch, Some(UNIX_EPOCH + Duration::from_secs(1)));
}

#[test]
fn an_unsigned_header_of_weight_and_an_absent_signed_one_are_refused() {
    let signed =
        Signer::header().sign(Request::get("/b/k").header("x-extra", "1").body(()).unwrap());
    assert!(ours(&signed, testing::now()).is_ok());
    let mut added = signed.clone();
    added.headers_mut().insert("x-amz-meta-a", HeaderValue::from_static("b"));
    assert_eq!(ours(&added, testing::now()).unwrap_err().code(), "AccessDenied");
    let mut dropped = signed;
    dropped.headers_mut().remove("x-extra");
    assert_eq!(ours(&dropped, testing::now()).unwrap_err().code(), "SignatureDoesNotMatch");
}

#[test]
fn a_remembered_signing_key_verifies_like_a_derived_one() {
    let keys = testing::keys();
    for target in ["/b/k", "/b/other", "/b/k"] {
        let (parts, ()) =
            Signer::header().sign(Request::get(target).body(()).unwrap()).into_parts();
        assert!(verify(&keys, &parts, &Query::default(), testing::now()).is_ok());
        let mut forged = parts;
        forged.uri = "/b/forged".parse().unwrap();
        assert!(verify(&keys, &forged, &Query::default(), testing::now()).is_err());
    }
}

/// The one point in which ours is more tolerant than `s3s`, which tries the path as it came
/// only where it has unescaped characters.
#[test]
fn escapes_that_s3_would_write_otherwise_verify_as_they_came() {
    for target in ["/b/a%2Fb", "/b/%c3%a9", "/b/%41"] {
        let request = Signer::header().sign(Request::get(target).body(()).unwrap());
        assert!(ours(&request, testing::now()).is_ok(), "{target}");
    }
}

/// What is done to a request after it was signed, or to its signing.
#[derive(Debug, Clone)]
enum Mutation {
    None,
    Method,
    Path,
    Query,
    Header(&'static str),
    Drop(&'static str),
    Add(&'static str),
    SignatureDigit(usize),
    Secret,
    Key,
    Minutes(i64),
}

fn mutations() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        4 => Just(Mutation::None),
        1 => Just(Mutation::Method),
        1 => Just(Mutation::Path),
        1 => Just(Mutation::Query),
        1 => prop::sample::select(&["range", "host", "x-amz-date", CONTENT_SHA256][..]).prop_map(Mutation::Header),
        1 => prop::sample::select(&["range", "x-amz-date", CONTENT_SHA256, "authorization"][..]).prop_map(Mutation::Drop),
        1 => prop::sample::select(&["user-agent", "x-amz-meta-x", "if-match"][..]).prop_map(Mutation::Add),
        1 => (0usize..64).prop_map(Mutation::SignatureDigit),
        1 => Just(Mutation::Secret),
        1 => Just(Mutation::Key),
        2 => (-30i64..30).prop_map(Mutation::Minutes),
    ]
}

fn signer(mutation: &Mutation) -> Signer {
    let mut signer = Signer::header();
    match mutation {
        Mutation::Secret => signer.secret = "another",
        Mutation::Key => signer.id = "ANOTHER",
        // Half a minute off, so that no verdict depends on the moment between two looks at the clock.
        Mutation::Minutes(minutes) if *minutes < 0 => {
            signer.at -= Duration::from_secs(minutes.unsigned_abs() * 60 + 30);
        }
        Mutation::Minutes(minutes) => {
            signer.at += Duration::from_secs(minutes.unsigned_abs() * 60 + 30);
        }
        _ => {}
    }
    signer
}

fn mutate(request: &mut Request<()>, mutation: &Mutation) {
    match mutation {
        Mutation::Method => *request.method_mut() = Method::HEAD,
        Mutation::Path => *request.uri_mut() = "/b/other".parse().unwrap(),
        Mutation::Query => {
            let target = format!("{}?versionId=x", request.uri().path());
            *request.uri_mut() = target.parse().unwrap();
        }
        Mutation::Header(name) | Mutation::Add(name) => {
            let name = HeaderName::from_static(name);
            request.headers_mut().insert(name, HeaderValue::from_static("changed"));
        }
        Mutation::Drop(name) => {
            request.headers_mut().remove(*name);
        }
        Mutation::SignatureDigit(at) => {
            let value = request.headers()["authorization"].to_str().unwrap();
            let at = value.len() - 64 + at;
            let digit = if &value[at..=at] == "0" { "1" } else { "0" };
            let value = format!("{}{digit}{}", &value[..at], &value[at + 1..]);
            request.headers_mut().insert("authorization", value.parse().unwrap());
        }
        Mutation::None | Mutation::Secret | Mutation::Key | Mutation::Minutes(_) => {}
    }
}

async fn theirs(request: Request<()>) -> Result<Caller, S3Error> {
    let request = request.map(|()| http_body_util::Empty::<bytes::Bytes>::new());
    let request = Received::new(request, None)?;
    // What we check before any verifier of the header form, in the order of `authenticate`.
    let authorization = Authorization::of(&request.parts.headers)?;
    require_signed(&request.parts.headers, &authorization.signed_headers)?;
    let verifier = S3sVerifier::new(testing::keys(), Domains::default());
    Ok(verifier.verify(request).await?.0)
}

proptest! {
    #[test]
    fn both_verifiers_come_to_the_same_verdict(
        key in "([a-zA-Z0-9/._~+ -]|%20|%2B|%C3%A9|%25|\\*|\\(|=|@){1,24}",
        query in prop::option::of("(versionId=[a-z%20+.]{0,6}|x-id=GetObject|prefix=a%2Fb&list-type=2|acl)"),
        range in prop::option::of("bytes=[0-9]{1,3}-[0-9]{1,3}"),
        mutation in mutations(),
    ) {
        let key = key.replace(' ', "%20");
        let target = query.map_or(format!("/b/{key}"), |query| format!("/b/{key}?{query}"));
        // A stray % cannot be decoded: that is refused before anybody verifies.
        prop_assume!(Query::parse(target.split_once('?').map(|(_, query)| query)).is_ok());
        let mut request = Request::get(target);
        if let Some(range) = range {
            request = request.header("range", range);
        }
        let mut request = signer(&mutation).sign(request.body(()).unwrap());
        mutate(&mut request, &mutation);

        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ours = ours(&request, testing::now());
        let theirs = runtime.block_on(theirs(request));
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "ours {:?}, theirs {:?}", ours, theirs);
        prop_assert!(!matches!(mutation, Mutation::None) || ours.is_ok(), "{:?}", ours);
        if let (Err(ours), Err(theirs)) = (ours, theirs)
            && matches!(mutation, Mutation::Secret | Mutation::Key | Mutation::Minutes(_) | Mutation::Path)
        {
            prop_assert_eq!(ours.code(), theirs.code());
        }
    }
}
