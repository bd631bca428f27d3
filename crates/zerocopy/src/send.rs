//! Putting slices on a socket, each by the call that suits it.
//!
//! Non-blocking. Slices of a window go by `sendfile(2)`, piece by piece, each only if it is
//! vouched for; what is in a pipe by `splice(2)`; all others by `sendmsg(2)`. What matters is the count: a caller that is told
//! more or less than what left sends wrong bytes.
#![allow(unsafe_code, reason = "sendfile has no safe wrapper in std")]

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::pipe::{self, PipeSlice};
use crate::registry::{self, FileSlice};
use crate::trust::{Next, Trust};

/// Slices per `sendmsg`: the kernel's UIO_MAXIOV.
const SENDMSG_SLICES: usize = 1024;

/// What came of sending.
#[derive(Debug)]
pub(crate) enum Sent<'a> {
    /// So many bytes left.
    Bytes(usize),
    /// None did: this piece comes first, and has to be checked.
    Unsure(FileSlice<'a>),
}

/// Sends `slices` in order for as long as the socket takes them, and at most about
/// `limit_bytes`.
///
/// What goes wrong after some bytes have left is met again by the next call.
pub(crate) fn send<'a>(
    socket: &TcpStream,
    slices: &'a [IoSlice<'_>],
    limit_bytes: usize,
    trust: &Trust,
) -> io::Result<Sent<'a>> {
    let mut sent = 0;
    let mut rest = Rest { slices, skip: 0 };
    while sent < limit_bytes
        && let Some(run) = rest.next_run(limit_bytes - sent, trust)
    {
        let result = match &run {
            Run::Memory(run) => send_memory(socket, run, !rest.slices.is_empty()),
            Run::Piece(piece) => send_piece(socket.as_fd(), piece),
            Run::Piped(piped) => piped.send(socket, !rest.slices.is_empty()),
            Run::Unsure(piece) if sent == 0 => return Ok(Sent::Unsure(*piece)),
            Run::Unsure(_) => break,
        };
        match result {
            Ok(bytes) => sent += bytes,
            Err(error) if sent == 0 => return Err(error),
            Err(_) => break,
        }
        if result.is_ok_and(|bytes| bytes < run.len()) {
            break;
        }
    }
    Ok(Sent::Bytes(sent))
}

/// What has not been sent yet.
struct Rest<'a, 'b> {
    slices: &'a [IoSlice<'b>],
    /// Bytes of the first slice that have been sent.
    skip: usize,
}

/// What one call sends.
enum Run<'a, 'b> {
    Memory(&'a [IoSlice<'b>]),
    Piece(FileSlice<'a>),
    Piped(PipeSlice),
    /// Not to be sent before it is checked.
    Unsure(FileSlice<'a>),
}

impl<'a, 'b> Rest<'a, 'b> {
    fn next_run(&mut self, limit_bytes: usize, trust: &Trust) -> Option<Run<'a, 'b>> {
        let slices = self.slices;
        let first = slices.first()?;
        if let Some(slice) = registry::resolve(&first[self.skip..]) {
            let piece = match trust.next(slice, limit_bytes) {
                Next::Send(piece) => piece,
                Next::Recheck(piece) => return Some(Run::Unsure(piece)),
            };
            self.skip += piece.len;
            if self.skip == first.len() {
                (self.slices, self.skip) = (&slices[1..], 0);
            }
            return Some(Run::Piece(piece));
        }
        if let Some(piped) = pipe::resolve(&first[self.skip..]) {
            (self.slices, self.skip) = (&slices[1..], 0);
            return Some(Run::Piped(piped));
        }
        let after_memory = slices.iter().position(|slice| !is_memory(slice));
        let (run, after) =
            slices.split_at(after_memory.unwrap_or(slices.len()).min(SENDMSG_SLICES));
        self.slices = after;
        Some(Run::Memory(run))
    }
}

impl Run<'_, '_> {
    fn len(&self) -> usize {
        match self {
            Self::Memory(slices) => slices.iter().map(|slice| slice.len()).sum(),
            Self::Piece(piece) | Self::Unsure(piece) => piece.len,
            Self::Piped(piped) => piped.len,
        }
    }
}

/// Whether a slice is of bytes that can be read.
fn is_memory(slice: &[u8]) -> bool {
    registry::resolve(slice).is_none() && pipe::resolve(slice).is_none()
}

/// With `more` to follow at once, a header waits in the socket to share a packet with its body.
fn send_memory(socket: &TcpStream, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let flags = if more { libc::MSG_NOSIGNAL | libc::MSG_MORE } else { libc::MSG_NOSIGNAL };
    uninterrupted(|| SockRef::from(socket).send_vectored_with_flags(slices, flags))
}

/// A peer that is gone raises SIGPIPE here, which Rust's runtime ignores; the error is EPIPE.
fn send_piece(socket: BorrowedFd<'_>, piece: &FileSlice<'_>) -> io::Result<usize> {
    let FileSlice { window, offset, len } = *piece;
    let sent = uninterrupted(|| {
        let mut offset = offset as libc::off64_t;
        let file = window.file().as_raw_fd();
        // SAFETY: both descriptors are borrowed and so open; the kernel writes only `offset`.
        let sent = unsafe { libc::sendfile64(socket.as_raw_fd(), file, &raw mut offset, len) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    })?;
    if sent == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "segment file ends before offset {offset}, where {len} bytes were promised: \
                 cut the connection and drop the segment"
            ),
        ));
    }
    Ok(sent)
}

