//! What the configuration of a cluster promises: who is what, and errors that name key and fix.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;

use forebay_node::config::{
    Advertise, Auth, ClusterConfig, Config, ConfigError, ControlConfig, Environment, Flags, Knob,
    MetaConfig, RawConfig, Role, WorkerConfig, rules,
};
use tempfile::TempDir;

const DISK: &str = "[[disk]]\npath = '/var/cache/forebay'\n";
const BUCKET: &str = "[[bucket]]\nname = 'train'\norigin = 'http://10.0.0.1:9001'\n";
const VOTER: &str = "[meta]\nid = 2\ndir = '/var/lib/forebay'\nlisten = '10.0.0.2:9701'\n";
const THREE: &str = "initial_voters = ['1=meta-0:9701', '2=10.0.0.2:9701', '3=meta-2:9701']\n";

/// A machine with a cluster's secret on it.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.secret("cluster", "0123456789abcdef0123456789abcdef\n", 0o600);
        machine
    }

    /// Writes a secret and names its file.
    fn secret(&self, name: &str, text: &str, mode: u32) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path.display().to_string()
    }

    /// A `[cluster]` that goes as far as the secret.
    fn cluster(&self) -> String {
        format!("[cluster]\nsecret_file = '{}'\n", self.0.path().join("cluster").display())
    }

    /// A worker of a cluster that is complete.
    fn worker(&self) -> String {
        let cluster = self.cluster();
        format!(
            "{DISK}[worker]\nlisten = '10.0.0.2:9000'\n{cluster}voters = ['meta-0:9701']\n\
             data_listen = '10.0.0.2:0'\n"
        )
    }
}

