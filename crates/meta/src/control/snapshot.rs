//! The state as one file, for a group that may lose its majority one day.

use bytes::Bytes;
use forebay_rt::timeout;
use forebay_wire::meta::Chunk;
use futures_util::stream::iter;
use openraft::error::{CheckIsLeaderError, RaftError};
use tonic::Status;

use super::{ControlService, Streamed};
use crate::limits::{CHUNK_BYTES, PROPOSE_TIME_MAX};
use crate::snapshot_file;
use crate::voter::stopped;

impl ControlService {
    /// Everything that was committed before the request is in it.
    pub(super) async fn copy_state(&self) -> Result<Streamed<Chunk>, Status> {
        let group = &self.group;
        let current =
            timeout(&*group.clock, PROPOSE_TIME_MAX, group.raft.ensure_linearizable()).await;
        let unconfirmed = || Status::unavailable("no majority confirms that this voter leads");
        current.map_err(|_| unconfirmed())?.map_err(|error| match error {
            RaftError::APIError(CheckIsLeaderError::ForwardToLeader(_)) => group.not_leading(),
            RaftError::APIError(CheckIsLeaderError::QuorumNotEnough(_)) => unconfirmed(),
            RaftError::Fatal(fatal) => stopped(fatal),
        })?;
        let file = snapshot_file::encode(&group.state());
        let mut file = Bytes::from(file.map_err(|error| Status::internal(error.to_string()))?);
        let chunks = std::iter::from_fn(move || {
            let data = file.split_to(CHUNK_BYTES.min(file.len()));
            (!data.is_empty()).then_some(Ok(Chunk { data }))
        });
        Ok(Box::pin(iter(chunks)))
    }
}
