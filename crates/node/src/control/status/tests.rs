//! What is made of voters that agree, lag, are silent, or were never told.

use std::time::Duration;

use forebay_meta::admin::Voter;
use forebay_types::{Epoch, RingConfig, RingMember, Rules};

use super::*;

const GROUP: [(u64, &str); 3] = [(1, "meta-0:9701"), (2, "meta-1:9701"), (3, "meta-2:9701")];

fn voter((id, addr): (u64, &str)) -> Voter {
    Voter { id, addr: addr.into(), disk_id: id }
}

fn worker(id: u64, state: WorkerState) -> WorkerInfo {
    WorkerInfo {
        id: WorkerId(id),
        state,
        data_addr: format!("10.0.0.{id}:9100"),
        s3_addr: format!("10.0.0.{id}:9000"),
        zone: String::new(),
        capacity_bytes: 1 << 40,
    }
}

/// Worker 1 is in the ring with thrice the weight of worker 2; worker 3 is what `third` says.
fn view(revision: u64, third: WorkerState) -> View {
    let member = |(id, weight)| RingMember { id: WorkerId(id), weight };
    let ring = |epoch, members: &[(u64, u32)]| RingSpec {
        epoch: Epoch(epoch),
        config: RingConfig::default(),
        members: members.iter().copied().map(member).collect(),
    };
    View {
        revision,
        ring: ring(7, &[(1, 150), (2, 50)]),
        previous: vec![ring(6, &[(1, 100)])],
        workers: vec![
            worker(1, WorkerState::Active),
            worker(2, WorkerState::Active),
            worker(3, third),
        ],
        rules: Some(Rules { version: revision, toml: format!("# of revision {revision}") }),
    }
}

/// Voter `index` of the group, which follows voter 2 in term 4.
fn said(index: usize) -> VoterStatus {
    let me = voter(GROUP[index]);
    VoterStatus {
        heard: if me.id == 2 {
            vec![(WorkerId(1), Duration::from_millis(300))]
        } else {
            Vec::new()
        },
        me,
        leader: Some(voter(GROUP[1])),
        term: 4,
        last_log_index: 120,
        applied_index: 110 + index as u64 * 5,
        snapshot_index: 100,
        voters: GROUP.map(voter).to_vec(),
        learners: Vec::new(),
        view: view(30 + index as u64, WorkerState::Joining),
        disk_bytes: 4096,
    }
}

fn answers() -> Answers {
    (0..3).map(|index| (GROUP[index].1.to_owned(), Ok(said(index)))).collect()
}

fn silent(addr: &str) -> (String, Result<VoterStatus, Failure>) {
    (addr.into(), Err(Failure::Unreachable("connection refused".into())))
}

fn roles(status: &ClusterStatus) -> Vec<(Option<u64>, Role)> {
    status.voters.iter().map(|voter| (voter.id, voter.role)).collect()
}

#[test]
fn the_newest_view_and_the_leaders_word_count() {
    let status = ClusterStatus::of(answers()).unwrap();
    assert_eq!((status.leader, status.term, status.revision), (Some(2), 4, 32));
    assert_eq!(status.rules_version, Some(32));
    assert_eq!((status.ring.epoch, status.ring.members), (7, 2));
    assert_eq!(status.previous_rings[0].members, 1);
    let expected = [(Some(1), Role::Voter), (Some(2), Role::Leader), (Some(3), Role::Voter)];
    assert_eq!(roles(&status), expected);
    let lags: Vec<_> = status.voters.iter().map(|voter| voter.said.as_ref().unwrap().lag).collect();
    assert_eq!(lags, [Some(10), Some(5), Some(0)]);
    assert!(status.is_healthy(), "{:?}", status.troubles);
}

