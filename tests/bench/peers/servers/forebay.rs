//! Forebay: one worker with one data thread, `immutable`, open to all or with signatures checked.

use std::path::Path;

use anyhow::Result;
use forebay_testkit::AccessKey;
use forebay_testkit::process::Launch;
use forebay_tests::{CLIENT, forebay_binary};

use crate::server::{Server, free_port};
use crate::set::{BUCKET, Set};

pub(super) async fn unsigned(folder: &Path, origin: &str, set: &Set) -> Result<Server> {
    start(folder, origin, set, "forebay", "none").await
}

pub(super) async fn signed(folder: &Path, origin: &str, set: &Set) -> Result<Server> {
    let server = start(folder, origin, set, "forebay, signed", "keys").await?;
    Ok(server.signed_by(AccessKey::new(CLIENT.0, CLIENT.1)))
}

async fn start(folder: &Path, origin: &str, set: &Set, name: &str, auth: &str) -> Result<Server> {
    let port = free_port()?;
    let launch = Launch::new(forebay_binary()?)
        .args(["serve", "--exit-with-stdin", "--auth", auth, "--bucket", BUCKET])
        .args(["--freshness", "immutable", "--origin", origin, "--anonymous-origin"])
        .args(["--capacity", &(2 * set.bytes()).to_string()])
        .args(["--listen", &format!("127.0.0.1:{port}"), "--admin-listen", "127.0.0.1:0"])
        .arg("--cache-dir")
        .arg(folder.join(format!("forebay-{auth}")))
        .env("FOREBAY_ACCESS_KEY_ID", CLIENT.0)
        .env("FOREBAY_SECRET_ACCESS_KEY", CLIENT.1)
        .env("TOKIO_WORKER_THREADS", "1");
    Server::start(name, &launch, port).await
}
