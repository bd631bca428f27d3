//! How a worker starts and ends: mistakes are named with the way out, a missing origin is no
//! mistake, and what is in flight at SIGTERM is finished.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use forebay_testkit::process::Launch;
use forebay_testkit::reader::{Ask, UpTo};
use forebay_testkit::{AccessKey, FaultOrigin, OriginConfig, PatternSet, Process, Reader, Shape};
use http::Method;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(15);
const OBJECT_BYTES: u64 = 300_000;

struct World {
    origin: FaultOrigin,
    dir: TempDir,
}

impl World {
    async fn new() -> Self {
        let origin = FaultOrigin::start(OriginConfig {
            patterns: vec![PatternSet::new("train", "k", 10, OBJECT_BYTES)],
            access_keys: vec![AccessKey::new("origin", "origin-secret")],
            ..OriginConfig::default()
        });
        Self { origin: origin.await.unwrap(), dir: tempfile::tempdir().unwrap() }
    }

    /// A worker that starts, unless a test says something else.
    fn worker(&self) -> Serve {
        Serve {
            origin: self.origin.endpoint(),
            bucket: "train",
            cache_dir: self.dir.path().join("cache").display().to_string(),
            listen: "127.0.0.1:0".into(),
            origin_secret: "origin-secret",
            freshness: "bounded",
        }
    }
}

struct Serve {
    origin: String,
    bucket: &'static str,
    cache_dir: String,
    listen: String,
    origin_secret: &'static str,
    freshness: &'static str,
}

impl Serve {
    fn start(&self) -> Process {
        let args = [
            ("--origin", self.origin.as_str()),
            ("--bucket", self.bucket),
            ("--cache-dir", &self.cache_dir),
            ("--capacity", "256MiB"),
            ("--freshness", self.freshness),
            ("--listen", &self.listen),
            ("--admin-listen", "127.0.0.1:0"),
        ];
        let launch = args
            .iter()
            .fold(forebay("serve"), |launch, (flag, value)| launch.arg(*flag).arg(*value));
        let launch = launch
            .env("AWS_ACCESS_KEY_ID", "origin")
            .env("AWS_SECRET_ACCESS_KEY", self.origin_secret)
            .env("FOREBAY_ACCESS_KEY_ID", "client")
            .env("FOREBAY_SECRET_ACCESS_KEY", "client-secret");
        Process::start(&launch).unwrap()
    }

    /// What a worker that does not start says, and its exit code.
    async fn refusal(&self) -> (String, Option<i32>) {
        ended(self.start()).await
    }
}

fn forebay(command: &str) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_forebay")).arg(command)
}

async fn ended(mut process: Process) -> (String, Option<i32>) {
    let code = process.wait(SOON).await.unwrap().code();
    let line = process.line_with("error: ", SOON).await.unwrap();
    (line, code)
}

/// The S3 and the admin endpoint.
async fn listening(worker: &mut Process) -> (String, String) {
    let line = worker.announced("forebay listening ", SOON).await.unwrap();
    let (s3, admin) = line.split_once(' ').unwrap();
    (s3.trim_start_matches("s3=").into(), admin.trim_start_matches("admin=").into())
}

fn client(s3: &str) -> Reader {
    Reader::new(s3).unwrap().signed_by(&AccessKey::new("client", "client-secret"))
}

#[tokio::test]
async fn a_bad_config_file_ends_with_2_and_names_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("forebay.toml");
    std::fs::write(&file, "[cache]\nread_ahed_blocks = 8\n").unwrap();
    let launch = forebay("serve").arg("--config").arg(file.as_os_str());
    let (error, code) = ended(Process::start(&launch).unwrap()).await;
    assert!(
        error.contains("cache.read_ahed_blocks") && error.contains("read_ahead_blocks\"?"),
        "{error}"
    );
    assert_eq!(code, Some(2));
}

#[tokio::test]
async fn definite_mistakes_end_the_start_with_what_to_do() {
    let world = World::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let good = || world.worker();
    for (worker, parts) in [
        (
            Serve { origin_secret: "wrong", ..good() },
            ["SignatureDoesNotMatch", "check the access key"],
        ),
        (Serve { bucket: "nope", ..good() }, ["no bucket nope", "create it or correct its name"]),
        (Serve { cache_dir: "/dev/null/x".into(), ..good() }, ["/dev/null/x", "writable"]),
        (Serve { listen: taken.clone(), ..good() }, [taken.as_str(), "another address"]),
    ] {
        let (error, code) = worker.refusal().await;
        assert_eq!(code, Some(1), "{error}");
        for part in parts {
            assert_eq!(error.matches(part).count(), 1, "{error:?} should say {part:?} once");
        }
    }
}

