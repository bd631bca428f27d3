//! What the handshake promises, held against strangers, replays and changed bytes.

use std::sync::Arc;

use forebay_rt::{ManualClock, SeededRng, spawn};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};

use super::*;

const CLIENT_BYTES: usize = GREETING_BYTES + NONCE_BYTES + PROOF_BYTES;
const SERVER_BYTES: usize = GREETING_BYTES + NONCE_BYTES + PROOF_BYTES + 1;

type Outcome = Result<(), HandshakeError>;

/// A process whose secret is `secret`, 32 times. Its time stands still.
fn process(secret: &str, seed: u64) -> Handshake {
    process_at(&ManualClock::new(), secret, seed)
}

fn process_at(clock: &ManualClock, secret: &str, seed: u64) -> Handshake {
    let secret = ClusterSecret::from_text(&secret.repeat(32)).unwrap();
    Handshake::new(secret, Arc::new(clock.clone()), Arc::new(SeededRng::new(seed)))
}

async fn meet(client: Handshake, server: Handshake) -> (Outcome, Outcome) {
    let (near, far) = duplex(1024);
    tokio::join!(async { client.offer(&mut { near }, Purpose::Data).await }, async {
        server.admit(&mut { far }, Purpose::Data).await
    },)
}

/// Passes bytes on, tells what they were, and changes the one at `flip`.
async fn relay(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    flip: Option<usize>,
) -> Vec<u8> {
    let mut passed = Vec::new();
    while let Ok(byte) = from.read_u8().await {
        let is_target = flip == Some(passed.len());
        passed.push(byte);
        if to.write_u8(byte ^ u8::from(is_target)).await.is_err() {
            break;
        }
    }
    // Best effort: the other side may be gone.
    let _ = to.shutdown().await;
    passed
}

/// A meeting with someone in between: how it ended at either side, and what each has sent.
async fn overheard(
    client: Handshake,
    server: Handshake,
    flip_up: Option<usize>,
    flip_down: Option<usize>,
) -> (Outcome, Outcome, Vec<u8>, Vec<u8>) {
    let (near, middle_near) = duplex(1024);
    let (far, middle_far) = duplex(1024);
    let (from_client, to_client) = tokio::io::split(middle_near);
    let (from_server, to_server) = tokio::io::split(middle_far);
    let up = spawn(relay(from_client, to_server, flip_up));
    let down = spawn(relay(from_server, to_client, flip_down));
    let (offered, admitted) =
        tokio::join!(async { client.offer(&mut { near }, Purpose::Data).await }, async {
            server.admit(&mut { far }, Purpose::Data).await
        },);
    (offered, admitted, up.await.unwrap(), down.await.unwrap())
}

/// How `server` ends when it is sent `bytes` and then nothing, while the connection stays open.
async fn admit_of(server: &Handshake, bytes: &[u8]) -> (Outcome, DuplexStream) {
    let (mut near, mut far) = duplex(1024);
    near.write_all(bytes).await.unwrap();
    (server.admit(&mut far, Purpose::Data).await, near)
}

#[tokio::test]
async fn holders_of_one_secret_agree_and_read_not_one_byte_further() {
    let (mut near, mut far) = duplex(1024);
    let client = async {
        process("s", 1).offer(&mut near, Purpose::Control).await.unwrap();
        near.write_all(b"GET").await.unwrap();
    };
    let server = async {
        process("s", 2).admit(&mut far, Purpose::Control).await.unwrap();
        far.write_all(b"200").await.unwrap();
    };
    tokio::join!(client, server);
    assert_eq!(&read::<3, _>(&mut near).await.unwrap(), b"200");
    assert_eq!(&read::<3, _>(&mut far).await.unwrap(), b"GET");
}

