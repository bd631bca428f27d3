//! HTTP/1.1 by hand: what no client library would send, signed all the same.

use std::fmt;
use std::time::{Duration, SystemTime};

use forebay_testkit::AccessKey;
use forebay_testkit::sign::{Signable, Signer};
use forebay_tests::{CLIENT, World};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long an answer, or the end of a connection, is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// Characters of a body that a failing test shows.
const MAX_SHOWN: usize = 400;

/// A connection of a client.
pub(crate) struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

/// An answer.
pub(crate) struct Answered {
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Wire {
    pub(crate) async fn connect(world: &World) -> Self {
        let stream = TcpStream::connect(host(world)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Sends, as far as the other side still takes it.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Says that nothing more comes, and goes on reading.
    pub(crate) async fn end_sending(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// The next answer, all of it; `None` where the connection ends without one.
    pub(crate) async fn answer(&mut self) -> Option<Answered> {
        loop {
            if let Some(answer) = self.take_answer() {
                return Some(answer);
            }
            if !self.more().await {
                return None;
            }
        }
    }

    /// Whether the connection ends while nothing is said for so long.
    pub(crate) async fn ends_within(&mut self, pause: Duration) -> bool {
        let read = tokio::time::timeout(pause, self.stream.read_buf(&mut self.read)).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }

    /// Every answer up to the end of the connection, which has to come.
    pub(crate) async fn answers_to_the_end(&mut self) -> Vec<Answered> {
        while self.more().await {}
        let answers = std::iter::from_fn(|| self.take_answer()).collect();
        assert!(self.read.is_empty(), "left over: {:?}", String::from_utf8_lossy(&self.read));
        answers
    }

    fn take_answer(&mut self) -> Option<Answered> {
        let end = self.read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.read[..end]).into_owned();
        let mut answer = Answered { head, body: Vec::new() };
        let len = answer.header("content-length").map_or(0, |len| len.parse().unwrap());
        if self.read.len() < end + len {
            return None;
        }
        answer.body = self.read[end..end + len].to_vec();
        self.read.drain(..end + len);
        Some(answer)
    }

    async fn more(&mut self) -> bool {
        let reading = self.stream.read_buf(&mut self.read);
        let read = tokio::time::timeout(LIMIT, reading).await;
        matches!(read.expect("neither an answer nor an end"), Ok(1..))
    }
}

impl Answered {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl fmt::Debug for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.head, self.text().chars().take(MAX_SHOWN).collect::<String>())
    }
}

/// The head of a request that the worker's client has signed, without the empty line after it.
/// Headers that are added afterwards are not signed.
pub(crate) fn signed(world: &World, method: &Method, target: &str) -> String {
    signed_with(world, method, target, "UNSIGNED-PAYLOAD", &[])
}

/// The same with headers that are signed, and something else said of the body.
pub(crate) fn signed_with(
    world: &World,
    method: &Method,
    target: &str,
    payload: &str,
    more: &[(&'static str, &str)],
) -> String {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_str(host(world)).unwrap());
    for (name, value) in more {
        headers.insert(*name, HeaderValue::from_str(value).unwrap());
    }
    let signer = Signer::new(AccessKey::new(CLIENT.0, CLIENT.1), "us-east-1");
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    signer.sign(&Signable { method, path, query, payload }, SystemTime::now(), &mut headers);
    let line = |(name, value): (&HeaderName, &HeaderValue)| {
        format!("{name}: {}\r\n", value.to_str().unwrap())
    };
    let lines: String = headers.iter().map(line).collect();
    format!("{method} {target} HTTP/1.1\r\n{lines}")
}

/// `address:port` of the worker, as its clients name it.
pub(crate) fn host(world: &World) -> &str {
    world.worker.endpoint.trim_start_matches("http://")
}
