//! What can be seen only from inside a voter.

use std::path::Path;
use std::sync::Arc;

use forebay_rt::{SystemClock, SystemRng};
use openraft::{ChangeMembers, RaftLogReader};
use tempfile::TempDir;

use super::*;
use crate::raft::{Member, RaftMetrics};
use crate::state::{Command, Heard, Report, Wish};

async fn alone(dir: &Path, id: u64, timings: Timings) -> Result<Voter, VoterError> {
    start(dir, id, timings, true).await
}

async fn start(dir: &Path, id: u64, timings: Timings, forms: bool) -> Result<Voter, VoterError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let config = VoterConfig {
        id,
        dir: dir.to_owned(),
        listener,
        advertise: addr.clone(),
        initial_voters: forms.then_some((id, addr)).into_iter().collect(),
        secret: ClusterSecret::from_text(&"s".repeat(40)).unwrap(),
        timings,
        clock: Arc::new(SystemClock),
        rng: Arc::new(SystemRng),
    };
    Voter::start(config).await
}

async fn leading(dir: &Path, timings: Timings) -> Voter {
    let voter = alone(dir, 1, timings).await.unwrap();
    let mut metrics = voter.group.raft.metrics();
    metrics.wait_for(|metrics| metrics.current_leader == Some(1)).await.unwrap();
    voter
}

fn workers(count: u64) -> Command {
    let heard = |id: u64| Heard {
        id: id << 40,
        data_addr: format!("worker-{id}.forebay.example:7401"),
        s3_addr: format!("worker-{id}.forebay.example:9500"),
        zone: "rack-a".into(),
        capacity_bytes: 1 << 40,
        wish: Wish::Active,
    };
    Command::Report(Report { heard: (1..=count).map(heard).collect(), ..Report::default() })
}

/// With so many workers each change writes the state and five rings, 20 KiB: all that is ever
/// written is several times what may be on the disk.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_ring_changes_leave_a_voters_disk_flat() {
    let dir = TempDir::new().unwrap();
    let voter = leading(dir.path(), Timings::default()).await;
    voter.group.propose(workers(120)).await.unwrap();
    let mut sizes = Vec::new();
    for seed in 1..=1_000 {
        let change = Command::SetRing { virtual_nodes: 500, seed };
        assert!(voter.group.propose(change).await.unwrap().changed);
        if seed % 50 == 0 {
            sizes.push(voter.group.db.bytes_on_disk());
        }
    }
    assert!(sizes.iter().all(|bytes| *bytes < 8 << 20), "{sizes:?}");

    let metrics = voter.group.raft.metrics().borrow().clone();
    let purged = metrics.purged.unwrap().index;
    assert!(purged >= 800, "the log is purged up to {purged} only");
    let mut log = LogStore::new(
        voter.group.db.clone(),
        voter.group.clock.clone(),
        voter.group.metrics.clone(),
    );
    let kept = log.try_get_log_entries(..).await.unwrap();
    assert_eq!(kept.first().unwrap().log_id.index, purged + 1);
    voter.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_belongs_to_one_voter() {
    let dir = TempDir::new().unwrap();
    let voter = leading(dir.path(), Timings::default()).await;
    let disk_id = voter.group.identity.disk_id;
    assert!(matches!(alone(dir.path(), 1, Timings::default()).await, Err(VoterError::Open { .. })));
    voter.shutdown().await;
    let other = alone(dir.path(), 2, Timings::default()).await;
    assert!(matches!(other, Err(VoterError::OtherVoter { of: 1, id: 2, .. })));
    let again = leading(dir.path(), Timings::default()).await;
    assert_eq!(again.group.identity.disk_id, disk_id);
    again.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voter_whose_disk_fails_says_that_it_takes_no_part_any_more() {
    let dir = TempDir::new().unwrap();
    let voter = leading(dir.path(), Timings::default()).await;
    voter.group.db.close();
    let refused = voter.group.propose(workers(1)).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::Unavailable);
    let why = voter.failed().await;
    assert!(why.contains("closed"), "{why}");
    voter.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timings_that_cannot_work_are_refused() {
    let dir = TempDir::new().unwrap();
    let timings = Timings { raft_heartbeat: Duration::from_secs(5), ..Timings::default() };
    assert!(matches!(alone(dir.path(), 1, timings).await, Err(VoterError::Config(_))));
}

/// What a process that is killed leaves behind is what its files hold at that moment.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_in_the_files() {
    let (dir, copies) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let voter = leading(dir.path(), Timings { snapshot_logs: 10, ..Timings::default() }).await;
    for seed in 1..=50 {
        let change = Command::SetRing { virtual_nodes: 500, seed };
        let answered = voter.group.propose(change).await.unwrap();
        if seed % 10 != 5 {
            continue;
        }
        let copy = copies.path().join(seed.to_string());
        std::fs::create_dir(&copy).unwrap();
        for file in std::fs::read_dir(dir.path()).unwrap().flatten() {
            std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
        }
        let machine = Machine::open(Arc::new(Db::open(&copy).unwrap())).unwrap();
        assert_eq!(machine.watch().borrow().state.revision(), answered.revision);
        drop(machine);
        let revived = leading(&copy, Timings::default()).await;
        assert_eq!(revived.group.state().revision(), answered.revision);
        revived.shutdown().await;
    }
    voter.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_voters_that_was_left_half_done_is_finished() {
    let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let first = leading(dirs[0].path(), Timings::default()).await;
    let second = start(dirs[1].path(), 2, Timings::default(), false).await.unwrap();
    let disk_id = second.group.identity.disk_id;
    let member = Member { addr: second.group.addr.clone(), disk_id };
    let raft = &first.group.raft;
    raft.add_learner(2, member, true).await.unwrap();
    let mut metrics = raft.metrics();
    let configs = |metrics: &RaftMetrics| -> Vec<Vec<u64>> {
        let configs = metrics.membership_config.membership().get_joint_config();
        configs.iter().map(|voters| voters.iter().copied().collect()).collect()
    };
    tokio::select! {
        biased;
        _ = metrics.wait_for(|metrics| configs(metrics).len() == 2) => {}
        _ = raft.change_membership(ChangeMembers::AddVoterIds([2].into()), false) => {
            panic!("finished before it could be left");
        }
    }
    metrics.wait_for(|metrics| configs(metrics) == [[1, 2]]).await.unwrap();
    first.shutdown().await;
    second.shutdown().await;
}