#[tokio::test]
async fn what_the_client_sends_right_behind_its_proof_is_left_in_the_stream() {
    let (mut near, mut far) = duplex(1024);
    let client = async {
        let nonce = [7; NONCE_BYTES];
        send(&mut near, &[&greeting(Purpose::Data), &nonce]).await.unwrap();
        read_greeting(&mut near).await.unwrap();
        let server_nonce = read(&mut near).await.unwrap();
        let _: [u8; PROOF_BYTES] = read(&mut near).await.unwrap();
        let session = Session { purpose: Purpose::Data, client_nonce: nonce, server_nonce };
        let proof = session.prove(&process("s", 1).secret, Side::Client);
        send(&mut near, &[proof.as_ref(), b"early"]).await.unwrap();
    };
    let server = process("s", 2);
    let ((), admitted) = tokio::join!(client, server.admit(&mut far, Purpose::Data));
    admitted.unwrap();
    assert_eq!(&read::<5, _>(&mut far).await.unwrap(), b"early");
}

#[tokio::test]
async fn a_client_refuses_a_server_with_another_secret() {
    let (offered, admitted) = meet(process("s", 1), process("t", 2)).await;
    assert!(matches!(offered, Err(HandshakeError::Secret)), "{offered:?}");
    assert!(matches!(admitted, Err(HandshakeError::Broken(_))), "{admitted:?}");
}

#[tokio::test]
async fn a_server_refuses_a_client_with_another_secret() {
    for proof in [Forged::OtherSecret, Forged::Echo, Forged::Zeros] {
        let (mut near, far) = duplex(1024);
        let server = process("s", 2);
        let (admitted, received) = tokio::join!(
            async { server.admit(&mut { far }, Purpose::Data).await },
            forge(&mut near, proof),
        );
        assert!(matches!(admitted, Err(HandshakeError::Secret)), "{admitted:?}");
        assert_eq!(received, 0, "bytes after the forged proof");
    }
}

enum Forged {
    /// Made with another secret.
    OtherSecret,
    /// The server's own proof, sent back.
    Echo,
    Zeros,
}

/// A client that does not care what the server proves. Returns how many bytes it is sent then.
async fn forge(stream: &mut DuplexStream, kind: Forged) -> usize {
    let client_nonce = [7; NONCE_BYTES];
    send(stream, &[&greeting(Purpose::Data), &client_nonce]).await.unwrap();
    read_greeting(stream).await.unwrap();
    let session =
        Session { purpose: Purpose::Data, client_nonce, server_nonce: read(stream).await.unwrap() };
    let theirs: [u8; PROOF_BYTES] = read(stream).await.unwrap();
    let other_secret = process("t", 1).secret;
    let proof = match kind {
        Forged::OtherSecret => session.prove(&other_secret, Side::Client).as_ref().to_vec(),
        Forged::Echo => theirs.to_vec(),
        Forged::Zeros => vec![0; PROOF_BYTES],
    };
    send(stream, &[&proof]).await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap()
}

#[tokio::test]
async fn a_recorded_client_is_refused_when_it_is_played_again() {
    let (offered, admitted, recording, _) =
        overheard(process("s", 1), process("s", 2), None, None).await;
    offered.and(admitted).unwrap();
    assert_eq!(recording.len(), CLIENT_BYTES);
    let (replayed, _open) = admit_of(&process("s", 3), &recording).await;
    assert!(matches!(replayed, Err(HandshakeError::Secret)), "{replayed:?}");
}

#[tokio::test]
async fn a_recorded_server_is_refused_when_it_is_played_again() {
    let (offered, admitted, _, recording) =
        overheard(process("s", 1), process("s", 2), None, None).await;
    offered.and(admitted).unwrap();
    assert_eq!(recording.len(), SERVER_BYTES);
    let (mut near, mut far) = duplex(1024);
    far.write_all(&recording).await.unwrap();
    let replayed = process("s", 3).offer(&mut near, Purpose::Data).await;
    assert!(matches!(replayed, Err(HandshakeError::Secret)), "{replayed:?}");
}

#[tokio::test]
async fn a_byte_changed_on_the_way_ends_the_handshake() {
    let flips = (0..CLIENT_BYTES).map(|at| (Some(at), None));
    let flips = flips.chain((0..SERVER_BYTES).map(|at| (None, Some(at))));
    for (up, down) in flips {
        let (offered, admitted, ..) = overheard(process("s", 1), process("s", 2), up, down).await;
        assert!(offered.is_err(), "up {up:?} down {down:?}");
        // The server has nothing to wait for after it admitted the client.
        assert!(admitted.is_err() || down == Some(SERVER_BYTES - 1), "up {up:?} down {down:?}");
    }
}

