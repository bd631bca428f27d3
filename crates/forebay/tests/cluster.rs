//! What operators ask of a cluster that runs, through the command line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use forebay_rt::{Clock, SystemClock};
use forebay_testkit::cluster::{Cluster, ClusterPlan, Member};
use forebay_testkit::{AccessKey, FaultOrigin, OriginConfig, PatternSet};
use serde_json::Value;
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_forebay");
/// A leader notices a silent worker after 5 s, and one that is new to it waits 10 s before.
const DOWN_LIMIT: Duration = Duration::from_secs(40);

/// One voter, two workers.
struct World {
    _origin: FaultOrigin,
    cluster: Cluster,
    dir: TempDir,
}

impl World {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let origin_key = AccessKey::new("origin", "origin-secret");
        let origin = FaultOrigin::start(OriginConfig {
            patterns: vec![PatternSet::new("train", "k", 10, 300_000)],
            access_keys: vec![origin_key.clone()],
            ..OriginConfig::default()
        });
        let origin = origin.await.unwrap();
        let plan = ClusterPlan {
            voters: 1,
            workers: 2,
            capacity: "256MiB".into(),
            origin_key,
            ..ClusterPlan::new(BINARY.as_ref(), dir.path(), &origin.endpoint(), "train")
        };
        Self { _origin: origin, cluster: Cluster::start(plan).await.unwrap(), dir }
    }

    /// Standard output, standard error, exit code of a command that asks the voters.
    fn ask(&self, args: &[&str]) -> (String, String, Option<i32>) {
        let mut command = Command::new(BINARY);
        let output = command.args(args).args(self.cluster.control_args()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr), output.status.code())
    }

    /// What a command prints that succeeds.
    fn done(&self, args: &[&str]) -> String {
        let (out, error, code) = self.ask(args);
        assert_eq!(code, Some(0), "{args:?}: {error}");
        out
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[args, &["-o", "json"]].concat())).unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn state_of(&self, worker: &Member) -> Value {
        let shown = self.json(&["ring", "show"]);
        let mut workers = shown["workers"].as_array().unwrap().iter();
        workers.find(|line| line["data"] == worker.data_addr()).unwrap()["state"].clone()
    }
}

#[tokio::test]
async fn status_tells_of_voters_workers_and_shares_and_exits_with_3_when_a_worker_is_down() {
    let mut world = World::new().await;
    let table = world.done(&["status"]);
    for part in ["CLUSTER  healthy", "voters 1/1", "leader 1", "workers 2/2", "active"] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
    let status = world.json(&["status"]);
    let workers = status["workers"].as_array().unwrap().iter();
    let shares: f64 = workers.map(|worker| worker["owned_ratio"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{status}");
    assert_eq!(world.json(&["meta", "members"])["voters"][0]["role"], "leader");

    world.cluster.workers[1].kill_9().unwrap();
    let deadline = SystemClock.now() + DOWN_LIMIT;
    let (table, code) = loop {
        let (table, _, code) = world.ask(&["status"]);
        if code != Some(0) || SystemClock.now() >= deadline {
            break (table, code);
        }
        SystemClock.sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(code, Some(3), "{table}");
    assert!(table.contains("LOOK     worker") && table.contains("is down"), "{table}");
}

#[tokio::test]
async fn a_drained_worker_hands_over_and_comes_back() {
    let world = World::new().await;
    let worker = &world.cluster.workers[0];
    let drained =
        world.done(&["ring", "drain", &worker.data_addr(), "--endpoint", &worker.admin()]);
    assert!(drained.contains("is out of the ring; others took 0 of its extents"), "{drained}");
    assert_eq!(world.state_of(worker), "draining");
    let table = world.done(&["ring", "show"]);
    assert!(table.contains("before") && table.contains("draining"), "{table}");

    let other = world.cluster.workers[1].admin();
    let (_, error, code) = world.ask(&["ring", "drain", &worker.data_addr(), "--endpoint", &other]);
    assert!(code == Some(1) && error.contains("give that worker's admin address"), "{error}");

    world.done(&["ring", "undrain", &worker.data_addr()]);
    world.cluster.until_active(2).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_taken_back_is_only_said_without_yes() {
    let world = World::new().await;
    let worker = world.cluster.workers[0].data_addr();
    let (out, plan, code) = world.ask(&["ring", "forget", &worker]);
    assert_eq!((out.as_str(), code), ("", Some(2)), "{plan}");
    assert!(plan.starts_with("forget worker") && plan.contains("say --yes"), "{plan}");
    let (_, error, code) = world.ask(&["ring", "forget", &worker, "--yes"]);
    assert!(code == Some(1) && error.contains("drain it first"), "{error}");

    let (_, plan, code) = world.ask(&["meta", "remove", "1"]);
    assert_eq!(code, Some(2), "{plan}");
    assert!(plan.contains("0 stay") && plan.contains("too few"), "{plan}");
    let (_, error, code) = world.ask(&["meta", "remove", "1", "--yes"]);
    assert!(code == Some(1) && error.contains("last voter"), "{error}");
    let (_, error, code) = world.ask(&["meta", "remove", "9", "--yes"]);
    assert!(code == Some(2) && error.contains("no voter has the number 9"), "{error}");
    let (_, error, code) = world.ask(&["ring", "drain", "nobody"]);
    assert!(code == Some(2) && error.contains(&world.cluster.workers[1].host.ip.to_string()));
}

#[tokio::test]
async fn rules_are_shown_as_they_were_applied() {
    let world = World::new().await;
    let (out, error, code) = world.ask(&["rules", "show"]);
    assert!(code == Some(0) && error.contains("has no rules"), "{error}");
    assert_eq!(out.trim(), "");
    let text = "# reviewed\n[[bucket]]\nname = 'train'\norigin = 'http://127.0.0.1:1'";
    let file = world.path("rules.toml");
    std::fs::write(&file, text).unwrap();
    world.done(&["rules", "apply", &file]);
    assert_eq!(world.done(&["rules", "show"]).trim_end(), text);
    assert_eq!(world.json(&["rules", "show"])["toml"], text);
}

#[tokio::test]
async fn a_snapshot_is_restored_only_with_yes_and_into_an_empty_directory() {
    let world = World::new().await;
    let (file, dir) = (world.path("snapshot"), world.path("voter-4"));
    assert!(world.done(&["meta", "snapshot", &file]).contains("wrote"));
    let restore = |more: &[&str]| {
        let args = ["meta", "restore", "--dir", &dir, "--snapshot", &file, "--id", "4"];
        let args = [&args[..], &["--advertise", "meta-3:9701"], more].concat();
        let output = Command::new(BINARY).args(args).output().unwrap();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (text, output.status.code())
    };
    let (plan, code) = restore(&[]);
    assert!(code == Some(2) && plan.contains("begin a new group of one voter, 4"), "{plan}");
    assert!(!std::fs::exists(&dir).unwrap());
    let (done, code) = restore(&["--yes"]);
    assert!(code == Some(0) && done.contains("restored 2 workers"), "{done}");
    let (error, code) = restore(&["--yes"]);
    assert!(code == Some(1) && error.contains("is not empty"), "{error}");
}
