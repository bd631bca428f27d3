//! A body is a byte range of exactly one version, or the connection is cut.

use std::sync::Arc;
use std::time::Duration;

use forebay_testkit::{Fault, FaultRule, Op, PatternSet};
use forebay_tests::{BUCKET, Setup, World, damage, is_long, read};
use forebay_types::ByteRange;

const MIB: u64 = 1 << 20;
/// Long enough for a fill to break in the middle, short enough to be read a hundred times.
const SIZE: u64 = 3 * MIB + 17;

/// What an origin can do to a body, and at which of an object's requests.
fn broken_bodies() -> Vec<(&'static str, Fault, u64)> {
    vec![
        ("cut short", Fault::Truncate { after_bytes: 1_000_000 }, 1),
        ("cut before its first byte", Fault::Truncate { after_bytes: 0 }, 1),
        ("reset", Fault::Reset { after_bytes: 1_500_000 }, 1),
        ("reset before the head", Fault::ResetBeforeHead, 1),
        ("too long", Fault::ExtraBytes { bytes: 5 }, 1),
        ("declared longer", Fault::WrongContentLength { delta: 1 }, 1),
        ("declared shorter", Fault::WrongContentLength { delta: -1 }, 1),
        ("200 instead of 206", Fault::WholeInsteadOfRange, 2),
        ("another range", Fault::WrongContentRange { shift_bytes: 4096 }, 2),
        ("another ETag", Fault::WrongEtag, 2),
        ("no ETag", Fault::MissingEtag, 2),
        ("a weak ETag", Fault::WeakEtag, 2),
        ("moved on", Fault::Overwrite, 2),
        ("a server error", Fault::Status { status: 500, code: "InternalError".into() }, 1),
        ("slow down", Fault::Status { status: 503, code: "SlowDown".into() }, 1),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_origin_body_is_never_served_wrong_and_never_cached() {
    let faults = broken_bodies();
    let sets: Vec<_> =
        (0..faults.len()).map(|n| PatternSet::new(BUCKET, &format!("f{n}-"), 4, SIZE)).collect();
    let setup = Setup { freshness: "bounded", ..Setup::default() };
    let world = World::start(setup, &sets.iter().collect::<Vec<_>>()).await.unwrap();
    let (mut reads, mut failed) = (0, 0);
    for ((name, fault, nth), set) in faults.into_iter().zip(&sets) {
        let rule = FaultRule::new(name, fault).prefix(&set.prefix).every(nth).times(3);
        assert!(world.origin.fault(rule));
        for index in 0..set.count {
            for range in [ByteRange::new(0, 100_000), ByteRange::new(2 * MIB, SIZE), None] {
                let got = read(&world.reader().unwrap(), &set.key(index), range).await;
                reads += 1;
                match got {
                    Ok(_) => {}
                    Err(error) if error.is_wrong() => panic!("{name}: {error}"),
                    Err(_) => failed += 1,
                }
            }
        }
        assert!(world.origin.fired(name) > 0, "{name} never fired");
    }
    world.origin.clear_faults();
    world.origin.log().reset();
    for set in &sets {
        for index in 0..set.count {
            read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
        }
    }
    eprintln!("15 kinds of broken bodies: {reads} reads, {failed} cut or refused, 0 wrong");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_moves_between_any_two_fills_is_never_mixed() {
    let size = 40 * MIB;
    let set = PatternSet::new(BUCKET, "m-", 5, size);
    let setup = Setup { freshness: "bounded", read_ahead_blocks: 0, ..Setup::default() };
    let world = World::start(setup, &[&set]).await.unwrap();
    let mut cut = 0;
    for index in 0..set.count {
        let key = set.key(index);
        let rule = FaultRule::new(&key, Fault::Overwrite).prefix(&key).nth(index + 1);
        assert!(world.origin.fault(rule));
        match read(&world.reader().unwrap(), &key, None).await {
            Ok(_) => {}
            Err(error) if error.is_wrong() => panic!("{error}"),
            Err(_) => cut += 1,
        }
        assert_eq!(world.origin.fired(&key), 1);
        let now = read(&world.reader().unwrap(), &key, None).await.unwrap();
        assert_eq!(now.version, 2, "the version that was cut off is not believed any more");
    }
    assert!(cut >= 3, "moves in mid-body were met: {cut}");
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_on_disk_is_found_refilled_and_never_served() {
    let (objects, pieces) = if is_long() { (1024, 10_000) } else { (512, 10_000) };
    let small = PatternSet::new(BUCKET, "d/", objects, 300_000);
    let large = PatternSet::new(BUCKET, "D/", 8, 32 * MIB);
    let sets = [small, large];
    let mut world = World::start(Setup::default(), &sets.each_ref()).await.unwrap();
    read_all(&world, &sets).await;
    world.worker.stop().await.unwrap();
    let changed = damage(&world.cache_dir(), pieces).unwrap();
    assert!(changed >= pieces * 9 / 10, "{changed} pieces changed");
    world.restart().await.unwrap();
    world.origin.log().reset();
    read_all(&world, &sets).await;
    let found = world.worker.metric("forebay_checksum_failures_total").await.unwrap();
    let refilled = world.origin.log().counts().bytes_sent;
    assert!(found > 0.0 && refilled > 0, "{found} found, {refilled} bytes refilled");
    world.origin.log().reset();
    read_all(&world, &sets).await;
    assert_eq!(world.origin.log().counts().requests, 0, "what was damaged has been refilled");
    eprintln!(
        "{changed} damaged pieces of 4 KiB: {found} extents found bad, {refilled} bytes refilled, \
         0 wrong bytes served"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_evicted_under_a_slow_reader_gives_it_the_right_bytes() {
    let slow = PatternSet::new(BUCKET, "slow-", 1, 48 * MIB);
    let flood = PatternSet::new(BUCKET, "flood-", 40, 16 * MIB);
    let setup = Setup { capacity: "256MiB", ..Setup::default() };
    let world = Arc::new(World::start(setup, &[&slow, &flood]).await.unwrap());
    read(&world.reader().unwrap(), &slow.key(0), None).await.unwrap();
    let pattern = forebay_testkit::Pattern::new(BUCKET, &slow.key(0), 1);
    let mut answer = world.reader().unwrap().get(BUCKET, &slow.key(0), None).await.unwrap();
    let first = answer.chunk().await.unwrap().expect("a first chunk");
    pattern.verify(0, &first).unwrap();
    let mut at = first.len() as u64;
    for index in 0..flood.count {
        read(&world.reader().unwrap(), &flood.key(index), None).await.unwrap();
        if let Some(bytes) = answer.chunk().await.unwrap() {
            pattern.verify(at, &bytes).unwrap();
            at += bytes.len() as u64;
        }
    }
    assert!(world.worker.metric("forebay_evicted_bytes_total").await.unwrap() > 0.0);
    while let Some(bytes) = answer.chunk().await.unwrap() {
        pattern.verify(at, &bytes).unwrap();
        at += bytes.len() as u64;
    }
    assert_eq!(at, 48 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_without_a_strong_etag_is_passed_through_and_not_cached() {
    let set = PatternSet::new(BUCKET, "weak-", 1, 100_000);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    let ops = [Op::GetObject, Op::HeadObject];
    assert!(world.origin.fault(FaultRule::new("weak", Fault::WeakEtag).on(&ops)));
    let pattern = forebay_testkit::Pattern::new(BUCKET, &set.key(0), 1);
    for _ in 0..2 {
        world.origin.log().reset();
        let answer = world.reader().unwrap().get(BUCKET, &set.key(0), None).await.unwrap();
        let body = answer.success().await.unwrap();
        pattern.verify(0, &body).unwrap();
        assert_eq!(body.len(), 100_000);
        assert!(world.origin.log().requests(Op::GetObject) >= 1, "not cached");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_stops_in_mid_body_is_carried_on_elsewhere() {
    let set = PatternSet::new(BUCKET, "hang-", 1, SIZE);
    let world = World::start(Setup::default(), &[&set]).await.unwrap();
    assert!(world.origin.fault(FaultRule::new("hang", Fault::Hang { after_bytes: 70_000 }).nth(1)));
    let (reader, key) = (world.reader().unwrap(), set.key(0));
    let reading = read(&reader, &key, None);
    let got = tokio::time::timeout(Duration::from_secs(60), reading).await.expect("no hang");
    got.unwrap();
    assert_eq!(world.origin.fired("hang"), 1);
}

async fn read_all(world: &World, sets: &[PatternSet]) {
    let reader = world.reader().unwrap();
    let mut reading = tokio::task::JoinSet::new();
    for set in sets {
        for index in 0..set.count {
            let (reader, key) = (reader.clone(), set.key(index));
            reading.spawn(async move { read(&reader, &key, None).await });
            if reading.len() >= 16 {
                reading.join_next().await.expect("a read").unwrap().unwrap();
            }
        }
    }
    while let Some(result) = reading.join_next().await {
        result.unwrap().unwrap();
    }
}
