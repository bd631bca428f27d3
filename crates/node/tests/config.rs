//! What the configuration promises: precedence, defaults, and errors that name key and fix.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use forebay_node::config::{
    Auth, Capacity, Config, ConfigError, Endpoint, Environment, Flags, Knob, OriginIdentity,
    RawConfig, Role, RuleSet, WorkerConfig,
};
use forebay_s3::Effect;
use forebay_types::Freshness;

const ONE_BUCKET: &str = "
    [[disk]]
    path = '/var/cache/forebay'
    [[bucket]]
    name = 'train'
    origin = 'http://10.0.0.1:9001'
";

const ROLE: &str = "role_arn = 'arn:aws:iam::123456789012:role/reader'\n";

fn env(vars: &[(&str, &str)]) -> Environment {
    vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn client_key() -> Environment {
    env(&[("FOREBAY_ACCESS_KEY_ID", "reader"), ("FOREBAY_SECRET_ACCESS_KEY", "hunter2")])
}

fn flags(given: &[(Knob, &str)]) -> Flags {
    given
        .iter()
        .fold(Flags::default(), |flags, (knob, value)| flags.with(*knob, [(*value).to_owned()]))
}

fn resolve(file: &str, env: &Environment, flags: &Flags) -> Result<Config, ConfigError> {
    Config::resolve(RawConfig::parse(file)?, env, flags)
}

fn from_file(file: &str) -> Result<Config, ConfigError> {
    resolve(file, &client_key(), &Flags::default())
}

fn worker(config: Config) -> WorkerConfig {
    match config.role {
        Role::Worker(worker) => *worker,
        Role::Voter(voter) => panic!("{voter:?}"),
    }
}

/// Of a worker that is alone.
fn rules(config: Config) -> RuleSet {
    worker(config).rules.unwrap()
}

fn quick_start() -> Flags {
    flags(&[
        (Knob::Origin, "http://127.0.0.1:9001/"),
        (Knob::Bucket, "train"),
        (Knob::CacheDir, "/var/cache/forebay"),
    ])
}

#[test]
fn three_flags_and_a_key_are_enough() {
    let config = resolve("", &client_key(), &quick_start()).unwrap();
    assert!(config.admin_listen.ip().is_loopback());
    assert_eq!(config.drain, Duration::from_secs(25));
    assert_eq!(config.warnings, Vec::<String>::new());
    let worker = worker(config);
    assert_eq!(worker.listen.to_string(), "0.0.0.0:9000");
    assert_eq!(worker.disks[0].capacity, Capacity::Percent(90));
    assert!(worker.cluster.is_none());
    let rules = worker.rules.unwrap();
    let rule = &rules.buckets[0];
    assert_eq!(rule.label(), "train");
    assert_eq!(rule.freshness, Freshness::Bounded(Duration::from_secs(60)));
    assert_eq!(rule.origin.endpoint, Endpoint::Url("http://127.0.0.1:9001".into()));
    assert_eq!(rule.origin.region, "us-east-1");
    assert_eq!(rule.origin.credentials, OriginIdentity::Chain);
    assert!(
        matches!(&rules.auth, Auth::Keys { keys, .. } if &*keys[0].id == "reader" && keys[0].grants[0].write)
    );
}

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let file = format!("[worker]\nlisten = '127.0.0.1:1'\n{ONE_BUCKET}");
    let mut vars = vec![("FOREBAY_AUTH", "none")];
    let listen = |vars: &[(&str, &str)], flags: &Flags| {
        worker(resolve(&file, &env(vars), flags).unwrap()).listen.port()
    };
    assert_eq!(listen(&vars, &Flags::default()), 1);
    vars.push(("FOREBAY_LISTEN", "127.0.0.1:2"));
    assert_eq!(listen(&vars, &Flags::default()), 2);
    assert_eq!(listen(&vars, &flags(&[(Knob::Listen, "127.0.0.1:3")])), 3);
}

#[test]
fn flags_replace_the_buckets_and_disks_of_the_file() {
    let flags = flags(&[
        (Knob::Origin, "aws"),
        (Knob::Bucket, "one"),
        (Knob::Bucket, "two"),
        (Knob::Region, "eu-central-1"),
        (Knob::Freshness, "immutable"),
        (Knob::AnonymousOrigin, "true"),
        (Knob::CacheDir, "/nvme0"),
        (Knob::Capacity, "500GiB"),
    ]);
    let WorkerConfig { disks, rules, .. } =
        worker(resolve(ONE_BUCKET, &client_key(), &flags).unwrap());
    let buckets = rules.unwrap().buckets;
    let names: Vec<_> = buckets.iter().map(|rule| rule.label().to_owned()).collect();
    assert_eq!(names, ["one", "two"]);
    assert!(buckets.iter().all(|rule| rule.freshness == Freshness::Immutable));
    assert_eq!(buckets[0].origin.credentials, OriginIdentity::Anonymous);
    assert_eq!(disks.len(), 1);
    assert_eq!(disks[0].capacity, Capacity::Bytes(500 << 30));
}

