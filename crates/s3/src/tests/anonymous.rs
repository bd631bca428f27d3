//! What callers get that do not sign, where the rules grant them something beside the keys.

use super::world::World;
use crate::keys::Effect::{Allow, Deny};
use crate::testing::{self, Signer, auth_and_anonymous, grant};
use http::Request;

async fn world() -> World {
    let world = World::with(
        auth_and_anonymous([
            grant(Allow, "b", "open/", "rl"),
            grant(Deny, "b", "open/secret/", "r"),
            grant(Allow, "b", "inbox/", "w"),
        ]),
        100,
    );
    let world = world.await;
    for key in ["open/k", "open/secret/k", "closed/k", "inbox/k"] {
        world.origin.put(key, "bytes");
    }
    world
}

/// An error without what differs from one request to the next.
async fn refusal(world: &World, head: &str) -> (u16, String) {
    let answer = world.ask(head).await;
    let text = answer.text().split("<RequestId>").next().unwrap();
    (answer.status(), text.to_owned())
}

#[tokio::test]
async fn a_hit_is_checked_exactly_like_a_miss() {
    let world = world().await;
    let strict = World::with(testing::auth(), 100).await;
    let keys = ["open/k", "open/secret/k", "closed/k", "inbox/k", "closed/none"];
    for is_cached in [false, true] {
        assert_eq!(world.ask("GET /b/open/k HTTP/1.1").await.text(), "bytes");
        assert_eq!(world.ask("HEAD /b/open/k HTTP/1.1").await.status(), 200);
        for key in &keys[1..] {
            let head = format!("GET /b/{key} HTTP/1.1");
            let refused = refusal(&world, &head).await;
            assert_eq!(refused.0, 403, "{key}, cached: {is_cached}");
            assert_eq!(refused, refusal(&strict, &head).await, "as where nothing is granted");
        }
        for key in keys {
            let request = Request::get(format!("/b/{key}")).body(()).unwrap();
            world.connect().await.ask_signed(&Signer::header().sign(request)).await;
        }
    }
    assert_eq!(world.ask("GET /b/open/none HTTP/1.1").await.status(), 404);
    assert_eq!(world.ask("GET /other/open/k HTTP/1.1").await.status(), 403);
}

#[tokio::test]
async fn a_bad_signature_is_never_taken_for_none() {
    let world = world().await;
    let get = || Request::get("/b/open/k").body(()).unwrap();
    let wrong = Signer { secret: "wrong", ..Signer::header() };
    let stranger = Signer { id: "STRANGER", ..Signer::header() };
    let url = Signer { secret: "wrong", ..Signer::url(std::time::Duration::from_secs(60)) };
    for signed in [wrong.sign(get()), stranger.sign(get()), url.sign(get())] {
        assert_eq!(world.connect().await.ask_signed(&signed).await.status(), 403);
    }
    for head in [
        "GET /b/open/k HTTP/1.1\nauthorization: ",
        "GET /b/open/k HTTP/1.1\nauthorization: AWS4-HMAC-SHA256",
        "GET /b/open/k HTTP/1.1\nauthorization: Bearer x",
        "GET /b/open/k?X-Amz-Signature= HTTP/1.1",
        "GET /b/open/k?x-amz-signature=s HTTP/1.1",
        "GET /b/open/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=c HTTP/1.1",
        "GET /b/open/k?AWSAccessKeyId=AKIA&Expires=4102444800 HTTP/1.1",
        "GET /b/open/k?Signature=s HTTP/1.1",
        "PUT /b/inbox/k HTTP/1.1\nx-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD\n\
         x-amz-decoded-content-length: 0",
    ] {
        let status = world.put(head, "").await.status();
        assert!(matches!(status, 400 | 403), "{status} to {head}");
    }
    assert!(world.origin.seen.lock().is_empty());
}

#[tokio::test]
async fn whatever_is_forwarded_passes_the_same_judgement() {
    let world = world().await;
    let delete = |key: &str| {
        let entries = ["inbox/1", key].map(|key| format!("<Object><Key>{key}</Key></Object>"));
        format!("<Delete>{}</Delete>", entries.concat())
    };
    for (head, body, status) in [
        ("PUT /b/inbox/k", "new".to_owned(), 200),
        ("DELETE /b/inbox/k", String::new(), 200),
        ("POST /b/inbox/k?uploads", String::new(), 200),
        ("POST /b?delete", delete("inbox/2"), 200),
        ("GET /b?list-type=2&prefix=open%2Fx", String::new(), 200),
        ("GET /b/open/k?partNumber=1", String::new(), 200),
        ("HEAD /b", String::new(), 200),
        ("PUT /b/open/k", "new".to_owned(), 403),
        ("POST /b?delete", delete("open/k"), 403),
        ("GET /b?list-type=2", String::new(), 403),
        ("GET /b/closed/k?acl", String::new(), 403),
        ("PUT /b", String::new(), 403),
        ("GET /", String::new(), 403),
    ] {
        world.origin.seen.lock().clear();
        let answer = world.put(&format!("{head} HTTP/1.1"), &body).await;
        assert_eq!(answer.status(), status, "{head} {body}");
        assert_eq!(world.origin.seen.lock().len(), usize::from(status == 200), "{head} {body}");
    }
    for (source, status) in [("b/open/k", 200), ("b/closed/k", 403), ("b/open/secret/k", 403)] {
        let copy = format!("PUT /b/inbox/k HTTP/1.1\nx-amz-copy-source: {source}");
        assert_eq!(world.put(&copy, "").await.status(), status, "{source}");
    }
}

#[tokio::test]
async fn headers_are_overridden_for_nobody_who_does_not_sign() {
    let world = world().await;
    for (target, status) in [
        ("/b/open/k?response-content-type=text%2Fhtml", 400),
        // Forwarded, and so signed by us: the origin would do as it is told.
        ("/b/open/k?partNumber=1&response-content-type=text%2Fhtml", 400),
        ("/b/closed/k?response-content-type=text%2Fhtml", 403),
    ] {
        assert_eq!(world.ask(&format!("GET {target} HTTP/1.1")).await.status(), status, "{target}");
    }
    assert!(world.origin.seen.lock().is_empty());
    let open = World::open().await;
    let target = "/b/k?partNumber=1&response-content-type=text%2Fhtml";
    assert_eq!(open.ask(&format!("GET {target} HTTP/1.1")).await.status(), 400);
    let signed = Signer::header().sign(Request::get(target).body(()).unwrap());
    assert_eq!(world.connect().await.ask_signed(&signed).await.text(), "forwarded");
}

#[tokio::test]
async fn the_ring_is_shown_to_nobody_who_does_not_sign() {
    let world = world().await;
    assert_eq!(world.ask("GET /-/ring HTTP/1.1").await.status(), 403);
    let signed = Signer::header().sign(Request::get("/-/ring").body(()).unwrap());
    assert_eq!(world.connect().await.ask_signed(&signed).await.text(), "{}");
    assert_eq!(World::open().await.ask("GET /-/ring HTTP/1.1").await.text(), "{}");
}
