//! Our storage under openraft's own suite, and what the suite does not look at.

use std::sync::Arc;

use forebay_rt::{SeededRng, SystemClock};
use openraft::storage::{RaftLogStorage, RaftLogStorageExt, RaftStateMachine};
use openraft::testing::{StoreBuilder, Suite, blank_ent, log_id};
use openraft::{EntryPayload, RaftLogReader, RaftSnapshotBuilder};
use tempfile::TempDir;

use super::*;
use crate::limits::LOG_READ_BYTES_MAX;
use crate::metrics::Metrics;
use crate::state::Report;
use crate::state::tests::hex;

struct Builder;

impl StoreBuilder<Types, LogStore, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError> {
        let dir = TempDir::new().unwrap();
        let (log, machine) = open(&dir);
        Ok((dir, log, machine))
    }
}

fn open(dir: &TempDir) -> (LogStore, Machine) {
    let db = Arc::new(Db::open(dir.path()).unwrap());
    let log = LogStore::new(db.clone(), Arc::new(SystemClock), Arc::new(Metrics::new()));
    (log, Machine::open(db).unwrap())
}

fn rules(index: u64, toml: &str) -> Entry {
    let payload = EntryPayload::Normal(Command::SetRules { toml: toml.to_owned() });
    Entry { log_id: log_id(1, 1, index), payload }
}

#[test]
fn the_store_passes_openrafts_own_suite() {
    Suite::test_all(Builder).unwrap();
}

#[tokio::test]
async fn what_was_written_is_there_after_a_restart() {
    let dir = TempDir::new().unwrap();
    let (vote, committed) = (Vote::new(3, 2), Some(log_id(1, 1, 2)));
    {
        let (mut log, mut machine) = open(&dir);
        log.save_vote(&vote).await.unwrap();
        log.blocking_append((1..=4).map(|index| rules(index, "a"))).await.unwrap();
        log.truncate(log_id(1, 1, 4)).await.unwrap();
        log.purge(log_id(1, 1, 1)).await.unwrap();
        log.save_committed(committed).await.unwrap();
        machine.apply([rules(1, "a"), rules(2, "b")]).await.unwrap();
        machine.get_snapshot_builder().await.build_snapshot().await.unwrap();
    }
    let (mut log, mut machine) = open(&dir);
    assert_eq!(log.read_vote().await.unwrap(), Some(vote));
    assert_eq!(log.read_committed().await.unwrap(), committed);
    let state = log.get_log_state().await.unwrap();
    assert_eq!(state.last_purged_log_id, Some(log_id(1, 1, 1)));
    assert_eq!(state.last_log_id, Some(log_id(1, 1, 3)));
    let entries = log.try_get_log_entries(0..).await.unwrap();
    assert_eq!(entries, [rules(2, "a"), rules(3, "a")]);
    assert_eq!(machine.applied_state().await.unwrap().0, committed);
    assert_eq!(machine.watch().borrow().view.rules.as_ref().unwrap().toml, "b");
    let snapshot = machine.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(snapshot.meta.last_log_id, committed);
    assert_eq!(snapshot.snapshot.view(), *machine.watch().borrow().view);
}

#[tokio::test]
async fn an_installed_snapshot_replaces_state_and_place_in_the_log() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (_, mut leader) = open(&from);
    leader.apply([rules(1, "a"), blank_ent::<Types>(1, 1, 2)]).await.unwrap();
    let snapshot = leader.get_snapshot_builder().await.build_snapshot().await.unwrap();
    {
        let (_, mut follower) = open(&to);
        follower.apply([rules(1, "x")]).await.unwrap();
        follower.install_snapshot(&snapshot.meta, snapshot.snapshot).await.unwrap();
    }
    let (_, mut follower) = open(&to);
    assert_eq!(follower.applied_state().await.unwrap(), leader.applied_state().await.unwrap());
    assert_eq!(follower.watch().borrow().view, leader.watch().borrow().view);
    let kept = follower.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(kept.meta, snapshot.meta);
}

#[tokio::test]
async fn a_snapshot_that_was_built_for_long_does_not_replace_a_newer_one() {
    let (from, to) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (_, mut leader) = open(&from);
    leader.apply([rules(1, "a"), rules(2, "b")]).await.unwrap();
    let newer = leader.get_snapshot_builder().await.build_snapshot().await.unwrap();
    let (_, mut follower) = open(&to);
    follower.apply([rules(1, "a")]).await.unwrap();
    let mut builder = follower.get_snapshot_builder().await;
    follower.install_snapshot(&newer.meta, newer.snapshot).await.unwrap();
    builder.build_snapshot().await.unwrap();
    let kept = follower.get_current_snapshot().await.unwrap().unwrap();
    assert_eq!(kept.meta, newer.meta);
}

#[tokio::test]
async fn what_is_sent_at_once_has_a_bound_but_always_something_in_it() {
    let dir = TempDir::new().unwrap();
    let (mut log, _) = open(&dir);
    let long = "x".repeat(LOG_READ_BYTES_MAX / 2);
    log.blocking_append((1..=5).map(|index| rules(index, &long))).await.unwrap();
    let sent = log.limited_get_log_entries(1, 6).await.unwrap();
    assert_eq!(sent.len(), 2);
    let longest = "x".repeat(LOG_READ_BYTES_MAX + 1);
    log.blocking_append([rules(6, &longest)]).await.unwrap();
    assert_eq!(log.limited_get_log_entries(6, 7).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_closed_directory_answers_with_errors_and_can_be_opened_again() {
    let dir = TempDir::new().unwrap();
    let db = Arc::new(Db::open(dir.path()).unwrap());
    let mut log = LogStore::new(db.clone(), Arc::new(SystemClock), Arc::new(Metrics::new()));
    db.close();
    assert!(log.read_vote().await.is_err());
    let (mut log, _machine) = open(&dir);
    assert_eq!(log.read_vote().await.unwrap(), None);
}

#[test]
fn a_directory_has_the_identity_that_it_was_given_first() {
    let dir = TempDir::new().unwrap();
    let db = Db::open(dir.path()).unwrap();
    assert_eq!(Identity::read(&db).unwrap(), None);
    let written = Identity::write(&db, 3, &SeededRng::new(1)).unwrap();
    assert_ne!(written.disk_id, 0);
    assert_eq!(Identity::read(&db).unwrap(), Some(written));
}

/// Logs and votes are on disks and travel between releases: these bytes are of the first one.
#[test]
fn the_form_of_log_and_vote_is_the_one_of_the_first_release() {
    let member = Member { addr: "v:1".into(), disk_id: 9 };
    let membership = openraft::Membership::new(
        vec![[7].into()],
        std::collections::BTreeMap::from([(7, member)]),
    );
    let with = |payload| {
        let entry = Entry { log_id: log_id(2, 7, 300), payload };
        hex(&crate::format::to_bytes(&entry).unwrap())
    };
    let written = [
        with(EntryPayload::Blank),
        with(EntryPayload::Normal(Command::Report(Report::default()))),
        with(EntryPayload::Membership(membership)),
        hex(&crate::format::to_bytes(&Vote::new_committed(2, 7)).unwrap()),
    ];
    assert_eq!(written, GOLDEN);
}

const GOLDEN: [&str; 4] =
    ["010207ac0200", "010207ac020100000000", "010207ac0202010107010703763a3109", "01020701"];
