//! Requests are signed so that a server which checks lets them in, and only then.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use forebay_client::{Client, ClientConfig, Credentials, OriginConfig, RangeAsk, ReadError};
use forebay_testkit::{AccessKey, FaultOrigin, origin};
use tokio::net::TcpListener;

const ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

#[tokio::test]
async fn a_server_that_checks_signatures_lets_any_key_through() {
    let origin = strict_origin().await;
    let client = client(&origin, Some(Credentials::new(ID, SECRET))).await;
    for key in ["plain", "sp ace+&=?#", "%2e%2e/", "a/../b", "\u{fc}ml\u{e4}ut/\u{732b}", "a//b"] {
        origin.put_pattern("train", key, 10_000);
        let object = client.get("train", key).await.unwrap();
        assert_eq!(object.body.bytes().await.unwrap().len(), 10_000, "{key}");
        assert_eq!(client.head("train", key).await.unwrap().stamp.size, 10_000, "{key}");
        let range = RangeAsk::FromTo { first: 8, last: 15 };
        let object = client.get_range("train", key, range).await.unwrap();
        assert_eq!(object.body.bytes().await.unwrap().len(), 8);
    }
}

#[tokio::test]
async fn a_wrong_secret_and_no_signature_are_refused() {
    let origin = strict_origin().await;
    origin.put_pattern("train", "k", 100);
    for credentials in [None, Some(Credentials::new(ID, "wrong"))] {
        let client = client(&origin, credentials).await;
        match client.get("train", "k").await {
            Err(ReadError::Refused { status, code }) => {
                assert_eq!(status, 403, "{code}");
                assert!(
                    ["AccessDenied", "SignatureDoesNotMatch"].contains(&code.as_str()),
                    "{code}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A signature for one worker is good there alone, so the address is part of it; here all
/// workers are dead, and it is the origin that checks.
async fn client(origin: &FaultOrigin, credentials: Option<Credentials>) -> Client {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let mut config = ClientConfig::new(vec![format!("http://{nobody}").parse().unwrap()]);
    let origin = OriginConfig::new(origin.endpoint().parse().unwrap());
    config.origin = Some(OriginConfig { credentials, ..origin });
    Client::connect(config).await.unwrap()
}

async fn strict_origin() -> FaultOrigin {
    let access_keys = vec![AccessKey::new(ID, SECRET)];
    FaultOrigin::start(origin::OriginConfig { access_keys, ..Default::default() }).await.unwrap()
}
