//! cachey, from the Rust registry, everything in its memory. It reads ranges only, under paths of
//! its own.

use std::path::Path;

use anyhow::Result;
use forebay_bench::Target;
use forebay_testkit::process::Launch;

use super::Peer;
use crate::options::is_alone;
use crate::server::{Server, find, free_port};
use crate::set::{BUCKET, Set};

/// Where it is, if it is not in PATH: cargo calls the program `server`.
const PROGRAM: &str = "FOREBAY_BENCH_CACHEY";

pub(super) async fn start(_folder: &Path, origin: &str, set: &Set) -> Result<Peer> {
    let named = std::env::var_os(PROGRAM).map(Into::into);
    let Some(program) = named.or_else(|| find("cachey")) else {
        return Ok(Err(format!("not found in PATH or ${PROGRAM}: tests/bench/install-peers")));
    };
    if !is_alone()? {
        return Ok(Err("it listens on every interface: runs with --reno only".into()));
    }
    let port = free_port()?;
    let launch = Launch::new(program)
        .args(["--port", &port.to_string(), "--memory", &format!("{}B", 2 * set.bytes())])
        .env("AWS_ENDPOINT_URL", origin)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "any")
        .env("AWS_SECRET_ACCESS_KEY", "any")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("RUST_LOG", "warn");
    let server = Server::start("cachey, memory", &launch, port).await?;
    let how =
        |target: Target| target.with_path_prefix(&format!("/fetch/{BUCKET}/")).always_ranged();
    Ok(Ok(server.asked(how)))
}
