//! An answer on the wire, byte for byte, with the faults that belong there.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use forebay_rt::{Clock, SharedClock};
use http::StatusCode;
use tokio::io::AsyncWriteExt;

use super::fault::{Armed, Fault};
use super::http::{Connection, ConnectionError};
use super::log::Entry;
use super::reply::Reply;
use crate::pace::Pace;

/// Bodies up to this size leave in one write with their head.
const JOINED_BYTES: u64 = 16 << 10;

/// A reset throws away what the kernel has not sent yet; this long it gets to send it.
const DRAIN: Duration = Duration::from_millis(20);

/// What becomes of the connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    KeepAlive,
    Close,
}

/// How an answer is sent.
#[derive(Debug)]
pub(super) struct Manner<'a> {
    pub(super) clock: &'a SharedClock,
    /// Where body bytes are counted; control requests have no place in the log.
    pub(super) entry: Option<&'a Entry>,
    pub(super) request_id: &'a str,
    pub(super) is_head: bool,
    pub(super) closes: bool,
    pub(super) bytes_per_second: Option<u64>,
}

/// What a fault makes of a body.
#[derive(Debug, Default)]
struct Plan {
    declared_bytes: u64,
    /// Where the body breaks off, and how.
    cut: Option<(u64, Cut)>,
    extra_bytes: u64,
    flip_at: Option<u64>,
    bytes_per_second: Option<u64>,
    /// That rate is part of the fault.
    drips: bool,
    /// The end of the connection is part of the fault.
    closes: bool,
}

#[derive(Debug, Clone, Copy)]
enum Cut {
    Close,
    Reset,
    Hang,
}

/// Sends `reply`; faults of the body apply to successful answers only.
pub(super) async fn send(
    connection: &mut Connection,
    reply: &Reply,
    mut fault: Option<Armed>,
    manner: &Manner<'_>,
) -> Result<After, ConnectionError> {
    let plan = match &mut fault {
        Some(armed) if reply.status.is_success() => Plan::with(reply, armed, manner),
        _ => Plan::without(reply, manner),
    };
    let closes = manner.closes || plan.closes;
    let mut head = head(reply, &plan, closes, manner);
    if let Some(entry) = manner.entry {
        entry.status(reply.status.as_u16());
    }
    if manner.is_head || reply.body.len() == 0 {
        connection.stream.write_all(&head).await?;
    } else {
        if reply.body.len() > JOINED_BYTES {
            connection.stream.write_all(&head).await?;
            head.clear();
        }
        if let Some(cut) = send_body(connection, reply, &plan, head, fault.as_mut(), manner).await?
        {
            return break_off(connection, cut, manner.clock.as_ref()).await;
        }
    }
    if closes {
        connection.stream.shutdown().await?;
        return Ok(After::Close);
    }
    Ok(After::KeepAlive)
}

/// Resets the connection: what is not yet sent is lost, and the client sees an error.
pub(super) fn reset(connection: &Connection) -> Result<After, ConnectionError> {
    connection.stream.set_zero_linger()?;
    Ok(After::Close)
}

impl Plan {
    fn without(reply: &Reply, manner: &Manner<'_>) -> Self {
        Self {
            declared_bytes: reply.body.len(),
            bytes_per_second: manner.bytes_per_second,
            ..Self::default()
        }
    }

    /// Faults whose effect is in the head fire here, the others where they happen.
    fn with(reply: &Reply, armed: &mut Armed, manner: &Manner<'_>) -> Self {
        let mut plan = Self::without(reply, manner);
        let body_bytes = reply.body.len();
        let cut = |at: u64, cut: Cut| (at < body_bytes).then_some((at, cut));
        match *armed.fault() {
            Fault::Truncate { after_bytes } => plan.cut = cut(after_bytes, Cut::Close),
            Fault::Reset { after_bytes } => plan.cut = cut(after_bytes, Cut::Reset),
            Fault::Hang { after_bytes } => plan.cut = cut(after_bytes, Cut::Hang),
            Fault::FlipBit { at_byte } if at_byte < body_bytes => plan.flip_at = Some(at_byte),
            Fault::ExtraBytes { bytes } if body_bytes > 0 && !manner.is_head => {
                plan.extra_bytes = bytes;
                plan.closes = true;
            }
            Fault::SlowDrip { bytes_per_second } if body_bytes > 0 => {
                plan.bytes_per_second = Some(bytes_per_second);
                plan.drips = true;
            }
            Fault::WrongContentLength { delta } => {
                plan.declared_bytes = body_bytes.saturating_add_signed(delta);
                plan.closes = true;
                if plan.declared_bytes != body_bytes {
                    armed.fired();
                }
            }
            _ => {}
        }
        plan
    }
}