pub(crate) fn uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;
    use crate::tests::{Segment, clock};
    use crate::trust::PIECE_BYTES;

    const NO_LIMIT: usize = usize::MAX;

    fn send(socket: &TcpStream, slices: &[IoSlice<'_>], limit_bytes: usize) -> io::Result<usize> {
        match super::send(socket, slices, limit_bytes, &Trust::new(clock()))? {
            Sent::Bytes(bytes) => Ok(bytes),
            Sent::Unsure(piece) => panic!("unsure of {piece:?}"),
        }
    }

    async fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap().0;
        server.set_nodelay(true).unwrap();
        server.writable().await.unwrap();
        (server, client)
    }

    async fn received(mut client: TcpStream, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        client.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    #[allow(unsafe_code, reason = "socket2 does not know TCP_INFO")]
    fn data_segments_sent(socket: &TcpStream) -> u32 {
        // SAFETY: a structure of integers, for which zeros are valid.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes of `info`.
        let code = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut len,
            )
        };
        assert_eq!(code, 0);
        info.tcpi_data_segs_out
    }

    #[tokio::test]
    async fn a_header_and_its_body_share_a_packet() {
        let (server, client) = connected().await;
        let segment = Segment::random(80, 1_000);
        let token = segment.window.token(0..1_000, ());
        let slices = [IoSlice::new(b"head"), IoSlice::new(b"er"), IoSlice::new(&token)];
        assert_eq!(send(&server, &slices, NO_LIMIT).unwrap(), 1_006);
        assert_eq!(data_segments_sent(&server), 1);
        assert!(received(client, 1_006).await[6..] == segment.bytes);
    }

    #[tokio::test]
    async fn memory_with_nothing_to_follow_does_not_wait() {
        let (server, client) = connected().await;
        assert_eq!(send(&server, &[IoSlice::new(b"all")], NO_LIMIT).unwrap(), 3);
        assert_eq!(data_segments_sent(&server), 1);
        assert_eq!(received(client, 3).await, b"all");
    }

    #[tokio::test]
    async fn one_call_sends_runs_of_both_kinds_in_order() {
        let (server, client) = connected().await;
        let segment = Segment::random(81, 1_000);
        let (one, two) = (segment.window.token(0..500, ()), segment.window.token(500..1_000, ()));
        let slices: [&[u8]; 6] = [b"", &one, &two, b"-", b"+", &one];
        let expected = slices.concat();
        assert_eq!(send(&server, &slices.map(IoSlice::new), NO_LIMIT).unwrap(), 1_502);
        assert!(received(client, 1_502).await == expected);
    }

    #[tokio::test]
    async fn files_go_no_further_than_the_limit() {
        let (server, client) = connected().await;
        let segment = Segment::random(82, 10_000);
        let token = segment.window.token(0..10_000, ());
        let slices = [IoSlice::new(&token[..6_000]), IoSlice::new(&token[6_000..])];
        assert_eq!(send(&server, &slices, 7_000).unwrap(), 7_000);
        assert!(received(client, 7_000).await == segment.bytes[..7_000]);
    }

    /// A file that has lost its last 1,000 bytes, but none of its pages.
    fn shortened(seed: u64) -> Segment {
        let segment = Segment::random(seed, 10_000);
        segment.window.file().set_len(9_000).unwrap();
        segment
    }

    #[tokio::test]
    async fn an_error_after_some_bytes_reports_these_and_then_itself() {
        let (server, client) = connected().await;
        let segment = shortened(83);
        let missing = segment.window.token(9_000..10_000, ());
        let slices = [IoSlice::new(b"header"), IoSlice::new(&missing)];
        assert_eq!(send(&server, &slices, NO_LIMIT).unwrap(), 6);
        let error = send(&server, &slices[1..], NO_LIMIT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(received(client, 6).await, b"header");
    }

    #[tokio::test]
    async fn nothing_is_sent_past_a_piece_that_was_cut_short() {
        let (server, mut client) = connected().await;
        let segment = shortened(85);
        let token = segment.window.token(0..10_000, ());
        let slices = [IoSlice::new(&token), IoSlice::new(b"what follows")];
        assert_eq!(send(&server, &slices, NO_LIMIT).unwrap(), 9_000);
        drop(server);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert!(all == segment.bytes[..9_000]);
    }

    #[tokio::test]
    async fn nothing_is_sent_past_a_piece_that_nobody_vouches_for() {
        let (server, mut client) = connected().await;
        let (sure, unsure) = (Segment::random(86, 10_000), Segment::random(87, 10_000));
        unsure.keeper.doubt();
        let tokens = [sure.window.token(0..10_000, ()), unsure.window.token(100..9_000, ())];
        let slices = [b"header", &tokens[0][..], &tokens[1][..], b"what follows"].map(IoSlice::new);
        assert_eq!(send(&server, &slices, NO_LIMIT).unwrap(), 10_006);
        match super::send(&server, &slices[2..], NO_LIMIT, &Trust::new(clock())).unwrap() {
            Sent::Unsure(piece) => assert_eq!(piece.range(), 100..9_000),
            Sent::Bytes(bytes) => panic!("{bytes} bytes sent"),
        }
        drop(server);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert!(all[6..] == sure.bytes);
    }

    #[tokio::test]
    async fn pieces_of_a_long_token_go_one_after_another() {
        let (server, client) = connected().await;
        let segment = Segment::random(88, 2 * PIECE_BYTES + 5_000);
        let token = segment.window.token(1_000..segment.bytes.len() as u64, ());
        let taking = forebay_rt::spawn(received(client, token.len() + 3));
        let mut sent = 0;
        while sent < token.len() {
            let slices = [IoSlice::new(&token[sent..]), IoSlice::new(b"end")];
            match send(&server, &slices, NO_LIMIT) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    tokio::task::yield_now().await;
                }
                result => sent += result.unwrap(),
            }
        }
        let all = taking.await.unwrap();
        assert!(all[..token.len()] == segment.bytes[1_000..]);
        assert_eq!(all[token.len()..], *b"end");
    }

    #[tokio::test]
    async fn a_full_socket_reports_what_it_took_and_then_that_it_would_block() {
        let (server, client) = connected().await;
        let segment = Segment::random(84, 16 << 20);
        let token = segment.window.token(0..16 << 20, ());
        let taken = send(&server, &[IoSlice::new(&token)], NO_LIMIT).unwrap();
        assert!(0 < taken && taken < token.len(), "{taken}");
        let mut all = taken;
        let error = loop {
            match send(&server, &[IoSlice::new(&token[all..])], NO_LIMIT) {
                Ok(more) => all += more,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(received(client, all).await == segment.bytes[..all]);
    }
}
