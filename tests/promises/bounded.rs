//! What many clients at once may cost.

use forebay_testkit::reader::Answer;
use forebay_testkit::{PatternSet, Reader};
use forebay_tests::{BUCKET, Setup, World, read};

const MIB: u64 = 1 << 20;
const STALLED: usize = 1000;
/// Goal of `docs/SEMANTICS.md` for a thousand readers that stopped reading.
const ANONYMOUS_MAX: u64 = 250 * MIB;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_readers_that_stopped_reading_cost_little_and_stop_nobody() {
    let set = PatternSet::new(BUCKET, "k-", 4, 64 * MIB);
    let other = PatternSet::new(BUCKET, "o-", 50, 100_000);
    let world = World::start(Setup::default(), &[&set, &other]).await.unwrap();
    // Half of them stop while the objects are still on their way, half find them stored.
    let mut stalled = stall(&world, &set, STALLED / 2).await;
    for index in 0..set.count {
        read(&world.reader().unwrap(), &set.key(index), None).await.unwrap();
    }
    stalled.extend(stall(&world, &set, STALLED / 2).await);
    for _ in 0..2 {
        for index in 0..other.count {
            read(&world.reader().unwrap(), &other.key(index), None).await.unwrap();
        }
    }
    let anonymous = world.worker.process.usage().unwrap().anonymous_bytes;
    eprintln!("{STALLED} stalled readers: {} MiB of anonymous memory", anonymous / MIB);
    assert!(anonymous <= ANONYMOUS_MAX, "{anonymous} bytes");
    assert_eq!(stalled.len(), STALLED);
}

/// Readers that take one chunk and then no more.
async fn stall(world: &World, set: &PatternSet, count: usize) -> Vec<(Reader, Answer)> {
    let mut stalled = Vec::new();
    for n in 0..count {
        let reader = world.reader().unwrap();
        let key = set.key(n as u64 % set.count);
        let mut answer = reader.get(BUCKET, &key, None).await.unwrap();
        answer.chunk().await.unwrap().expect("a first chunk");
        stalled.push((reader, answer));
    }
    stalled
}
