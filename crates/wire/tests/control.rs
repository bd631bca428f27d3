//! gRPC on the control port: holders of the secret are answered, nobody else is.

#![allow(clippy::unwrap_used, reason = "a test says that it cannot go on by panicking")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::{ManualClock, SystemClock, SystemRng, spawn, timeout};
use forebay_wire::limits::HANDSHAKE_TIME_MAX;
use forebay_wire::meta::control_client::ControlClient;
use forebay_wire::meta::control_server::{Control, ControlServer};
use forebay_wire::meta::{
    ChangeReply, Chunk, DrainRequest, FenceReply, FenceRequest, ForgetWorkerRequest,
    HeartbeatReply, HeartbeatRequest, RemoveVoterRequest, SetRingRequest, SetRulesRequest,
    SnapshotRequest, StatusReply, StatusRequest, Voter, WatchRequest,
};
use forebay_wire::view::View;
use forebay_wire::{ClusterSecret, Handshake, HandshakeError, Purpose, control};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};

const ANYWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A voter that knows its term, and watches that begin and never change.
struct Stub {
    term: u64,
}

type Answer<T> = Result<Response<T>, Status>;

fn not_here<T>() -> Answer<T> {
    Err(Status::unimplemented("the stub has no state"))
}

#[tonic::async_trait]
impl Control for Stub {
    type WatchStream = BoxStream<'static, Result<View, Status>>;
    type SnapshotStream = BoxStream<'static, Result<Chunk, Status>>;

    async fn status(&self, _: Request<StatusRequest>) -> Answer<StatusReply> {
        Ok(Response::new(StatusReply { term: self.term, ..StatusReply::default() }))
    }

    async fn watch(&self, asked: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        let view = View { revision: asked.into_inner().revision + 1, ..View::default() };
        let never_ends = futures_util::stream::pending();
        Ok(Response::new(futures_util::stream::iter([Ok(view)]).chain(never_ends).boxed()))
    }

    async fn heartbeat(&self, _: Request<HeartbeatRequest>) -> Answer<HeartbeatReply> {
        not_here()
    }

    async fn fence(&self, _: Request<FenceRequest>) -> Answer<FenceReply> {
        not_here()
    }

    async fn drain(&self, _: Request<DrainRequest>) -> Answer<ChangeReply> {
        not_here()
    }

    async fn forget(&self, _: Request<ForgetWorkerRequest>) -> Answer<ChangeReply> {
        not_here()
    }

    async fn set_ring(&self, _: Request<SetRingRequest>) -> Answer<ChangeReply> {
        not_here()
    }

    async fn set_rules(&self, _: Request<SetRulesRequest>) -> Answer<ChangeReply> {
        not_here()
    }

    async fn add_voter(&self, _: Request<Voter>) -> Answer<ChangeReply> {
        not_here()
    }

    async fn remove_voter(&self, _: Request<RemoveVoterRequest>) -> Answer<ChangeReply> {
        not_here()
    }

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Answer<Self::SnapshotStream> {
        not_here()
    }
}

fn secret_of(text: &str) -> ClusterSecret {
    ClusterSecret::from_text(&text.repeat(32)).unwrap()
}

fn holder_of(secret: &str) -> Handshake {
    Handshake::new(secret_of(secret), Arc::new(SystemClock), Arc::new(SystemRng))
}

/// Serves for as long as the runtime lives.
async fn serve_at(addr: SocketAddr, term: u64) -> SocketAddr {
    let listener = TcpListener::bind(addr).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serving = control::server()
        .add_service(ControlServer::new(Stub { term }))
        .serve_with_incoming(control::incoming(listener, holder_of("s")));
    spawn(async move { serving.await.unwrap() });
    addr
}

async fn serve() -> SocketAddr {
    serve_at(ANYWHERE, 7).await
}

fn client_of(addr: SocketAddr, secret: &str) -> ControlClient<Channel> {
    ControlClient::new(control::channel(&addr.to_string(), holder_of(secret)))
}

async fn term(client: &mut ControlClient<Channel>) -> Result<u64, Status> {
    Ok(client.status(StatusRequest {}).await?.into_inner().term)
}

