//! Signatures are enforced: two implementations of SigV4 meet here, ours and the AWS crate's.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{Clock, ManualClock};
use forebay_testkit::origin::OriginConfig;
use forebay_testkit::reader::{Ask, Payload, ReadError, UpTo};
use forebay_testkit::{AccessKey, FaultOrigin, PatternSet, Reader};
use http::Method;

use crate::{key, range, reader};

async fn locked_origin() -> FaultOrigin {
    FaultOrigin::start(OriginConfig {
        patterns: vec![PatternSet::new("b", "data/", 10, 1000)],
        access_keys: vec![key()],
        ..OriginConfig::default()
    })
    .await
    .unwrap()
}

async fn refusal(reader: &Reader) -> String {
    match reader.get("b", "data/00000000", None).await.unwrap().success().await {
        Err(ReadError::Status { status, code }) => format!("{} {code}", status.as_u16()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn signed_requests_of_every_kind_are_let_in() {
    let origin = locked_origin().await;
    let reader = reader(&origin).signed_by(&key()).named("agent (1; x)");
    reader.verify_get("b", "data/00000000", range(1, 9), &UpTo(1)).await.unwrap();
    for name in ["plain", "sp ace+plus%25/\u{e9}", "a/../b//c/", "q?x=1&y=2#z", "~-._!*'()"] {
        let put = reader.put("b", name, "body".into()).await.unwrap();
        assert!(put.status.is_success(), "{name}: {:?}", put.success().await);
        let got = reader.get("b", name, None).await.unwrap();
        assert_eq!(got.bytes().await.unwrap(), "body", "{name}");
    }
    let ask = Ask::new(Method::PUT, "b", "unsigned").body("x").payload(Payload::Unsigned);
    assert!(reader.request(ask).await.unwrap().status.is_success());
    let listing = reader.list_v2("b", "sp ace+", None).await.unwrap();
    assert_eq!(listing.objects.len(), 1);
}

#[tokio::test]
async fn nobody_else_is_let_in() {
    let origin = locked_origin().await;
    assert_eq!(refusal(&reader(&origin)).await, "403 AccessDenied");
    let stranger = AccessKey::new("AKOTHER", "not-a-secret");
    let stranger = reader(&origin).signed_by(&stranger);
    assert_eq!(refusal(&stranger).await, "403 InvalidAccessKeyId");
    let forger = reader(&origin).signed_by(&AccessKey::new("AKTEST", "guessed"));
    assert_eq!(refusal(&forger).await, "403 SignatureDoesNotMatch");
    let mangled = Ask::new(Method::GET, "b", "k").header("authorization", "AWS4-HMAC-SHA256 x");
    let answer = reader(&origin).request(mangled).await.unwrap();
    assert_eq!(answer.status.as_u16(), 400);
}

#[tokio::test]
async fn a_wrong_signature_is_refused_even_where_none_is_needed() {
    let origin = crate::open_origin().await;
    assert_eq!(refusal(&reader(&origin).signed_by(&key())).await, "403 InvalidAccessKeyId");
}

#[tokio::test]
async fn a_clock_that_is_off_by_a_quarter_of_an_hour_is_too_skewed() {
    let origin = locked_origin().await;
    let clock = Arc::new(ManualClock::new());
    let reader = reader(&origin).signed_by(&key()).with_clock(clock.clone());
    clock.advance(Duration::from_secs(14 * 60));
    assert!(reader.head("b", "data/00000000").await.unwrap().status.is_success());
    clock.advance(Duration::from_secs(2 * 60));
    assert!(clock.wall() > forebay_rt::SystemClock.wall());
    assert_eq!(refusal(&reader).await, "403 RequestTimeTooSkewed");
}
