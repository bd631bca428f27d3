//! No byte to a caller that the rules refuse, none kept from a caller that they let in: every
//! kind of caller, bucket, prefix and operation, on hits and misses, through every worker.

mod case;
mod policy;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forebay_testkit::reader::{Answer, ReadError};
use forebay_testkit::{AccessKey, Op as OriginOp, PatternSet, Reader};
use forebay_tests::{CLIENT, ClusterSetup, ClusterWorld, forebay_binary};
use tokio::task::JoinSet;

use self::case::{
    ABSENT, BUCKET_OPS, Caller, Case, OBJECT_OPS, Op, PREFIX_OPS, SIZE_BYTES, Seen, Verdict,
};
use self::policy::{ANONYMOUS, KEYS, Key, Statement, rules};

/// Buckets under each kind of freshness, and one that does not exist.
const RULES: [(&str, &str); 3] =
    [("train", "immutable"), ("eval", "bounded"), ("scratch", "strict")];
const BUCKETS: [&str; 4] = ["train", "eval", "scratch", ABSENT];
/// Of one another's beginning where they can be.
const PREFIXES: [&str; 5] = ["open/", "team", "team/", "team/private/", "secret/"];
const WORKERS: usize = 3;
/// Requests in flight; each has a connection, which the callers share by turns.
const AT_ONCE: usize = 48;

