//! A worker's settings: where it serves, where it keeps blocks, what it may use.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use forebay_zerocopy::Congestion;

use super::error::{ConfigError, Refusal, missing};
use super::layers::{Knob, Layers, Setting};
use super::raw::{RawCache, RawConfig, RawDisk};
use super::{
    CacheSettings, Capacity, DiskRule, RulesFile, WorkerConfig, address, cluster, parse_size,
    rules, tls,
};

const DEFAULT_LISTEN: &str = "0.0.0.0:9000";
const DEFAULT_CAPACITY: Capacity = Capacity::Percent(90);
const DEFAULT_READ_AHEAD_BLOCKS: u64 = 8;
const MAX_READ_AHEAD_BLOCKS: u64 = 1024;
const DEFAULT_FILL_BUDGET_BYTES: u64 = 512 << 20;
const DEFAULT_VERSIONS_IN_MEMORY: u64 = 1_000_000;
const MAX_VERSIONS_IN_MEMORY: u64 = 1 << 31;

/// Gives a worker's settings their meaning.
pub(super) fn resolve(
    file: RawConfig,
    layers: Layers<'_>,
    warnings: &mut Vec<String>,
) -> Result<WorkerConfig, ConfigError> {
    let RawConfig {
        worker,
        disk,
        cache: raw_cache,
        auth,
        bucket,
        cluster: raw_cluster,
        meta,
        path,
    } = file;
    let tls = tls::resolve(&worker)?;
    let listen = layers.or_file(Knob::Listen, "worker.listen", worker.listen);
    let listen = address::listen(listen, DEFAULT_LISTEN)?;
    let congestion = worker.congestion.map(|name| Setting::new("worker.congestion", name));
    let is_alone = !cluster::is_given(raw_cluster.as_ref(), meta.as_ref(), layers);
    let rules = if is_alone {
        Some(rules::resolve(bucket, auth, layers, warnings)?)
    } else {
        rules::resolve_own(bucket, auth, layers, warnings)?
    };
    rules.as_ref().map_or(Ok(()), |rules| rules.refuse_loop(listen))?;
    let disks = disks(disk, layers)?;
    let cluster = (!is_alone)
        .then(|| cluster::resolve(raw_cluster.unwrap_or_default(), meta, listen, layers, warnings))
        .transpose()?;
    Ok(WorkerConfig {
        listen,
        tls,
        domains: domains(worker.domains)?,
        congestion: congestion.map_or(Ok(Congestion::Auto), |s| s.parse(congestion_control))?,
        disks,
        cache: cache(raw_cache)?,
        rules,
        rules_file: path.map(|path| RulesFile::new(path, listen, layers)),
        cluster,
    })
}

fn congestion_control(text: &str) -> Result<Congestion, Refusal> {
    text.parse().map_err(|_| {
        Refusal::new(
            "no such algorithm",
            "use \"auto\", \"keep\" or one that net.ipv4.tcp_available_congestion_control lists",
        )
    })
}

fn domains(names: Vec<String>) -> Result<Vec<String>, ConfigError> {
    let domain = |(index, name): (usize, String)| {
        Setting::new(format!("worker.domains[{index}]"), name).parse(domain_name)
    };
    names.into_iter().enumerate().map(domain).collect()
}

fn domain_name(text: &str) -> Result<String, Refusal> {
    let letters_ok = text.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b));
    if text.is_empty() || !letters_ok {
        return Err(Refusal::new(
            "not a host name",
            "write it as in \"s3.example.com\", without a port",
        ));
    }
    Ok(text.to_ascii_lowercase())
}

