//! The way to the voters: a connection to each, who leads them, and what went wrong with whom.

use std::collections::{HashMap, VecDeque};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{SharedClock, SharedRng, timeout};
use forebay_wire::meta::control_client::ControlClient;
use forebay_wire::{ClusterSecret, Handshake, control};
use parking_lot::Mutex;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::limits::{ASKS_MAX, CHANNELS_MAX};
use crate::limits::MESSAGE_BYTES_MAX;

/// The metadata in which a voter that does not lead names the one that does.
const LEADER: &str = "forebay-leader";

/// A voter's control port, `host:port`.
pub(crate) type Addr = Arc<str>;

/// A voter, ready to be asked.
pub(crate) type Control = ControlClient<Channel>;

/// The voters, as far as they are known here.
#[derive(Debug)]
pub(crate) struct Voters {
    configured: Vec<Addr>,
    handshake: Handshake,
    clock: SharedClock,
    /// Whom to ask first where nothing speaks for one of them. Drawn, so that a thousand workers
    /// do not all ask the same.
    first: usize,
    leader: Mutex<Option<Addr>>,
    channels: Mutex<HashMap<Addr, Channel>>,
}

/// Nobody did what only the leader does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The leader will not, and asking again is no use.
    #[error("the leader refuses: {}", .0.message())]
    Refused(Status),
    /// No leader was found, or it did not answer.
    #[error("{0}")]
    Nobody(Tried),
}

/// The voters that were asked in vain, and what each of them did instead.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Tried(pub Vec<(String, Failure)>);

/// What a voter did instead of answering.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There was no connection, or it broke.
    #[error("{0}")]
    Unreachable(String),
    /// It does not lead, and says who does.
    #[error("it follows {0}")]
    Follows(String),
    /// It answers, but knows no leader or cannot do its part.
    #[error("{0}")]
    Unable(String),
    /// Nothing, in this time.
    #[error("no answer in {0:?}")]
    Silent(Duration),
}

impl Voters {
    pub(crate) fn new(
        addrs: &[String],
        secret: ClusterSecret,
        clock: SharedClock,
        rng: &SharedRng,
    ) -> Self {
        Self {
            configured: addrs.iter().map(|addr| addr.as_str().into()).collect(),
            handshake: Handshake::new(secret, clock.clone(), rng.clone()),
            clock,
            first: rng.next_u64() as usize % addrs.len().max(1),
            leader: Mutex::default(),
            channels: Mutex::default(),
        }
    }

    /// Those that are configured.
    pub(crate) fn configured(&self) -> VecDeque<Addr> {
        let mut addrs: VecDeque<_> = self.configured.iter().cloned().collect();
        addrs.rotate_left(self.first);
        addrs
    }

    /// Who led when last one answered that leads.
    pub(crate) fn leader(&self) -> Option<Addr> {
        self.leader.lock().clone()
    }

    pub(crate) fn channel(&self, addr: &Addr) -> Channel {
        let mut channels = self.channels.lock();
        if channels.len() >= CHANNELS_MAX {
            channels.clear();
        }
        let connect = || control::channel(addr, self.handshake.clone());
        channels.entry(addr.clone()).or_insert_with(connect).clone()
    }

    pub(crate) fn control(&self, addr: &Addr) -> Control {
        Control::new(self.channel(addr)).max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Asks the leader, whoever that is: the last one known, whom the voters name, or each in
    /// turn. Nobody is asked twice, each has `limit`.
    pub(crate) async fn ask_leader<T, Asking>(
        &self,
        limit: Duration,
        ask: impl Fn(Control) -> Asking,
    ) -> Result<T, NoAnswer>
    where
        Asking: Future<Output = Result<T, Status>>,
    {
        let mut candidates = self.configured();
        if let Some(leader) = self.leader() {
            candidates.push_front(leader);
        }
        let mut asked: Vec<Addr> = Vec::new();
        let mut tried = Tried::default();
        while let Some(addr) = candidates.pop_front() {
            if asked.contains(&addr) || asked.len() == ASKS_MAX {
                continue;
            }
            asked.push(addr.clone());
            let failure = match timeout(&*self.clock, limit, ask(self.control(&addr))).await {
                Ok(Ok(answer)) => {
                    *self.leader.lock() = Some(addr);
                    return Ok(answer);
                }
                Ok(Err(status)) => match Reply::of(&status) {
                    Reply::Leader(leader) => {
                        candidates.push_front(leader.clone());
                        Failure::Follows(leader.to_string())
                    }
                    Reply::Final => return Err(NoAnswer::Refused(status)),
                    Reply::Failed(failure) => failure,
                },
                Err(_) => Failure::Silent(limit),
            };
            self.leader.lock().take_if(|leader| *leader == addr);
            tried.0.push((addr.to_string(), failure));
        }
        Err(NoAnswer::Nobody(tried))
    }
}

/// What a status means for who asks next.
enum Reply {
    Leader(Addr),
    Final,
    Failed(Failure),
}

impl Reply {
    fn of(status: &Status) -> Self {
        let leader = status.metadata().get(LEADER).and_then(|leader| leader.to_str().ok());
        match (status.code(), leader) {
            (Code::FailedPrecondition, Some(leader)) => Self::Leader(leader.into()),
            // Answers to the request, that each leader would give.
            (
                Code::FailedPrecondition
                | Code::InvalidArgument
                | Code::NotFound
                | Code::AlreadyExists
                | Code::OutOfRange
                | Code::ResourceExhausted
                | Code::Aborted,
                _,
            ) => Self::Final,
            _ => Self::Failed(Failure::of(status)),
        }
    }
}

impl Failure {
    pub(crate) fn of(status: &Status) -> Self {
        // A status of this side's transport has a source, one that was received has none.
        match status.source() {
            // "transport error" says nothing; what is below it does.
            Some(source) => Self::Unreachable(chain(source.source().unwrap_or(source))),
            None => Self::Unable(status.message().to_owned()),
        }
    }
}

/// What `error` says, and what each error below it adds.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        below = error.source();
    }
    text
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none is configured");
        }
        for (index, (addr, failure)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{addr}: {failure}")?;
        }
        Ok(())
    }
}
