//! Bad input: a clear error each, no panic, no hang.

use std::process::{Command, Output};
use std::time::Duration;

use forebay_testkit::PatternSet;
use forebay_tests::{BUCKET, CLIENT, ORIGIN, Setup, World, forebay_binary, read};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Runs `forebay serve` with these arguments until it ends, which it must by itself.
fn serve(args: &[&str]) -> Output {
    Command::new("timeout")
        .arg("20")
        .arg(forebay_binary().unwrap())
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(args)
        .env("AWS_ACCESS_KEY_ID", ORIGIN.0)
        .env("AWS_SECRET_ACCESS_KEY", ORIGIN.1)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("FOREBAY_ACCESS_KEY_ID", CLIENT.0)
        .env("FOREBAY_SECRET_ACCESS_KEY", CLIENT.1)
        .output()
        .unwrap()
}

fn assert_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1 | 2)), "{:?}: {said}", output.status);
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is not in: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_at_start_are_refused_with_their_name_and_the_way_out() {
    let world = World::start(Setup::default(), &[]).await.unwrap();
    let origin = world.origin.endpoint();
    let folder = TempDir::new().unwrap();
    let cache = folder.path().join("cache");
    let cache = cache.to_str().unwrap();

    let config = folder.path().join("bad.toml");
    std::fs::write(&config, "[worker]\nlisten_on = \"127.0.0.1:0\"\n").unwrap();
    let output = serve(&["--config", config.to_str().unwrap()]);
    assert_refused(&output, &["worker.listen_on", "listen"]);

    let output = serve(&["--origin", &origin, "--bucket", "missing", "--cache-dir", cache]);
    assert_refused(&output, &["missing", "bucket"]);

    let output = serve(&["--origin", &origin, "--bucket", BUCKET, "--cache-dir", "/proc/no"]);
    assert_refused(&output, &["/proc/no"]);

    let output = serve(&["--origin", &origin, "--bucket", BUCKET]);
    assert_refused(&output, &["cache-dir"]);

    let taken = world.worker.endpoint.trim_start_matches("http://");
    let output =
        serve(&["--origin", &origin, "--bucket", BUCKET, "--cache-dir", cache, "--listen", taken]);
    assert_refused(&output, &["listen"]);

    let in_use = world.cache_dir();
    let in_use = in_use.to_str().unwrap();
    let output = serve(&["--origin", &origin, "--bucket", BUCKET, "--cache-dir", in_use]);
    assert_refused(&output, &[in_use]);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_origin_credentials_are_named_at_start() {
    let world = World::start(Setup::default(), &[]).await.unwrap();
    let folder = TempDir::new().unwrap();
    let output = Command::new("timeout")
        .arg("20")
        .arg(forebay_binary().unwrap())
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .args(["--origin", &world.origin.endpoint(), "--bucket", BUCKET, "--auth", "none"])
        .arg("--cache-dir")
        .arg(folder.path())
        .env("AWS_ACCESS_KEY_ID", ORIGIN.0)
        .env("AWS_SECRET_ACCESS_KEY", "wrong-secret-canary")
        .output()
        .unwrap();
    assert_refused(&output, &["credentials"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("wrong-secret-canary"));
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_every_port_ends_in_an_answer_or_a_close_and_harms_nobody() {
    let set = PatternSet::new(BUCKET, "k-", 1, 100_000);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    let long_header = format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "a".repeat(1 << 20));
    let many_headers = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(5000));
    let garbage: [&[u8]; 10] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /%zz/%00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /b/k HTTP/1.1\r\nHost: x\r\nRange: bytes=18446744073709551616-\r\n\r\n",
        b"GET /b/k HTTP/1.1\r\nHost: x\r\nAuthorization: AWS4-HMAC-SHA256 =,=,\r\n\r\n",
        b"POST /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /b/k HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        long_header.as_bytes(),
        many_headers.as_bytes(),
    ];
    for endpoint in [&world.worker.endpoint, &world.worker.admin] {
        for bytes in garbage {
            let answer = send(endpoint, bytes).await;
            let first = answer.lines().next().unwrap_or_default();
            assert!(first.is_empty() || first.contains(" 4"), "{first}");
        }
    }
    assert_eq!(world.origin.log().counts().requests, probes_at_start(&world));
    read(&world.reader().unwrap(), &set.key(0), None).await.unwrap();
}

/// The worker asks once for its bucket when it starts; garbage must add nothing to that.
fn probes_at_start(world: &World) -> u64 {
    world.origin.log().requests(forebay_testkit::Op::HeadBucket)
}

async fn send(endpoint: &str, bytes: &[u8]) -> String {
    let mut socket = TcpStream::connect(endpoint.trim_start_matches("http://")).await.unwrap();
    // The other side may close before all of it is written.
    let _ = socket.write_all(bytes).await;
    let _ = socket.shutdown().await;
    let mut answer = Vec::new();
    let reading = socket.read_to_end(&mut answer);
    let ended = tokio::time::timeout(Duration::from_secs(20), reading).await;
    assert!(ended.is_ok(), "no end after {:?}", &bytes[..bytes.len().min(40)]);
    String::from_utf8_lossy(&answer).into_owned()
}
