//! Signs of life of workers.

use forebay_wire::meta::{HeartbeatReply, HeartbeatRequest};
use forebay_wire::view::{Worker, WorkerState};
use tonic::Status;

use super::ControlService;
use crate::leader::{NoAnswer, Unheard};
use crate::limits::NAME_BYTES_MAX;
use crate::state::{Heard, Wish};

impl ControlService {
    /// The epoch is read after the moment that `quorum_age_ms` counts from, so it is no older than
    /// any that had begun then. That is what a worker's lease rests on.
    pub(super) fn answer_heartbeat(
        &self,
        request: HeartbeatRequest,
    ) -> Result<HeartbeatReply, Status> {
        let worker = request.worker.ok_or_else(|| Status::invalid_argument("no worker"))?;
        let heard = parse(worker)?;
        let confirmed = self.leadership.hear(&self.group, request.incarnation, heard);
        let quorum_age = confirmed.map_err(|no| self.unanswered(no))?;
        let epoch = self.group.state().epoch();
        let whole_ms = u64::try_from(quorum_age.as_millis()).unwrap_or(u64::MAX);
        // Rounded up: never younger than it is.
        Ok(HeartbeatReply { epoch, quorum_age_ms: whole_ms.saturating_add(1) })
    }

    fn unanswered(&self, no: NoAnswer) -> Status {
        match no {
            NoAnswer::NotLeading => self.group.not_leading(),
            NoAnswer::NotConfirmed => {
                Status::unavailable("no majority has confirmed lately that this voter leads")
            }
            NoAnswer::Unheard(why @ Unheard::Replaced) => Status::already_exists(why.to_string()),
            NoAnswer::Unheard(why @ Unheard::TooMany) => {
                Status::resource_exhausted(why.to_string())
            }
        }
    }
}

fn parse(worker: Worker) -> Result<Heard, Status> {
    let wish = match worker.state() {
        WorkerState::Joining => Wish::Joining,
        WorkerState::Active => Wish::Active,
        WorkerState::Draining => Wish::Draining,
        WorkerState::Down | WorkerState::Unspecified => {
            return Err(Status::invalid_argument("a worker wishes to join, be active, or drain"));
        }
    };
    let Worker { id, data_addr, s3_addr, zone, capacity_bytes, .. } = worker;
    if [&data_addr, &s3_addr, &zone].iter().any(|name| name.len() > NAME_BYTES_MAX) {
        let message = format!("an address or zone of more than {NAME_BYTES_MAX} bytes");
        return Err(Status::invalid_argument(message));
    }
    Ok(Heard { id, data_addr, s3_addr, zone, capacity_bytes, wish })
}