#[tokio::test]
async fn what_is_cached_is_served_by_a_worker_that_starts_without_its_origin() {
    let world = World::new().await;
    let serve = Serve { freshness: "immutable", ..world.worker() };
    let mut worker = serve.start();
    let (s3, _) = listening(&mut worker).await;
    let read = client(&s3).verify_get("train", "k00000001", None, &UpTo(1)).await.unwrap();
    assert_eq!(read.bytes, OBJECT_BYTES);
    worker.terminate(SOON).await.unwrap();

    world.origin.set_reachable(false);
    let mut worker = serve.start();
    let (s3, admin) = listening(&mut worker).await;
    let status = status(&admin);
    assert!(
        status.contains("\"state\":\"ready\"") && status.contains("does not answer"),
        "{status}"
    );
    let cached = client(&s3).verify_get("train", "k00000001", None, &UpTo(1)).await.unwrap();
    assert_eq!(cached.bytes, OBJECT_BYTES);
    let absent = client(&s3).get("train", "k00000002", None).await.unwrap();
    assert!(absent.status.is_server_error(), "{}", absent.status);
}

#[tokio::test]
async fn a_request_in_flight_at_sigterm_is_finished() {
    let world = World::new().await;
    let mut worker = world.worker().start();
    let (s3, _) = listening(&mut worker).await;
    world.origin.set_shape(Shape::distant(Duration::from_millis(300), 200_000));
    let reader = client(&s3);
    let read = async {
        let mut answer = reader.get("train", "k00000002", None).await.unwrap();
        let mut bytes = answer.chunk().await.unwrap().unwrap().len() as u64;
        let pid = rustix::process::Pid::from_raw(worker.pid() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        while let Some(chunk) = answer.chunk().await.unwrap() {
            bytes += chunk.len() as u64;
        }
        bytes
    };
    assert_eq!(read.await, OBJECT_BYTES);
    let ended = worker.wait(SOON).await.unwrap();
    assert_eq!((ended.code(), ended.signal()), (Some(0), None), "{}", worker.tail());
    assert!(Reader::new(&s3).unwrap().head("train", "k00000002").await.is_err());
}

#[tokio::test]
async fn status_tells_a_worker_from_silence_and_from_something_else() {
    let world = World::new().await;
    let mut worker = world.worker().start();
    let (s3, admin) = listening(&mut worker).await;
    let table = run(&["status", "--endpoint", &admin]);
    assert_eq!(table.1, Some(0));
    assert!(table.0.contains("ready") && table.0.contains("train"), "{}", table.0);
    let (error, code) = run(&["status", "--endpoint", &s3]);
    assert!(code == Some(1) && error.contains("not its S3 address"), "{error}");
    assert_eq!(run(&["status", "--endpoint", "nowhere"]).1, Some(2));
    worker.kill_9().unwrap();
    let (error, code) = run(&["status", "--endpoint", &admin]);
    assert!(code == Some(1) && error.contains("no worker answers"), "{error}");
}

#[tokio::test]
async fn the_metrics_page_tells_of_the_process_and_of_what_was_served() {
    let world = World::new().await;
    let mut worker = world.worker().start();
    let (s3, admin) = listening(&mut worker).await;
    client(&s3).verify_get("train", "k00000003", None, &UpTo(1)).await.unwrap();
    let page = Reader::new(&admin).unwrap().request(Ask::new(Method::GET, "metrics", "")).await;
    let page = page.unwrap().success().await.unwrap();
    let page = String::from_utf8_lossy(&page);
    for sample in [
        "forebay_build_info{version=",
        "forebay_start_time_seconds ",
        "forebay_open_fds ",
        "forebay_max_fds ",
        "forebay_resident_bytes{kind=\"anon\"} ",
        "forebay_disk_used_bytes{",
        "forebay_requests_total{",
        "forebay_served_bytes_total{bucket=\"train\",tier=\"origin\"} ",
        "forebay_origin_requests_total{",
    ] {
        assert!(page.lines().any(|line| line.starts_with(sample)), "no {sample} in\n{page}");
    }
    assert!(!page.contains("secret"));
}

#[tokio::test]
async fn garbage_on_the_admin_port_harms_nobody() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let world = World::new().await;
    let mut worker = world.worker().start();
    let (_, admin) = listening(&mut worker).await;
    for garbage in
        [&b"\x16\x03\x01\x02\x00\x01\x00"[..], &[0xff; 4096], b"GET /status HTTP/9.9\r\n\r\n"]
    {
        let mut socket =
            tokio::net::TcpStream::connect(admin.trim_start_matches("http://")).await.unwrap();
        socket.write_all(garbage).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer).await;
    }
    assert!(status(&admin).contains("\"state\":\"ready\""));
}

/// Everything that a command prints, and its exit code.
fn run(args: &[&str]) -> (String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_forebay")).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code())
}

fn status(admin: &str) -> String {
    run(&["status", "--endpoint", admin, "-o", "json"]).0
}