/// Flags replace the file's disks; `--capacity` alone changes the limit of each of them.
fn disks(raw: Vec<RawDisk>, layers: Layers<'_>) -> Result<Vec<DiskRule>, ConfigError> {
    let capacity = layers.one(Knob::Capacity).map(|given| given.parse(capacity)).transpose()?;
    let dirs = layers.all(Knob::CacheDir);
    let mut rules = Vec::new();
    if dirs.is_empty() {
        for (index, disk) in raw.into_iter().enumerate() {
            rules.push(file_disk(disk, &format!("disk[{index}]"), capacity)?);
        }
    }
    rules.extend(dirs.iter().map(|dir| DiskRule {
        path: PathBuf::from(&dir.value),
        capacity: capacity.unwrap_or(DEFAULT_CAPACITY),
    }));
    if rules.is_empty() {
        return Err(missing(
            "a cache directory",
            "say --cache-dir DIR, or write a [[disk]] with a path into the file given with --config",
        ));
    }
    refuse_twins(&rules)?;
    Ok(rules)
}

fn file_disk(raw: RawDisk, at: &str, over: Option<Capacity>) -> Result<DiskRule, ConfigError> {
    let path = raw
        .path
        .filter(|path| !path.as_os_str().is_empty())
        .ok_or_else(|| missing(format!("{at}.path"), "name a directory on the disk"))?;
    let own = raw.capacity.map(|text| Setting::new(format!("{at}.capacity"), text).parse(capacity));
    Ok(DiskRule { path, capacity: over.or(own.transpose()?).unwrap_or(DEFAULT_CAPACITY) })
}

fn capacity(text: &str) -> Result<Capacity, Refusal> {
    Capacity::parse(text)
        .map_err(|error| Refusal::new(error.to_string(), "write it as in \"90%\" or \"500GiB\""))
}

fn refuse_twins(rules: &[DiskRule]) -> Result<(), ConfigError> {
    for (index, rule) in rules.iter().enumerate() {
        if rules[..index].iter().any(|other| other.path == rule.path) {
            return Err(ConfigError::Conflict {
                at: format!("cache directory {}", rule.path.display()),
                reason: "is named twice".into(),
                fix: "name each directory once".into(),
            });
        }
    }
    Ok(())
}

fn cache(raw: RawCache) -> Result<CacheSettings, ConfigError> {
    let ahead =
        raw.read_ahead_blocks.map(|n| Setting::new("cache.read_ahead_blocks", n.to_string()));
    let versions =
        raw.versions_in_memory.map(|n| Setting::new("cache.versions_in_memory", n.to_string()));
    let budget = raw.fill_budget.map(|text| Setting::new("cache.fill_budget", text));
    Ok(CacheSettings {
        read_ahead_blocks: ahead.map_or(Ok(DEFAULT_READ_AHEAD_BLOCKS), |s| {
            s.parse(|n| count(n, 0..=MAX_READ_AHEAD_BLOCKS))
        })?,
        fill_budget_bytes: budget
            .map_or(Ok(DEFAULT_FILL_BUDGET_BYTES), |s| s.parse(fill_budget))?,
        versions_in_memory: versions.map_or(Ok(DEFAULT_VERSIONS_IN_MEMORY), |s| {
            s.parse(|n| count(n, 1..=MAX_VERSIONS_IN_MEMORY))
        })?,
    })
}

fn count(text: &str, allowed: RangeInclusive<u64>) -> Result<u64, Refusal> {
    match text.parse() {
        Ok(count) if allowed.contains(&count) => Ok(count),
        _ => {
            let (least, most) = allowed.into_inner();
            Err(Refusal::new("out of range", format!("write a number from {least} to {most}")))
        }
    }
}

/// A fill holds at least one block, so a smaller budget would let nothing through.
fn fill_budget(text: &str) -> Result<u64, Refusal> {
    const MIN_BLOCKS: u64 = 4;
    let least = MIN_BLOCKS * forebay_types::BLOCK_BYTES;
    match parse_size(text) {
        Ok(bytes) if bytes >= least => Ok(bytes),
        Ok(_) => Err(Refusal::new(
            "too small to fill blocks",
            format!("write at least {}MiB", least >> 20),
        )),
        Err(error) => Err(Refusal::new(error.to_string(), "write it as in \"512MiB\"")),
    }
}
