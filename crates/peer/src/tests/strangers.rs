//! Who is kept out, and that nobody is kept out by those.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_rt::{Clock, SystemClock, SystemRng, spawn, timeout};
use forebay_wire::peer::InHeader;
use forebay_wire::{Handshake, Purpose};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::world::{
    Asker, OWNER, Owner, SIZE, eventually, metric, ms, range, read_ask, secret, whole,
};
use crate::{PeerError, PeerLimits, ServerLimits};

fn refused(reason: &str) -> f64 {
    metric(&format!("forebay_peer_connections_refused_total{{reason=\"{reason}\"}}"))
}

/// What the data port says to these bytes before it hangs up.
async fn say(owner: &Owner, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(owner.addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let reading = timeout(&SystemClock, ms(4000), stream.read_to_end(&mut answer)).await;
    // A reset says no as well.
    let _ = reading.expect("the port hangs up");
    answer
}

#[tokio::test]
async fn plain_http_gets_no_answer_and_is_counted() {
    let owner = Owner::start();
    let before = refused("stranger");
    let ask = read_ask("mem", whole()).to_header().unwrap();
    let ask = ask.to_str().unwrap();
    let http = format!("GET /v1/read HTTP/1.1\r\nhost: h\r\nx-forebay-ask: {ask}\r\n\r\n");
    assert_eq!(say(&owner, http.as_bytes()).await, b"");
    assert!(refused("stranger") >= before + 1.0);
    assert_eq!(owner.stub.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_worker_with_another_secret_is_refused_and_counted() {
    let owner = Owner::start();
    let before = refused("secret") + refused("stranger");
    let failed = Asker::holding("t", owner.addr, PeerLimits::default()).peers.ping(OWNER).await;
    assert!(matches!(failed, Err(PeerError::Unreachable(_))), "{failed:?}");
    eventually("counted", || refused("secret") + refused("stranger") > before).await;
    assert_eq!(owner.stub.asked.load(Ordering::Relaxed), 0);
}

/// Passes bytes on between a client and the owner, and keeps what the client says.
async fn eavesdrop(owner: &Owner) -> (std::net::SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (addr, upstream) = (listener.local_addr().unwrap(), owner.addr);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let kept = heard.clone();
    spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(upstream).await.unwrap();
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let up = async {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = from_client.read(&mut buffer).await {
                kept.lock().extend_from_slice(&buffer[..len]);
                to_server.write_all(&buffer[..len]).await.unwrap();
            }
        };
        tokio::join!(up, tokio::io::copy(&mut from_server, &mut to_client)).1.unwrap();
    });
    (addr, heard)
}

#[tokio::test]
async fn what_a_peer_said_once_does_nothing_when_it_is_said_again() {
    let owner = Owner::start();
    let (addr, heard) = eavesdrop(&owner).await;
    let asker = Asker::of(addr);
    asker.read_all("mem", range(0, 100)).await.unwrap();
    drop(asker);
    assert_eq!(owner.stub.asked.load(Ordering::Relaxed), 1);
    let recorded = heard.lock().clone();
    assert!(recorded.windows(8).any(|part| part == b"/v1/read"), "all of it was heard");
    let answer = say(&owner, &recorded).await;
    assert!(!answer.windows(4).any(|part| part == b"HTTP"), "{answer:?}");
    assert_eq!(owner.stub.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn strangers_take_no_place_from_peers() {
    let limits = ServerLimits { handshakes: 8, connections: 4, ..ServerLimits::default() };
    let owner = Owner::with(limits);
    let before = refused("crowded_out");
    let mut strangers = Vec::new();
    for _ in 0..100 {
        strangers.push(TcpStream::connect(owner.addr).await.unwrap());
    }
    let begun = SystemClock.now();
    assert_eq!(Asker::of(owner.addr).read_all("mem", whole()).await, Ok(SIZE));
    assert!(begun.elapsed() < ms(300), "{:?}", begun.elapsed());
    assert!(refused("crowded_out") >= before + 92.0, "{}", refused("crowded_out") - before);
}

#[tokio::test]
async fn a_stranger_who_says_nothing_is_not_listened_to_for_long() {
    let owner = Owner::with(ServerLimits { handshake: ms(100), ..ServerLimits::default() });
    let before = refused("timeout");
    assert_eq!(say(&owner, b"").await, b"");
    assert!(refused("timeout") > before);
}

#[tokio::test]
async fn there_are_places_for_so_many_peers_and_no_more() {
    let owner = Owner::with(ServerLimits { connections: 2, ..ServerLimits::default() });
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let handshake = Handshake::new(secret("s"), clock, Arc::new(SystemRng));
    let mut admitted = Vec::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(owner.addr).await.unwrap();
        handshake.offer(&mut stream, Purpose::Data).await.unwrap();
        admitted.push(stream);
    }
    eventually("both are in", || owner.connections() == 2).await;
    let before = refused("full");
    let failed = Asker::of(owner.addr).read_all("mem", whole()).await;
    assert!(matches!(failed, Err(PeerError::Unreachable(_))), "{failed:?}");
    assert!(refused("full") > before);
    admitted.clear();
    eventually("both have left", || owner.connections() == 0).await;
    assert_eq!(Asker::of(owner.addr).read_all("mem", whole()).await, Ok(SIZE));
}
