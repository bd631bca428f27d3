//! A voter: in a process of its own, or beside a worker.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use forebay_meta::{Timings, Voter, VoterConfig};
use forebay_rt::{Clock, SharedClock, Task};
use forebay_telemetry::Exporter;
use forebay_zerocopy::ListenOptions;
use serde::Serialize;
use tokio::sync::watch;

use crate::admin::{self, Pages};
use crate::config::MetaConfig;
use crate::error::StartError;
use crate::port::Port;
use crate::process;
use crate::status::{SCHEMA, State};
use crate::wiring::{Runtime, exporter};

/// Starts a voter; also says what it is called by.
pub(crate) async fn start(
    config: &MetaConfig,
    runtime: &Runtime,
) -> Result<(Voter, String), StartError> {
    let port = Port::take(config.listen, &ListenOptions::default())?;
    let advertise = config.advertise.given(port.addr);
    let initial_voters = config.initial_voters.iter();
    let voter = Voter::start(VoterConfig {
        id: config.id,
        dir: config.dir.clone(),
        initial_voters: initial_voters
            .map(|voter| (voter.id, voter.advertise.given(port.addr)))
            .collect(),
        listener: port.listener,
        advertise: advertise.clone(),
        secret: config.secret.clone(),
        timings: Timings::default(),
        clock: runtime.clock.clone(),
        rng: runtime.rng.clone(),
    });
    Ok((voter.await?, advertise))
}

/// A process that is a voter and nothing else.
pub(crate) struct VoterProcess {
    voter: Voter,
    pages: Arc<VoterPages>,
    admin_addr: SocketAddr,
    admin: Task<()>,
}

impl VoterProcess {
    pub(crate) async fn start(
        config: &MetaConfig,
        admin_listen: SocketAddr,
    ) -> Result<Self, StartError> {
        let runtime = Runtime::of_machine();
        process::raise_file_limit();
        let exporter = exporter()?;
        process::record_start(runtime.clock.as_ref());
        let admin = Port::take(admin_listen, &ListenOptions::default())?;
        let (voter, control) = start(config, &runtime).await?;
        tracing::info!(control, admin = %admin.addr, id = config.id, "voting");
        let pages = Arc::new(VoterPages {
            clock: runtime.clock,
            exporter,
            id: config.id,
            control,
            state: watch::Sender::new(State::Ready),
        });
        let serving = forebay_rt::spawn(admin::serve(admin.listener, pages.clone()));
        Ok(Self { voter, pages, admin_addr: admin.addr, admin: serving })
    }

    pub(crate) fn control_addr(&self) -> SocketAddr {
        self.voter.local_addr()
    }

    pub(crate) fn admin_addr(&self) -> SocketAddr {
        self.admin_addr
    }

    /// Votes until `stop` completes, then leaves in order. False where it could not go on.
    pub(crate) async fn run_until(self, stop: impl Future<Output = ()>) -> bool {
        let could_go_on = tokio::select! {
            () = stop => true,
            reason = self.voter.failed() => {
                tracing::error!(reason, "this voter takes no part any more: it ends, to be started again");
                false
            }
        };
        self.pages.state.send_replace(State::Draining);
        self.voter.shutdown().await;
        self.admin.abort();
        could_go_on
    }
}

struct VoterPages {
    clock: SharedClock,
    exporter: Exporter,
    id: u64,
    control: String,
    state: watch::Sender<State>,
}

#[derive(Serialize)]
struct VoterStatus<'a> {
    schema: u32,
    version: &'static str,
    state: State,
    voter: u64,
    control: &'a str,
}

impl Pages for VoterPages {
    fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    fn metrics(&self) -> String {
        process::record_now();
        self.exporter.render()
    }

    fn status(&self) -> serde_json::Result<String> {
        serde_json::to_string(&VoterStatus {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            state: self.state(),
            voter: self.id,
            control: &self.control,
        })
    }

    fn state(&self) -> State {
        *self.state.borrow()
    }
}
