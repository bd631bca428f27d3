//! A majority that is lost for good, and what one command makes of what is left.

use std::path::PathBuf;

use forebay_meta::{Restore, RestoreError, restore};
use forebay_rt::SystemRng;
use forebay_types::View;
use forebay_wire::meta::SnapshotRequest;
use tempfile::TempDir;
use tonic::Code;

use crate::support::{Voters, code, quick};

/// A group of three with three workers, and its view.
async fn group() -> (Voters, View) {
    let voters = Voters::formed(3, quick()).await;
    drop(voters.active_workers(1..=3).await);
    let view = voters.leaders_view().await;
    voters.all_see(view.revision).await;
    (voters, view)
}

async fn snapshot(voters: &Voters) -> Vec<u8> {
    let leader = voters.leader().await;
    let mut chunks =
        voters.control(leader).snapshot(SnapshotRequest {}).await.unwrap().into_inner();
    let mut file = Vec::new();
    while let Some(chunk) = chunks.message().await.unwrap() {
        file.extend_from_slice(&chunk.data);
    }
    file
}

/// Restores into a place of its own, as the voter with id 9, and starts it.
async fn restored(from: PathBuf) -> Voters {
    let mut voters = Voters::seated(0, quick()).await;
    let seat = voters.add_seat(9).await;
    let dir = voters.seats[seat].dir.path().join("raft");
    let request = Restore { from, dir, id: 9, advertise: voters.addr(seat) };
    restore(&request, &SystemRng).unwrap();
    voters.start(seat).await;
    voters.leader().await;
    voters
}

fn check(restored: &View, lost: &View) {
    assert_eq!(restored.ring.members, lost.ring.members);
    assert_eq!(restored.workers, lost.workers);
    assert!(restored.revision >= lost.revision + 1_000_000);
    assert!(restored.ring.epoch.0 >= lost.ring.epoch.0 + 1_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_restored_from_a_snapshot() {
    let (mut voters, lost) = group().await;
    let follower = voters.follower().await;
    let elsewhere = voters.control(follower).snapshot(SnapshotRequest {}).await;
    assert_eq!(code(elsewhere), Code::FailedPrecondition);
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("snapshot");
    std::fs::write(&file, snapshot(&voters).await).unwrap();
    for index in 0..3 {
        voters.stop(index).await;
    }
    let mut restored = restored(file).await;
    check(&restored.leaders_view().await, &lost);
    // It changes, survives a restart, and hears the workers.
    restored.set_ring(1).await;
    restored.stop(0).await;
    restored.start(0).await;
    let _workers = restored.active_workers(1..=3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_restored_from_the_directory_of_a_dead_voter() {
    let (mut voters, _) = group().await;
    let last = voters.follower().await;
    let revision = voters.set_ring(77).await.revision;
    voters.all_see(revision).await;
    let lost = voters.leaders_view().await;
    for index in 0..3 {
        voters.stop(index).await;
    }
    let from = voters.seats[last].dir.path().join("raft");
    let restored = restored(from).await;
    let view = restored.leaders_view().await;
    check(&view, &lost);
    assert_eq!(view.ring.config.seed, 77);
    assert_eq!(restored.status(0).await.unwrap().voters.len(), 1);

    // The voters of the old group turn up again. They are no part of the new one.
    for index in 0..3 {
        voters.start(index).await;
    }
    voters.leader().await;
    assert_eq!(restored.status(0).await.unwrap().voters.len(), 1);
    assert_eq!(restored.leaders_view().await, view);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_overwrites_nothing_and_begins_with_nothing_but_a_group() {
    let voters = Voters::formed(1, quick()).await;
    let dir = TempDir::new().unwrap();
    let to = |from: PathBuf, dir: PathBuf| Restore { from, dir, id: 1, advertise: "a:1".into() };
    let file = dir.path().join("snapshot");
    std::fs::write(&file, snapshot(&voters).await).unwrap();
    let taken = restore(&to(file.clone(), dir.path().into()), &SystemRng);
    assert!(matches!(taken, Err(RestoreError::NotEmpty(_))));
    let new = dir.path().join("new");
    restore(&to(file, new.clone()), &SystemRng).unwrap();
    let again = restore(&to(new.clone(), new), &SystemRng);
    assert!(matches!(again, Err(RestoreError::NotEmpty(_))));

    let text = dir.path().join("text");
    std::fs::write(&text, "not a snapshot").unwrap();
    let wrong = restore(&to(text, dir.path().join("a")), &SystemRng);
    assert!(matches!(wrong, Err(RestoreError::File { .. })));
    let nothing = restore(&to(dir.path().join("nothing"), dir.path().join("b")), &SystemRng);
    assert!(matches!(nothing, Err(RestoreError::Read { .. })));
    let mut outside = Voters::seated(3, quick()).await;
    outside.start(0).await;
    outside.stop(0).await;
    let empty = outside.seats[0].dir.path().join("raft");
    let groupless = restore(&to(empty, dir.path().join("c")), &SystemRng);
    assert!(matches!(groupless, Err(RestoreError::NoGroup(_))));
}