#[test]
fn nobody_is_served_unless_keys_or_an_open_endpoint_are_asked_for() {
    let error = resolve("", &Environment::default(), &quick_start()).unwrap_err().to_string();
    assert!(error.contains("FOREBAY_ACCESS_KEY_ID") && error.contains("--auth none"), "{error}");

    let open = quick_start().with(Knob::Auth, ["none".to_owned()]);
    let config = resolve("", &Environment::default(), &open).unwrap();
    assert!(config.warnings[0].contains("everybody"), "{:?}", config.warnings);
    assert!(matches!(rules(config).auth, Auth::Open));
}

#[test]
fn a_key_of_the_file_takes_its_secret_from_a_file_and_has_only_its_grants() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "hunter2\n").unwrap();
    let file = format!(
        "{ONE_BUCKET}
        [[auth.key]]
        id = 'job'
        secret_file = '{}'
        grants = [{{ bucket = 'train', prefix = 'shards/', read = true }}]",
        secret.display()
    );
    let config = resolve(&file, &Environment::default(), &Flags::default()).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(config.warnings.iter().any(|warning| warning.contains("chmod o=")));
    let Auth::Keys { keys, anonymous } = rules(config).auth else { panic!("open") };
    assert_eq!(anonymous, []);
    assert_eq!(keys[0].secret.reveal(), "hunter2");
    let grant = &keys[0].grants[0];
    assert!(grant.read && !grant.write && !grant.list && grant.prefix == "shards/");
}

#[test]
fn callers_that_do_not_sign_may_do_what_is_granted_them_beside_keys_or_without() {
    let file = format!(
        "[auth]
        anonymous = [
            {{ bucket = 'train', prefix = 'open/', read = true, list = true }},
            {{ bucket = '*', prefix = 'open/draft', read = true, deny = true }},
        ]
        {ONE_BUCKET}"
    );
    for (env, keys_given) in [(client_key(), 1), (Environment::default(), 0)] {
        let config = resolve(&file, &env, &Flags::default()).unwrap();
        assert_eq!(config.warnings, Vec::<String>::new());
        let Auth::Keys { keys, anonymous } = rules(config).auth else { panic!("open") };
        assert_eq!(keys.len(), keys_given);
        let [open, draft] = &anonymous[..] else { panic!("{anonymous:?}") };
        assert!(open.effect == Effect::Allow && open.read && open.list && !open.write);
        assert!(open.prefix == "open/" && draft.effect == Effect::Deny);
    }
    let writable = file.replace("list = true", "write = true");
    let warnings = from_file(&writable).unwrap().warnings;
    assert!(warnings[0].starts_with("auth.anonymous[0]: everybody"), "{warnings:?}");
}

#[test]
fn a_prefix_can_have_a_freshness_of_its_own() {
    let file = format!(
        "{ONE_BUCKET}\nfreshness = 'immutable'\n[[bucket.prefix]]\nprefix = 'logs/'\nbound_seconds = 5"
    );
    let rule = rules(from_file(&file).unwrap()).buckets.remove(0);
    assert_eq!(rule.freshness, Freshness::Immutable);
    assert_eq!(rule.prefixes, [("logs/".to_owned(), Freshness::Bounded(Duration::from_secs(5)))]);
}