fn vars(vars: &[(&str, &str)]) -> Environment {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn client_key() -> Environment {
    vars(&[("FOREBAY_ACCESS_KEY_ID", "reader"), ("FOREBAY_SECRET_ACCESS_KEY", "hunter2")])
}

fn resolve(file: &str, env: &Environment) -> Result<Config, ConfigError> {
    Config::resolve(RawConfig::parse(file)?, env, &Flags::default())
}

fn refusal(file: &str) -> String {
    resolve(file, &client_key()).unwrap_err().to_string()
}

fn worker(config: Config) -> WorkerConfig {
    match config.role {
        Role::Worker(worker) => *worker,
        Role::Voter(voter) => panic!("{voter:?}"),
    }
}

fn member(file: &str) -> ClusterConfig {
    worker(resolve(file, &client_key()).unwrap()).cluster.unwrap()
}

fn voter(file: &str) -> MetaConfig {
    match resolve(file, &Environment::default()).unwrap().role {
        Role::Voter(voter) => *voter,
        Role::Worker(worker) => panic!("{worker:?}"),
    }
}

#[test]
fn a_worker_of_a_cluster_needs_no_bucket_and_no_key_of_its_own() {
    let machine = Machine::new();
    let worker = worker(resolve(&machine.worker(), &Environment::default()).unwrap());
    assert!(worker.rules.is_none());
    let cluster = worker.cluster.unwrap();
    assert_eq!(cluster.voters, ["meta-0:9701"]);
    assert_eq!(
        (cluster.data_advertise, cluster.s3_advertise),
        (Advertise::Taken, Advertise::Taken)
    );
    assert!(cluster.meta.is_none());
}

#[test]
fn rules_of_its_own_are_checked_as_those_of_a_worker_that_is_alone() {
    let machine = Machine::new();
    let file = format!("{}{BUCKET}", machine.worker());
    let rules = worker(resolve(&file, &client_key()).unwrap()).rules.unwrap();
    assert_eq!(rules.buckets[0].label(), "train");
    let error = resolve(&file, &Environment::default()).unwrap_err().to_string();
    assert!(error.starts_with("an access key for clients is missing"), "{error}");
    let error = refusal(&format!("{}[auth]\nmode = 'none'\n", machine.worker()));
    assert!(error.starts_with("a bucket for auth is missing"), "{error}");
}

#[test]
fn a_voter_without_a_disk_is_only_that() {
    let machine = Machine::new();
    let voter = voter(&format!("{}{VOTER}{THREE}", machine.cluster()));
    assert_eq!((voter.id, voter.advertise), (2, Advertise::Taken));
    let taken = voter.listen;
    let group: Vec<_> =
        voter.initial_voters.iter().map(|v| (v.id, v.advertise.given(taken))).collect();
    let expected = [(1, "meta-0:9701"), (2, "10.0.0.2:9701"), (3, "meta-2:9701")];
    assert_eq!(group, expected.map(|(id, addr)| (id, addr.to_owned())));
}

#[test]
fn a_voter_beside_a_worker_and_the_group_it_forms_are_the_voters_that_the_worker_asks() {
    let machine = Machine::new();
    let file = machine.worker().replace("voters = ['meta-0:9701']\n", "");
    let cluster = member(&format!("{file}{VOTER}{THREE}"));
    assert_eq!(cluster.voters, ["meta-0:9701", "meta-2:9701"]);
    assert_eq!(cluster.meta.unwrap().id, 2);
}

#[test]
fn a_voter_without_initial_voters_waits_to_be_added() {
    let machine = Machine::new();
    let voter = voter(&format!("{}{VOTER}", machine.cluster()));
    assert!(voter.initial_voters.is_empty());
}

#[test]
fn a_lone_voter_may_take_any_port() {
    let machine = Machine::new();
    let file = format!(
        "{}[meta]\nid = 1\ndir = '/m'\nlisten = '127.0.0.1:0'\ninitial_voters = ['1=127.0.0.1:0']",
        machine.cluster()
    );
    let own = voter(&file).initial_voters.remove(0);
    assert_eq!(own.advertise.given("127.0.0.1:4711".parse().unwrap()), "127.0.0.1:4711");
}

#[test]
fn a_pod_is_told_apart_from_its_siblings_by_its_environment() {
    let machine = Machine::new();
    let mut given = vec![
        ("FOREBAY_META_ID", "3"),
        ("FOREBAY_META_ADVERTISE", "meta-2:9701"),
        ("FOREBAY_META_DIR", "/data"),
        ("FOREBAY_INITIAL_VOTERS", "1=meta-0:9701,2=meta-1:9701,3=meta-2:9701"),
    ];
    let config = resolve(&machine.cluster(), &vars(&given)).unwrap();
    assert!(matches!(config.role, Role::Voter(voter) if voter.id == 3));

    given = vec![
        ("FOREBAY_DATA_ADVERTISE", "10.0.0.7:9100"),
        ("FOREBAY_S3_ADVERTISE", "10.0.0.7:9000"),
        ("FOREBAY_VOTERS", "meta-0:9701, meta-1:9701"),
        ("FOREBAY_ZONE", "b"),
    ];
    let config = resolve(&format!("{DISK}{}", machine.cluster()), &vars(&given)).unwrap();
    let cluster = worker(config).cluster.unwrap();
    assert_eq!(cluster.data_advertise, Advertise::Written("10.0.0.7:9100".into()));
    assert_eq!((cluster.voters.len(), cluster.zone.as_str()), (2, "b"));
}

#[test]
fn every_refusal_names_the_key_the_value_and_the_fix() {
    let machine = Machine::new();
    let with = |from: &str, to: &str| machine.worker().replace(from, to);
    let meta =
        |from: &str, to: &str| format!("{}{VOTER}{THREE}", machine.cluster()).replace(from, to);
    let short = machine.secret("short", "hunter2", 0o600);
    let cluster_secret = machine.0.path().join("cluster").display().to_string();
    for (file, expected) in [
        (with("voters = ['meta-0:9701']", ""), &["cluster.voters is missing", "--voters"][..]),
        (
            with("'meta-0:9701'", "'http://m:1'"),
            &["cluster.voters[0] = \"http://m:1\"", "HOST:PORT"],
        ),
        (
            with("10.0.0.2:0", "0.0.0.0:9100"),
            &["cluster.data_advertise is missing", "0.0.0.0:9100"],
        ),
        (
            with("10.0.0.2:9000", "0.0.0.0:9000"),
            &["cluster.s3_advertise is missing", "0.0.0.0:9000"],
        ),
        (
            with("data_listen", "data_lsten"),
            &["cluster.data_lsten: unknown key", "\"data_listen\""],
        ),
        (format!("{}zone = 1", machine.worker()), &["zone", "string"]),
        (
            format!("{}data_advertise = 'worker-1'", machine.worker()),
            &["cluster.data_advertise = \"worker-1\"", "10.0.0.5:9100"],
        ),
        (format!("{DISK}[cluster]"), &["cluster.secret_file is missing", "--secret-file"]),
        (format!("{DISK}{VOTER}"), &["cluster.secret_file is missing"]),
        (with(&cluster_secret, "/no/such"), &["cluster.secret_file = \"/no/such\"", "can read"]),
        (with(&cluster_secret, &short), &["cluster.secret_file = ", "7 bytes", "urandom"]),
        (machine.cluster(), &["a cache directory is missing"]),
        (meta("id = 2\n", ""), &["meta.id is missing"]),
        (meta("id = 2\n", "id = 0\n"), &["meta.id = \"0\"", "from 1"]),
        (meta("dir = '/var/lib/forebay'", ""), &["meta.dir is missing"]),
        (meta("10.0.0.2:9701'\ninitial", "0.0.0.0:9701'\ninitial"), &["meta.advertise is missing"]),
        (meta("'3=", "'"), &["meta.initial_voters[2] = \"meta-2:9701\"", "ID=HOST:PORT"]),
        (meta("'3=", "'1="), &["meta.initial_voters: 1 is named twice"]),
        (meta("3=meta-2", "3=meta-0"), &["meta.initial_voters: meta-0:9701 is named twice"]),
        (meta("'2=10.0.0.2", "'2=10.0.0.3"), &["voter 2 at 10.0.0.2:9701", "not among them"]),
        (meta("'2=", "'4="), &["voter 2 at 10.0.0.2:9701", "not among them"]),
        (meta(", '3=meta-2:9701'", ""), &["group of 2", "1, 3 or 5"]),
        (
            format!("{}{VOTER}[worker]\nlisten = '10.0.0.2:9000'", machine.cluster()),
            &["worker.listen: is a worker's", "[[disk]]"],
        ),
        (
            format!("{}zone = 'a'\n{VOTER}", machine.cluster()),
            &["cluster.zone: is a worker's", "leave it out"],
        ),
    ] {
        let error = refusal(&file);
        for part in expected {
            assert!(error.contains(part), "{error:?} does not say {part:?}");
        }
        assert!(!error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_cluster_secret_that_others_can_read_is_warned_of_and_never_shown() {
    let machine = Machine::new();
    machine.secret("cluster", "a secret that has thirty-two bytes or more", 0o644);
    let config = resolve(&machine.worker(), &client_key()).unwrap();
    assert!(config.warnings[0].contains("chmod o="), "{:?}", config.warnings);
    assert!(!format!("{config:?}").contains("thirty-two"));
}

#[test]
fn the_clusters_rules_mean_the_same_on_every_worker_whatever_its_own_settings() {
    let own = vars(&[
        ("FOREBAY_ACCESS_KEY_ID", "reader"),
        ("FOREBAY_SECRET_ACCESS_KEY", "hunter2"),
        ("FOREBAY_ORIGIN", "http://elsewhere:1"),
        ("FOREBAY_BUCKET", "other"),
        ("FOREBAY_AUTH", "none"),
    ]);
    let (rules, warnings) = rules::parse(BUCKET, &own).unwrap();
    assert_eq!(rules.buckets[0].label(), "train");
    assert_eq!(rules.buckets[0].origin.endpoint.as_str(), "http://10.0.0.1:9001");
    assert!(matches!(&rules.auth, Auth::Keys { keys, .. } if &*keys[0].id == "reader"));
    assert_eq!(warnings, Vec::<String>::new());
    let loops = rules.refuse_loop("10.0.0.1:9001".parse().unwrap()).unwrap_err().to_string();
    assert!(loops.contains("own address"), "{loops}");
}

#[test]
fn rules_without_a_bucket_or_a_key_or_with_other_tables_are_refused() {
    for (text, part) in [
        ("", "a bucket is missing"),
        (BUCKET, "an access key for clients is missing"),
        ("[worker]\nlisten = 'x'", "worker: unknown key: use one of auth, bucket"),
        ("[[bucket]]\nname = 'a'", "bucket[0].origin is missing"),
    ] {
        let error = rules::parse(text, &Environment::default()).unwrap_err().to_string();
        assert!(error.starts_with(part), "{error:?} does not begin with {part:?}");
    }
}

#[test]
fn rules_can_be_checked_where_the_secrets_are_not() {
    let key = "[[auth.key]]\nid = 'a'\nsecret_file = '/on/the/workers'\n\
        grants = [{ bucket = '*', read = true }]\n";
    assert_eq!(rules::check(&format!("{BUCKET}{key}")).unwrap(), Vec::<String>::new());
    let public = "[auth]\nanonymous = [{ bucket = 'train', read = true }]\n";
    assert_eq!(rules::check(&format!("{public}{BUCKET}")).unwrap(), Vec::<String>::new());
    let warnings = rules::check(BUCKET).unwrap();
    assert!(warnings[0].contains("FOREBAY_ACCESS_KEY_ID"), "{warnings:?}");
    let error = rules::check(&format!("{BUCKET}freshness = 'fresh'")).unwrap_err().to_string();
    assert!(error.contains("bucket[0].freshness"), "{error}");
}

#[test]
fn a_command_finds_the_voters_in_the_file_of_a_worker_or_a_voter_or_in_its_flags() {
    let machine = Machine::new();
    let control = |file: &str, flags: &Flags| {
        ControlConfig::resolve(RawConfig::parse(file).unwrap(), &Environment::default(), flags)
    };
    let none = Flags::default();
    assert_eq!(control(&machine.worker(), &none).unwrap().voters, ["meta-0:9701"]);
    let of_voter = control(&format!("{}{VOTER}{THREE}", machine.cluster()), &none).unwrap();
    assert_eq!(of_voter.voters, ["meta-0:9701", "meta-2:9701", "10.0.0.2:9701"]);
    let flags = Flags::default()
        .with(Knob::SecretFile, [machine.0.path().join("cluster").display().to_string()])
        .with(Knob::Voters, ["a:1".to_owned(), "b:2".to_owned()]);
    assert_eq!(control("", &flags).unwrap().voters, ["a:1", "b:2"]);
    let error = control(&machine.cluster(), &none).unwrap_err().to_string();
    assert!(error.starts_with("cluster.voters is missing"), "{error}");
}
