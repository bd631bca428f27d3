//! Bytes on their way from one socket to another that nobody reads.
//!
//! [`receive`] moves what a socket has to give into a pipe, by `splice(2)`, and returns a token
//! for it. A [`Transport`](crate::Transport) that is given the token moves the bytes on to its
//! own socket. They pass through user space as an address and a length.
//!
//! Unlike the token of a file, this one names no memory that could be read: whoever reads through
//! it ends the process, which is better than a wrong byte. So it is only for those who hold a
//! [`PipePass`], and only a transport gives one away: `docs/adr/0005-relayed-bytes.md`.
#![allow(unsafe_code, reason = "splice has no safe wrapper, and tokens have an address to reserve")]

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::LazyLock;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::send::uninterrupted;

/// Pipes at once. Each has [`PIPE_BYTES`], which is 64 pages; together they stay below what one
/// user without privileges may have, 16,384 pages unless `pipe-user-pages-soft` says otherwise.
pub const PIPES_MAX: usize = 192;

/// Bytes that a pipe is asked to hold, and so the longest token. Measured: 64 KiB, which is what
/// a pipe has by itself, costs a third more wake-ups, and 1 MiB gains nothing.
pub const PIPE_BYTES: usize = 256 << 10;

/// Bytes that a pipe must hold to be of use. One user's pipes beyond the soft limit have a page.
const PIPE_BYTES_MIN: usize = 64 << 10;

/// Says that the bytes received will be sent by a [`Transport`](crate::Transport), which gives
/// this away, and will be read by nobody.
#[derive(Debug, Clone, Copy)]
pub struct PipePass(pub(crate) ());

/// What came of receiving.
#[derive(Debug)]
pub enum Received {
    /// These bytes, at least one.
    Token(Bytes),
    /// None: no pipe is to be had now. They have to be read.
    NoPipe,
}

/// Takes up to `max_bytes` that `socket` has to give, in order. Never waits: the error is
/// `WouldBlock` where there are none yet, and `UnexpectedEof` where there will be none.
pub fn receive(_: PipePass, socket: &TcpStream, max_bytes: usize) -> io::Result<Received> {
    let Some(mut token) = Token::take() else { return Ok(Received::NoPipe) };
    socket.try_io(Interest::READABLE, || token.fill(socket, max_bytes))?;
    Ok(Received::Token(Bytes::from_owner(token)))
}

/// A slice of a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipeSlice {
    place: usize,
    offset: usize,
    pub(crate) len: usize,
}

/// The part of a pipe's bytes that `slice` stands for, if it stands for any.
pub(crate) fn resolve(slice: &[u8]) -> Option<PipeSlice> {
    // Not initialised by looking: without a token there is no address to be found.
    let space = LazyLock::get(&SPACE)?.as_ref()?;
    let address = slice.as_ptr() as usize;
    if slice.is_empty() || !space.addresses().contains(&address) {
        return None;
    }
    let at = address - space.start;
    Some(PipeSlice { place: at / PIPE_BYTES, offset: at % PIPE_BYTES, len: slice.len() })
}

impl PipeSlice {
    /// Moves its beginning into `socket`, as much as that takes; `more` is to follow at once.
    pub(crate) fn send(self, socket: &TcpStream, more: bool) -> io::Result<usize> {
        let space = LazyLock::get(&SPACE).and_then(Option::as_ref);
        let mut place = match space {
            Some(space) => space.places[self.place].lock(),
            None => return Err(misused("no pipe was ever made")),
        };
        let Place::Lent { pipe, sent } = &mut *place else {
            return Err(misused("its pipe has nothing in it"));
        };
        if *sent != self.offset {
            return Err(misused("its bytes were sent before"));
        }
        let flags = if more { libc::SPLICE_F_MORE } else { 0 };
        let moved = splice(pipe.read.as_raw_fd(), socket.as_raw_fd(), self.len, flags)?;
        if moved == 0 {
            return Err(misused("its pipe is empty"));
        }
        *sent += moved;
        Ok(moved)
    }
}

/// The addresses of tokens, and the pipe behind each.
struct Space {
    start: usize,
    places: Vec<Mutex<Place>>,
    free: Mutex<Vec<usize>>,
}

enum Place {
    /// No pipe yet, or not any more.
    Bare,
    /// An empty pipe.
    Idle(Pipe),
    /// A pipe with a token's bytes, of which so many have been sent.
    Lent { pipe: Pipe, sent: usize },
}

/// `None` where the system has no room for the addresses: then all bytes are read.
static SPACE: LazyLock<Option<Space>> = LazyLock::new(Space::reserve);