#[tokio::test]
async fn whoever_speaks_another_protocol_is_refused_at_its_first_bytes() {
    for garbage in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n", &[0; 6], &[0x16, 3, 1, 2, 0, 1]]
    {
        let (refused, near) = admit_of(&process("s", 1), garbage).await;
        assert!(matches!(refused, Err(HandshakeError::NotForebay)), "{refused:?}");
        drop(near);
        let (mut near, mut far) = duplex(1024);
        far.write_all(garbage).await.unwrap();
        let refused = process("s", 1).offer(&mut near, Purpose::Data).await;
        assert!(matches!(refused, Err(HandshakeError::NotForebay)), "{refused:?}");
    }
}

#[tokio::test]
async fn one_who_stops_speaking_is_given_up_in_time() {
    let hello = [&greeting(Purpose::Data)[..], &[7; NONCE_BYTES]].concat();
    for said in 0..=hello.len() {
        let clock = ManualClock::new();
        let server = process_at(&clock, "s", 1);
        let said = hello[..said].to_vec();
        let waiting = spawn(async move { admit_of(&server, &said).await.0 });
        tokio::task::yield_now().await;
        clock.advance(HANDSHAKE_TIME_MAX / 2);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        clock.advance(HANDSHAKE_TIME_MAX / 2);
        let ended = waiting.await.unwrap();
        assert!(matches!(ended, Err(HandshakeError::TimedOut)), "{ended:?}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_in_time() {
    let clock = ManualClock::new();
    let client = process_at(&clock, "s", 1);
    let (mut near, _far) = duplex(1024);
    let waiting = spawn(async move { client.offer(&mut near, Purpose::Data).await });
    tokio::task::yield_now().await;
    clock.advance(HANDSHAKE_TIME_MAX);
    let ended = waiting.await.unwrap();
    assert!(matches!(ended, Err(HandshakeError::TimedOut)), "{ended:?}");
}

#[tokio::test]
async fn a_connection_that_ends_early_is_an_error_at_once() {
    let (near, mut far) = duplex(1024);
    drop(near);
    let admitted = process("s", 1).admit(&mut far, Purpose::Data).await;
    assert!(matches!(admitted, Err(HandshakeError::Broken(_))), "{admitted:?}");
}

#[tokio::test]
async fn both_sides_say_that_a_connection_came_to_the_wrong_port() {
    let (mut near, mut far) = duplex(1024);
    let (client, server) = (process("s", 1), process("s", 2));
    let (offered, admitted) = tokio::join!(
        client.offer(&mut near, Purpose::Data),
        server.admit(&mut far, Purpose::Control)
    );
    assert!(matches!(offered, Err(HandshakeError::Purpose { ours: Purpose::Data })), "{offered:?}");
    let said = admitted.unwrap_err().to_string();
    assert!(said.contains("control connections: is this the right port?"), "{said}");
}

#[tokio::test]
async fn both_sides_say_that_the_other_is_of_another_version() {
    let mut newer = greeting(Purpose::Data);
    newer[MAGIC.len()] = VERSION + 1;

    let hello = [&newer[..], &[7; NONCE_BYTES]].concat();
    let (admitted, mut near) = admit_of(&process("s", 1), &hello).await;
    let said = admitted.unwrap_err().to_string();
    assert_eq!(said, "the other side speaks version 2 of the handshake, this side 1");
    assert_eq!(read(&mut near).await.unwrap(), greeting(Purpose::Data));

    let (mut near, mut far) = duplex(1024);
    far.write_all(&newer).await.unwrap();
    let offered = process("s", 1).offer(&mut near, Purpose::Data).await;
    assert!(matches!(offered, Err(HandshakeError::Version { theirs: 2 })), "{offered:?}");
}
