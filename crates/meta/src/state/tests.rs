//! What holds of the state whatever happens to it, and what each command does.

use std::fmt::Write as _;

use forebay_types::{PREVIOUS_RINGS, View, WorkerId, WorkerState};
use proptest::prelude::*;

use super::*;
use crate::format;

const CAPACITY: u64 = 1 << 40;

fn heard(id: u64, wish: Wish) -> Heard {
    Heard {
        id,
        data_addr: format!("10.0.0.{id}:7401"),
        s3_addr: format!("10.0.0.{id}:9500"),
        zone: "a".into(),
        capacity_bytes: CAPACITY,
        wish,
    }
}

fn hear(heard: Heard) -> Command {
    Command::Report(Report { heard: vec![heard], ..Report::default() })
}

fn lose(id: u64) -> Command {
    Command::Report(Report { lost: vec![id], ..Report::default() })
}

fn active(ids: impl IntoIterator<Item = u64>) -> State {
    let mut state = State::default();
    let heard = ids.into_iter().map(|id| heard(id, Wish::Active)).collect();
    state.apply(Command::Report(Report { heard, ..Report::default() })).unwrap();
    state
}

fn members(state: &State) -> Vec<u64> {
    state.view().ring.members.iter().map(|member| member.id.0).collect()
}

fn is(state: &State, id: u64) -> Option<WorkerState> {
    state.worker(id)
}

#[test]
fn a_worker_joins_the_ring_when_it_says_that_it_is_ready() {
    let mut state = State::default();
    state.apply(hear(heard(1, Wish::Joining))).unwrap();
    assert_eq!((members(&state), state.epoch(), state.revision()), (vec![], 0, 1));
    state.apply(hear(heard(1, Wish::Active))).unwrap();
    assert_eq!((members(&state), state.epoch(), state.revision()), (vec![1], 1, 2));
}

#[test]
fn a_worker_that_starts_again_keeps_its_place() {
    let mut state = active([1, 2]);
    let (epoch, revision) = (state.epoch(), state.revision());
    let moved = Heard { data_addr: "10.9.9.9:1".into(), ..heard(1, Wish::Joining) };
    state.apply(hear(moved)).unwrap();
    assert_eq!((members(&state), state.epoch()), (vec![1, 2], epoch));
    assert_eq!(state.revision(), revision + 1);
    assert_eq!(state.view().worker(WorkerId(1)).unwrap().data_addr, "10.9.9.9:1");
}

#[test]
fn news_of_several_workers_is_one_epoch() {
    assert_eq!(active(1..=100).epoch(), 1);
}

#[test]
fn a_silent_worker_leaves_the_ring_and_comes_back_when_it_is_heard() {
    let mut state = active([1, 2, 3]);
    state.apply(lose(2)).unwrap();
    assert_eq!((members(&state), is(&state, 2)), (vec![1, 3], Some(WorkerState::Down)));
    assert_eq!(state.missing(), 1);
    assert!(state.is_news(&heard(2, Wish::Active)));
    state.apply(hear(heard(2, Wish::Active))).unwrap();
    assert_eq!((members(&state), state.epoch(), state.missing()), (vec![1, 2, 3], 3, 0));
    assert!(!state.is_news(&heard(2, Wish::Active)));
}

#[test]
fn what_the_operator_holds_stays_out_until_the_operator_gives_it_back() {
    let mut state = active([1, 2]);
    state.apply(Command::Drain { worker: 2, drain: true }).unwrap();
    state.apply(hear(heard(2, Wish::Active))).unwrap();
    assert_eq!((members(&state), is(&state, 2)), (vec![1], Some(WorkerState::Draining)));
    state.apply(lose(2)).unwrap();
    state.apply(hear(heard(2, Wish::Active))).unwrap();
    assert_eq!(members(&state), [1]);
    state.apply(Command::Drain { worker: 2, drain: false }).unwrap();
    assert_eq!(members(&state), [1, 2]);
    let unknown = state.apply(Command::Drain { worker: 9, drain: true });
    assert_eq!(unknown, Err(Refusal::NoSuchWorker));
}

#[test]
fn only_a_worker_that_is_out_can_be_forgotten() {
    let mut state = active([1, 2]);
    assert_eq!(state.apply(Command::Forget { worker: 1 }), Err(Refusal::NotOut));
    assert_eq!(state.apply(Command::Forget { worker: 9 }), Err(Refusal::NoSuchWorker));
    state.apply(lose(1)).unwrap();
    let epoch = state.epoch();
    state.apply(Command::Forget { worker: 1 }).unwrap();
    assert_eq!((is(&state, 1), state.epoch()), (None, epoch));
    let late = Report { forgotten: vec![2], ..Report::default() };
    assert!(!state.apply(Command::Report(late)).unwrap().changed, "it is not down");
}

