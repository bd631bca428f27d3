//! No byte to a caller that the rules refuse; a hit is checked like a miss.

use std::sync::Arc;
use std::time::Duration;

use forebay_testkit::{AccessKey, PatternSet, Reader};
use forebay_tests::{BUCKET, CLIENT, ORIGIN, Setup, World, read};

#[tokio::test(flavor = "multi_thread")]
async fn strangers_get_nothing_from_a_hit_or_a_miss_and_the_origin_is_not_asked() {
    let set = PatternSet::new(BUCKET, "k-", 2, 100_000);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    read(&world.reader().unwrap(), &set.key(0), None).await.unwrap();
    world.origin.log().reset();
    let at = || Reader::new(&world.worker.endpoint).unwrap();
    let strangers = [
        ("AccessDenied", at()),
        ("InvalidAccessKeyId", at().signed_by(&AccessKey::new("NOBODY", CLIENT.1))),
        ("SignatureDoesNotMatch", at().signed_by(&AccessKey::new(CLIENT.0, "wrong"))),
        ("InvalidAccessKeyId", at().signed_by(&AccessKey::new(ORIGIN.0, ORIGIN.1))),
    ];
    for (code, stranger) in strangers {
        for (what, key) in [("hit", set.key(0)), ("miss", set.key(1))] {
            let answer = stranger.get(BUCKET, &key, None).await.unwrap();
            assert_eq!(answer.status, 403, "{code} on a {what}");
            let body = answer.bytes().await.unwrap();
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains(&format!("<Code>{code}</Code>")), "{what}: {body}");
            assert_eq!(stranger.head(BUCKET, &key).await.unwrap().status, 403);
        }
        let listing = stranger.list_v2(BUCKET, "", None).await;
        assert!(listing.is_err(), "{code}: a listing");
    }
    assert_eq!(world.origin.log().counts().requests, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_signed_too_long_ago_is_refused() {
    let set = PatternSet::new(BUCKET, "k-", 1, 1000);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    read(&world.reader().unwrap(), &set.key(0), None).await.unwrap();
    let ahead = forebay_rt::ManualClock::new();
    ahead.advance(Duration::from_secs(20 * 60));
    let skewed = world.reader().unwrap().with_clock(Arc::new(ahead));
    let answer = skewed.get(BUCKET, &set.key(0), None).await.unwrap();
    assert_eq!(answer.status, 403);
    let body = answer.bytes().await.unwrap();
    assert!(String::from_utf8_lossy(&body).contains("RequestTimeTooSkewed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_output_of_the_worker_holds_a_secret() {
    let set = PatternSet::new(BUCKET, "k-", 1, 1000);
    let mut world = World::start(Setup::default(), &[&set]).await.unwrap();
    read(&world.reader().unwrap(), &set.key(0), None).await.unwrap();
    world.origin.set_reachable(false);
    let _ = read(&world.reader().unwrap(), "missing", None).await;
    let mut pages = String::new();
    for page in ["/metrics", "/status", "/healthz"] {
        pages += &world.worker.admin_page(page).await.unwrap();
    }
    world.worker.stop().await.unwrap();
    let said = pages + &world.worker.process.tail();
    assert!(said.contains("forebay"), "there is output to look at");
    for secret in [CLIENT.1, ORIGIN.1] {
        assert!(!said.contains(secret), "{secret} in:\n{said}");
    }
}
