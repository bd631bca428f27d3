//! What processes and the machine spent, from `/proc`.

use std::io;
use std::path::Path;

use forebay_testkit::process::Usage;

use crate::error::BenchError;
use crate::target::Target;

/// What was spent up to a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    server_cpu_s: Option<f64>,
    client_cpu_s: f64,
    busy_s: f64,
    total_s: f64,
    disk_bytes: Option<u64>,
}

/// What was spent between two moments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spending {
    /// User and system time of the target's processes, if they are known.
    pub(crate) server_cpu_s: Option<f64>,
    /// The same of this process.
    pub(crate) client_cpu_s: f64,
    /// Share of the machine that others used, if the target's processes are known.
    pub(crate) foreign_ratio: Option<f64>,
    /// Bytes that the target's processes had read from disks, if that is known.
    pub(crate) disk_bytes: Option<u64>,
}

impl Spent {
    pub(crate) fn so_far(target: &Target) -> Result<Self, BenchError> {
        let (busy_s, total_s) = busy_and_total_s()?;
        let of_process = |pid: u32| {
            let failed = |source| {
                let target = target.name().to_owned();
                BenchError::Process { target, pid, source }
            };
            Usage::of(pid).map(|usage| usage.cpu_seconds).map_err(failed)
        };
        let pids = target.pids();
        let server_cpu_s = match pids {
            [] => None,
            pids => Some(pids.iter().map(|pid| of_process(*pid)).sum::<Result<f64, _>>()?),
        };
        let disk_bytes = pids.iter().map(|pid| disk_bytes(*pid)).sum::<Option<u64>>();
        Ok(Self {
            server_cpu_s,
            client_cpu_s: of_process(std::process::id())?,
            busy_s,
            total_s,
            disk_bytes: disk_bytes.filter(|_| !pids.is_empty()),
        })
    }

    pub(crate) fn since(self, before: Self) -> Spending {
        let server_cpu_s = self.server_cpu_s.zip(before.server_cpu_s).map(|(now, then)| now - then);
        let client_cpu_s = self.client_cpu_s - before.client_cpu_s;
        let foreign_ratio = server_cpu_s.map(|server_cpu_s| {
            let foreign_s = self.busy_s - before.busy_s - server_cpu_s - client_cpu_s;
            (foreign_s / (self.total_s - before.total_s).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
        });
        let disk_bytes = self.disk_bytes.zip(before.disk_bytes);
        let disk_bytes = disk_bytes.map(|(now, then)| now.saturating_sub(then));
        Spending { server_cpu_s, client_cpu_s, foreign_ratio, disk_bytes }
    }
}

/// Of all cores together: seconds in which they worked or were stolen, and all seconds.
fn busy_and_total_s() -> Result<(f64, f64), BenchError> {
    let failed = |source| BenchError::File { path: "/proc/stat".into(), source };
    let stat = std::fs::read_to_string("/proc/stat").map_err(failed)?;
    let (busy, total) = busy_and_total_ticks(&stat).ok_or_else(|| {
        failed(io::Error::new(io::ErrorKind::InvalidData, "no line of all cores"))
    })?;
    let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok((busy as f64 / ticks_per_second, total as f64 / ticks_per_second))
}

/// user, nice, system, idle, iowait, irq, softirq, steal; what follows is counted in user.
fn busy_and_total_ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|t| t.parse().ok()).collect();
    let [_, _, _, idle, iowait, ..] = ticks.as_slice() else { return None };
    let total: u64 = ticks.iter().sum();
    Some((total - idle - iowait, total))
}

fn disk_bytes(pid: u32) -> Option<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
}

/// A process and those that it started, theirs too.
pub fn process_tree(pid: u32) -> io::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(child) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process that has ended since is nobody's child.
        let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(&name).join("stat")) else {
            continue;
        };
        parents.extend(parent(&stat).map(|parent| (child, parent)));
    }
    let mut tree = vec![pid];
    let mut next = 0;
    while let Some(parent) = tree.get(next).copied() {
        tree.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    Ok(tree)
}

/// The second field after the command's name, which is in brackets and may hold anything.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_cores_are_not_busy() {
        let stat = "cpu  10 1 5 100 20 1 2 3 4 4\ncpu0 1 1 1 1\n";
        assert_eq!(busy_and_total_ticks(stat), Some((22, 142)));
        assert_eq!(busy_and_total_ticks("cpu0 1 2 3 4 5\n"), None);
    }

    #[test]
    fn foreign_load_is_what_neither_server_nor_client_spent() {
        let spent = |server, client_cpu_s, busy_s, total_s| Spent {
            server_cpu_s: Some(server),
            client_cpu_s,
            busy_s,
            total_s,
            disk_bytes: Some(7),
        };
        let spending = spent(2.0, 3.0, 16.0, 120.0).since(spent(1.0, 1.0, 10.0, 100.0));
        assert_eq!(spending.server_cpu_s, Some(1.0));
        assert_eq!(spending.foreign_ratio, Some(3.0 / 20.0));
        assert_eq!(spending.disk_bytes, Some(0));
    }

    #[test]
    fn a_child_is_in_the_tree_of_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = process_tree(std::process::id()).unwrap();
        assert!(tree.contains(&child.id()), "{tree:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(parent("7 (a) R 1) S 42 7 7"), Some(42));
    }
}
