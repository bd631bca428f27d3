//! What is asked for: how much at a time, over how many connections, of which objects.

use std::ops::RangeInclusive;

use crate::error::BenchError;
use crate::limits::SET_MAX_BYTES;
use crate::objects::Object;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// How much one request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A whole object.
    Whole,
    /// An aligned range of this many bytes.
    Range(u64),
}

/// Which piece comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other, and again from the first.
    Turns,
    /// Any, each time.
    Random,
    /// Each once, shuffled; then the round ends.
    Once,
}

/// A kind of load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workload {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it does.
    pub what: String,
    /// Connections that ask at the same time.
    pub connections: usize,
    /// How much each request asks for.
    pub read: Read,
    /// In which order.
    pub order: Order,
    sizes: RangeInclusive<u64>,
    max_objects: usize,
}

impl Workload {
    /// All of them, in the order in which they are measured.
    pub fn all() -> [Self; 5] {
        let of_large = |name, what: &str, connections, read_bytes| Self {
            name,
            what: what.to_owned(),
            connections,
            read: Read::Range(read_bytes),
            order: Order::Random,
            sizes: 16 * MIB..=u64::MAX,
            max_objects: 16,
        };
        let whole = |name, what: &str, connections, order, sizes, max_objects| Self {
            name,
            what: what.to_owned(),
            connections,
            read: Read::Whole,
            order,
            sizes,
            max_objects,
        };
        let (shard, sample) = (16 * MIB..=256 * MIB, 16 * KIB..=MIB);
        [
            whole("w1", "whole 64 MiB objects x 4", 4, Order::Turns, shard, 16),
            of_large("w2", "8 MiB ranges x 16", 16, 8 * MIB),
            whole("w3", "whole 100 KiB objects x 64", 64, Order::Random, sample, 2000),
            of_large("w4", "4 KiB ranges x 64", 64, 4 * KIB),
            of_large("first-byte", "4 KiB ranges x 1", 1, 4 * KIB),
        ]
    }

    /// The one of this name.
    pub fn named(name: &str) -> Result<Self, BenchError> {
        let lower = name.to_ascii_lowercase();
        Self::all().into_iter().find(|workload| workload.name == lower).ok_or_else(|| {
            let names = Self::all().map(|workload| workload.name).join(", ");
            BenchError::argument("workload", name, format!("write one of {names}"))
        })
    }

    /// Ranges of this length over so many connections, of objects of any size.
    pub fn ranges(name: &'static str, connections: usize, read_bytes: u64) -> Self {
        let (size, unit) = if read_bytes >= MIB { (MIB, "MiB") } else { (KIB, "KiB") };
        Self {
            name,
            what: format!("{} {unit} ranges x {connections}", read_bytes / size),
            connections,
            read: Read::Range(read_bytes),
            order: Order::Turns,
            sizes: 1..=u64::MAX,
            max_objects: 1,
        }
    }

    /// The same, with each piece read at most once a round: for what is read from a disk.
    pub fn once(mut self) -> Self {
        self.order = Order::Once;
        self
    }

    /// The objects that it reads: the largest that fit it, up to 2 GiB.
    pub fn choose(&self, objects: &[Object]) -> Result<Vec<Object>, BenchError> {
        let fits = |object: &&Object| self.sizes.contains(&object.size_bytes);
        let mut fitting: Vec<Object> = objects.iter().filter(fits).cloned().collect();
        fitting.sort_by_key(|object| std::cmp::Reverse(object.size_bytes));
        fitting.truncate(self.max_objects);
        let mut set_bytes = 0;
        fitting.retain(|object| {
            let is_taken = set_bytes == 0 || set_bytes + object.size_bytes <= SET_MAX_BYTES;
            set_bytes += if is_taken { object.size_bytes } else { 0 };
            is_taken
        });
        if fitting.is_empty() {
            return Err(BenchError::NothingToRead(self.lack()));
        }
        Ok(fitting)
    }

    fn lack(&self) -> String {
        let (least, most) = (self.sizes.start() >> 10, self.sizes.end() >> 10);
        let sizes = match self.sizes.end() {
            &u64::MAX => format!("at least {least} KiB"),
            _ => format!("{least} KiB to {most} KiB"),
        };
        format!("{} ({}) needs an object of {sizes}, and there is none", self.name, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(sizes: &[u64]) -> Vec<Object> {
        let named = |(index, size)| Object::new(&format!("o{index}"), size);
        sizes.iter().copied().enumerate().map(named).collect()
    }

    fn sizes(chosen: &[Object]) -> Vec<u64> {
        chosen.iter().map(|object| object.size_bytes).collect()
    }

    #[test]
    fn each_workload_takes_the_objects_that_fit_it() {
        let all = objects(&[100 << 10, 64 << 20, 1 << 30, 5]);
        let chosen = |name| sizes(&Workload::named(name).unwrap().choose(&all).unwrap());
        assert_eq!(chosen("w1"), [64 << 20]);
        assert_eq!(chosen("W2"), [1 << 30, 64 << 20]);
        assert_eq!(chosen("w3"), [100 << 10]);
        assert_eq!(chosen("w4"), [1 << 30, 64 << 20]);
    }

    #[test]
    fn a_set_is_at_most_2_gib_unless_its_first_object_is_larger() {
        let w2 = Workload::named("w2").unwrap();
        let gib = 1 << 30;
        assert_eq!(sizes(&w2.choose(&objects(&[gib, gib, gib])).unwrap()), [gib, gib]);
        assert_eq!(sizes(&w2.choose(&objects(&[9 * gib, gib])).unwrap()), [9 * gib]);
    }

    #[test]
    fn what_is_missing_and_what_is_misnamed_is_said() {
        let error = Workload::named("w3").unwrap().choose(&objects(&[5])).unwrap_err();
        let expected = "w3 (whole 100 KiB objects x 64) needs an object of 16 KiB to 1024 KiB, \
                        and there is none";
        assert_eq!(error.to_string(), expected);
        let error = Workload::named("w9").unwrap_err();
        assert!(error.is_misuse());
        let expected = "workload \"w9\": write one of w1, w2, w3, w4, first-byte";
        assert_eq!(error.to_string(), expected);
    }
}
