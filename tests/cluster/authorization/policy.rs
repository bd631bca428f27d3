//! Who may do what: the callers of the matrix, the rules that tell the cluster, and a second
//! opinion on what these rules mean. The opinion goes name by name and shares nothing with the
//! worker's.

use std::fmt::Write;
use std::path::Path;

use forebay_testkit::AccessKey;

/// One line of what a key may or may not do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement {
    denies: bool,
    /// `*` for all.
    bucket: &'static str,
    prefix: &'static str,
    /// Of `r`ead, `w`rite and `l`ist.
    rights: &'static str,
}

const fn allow(bucket: &'static str, prefix: &'static str, rights: &'static str) -> Statement {
    Statement { denies: false, bucket, prefix, rights }
}

const fn deny(bucket: &'static str, prefix: &'static str, rights: &'static str) -> Statement {
    Statement { denies: true, bucket, prefix, rights }
}

/// An access key that the rules know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) id: &'static str,
    pub(super) statements: &'static [Statement],
}

/// Every kind of grant: whole buckets, prefixes, single rights, denials inside permissions, a
/// permission inside a denial, and one that touches nothing here.
pub(super) const KEYS: [Key; 10] = [
    Key { id: "EVERYTHING", statements: &[allow("*", "", "rwl")] },
    Key { id: "TRAINER", statements: &[allow("train", "", "rl")] },
    Key { id: "TEAM", statements: &[allow("train", "team/", "rwl")] },
    Key { id: "READER", statements: &[allow("train", "", "r"), allow("eval", "team/", "r")] },
    Key { id: "WRITER", statements: &[allow("train", "", "w"), allow("scratch", "", "w")] },
    Key { id: "LISTER", statements: &[allow("train", "", "l"), allow("eval", "secret/", "l")] },
    Key { id: "CAREFUL", statements: &[allow("*", "", "rwl"), deny("train", "secret/", "rwl")] },
    Key {
        id: "NESTED",
        statements: &[
            allow("train", "team/", "rwl"),
            deny("train", "team/private/", "r"),
            allow("train", "team/private/", "r"),
            deny("eval", "", "l"),
            allow("eval", "", "rl"),
        ],
    },
    Key {
        id: "FROZEN",
        statements: &[allow("*", "", "rwl"), deny("*", "", "w"), deny("scratch", "open/", "l")],
    },
    Key { id: "ELSEWHERE", statements: &[allow("attic", "", "rwl"), deny("train", "team", "l")] },
];

/// What callers may do that do not sign.
pub(super) const ANONYMOUS: &[Statement] = &[
    allow("train", "team/", "rwl"),
    deny("train", "team/private/", "r"),
    allow("train", "open/", "r"),
];

/// What an operation needs.
#[derive(Debug, Clone)]
pub(super) enum Need {
    /// A right on one key.
    Key(char, &'static str, String),
    /// To see every name that begins so.
    Names(&'static str, String),
    /// To know that the bucket is there.
    Bucket(&'static str),
    /// To know which buckets there are.
    Buckets,
}

impl Key {
    /// What the key signs with.
    pub(super) fn access_key(&self) -> AccessKey {
        AccessKey::new(self.id, &format!("secret-of-{}-0123456789", self.id))
    }
}

/// Whether somebody of whom these statements speak may do what needs this.
pub(super) fn may(statements: &[Statement], need: &Need) -> bool {
    match need {
        Need::Key(right, bucket, key) => has(statements, *right, bucket, key),
        Need::Names(bucket, prefix) => {
            let begins = |name: &&str| name.starts_with(prefix.as_str());
            let borders = statements.iter().map(|s| s.prefix).filter(begins);
            borders.chain([prefix.as_str()]).all(|name| has(statements, 'l', bucket, name))
        }
        Need::Bucket(bucket) => {
            let speaks = |s: &&Statement| s.speaks_of(bucket);
            let hidden = |s: &Statement| s.denies && s.prefix.is_empty() && s.rights.contains('l');
            statements.iter().filter(speaks).any(|s| !s.denies)
                && !statements.iter().filter(speaks).any(hidden)
        }
        Need::Buckets => {
            let whole = |s: &&Statement| s.prefix.is_empty() && s.rights.contains('l');
            let whole = || statements.iter().filter(whole);
            whole().any(|s| !s.denies && s.bucket == "*") && !whole().any(|s| s.denies)
        }
    }
}

fn has(statements: &[Statement], right: char, bucket: &str, name: &str) -> bool {
    let of_it = |s: &&Statement| {
        s.speaks_of(bucket) && s.rights.contains(right) && name.starts_with(s.prefix)
    };
    let mut last_word = statements.iter().filter(of_it).peekable();
    last_word.peek().is_some() && last_word.all(|s| !s.denies)
}

impl Statement {
    fn speaks_of(&self, bucket: &str) -> bool {
        self.bucket == "*" || self.bucket == bucket
    }
}

/// The rules in the words of a config file; secrets go to files of their own in `dir`.
pub(super) fn rules(
    keys: &[Key],
    anonymous: &[Statement],
    buckets: &[(&str, &str)],
    origin: &str,
    dir: &Path,
) -> std::io::Result<String> {
    let mut text = format!("[auth]\nanonymous = [{}]\n", grants(anonymous));
    for key in keys {
        let secret_file = dir.join(format!("{}.secret", key.id));
        std::fs::write(&secret_file, key.access_key().secret)?;
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "[[auth.key]]\nid = {:?}\nsecret_file = \"{}\"\ngrants = [{}]",
            key.id,
            secret_file.display(),
            grants(key.statements),
        );
    }
    for (bucket, freshness) in buckets {
        let _ = writeln!(
            text,
            "[[bucket]]\nname = {bucket:?}\norigin = {origin:?}\nregion = \"us-east-1\"\n\
             freshness = {freshness:?}"
        );
    }
    Ok(text)
}

fn grants(statements: &[Statement]) -> String {
    statements.iter().map(Statement::as_grant).collect::<Vec<_>>().join(", ")
}

impl Statement {
    fn as_grant(&self) -> String {
        let Self { denies, bucket, prefix, rights } = self;
        let has = |right| rights.contains(right);
        format!(
            "{{ bucket = {bucket:?}, prefix = {prefix:?}, read = {}, write = {}, list = {}, \
             deny = {denies} }}",
            has('r'),
            has('w'),
            has('l'),
        )
    }
}
