//! nginx: files by sendfile, and a cache of slices.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use forebay_testkit::process::Launch;
use rustix::process::geteuid;

use crate::server::{Server, find, free_port};
use crate::set::{BUCKET, Set};

/// Files by sendfile.
pub(super) async fn files(folder: &Path, name: &str, set: &Set, nopush: &str) -> Result<Server> {
    let inner = format!(
        "tcp_nopush {nopush};\nopen_file_cache max=10000 inactive=1h;\nopen_file_cache_valid 1h;\n",
    );
    start(folder, name, &inner, &format!("root {};", set.root().display())).await
}

/// `proxy_cache` with slices of 1 MiB. With `tcp_nopush on` it would keep a cached answer of
/// 100 KiB back until the reader's delayed acknowledgement comes, 40 ms later.
pub(super) async fn cache(folder: &Path, origin: &str) -> Result<Server> {
    let cache = folder.join("proxy-cache");
    let inner = format!(
        "tcp_nopush off;\nproxy_cache_path {} levels=1:2 keys_zone=slices:64m max_size=16g \
         inactive=1d use_temp_path=off;\n",
        cache.display()
    );
    let server = format!(
        "location /{BUCKET}/ {{\nslice 1m;\nproxy_cache slices;\nproxy_cache_key \
         $uri$slice_range;\nproxy_set_header Range $slice_range;\nproxy_cache_valid 200 206 1d;\n\
         proxy_http_version 1.1;\nproxy_set_header Connection \"\";\nproxy_pass {origin};\n}}"
    );
    start(folder, "nginx proxy_cache, slices", &inner, &server).await
}

async fn start(folder: &Path, name: &str, inner: &str, server: &str) -> Result<Server> {
    let nginx = find("nginx").context("nginx is not installed: tests/bench/install-peers")?;
    let port = free_port()?;
    let own = folder.join(format!("nginx-{port}"));
    std::fs::create_dir_all(&own).context("make a folder for nginx")?;
    let text = config(&own, port, inner, server);
    let path = own.join("nginx.conf");
    std::fs::write(&path, text).context("write nginx's configuration")?;
    let launch = Launch::new(nginx).arg("-c").arg(&path).arg("-p").arg(&own).args(["-e", "stderr"]);
    Server::start(name, &launch, port).await
}

fn config(own: &Path, port: u16, inner: &str, server: &str) -> String {
    let mut text = String::new();
    // The data is in a folder that only its owner enters.
    if geteuid().is_root() {
        text.push_str("user root;\n");
    }
    let own = own.display();
    let mut temporary = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        // Writing to a string does not fail.
        let _ = writeln!(temporary, "{kind}_temp_path {own}/{kind};");
    }
    let _ = write!(
        text,
        "daemon off;\nworker_processes 1;\npid {own}/pid;\nerror_log stderr crit;\n\
         events {{ worker_connections 4096; }}\nhttp {{\n{temporary}access_log off;\nsendfile on;\n\
         tcp_nodelay on;\nkeepalive_timeout 1h;\nkeepalive_requests 1000000000;\n\
         default_type application/octet-stream;\n{inner}\
         server {{\nlisten 127.0.0.1:{port} backlog=4096;\n{server}\n}}\n}}\n"
    );
    text
}
