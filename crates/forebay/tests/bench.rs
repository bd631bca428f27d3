//! `forebay bench` against a real worker in front of a real origin: the figures add up, and
//! mistakes are named.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::{Command, Output};
use std::time::Duration;

use forebay_testkit::process::Launch;
use forebay_testkit::{AccessKey, FaultOrigin, OriginConfig, PatternSet, Process};
use serde_json::Value;
use tempfile::TempDir;

const SOON: Duration = Duration::from_secs(15);
const SHARD_BYTES: u64 = 16 << 20;
const SAMPLE_BYTES: u64 = 100 << 10;

struct World {
    origin: FaultOrigin,
    worker: Process,
    endpoint: String,
    dir: TempDir,
}

impl World {
    async fn new() -> Self {
        let origin = FaultOrigin::start(OriginConfig {
            patterns: vec![
                PatternSet::new("b", "shards/", 1, SHARD_BYTES),
                PatternSet::new("b", "images/", 30, SAMPLE_BYTES),
            ],
            access_keys: vec![AccessKey::new("origin", "origin-secret")],
            ..OriginConfig::default()
        });
        let origin = origin.await.unwrap();
        // On a disk: a memory file system need not know O_DIRECT.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let launch = with_keys(Launch::new(env!("CARGO_BIN_EXE_forebay")))
            .args(["serve", "--exit-with-stdin", "--listen", "127.0.0.1:0"])
            .args(["--admin-listen", "127.0.0.1:0", "--capacity", "256MiB", "--bucket", "b"])
            .args(["--freshness", "immutable", "--origin", &origin.endpoint(), "--cache-dir"])
            .arg(dir.path());
        let mut worker = Process::start(&launch).unwrap();
        let line = worker.announced("forebay listening s3=", SOON).await.unwrap();
        let endpoint = line.split_once(' ').unwrap().0.to_owned();
        Self { origin, worker, endpoint, dir }
    }

    /// Runs one measurement, as short as it can be, and returns what it prints.
    async fn bench(&self, args: &[&str]) -> Value {
        let quick = ["--rounds", "2", "--seconds", "0.05", "--json"];
        let output = bench(&[args, &quick].concat()).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn with_keys(launch: Launch) -> Launch {
    keys().into_iter().fold(launch, |launch, (name, value)| launch.env(name, value))
}

fn keys() -> [(&'static str, &'static str); 5] {
    [
        ("AWS_ACCESS_KEY_ID", "origin"),
        ("AWS_SECRET_ACCESS_KEY", "origin-secret"),
        ("AWS_SESSION_TOKEN", ""),
        ("FOREBAY_ACCESS_KEY_ID", "client"),
        ("FOREBAY_SECRET_ACCESS_KEY", "client-secret"),
    ]
}

async fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.arg("bench").args(args).envs(keys());
    forebay_rt::spawn_blocking(move || command.output()).await.unwrap().unwrap()
}

/// `workload target` of each row.
fn names(report: &Value) -> Vec<String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let rows = report["rows"].as_array().unwrap();
    rows.iter().map(|row| format!("{} {}", text(row, "workload"), text(row, "target"))).collect()
}

fn assert_no_failure(report: &Value) {
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["failed"], 0, "{row}");
        assert!(row["requests"].as_u64().unwrap() >= 1, "{row}");
        assert!(row["gb_per_s"]["min"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[tokio::test]
async fn read_measures_every_workload_that_has_objects_and_all_of_it_is_a_hit() {
    let world = World::new().await;
    let pid = format!("forebay={}", world.worker.pid());
    let args = ["read", "--endpoint", &world.endpoint, "--bucket", "b", "--verify", "--pid", &pid];
    let report = world.bench(&args).await;
    let expected = ["w1", "w2", "w3", "w4", "first-byte"].map(|name| format!("{name} forebay"));
    assert_eq!(names(&report), expected);
    assert_no_failure(&report);
    for row in report["rows"].as_array().unwrap() {
        assert_eq!(row["hit_ratio"], 1.0, "{row}");
        assert!(row["server_cpu_s_per_gb"]["median"].as_f64().unwrap() >= 0.0, "{row}");
    }
}

#[tokio::test]
async fn origin_measures_the_origin_beside_the_worker() {
    let world = World::new().await;
    let origin = world.origin.endpoint();
    let args = ["origin", "--origin", &origin, "--endpoint", &world.endpoint, "--bucket", "b"];
    let more = ["--workload", "w3", "--prefix", "images/"];
    let report = world.bench(&[&args[..], &more].concat()).await;
    assert_eq!(names(&report), ["w3 origin", "w3 forebay"]);
    assert_no_failure(&report);
    let [direct, cached] = report["rows"].as_array().unwrap().as_slice() else { panic!() };
    assert_eq!((&direct["hit_ratio"], &cached["hit_ratio"]), (&Value::Null, &Value::from(1.0)));
    assert_eq!(direct["bytes"].as_u64().unwrap() % SAMPLE_BYTES, 0);
    assert_eq!(cached["bytes"].as_u64().unwrap() % SAMPLE_BYTES, 0);
}

#[tokio::test]
async fn disk_measures_the_disk_and_then_cold_reads_of_the_worker() {
    let world = World::new().await;
    let dir = world.dir.path().to_str().unwrap();
    let net = ["net", "--endpoint", &world.endpoint, "--bucket", "b", "--prefix", "shards/"];
    let net = world.bench(&net).await;
    assert_eq!(names(&net), ["net forebay"; 3]);
    assert_no_failure(&net);
    let args = ["disk", "--dir", dir, "--endpoint", &world.endpoint, "--bucket", "b"];
    let report = world.bench(&[&args[..], &["--workload", "w1,w2", "--verify"]].concat()).await;
    assert_eq!(report["disk"].as_array().unwrap().len(), 3);
    assert_eq!(names(&report), ["w1 forebay", "w2 forebay"]);
    assert_no_failure(&report);
    // Each piece at most once in each of two rounds.
    let bytes = report["rows"][0]["bytes"].as_u64().unwrap();
    assert_eq!(bytes, 2 * SHARD_BYTES);
}

#[tokio::test]
async fn mistakes_end_with_2_and_what_cannot_be_measured_with_1() {
    let world = World::new().await;
    let read = ["read", "--bucket", "b", "--endpoint", &world.endpoint];
    for (more, code, hint) in [
        (&["--pid", "other=1"][..], 2, "no endpoint has that name; there is forebay"),
        (&["--workload", "w5"], 2, "write one of w1, w2, w3, w4, first-byte"),
        (&["--unsigned"], 1, "AccessDenied"),
        (&["--prefix", "none/"], 1, "nothing there"),
        (&["--prefix", "images/", "--workload", "w1"], 1, "needs an object of 16384 KiB"),
    ] {
        let output = bench(&[&read[..], more].concat()).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {said}");
        assert!(said.contains(hint), "{more:?}: {said}");
    }
}

#[tokio::test]
async fn a_table_is_printed_for_people() {
    let world = World::new().await;
    let args = ["net", "--endpoint", &world.endpoint, "--bucket", "b", "--rounds", "1"];
    let output = bench(&[&args[..], &["--seconds", "0.05"]].concat()).await;
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.starts_with("WORKLOAD") && table.contains("8 MiB ranges x 16"));
    assert_eq!(table.lines().count(), 4, "{table}");
}
