//! What `GET /-/ring` says: enough to compute the owner of any block.

use std::sync::Arc;

use bytes::Bytes;
use forebay_s3::{Page, RingPage};
use forebay_types::WorkerState;
use http::HeaderValue;
use serde::Serialize;

use super::placement::RingPlacement;
use crate::live_rules::LiveRules;

#[derive(Serialize)]
struct Shown {
    epoch: u64,
    revision: u64,
    virtual_nodes: u32,
    seed: u64,
    members: Vec<Member>,
    buckets: Vec<Bucket>,
}

#[derive(Serialize)]
struct Member {
    id: String,
    weight: u32,
    s3: String,
}

#[derive(Serialize)]
struct Bucket {
    name: String,
    rule: String,
}

pub(super) fn ring_page(placement: Arc<RingPlacement>, rules: Arc<LiveRules>) -> RingPage {
    Arc::new(move || {
        let view = placement.rings().view.clone();
        let members = view.ring.members.iter().filter_map(|member| {
            let worker = view.worker(member.id)?;
            let is_there = worker.state == WorkerState::Active;
            is_there.then(|| Member {
                id: member.id.to_string(),
                weight: member.weight,
                s3: worker.s3_addr.clone(),
            })
        });
        let shown = Shown {
            epoch: view.ring.epoch.0,
            revision: view.revision,
            virtual_nodes: view.ring.config.virtual_nodes,
            seed: view.ring.config.seed,
            members: members.collect(),
            buckets: rules.placed().into_iter().map(|(name, rule)| Bucket { name, rule }).collect(),
        };
        let json = Bytes::from(serde_json::to_vec(&shown).unwrap_or_default());
        let tag = format!("\"{:016x}\"", xxhash_rust::xxh3::xxh3_64(&json));
        let etag = HeaderValue::try_from(tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""));
        Page { etag, json }
    })
}
