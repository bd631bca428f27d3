//! The demo on a small set: it keeps its promises, says so in JSON, and leaves nothing behind.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn a_small_demo_keeps_every_promise() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["demo", "--json", "--objects", "300", "--shards", "1", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("one JSON object");
    assert!(output.status.success(), "{report}\n{stderr}");
    let epochs = report["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 3);
    for epoch in epochs {
        assert_eq!(epoch["bytes"], report["set_bytes"]);
        assert_eq!((&epoch["failed"], &epoch["wrong"]), (&0.into(), &0.into()));
    }
    assert!(epochs[0]["origin_requests"].as_u64().unwrap() >= 301);
    assert_eq!(epochs[1]["origin_requests"], 0);
    let (fetched, held) = (&epochs[2]["origin_bytes"], &epochs[2]["held_by_dead_bytes"]);
    assert!(fetched.as_u64().unwrap() <= held.as_u64().unwrap(), "{fetched} of {held}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the cache directory is gone");
}