#[test]
fn a_rule_can_have_a_role_of_its_own_which_the_bearer_of_a_token_is_lent() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "eyJ.hunter2").unwrap();
    let role = format!("{ROLE}web_identity_token_file = '{}'", token.display());
    let identity = |lines: &str| {
        let config = from_file(&format!("{ONE_BUCKET}{role}\n{lines}"))?;
        assert_eq!(config.warnings, Vec::<String>::new(), "who may read it the issuer decides");
        assert!(!format!("{config:?}").contains("eyJ"), "{config:?}");
        match rules(config).buckets.remove(0).origin.credentials {
            OriginIdentity::WebIdentity(identity) => Ok::<_, ConfigError>(identity),
            other => panic!("{other:?}"),
        }
    };
    let least = identity("").unwrap();
    assert_eq!(least.role_arn, "arn:aws:iam::123456789012:role/reader");
    assert_eq!((&least.token_file, least.session_name.as_str()), (&token, "forebay"));
    assert_eq!(least.sts_endpoint, None);
    std::fs::write(&token, "eyJ.another").unwrap();
    assert_eq!(identity("").unwrap(), least, "a newer token makes no other rule");
    let most = "credentials = 'web-identity'\nrole_session_name = 'job.7@x'\n\
        sts_endpoint = 'http://10.0.0.1:9000/'";
    let most = identity(most).unwrap();
    assert_eq!(most.session_name, "job.7@x");
    assert_eq!(most.sts_endpoint.as_deref(), Some("http://10.0.0.1:9000"));
    for (line, parts) in [
        ("role_session_name = 'a job'", ["bucket[0].role_session_name = \"a job\"", "2 to 64"]),
        ("sts_endpoint = 'sts:9000'", ["bucket[0].sts_endpoint = \"sts:9000\"", "http://HOST"]),
        ("sts_endpoint = 'http://h/sts'", ["bucket[0].sts_endpoint", "has a path"]),
    ] {
        let error = identity(line).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{error}");
    }
    let error =
        from_file(&format!("{ONE_BUCKET}role_arn = 'reader'\nweb_identity_token_file = 'x'"));
    let error = error.unwrap_err().to_string();
    assert!(error.starts_with("bucket[0].role_arn = \"reader\": no role has"), "{error}");
}

#[test]
fn every_refusal_names_the_key_the_value_and_the_fix() {
    let bucket = |lines: &str| format!("{ONE_BUCKET}\n{lines}");
    let worker = |line: &str| format!("[worker]\n{line}\n{ONE_BUCKET}");
    let disk = |lines: &str| format!("[[disk]]\n{lines}\n{ONE_BUCKET}");
    for (file, expected) in [
        (worker("listen = 'nine'"), &["worker.listen = \"nine\"", "HOST:PORT"][..]),
        (worker("drain_seconds = 100000"), &["worker.drain_seconds", "\"100000\"", "0 to 86400"]),
        (worker("log = 'xml'"), &["worker.log = \"xml\"", "\"json\""]),
        (worker("congestion = 'no such thing'"), &["worker.congestion", "\"auto\""]),
        (worker("domains = ['http://x']"), &["worker.domains[0]", "s3.example.com"]),
        (disk("capacity = '1TB'"), &["disk[0].path is missing", "name a directory"]),
        (disk("path = '/a'\ncapacity = 'much'"), &["disk[0].capacity = \"much\"", "500GiB"]),
        (disk("path = '/var/cache/forebay'"), &["/var/cache/forebay", "twice"]),
        (format!("[cache]\nfill_budget = '1MiB'\n{ONE_BUCKET}"), &["cache.fill_budget", "32MiB"]),
        (
            format!("[cache]\nread_ahead_blocks = 5000\n{ONE_BUCKET}"),
            &["cache.read_ahead_blocks", "0 to 1024"],
        ),
        (bucket("freshness = 'fresh'"), &["bucket[0].freshness = \"fresh\"", "\"immutable\""]),
        (
            bucket("freshness = 'strict'\nbound_seconds = 3"),
            &["bucket[0].bound_seconds", "leave it out"],
        ),
        (bucket("region = 'eu central'"), &["bucket[0].region", "eu-central-1"]),
        (
            bucket("[[bucket]]\nname = 'train'\norigin = 'aws'\nregion = 'x'"),
            &["bucket \"train\"", "twice"],
        ),
        (
            bucket("[[bucket]]\nname = 'b'\norigin = 'aws'"),
            &["bucket[1].region is missing", "AWS_REGION"],
        ),
        (bucket("[[bucket]]\nname = 'b'"), &["bucket[1].origin is missing", "URL"]),
        (bucket("[[bucket]]\norigin = 'aws'"), &["bucket[1].name is missing", "\"*\""]),
        (
            bucket("[[bucket]]\nname = 'a/b'\norigin = 'aws'\nregion = 'x'"),
            &["bucket[1].name = \"a/b\"", "a-z"],
        ),
        (
            bucket("[[bucket]]\nname = 'b'\norigin = 's3.local:9000'"),
            &["bucket[1].origin = \"s3.local:9000\"", "http://HOST:PORT"],
        ),
        (bucket("[[bucket]]\nname = 'b'\norigin = 'http://h/b'"), &["bucket[1].origin", "path"]),
        (
            bucket("[[bucket]]\nname = 'b'\norigin = 'http://u:p@h'"),
            &["bucket[1].origin", "credentials"],
        ),
        (
            bucket("[[bucket]]\nname = 'b'\norigin = 'http://127.0.0.1:9000'"),
            &["own address", "another port"],
        ),
        (
            bucket("[[bucket.prefix]]\nfreshness = 'strict'"),
            &["bucket[0].prefix[0].prefix is missing"],
        ),
    ] {
        assert_refused(&file, expected);
    }
}

