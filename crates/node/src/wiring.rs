//! The one place where the parts are put together, in the order in which bytes pass them.

use std::path::Path;
use std::sync::Arc;

use forebay_cache::{Cache, CacheConfig, CacheParts};
use forebay_origin::{CredentialsSource, Origin, OriginConfig};
use forebay_rt::{SharedClock, SharedRng, SystemClock, SystemRng};
use forebay_s3::{
    AccessKey, AccessKeys, BucketPattern, DEFAULT_MAX_CONNECTIONS, Domains, Edge, EdgeParts, Grant,
    RingPage,
};
use forebay_store::{DiskConfig, Store, StoreConfig};
use forebay_telemetry::{Apps, Exporter, ExporterError};
use forebay_types::{BucketName, RuleId};
use parking_lot::Mutex;

use crate::adapters::Disks;
use crate::cluster::Neighbours;
use crate::config::{
    Auth, BucketRule, CacheSettings, Capacity, DiskRule, Endpoint, OriginIdentity, OriginRule,
};
use crate::error::StartError;
use crate::live_rules::LiveRules;
use crate::origins::{Known, OriginTable, Origins};

/// Time and chance of a process.
#[derive(Clone)]
pub(crate) struct Runtime {
    pub(crate) clock: SharedClock,
    pub(crate) rng: SharedRng,
}

impl Runtime {
    pub(crate) fn of_machine() -> Self {
        Self { clock: Arc::new(SystemClock), rng: Arc::new(SystemRng) }
    }
}

pub(crate) fn open_store(rules: &[DiskRule], runtime: &Runtime) -> Result<Arc<Store>, StartError> {
    let disks = rules.iter().map(disk_config).collect();
    let config = StoreConfig { disks, ..StoreConfig::default() };
    Ok(Store::open(config, runtime.clock.clone())?)
}

/// The recorder is the process's; workers of one test process share it.
pub(crate) fn exporter() -> Result<Exporter, ExporterError> {
    static EXPORTER: Mutex<Option<Exporter>> = Mutex::new(None);
    let mut exporter = EXPORTER.lock();
    if let Some(installed) = &*exporter {
        return Ok(installed.clone());
    }
    Ok(exporter.insert(Exporter::install()?).clone())
}

fn disk_config(rule: &DiskRule) -> DiskConfig {
    let capacity_bytes = match rule.capacity {
        Capacity::Bytes(bytes) => Some(bytes),
        Capacity::Percent(percent) => share_of_volume(&rule.path, percent),
    };
    DiskConfig { path: rule.path.clone(), capacity_bytes }
}

/// `None`, which is the store's own default, where the volume cannot be asked: the store will
/// find the same trouble and name it.
fn share_of_volume(path: &Path, percent: u8) -> Option<u64> {
    std::fs::create_dir_all(path).ok()?;
    let volume = rustix::fs::statvfs(path).ok()?;
    Some(volume.f_blocks.saturating_mul(volume.f_frsize) / 100 * u64::from(percent))
}

/// A cache over this store and these origins, alone or with others.
pub(crate) fn cache(
    settings: CacheSettings,
    store: &Arc<Store>,
    origins: &Arc<Origins>,
    neighbours: Neighbours,
    runtime: &Runtime,
) -> Arc<Cache> {
    let disks = Arc::new(Disks(store.clone()));
    let Neighbours { placement, peers, previous, fence } = neighbours;
    Cache::new(CacheParts {
        local: disks.clone(),
        versions: disks,
        origin: origins.clone(),
        forward: origins.clone(),
        placement,
        peers,
        previous,
        fence,
        clock: runtime.clock.clone(),
        rng: runtime.rng.clone(),
        config: CacheConfig {
            read_ahead_blocks: settings.read_ahead_blocks,
            fill_budget_bytes: settings.fill_budget_bytes,
            versions_in_memory: settings.versions_in_memory as usize,
        },
    })
}

