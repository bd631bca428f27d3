//! Inputs that are nearly right: something valid, changed in a few places.

use proptest::prelude::*;
use proptest::sample::{Index, select};

/// A change of a text. Places are taken modulo its length.
#[derive(Debug, Clone)]
enum Edit {
    Insert(Index, String),
    Remove(Index, usize),
    Repeat(Index, usize),
    Swap(Index, Index),
}

/// One of `seeds` with a few edits, in which `words` are put in more often than letters.
pub(super) fn edited(
    seeds: &'static [&'static str],
    words: &'static [&'static str],
) -> impl Strategy<Value = String> {
    edited_one_of(seeds.iter().map(|seed| (*seed).to_owned()).collect(), words)
}

/// The same for texts that are made when the test runs.
pub(super) fn edited_one_of(
    seeds: Vec<String>,
    words: &'static [&'static str],
) -> impl Strategy<Value = String> {
    let edits = prop::collection::vec(edit(words), 0..8);
    (select(seeds), edits)
        .prop_map(|(seed, edits)| edits.iter().fold(seed, |text, edit| apply(&text, edit)))
}

/// Any text, or any row of words.
pub(super) fn anything(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    let row = prop::collection::vec(word(words), 0..40).prop_map(|words| words.concat());
    prop_oneof![row, "\\PC{0,60}", "[ -~]{0,60}"]
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop_oneof![
        3 => select(words).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => (0..128u8).prop_map(|byte| char::from(byte).to_string()),
    ]
}

fn edit(words: &'static [&'static str]) -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => (any::<Index>(), word(words)).prop_map(|(at, word)| Edit::Insert(at, word)),
        2 => (any::<Index>(), 1..8usize).prop_map(|(at, chars)| Edit::Remove(at, chars)),
        1 => (any::<Index>(), 1..20usize).prop_map(|(at, chars)| Edit::Repeat(at, chars)),
        1 => (any::<Index>(), any::<Index>()).prop_map(|(one, other)| Edit::Swap(one, other)),
    ]
}

fn apply(text: &str, edit: &Edit) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let place = |at: &Index| at.index(chars.len() + 1);
    match edit {
        Edit::Insert(at, word) => {
            let at = place(at);
            chars.splice(at..at, word.chars());
        }
        Edit::Remove(at, len) => {
            let at = place(at);
            chars.drain(at..chars.len().min(at + len));
        }
        Edit::Repeat(at, len) => {
            let at = place(at);
            let again = chars[at..chars.len().min(at + len)].to_vec();
            chars.splice(at..at, again);
        }
        Edit::Swap(one, other) if !chars.is_empty() => {
            let len = chars.len();
            chars.swap(one.index(len), other.index(len));
        }
        Edit::Swap(..) => {}
    }
    chars.into_iter().collect()
}