#[test]
fn a_fence_counts_only_for_the_epoch_that_it_ends() {
    let mut state = active([1, 2]);
    let first = state.apply(Command::Fence { epoch: 1 }).unwrap();
    assert_eq!((first.epoch, first.changed), (2, true));
    let late = state.apply(Command::Fence { epoch: 1 }).unwrap();
    assert_eq!((late.epoch, late.changed), (2, false));
    assert_eq!(state.apply(Command::Fence { epoch: 3 }), Err(Refusal::EpochNotBegun));
    assert_eq!(state.view().previous, [], "the ring is the same one");
}

#[test]
fn previous_rings_are_kept_once_each_and_newest_first() {
    let mut state = active([1]);
    for id in 2..=9 {
        state.apply(hear(heard(id, Wish::Active))).unwrap();
    }
    let sizes =
        |state: &State| state.view().previous.iter().map(|r| r.members.len()).collect::<Vec<_>>();
    assert_eq!(sizes(&state), [8, 7, 6, 5]);
    for _ in 0..10 {
        state.apply(lose(9)).unwrap();
        state.apply(hear(heard(9, Wish::Active))).unwrap();
    }
    assert_eq!(sizes(&state), [8, 7, 6, 5], "a worker that flaps drives out no other ring");
}

#[test]
fn the_ring_configuration_is_part_of_the_placement() {
    let mut state = active([1, 2]);
    let set = Command::SetRing { virtual_nodes: 200, seed: 7 };
    assert_eq!(state.apply(set.clone()).unwrap().epoch, 2);
    assert!(!state.apply(set).unwrap().changed);
    let view = state.view();
    assert_eq!((view.ring.config.virtual_nodes, view.ring.config.seed), (200, 7));
    assert_eq!(view.previous.len(), 1);
    for wrong in [0, MAX_VIRTUAL_NODES + 1] {
        let refused = state.apply(Command::SetRing { virtual_nodes: wrong, seed: 0 });
        assert_eq!(refused, Err(Refusal::VirtualNodes));
    }
}

#[test]
fn rules_change_the_view_but_not_the_ring() {
    let mut state = active([1]);
    let (epoch, set) = (state.epoch(), Command::SetRules { toml: "a = 1".into() });
    assert!(state.apply(set.clone()).unwrap().changed);
    assert!(!state.apply(set).unwrap().changed);
    state.apply(Command::SetRules { toml: "a = 2".into() }).unwrap();
    let rules = state.view().rules.unwrap();
    assert_eq!((rules.version, rules.toml.as_str(), state.epoch()), (2, "a = 2", epoch));
}

#[test]
fn a_leap_passes_everything_that_was_seen() {
    let mut state = active([1, 2]);
    let before = state.view();
    state.leap(1_000);
    let after = state.view();
    assert_eq!(after.revision, before.revision + 1_000);
    assert_eq!(after.ring.epoch.0, before.ring.epoch.0 + 1_000);
    assert_eq!(after.ring.members, before.ring.members);
}

