//! What each job reads, under the name that it gives itself.
//!
//! SDKs send `app/NAME` in `User-Agent` where `AWS_SDK_UA_APP_ID` is set. It is not signed: it is
//! telemetry, and authorizes nothing. Jobs come and go, and the recorder keeps a series for ever;
//! so these counters live in a table of our own, which forgets, and are written on the page here.
//!
//! The label is `app`, because Prometheus gives whatever it scrapes a `job` of its own.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::context::Tier;

/// Names that have series at a time; all others share those of `other`.
const MAX_APPS: usize = 64;

/// A name that nobody reads under for so long gives up its place.
const IDLE_AFTER: Duration = Duration::from_secs(60 * 60);

/// The longest name that SDKs take.
const MAX_NAME_BYTES: usize = 50;

const OTHER: &str = "other";

/// What heads the samples of a metric on the page.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
}

const SERVED_BYTES: Family = Family {
    name: "forebay_app_served_bytes_total",
    kind: "counter",
    help: "Bytes handed to a job, by where they came from.",
};
const SERVED_REQUESTS: Family = Family {
    name: "forebay_app_served_requests_total",
    kind: "counter",
    help: "Reads handed to a job to their end, by the farthest tier that a byte came from.",
};
const FIRST_BYTE_SECONDS: Family = Family {
    name: "forebay_app_first_byte_seconds",
    kind: "summary",
    help: "Seconds until the first bytes of a body for a job were there.",
};

/// A name as SDKs send it: it can stand on the page as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppName<'a>(&'a str);

impl<'a> AppName<'a> {
    /// Takes what follows `app/`. `None` for what no SDK lets through.
    pub fn new(name: &'a [u8]) -> Option<Self> {
        let is_name =
            (1..=MAX_NAME_BYTES).contains(&name.len()) && name.iter().copied().all(is_allowed);
        is_name.then(|| std::str::from_utf8(name).ok().map(Self)).flatten()
    }
}

/// The characters of a token of HTTP, and the comma, which botocore sends as well.
fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~,".contains(&byte)
}

/// The names that have been read under of late, and what was.
#[derive(Debug, Default)]
pub struct Apps {
    places: RwLock<HashMap<Box<str>, Place>>,
    other: Arc<AppCounters>,
}

impl Apps {
    /// The counters of a name, or those of all names that found no place. To be held by a request
    /// for as long as it counts: a name in use keeps its place.
    pub fn of(&self, name: AppName<'_>) -> Arc<AppCounters> {
        let places = self.places.read();
        match places.get(name.0) {
            Some(place) => place.counters.clone(),
            None if name.0 == OTHER || places.len() >= MAX_APPS => self.other.clone(),
            None => {
                drop(places);
                self.take_place(name)
            }
        }
    }

    fn take_place(&self, name: AppName<'_>) -> Arc<AppCounters> {
        let mut places = self.places.write();
        // Others may have come in between the two locks.
        if places.len() >= MAX_APPS && !places.contains_key(name.0) {
            return self.other.clone();
        }
        places.entry(name.0.into()).or_default().counters.clone()
    }

    /// Takes the places of names that are idle. To be called every now and then: idleness is
    /// counted from the first call that finds it, so that a read need not look at a clock.
    pub fn forget_idle(&self, now: Instant) {
        self.places.write().retain(|_, place| place.idle_for(now) < IDLE_AFTER);
    }

    /// What was counted, in Prometheus' text format. Empty where no job gave a name.
    pub fn page(&self) -> String {
        let apps = self.counted();
        let mut page = String::new();
        if apps.is_empty() {
            return page;
        }
        by_tier(&mut page, &apps, &SERVED_BYTES, |app| &app.bytes);
        by_tier(&mut page, &apps, &SERVED_REQUESTS, |app| &app.requests);
        first_bytes(&mut page, &apps);
        page
    }

    /// A copy, so that no read waits while a page is written.
    fn counted(&self) -> BTreeMap<Box<str>, Counted> {
        let places = self.places.read();
        let named = places.iter().map(|(name, place)| (name.clone(), place.counters.counted()));
        let other = self.other.counted();
        named.chain((other.first_bytes > 0).then(|| (OTHER.into(), other))).collect()
    }
}

#[derive(Debug, Default)]
struct Place {
    counters: Arc<AppCounters>,
    /// Reads that had begun when it was last looked at.
    reads: u64,
    idle_since: Option<Instant>,
}

