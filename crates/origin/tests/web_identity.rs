//! What an STS is asked, what its credentials are used for, and that nobody is shown them.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

#[allow(dead_code, reason = "the other tests need more")]
mod raw;
#[allow(dead_code, reason = "the other tests need more")]
mod world;

use std::fmt::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use forebay_origin::{CredentialsSource, Origin, OriginConfig, WebIdentity};
use raw::{Answer, RawOrigin};
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::{Event, Level, Metadata, Subscriber};
use world::*;

const ROLE: &str = "arn:aws:iam::123456789012:role/reader";
const TOKEN: &str = "eyJ.bearer-token.hush";
const LENT_SECRET: &str = "lent-secret-hush";
const LENT_TOKEN: &str = "lent-session-hush";
const FAR: &str = "<Expiration>2099-01-01T00:00:00Z</Expiration>";

/// A file that only this test has.
fn token_file(name: &str, token: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("web-identity-{name}"));
    std::fs::write(&path, token).unwrap();
    path
}

fn role(sts: &RawOrigin, token_file: PathBuf) -> CredentialsSource {
    CredentialsSource::WebIdentity(WebIdentity {
        role_arn: ROLE.into(),
        token_file,
        session_name: "forebay-test".into(),
        sts_endpoint: Some(sts.endpoint.clone()),
    })
}

async fn bearer(endpoint: &str, credentials: CredentialsSource) -> Arc<Origin> {
    connect(OriginConfig { credentials, ..config(endpoint) }).await
}

fn lent(access_key_id: &str, expiration: &str) -> Vec<u8> {
    let action = "AssumeRoleWithWebIdentity";
    xml(
        "200 OK",
        &format!(
            "<{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>\
             <Credentials><AccessKeyId>{access_key_id}</AccessKeyId>\
             <SecretAccessKey>{LENT_SECRET}</SecretAccessKey>\
             <SessionToken>{LENT_TOKEN}</SessionToken>{expiration}</Credentials>\
             </{action}Result></{action}Response>"
        ),
    )
}

fn xml(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n{body}")
        .into()
}

async fn silent_bucket() -> RawOrigin {
    RawOrigin::start(|_, _| Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into()))
        .await
}

#[tokio::test]
async fn requests_are_signed_with_what_the_sts_lends_for_the_token() {
    let sts = RawOrigin::start(|_, _| Answer::Bytes(lent("ASIALENT", FAR))).await;
    let bucket_server = silent_bucket().await;
    let role = role(&sts, token_file("lent", TOKEN));
    let origin = bearer(&bucket_server.endpoint, role).await;
    origin.probe(&bucket("train")).await.unwrap();
    origin.forward(request("PUT", "/train/k", "new")).await.unwrap();

    let asked = sts.seen();
    assert_eq!(asked.len(), 1, "credentials are kept while they are good");
    assert_eq!((asked[0].method.as_str(), asked[0].target.as_str()), ("POST", "/"));
    assert_eq!(asked[0].header("authorization"), None);
    let form = String::from_utf8(asked[0].body.clone()).unwrap();
    for part in [
        "Action=AssumeRoleWithWebIdentity",
        "RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Freader",
        "RoleSessionName=forebay-test",
        &format!("WebIdentityToken={TOKEN}"),
    ] {
        assert!(form.split('&').any(|field| field == part), "{form} without {part}");
    }
    assert_eq!(bucket_server.seen().len(), 2);
    for seen in bucket_server.seen() {
        let signature = seen.header("authorization").unwrap();
        assert!(signature.contains("Credential=ASIALENT/"), "{signature}");
        assert_eq!(seen.header("x-amz-security-token"), Some(LENT_TOKEN));
    }
}

#[tokio::test]
async fn a_token_that_its_issuer_replaces_is_used_from_then_on() {
    let expired = "<Expiration>2001-01-01T00:00:00Z</Expiration>";
    let sts = RawOrigin::start(|nth, _| Answer::Bytes(lent(&format!("ASIA{nth}"), expired))).await;
    let bucket_server = silent_bucket().await;
    let origin = bearer(&bucket_server.endpoint, role(&sts, token_file("replaced", "first"))).await;
    origin.forward(request("PUT", "/train/k", "")).await.unwrap();
    token_file("replaced", "second");
    origin.forward(request("PUT", "/train/k", "")).await.unwrap();

    let tokens: Vec<bool> = sts
        .seen()
        .iter()
        .map(|seen| String::from_utf8_lossy(&seen.body).contains("WebIdentityToken=second"))
        .collect();
    assert_eq!(tokens, [false, true]);
    let second = &bucket_server.seen()[1];
    assert!(second.header("authorization").unwrap().contains("Credential=ASIA1/"));
}

#[tokio::test]
async fn what_goes_wrong_is_named_and_no_secret_is_in_errors_logs_or_debug() {
    let lines = Lines::default();
    let _listening = tracing::subscriber::set_default(lines.clone());
    let refused = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code>\
        <Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error>\
        </ErrorResponse>";
    let no_token = PathBuf::from("/no/such/token");
    for (answer, file, part) in [
        (lent("ASIALENT", FAR), no_token, "No such file"),
        (xml("403 Forbidden", refused), token_file("refused", TOKEN), "Not authorized"),
        // Cannot be read, and holds all there is to hide.
        (lent("ASIALENT", "<Expiration>"), token_file("no-xml", TOKEN), ""),
    ] {
        let sts = RawOrigin::start(move |_, _| Answer::Bytes(answer.clone())).await;
        let bucket_server = silent_bucket().await;
        let origin = bearer(&bucket_server.endpoint, role(&sts, file)).await;
        let error = origin.probe(&bucket("train")).await.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(text.starts_with("no credentials for origin") && text.contains(part), "{text}");
        assert!(!text.contains("hush"), "{text}");
        assert!(!format!("{origin:?}").contains("hush"));
        assert_eq!(bucket_server.seen().len(), 0, "nothing is sent unsigned instead");
    }
    let sts = RawOrigin::start(|_, _| Answer::Bytes(lent("ASIALENT", FAR))).await;
    let bucket_server = silent_bucket().await;
    let origin = bearer(&bucket_server.endpoint, role(&sts, token_file("debug", TOKEN))).await;
    origin.probe(&bucket("train")).await.unwrap();
    assert!(!format!("{origin:?}").contains("hush"));
    let logged = lines.0.lock().unwrap().clone();
    assert!(logged.contains("origin credentials not refreshed"), "{logged}");
    assert!(!logged.contains("hush"), "{logged}");
}

/// Keeps every line that would be logged at the level that is logged unless told otherwise.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<String>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock().unwrap();
        event.record(&mut Words(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Words<'a>(&'a mut String);

impl Visit for Words<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