/// What is on voters' disks today must be readable for ever: these bytes are of the first release.
#[test]
fn the_form_on_disk_is_the_one_of_the_first_release() {
    let mut state = active([1]);
    state.apply(Command::SetRules { toml: "x".into() }).unwrap();
    assert_eq!(hex(&format::to_bytes(&state).unwrap()), GOLDEN_STATE);
    let commands = [
        Command::Report(Report { heard: vec![heard(1, Wish::Draining)], ..Report::default() }),
        Command::Drain { worker: 300, drain: true },
        Command::Forget { worker: 1 },
        Command::Fence { epoch: 1 },
        Command::SetRing { virtual_nodes: 500, seed: 1 },
        Command::SetRules { toml: "x".into() },
    ];
    let written = commands.map(|command| hex(&format::to_bytes(&command).unwrap()));
    assert_eq!(written, GOLDEN_COMMANDS);
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

const GOLDEN_STATE: &str = "010201f403000101640001010d31302e302e302e313a373430310d31302e302e30\
    2e313a393530300161808080808020010000640101017880808080\
    8020";
const GOLDEN_COMMANDS: [&str; 6] = [
    "010001010d31302e302e302e313a373430310d31302e302e302e313a393530300161808080808020020000",
    "0101ac0201",
    "010201",
    "010301",
    "0104f40301",
    "01050178",
];

fn any_wish() -> impl Strategy<Value = Wish> {
    prop_oneof![1 => Just(Wish::Joining), 4 => Just(Wish::Active), 1 => Just(Wish::Draining)]
}

fn any_heard() -> impl Strategy<Value = Heard> {
    (0..8u64, any_wish(), 1..5u64, 0..3u8).prop_map(|(id, wish, size, port)| Heard {
        capacity_bytes: size * CAPACITY / 3,
        data_addr: format!("10.0.0.{id}:{port}"),
        ..heard(id, wish)
    })
}

fn any_command() -> impl Strategy<Value = Command> {
    let ids = || prop::collection::vec(0..8u64, 0..3);
    let report = (prop::collection::vec(any_heard(), 0..4), ids(), ids())
        .prop_map(|(heard, lost, forgotten)| Report { heard, lost, forgotten });
    prop_oneof![
        6 => report.prop_map(Command::Report),
        2 => (0..8u64, any::<bool>())
            .prop_map(|(worker, drain)| Command::Drain { worker, drain }),
        1 => (0..8u64).prop_map(|worker| Command::Forget { worker }),
        2 => (0..40u64).prop_map(|epoch| Command::Fence { epoch }),
        1 => (0..3u32, 0..2u64)
            .prop_map(|(virtual_nodes, seed)| Command::SetRing { virtual_nodes, seed }),
        1 => "[a-b]".prop_map(|toml| Command::SetRules { toml }),
    ]
}

fn placement(ring: &forebay_types::RingSpec) -> (u32, u64, Vec<(u64, u32)>) {
    let members = ring.members.iter().map(|member| (member.id.0, member.weight)).collect();
    (ring.config.virtual_nodes, ring.config.seed, members)
}

fn check_step(before: &View, after: &View, outcome: &Outcome) {
    let changed = outcome.as_ref().is_ok_and(|applied| applied.changed);
    if changed {
        assert_eq!(after.revision, before.revision + 1);
    } else {
        assert_eq!(after, before, "a command that changes nothing changes nothing");
    }
    let is_same_ring = placement(&after.ring) == placement(&before.ring);
    assert!(after.ring.epoch >= before.ring.epoch);
    assert!(is_same_ring || after.ring.epoch > before.ring.epoch);
    if is_same_ring {
        assert_eq!(after.previous, before.previous);
    }
}

fn check_view(view: &View) {
    let in_ring: Vec<_> = view.ring.members.iter().map(|member| member.id).collect();
    let active: Vec<_> = (view.workers.iter())
        .filter(|worker| worker.state == WorkerState::Active)
        .map(|worker| worker.id)
        .collect();
    assert_eq!(in_ring, active, "the ring is exactly the active workers, by id");
    assert!(view.ring.members.iter().all(|member| member.weight >= 5 && member.weight % 5 == 0));
    assert!(view.previous.len() <= PREVIOUS_RINGS);
    assert!(view.previous.is_sorted_by(|newer, older| newer.epoch > older.epoch));
    let mut rings: Vec<_> = view.previous.iter().map(placement).collect();
    rings.push(placement(&view.ring));
    assert!(rings.iter().all(|ring| rings.iter().filter(|other| *other == ring).count() == 1));
}

proptest! {
    #[test]
    fn views_are_ordered_and_rings_are_the_active_workers(
        commands in prop::collection::vec(any_command(), 1..60),
    ) {
        let mut state = State::default();
        for command in commands.clone() {
            let before = state.view();
            let outcome = state.apply(command);
            check_step(&before, &state.view(), &outcome);
            check_view(&state.view());
        }
        let mut replayed = State::default();
        for command in commands {
            let command = format::from_bytes(&format::to_bytes(&command).unwrap()).unwrap();
            let _ = replayed.apply(command);
        }
        prop_assert_eq!(&replayed, &state);
    }

    #[test]
    fn a_state_goes_on_the_same_from_its_snapshot(
        commands in prop::collection::vec(any_command(), 0..30),
        more in prop::collection::vec(any_command(), 0..30),
    ) {
        let mut state = State::default();
        for command in commands {
            let _ = state.apply(command);
        }
        let mut copy: State = format::from_bytes(&format::to_bytes(&state).unwrap()).unwrap();
        prop_assert_eq!(&copy, &state);
        for command in more {
            prop_assert_eq!(copy.apply(command.clone()), state.apply(command));
        }
        prop_assert_eq!(copy, state);
    }
}
