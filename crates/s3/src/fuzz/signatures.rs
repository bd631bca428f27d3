//! Request heads, signed in all forms and then changed: whoever changes what is asked for is
//! refused, and what is let in means the same at the origin.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use proptest::prelude::*;

use super::checks::head::{Head, Meaning, check};
use super::edits::{anything, edited_one_of};
use super::{Budget, Outcome};
use crate::address::Domains;
use crate::authenticate::Authenticator;
use crate::received::Received;
use crate::testing::{self, Signer};

const TARGETS: [(&str, &str); 9] = [
    ("GET", "/b/k"),
    ("HEAD", "/bucket/a%20b/%E2%98%83?versionId=v&x-id=HeadObject"),
    ("GET", "/b?list-type=2&prefix=a%2Fb&delimiter=&max-keys=1"),
    ("GET", "/b/k?response-content-type=text%2Fplain&partNumber=1"),
    ("PUT", "/b/k?partNumber=1&uploadId=u"),
    ("POST", "/b/k?uploads"),
    ("POST", "/b?delete"),
    ("DELETE", "/b/a//../k?versionId=null"),
    ("GET", "/"),
];
const V2_URL: &str =
    "GET /b/k?AWSAccessKeyId=AKIAIOSFODNN7EXAMPLE&Signature=c2ln&Expires=4102444800\nhost: h";
const COPY: &str = "PUT /b/k\nhost: h\nx-amz-copy-source: /c/a%20b?versionId=v";
const WORDS: [&str; 24] = [
    "/",
    "?",
    "&",
    "=",
    "%",
    "%2F",
    "%00",
    "..",
    "+",
    "-",
    ";",
    ",",
    "\nrange: bytes=0-1",
    "\nif-match: \"a\"",
    "\nx-amz-copy-source: /b/k",
    "Credential=",
    "SignedHeaders=",
    "Signature=",
    "uploads",
    "delete",
    "versionId=",
    "X-Amz-Signature=",
    "X-Amz-Copy-Source=b/k",
    "\u{e9}",
];

/// Signed URLs outlive a long run.
const VALID: Duration = Duration::from_secs(24 * 3600);

pub(super) fn head(budget: Budget) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let authenticator = Authenticator::new(testing::auth(), &Domains::default());
    let let_in = |head: &Head| runtime.block_on(let_in(head, &authenticator));
    let signed: Vec<Head> = TARGETS.iter().flat_map(signed).collect();
    let meanings: Vec<_> = signed.iter().map(|head| let_in(head).expect("it is signed")).collect();

    let mut texts: Vec<_> = signed.iter().map(Head::to_string).collect();
    texts.extend([V2_URL.to_owned(), COPY.to_owned()]);
    let text = prop_oneof![8 => edited_one_of(texts, &WORDS), 1 => anything(&WORDS)];
    budget.spend(&text, |text| {
        check(&text);
        if let Some(accepted) = Head::parse(&text).and_then(|head| let_in(&head)) {
            assert!(meanings.contains(&accepted), "nobody signed {accepted:?}");
        }
    })
}

fn signed((method, target): &(&str, &str)) -> [Head; 2] {
    [Signer::header(), Signer::url(VALID)].map(|signer| {
        let request = Request::builder().method(*method).uri(*target).body(()).unwrap();
        Head::of(&signer.sign(request).into_parts().0)
    })
}

/// What a head asks for, if its signature is good.
async fn let_in(head: &Head, authenticator: &Authenticator) -> Option<Meaning> {
    let received = Received::new(head.request(Empty::<Bytes>::new())?, None).ok()?;
    let sender = authenticator.authenticate(received, testing::now()).await.ok()?;
    Meaning::of(sender.request.parts, sender.request.query)
}