impl Space {
    fn reserve() -> Option<Self> {
        let len = PIPES_MAX * PIPE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no other memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        let places = (0..PIPES_MAX).map(|_| Mutex::new(Place::Bare)).collect();
        // The lowest is used first, so that no more pipes are made than are in use at once.
        let free = Mutex::new((0..PIPES_MAX).rev().collect());
        Some(Self { start: start as usize, places, free })
    }

    fn addresses(&self) -> Range<usize> {
        self.start..self.start + PIPES_MAX * PIPE_BYTES
    }
}

/// What a token's `Bytes` own: a pipe, and how many bytes it was given.
struct Token {
    space: &'static Space,
    place: usize,
    len: usize,
}

impl Token {
    /// Of an empty pipe; `None` where none is to be had.
    fn take() -> Option<Self> {
        let space = SPACE.as_ref()?;
        let place = space.free.lock().pop()?;
        let token = Self { space, place, len: 0 };
        let mut lent = space.places[place].lock();
        let pipe = match std::mem::replace(&mut *lent, Place::Bare) {
            Place::Idle(pipe) => pipe,
            Place::Bare | Place::Lent { .. } => Pipe::make().ok()?,
        };
        *lent = Place::Lent { pipe, sent: 0 };
        drop(lent);
        Some(token)
    }

    fn fill(&mut self, socket: &TcpStream, max_bytes: usize) -> io::Result<()> {
        let Place::Lent { pipe, .. } = &*self.space.places[self.place].lock() else {
            return Err(misused("its pipe was given back"));
        };
        let max_bytes = max_bytes.min(PIPE_BYTES);
        // What is there may lie in several buffers of the socket, and comes one call each.
        while self.len < max_bytes {
            match splice(socket.as_raw_fd(), pipe.write.as_raw_fd(), max_bytes - self.len, 0) {
                Ok(0) if self.len == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(0) => break,
                Ok(moved) => self.len += moved,
                Err(error) if self.len == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(())
    }
}

impl AsRef<[u8]> for Token {
    fn as_ref(&self) -> &[u8] {
        let start = self.space.start + self.place * PIPE_BYTES;
        // SAFETY: the address is not null and stays reserved for ever, so no object lies there;
        // `fill` takes at most PIPE_BYTES, so the slice ends within this pipe's addresses. It
        // may not be read, and is not: whoever asked for it holds a `PipePass`.
        unsafe { std::slice::from_raw_parts(start as *const u8, self.len) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        let mut place = self.space.places[self.place].lock();
        // A pipe with bytes in it that nobody will send is of no use to the next.
        *place = match std::mem::replace(&mut *place, Place::Bare) {
            Place::Lent { pipe, sent } if sent == self.len => Place::Idle(pipe),
            _ => Place::Bare,
        };
        drop(place);
        self.space.free.lock().push(self.place);
    }
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl Pipe {
    fn make() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors into the array.
        let code = unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_NONBLOCK | libc::O_CLOEXEC) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both are open and belong to nobody else.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        let pipe = Self { read, write };
        if pipe.resize() < PIPE_BYTES_MIN {
            return Err(io::Error::other("this user's pipes have used up their pages"));
        }
        Ok(pipe)
    }

    /// Asks for [`PIPE_BYTES`]; returns what the pipe holds.
    fn resize(&self) -> usize {
        let fd = self.write.as_raw_fd();
        // SAFETY: the descriptor is open; neither call touches memory of ours.
        let bytes = unsafe {
            let resized = libc::fcntl(fd, libc::F_SETPIPE_SZ, PIPE_BYTES as libc::c_int);
            if resized < 0 { libc::fcntl(fd, libc::F_GETPIPE_SZ) } else { resized }
        };
        usize::try_from(bytes).unwrap_or(0)
    }
}

/// One of the two is a pipe, and both are non-blocking.
fn splice(from: i32, to: i32, len: usize, flags: libc::c_uint) -> io::Result<usize> {
    let flags = flags | libc::SPLICE_F_NONBLOCK | libc::SPLICE_F_MOVE;
    let none = std::ptr::null_mut();
    uninterrupted(|| {
        // SAFETY: no memory of ours is touched: a null offset means the descriptor's own.
        let moved = unsafe { libc::splice(from, none, to, none, len, flags) };
        usize::try_from(moved).map_err(|_| io::Error::last_os_error())
    })
}

fn misused(why: &str) -> io::Error {
    io::Error::other(format!("a token of bytes in a pipe cannot be sent: {why}"))
}
