//! Finds keys that mean nothing, and says which was meant.
//!
//! A walk over the parsed file; the keys that a table knows are asked of serde itself, so that
//! an error can name the full path and the nearest key.

use serde::de::{DeserializeOwned, Deserializer, Error as _, Visitor, value};
use toml::{Table, Value};

use super::error::ConfigError;
use super::raw::{
    RawAuth, RawBucket, RawCache, RawCluster, RawDisk, RawGrant, RawKey, RawMeta, RawPrefix,
    RawWorker,
};

/// The names that a table knows.
type Keys = &'static [&'static str];

/// A suggestion may differ from what was typed by this many letters.
const MAX_TYPOS: usize = 3;

/// Refuses the first key in `file`, whose top is a `T`, that has no meaning where it stands.
pub(super) fn check<T: DeserializeOwned>(file: &Table) -> Result<(), ConfigError> {
    check_keys(file, keys_of::<T>(), "", "")
}

/// Refuses the first key of `table` that is not one of `keys`. `at` is `kind` with indexes.
fn check_keys(table: &Table, keys: Keys, kind: &str, at: &str) -> Result<(), ConfigError> {
    for (key, value) in table {
        if !keys.contains(&key.as_str()) {
            return Err(unknown_key(&join(at, key), key, keys));
        }
        check_value(value, &join(kind, key), &join(at, key))?;
    }
    Ok(())
}

/// The keys of a table below the top, by its path without indexes.
fn keys_at(kind: &str) -> Option<Keys> {
    Some(match kind {
        "worker" => keys_of::<RawWorker>(),
        "disk" => keys_of::<RawDisk>(),
        "cache" => keys_of::<RawCache>(),
        "auth" => keys_of::<RawAuth>(),
        "auth.key" => keys_of::<RawKey>(),
        "auth.key.grants" | "auth.anonymous" => keys_of::<RawGrant>(),
        "bucket" => keys_of::<RawBucket>(),
        "bucket.prefix" => keys_of::<RawPrefix>(),
        "cluster" => keys_of::<RawCluster>(),
        "meta" => keys_of::<RawMeta>(),
        _ => return None,
    })
}

fn check_value(value: &Value, kind: &str, at: &str) -> Result<(), ConfigError> {
    match value {
        Value::Table(table) => {
            keys_at(kind).map_or(Ok(()), |keys| check_keys(table, keys, kind, at))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| check_value(item, kind, &format!("{at}[{index}]"))),
        _ => Ok(()),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.into() } else { format!("{path}.{key}") }
}

fn unknown_key(at: &str, key: &str, known: &[&'static str]) -> ConfigError {
    if let Some(instead) = file_for_secret(key, known) {
        return ConfigError::LiteralSecret { at: at.into(), instead };
    }
    let fix = match nearest(key, known) {
        Some(nearest) => format!("did you mean {nearest:?}?"),
        None => format!("use one of {}", known.join(", ")),
    };
    ConfigError::UnknownKey { at: at.into(), fix }
}

/// The key that should have been used, where the unknown one looks like a secret itself.
fn file_for_secret(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    let secret = ["secret", "password", "token"].iter().any(|word| key.contains(word));
    let own = known.iter().find(|name| name.strip_suffix("_file") == Some(&key));
    let instead = own.or_else(|| known.iter().find(|name| name.starts_with("secret")))?;
    (secret && !key.ends_with("file")).then_some(instead)
}

fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let distance = |name: &&'static str| edit_distance(key, name);
    let nearest = known.iter().copied().min_by_key(|name| distance(name))?;
    (distance(&nearest) <= MAX_TYPOS.min(key.len() / 2 + 1)).then_some(nearest)
}

/// Levenshtein's distance, one row at a time.
fn edit_distance(one: &str, two: &str) -> usize {
    let two: Vec<char> = two.chars().collect();
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in two.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[two.len()]
}

/// The keys that serde accepts for `T`.
fn keys_of<T: DeserializeOwned>() -> Keys {
    let mut keys: Keys = &[];
    // Always an error: the deserializer only listens for the names and has no value to give.
    let _ = T::deserialize(KeyListener(&mut keys));
    keys
}

struct KeyListener<'a>(&'a mut Keys);

impl<'de> Deserializer<'de> for KeyListener<'_> {
    type Error = value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        Err(Self::Error::custom("has no value"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Self::Error> {
        Err(Self::Error::custom("is not a struct"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::super::RawConfig;
    use super::*;

    fn refusal(text: &str) -> String {
        RawConfig::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_is_named_with_its_path_and_the_nearest_key() {
        assert_eq!(
            refusal("[worker]\nlistne = 'x'"),
            "worker.listne: unknown key: did you mean \"listen\"?"
        );
        assert_eq!(
            refusal(
                "[[bucket]]\nname = 'a'\n[[bucket]]\nname = 'b'\n[[bucket.prefix]]\nfreshnes = 1"
            ),
            "bucket[1].prefix[0].freshnes: unknown key: did you mean \"freshness\"?"
        );
        assert_eq!(
            refusal("[[auth.key]]\ngrants = [{ bucket = 'a', reed = true }]"),
            "auth.key[0].grants[0].reed: unknown key: did you mean \"read\"?"
        );
        assert_eq!(
            refusal("[auth]\nanonymous = [{ bucket = 'a', read = true }, { perfix = 'b' }]"),
            "auth.anonymous[1].perfix: unknown key: did you mean \"prefix\"?"
        );
        assert_eq!(
            refusal("[auth]\nanonymus = []"),
            "auth.anonymus: unknown key: did you mean \"anonymous\"?"
        );
        assert_eq!(
            refusal("[[bucket]]\nrole_arm = 'x'"),
            "bucket[0].role_arm: unknown key: did you mean \"role_arn\"?"
        );
        assert_eq!(refusal("[wrker]"), "wrker: unknown key: did you mean \"worker\"?");
    }

    #[test]
    fn an_unknown_key_that_is_near_nothing_lists_what_is_known() {
        let text = refusal("[cache]\nreplication = 3");
        assert_eq!(
            text,
            "cache.replication: unknown key: use one of read_ahead_blocks, fill_budget, versions_in_memory"
        );
    }

    #[test]
    fn a_literal_secret_is_refused_without_being_shown() {
        for (table, key, instead) in [
            ("[[auth.key]]", "secret", "secret_file"),
            ("[[auth.key]]", "secret_access_key", "secret_file"),
            ("[[bucket]]", "secret_key", "secret_key_file"),
            ("[[bucket]]", "aws_secret_access_key", "secret_key_file"),
            ("[[bucket]]", "session_token", "secret_key_file"),
            ("[[bucket]]", "web_identity_token", "web_identity_token_file"),
            ("[cluster]", "secret", "secret_file"),
        ] {
            let text = refusal(&format!("{table}\n{key} = 'hunter2'"));
            assert!(text.contains(&format!(".{key}:")), "{text}");
            assert!(text.ends_with(&format!("name that file with {instead}")), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn every_table_tells_its_keys() {
        let top = keys_of::<RawConfig>();
        assert_eq!(top, ["worker", "disk", "cache", "auth", "bucket", "cluster", "meta"]);
        for path in
            top.iter().chain(&["auth.key", "auth.key.grants", "auth.anonymous", "bucket.prefix"])
        {
            assert!(!keys_at(path).unwrap().is_empty(), "{path}");
        }
    }
}