#[tokio::test(flavor = "multi_thread")]
async fn every_caller_gets_what_the_rules_give_it_and_nothing_else() {
    let world = world().await;
    apply_rules(&world, &KEYS, ANONYMOUS, &RULES).await;
    let cases = cases();
    assert!(cases.len() >= 10_000, "{} cases", cases.len());
    warm(&world, &cases).await;
    world.origin.log().reset();

    let seen = ask_all(&world, &cases).await;
    assert_hits_refuse_like_misses(&seen);
    assert_origin_heard_of_nothing_refused(&world, &cases);
    assert_cells_are_as_warm_as_they_say(&world, &cases);
    let allowed = cases.iter().filter(|case| case.verdict() == Verdict::Allowed).count();
    eprintln!("{} combinations, {allowed} of them allowed", cases.len());
    assert!(allowed > cases.len() / 10 && allowed < cases.len() / 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_taken_away_is_gone_for_hits_too_without_a_restart() {
    let world = world().await;
    apply_rules(&world, &KEYS, ANONYMOUS, &RULES).await;
    let [everything, trainer] = [KEYS[0], KEYS[1]];
    let key = "open/00000001";
    for worker in 0..WORKERS {
        for holder in [everything, trainer] {
            let answer = read(&world, worker, holder, key).await;
            assert!(answer.is_ok(), "{} {answer:?}", holder.id);
        }
        assert_eq!(read_unsigned(&world, worker, key).await, Ok(()));
    }
    world.origin.declare(PatternSet::new("attic", "", 1, SIZE_BYTES));
    apply_rules(&world, &[everything], &[], &[RULES[0], ("attic", "immutable")]).await;
    world.origin.log().reset();
    for worker in 0..WORKERS {
        assert!(read(&world, worker, everything, key).await.is_ok());
        let refused = read(&world, worker, trainer, key).await;
        assert_eq!(refused, Err("InvalidAccessKeyId".into()));
        let refused = read_unsigned(&world, worker, key).await;
        assert_eq!(refused, Err("AccessDenied".into()));
    }
    assert_eq!(world.origin.log().counts().requests, 0, "what was cached stays so");
}

async fn world() -> ClusterWorld {
    let sets = RULES.iter().flat_map(|(bucket, _)| {
        PREFIXES.map(|prefix| PatternSet::new(bucket, prefix, 20_000, SIZE_BYTES))
    });
    let sets: Vec<_> = sets.collect();
    let setup = ClusterSetup { workers: WORKERS, ..ClusterSetup::default() };
    ClusterWorld::start(setup, &sets.iter().collect::<Vec<_>>()).await.unwrap()
}

/// Gives the cluster its rules, and waits until each worker goes by them.
async fn apply_rules(
    world: &ClusterWorld,
    keys: &[Key],
    anonymous: &[Statement],
    buckets: &[(&str, &str)],
) {
    let dir = world.cluster.dir();
    let text = rules(keys, anonymous, buckets, &world.origin.endpoint(), dir).unwrap();
    let file = dir.join("rules.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = tokio::process::Command::new(forebay_binary().unwrap());
    command.args(["rules", "apply"]).arg(&file).args(world.cluster.control_args());
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut wanted: Vec<_> = buckets.iter().map(|(name, _)| *name).collect();
    wanted.sort_unstable();
    for worker in &world.cluster.workers {
        let mut known = Vec::new();
        for _ in 0..600 {
            let status = worker.status().await.unwrap();
            let names = status["buckets"].as_array().into_iter().flatten();
            known = names.filter_map(|b| Some(b["name"].as_str()?.to_owned())).collect();
            known.sort_unstable();
            if known == wanted {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(known, wanted, "rules of {}", worker.host.ip);
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for caller in Caller::all() {
        for worker in 0..WORKERS {
            let case = |op, bucket, prefix| Case {
                caller,
                worker,
                op,
                bucket,
                prefix,
                key: String::new(),
                warm: false,
            };
            cases.push(case(Op::ListBuckets, "", ""));
            for bucket in BUCKETS {
                cases.extend(BUCKET_OPS.map(|op| case(op, bucket, "")));
                for prefix in PREFIXES {
                    cases.extend(PREFIX_OPS.map(|op| case(op, bucket, prefix)));
                    for op in OBJECT_OPS {
                        cases.extend(
                            [true, false].map(|w| Case { warm: w, ..case(op, bucket, prefix) }),
                        );
                    }
                }
            }
        }
    }
    // In no order, so that on each connection callers and verdicts take turns.
    let mut order: Vec<_> = (0..cases.len()).collect();
    order.sort_unstable_by_key(|index| (*index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut shuffled: Vec<_> = order.into_iter().map(|index| cases[index].clone()).collect();
    // The first object of each prefix is what copies read.
    for (index, case) in shuffled.iter_mut().enumerate() {
        case.key = PatternSet::new(case.bucket, case.prefix, 0, 0).key(index as u64 + 1);
    }
    shuffled
}

/// Has the objects of warm cases cached, each through the worker that is asked later or another.
async fn warm(world: &ClusterWorld, cases: &[Case]) {
    let readers: Vec<_> = (0..WORKERS).map(|worker| world.reader(worker).unwrap()).collect();
    let of_objects = |case: &&Case| case.warm && case.bucket != ABSENT;
    let objects: Vec<_> = cases.iter().filter(of_objects).cloned().collect();
    each(&objects, move |case| {
        let reader = readers[case.worker].clone();
        async move {
            let answer = reader.get(case.bucket, &case.key, None).await.unwrap();
            answer.success().await.unwrap();
        }
    })
    .await;
}

/// Asks every case and judges every answer.
async fn ask_all(world: &ClusterWorld, cases: &[Case]) -> Vec<(Case, Seen)> {
    let connections: Vec<_> = (0..WORKERS).map(|worker| world.reader(worker).unwrap()).collect();
    let unsigned: Vec<_> =
        world.cluster.workers.iter().map(|w| Reader::new(&w.endpoint()).unwrap()).collect();
    let answers = each(cases, move |case| {
        let signed = |key: AccessKey| connections[case.worker].clone().signed_by(&key);
        let reader = match case.caller {
            Caller::Holder(key) => signed(KEYS[key].access_key()),
            Caller::Anonymous => unsigned[case.worker].clone(),
            Caller::UnknownId => signed(AccessKey::new("NOBODY", CLIENT.1)),
            Caller::WrongSecret => signed(AccessKey::new(KEYS[0].id, "wrong")),
        };
        async move {
            let answer = reader.request(case.ask()).await.map_err(|error| error.to_string());
            let judged = match answer {
                Ok(answer) => case.judge(answer).await,
                Err(error) => Err(error),
            };
            (case, judged)
        }
    })
    .await;
    let mut seen = Vec::new();
    let mut wrong = Vec::new();
    for (case, judged) in answers {
        match judged {
            Ok(answer) => seen.push((case, answer)),
            Err(why) => wrong.push(format!("{case:?}: {why}")),
        }
    }
    assert!(wrong.is_empty(), "{} wrong, such as {:#?}", wrong.len(), &wrong[..wrong.len().min(8)]);
    seen
}

fn assert_hits_refuse_like_misses(seen: &[(Case, Seen)]) {
    let mut shapes: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for (case, answer) in seen {
        if !matches!(case.verdict(), Verdict::Allowed) {
            let of = (case.caller, case.is_head(), answer.status.as_u16());
            shapes.entry(of).or_default().insert(answer.shape());
        }
    }
    for (of, shapes) in shapes {
        assert_eq!(shapes.len(), 1, "refusals of {of:?} differ: {shapes:#?}");
    }
}

/// Nothing that was refused got as far as the origin, and each write that was allowed did once.
fn assert_origin_heard_of_nothing_refused(world: &ClusterWorld, cases: &[Case]) {
    let refused = cases.iter().filter(|case| case.verdict() != Verdict::Allowed);
    let refused: BTreeSet<_> = refused.map(|case| (case.bucket, case.key.as_str())).collect();
    let records = world.origin.log().records();
    let heard = records.iter().find(|r| refused.contains(&(r.bucket.as_str(), r.key.as_str())));
    assert_eq!(heard, None);
    for (op, at_origin) in [
        (Op::Put, OriginOp::PutObject),
        (Op::Delete, OriginOp::DeleteObject),
        (Op::DeleteMany, OriginOp::DeleteObjects),
        (Op::BeginUpload, OriginOp::CreateMultipartUpload),
        (Op::Location, OriginOp::GetBucketLocation),
        (Op::ListBelowV1, OriginOp::ListObjects),
    ] {
        let allowed = cases.iter().filter(|c| c.op == op && c.verdict() == Verdict::Allowed);
        assert_eq!(world.origin.log().requests(at_origin), allowed.count() as u64, "{op:?}");
    }
}

/// A cell that is not what its name says would prove nothing about hits. A busy machine may pass
/// over an owner now and then, and fetch again what it has.
fn assert_cells_are_as_warm_as_they_say(world: &ClusterWorld, cases: &[Case]) {
    let is_read = |case: &&Case| matches!(case.op, Op::Get | Op::GetRange);
    let reads = cases.iter().filter(is_read).filter(|case| case.verdict() == Verdict::Allowed);
    let (as_said, others): (Vec<_>, Vec<_>) = reads.partition(|case| {
        let from_origin = world.origin.log().key(case.bucket, &case.key).bytes_sent;
        (from_origin == 0) == case.warm
    });
    assert!(others.len() * 20 < as_said.len(), "{} are not, such as {:?}", others.len(), others[0]);
}

async fn read(world: &ClusterWorld, worker: usize, key: Key, object: &str) -> Result<(), String> {
    let reader = world.reader(worker).unwrap().signed_by(&key.access_key());
    outcome(reader.get("train", object, None).await.unwrap()).await
}

async fn read_unsigned(world: &ClusterWorld, worker: usize, object: &str) -> Result<(), String> {
    let reader = Reader::new(&world.cluster.workers[worker].endpoint()).unwrap();
    outcome(reader.get("train", object, None).await.unwrap()).await
}

/// The code of an error.
async fn outcome(answer: Answer) -> Result<(), String> {
    match answer.success().await {
        Ok(_) => Ok(()),
        Err(ReadError::Status { code, .. }) => Err(code),
        Err(error) => Err(error.to_string()),
    }
}

/// Does something for each case, several at once.
async fn each<F, W, T>(cases: &[Case], work: F) -> Vec<T>
where
    F: Fn(Case) -> W + Send + Sync + 'static,
    W: Future<Output = T> + Send,
    T: Send + 'static,
{
    let shared: Arc<(Vec<Case>, F)> = Arc::new((cases.to_vec(), work));
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (shared, next) = (shared.clone(), next.clone());
        tasks.spawn(async move {
            let (cases, work) = &*shared;
            let mut done = Vec::new();
            while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push(work(case.clone()).await);
            }
            done
        });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}