fn head(reply: &Reply, plan: &Plan, closes: bool, manner: &Manner<'_>) -> Vec<u8> {
    let status = reply.status;
    let mut text = format!("HTTP/1.1 {} {}\r\n", status.as_u16(), reason(status));
    let date = httpdate::fmt_http_date(manner.clock.wall().max(SystemTime::UNIX_EPOCH));
    let id = manner.request_id;
    // Writing to a String cannot fail.
    let _ = write!(text, "date: {date}\r\nserver: fault-origin\r\n");
    let _ = write!(text, "x-amz-request-id: {id}\r\nx-amz-id-2: {id}\r\n");
    if status != StatusCode::NOT_MODIFIED && status != StatusCode::NO_CONTENT {
        let _ = write!(text, "content-length: {}\r\n", plan.declared_bytes);
    }
    if closes {
        text.push_str("connection: close\r\n");
    }
    let mut head = text.into_bytes();
    for (name, value) in &reply.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("Unknown")
}

/// Sends the body up to its end or to the cut, which is returned. `head` goes before it.
async fn send_body(
    connection: &mut Connection,
    reply: &Reply,
    plan: &Plan,
    mut head: Vec<u8>,
    mut fault: Option<&mut Armed>,
    manner: &Manner<'_>,
) -> Result<Option<Cut>, ConnectionError> {
    let clock = manner.clock.as_ref();
    let mut pace = Pace::new(clock.now(), plan.bytes_per_second);
    let end = plan.cut.map_or(reply.body.len(), |(at, _)| at);
    let mut scratch = Vec::new();
    let mut at = 0;
    while at < end {
        let len = pace.piece_bytes().min(end - at);
        let mut piece = reply.body.piece(at, len as usize, &mut scratch);
        if let Some(flip) = plan.flip_at.filter(|flip| (at..at + len).contains(flip)) {
            piece.to_mut()[(flip - at) as usize] ^= 1;
        }
        if let Some(armed) = fault.as_deref_mut()
            && plan.is_felt_in(at, len)
        {
            armed.fired();
        }
        pace.release(clock, len).await;
        if head.is_empty() {
            write(connection, &piece, len, manner.entry).await?;
        } else {
            head.extend_from_slice(&piece);
            write(connection, &head, len, manner.entry).await?;
            head.clear();
        }
        at += len;
    }
    // A cut before the first byte still has a head to send.
    connection.stream.write_all(&head).await?;
    finish(connection, plan, fault).await
}

impl Plan {
    /// Whether the piece is the one in which a client meets the fault.
    fn is_felt_in(&self, at: u64, len: u64) -> bool {
        self.drips
            || self.flip_at.is_some_and(|flip| (at..at + len).contains(&flip))
            || self.cut.is_some_and(|(cut, _)| cut == at + len)
    }
}

async fn finish(
    connection: &mut Connection,
    plan: &Plan,
    fault: Option<&mut Armed>,
) -> Result<Option<Cut>, ConnectionError> {
    let Some(armed) = fault else { return Ok(None) };
    if plan.extra_bytes > 0 {
        armed.fired();
        connection.stream.write_all(&vec![b'+'; plan.extra_bytes as usize]).await?;
    }
    let cut = plan.cut.map(|(_, cut)| cut);
    if cut.is_some() {
        armed.fired();
    }
    Ok(cut)
}

/// As `write_all`, with the body's share of the bytes counted before the client can see them.
async fn write(
    connection: &mut Connection,
    bytes: &[u8],
    body_bytes: u64,
    entry: Option<&Entry>,
) -> Result<(), ConnectionError> {
    if let Some(entry) = entry {
        entry.sending(body_bytes);
    }
    let mut rest = bytes;
    while !rest.is_empty() {
        match connection.stream.write(rest).await {
            Ok(n @ 1..) => rest = &rest[n..],
            outcome => {
                if let Some(entry) = entry {
                    entry.unsent(body_bytes.min(rest.len() as u64));
                }
                outcome?;
                return Err(std::io::Error::from(std::io::ErrorKind::WriteZero).into());
            }
        }
    }
    Ok(())
}

async fn break_off(
    connection: &mut Connection,
    cut: Cut,
    clock: &dyn Clock,
) -> Result<After, ConnectionError> {
    match cut {
        Cut::Close => connection.stream.shutdown().await?,
        Cut::Hang => connection.until_client_leaves().await,
        Cut::Reset => {
            clock.sleep(DRAIN).await;
            return reset(connection);
        }
    }
    Ok(After::Close)
}
