//! What is stored is read back, whichever way and from whichever tier.
#![allow(clippy::unwrap_used, reason = "what tests are made of")]

mod support;

use std::collections::BTreeSet;
use std::path::Path;

use forebay_store::{Found, Store};
use forebay_telemetry::Tier;
use forebay_types::{BLOCK_BYTES, BlockIndex, ByteRange, ObjectId, PAGE_BYTES};
use proptest::prelude::*;
use support::*;

#[derive(Debug, Clone)]
enum Step {
    Put { object: usize, start: u64, pages: u64 },
    Read { object: usize, start: u64, len: u64 },
    Gap { object: usize, start: u64, len: u64 },
    Cold,
    Reopen,
}

const SIZES: [u64; 4] = [1, 70_001, BLOCK_BYTES, 2 * BLOCK_BYTES + 100_001];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let object = 0..SIZES.len();
    let start = any::<u64>();
    let step = prop_oneof![
        6 => (object.clone(), start, 1..200u64)
            .prop_map(|(object, start, pages)| Step::Put { object, start, pages }),
        6 => (object.clone(), start, 1..2 * BLOCK_BYTES)
            .prop_map(|(object, start, len)| Step::Read { object, start, len }),
        3 => (object.clone(), start, 1..5000u64)
            .prop_map(|(object, start, len)| Step::Read { object, start, len }),
        3 => (object, start, 1..2 * BLOCK_BYTES)
            .prop_map(|(object, start, len)| Step::Gap { object, start, len }),
        1 => Just(Step::Cold),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

/// A part of one block of an object.
fn part(id: &ObjectId, start: u64, len: u64) -> ByteRange {
    let start = start % id.size();
    let end = start.saturating_add(len).min(id.size()).min(BlockIndex::of(start).end());
    range(start, end)
}

fn pages(range: ByteRange) -> impl Iterator<Item = u64> {
    range.start() / PAGE_BYTES..range.end().div_ceil(PAGE_BYTES)
}

/// Which pages of which object are stored.
type Model = BTreeSet<(usize, u64)>;

async fn run(dir: &Path, steps: Vec<Step>) {
    let objects: Vec<_> =
        SIZES.iter().enumerate().map(|(i, size)| object(&format!("o{i}"), *size)).collect();
    let mut model = Model::new();
    let mut store = open(config(&[dir], 256 * MIB)).await;
    for step in steps {
        match step {
            Step::Put { object, start, pages: count } => {
                let id = &objects[object];
                let start = start % id.size() / PAGE_BYTES * PAGE_BYTES;
                let range = part(id, start, count * PAGE_BYTES);
                put(&store, id, range).await.unwrap();
                model.extend(pages(range).map(|page| (object, page)));
            }
            Step::Read { object, start, len } => {
                let range = part(&objects[object], start, len);
                let stored = model.contains(&(object, range.start() / PAGE_BYTES));
                let got = read(&store, &objects[object], range).await;
                assert_eq!(got.is_some(), stored, "o{object} {range}");
            }
            Step::Gap { object, start, len } => {
                let range = part(&objects[object], start, len);
                let gap = store.gap(&objects[object], range);
                assert_eq!(gap, expected_gap(&model, object, range), "o{object} {range}");
            }
            Step::Cold => make_cold(dir),
            Step::Reopen => {
                store.close().await;
                store = open(config(&[dir], 256 * MIB)).await;
            }
        }
    }
}

fn expected_gap(model: &Model, object: usize, range: ByteRange) -> Option<ByteRange> {
    let missing = |page: &u64| !model.contains(&(object, *page));
    let first = pages(range).find(missing)?;
    let end = pages(range).skip_while(|page| *page < first).take_while(missing).last()? + 1;
    ByteRange::new(first * PAGE_BYTES, end * PAGE_BYTES)?.intersect(range)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_holds_exactly_what_was_put(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(run(dir.path(), steps));
    }
}

async fn tier_of(store: &Store, id: &ObjectId, range: ByteRange) -> Option<Tier> {
    read(store, id, range).await.map(|(_, tier)| tier)
}

#[tokio::test]
async fn cold_bytes_come_off_the_disk_once_and_then_from_memory() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    let id = object("a", 3 * MIB);
    put(&store, &id, whole(&id)).await.unwrap();
    assert_eq!(tier_of(&store, &id, whole(&id)).await, Some(Tier::Ram));
    make_cold(dir.path());
    let small = range(MIB + 5, MIB + 6000);
    assert!(matches!(store.read_now(&id, whole(&id)), Found::Cold));
    assert!(matches!(store.read_now(&id, small), Found::Cold));
    assert_eq!(tier_of(&store, &id, small).await, Some(Tier::Nvme));
    assert_eq!(tier_of(&store, &id, small).await, Some(Tier::Ram));
    assert!(matches!(store.read_now(&id, whole(&id)), Found::Cold), "only what was read is in");
    assert_eq!(tier_of(&store, &id, whole(&id)).await, Some(Tier::Nvme));
    assert_eq!(tier_of(&store, &id, whole(&id)).await, Some(Tier::Ram));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_of_a_cold_block_all_get_its_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    let id = object("a", 8 * MIB);
    put(&store, &id, whole(&id)).await.unwrap();
    for _ in 0..3 {
        make_cold(dir.path());
        let readers = (0..64u64).map(|i| {
            let (store, id) = (std::sync::Arc::clone(&store), id.clone());
            let rest = range(i * 100_000, id.size());
            forebay_rt::spawn(async move { reads_whole(&store, &id, rest).await })
        });
        for reader in readers.collect::<Vec<_>>() {
            assert!(reader.await.unwrap());
        }
    }
}

#[tokio::test]
async fn what_is_not_whole_pages_or_not_the_right_length_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    let id = object("a", 9 * MIB + 5);
    for bad in [range(1, PAGE_BYTES), range(0, 100), range(8 * MIB - PAGE_BYTES, 8 * MIB + 1)] {
        assert!(put(&store, &id, bad).await.is_err(), "{bad}");
    }
    let short = vec![bytes::Bytes::from_static(b"short")];
    assert!(store.put(&id, range(0, PAGE_BYTES), short).await.is_err());
    assert_eq!(store.gap(&id, whole(&id)), Some(whole(&id)).map(|_| range(0, 8 * MIB)));
    assert!(put(&store, &id, range(9 * MIB, id.size())).await.is_ok());
}

#[tokio::test]
async fn versions_of_a_key_never_answer_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(config(&[dir.path()], 64 * MIB)).await;
    let old = name("a").at(stamp("\"old\"", MIB));
    let new = name("a").at(stamp("\"new\"", MIB));
    put(&store, &old, whole(&old)).await.unwrap();
    assert!(read(&store, &new, whole(&new)).await.is_none());
    put(&store, &new, whole(&new)).await.unwrap();
    assert!(reads_whole(&store, &new, whole(&new)).await);
    assert!(reads_whole(&store, &old, whole(&old)).await);
}

#[tokio::test]
async fn a_disk_in_memory_works_like_any_other() {
    let shm = Path::new("/dev/shm");
    if !shm.is_dir() {
        return;
    }
    let dir = tempfile::tempdir_in(shm).unwrap();
    let store = open(config(&[dir.path()], 32 * MIB)).await;
    for i in 0..6 {
        let id = object(&format!("o{i}"), 2 * MIB + i);
        put(&store, &id, whole(&id)).await.unwrap();
        assert_eq!(tier_of(&store, &id, whole(&id)).await, Some(Tier::Ram));
        assert_eq!(tier_of(&store, &id, range(5, 50)).await, Some(Tier::Ram));
    }
}
