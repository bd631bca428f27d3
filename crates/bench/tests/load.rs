//! A load that meets a lying or failing server says so, and counts what is right.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use forebay_bench::{
    BenchError, Case, Check, NamedEndpoint, Order, Pace, Plan, Read, Row, Target, Workload,
    compare, list, warm,
};
use forebay_testkit::{AccessKey, Fault, FaultOrigin, FaultRule, OriginConfig, PatternSet};

const OBJECTS: u64 = 20;
const OBJECT_BYTES: u64 = 100 << 10;

struct World {
    origin: FaultOrigin,
    target: Target,
}

impl World {
    async fn new() -> Self {
        let origin = FaultOrigin::start(OriginConfig {
            patterns: vec![PatternSet::new("b", "o/", OBJECTS, OBJECT_BYTES)],
            access_keys: vec![AccessKey::new("id", "secret")],
            ..OriginConfig::default()
        });
        let origin = origin.await.unwrap();
        let endpoint: NamedEndpoint = format!("origin={}", origin.endpoint()).parse().unwrap();
        let key = AccessKey::new("id", "secret");
        let target = Target::new(&endpoint, "b").signed_by(key, "us-east-1");
        Self { origin, target }
    }

    /// Each object once over the connections of W3, every byte checked.
    async fn read_once(&self) -> Result<Vec<Row>, BenchError> {
        self.read(Plan::new(list(&self.target, "").await?, Read::Whole, Order::Once), 1).await
    }

    async fn read(&self, plan: Plan, cases: usize) -> Result<Vec<Row>, BenchError> {
        let target = self.target.clone();
        let work = move || {
            let case = |_| Case::new(target.clone(), plan.clone(), Workload::named("w3").unwrap());
            let cases: Vec<_> = (0..cases).map(case).collect();
            let round = Duration::from_secs(60);
            let pace = Pace { rounds: 2, round, threads: 2, check: Check::NamedVersion };
            compare(&cases, pace, &mut |_| Ok(()))
        };
        forebay_rt::spawn_blocking(work).await.unwrap()
    }
}

#[tokio::test]
async fn each_round_reads_every_piece_and_the_others_are_compared_with_the_first() {
    let world = World::new().await;
    let plan = Plan::new(list(&world.target, "o/").await.unwrap(), Read::Range(4096), Order::Once);
    let rows = world.read(plan, 2).await.unwrap();
    assert_eq!(rows.len(), 2);
    for row in &rows {
        assert_eq!((row.requests, row.bytes), (2 * OBJECTS * 25, 2 * OBJECTS * OBJECT_BYTES));
        assert_eq!((row.rounds, row.failed, row.hit_ratio), (2, 0, None));
        assert!(row.x_speed.unwrap().min > 0.0);
    }
    assert!((rows[0].x_speed.unwrap().median - 1.0).abs() < f64::EPSILON);
    let gets = world.origin.log().requests(forebay_testkit::Op::GetObject);
    assert_eq!(gets, 2 * 2 * OBJECTS * 25);
}

#[tokio::test]
async fn a_wrong_byte_ends_the_run_and_names_the_object() {
    let world = World::new().await;
    world
        .origin
        .fault(FaultRule::new("f", Fault::FlipBit { at_byte: 70_000 }).prefix("o/00000007"));
    let error = world.read_once().await.unwrap_err().to_string();
    assert!(error.contains("read o/00000007: byte 70000 is "), "{error}");
}

#[tokio::test]
async fn a_wrong_length_ends_the_run_even_if_no_byte_is_looked_at() {
    let world = World::new().await;
    world.origin.fault(FaultRule::new("f", Fault::WrongContentLength { delta: -1 }).times(1));
    let error = world.read_once().await.unwrap_err().to_string();
    assert!(error.contains("102399 bytes are declared where 102400 were asked for"), "{error}");
}

#[tokio::test]
async fn honest_failures_are_counted_and_the_rest_goes_on() {
    let world = World::new().await;
    let busy = Fault::Status { status: 503, code: "SlowDown".into() };
    world.origin.fault(FaultRule::new("busy", busy).times(3));
    world.origin.fault(FaultRule::new("cut", Fault::Reset { after_bytes: 5000 }).times(2));
    let row = world.read_once().await.unwrap().remove(0);
    let fired = ["busy", "cut"].map(|rule| world.origin.fired(rule));
    assert!(fired.iter().all(|fired| *fired > 0), "{fired:?}");
    let failed = fired.iter().sum();
    assert_eq!((row.failed, row.requests), (failed, 2 * OBJECTS - failed));
}

#[tokio::test]
async fn a_round_in_which_everything_fails_is_an_error() {
    let world = World::new().await;
    let plan = Plan::new(list(&world.target, "").await.unwrap(), Read::Whole, Order::Once);
    world.origin.set_reachable(false);
    let error = world.read(plan, 1).await.unwrap_err().to_string();
    assert!(error.contains("all 20 requests of a round failed"), "{error}");
}

#[tokio::test]
async fn a_set_is_read_once_to_warm_a_server_that_says_nothing_of_hits() {
    let world = World::new().await;
    let plan = Plan::new(list(&world.target, "").await.unwrap(), Read::Range(10), Order::Random);
    let target = world.target.clone();
    let warmed = forebay_rt::spawn_blocking(move || warm(&target, &plan, Check::NamedVersion));
    assert!(warmed.await.unwrap().unwrap());
    assert_eq!(world.origin.log().requests(forebay_testkit::Op::GetObject), OBJECTS);
}

#[tokio::test]
async fn a_prefix_with_nothing_below_it_is_named() {
    let world = World::new().await;
    let error = list(&world.target, "none/").await.unwrap_err().to_string();
    assert!(error.contains("s3://b/none/") && error.contains("--prefix"), "{error}");
}