/// Rules with the same origin, region and credentials share its connections and its limit.
pub(crate) async fn connect_origins(
    rules: &[BucketRule],
    runtime: &Runtime,
) -> Result<OriginTable, StartError> {
    let mut connected: Vec<(&OriginRule, Arc<Origin>)> = Vec::new();
    let mut table = OriginTable::default();
    for rule in rules {
        let known = connected.iter().find(|(origin, _)| **origin == rule.origin);
        let origin = match known {
            Some((_, origin)) => origin.clone(),
            None => connect(rule, rules, runtime).await?,
        };
        connected.push((&rule.origin, origin.clone()));
        let known = Known { rule: rule_id(rule), origin };
        match rule.name() {
            Some(bucket) => drop(table.by_bucket.insert(bucket.clone(), known)),
            None => table.default = Some(known),
        }
    }
    let one = rules.iter().all(|rule| rule.origin == rules[0].origin);
    table.only = connected.first().filter(|_| one).map(|(_, origin)| origin.clone());
    Ok(table)
}

async fn connect(
    rule: &BucketRule,
    all: &[BucketRule],
    runtime: &Runtime,
) -> Result<Arc<Origin>, StartError> {
    let sharing = all.iter().filter(|other| other.origin == rule.origin);
    let metric_buckets: Vec<BucketName> =
        sharing.filter_map(|other| other.name().cloned()).collect();
    let credentials = credentials(&rule.origin.credentials);
    let config = match &rule.origin.endpoint {
        Endpoint::Aws => OriginConfig::aws(credentials),
        Endpoint::Url(url) => OriginConfig::at(url, credentials),
    };
    let config =
        OriginConfig { region: Some(rule.origin.region.clone()), metric_buckets, ..config };
    Origin::connect(config, runtime.clock.clone(), runtime.rng.clone())
        .await
        .map_err(|source| StartError::Origin { bucket: rule.label().into(), source })
}

fn credentials(identity: &OriginIdentity) -> CredentialsSource {
    match identity {
        OriginIdentity::Chain => CredentialsSource::DefaultChain,
        OriginIdentity::Anonymous => CredentialsSource::Anonymous,
        OriginIdentity::Static { access_key_id, secret } => CredentialsSource::Static {
            access_key_id: access_key_id.clone(),
            secret: secret.clone(),
            session_token: None,
        },
        OriginIdentity::WebIdentity(role) => CredentialsSource::WebIdentity(role.clone()),
    }
}

/// The S3 edge. Nobody is let in before there are rules.
pub(crate) fn edge(
    domains: &[String],
    cache: Arc<Cache>,
    rules: &LiveRules,
    ring_page: Option<RingPage>,
    apps: Arc<Apps>,
    runtime: &Runtime,
) -> Arc<Edge> {
    Edge::new(EdgeParts {
        cache,
        rules: rules.edge_rules.clone(),
        auth: edge_keys(&[], &[]),
        domains: Domains::new(domains.iter().cloned()),
        ring_page,
        apps,
        clock: runtime.clock.clone(),
        rng: runtime.rng.clone(),
        max_connections: DEFAULT_MAX_CONNECTIONS,
    })
}

pub(crate) fn edge_auth(auth: &Auth) -> forebay_s3::Auth {
    match auth {
        Auth::Open => forebay_s3::Auth::None,
        Auth::Keys { keys, anonymous } => edge_keys(keys, anonymous),
    }
}

fn edge_keys(keys: &[AccessKey], anonymous: &[Grant]) -> forebay_s3::Auth {
    let keys = Arc::new(AccessKeys::new(keys.iter().cloned()));
    forebay_s3::Auth::Keys { keys, anonymous: anonymous.into() }
}

pub(crate) fn edge_rule(rule: &BucketRule) -> (BucketPattern, forebay_s3::BucketRule) {
    let label = rule.name().map_or("other", BucketName::as_str);
    let (freshness, prefixes) = (rule.freshness, rule.prefixes.clone());
    let own = forebay_s3::BucketRule::new(rule_id(rule), label.into(), freshness, prefixes);
    (rule.bucket.clone(), own)
}

/// The same on all workers with the same rule: blocks are placed by it.
fn rule_id(rule: &BucketRule) -> RuleId {
    RuleId::of_origin(rule.origin.endpoint.as_str())
}
