//! A voter's metrics, on the page that Prometheus reads.
#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use std::sync::Arc;
use std::time::Duration;

use forebay_meta::{Timings, Voter, VoterConfig};
use forebay_rt::{Clock, SystemClock, SystemRng};
use forebay_telemetry::Exporter;
use forebay_wire::meta::SetRulesRequest;
use forebay_wire::meta::control_client::ControlClient;
use forebay_wire::{ClusterSecret, Handshake, control};
use tempfile::TempDir;
use tokio::net::TcpListener;

#[tokio::test]
async fn a_voter_says_how_its_group_is() {
    let exporter = Exporter::install().unwrap();
    let (dir, secret) =
        (TempDir::new().unwrap(), ClusterSecret::from_text(&"s".repeat(40)).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let voter = Voter::start(VoterConfig {
        id: 1,
        dir: dir.path().to_owned(),
        listener,
        advertise: addr.clone(),
        initial_voters: vec![(1, addr.clone())],
        secret: secret.clone(),
        timings: Timings::default(),
        clock: Arc::new(SystemClock),
        rng: Arc::new(SystemRng),
    });
    let voter = voter.await.unwrap();
    let handshake = Handshake::new(secret, Arc::new(SystemClock), Arc::new(SystemRng));
    let mut control = ControlClient::new(control::channel(&addr, handshake));
    while control.set_rules(SetRulesRequest { toml: "a = 1".into() }).await.is_err() {
        SystemClock.sleep(Duration::from_millis(20)).await;
    }
    // Gauges follow within a second.
    let mut page = exporter.render();
    for _ in 0..200 {
        if page.contains("forebay_raft_is_leader 1") && page.contains("_applied_index 2") {
            break;
        }
        SystemClock.sleep(Duration::from_millis(50)).await;
        page = exporter.render();
    }
    for expected in [
        "forebay_raft_is_leader 1",
        "forebay_raft_has_leader 1",
        "forebay_raft_term 1",
        "forebay_raft_voters 1",
        "forebay_raft_leader_changes_total 1",
        "forebay_raft_commit_seconds_count 1",
        "forebay_raft_log_fsync_seconds_count",
        "forebay_raft_last_log_index 2",
        "forebay_raft_committed_index 2",
        "forebay_raft_applied_index 2",
        "forebay_raft_snapshot_index 0",
        "forebay_raft_snapshot_age_seconds",
        "forebay_raft_disk_bytes",
        "forebay_ring_members{state=\"active\"} 0",
    ] {
        assert!(page.contains(expected), "{expected} is not in:\n{page}");
    }
    voter.shutdown().await;
}
