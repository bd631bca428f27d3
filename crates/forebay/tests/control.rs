//! What the commands that ask voters say when they cannot: what is wrong, and the way out.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use tempfile::TempDir;

/// A machine with a cluster's secret on it and no voter that answers.
struct Machine {
    dir: TempDir,
    dead: String,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let secret = dir.path().join("secret");
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
        std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let dead = port.local_addr().unwrap().to_string();
        Self { dir, dead }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        std::fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Runs a command with voters that do not answer.
    fn ask(&self, args: &[&str]) -> (String, Option<i32>) {
        let voters = ["--voters", &self.dead, "--secret-file", &self.path("secret")];
        forebay(&[args, &voters].concat())
    }
}

/// Everything that a command prints, and its exit code.
fn forebay(args: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    for variable in ["FOREBAY_CONFIG", "FOREBAY_VOTERS", "FOREBAY_SECRET_FILE"] {
        command.env_remove(variable);
    }
    let output = command.args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code())
}

#[test]
fn voters_that_do_not_answer_are_named_with_what_to_check() {
    let machine = Machine::new();
    for command in [
        &["status"][..],
        &["ring", "show"],
        &["ring", "drain", "ab"],
        &["ring", "undrain", "ab"],
        &["ring", "forget", "ab", "--yes"],
        &["ring", "set", "--virtual-nodes", "100"],
        &["meta", "members"],
        &["meta", "remove", "1", "--yes"],
        &["rules", "show"],
    ] {
        let (text, code) = machine.ask(command);
        assert_eq!(code, Some(1), "{command:?}: {text}");
        assert!(text.starts_with("error: no voter answers"), "{command:?}: {text}");
        assert!(text.contains(&machine.dead) && text.contains("that voters run"), "{text}");
    }
}

#[test]
fn a_command_without_voters_or_secret_ends_with_2_and_says_how_to_name_them() {
    let machine = Machine::new();
    let secret = machine.path("secret");
    let short = machine.write("short", "hunter2");
    for (args, parts) in [
        (&["ring", "show"][..], ["cluster.secret_file is missing", "--secret-file FILE"]),
        (&["ring", "show", "--secret-file", &secret], ["cluster.voters is missing", "--voters"]),
        (
            &["ring", "show", "--secret-file", &short],
            ["--secret-file", "holds a secret of 7 bytes"],
        ),
        (
            &["meta", "members", "--secret-file", &secret, "--voters", "meta-0"],
            ["--voters = \"meta-0\"", "write HOST:PORT"],
        ),
        (&["rules", "show", "--config", "/no/such"], ["/no/such", "--config"]),
    ] {
        let (text, code) = forebay(args);
        assert_eq!(code, Some(2), "{text}");
        for part in parts {
            assert!(text.contains(part), "{args:?}: {text:?} does not say {part:?}");
        }
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn the_config_file_of_a_worker_or_a_voter_names_the_voters() {
    let machine = Machine::new();
    let cluster = format!("[cluster]\nsecret_file = '{}'\n", machine.path("secret"));
    let of_worker = format!("{cluster}voters = ['{}']\n", machine.dead);
    let of_voter = format!(
        "{cluster}[meta]\nid = 1\ndir = '/m'\nlisten = '{0}'\ninitial_voters = ['1={0}']\n",
        machine.dead
    );
    for text in [of_worker, of_voter] {
        let file = machine.write("forebay.toml", &text);
        let (text, code) = forebay(&["meta", "members", "--config", &file]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("no voter answers ({}:", machine.dead)), "{text}");
    }
}

#[test]
fn rules_are_checked_before_any_voter_is_asked() {
    let machine = Machine::new();
    let bucket = "[[bucket]]\nname = 'train'\norigin = 'http://10.0.0.1:9001'\n";
    for (text, part) in [
        (format!("{bucket}freshness = 'fresh'"), "bucket[0].freshness = \"fresh\""),
        (format!("{bucket}[worker]\nlisten = 'x'"), "worker: unknown key"),
        (String::new(), "a bucket is missing"),
        ("[[auth.key]]\nsecret = 'hunter2'".into(), "must not hold a secret"),
    ] {
        let file = machine.write("rules.toml", &text);
        let (text, code) = machine.ask(&["rules", "apply", &file]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(part) && text.contains(&file), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    let file = machine.write("rules.toml", bucket);
    let (text, code) = machine.ask(&["rules", "apply", &file]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("warning: auth has no key") && text.contains("no voter answers"),
        "{text}"
    );
}

#[test]
fn a_snapshot_never_overwrites_and_leaves_nothing_behind_when_it_fails() {
    let machine = Machine::new();
    let taken = machine.write("taken", "precious");
    let (text, code) = machine.ask(&["meta", "snapshot", &taken]);
    assert!(code == Some(1) && text.contains("name a new file"), "{text}");
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "precious");

    let new = machine.path("new");
    let (text, code) = machine.ask(&["meta", "snapshot", &new]);
    assert!(code == Some(1) && text.contains("no voter answers"), "{text}");
    assert!(!std::fs::exists(&new).unwrap());
}

#[test]
fn what_is_not_a_command_ends_with_2() {
    for args in [
        &["ring"][..],
        &["ring", "drain"],
        &["ring", "set"],
        &["meta", "add", "4"],
        &["meta", "add", "four", "meta-3:9701"],
        &["meta", "restore", "--dir", "/m", "--id", "4", "--advertise", "meta-3:9701"],
        &["rules", "apply"],
    ] {
        let (text, code) = forebay(args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
    }
}
