//! Requests that are a command for the state machine.

use forebay_wire::meta::{
    ChangeReply, DrainRequest, FenceReply, FenceRequest, ForgetWorkerRequest, SetRingRequest,
    SetRulesRequest,
};
use tonic::Status;

use super::ControlService;
use crate::limits::RULES_BYTES_MAX;
use crate::state::Command;

impl ControlService {
    pub(super) async fn begin_epoch(&self, request: FenceRequest) -> Result<FenceReply, Status> {
        // What has been applied here has begun, whoever leads.
        let epoch = self.group.state().epoch();
        if epoch > request.epoch {
            return Ok(FenceReply { epoch, begun: false });
        }
        let applied = self.group.propose(Command::Fence { epoch: request.epoch }).await?;
        Ok(FenceReply { epoch: applied.epoch, begun: applied.changed })
    }

    pub(super) async fn set_drained(&self, request: DrainRequest) -> Result<ChangeReply, Status> {
        let DrainRequest { worker, drain } = request;
        self.change(Command::Drain { worker, drain }).await
    }

    pub(super) async fn forget_worker(
        &self,
        request: ForgetWorkerRequest,
    ) -> Result<ChangeReply, Status> {
        self.change(Command::Forget { worker: request.worker }).await
    }

    pub(super) async fn change_ring(&self, request: SetRingRequest) -> Result<ChangeReply, Status> {
        let SetRingRequest { virtual_nodes, seed } = request;
        self.change(Command::SetRing { virtual_nodes, seed }).await
    }

    pub(super) async fn change_rules(
        &self,
        request: SetRulesRequest,
    ) -> Result<ChangeReply, Status> {
        if request.toml.len() > RULES_BYTES_MAX {
            let message = format!("rules of more than {RULES_BYTES_MAX} bytes");
            return Err(Status::invalid_argument(message));
        }
        self.change(Command::SetRules { toml: request.toml }).await
    }

    async fn change(&self, command: Command) -> Result<ChangeReply, Status> {
        let applied = self.group.propose(command).await?;
        Ok(ChangeReply { revision: applied.revision })
    }
}
