//! What the admin port tells of: where the worker is in its life, and what it holds.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use forebay_cache::Cache;
use forebay_rt::{Clock, SharedClock};
use forebay_store::{DiskState, Store};
use forebay_telemetry::Exporter;
use tokio::sync::watch;

use crate::admin::Pages;
use crate::cluster::Cluster;
use crate::live_rules::LiveRules;
use crate::page;
use crate::process;
use crate::status::{DiskStatus, SCHEMA, Served, State, Status};

/// Shared by the worker and its admin port.
pub(crate) struct Shared {
    pub(crate) clock: SharedClock,
    pub(crate) started: Instant,
    pub(crate) s3: SocketAddr,
    pub(crate) exporter: Exporter,
    pub(crate) store: Arc<Store>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) rules: Arc<LiveRules>,
    /// `None` for a worker that is alone.
    pub(crate) cluster: Option<Cluster>,
    pub(crate) state: watch::Sender<State>,
}

impl Shared {
    pub(crate) fn enter(&self, state: State) {
        self.state.send_replace(state);
    }

    pub(crate) fn fills_in_flight(&self) -> usize {
        self.cache.fills_in_flight()
    }

    fn status(&self) -> Status {
        let uptime = self.clock.now().saturating_duration_since(self.started);
        Status {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            state: *self.state.borrow(),
            uptime_s: uptime.as_secs(),
            s3: self.s3.to_string(),
            disks: self.disks(),
            buckets: self.rules.buckets.borrow().clone(),
            served: self.served(),
            fills_in_flight: self.fills_in_flight(),
            cluster: self.cluster.as_ref().map(Cluster::status),
        }
    }

    fn disks(&self) -> Vec<DiskStatus> {
        let disk = |disk: forebay_store::DiskStatus| DiskStatus {
            path: disk.path.display().to_string(),
            state: disk.state.as_str().into(),
            healthy: disk.state == DiskState::Healthy,
            capacity_bytes: disk.capacity_bytes,
            used_bytes: disk.used_bytes,
            extents: disk.extents,
            index_loaded: disk.is_loaded,
        };
        self.store.status().into_iter().map(disk).collect()
    }

    fn served(&self) -> Served {
        let page = self.exporter.render();
        let bytes = |tier| page::sum(&page, "forebay_served_bytes_total", "tier", tier);
        let requests = |tier| page::sum(&page, "forebay_served_requests_total", "tier", tier);
        Served {
            ram_bytes: bytes("ram"),
            nvme_bytes: bytes("nvme"),
            peer_bytes: bytes("peer"),
            origin_bytes: bytes("origin"),
            ram_requests: requests("ram"),
            nvme_requests: requests("nvme"),
            peer_requests: requests("peer"),
            origin_requests: requests("origin"),
        }
    }
}

impl Pages for Shared {
    fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    fn metrics(&self) -> String {
        process::record_now();
        self.exporter.render()
    }

    fn status(&self) -> serde_json::Result<String> {
        serde_json::to_string(&Self::status(self))
    }

    fn state(&self) -> State {
        *self.state.borrow()
    }
}
