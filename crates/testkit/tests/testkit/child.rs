//! An origin in a process of its own is driven from this one.

use std::time::Duration;

use forebay_testkit::origin::{OriginConfig, READY_PREFIX, Stats, run_process};
use forebay_testkit::process::{Launch, Process};
use forebay_testkit::reader::{Ask, Reader, UpTo};
use forebay_testkit::{Fault, FaultRule, PatternSet};
use http::Method;

use crate::key;

const SOON: Duration = Duration::from_secs(10);
const CONFIG: &str = "FAULT_ORIGIN_TEST_CONFIG";

/// The child of the tests below, not a test: this binary started again with a configuration.
#[tokio::test]
#[ignore = "started by the other tests, with a configuration"]
async fn child_origin() {
    if let Ok(config) = std::env::var(CONFIG) {
        run_process(serde_json::from_str(&config).unwrap()).await.unwrap();
    }
}

/// The test binary as a fault origin.
fn origin_args() -> [&'static str; 4] {
    ["child::child_origin", "--exact", "--ignored", "--nocapture"]
}

fn config() -> String {
    let config = OriginConfig {
        patterns: vec![PatternSet::new("b", "data/", 4, 5000)],
        access_keys: vec![key()],
        exit_with_stdin: true,
        ..OriginConfig::default()
    };
    serde_json::to_string(&config).unwrap()
}

async fn start() -> (Process, Reader) {
    let program = std::env::current_exe().unwrap();
    let launch = Launch::new(program).args(origin_args()).env(CONFIG, config());
    let mut process = Process::start(&launch).unwrap();
    let endpoint = process.announced(READY_PREFIX, SOON).await.unwrap();
    let reader = Reader::new(&endpoint).unwrap().signed_by(&key());
    (process, reader)
}

async fn control(reader: &Reader, method: Method, path: &str, body: String) -> Vec<u8> {
    let (verb, query) = path.split_once('?').unwrap_or((path, ""));
    let mut ask = Ask::new(method, "_fo", verb).body(body);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        ask = ask.query(name, value);
    }
    reader.request(ask).await.unwrap().success().await.unwrap().to_vec()
}

#[tokio::test]
async fn a_child_origin_is_driven_over_its_control_path() {
    let (mut process, reader) = start().await;
    let key = "data/00000002";
    reader.verify_get("b", key, None, &UpTo(1)).await.unwrap();

    let overwrite = format!("overwrite?bucket=b&key={key}");
    let answer = control(&reader, Method::POST, &overwrite, String::new()).await;
    assert_eq!(answer, br#"{"version":2}"#);
    assert_eq!(reader.verify_get("b", key, None, &UpTo(2)).await.unwrap().version, 2);

    let rule = FaultRule::new("cut", Fault::Truncate { after_bytes: 10 }).times(1);
    control(&reader, Method::POST, "fault", serde_json::to_string(&rule).unwrap()).await;
    assert!(reader.verify_get("b", key, None, &UpTo(2)).await.is_err());

    let stats = control(&reader, Method::GET, "stats", String::new()).await;
    let stats: Stats = serde_json::from_slice(&stats).unwrap();
    assert_eq!((stats.counts.requests, stats.counts.bytes_sent), (3, 10_010));
    assert_eq!(stats.faults[0].fired, 1);

    control(&reader, Method::POST, "reset", String::new()).await;
    let stats = control(&reader, Method::GET, "stats", String::new()).await;
    let stats: Stats = serde_json::from_slice(&stats).unwrap();
    assert_eq!(stats.counts.requests, 0);
    assert!(process.usage().unwrap().anonymous_bytes > 0);
    process.kill_9().unwrap();
    assert!(reader.head("b", key).await.is_err());
}

#[tokio::test]
async fn a_child_origin_ends_with_its_stdin() {
    let launch = Launch::new("/bin/sh")
        .args(["-c", "exec \"$0\" \"$@\" </dev/null"])
        .arg(std::env::current_exe().unwrap())
        .args(origin_args())
        .env(CONFIG, config());
    let mut process = Process::start(&launch).unwrap();
    process.announced(READY_PREFIX, SOON).await.unwrap();
    assert!(process.wait(SOON).await.unwrap().success());
}