#[test]
fn every_refusal_of_credentials_names_the_key_the_value_and_the_fix() {
    let bucket = |lines: &str| format!("{ONE_BUCKET}\n{lines}");
    for (file, expected) in [
        (
            bucket("credentials = 'mine'"),
            &["bucket[0].credentials = \"mine\"", "\"anonymous\""][..],
        ),
        (bucket("credentials = 'static'"), &["bucket[0].access_key_id is missing", "write"]),
        (bucket("access_key_id = 'a'"), &["bucket[0].secret_key_file is missing", "name the file"]),
        (
            bucket("access_key_id = 'a'\nsecret_key_file = '/no/such'"),
            &["bucket[0].secret_key_file = \"/no/such\"", "can read"],
        ),
        (
            bucket("credentials = 'anonymous'\naccess_key_id = 'a'"),
            &["bucket[0].credentials: \"anonymous\" takes no access_key_id", "leave it out"],
        ),
        (
            bucket("credentials = 'web-identity'"),
            &["bucket[0].role_arn is missing", "write the ARN"],
        ),
        (bucket(ROLE), &["bucket[0].web_identity_token_file is missing", "name the file"]),
        (
            bucket(&format!("{ROLE}web_identity_token_file = '/no/such'")),
            &["bucket[0].web_identity_token_file = \"/no/such\"", "can read"],
        ),
        (
            bucket(&format!("{ROLE}secret_key_file = 'x'")),
            &["bucket[0].credentials: \"web-identity\" takes no secret_key_file", "leave it out"],
        ),
        (
            bucket("sts_endpoint = 'http://sts'"),
            &["\"default\" takes no sts_endpoint", "credentials = \"web-identity\""],
        ),
    ] {
        assert_refused(&file, expected);
    }
}

#[test]
fn every_refusal_of_who_may_ask_names_the_key_the_value_and_the_fix() {
    let bucket = |lines: &str| format!("{ONE_BUCKET}\n{lines}");
    for (file, expected) in [
        (bucket("[auth]\nmode = 'open'"), &["auth.mode = \"open\"", "\"none\""][..]),
        (
            bucket("[[auth.key]]\nid = 'a'"),
            &["auth.key[0].secret_file is missing", "name the file"],
        ),
        (bucket("[[auth.key]]\nsecret_file = 'a'"), &["auth.key[0].id is missing"]),
        (
            bucket("[auth]\nanonymous = [{ read = true }]"),
            &["auth.anonymous[0].bucket is missing", "name a bucket"],
        ),
        (
            bucket("[auth]\nanonymous = [{ bucket = 'train' }]"),
            &["auth.anonymous[0]: a permission is missing", "read, write or list = true"],
        ),
        (
            bucket("[auth]\nanonymous = [{ bucket = 'a/b', list = true }]"),
            &["auth.anonymous[0].bucket = \"a/b\"", "a-z"],
        ),
        (
            bucket("[auth]\nanonymous = [{ bucket = 'train', read = true, deny = true }]"),
            &["auth.anonymous", "only denies", "without deny"],
        ),
        (
            bucket("[auth]\nmode = 'none'\nanonymous = [{ bucket = 'train', read = true }]"),
            &["auth.anonymous", "auth = \"none\"", "leave one of the two out"],
        ),
    ] {
        assert_refused(&file, expected);
    }
}

