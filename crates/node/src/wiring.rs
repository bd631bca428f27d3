//! The one place where the parts are put together, in the order in which bytes pass them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use forebay_cache::{Cache, CacheConfig, CacheParts};
use forebay_origin::{CredentialsSource, Origin, OriginConfig};
use forebay_rt::{SharedClock, SharedRng, SystemClock, SystemRng};
use forebay_s3::{
    AccessKeys, BucketPattern, BucketRules, DEFAULT_MAX_CONNECTIONS, Domains, Edge, EdgeParts,
};
use forebay_store::{DiskConfig, Store, StoreConfig};
use forebay_telemetry::{Exporter, ExporterError};
use forebay_types::{BucketName, RuleId};
use tokio::sync::watch;

use crate::adapters::{Disks, Origins};
use crate::config::{
    Auth, BucketRule, Capacity, Config, DiskRule, Endpoint, OriginIdentity, OriginRule,
};
use crate::error::StartError;
use crate::state::Shared;
use crate::status::State;

/// Time and chance of a worker.
pub(crate) struct Runtime {
    pub(crate) clock: SharedClock,
    pub(crate) rng: SharedRng,
}

impl Runtime {
    pub(crate) fn of_machine() -> Self {
        Self { clock: Arc::new(SystemClock), rng: Arc::new(SystemRng) }
    }
}

/// A worker's parts.
pub(crate) struct Parts {
    pub(crate) store: Arc<Store>,
    pub(crate) origins: Arc<Origins>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) edge: Arc<Edge>,
}

impl Parts {
    pub(crate) async fn build(config: &Config, runtime: &Runtime) -> Result<Self, StartError> {
        let store = open_store(&config.disks, runtime)?;
        let origins = Arc::new(connect_origins(&config.buckets, runtime).await?);
        let disks = Arc::new(Disks(store.clone()));
        let cache = Cache::new(CacheParts {
            local: disks.clone(),
            versions: disks,
            origin: origins.clone(),
            forward: origins.clone(),
            clock: runtime.clock.clone(),
            rng: runtime.rng.clone(),
            config: CacheConfig {
                read_ahead_blocks: config.cache.read_ahead_blocks,
                fill_budget_bytes: config.cache.fill_budget_bytes,
                versions_in_memory: config.cache.versions_in_memory as usize,
            },
        });
        let edge = edge(config, cache.clone(), runtime);
        Ok(Self { store, origins, cache, edge })
    }

    pub(crate) fn shared(&self, runtime: &Runtime, exporter: Exporter, s3: SocketAddr) -> Shared {
        Shared {
            clock: runtime.clock.clone(),
            started: runtime.clock.now(),
            s3,
            exporter,
            store: self.store.clone(),
            cache: self.cache.clone(),
            buckets: watch::Sender::new(Vec::new()),
            state: watch::Sender::new(State::Starting),
        }
    }
}

fn open_store(rules: &[DiskRule], runtime: &Runtime) -> Result<Arc<Store>, StartError> {
    let disks = rules.iter().map(disk_config).collect();
    let config = StoreConfig { disks, ..StoreConfig::default() };
    Ok(Store::open(config, runtime.clock.clone())?)
}

/// The recorder is the process's; workers of one test process share it.
pub(crate) fn exporter() -> Result<Exporter, ExporterError> {
    static EXPORTER: OnceLock<Exporter> = OnceLock::new();
    if let Some(exporter) = EXPORTER.get() {
        return Ok(exporter.clone());
    }
    let installed = Exporter::install()?;
    Ok(EXPORTER.get_or_init(|| installed).clone())
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

/// Rules with the same origin, region and credentials share its connections and its limit.
async fn connect_origins(rules: &[BucketRule], runtime: &Runtime) -> Result<Origins, StartError> {
    let mut connected: Vec<(&OriginRule, Arc<Origin>)> = Vec::new();
    let mut by_bucket = HashMap::new();
    let mut default = None;
    for rule in rules {
        let known = connected.iter().find(|(origin, _)| **origin == rule.origin);
        let origin = match known {
            Some((_, origin)) => origin.clone(),
            None => connect(rule, rules, runtime).await?,
        };
        connected.push((&rule.origin, origin.clone()));
        match rule.name() {
            Some(bucket) => drop(by_bucket.insert(bucket.clone(), origin)),
            None => default = Some(origin),
        }
    }
    let one = rules.iter().all(|rule| rule.origin == rules[0].origin);
    let only = connected.first().filter(|_| one).map(|(_, origin)| origin.clone());
    Ok(Origins { by_bucket, default, only })
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
    }
}

fn edge(config: &Config, cache: Arc<Cache>, runtime: &Runtime) -> Arc<Edge> {
    Edge::new(EdgeParts {
        cache,
        rules: Arc::new(BucketRules::new(config.buckets.iter().map(edge_rule))),
        auth: match &config.auth {
            Auth::Open => forebay_s3::Auth::None,
            Auth::Keys(keys) => {
                forebay_s3::Auth::Keys(Arc::new(AccessKeys::new(keys.iter().cloned())))
            }
        },
        domains: Domains::new(config.domains.clone()),
        clock: runtime.clock.clone(),
        rng: runtime.rng.clone(),
        max_connections: DEFAULT_MAX_CONNECTIONS,
    })
}

fn edge_rule(rule: &BucketRule) -> (BucketPattern, forebay_s3::BucketRule) {
    let origin = RuleId::of_origin(rule.origin.endpoint.as_str());
    let label = rule.name().map_or("other", BucketName::as_str);
    let own =
        forebay_s3::BucketRule::new(origin, label.into(), rule.freshness, rule.prefixes.clone());
    (rule.bucket.clone(), own)
}
