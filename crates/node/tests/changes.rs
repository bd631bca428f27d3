//! What changes while a worker runs: its keys, its buckets, its certificate.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forebay_node::{Config, Environment, Flags, RawConfig, Running};
use forebay_rt::{Clock, SystemClock, Task};
use forebay_testkit::{AccessKey, FaultOrigin, OriginConfig, Pattern, PatternSet, Reader};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Files are looked at every two seconds, on a machine that may be busy.
const SOON: Duration = Duration::from_secs(60);
const BUCKET: &str = "train";
const KEY: &str = "k00000000";
const OBJECT_BYTES: u64 = 9 << 20;

/// An origin and a worker in this process, with a config file that a test may write anew.
struct World {
    origin: FaultOrigin,
    dir: TempDir,
    addresses: String,
    stop: Option<oneshot::Sender<()>>,
    running: Task<bool>,
}

impl World {
    /// `head` and `tail` go before and after the tables that every worker has.
    async fn start(dir: TempDir, head: &str, tail: &str) -> Self {
        let origin = FaultOrigin::start(OriginConfig {
            patterns: vec![PatternSet::new(BUCKET, "k", 2, OBJECT_BYTES)],
            buckets: vec!["other".into()],
            anonymous: true,
            ..OriginConfig::default()
        });
        let origin = origin.await.unwrap();
        std::fs::write(dir.path().join("forebay.toml"), config(&origin, &dir, head, tail)).unwrap();
        let raw = RawConfig::read(&dir.path().join("forebay.toml")).unwrap();
        let config = Config::resolve(raw, &Environment::default(), &Flags::default()).unwrap();
        let running = Running::start(config).await.unwrap();
        let addresses = running.addresses();
        let (stop, stopped) = oneshot::channel();
        let running = forebay_rt::spawn(running.run_until(async {
            let _ = stopped.await;
        }));
        Self { origin, dir, addresses, stop: Some(stop), running }
    }

