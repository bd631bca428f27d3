//! An origin that says exactly the bytes it is told to, and remembers exactly what it was asked.

use std::io;
use std::sync::{Arc, Mutex};

use forebay_rt::spawn;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query, as sent.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn path(&self) -> &str {
        self.target.split('?').next().unwrap()
    }
}

/// How a request is answered.
pub(crate) enum Answer {
    /// These bytes, and the connection stays open.
    Bytes(Vec<u8>),
    /// These bytes, and the connection is closed in good order.
    BytesThenClose(Vec<u8>),
    /// These bytes, then nothing, for ever.
    BytesThenHang(Vec<u8>),
    /// The connection is reset.
    Reset,
}

type Script = dyn Fn(usize, &Seen) -> Answer + Send + Sync;

/// A running origin; it ends with the test's runtime.
pub(crate) struct RawOrigin {
    pub(crate) endpoint: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl RawOrigin {
    /// `script` is given the number of the request, counted from 0, and the request.
    pub(crate) async fn start(
        script: impl Fn(usize, &Seen) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, script): (_, Arc<Script>) = (seen.clone(), Arc::new(script));
        spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                spawn(serve(stream, log.clone(), script.clone()));
            }
        });
        Self { endpoint, seen }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    log: Arc<Mutex<Vec<Seen>>>,
    script: Arc<Script>,
) -> io::Result<()> {
    while let Some(seen) = read_request(&mut stream).await? {
        let nth = {
            let mut log = log.lock().unwrap();
            log.push(seen.clone());
            log.len() - 1
        };
        match script(nth, &seen) {
            Answer::Bytes(bytes) => stream.write_all(&bytes).await?,
            Answer::BytesThenClose(bytes) => return stream.write_all(&bytes).await,
            Answer::BytesThenHang(bytes) => {
                stream.write_all(&bytes).await?;
                std::future::pending::<()>().await;
            }
            Answer::Reset => return stream.set_zero_linger(),
        }
    }
    Ok(())
}

async fn read_request(stream: &mut TcpStream) -> io::Result<Option<Seen>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ').map(str::to_owned);
    let (method, target) = (first.next().unwrap(), first.next().unwrap());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut seen = Seen { method, target, headers, body: Vec::new() };
    let length = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    seen.body.resize(length, 0);
    stream.read_exact(&mut seen.body).await?;
    Ok(Some(seen))
}
