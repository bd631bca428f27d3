//! Varnish, everything in its memory.

use std::path::Path;

use anyhow::{Context, Result};
use forebay_testkit::process::Launch;

use super::Peer;
use crate::server::{Server, find, free_port};
use crate::set::Set;

pub(super) async fn start(folder: &Path, origin: &str, set: &Set) -> Result<Peer> {
    let Some(varnishd) = find("varnishd") else {
        return Ok(Err("not installed: tests/bench/install-peers".into()));
    };
    let own = folder.join("varnish");
    std::fs::create_dir_all(&own).context("make a folder for Varnish")?;
    let vcl = own.join("cache.vcl");
    std::fs::write(&vcl, config(origin)?).context("write Varnish's configuration")?;
    let port = free_port()?;
    let launch = Launch::new(varnishd)
        .args(["-F", "-j", "none", "-a", &format!("127.0.0.1:{port}")])
        .args(["-s", &format!("malloc,{}", 2 * set.bytes())])
        .args(["-p", "timeout_idle=3600", "-n"])
        .arg(own.join("run"))
        .arg("-f")
        .arg(vcl);
    Ok(Ok(Server::start("varnish", &launch, port).await?))
}

fn config(origin: &str) -> Result<String> {
    let (host, port) = origin.rsplit_once(':').context("an origin with a port")?;
    let host = host.trim_start_matches("http://");
    Ok(format!(
        "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
         sub vcl_backend_response {{ set beresp.ttl = 1d; }}\n"
    ))
}
