//! The client names the same owners as the servers: their golden vectors are its own.

#![allow(unreachable_pub, reason = "a test target has no outside")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "each test target uses other parts of the fakes")]

mod fakes;

use std::collections::BTreeSet;

use fakes::Fake;
use forebay_client::{BlockIndex, Client, ClientConfig};
use serde_json::{Value, json};

#[tokio::test]
async fn owners_are_the_golden_ones() {
    let golden = include_str!("../../ring/tests/golden/placement.json");
    let cases: Vec<Value> = serde_json::from_str(golden).unwrap();
    let mut checked = 0;
    for case in &cases {
        let keys = case["keys"].as_array().unwrap();
        let rules: BTreeSet<_> = keys.iter().map(|key| text(&key["rule"])).collect();
        for rule in rules {
            let client = client_of(case, rule).await;
            for key in keys.iter().filter(|key| text(&key["rule"]) == rule) {
                let block = BlockIndex(key["block"].as_u64().unwrap());
                let owners = client.owners(text(&key["bucket"]), text(&key["key"]), block).unwrap();
                let golden = key["owners"].as_array().unwrap().iter();
                let golden: Vec<_> = golden.map(|id| address(text(id))).collect();
                assert_eq!(owners, golden, "{} {key}", case["about"]);
                checked += 1;
            }
        }
    }
    assert!(checked > 300, "{checked}");
}

/// A client that was told the ring of a golden case, with `rule` for all buckets.
async fn client_of(case: &Value, rule: &str) -> Client {
    let member = |member: &Value| json!({"id": member["id"], "weight": member["weight"], "s3": address(text(&member["id"]))});
    let members: Vec<_> = case["members"].as_array().unwrap().iter().map(member).collect();
    let worker = Fake::start().await;
    let ring = json!({
        "epoch": 1, "revision": 1,
        "virtual_nodes": case["virtual_nodes"],
        "seed": u64::from_str_radix(text(&case["seed"]), 16).unwrap(),
        "members": members,
        "buckets": [{"name": "*", "rule": rule}],
    });
    worker.tell(&ring.to_string());
    Client::connect(ClientConfig::new(vec![worker.uri()])).await.unwrap()
}

fn address(id: &str) -> String {
    format!("w-{id}:9000")
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
