//! Putting slices on a socket, each by the call that suits it.
//!
//! Stateless and non-blocking. Slices of a window go by `sendfile(2)`, all others by
//! `sendmsg(2)`. What matters is the count: a caller that is told more or less than what left
//! sends wrong bytes.
#![allow(unsafe_code, reason = "sendfile has no safe wrapper in std")]

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use socket2::SockRef;
use tokio::net::TcpStream;

use crate::registry::{self, FileSlice};

/// Slices per `sendmsg`: the kernel's UIO_MAXIOV.
const SENDMSG_SLICES: usize = 1024;

/// Sends `slices` in order for as long as the socket takes them, and at most about
/// `limit_bytes`; returns how many bytes left.
///
/// An error after some bytes have left reports these: the next call meets the error again.
pub(crate) fn send(
    socket: &TcpStream,
    slices: &[IoSlice<'_>],
    limit_bytes: usize,
) -> io::Result<usize> {
    let mut sent = 0;
    let mut rest = slices;
    while sent < limit_bytes
        && let Some(run) = next_run(&mut rest)
    {
        let result = match &run {
            Run::Memory(run) => send_memory(socket, run, !rest.is_empty()),
            Run::File(slice) => send_file(socket.as_fd(), slice, limit_bytes - sent),
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
    Ok(sent)
}

/// Slices that one call sends.
enum Run<'a, 'b> {
    Memory(&'a [IoSlice<'b>]),
    File(FileSlice<'a>),
}

impl Run<'_, '_> {
    fn len(&self) -> usize {
        match self {
            Self::Memory(slices) => slices.iter().map(|slice| slice.len()).sum(),
            Self::File(slice) => slice.len,
        }
    }
}

fn next_run<'a, 'b>(rest: &mut &'a [IoSlice<'b>]) -> Option<Run<'a, 'b>> {
    let slices = *rest;
    if let Some(file) = registry::resolve(slices.first()?) {
        *rest = &slices[1..];
        return Some(Run::File(file));
    }
    let in_memory = slices.iter().position(|slice| registry::resolve(slice).is_some());
    let (run, after) = slices.split_at(in_memory.unwrap_or(slices.len()).min(SENDMSG_SLICES));
    *rest = after;
    Some(Run::Memory(run))
}

/// With `more` to follow at once, a header waits in the socket to share a packet with its body.
fn send_memory(socket: &TcpStream, slices: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let flags = if more { libc::MSG_NOSIGNAL | libc::MSG_MORE } else { libc::MSG_NOSIGNAL };
    uninterrupted(|| SockRef::from(socket).send_vectored_with_flags(slices, flags))
}

/// A peer that is gone raises SIGPIPE here, which Rust's runtime ignores; the error is EPIPE.
fn send_file(
    socket: BorrowedFd<'_>,
    slice: &FileSlice<'_>,
    limit_bytes: usize,
) -> io::Result<usize> {
    let len = slice.len.min(limit_bytes);
    let sent = uninterrupted(|| {
        let mut offset = slice.offset as libc::off64_t;
        // SAFETY: both descriptors are borrowed and so open; the kernel writes only `offset`.
        let sent = unsafe {
            libc::sendfile64(socket.as_raw_fd(), slice.file.as_raw_fd(), &raw mut offset, len)
        };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    })?;
    if sent == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "segment file ends before offset {}, where {len} bytes were promised: \
                 cut the connection and drop the segment",
                slice.offset
            ),
        ));
    }
    Ok(sent)
}

fn uninterrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
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
    use crate::tests::Segment;

    const NO_LIMIT: usize = usize::MAX;

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

    #[tokio::test]
    async fn an_error_after_some_bytes_reports_these_and_then_itself() {
        let (server, client) = connected().await;
        let segment = Segment::random(83, 10_000);
        segment.window.file().set_len(4_000).unwrap();
        let missing = segment.window.token(4_000..10_000, ());
        let slices = [IoSlice::new(b"header"), IoSlice::new(&missing)];
        assert_eq!(send(&server, &slices, NO_LIMIT).unwrap(), 6);
        let error = send(&server, &slices[1..], NO_LIMIT).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(received(client, 6).await, b"header");
    }

    #[tokio::test]
    async fn nothing_is_sent_past_a_piece_that_was_cut_short() {
        let (server, mut client) = connected().await;
        let segment = Segment::random(85, 10_000);
        segment.window.file().set_len(4_000).unwrap();
        let token = segment.window.token(0..10_000, ());
        let slices = [IoSlice::new(&token), IoSlice::new(b"what follows")];
        assert_eq!(send(&server, &slices, NO_LIMIT).unwrap(), 4_000);
        drop(server);
        let mut all = Vec::new();
        client.read_to_end(&mut all).await.unwrap();
        assert!(all == segment.bytes[..4_000]);
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