    fn write_config(&self, head: &str, tail: &str) {
        let text = config(&self.origin, &self.dir, head, tail);
        let new = self.dir.path().join("forebay.toml.new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, self.dir.path().join("forebay.toml")).unwrap();
    }

    fn address(&self, name: &str) -> String {
        let found = self.addresses.split(' ').find_map(|word| word.strip_prefix(name));
        found.unwrap().to_owned()
    }

    async fn status(&self, id: &str, secret: &str, bucket: &str) -> u16 {
        let reader = Reader::new(&self.address("s3=")).unwrap();
        let reader = reader.signed_by(&AccessKey::new(id, secret));
        reader.head(bucket, KEY).await.unwrap().status.as_u16()
    }

    async fn unsigned_status(&self, bucket: &str) -> u16 {
        let reader = Reader::new(&self.address("s3=")).unwrap();
        reader.head(bucket, KEY).await.unwrap().status.as_u16()
    }

    async fn stop(mut self) {
        self.stop.take().unwrap().send(()).unwrap();
        assert!(self.running.await.unwrap());
    }
}

fn config(origin: &FaultOrigin, dir: &TempDir, head: &str, tail: &str) -> String {
    format!(
        "[worker]\nlisten = '127.0.0.1:0'\nadmin_listen = '127.0.0.1:0'\n{head}\n\
         [[disk]]\npath = '{}'\ncapacity = '256MiB'\n\
         [[bucket]]\nname = '{BUCKET}'\norigin = '{}'\ncredentials = 'anonymous'\n\
         freshness = 'immutable'\n{tail}\n",
        dir.path().join("cache").display(),
        origin.endpoint(),
    )
}

/// A key that may read one bucket, its secret in a file.
fn key(dir: &TempDir, id: &str, secret: &str, bucket: &str) -> String {
    let path = secret_file(dir, id);
    std::fs::write(&path, secret).unwrap();
    format!(
        "[[auth.key]]\nid = '{id}'\nsecret_file = '{}'\n\
         grants = [{{ bucket = '{bucket}', read = true }}]\n",
        path.display()
    )
}

fn secret_file(dir: &TempDir, id: &str) -> PathBuf {
    dir.path().join(format!("{id}.secret"))
}

/// Waits for what has to become true, and says whether it did.
async fn comes<F: Future<Output = bool>>(is_so: impl Fn() -> F) -> bool {
    let deadline = SystemClock.now() + SOON;
    while SystemClock.now() < deadline {
        if is_so().await {
            return true;
        }
        SystemClock.sleep(Duration::from_millis(100)).await;
    }
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_and_buckets_change_with_the_config_file_on_hits_and_misses_alike() {
    let dir = tempfile::tempdir().unwrap();
    let old = key(&dir, "old", "old-secret", BUCKET);
    let world = World::start(dir, "", &old).await;
    assert_eq!(world.status("old", "old-secret", BUCKET).await, 200);
    assert_eq!(world.status("new", "new-secret", BUCKET).await, 403);
    assert_eq!(world.status("new", "new-secret", "other").await, 403);

    let new = key(&world.dir, "new", "new-secret", "*");
    let other = format!(
        "[[bucket]]\nname = 'other'\norigin = '{}'\ncredentials = 'anonymous'\n",
        world.origin.endpoint()
    );
    world.write_config("", &format!("{other}{new}"));
    assert!(comes(|| async { world.status("new", "new-secret", "other").await == 404 }).await);
    assert_eq!(world.status("new", "new-secret", BUCKET).await, 200);
    assert_eq!(world.status("old", "old-secret", BUCKET).await, 403, "a key that is gone");

    std::fs::write(secret_file(&world.dir, "new"), "newer-secret").unwrap();
    assert!(comes(|| async { world.status("new", "newer-secret", BUCKET).await == 200 }).await);
    assert_eq!(world.status("new", "new-secret", BUCKET).await, 403, "a secret that is gone");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_callers_may_do_that_do_not_sign_changes_with_the_config_file() {
    let dir = tempfile::tempdir().unwrap();
    let one = key(&dir, "one", "one-secret", BUCKET);
    let world = World::start(dir, "", &one).await;
    assert_eq!(world.status("one", "one-secret", BUCKET).await, 200);
    assert_eq!(world.unsigned_status(BUCKET).await, 403, "a hit");

    let public = format!("[auth]\nanonymous = [{{ bucket = '{BUCKET}', read = true }}]\n");
    world.write_config("", &format!("{public}{one}"));
    assert!(comes(|| async { world.unsigned_status(BUCKET).await == 200 }).await);
    assert_eq!(world.unsigned_status("other").await, 403);
    assert_eq!(world.status("one", "wrong", BUCKET).await, 403, "not taken for unsigned");

    world.write_config("", &one);
    assert!(comes(|| async { world.unsigned_status(BUCKET).await == 403 }).await);
    assert_eq!(world.status("one", "one-secret", BUCKET).await, 200);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_file_that_cannot_be_used_changes_nothing_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let one = key(&dir, "one", "one-secret", BUCKET);
    let world = World::start(dir, "", &one).await;
    let two = key(&world.dir, "two", "two-secret", BUCKET);
    for broken in [
        format!("{two}grants = oops"),
        format!("{two}[[bucket]]\nname = 'nope'\norigin = '{}'\n", world.origin.endpoint()),
        two.replace("read", "reed"),
    ] {
        world.write_config("", &broken);
        // Long enough to be looked at; if it was not, the assertions hold all the same.
        SystemClock.sleep(Duration::from_millis(2500)).await;
        assert_eq!(world.status("one", "one-secret", BUCKET).await, 200, "{broken}");
        assert_eq!(world.status("two", "two-secret", BUCKET).await, 403, "{broken}");
    }
    world.write_config("", &two);
    assert!(comes(|| async { world.status("two", "two-secret", BUCKET).await == 200 }).await);
    assert_eq!(world.status("one", "one-secret", BUCKET).await, 403);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_on_disk_is_served_over_tls_with_the_certificate_of_the_moment() {
    let dir = tempfile::tempdir().unwrap();
    let first = write_certificate(&dir);
    let head = format!(
        "tls_listen = '127.0.0.1:0'\ntls_certificate_file = '{}'\ntls_key_file = '{}'",
        dir.path().join("tls.crt").display(),
        dir.path().join("tls.key").display()
    );
    let world = World::start(dir, &head, "[auth]\nmode = 'none'").await;
    let mut before = connect(&world, &first).await.unwrap();
    read_whole(&mut before).await;
    world.origin.set_reachable(false);
    read_whole(&mut before).await;

    std::fs::write(world.dir.path().join("tls.crt"), "no certificate").unwrap();
    SystemClock.sleep(Duration::from_millis(2500)).await;
    read_whole(&mut connect(&world, &first).await.unwrap()).await;
    let second = write_certificate(&world.dir);
    assert!(comes(|| async { connect(&world, &second).await.is_ok() }).await);
    assert!(connect(&world, &first).await.is_err(), "the old one is no longer shown");
    read_whole(&mut connect(&world, &second).await.unwrap()).await;
    read_whole(&mut before).await;
    drop(before);
    world.stop().await;
}

/// The PEM that a client has to believe in.
fn write_certificate(dir: &TempDir) -> String {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["forebay.test".to_owned()]).unwrap();
    std::fs::write(dir.path().join("tls.key"), signing_key.serialize_pem()).unwrap();
    std::fs::write(dir.path().join("tls.crt"), cert.pem()).unwrap();
    cert.pem()
}

async fn connect(world: &World, trusted_pem: &str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted_pem.as_bytes()).unwrap()).unwrap();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(world.address("s3-tls=https://")).await?;
    let name = ServerName::try_from("forebay.test").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Reads the object on an open connection and checks every byte.
async fn read_whole(stream: &mut TlsStream<TcpStream>) {
    let request = format!("GET /{BUCKET}/{KEY} HTTP/1.1\r\nhost: forebay.test\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&head));
    let mut body = vec![0; OBJECT_BYTES as usize];
    stream.read_exact(&mut body).await.unwrap();
    Pattern::new(BUCKET, KEY, 1).verify(0, &body).unwrap();
}
