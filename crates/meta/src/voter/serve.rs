//! The control port.

use std::sync::Arc;

use forebay_rt::Shutdown;
use forebay_wire::control;
use forebay_wire::meta::control_server::ControlServer;
use forebay_wire::meta::raft_server::RaftServer;
use tokio::net::TcpListener;

use super::{Group, connections};
use crate::control::ControlService;
use crate::leader::Leadership;
use crate::limits::{CONNECTIONS_MAX, MESSAGE_BYTES_MAX, STREAMS_MAX};
use crate::raft::RaftService;

/// Serves until shutdown has begun and every connection has ended.
pub(super) async fn serve(
    group: Arc<Group>,
    leadership: Arc<Leadership>,
    listener: TcpListener,
    shutdown: Shutdown,
) {
    let raft = RaftService {
        identity: group.identity,
        addr: group.addr.clone(),
        raft: group.raft.clone(),
    };
    let raft = RaftServer::new(raft)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let incoming = control::incoming(listener, group.handshake.clone());
    let control = ControlServer::new(ControlService::new(group, leadership, shutdown.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let served = control::server()
        .max_concurrent_streams(STREAMS_MAX)
        .add_service(raft)
        .add_service(control)
        .serve_with_incoming_shutdown(
            connections::at_most(CONNECTIONS_MAX, incoming),
            shutdown.begun(),
        );
    if let Err(error) = served.await {
        tracing::error!(%error, "the control port has failed");
    }
}
