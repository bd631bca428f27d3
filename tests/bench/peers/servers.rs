//! Who is compared, and how each is set up: as those who know it would for this data.
//!
//! nginx and Forebay have one data thread each; Varnish and cachey have pools of their own and
//! cannot be told otherwise.

mod cachey;
mod forebay;
mod nginx;
mod varnish;

use std::path::Path;

use anyhow::Result;

use crate::server::Server;
use crate::set::Set;

/// An origin, and in front of it every server that is installed. The first is what the others
/// are compared with.
pub(crate) async fn start(folder: &Path, set: &Set) -> Result<Servers> {
    let origin = nginx::files(folder, "origin", set, "on").await?;
    let url = format!("http://{}", origin.target().authority());
    let mut compared = vec![
        nginx::files(folder, "nginx static", set, "on").await?,
        nginx::files(folder, "nginx static, tcp_nopush off", set, "off").await?,
        forebay::unsigned(folder, &url, set).await?,
        forebay::signed(folder, &url, set).await?,
        nginx::cache(folder, &url).await?,
    ];
    for (name, peer) in [
        ("varnish", varnish::start(folder, &url, set).await?),
        ("cachey", cachey::start(folder, &url, set).await?),
    ] {
        match peer {
            Ok(server) => compared.push(server),
            Err(why) => eprintln!("skipped: {name}: {why}"),
        }
    }
    Ok(Servers { compared, _origin: origin })
}

/// A server, or why it is left out.
type Peer = std::result::Result<Server, String>;

/// Running servers. They end when this is dropped, the origin last.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) compared: Vec<Server>,
    _origin: Server,
}