impl Place {
    fn idle_for(&mut self, now: Instant) -> Duration {
        let reads = self.counters.first_bytes.load(Ordering::Relaxed);
        let is_held = Arc::strong_count(&self.counters) > 1;
        if is_held || reads != self.reads {
            self.reads = reads;
            self.idle_since = None;
        }
        now.saturating_duration_since(*self.idle_since.get_or_insert(now))
    }
}

/// What is counted per app.
#[derive(Debug, Default)]
pub struct AppCounters {
    bytes: [AtomicU64; 4],
    requests: [AtomicU64; 4],
    first_bytes: AtomicU64,
    waited_ns: AtomicU64,
}

impl AppCounters {
    /// Counts bytes on their way to the client.
    pub fn served_bytes(&self, tier: Tier, bytes: u64) {
        self.bytes[tier as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a request, for the slowest tier that any of its bytes came from.
    pub fn served_request(&self, slowest: Tier) {
        self.requests[slowest as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The first bytes are there.
    pub fn first_byte(&self, waited: Duration) {
        let waited_ns = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
        self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        self.first_bytes.fetch_add(1, Ordering::Relaxed);
    }

    fn counted(&self) -> Counted {
        let of = |counters: &[AtomicU64; 4]| {
            Tier::ALL.map(|tier| counters[tier as usize].load(Ordering::Relaxed))
        };
        Counted {
            bytes: of(&self.bytes),
            requests: of(&self.requests),
            first_bytes: self.first_bytes.load(Ordering::Relaxed),
            waited: Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed)),
        }
    }
}

/// The counters of one app at one time.
struct Counted {
    bytes: [u64; 4],
    requests: [u64; 4],
    first_bytes: u64,
    waited: Duration,
}

/// All four tiers, also those at zero: a ratio of series that are not there has no value.
fn by_tier(
    page: &mut String,
    apps: &BTreeMap<Box<str>, Counted>,
    family: &Family,
    of: impl Fn(&Counted) -> &[u64; 4],
) {
    family.begin(page);
    let name = family.name;
    for (app, counted) in apps {
        for (tier, value) in Tier::ALL.iter().zip(of(counted)) {
            let tier = tier.as_str();
            let _ = writeln!(page, "{name}{{app=\"{app}\",tier=\"{tier}\"}} {value}");
        }
    }
    page.push('\n');
}

fn first_bytes(page: &mut String, apps: &BTreeMap<Box<str>, Counted>) {
    FIRST_BYTE_SECONDS.begin(page);
    let name = FIRST_BYTE_SECONDS.name;
    for (app, counted) in apps {
        let (sum, count) = (counted.waited.as_secs_f64(), counted.first_bytes);
        let _ = writeln!(page, "{name}_sum{{app=\"{app}\"}} {sum}");
        let _ = writeln!(page, "{name}_count{{app=\"{app}\"}} {count}");
    }
    page.push('\n');
}

impl Family {
    fn begin(&self, page: &mut String) {
        let Self { name, kind, help } = self;
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_AND_THEN: Duration = Duration::from_secs(15);
    const NOT_QUITE_IDLE: Duration = Duration::from_secs(59 * 60);

    fn name(text: &str) -> AppName<'_> {
        AppName::new(text.as_bytes()).unwrap()
    }

    fn read(apps: &Apps, app: &str) {
        let counters = apps.of(name(app));
        counters.first_byte(Duration::from_millis(1));
        counters.served_bytes(Tier::Ram, 10);
        counters.served_request(Tier::Ram);
    }

    fn named(apps: &Apps) -> Vec<Box<str>> {
        apps.counted().into_keys().collect()
    }

    #[allow(clippy::disallowed_methods, reason = "any time will do to begin with")]
    fn some_time() -> Instant {
        Instant::now()
    }

    /// Looks for idle names as often as a worker does, from just after `from` on.
    fn pass(apps: &Apps, from: Instant, time: Duration) -> Instant {
        let mut now = from;
        while now < from + time {
            now += NOW_AND_THEN;
            apps.forget_idle(now);
        }
        now
    }

    #[test]
    fn a_name_is_at_most_fifty_characters_of_a_token() {
        let fifty = "x".repeat(50);
        for text in ["train-7", "a", "A.b_c~d", "team,epoch#2", "!$%&'*+^`|", &fifty] {
            assert_eq!(AppName::new(text.as_bytes()), Some(AppName(text)));
        }
        let too_long = "x".repeat(51);
        for text in ["", "a b", "a\"b", "a\\b", "a\nb", "a{b}", "a/b", "caf\u{e9}", &too_long] {
            assert_eq!(AppName::new(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(AppName::new(b"a\xff"), None);
    }

    #[test]
    fn what_is_counted_stands_on_the_page() {
        let apps = Apps::default();
        let train = apps.of(name("train-7"));
        train.first_byte(Duration::from_micros(1500));
        train.served_bytes(Tier::Ram, 4096);
        train.served_bytes(Tier::Origin, 100);
        train.served_request(Tier::Origin);
        let expected = "\
            # HELP forebay_app_served_bytes_total Bytes handed to a job, by where they came from.\n\
            # TYPE forebay_app_served_bytes_total counter\n\
            forebay_app_served_bytes_total{app=\"train-7\",tier=\"ram\"} 4096\n\
            forebay_app_served_bytes_total{app=\"train-7\",tier=\"nvme\"} 0\n\
            forebay_app_served_bytes_total{app=\"train-7\",tier=\"peer\"} 0\n\
            forebay_app_served_bytes_total{app=\"train-7\",tier=\"origin\"} 100\n\
            \n\
            # HELP forebay_app_served_requests_total Reads handed to a job to their end, by the \
            farthest tier that a byte came from.\n\
            # TYPE forebay_app_served_requests_total counter\n\
            forebay_app_served_requests_total{app=\"train-7\",tier=\"ram\"} 0\n\
            forebay_app_served_requests_total{app=\"train-7\",tier=\"nvme\"} 0\n\
            forebay_app_served_requests_total{app=\"train-7\",tier=\"peer\"} 0\n\
            forebay_app_served_requests_total{app=\"train-7\",tier=\"origin\"} 1\n\
            \n\
            # HELP forebay_app_first_byte_seconds Seconds until the first bytes of a body for a \
            job were there.\n\
            # TYPE forebay_app_first_byte_seconds summary\n\
            forebay_app_first_byte_seconds_sum{app=\"train-7\"} 0.0015\n\
            forebay_app_first_byte_seconds_count{app=\"train-7\"} 1\n\
            \n";
        assert_eq!(apps.page(), expected);
    }

    #[test]
    fn where_no_job_gives_a_name_nothing_stands_on_the_page() {
        assert_eq!(Apps::default().page(), "");
    }

    #[test]
    fn names_that_find_no_place_are_counted_together() {
        let apps = Apps::default();
        for number in 0..MAX_APPS + 10 {
            read(&apps, &format!("job-{number}"));
        }
        read(&apps, "job-0");
        assert_eq!(named(&apps).len(), MAX_APPS + 1);
        assert_eq!(apps.counted()["other"].requests, [10, 0, 0, 0]);
        assert_eq!(apps.counted()["job-0"].requests, [2, 0, 0, 0]);
    }

    #[test]
    fn a_job_that_calls_itself_other_has_no_series_of_its_own() {
        let apps = Apps::default();
        read(&apps, "other");
        assert_eq!(apps.page().matches("forebay_app_first_byte_seconds_count").count(), 1);
        assert!(apps.places.read().is_empty());
    }

    #[test]
    fn a_name_that_is_not_seen_for_an_hour_leaves_the_page_and_its_place() {
        let apps = Apps::default();
        for number in 0..MAX_APPS {
            read(&apps, &format!("job-{number}"));
        }
        let mut now = pass(&apps, some_time(), NOT_QUITE_IDLE);
        assert_eq!(named(&apps).len(), MAX_APPS);
        read(&apps, "job-7");
        now = pass(&apps, now, NOT_QUITE_IDLE);
        read(&apps, "job-new");
        assert_eq!(named(&apps), ["job-7".into(), "job-new".into()]);
        pass(&apps, now, IDLE_AFTER + NOW_AND_THEN);
        assert_eq!(apps.page(), "");
    }

    #[test]
    fn a_read_of_more_than_an_hour_keeps_its_name() {
        let apps = Apps::default();
        let (reading, now) = (apps.of(name("slow")), some_time());
        let now = pass(&apps, now, IDLE_AFTER * 2);
        reading.served_bytes(Tier::Ram, 7);
        drop(reading);
        assert_eq!(apps.counted()["slow"].bytes, [7, 0, 0, 0]);
        pass(&apps, now, IDLE_AFTER * 2);
        assert_eq!(apps.page(), "");
    }
}
