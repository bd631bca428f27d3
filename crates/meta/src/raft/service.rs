//! What a voter answers the others.
//!
//! A frame that is meant for another disk is refused: either this voter lost its disk and may not
//! vote under its old id, or its address belonged to another one before.

use std::fmt;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use forebay_wire::meta::raft_server;
use forebay_wire::meta::{Frame, HelloReply, HelloRequest, Voter};
use openraft::raft::{AppendEntriesRequest, VoteRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tonic::{Request, Response, Status, Streaming};

use super::{Identity, Raft, Snapshot, SnapshotMeta, Types, Vote};
use crate::format;
use crate::limits::SNAPSHOT_BYTES_MAX;
use crate::state::State;

type Answer<T> = Result<Response<T>, Status>;

/// The Raft service of one voter.
pub(crate) struct RaftService {
    pub(crate) identity: Identity,
    /// Where it says that it can be reached.
    pub(crate) addr: String,
    pub(crate) raft: Raft,
}

#[tonic::async_trait]
impl raft_server::Raft for RaftService {
    async fn append(&self, request: Request<Frame>) -> Answer<Frame> {
        let request: AppendEntriesRequest<Types> = self.open(request.into_inner())?;
        self.seal(&self.raft.append_entries(request).await.map_err(stopped)?)
    }

    async fn vote(&self, request: Request<Frame>) -> Answer<Frame> {
        let request: VoteRequest<u64> = self.open(request.into_inner())?;
        self.seal(&self.raft.vote(request).await.map_err(stopped)?)
    }

    async fn install_snapshot(&self, request: Request<Streaming<Frame>>) -> Answer<Frame> {
        let (vote, snapshot) = self.receive(request.into_inner()).await?;
        self.seal(&self.raft.install_full_snapshot(vote, snapshot).await.map_err(stopped)?)
    }

    async fn hello(&self, _request: Request<HelloRequest>) -> Answer<HelloReply> {
        let me =
            Voter { id: self.identity.id, addr: self.addr.clone(), disk_id: self.identity.disk_id };
        let is_member = self.raft.is_initialized().await.map_err(stopped)?;
        Ok(Response::new(HelloReply { me: Some(me), is_member }))
    }
}

impl RaftService {
    /// The contents of a frame that is meant for this disk.
    fn check(&self, frame: Frame) -> Result<Bytes, Status> {
        if frame.disk_id == self.identity.disk_id {
            return Ok(frame.data);
        }
        let id = self.identity.id;
        tracing::debug!(id, meant = frame.disk_id, "refused a frame for another disk");
        Err(Status::failed_precondition(format!("voter {id} is on another disk by now")))
    }

    fn open<T: DeserializeOwned>(&self, frame: Frame) -> Result<T, Status> {
        read(&self.check(frame)?)
    }

    fn seal<T: Serialize>(&self, reply: &T) -> Answer<Frame> {
        let data = format::to_bytes(reply).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(Frame { disk_id: self.identity.disk_id, data: data.into() }))
    }

    async fn receive(&self, mut frames: Streaming<Frame>) -> Result<(Vote, Snapshot), Status> {
        let cut_short = || Status::invalid_argument("the snapshot ended before it began");
        let head = frames.message().await?.ok_or_else(cut_short)?;
        let (vote, meta): (Vote, SnapshotMeta) = self.open(head)?;
        let mut state = BytesMut::new();
        while let Some(frame) = frames.message().await? {
            let data = self.check(frame)?;
            if state.len() + data.len() > SNAPSHOT_BYTES_MAX {
                return Err(Status::resource_exhausted("the snapshot is too large"));
            }
            state.extend_from_slice(&data);
        }
        let state: State = read(&state)?;
        Ok((vote, Snapshot { meta, snapshot: Box::new(Arc::new(state)) }))
    }
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Status> {
    format::from_bytes(bytes).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// openraft answers with an error only where it has stopped for good.
fn stopped(error: impl fmt::Display) -> Status {
    Status::unavailable(format!("this voter has stopped: {error}"))
}