#[test]
fn a_worker_has_its_share_of_the_ring_and_what_the_leader_heard() {
    let workers = ClusterStatus::of(answers()).unwrap().workers;
    let shares: Vec<_> = workers.iter().map(|worker| worker.owned_ratio).collect();
    assert!((shares[0].unwrap() - 0.75).abs() < 0.05, "{shares:?}");
    assert!((shares[0].unwrap() + shares[1].unwrap() - 1.0).abs() < 1e-9, "{shares:?}");
    assert_eq!((workers[2].state, shares[2], workers[2].weight), ("joining", None, None));
    let heard: Vec<_> = workers.iter().map(|worker| worker.heard_ago_ms).collect();
    assert_eq!(heard, [Some(300), None, None]);
}

#[test]
fn a_group_without_its_leader_says_so() {
    let mut answers = answers();
    answers[1] = silent(GROUP[1].1);
    let status = ClusterStatus::of(answers).unwrap();
    assert_eq!(status.leader, None);
    assert_eq!(roles(&status)[1], (Some(2), Role::Voter));
    assert_eq!(status.voters[1].silence.as_deref(), Some("connection refused"));
    let troubles = status.troubles.join("\n");
    assert!(troubles.contains("no voter leads"), "{troubles}");
    assert!(troubles.contains("voter 2 (meta-1:9701) is silent: connection refused"), "{troubles}");
}

#[test]
fn a_leader_of_an_earlier_term_is_none() {
    let mut answers = answers();
    let deposed = answers[1].1.as_mut().unwrap();
    deposed.term = 3;
    for index in [0, 2] {
        answers[index].1.as_mut().unwrap().leader = Some(voter(GROUP[2]));
    }
    assert_eq!(ClusterStatus::of(answers).unwrap().leader, Some(3));
}

#[test]
fn a_voter_asked_under_another_name_is_shown_once_and_one_that_waits_as_outside() {
    let mut answers = answers();
    answers[0].0 = "127.0.0.1:9701".into();
    let newcomer = VoterStatus {
        me: voter((4, "meta-3:9701")),
        leader: None,
        term: 0,
        voters: Vec::new(),
        view: View::default(),
        ..said(0)
    };
    answers.push(("meta-3:9701".into(), Ok(newcomer)));
    answers.push(silent("10.9.9.9:1"));
    let status = ClusterStatus::of(answers).unwrap();
    assert_eq!(roles(&status)[3..], [(Some(4), Role::Outside), (None, Role::Outside)]);
    assert_eq!(status.voters[0].addr, "meta-0:9701");
    assert!(status.is_healthy(), "{:?}", status.troubles);
}

#[test]
fn a_worker_that_is_down_is_something_to_look_at() {
    let mut answers = answers();
    answers[2].1.as_mut().unwrap().view = view(99, WorkerState::Down);
    let status = ClusterStatus::of(answers).unwrap();
    assert_eq!(status.troubles, ["worker 0000000000000003 (10.0.0.3:9000) is down"]);
}

#[test]
fn a_group_that_nobody_joined_yet_has_no_one_in_the_ring() {
    let mut answers = answers();
    for (_, said) in &mut answers {
        said.as_mut().unwrap().view = View::default();
    }
    let status = ClusterStatus::of(answers).unwrap();
    assert_eq!(status.troubles, ["no worker is in the ring"]);
    assert_eq!(status.rules_version, None);
}

#[test]
fn silence_of_all_names_each() {
    let answers = || vec![silent("a:1"), silent("b:2")];
    let error = ClusterStatus::of(answers()).unwrap_err().to_string();
    assert!(error.contains("a:1: connection refused; b:2"), "{error}");
    assert!(rules(answers()).is_err() && only_id(answers()).is_err());
}

#[test]
fn the_rules_are_the_newest_that_any_voter_has() {
    assert_eq!(rules(answers()).unwrap().unwrap().toml, "# of revision 32");
}

#[test]
fn field_names_stay() {
    let json = serde_json::to_value(ClusterStatus::of(answers()).unwrap()).unwrap();
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["workers"][0]["id"], "0000000000000001");
    assert_eq!(json["voters"][1]["role"], "leader");
    assert_eq!(json["voters"][1]["said"]["lag"], 5);
    assert_eq!(json["previous_rings"][0]["epoch"], 6);
}
