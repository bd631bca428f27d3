//! What the core promises about reads, against an origin and a store that do as they are told.

#![allow(unreachable_pub, reason = "a test target has no outside")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod fakes;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fakes::{Fault, World, ask, ctx};
use forebay_cache::{Answer, CacheConfig, Conditions, OpenAsk, ReadError, Source, TagList};
use forebay_types::{BLOCK_BYTES, ErrorCode, Freshness, RangeAsk};
use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::sync::Semaphore;

const BOUND: Freshness = Freshness::Bounded(Duration::from_secs(60));
const MIB: u64 = 1 << 20;

fn part(first: u64, last: u64) -> RangeAsk {
    RangeAsk::FromTo { first, last }
}

#[tokio::test]
async fn a_small_object_costs_one_origin_request_and_then_none() {
    let world = World::new();
    world.origin.write("k", 1, 100_000);
    for _ in 0..3 {
        world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    }
    assert_eq!(world.origin.gets.lock().len(), 1);
    assert_eq!(world.origin.heads.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_cold_range_fetches_its_own_pages_once_and_keeps_them() {
    let world = World::new();
    world.origin.write("k", 1, 1 << 30);
    for first in [512 * MIB + 77, 512 * MIB + 78] {
        let wanted = ask("k", Freshness::Immutable, part(first, first + (100 << 10) - 1));
        world.read(wanted).await.unwrap();
    }
    assert!(world.origin.bytes_asked() <= 192 << 10, "{}", world.origin.bytes_asked());
    assert_eq!(world.origin.heads.load(Ordering::Relaxed), 1, "from the middle: a HEAD first");
}

#[tokio::test]
async fn many_cold_readers_ask_for_each_page_once() {
    let world = World::new();
    world.origin.write("k", 1, 40 * MIB + 5);
    let read = || world.read(ask("k", BOUND, RangeAsk::Whole));
    for result in join_all((0..16).map(|_| read())).await {
        result.unwrap();
    }
    assert_eq!(world.origin.bytes_asked(), 40 * MIB + 5);
}

#[tokio::test]
async fn a_fill_goes_on_when_the_reader_that_began_it_goes_away() {
    let world = World::new();
    world.origin.write("k", 1, 3 * MIB);
    let gate = Arc::new(Semaphore::new(0));
    *world.origin.gate.lock() = Some(gate.clone());
    let wanted = ask("k", Freshness::Immutable, RangeAsk::Whole);
    let (cache, starter) = (world.cache.clone(), wanted.clone());
    let first = tokio::task::JoinSet::from_iter([async move { cache.open(&ctx(), starter).await }]);
    tokio::task::yield_now().await;
    let second = world.read(wanted);
    drop(first);
    gate.add_permits(10);
    second.await.unwrap();
    assert_eq!(world.origin.bytes_asked(), 3 * MIB);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_carried_on_where_it_broke() {
    let world = World::new();
    world.origin.write("k", 1, 5 * MIB);
    world.origin.faults.lock().extend([Fault::CutAfter(3_000_000), Fault::Unavailable]);
    let read = world.read(ask("k", BOUND, RangeAsk::Whole));
    world.in_time(read).await.unwrap();
    let gets = world.origin.gets.lock().clone();
    assert_eq!(gets.len(), 2, "{gets:?}");
    assert_eq!(gets[1].start(), 3_000_000);
}

#[tokio::test]
async fn an_object_that_moves_before_its_first_byte_is_read_in_its_new_version() {
    let world = World::new();
    world.origin.write("k", 1, MIB);
    world.read(ask("k", BOUND, part(0, 10))).await.unwrap();
    world.origin.faults.lock().push_back(Fault::MoveFirst);
    let wanted = ask("k", BOUND, part(500_000, 600_000));
    assert_eq!(world.read(wanted).await.unwrap(), 2);
}

#[tokio::test]
async fn an_object_that_moves_in_mid_body_cuts_the_body_and_is_never_mixed() {
    let world = World::with(CacheConfig { read_ahead_blocks: 0, ..CacheConfig::default() });
    world.origin.write("k", 1, 2 * BLOCK_BYTES);
    world.read(ask("k", Freshness::Immutable, part(0, 10))).await.unwrap();
    world.origin.write("k", 2, 2 * BLOCK_BYTES);
    let error = world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap_err();
    assert!(matches!(error, ReadError::Failed { code: ErrorCode::VersionMoved, .. }), "{error}");
    let again = ask("k", BOUND, RangeAsk::Whole);
    assert_eq!(world.read(again).await.unwrap(), 2, "the old version is no longer believed");
}

#[tokio::test]
async fn an_origin_that_sends_another_version_than_was_asked_for_is_not_believed() {
    let world = World::new();
    world.origin.write("k", 1, 2 * BLOCK_BYTES);
    world.read(ask("k", BOUND, part(0, 10))).await.unwrap();
    world.origin.write("k", 2, 2 * BLOCK_BYTES);
    world.origin.faults.lock().push_back(Fault::IgnorePin);
    assert_eq!(world.read(ask("k", BOUND, part(500_000, 600_000))).await.unwrap(), 2);
}

#[tokio::test]
async fn bounded_asks_again_after_its_bound_without_a_body() {
    let world = World::new();
    world.origin.write("k", 1, MIB);
    world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap();
    world.origin.write("k", 2, MIB);
    assert_eq!(world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap(), 1);
    world.clock.advance(Duration::from_secs(61));
    assert_eq!(world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap(), 2);
    assert_eq!(world.origin.heads.load(Ordering::Relaxed), 1);
    assert_eq!(world.origin.bytes_asked(), 2 * MIB);
}

#[tokio::test]
async fn strict_asks_on_every_request_and_still_fetches_bytes_once() {
    let world = World::new();
    world.origin.write("k", 1, MIB);
    for _ in 0..4 {
        world.read(ask("k", Freshness::Strict, RangeAsk::Whole)).await.unwrap();
    }
    assert_eq!(world.origin.heads.load(Ordering::Relaxed), 3);
    assert_eq!(world.origin.bytes_asked(), MIB);
}

#[tokio::test]
async fn a_strict_read_never_joins_a_question_that_began_before_it() {
    let world = World::new();
    world.origin.write("k", 1, 10);
    world.read(ask("k", Freshness::Strict, RangeAsk::Whole)).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    *world.origin.gate.lock() = Some(gate.clone());
    let early = world.read(ask("k", Freshness::Strict, RangeAsk::Whole));
    let late = async {
        tokio::task::yield_now().await;
        // The early question has been looked up at the origin by now, and waits at the gate.
        world.origin.write("k", 2, 10);
        let late = world.read(ask("k", Freshness::Strict, RangeAsk::Whole));
        gate.add_permits(10);
        late.await
    };
    let (early, late) = tokio::join!(early, late);
    assert_eq!(late.unwrap(), 2);
    assert!(early.unwrap() <= 2);
}

#[tokio::test]
async fn after_a_write_through_the_cache_no_read_gets_the_older_version() {
    let world = World::new();
    world.origin.write("k", 1, MIB);
    world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap();
    world.put("k").await;
    assert_eq!(world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap(), 2);
}

#[tokio::test]
async fn an_open_begun_before_a_write_is_not_remembered_after_it() {
    let world = World::new();
    world.origin.write("k", 1, 1000);
    let gate = Arc::new(Semaphore::new(0));
    *world.origin.gate.lock() = Some(gate.clone());
    let before = world.read(ask("k", BOUND, RangeAsk::Whole));
    let write = async {
        tokio::task::yield_now().await;
        world.put("k").await;
        gate.add_permits(100);
    };
    let (before, ()) = tokio::join!(before, write);
    assert!(before.unwrap() <= 2, "begun before the write: either version");
    assert_eq!(world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap(), 2);
}

#[tokio::test]
async fn a_missing_key_is_remembered_briefly_and_found_after_a_write() {
    let world = World::new();
    for _ in 0..5 {
        let error = world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap_err();
        assert!(matches!(error, ReadError::Refused(reply) if reply.code == "NoSuchKey"));
    }
    assert_eq!(world.origin.gets.lock().len() + world.origin.heads.load(Ordering::Relaxed), 0);
    world.put("k").await;
    assert_eq!(world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap(), 1);
}

#[tokio::test]
async fn a_restart_is_warm_under_immutable_and_asks_once_under_bounded() {
    let world = World::new();
    world.origin.write("k", 1, MIB);
    world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    let again = world.restarted();
    let recalled = ask("k", Freshness::Immutable, RangeAsk::Whole);
    assert_eq!(again.cache.open(&ctx(), recalled).await.unwrap().source, Source::Hit);
    again.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    assert_eq!(
        (again.origin.gets.lock().len(), again.origin.heads.load(Ordering::Relaxed)),
        (1, 0)
    );
    let bounded = world.restarted();
    bounded.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap();
    assert_eq!(bounded.origin.heads.load(Ordering::Relaxed), 1);
    assert_eq!(bounded.origin.bytes_asked(), MIB);
}

#[tokio::test]
async fn a_store_that_takes_nothing_fails_no_read() {
    let world = World::new();
    world.origin.write("k", 1, 40 * MIB);
    world.store.refuses.store(true, Ordering::Relaxed);
    world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap();
    assert_eq!(world.origin.bytes_asked(), 40 * MIB, "read ahead, and not twice");
}

#[tokio::test]
async fn a_store_that_loses_what_it_has_fails_no_read() {
    let world = World::new();
    world.origin.write("k", 1, 20 * MIB);
    world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    world.store.clear();
    world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    world.store.lies.store(true, Ordering::Relaxed);
    world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
}

#[tokio::test]
async fn fills_without_memory_leave_their_readers_to_the_origin() {
    let world = World::with(CacheConfig { fill_budget_bytes: MIB, ..CacheConfig::default() });
    world.origin.write("k", 1, 4 * MIB);
    let cache = world.cache.clone();
    let held = cache.open(&ctx(), ask("k", BOUND, RangeAsk::Whole)).await.unwrap();
    world.store.refuses.store(true, Ordering::Relaxed);
    let read = world.read(ask("k", BOUND, RangeAsk::Whole));
    world.in_time(read).await.unwrap();
    drop(held);
}

#[tokio::test]
async fn if_match_is_never_failed_from_the_cache_alone() {
    let world = World::new();
    world.origin.write("k", 1, 10);
    world.read(ask("k", BOUND, RangeAsk::Whole)).await.unwrap();
    world.origin.write("k", 2, 10);
    let if_match = |tag: &str| Conditions {
        if_match: Some(TagList::Tags(vec![tag.into()])),
        ..Default::default()
    };
    let newer = OpenAsk { conditions: if_match("\"v2\""), ..ask("k", BOUND, RangeAsk::Whole) };
    assert_eq!(world.read(newer).await.unwrap(), 2);
    let older = OpenAsk { conditions: if_match("\"v1\""), ..ask("k", BOUND, RangeAsk::Whole) };
    let opened = world.cache.open(&ctx(), older).await.unwrap();
    assert!(matches!(opened.answer, Answer::PreconditionFailed));
}

#[tokio::test]
async fn empty_objects_and_ranges_past_the_end_are_answered() {
    let world = World::new();
    world.origin.write("empty", 1, 0);
    world.origin.write("k", 1, 10);
    let empty = ask("empty", BOUND, RangeAsk::Whole);
    let opened = world.cache.open(&ctx(), empty).await.unwrap();
    assert!(matches!(opened.answer, Answer::Whole(None)));
    let past = ask("k", BOUND, RangeAsk::From { first: 10 });
    let opened = world.cache.open(&ctx(), past).await.unwrap();
    assert!(matches!(opened.answer, Answer::Unsatisfiable));
    let crt = ask("k", BOUND, part(0, 8 * MIB - 1));
    world.read(crt).await.unwrap();
}

#[tokio::test]
async fn hits_say_hit_and_everything_else_says_miss() {
    let world = World::new();
    world.origin.write("k", 1, 10 * MIB);
    let open = |range| {
        let wanted = ask("k", BOUND, range);
        async { world.cache.open(&ctx(), wanted).await.unwrap() }
    };
    assert_eq!(open(part(0, 9)).await.source, Source::Miss);
    world.read(ask("k", BOUND, part(0, 9))).await.unwrap();
    assert_eq!(open(part(0, 9)).await.source, Source::Hit);
    assert_eq!(open(RangeAsk::Whole).await.source, Source::Miss);
}

#[tokio::test]
async fn a_sequential_reader_finds_the_next_bytes_already_there() {
    let world = World::new();
    world.origin.write("k", 1, 64 * MIB);
    for step in 0..4 {
        let range = part(step * 4 * MIB, (step + 1) * 4 * MIB - 1);
        world.read(ask("k", Freshness::Immutable, range)).await.unwrap();
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let asked = world.origin.bytes_asked();
    assert!(asked >= 20 * MIB, "{asked}");
    let next = ask("k", Freshness::Immutable, part(16 * MIB, 20 * MIB - 1));
    assert_eq!(world.cache.open(&ctx(), next).await.unwrap().source, Source::Hit);
}

#[tokio::test]
async fn a_reader_that_stops_reading_holds_no_fill_once_it_is_stored() {
    let world = World::new();
    world.origin.write("k", 1, 64 * MIB);
    let wanted = ask("k", Freshness::Immutable, RangeAsk::Whole);
    let opened = world.cache.open(&ctx(), wanted).await.unwrap();
    let Answer::Whole(Some(mut reader)) = opened.answer else { panic!("a body") };
    reader.next().await.unwrap().unwrap();
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.cache.fills_in_flight(), 0);
    let asked = world.origin.bytes_asked();
    assert!(asked <= 9 * BLOCK_BYTES, "{asked}: no further ahead than the window");
}

#[tokio::test]
async fn an_object_replaced_behind_immutable_is_read_anew_after_one_cut_also_after_a_restart() {
    let world = World::with(CacheConfig { read_ahead_blocks: 0, ..CacheConfig::default() });
    world.origin.write("k", 1, 2 * BLOCK_BYTES);
    world.read(ask("k", Freshness::Immutable, part(0, 10))).await.unwrap();
    world.origin.write("k", 2, 2 * BLOCK_BYTES);
    world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap_err();
    let again = world.restarted();
    assert_eq!(again.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap(), 2);
}

#[tokio::test]
async fn strict_readers_of_a_cold_object_fetch_its_bytes_once() {
    let world = World::new();
    world.origin.write("k", 1, MIB);
    let read = || world.read(ask("k", Freshness::Strict, RangeAsk::Whole));
    for result in join_all((0..8).map(|_| read())).await {
        result.unwrap();
    }
    assert_eq!(world.origin.bytes_asked(), MIB);
}

#[tokio::test]
async fn a_version_discovered_over_bytes_that_are_stored_already_survives_a_restart() {
    let world = World::new();
    world.origin.write("k", 1, MIB);
    world.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    // Killed after the bytes were stored and before the version was remembered.
    forebay_cache::Versions::forget(&*world.versions, &fakes::name("k")).await;
    let killed = world.restarted();
    killed.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let asked = world.origin.gets.lock().len();
    let again = killed.restarted();
    again.read(ask("k", Freshness::Immutable, RangeAsk::Whole)).await.unwrap();
    assert_eq!(world.origin.gets.lock().len(), asked, "remembered");
}