/// Whether the error of a file says all that it should.
fn assert_refused(file: &str, expected: &[&str]) {
    let error = from_file(file).unwrap_err().to_string();
    for part in expected {
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
}

#[test]
fn flags_without_what_they_belong_to_are_refused() {
    let key = client_key();
    for (given, part) in [
        (flags(&[(Knob::CacheDir, "/a")]), "--origin URL --bucket NAME"),
        (flags(&[(Knob::CacheDir, "/a"), (Knob::Origin, "aws")]), "--bucket NAME"),
        (flags(&[(Knob::Origin, "http://h"), (Knob::Bucket, "b")]), "--cache-dir DIR"),
        (flags(&[(Knob::CacheDir, "/a"), (Knob::Bucket, "b")]), "--bucket: belongs to --origin"),
        (
            quick_start().with(Knob::Capacity, ["0%".to_owned()]),
            "--capacity = \"0%\": out of range",
        ),
    ] {
        let error = resolve("", &key, &given).unwrap_err().to_string();
        assert!(error.contains(part), "{error:?} does not say {part:?}");
    }
    let half = env(&[("FOREBAY_ACCESS_KEY_ID", "reader")]);
    let error = resolve("", &half, &quick_start()).unwrap_err().to_string();
    assert!(error.starts_with("FOREBAY_SECRET_ACCESS_KEY is missing"), "{error}");
}

#[test]
fn the_example_is_valid_and_shows_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "hunter2 and something that makes it long enough").unwrap();
    let example = include_str!("../forebay.example.toml")
        .replace("/etc/forebay/trainer.secret", &secret.display().to_string())
        .replace("/etc/forebay/origin.secret", &secret.display().to_string())
        .replace("/etc/forebay/cluster.secret", &secret.display().to_string())
        .replace("/var/run/secrets/sts/token", &secret.display().to_string());
    let shown = resolve(&example, &Environment::default(), &Flags::default()).unwrap();
    let default = resolve("", &client_key(), &quick_start()).unwrap();
    assert_eq!(shown.admin_listen, default.admin_listen);
    assert_eq!((shown.drain, shown.log_format), (default.drain, default.log_format));
    let (shown, default) = (worker(shown), worker(default));
    assert_eq!((shown.listen, shown.congestion), (default.listen, default.congestion));
    assert_eq!(shown.cache, default.cache);
    assert_eq!(shown.disks[0].capacity, default.disks[0].capacity);
    let (shown_rules, default_rules) = (shown.rules.unwrap(), default.rules.unwrap());
    assert_eq!(shown_rules.buckets[0].prefixes[0].1, default_rules.buckets[0].freshness);
    let flags = quick_start()
        .with(Knob::SecretFile, [secret.display().to_string()])
        .with(Knob::Voters, ["meta-0:9701".to_owned()])
        .with(Knob::DataAdvertise, ["10.0.0.5:9100".to_owned()])
        .with(Knob::S3Advertise, ["10.0.0.5:9000".to_owned()]);
    let member = worker(resolve("", &client_key(), &flags).unwrap()).cluster.unwrap();
    let shown = shown.cluster.unwrap();
    assert_eq!((shown.data_listen, &shown.zone), (member.data_listen, &member.zone));
    assert_eq!(shown.meta.unwrap().listen.to_string(), "0.0.0.0:9701");
}

#[test]
fn an_unreadable_file_is_named() {
    let error = RawConfig::read("/no/such/forebay.toml".as_ref()).unwrap_err().to_string();
    assert!(error.contains("/no/such/forebay.toml") && error.contains("--config"), "{error}");
}

#[test]
fn tls_is_off_until_both_of_its_files_are_named() {
    let of = |lines: &str| from_file(&format!("[worker]\n{lines}\n{ONE_BUCKET}"));
    assert_eq!(worker(of("").unwrap()).tls, None);
    let files = "tls_certificate_file = '/tls.crt'\ntls_key_file = '/tls.key'";
    let tls = worker(of(files).unwrap()).tls.unwrap();
    assert_eq!(tls.listen.to_string(), "0.0.0.0:9443");
    assert_eq!(tls.key_file.to_str(), Some("/tls.key"));
    for (lines, missing) in [
        ("tls_listen = '0.0.0.0:443'", "worker.tls_certificate_file is missing"),
        ("tls_certificate_file = '/tls.crt'", "worker.tls_key_file is missing"),
        ("tls_key_file = '/tls.key'", "worker.tls_certificate_file is missing"),
    ] {
        let error = of(lines).unwrap_err().to_string();
        assert!(error.contains(missing) && error.contains("PEM"), "{error}");
    }
}

#[test]
fn a_config_that_is_printed_shows_no_secret_of_the_environment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("forebay.toml");
    std::fs::write(&path, ONE_BUCKET).unwrap();
    let raw = RawConfig::read(&path).unwrap();
    let config = Config::resolve(raw, &client_key(), &Flags::default()).unwrap();
    let shown = format!("{config:?}");
    assert!(shown.contains("forebay.toml") && !shown.contains("hunter2"), "{shown}");
}