/// An error with everything that caused it.
fn causes(status: &Status) -> String {
    let first: Option<&dyn std::error::Error> = Some(status);
    let causes = std::iter::successors(first, |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[tokio::test]
async fn a_holder_of_the_secret_is_answered() {
    let mut client = client_of(serve().await, "s");
    assert_eq!(term(&mut client).await.unwrap(), 7);
    let watched = client.watch(WatchRequest { revision: 4 }).await.unwrap();
    let view = watched.into_inner().message().await.unwrap();
    assert_eq!(view.unwrap().revision, 5);
}

#[tokio::test]
async fn a_client_with_another_secret_is_told_so() {
    let status = term(&mut client_of(serve().await, "t")).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(causes(&status).contains("another cluster secret"), "{}", causes(&status));
}

#[tokio::test]
async fn a_grpc_client_without_the_handshake_is_refused() {
    let addr = serve().await;
    let endpoint = Endpoint::from_shared(format!("http://{addr}")).unwrap();
    let mut stranger = ControlClient::new(endpoint.connect_lazy());
    assert!(term(&mut stranger).await.is_err());
    assert_eq!(term(&mut client_of(addr, "s")).await.unwrap(), 7);
}

#[tokio::test]
async fn an_http_client_gets_no_byte_of_an_answer() {
    let mut stranger = TcpStream::connect(serve().await).await.unwrap();
    stranger.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The connection ends with a reset, because the request was not read to its end.
    let _ = stranger.read_to_end(&mut answer).await;
    assert_eq!(answer, b"");
}

#[tokio::test]
async fn a_connection_for_data_is_refused_by_the_control_port() {
    let mut stream = TcpStream::connect(serve().await).await.unwrap();
    let refused = holder_of("s").offer(&mut stream, Purpose::Data).await;
    assert!(matches!(refused, Err(HandshakeError::Purpose { .. })), "{refused:?}");
}

#[tokio::test]
async fn silent_strangers_do_not_delay_a_holder() {
    let addr = serve().await;
    let mut strangers = Vec::new();
    for _ in 0..50 {
        strangers.push(TcpStream::connect(addr).await.unwrap());
    }
    let mut client = client_of(addr, "s");
    let answered = timeout(&SystemClock, Duration::from_secs(1), term(&mut client)).await;
    assert_eq!(answered.unwrap().unwrap(), 7);
}

#[test]
fn a_channel_finds_a_voter_that_came_back() {
    let [here, first, second] = [(); 3].map(|()| Runtime::new().unwrap());
    let addr = first.block_on(serve_at(ANYWHERE, 1));
    let mut client = here.block_on(async { client_of(addr, "s") });
    assert_eq!(here.block_on(term(&mut client)).unwrap(), 1);

    // With the runtime go its listener and its connections, as with a process.
    drop(first);
    assert!(here.block_on(term(&mut client)).is_err());
    second.block_on(serve_at(addr, 2));
    assert_eq!(here.block_on(term(&mut client)).unwrap(), 2);
}

#[tokio::test]
async fn an_address_where_nobody_listens_is_unavailable_at_once() {
    let listener = TcpListener::bind(ANYWHERE).await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    for addr in [addr.to_string(), "not an address".into(), String::new()] {
        let mut client = ControlClient::new(control::channel(&addr, holder_of("s")));
        let status = term(&mut client).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{}", causes(&status));
    }
}

#[tokio::test]
async fn a_port_that_accepts_and_says_nothing_is_given_up() {
    let listener = TcpListener::bind(ANYWHERE).await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let clock = ManualClock::new();
    let handshake = Handshake::new(secret_of("s"), Arc::new(clock.clone()), Arc::new(SystemRng));
    let mut client = ControlClient::new(control::channel(&addr, handshake));
    let asking = spawn(async move { term(&mut client).await });

    let (mut silent, _) = listener.accept().await.unwrap();
    silent.read_u8().await.unwrap();
    clock.advance(HANDSHAKE_TIME_MAX);
    let status = asking.await.unwrap().unwrap_err();
    assert!(causes(&status).contains("did not finish the handshake"), "{}", causes(&status));
}
