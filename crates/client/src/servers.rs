//! All servers that can be asked: what is known of them, and asking one or several in turn.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{SharedClock, SharedRng};
use forebay_types::Stamp;
use http::Uri;
use http::uri::{Authority, Scheme};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};

use crate::answer::Answer;
use crate::ask::{Ask, Name};
use crate::cluster::Cluster;
use crate::config::ClientConfig;
use crate::error::{ConnectError, Failure, ReadError};
use crate::limits::{BLOCKS_AHEAD_OF_ALL, ORIGIN_PATIENCE, WORKER_PATIENCE};
use crate::route::Route;
use crate::transport::Transport;

/// One server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) role: Role,
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
}

/// What a server is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Worker,
    Origin,
}

/// Everything that reads share.
#[derive(Debug)]
pub(crate) struct Servers {
    /// As configured, at least one.
    pub(crate) endpoints: Vec<Server>,
    pub(crate) origin: Option<Server>,
    pub(crate) transport: Transport,
    pub(crate) clock: SharedClock,
    pub(crate) rng: SharedRng,
    /// Room for blocks that are fetched before they are wanted.
    pub(crate) room_ahead: Arc<Semaphore>,
    cluster: RwLock<Arc<Cluster>>,
    /// Workers that gave no sign of life, until they answer the follower.
    silent: Mutex<HashSet<Server>>,
    /// Wakes the follower: the ring may have changed.
    pub(crate) doubt: Notify,
}

impl Server {
    pub(crate) fn worker(scheme: Scheme, authority: Authority) -> Self {
        Self { role: Role::Worker, scheme, authority }
    }

    pub(crate) fn patience(&self) -> Duration {
        match self.role {
            Role::Worker => WORKER_PATIENCE,
            Role::Origin => ORIGIN_PATIENCE,
        }
    }

    fn parse(role: Role, uri: &Uri) -> Result<Self, ConnectError> {
        let wrong = |why| {
            ConnectError::Config(format!("{uri}: {why}: write http://host:port or https://host"))
        };
        let parts = uri.clone().into_parts();
        let scheme = parts.scheme.ok_or_else(|| wrong("it has no scheme"))?;
        let authority = parts.authority.ok_or_else(|| wrong("it names no host"))?;
        let is_bare = parts.path_and_query.is_none_or(|path| path == "/");
        if scheme != Scheme::HTTP && scheme != Scheme::HTTPS {
            return Err(wrong("its scheme is neither http nor https"));
        }
        if authority.as_str().contains('@') {
            return Err(ConnectError::Config("an endpoint holds a user name".into()));
        }
        if !is_bare {
            return Err(wrong("it has a path"));
        }
        Ok(Self { role, scheme, authority })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.role {
            Role::Worker => write!(f, "worker {}", self.authority),
            Role::Origin => write!(f, "origin {}", self.authority),
        }
    }
}

impl Servers {
    pub(crate) fn new(config: &ClientConfig) -> Result<Self, ConnectError> {
        let endpoints = config.endpoints.iter().map(|uri| Server::parse(Role::Worker, uri));
        let endpoints: Vec<_> = endpoints.collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(ConnectError::Config("no endpoint: name the S3 port of a worker".into()));
        }
        let origin = config.origin.as_ref();
        let origin = origin.map(|origin| Server::parse(Role::Origin, &origin.endpoint));
        Ok(Self {
            endpoints,
            origin: origin.transpose()?,
            transport: Transport::new(config)?,
            clock: config.clock.clone(),
            rng: config.rng.clone(),
            room_ahead: Arc::new(Semaphore::new(BLOCKS_AHEAD_OF_ALL)),
            cluster: RwLock::new(Arc::new(Cluster::unknown())),
            silent: Mutex::new(HashSet::new()),
            doubt: Notify::new(),
        })
    }

    /// Asks one server after another until one gives an answer that counts. With `pin`, only
    /// the version that it names does.
    pub(crate) async fn ask_in_turn(
        &self,
        route: &mut Route,
        name: &Name,
        ask: &Ask,
        pin: Option<&Stamp>,
    ) -> Result<Answer, ReadError> {
        loop {
            let server = route.next(self, name).await?;
            match self.ask(&server, ask, pin).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Last(error)) => return Err(error),
                Err(Failure::Silent(why)) => {
                    self.fell_silent(&server);
                    route.failed(why);
                }
                Err(Failure::Unfit(why)) => {
                    self.doubt.notify_one();
                    route.failed(why);
                }
            }
        }
    }

    async fn ask(
        &self,
        server: &Server,
        ask: &Ask,
        pin: Option<&Stamp>,
    ) -> Result<Answer, Failure> {
        let response = self.transport.send(server, ask).await?;
        Answer::parse(server, ask, pin, response, &*self.clock).await
    }

    pub(crate) fn cluster(&self) -> Arc<Cluster> {
        Arc::clone(&self.cluster.read())
    }

    /// Takes a later state. What is silent and no longer known is forgotten.
    pub(crate) fn set_cluster(&self, cluster: Cluster) {
        let known: HashSet<_> = cluster.workers().chain(&self.endpoints).cloned().collect();
        *self.cluster.write() = Arc::new(cluster);
        self.silent.lock().retain(|server| known.contains(server));
    }

    /// A worker gave no sign of life: others are asked until it answers the follower.
    pub(crate) fn fell_silent(&self, server: &Server) {
        if server.role == Role::Worker && self.silent.lock().insert(server.clone()) {
            tracing::debug!(%server, "gives no sign of life");
        }
        self.doubt.notify_one();
    }

    pub(crate) fn answered(&self, server: &Server) {
        if self.silent.lock().remove(server) {
            tracing::debug!(%server, "answers again");
        }
    }

    pub(crate) fn is_silent(&self, server: &Server) -> bool {
        self.silent.lock().contains(server)
    }

    pub(crate) fn silent(&self) -> Vec<Server> {
        let mut silent: Vec<_> = self.silent.lock().iter().cloned().collect();
        silent.sort_unstable_by(|one, two| one.authority.as_str().cmp(two.authority.as_str()));
        silent
    }

    /// Up to `count` workers of the ring and configured endpoints that satisfy `is_wanted`, by
    /// chance.
    pub(crate) fn draw(&self, count: usize, is_wanted: impl Fn(&Server) -> bool) -> Vec<Server> {
        let cluster = self.cluster();
        let mut wanted: Vec<_> = cluster.workers().filter(|server| is_wanted(server)).collect();
        for endpoint in &self.endpoints {
            if is_wanted(endpoint) && !wanted.contains(&endpoint) {
                wanted.push(endpoint);
            }
        }
        let mut drawn: Vec<_> =
            wanted.into_iter().map(|server| (self.rng.next_u64(), server.clone())).collect();
        drawn.sort_unstable_by_key(|(chance, _)| *chance);
        drawn.truncate(count);
        drawn.into_iter().map(|(_, server)| server).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_that_are_no_server_are_named_with_the_reason() {
        for bad in ["10.0.0.5:9000", "/path", "ftp://h", "http://h/base", "http://h/?q"] {
            let error = Server::parse(Role::Worker, &bad.parse().unwrap()).unwrap_err().to_string();
            assert!(error.contains("write http://host:port"), "{error}");
        }
        let secret = "http://me:pw@h".parse().unwrap();
        let error = Server::parse(Role::Worker, &secret).unwrap_err().to_string();
        assert!(!error.contains("pw"), "{error}");
        assert!(Server::parse(Role::Origin, &"https://s3.test/".parse().unwrap()).is_ok());
    }
}
