//! How a voter speaks to the others: openraft's calls as gRPC.
//!
//! Every frame names the disk that it is meant for. What goes wrong is always the same to
//! openraft: the voter cannot be reached, try later.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use forebay_rt::{SharedClock, timeout};
use forebay_wire::meta::Frame;
use forebay_wire::meta::raft_client::RaftClient;
use forebay_wire::{Handshake, control};
use openraft::OptionalSend;
use openraft::error::{Fatal, RPCError, RaftError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse,
};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::Status;
use tonic::transport::Channel;

use super::{Member, Snapshot, Types, Vote};
use crate::format::{self, FormatError};
use crate::limits::{CHUNK_BYTES, MESSAGE_BYTES_MAX, UNREACHABLE_PAUSE, VOTERS_MAX};

type RpcError = RPCError<u64, Member, RaftError<u64>>;

/// Connections to the other voters, made with the first call.
#[derive(Clone)]
pub(crate) struct Network {
    handshake: Handshake,
    clock: SharedClock,
    channels: Arc<Mutex<HashMap<String, Channel>>>,
}

/// The way to one voter.
pub(crate) struct Peer {
    clock: SharedClock,
    client: RaftClient<Channel>,
    disk_id: u64,
}

/// A call that came to nothing.
#[derive(Debug, thiserror::Error)]
enum CallError {
    #[error("{}", chain(.0))]
    Status(#[from] Status),
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("no answer in time")]
    TimedOut,
}

impl Network {
    pub(crate) fn new(handshake: Handshake, clock: SharedClock) -> Self {
        Self { handshake, clock, channels: Arc::default() }
    }

    /// A client for the voter at `addr`.
    pub(crate) fn client(&self, addr: &str) -> RaftClient<Channel> {
        let mut channels = self.channels.lock();
        if channels.len() > 2 * VOTERS_MAX {
            channels.clear();
        }
        let channel = channels
            .entry(addr.to_owned())
            .or_insert_with(|| control::channel(addr, self.handshake.clone()));
        RaftClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX)
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Peer;

    async fn new_client(&mut self, _target: u64, node: &Member) -> Peer {
        let (clock, client) = (self.clock.clone(), self.client(&node.addr));
        Peer { clock, client, disk_id: node.disk_id }
    }
}

impl Peer {
    fn frame<T: Serialize>(&self, message: &T) -> Result<Frame, FormatError> {
        Ok(Frame { disk_id: self.disk_id, data: format::to_bytes(message)?.into() })
    }

    async fn append<T: DeserializeOwned>(
        &mut self,
        request: &AppendEntriesRequest<Types>,
    ) -> Result<T, CallError> {
        let frame = self.frame(request)?;
        open(&self.client.append(frame).await?.into_inner())
    }

    async fn ask_vote<T: DeserializeOwned>(
        &mut self,
        request: &VoteRequest<u64>,
    ) -> Result<T, CallError> {
        let frame = self.frame(request)?;
        open(&self.client.vote(frame).await?.into_inner())
    }

    async fn send_snapshot<T: DeserializeOwned>(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
    ) -> Result<T, CallError> {
        let frames = self.cut(vote, &snapshot)?;
        open(&self.client.install_snapshot(futures_util::stream::iter(frames)).await?.into_inner())
    }

    /// The first frame is vote and meta, the others are the state.
    fn cut(&self, vote: Vote, snapshot: &Snapshot) -> Result<Vec<Frame>, FormatError> {
        let head = self.frame(&(vote, &snapshot.meta))?;
        let mut state = bytes::Bytes::from(format::to_bytes(&**snapshot.snapshot)?);
        let mut frames = vec![head];
        while !state.is_empty() {
            let data = state.split_to(CHUNK_BYTES.min(state.len()));
            frames.push(Frame { disk_id: self.disk_id, data });
        }
        Ok(frames)
    }
}

fn open<T: DeserializeOwned>(frame: &Frame) -> Result<T, CallError> {
    Ok(format::from_bytes(&frame.data)?)
}

impl RaftNetwork<Types> for Peer {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<u64>, RpcError> {
        self.append(&rpc).await.map_err(|error| Unreachable::new(&error).into())
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<u64>,
        _option: RPCOption,
    ) -> Result<VoteResponse<u64>, RpcError> {
        self.ask_vote(&rpc).await.map_err(|error| Unreachable::new(&error).into())
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<u64>, StreamingError<Types, Fatal<u64>>> {
        let clock = self.clock.clone();
        let sent = timeout(&*clock, option.hard_ttl(), self.send_snapshot(vote, snapshot));
        tokio::select! {
            sent = sent => {
                let sent = sent.unwrap_or(Err(CallError::TimedOut));
                sent.map_err(|error| Unreachable::new(&error).into())
            }
            closed = cancel => Err(closed.into()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(UNREACHABLE_PAUSE))
    }
}

/// A status of the transport says what happened only in its sources.
fn chain(status: &Status) -> String {
    let mut text = format!("{:?}: {}", status.code(), status.message());
    let mut source = status.source();
    while let Some(below) = source {
        text = format!("{text}: {below}");
        source = below.source();
    }
    text
}
