//! Each fault does on the wire what its name says, and counts itself.
//!
//! Read from the bare socket: a client library would hide half of it.

use std::io::ErrorKind;
use std::time::Duration;

use forebay_rt::{Clock, SystemClock, timeout};
use forebay_testkit::origin::Op;
use forebay_testkit::reader::{UpTo, VerifyError};
use forebay_testkit::{Fault, FaultOrigin, FaultRule, Pattern};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{MIB, open_origin, range, reader};

const KEY: &str = "data/00000003";
/// How long a socket is silent before it counts as hung.
const SILENCE: Duration = Duration::from_millis(300);

/// How a connection ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
    Silent,
}

/// What came over the wire for one request.
struct Wire {
    head: String,
    body: Vec<u8>,
    end: End,
}

impl Wire {
    fn status(&self) -> u16 {
        self.head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0)
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends one GET with these extra header lines and reads until the connection ends or is
/// silent.
async fn wire(origin: &FaultOrigin, headers: &str) -> Wire {
    let mut stream = TcpStream::connect(origin.address()).await.unwrap();
    let request = format!("GET /b/{KEY} HTTP/1.1\r\nhost: o\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let end = loop {
        match timeout(&SystemClock, SILENCE, stream.read_buf(&mut bytes)).await {
            Err(_) => break End::Silent,
            Ok(Ok(0)) => break End::Closed,
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionReset => break End::Reset,
            Ok(Err(error)) => panic!("{error}"),
        }
    };
    let cut = bytes.windows(4).position(|w| w == b"\r\n\r\n").map_or(bytes.len(), |at| at + 4);
    let body = bytes.split_off(cut);
    Wire { head: String::from_utf8(bytes).unwrap(), body, end }
}

/// An origin on which the first GET meets `fault`.
async fn with(fault: Fault) -> FaultOrigin {
    let origin = open_origin().await;
    origin.fault(FaultRule::new("f", fault).times(1));
    origin
}

fn assert_right(wire: &Wire) {
    Pattern::new("b", KEY, 1).verify(0, &wire.body).unwrap();
}

#[tokio::test]
async fn status_faults_are_s3_errors_on_a_connection_that_goes_on() {
    let origin = with(Fault::Status { status: 503, code: "SlowDown".into() }).await;
    let got = wire(&origin, "").await;
    assert_eq!((got.status(), got.end), (503, End::Silent));
    assert!(String::from_utf8_lossy(&got.body).contains("<Code>SlowDown</Code>"));
    assert_eq!(origin.fired("f"), 1);
    assert_eq!(wire(&origin, "").await.status(), 200);
}

#[tokio::test]
async fn a_reset_before_the_head_sends_nothing() {
    let origin = with(Fault::ResetBeforeHead).await;
    let got = wire(&origin, "").await;
    assert_eq!((got.head.as_str(), got.end), ("", End::Reset));
    assert_eq!(origin.fired("f"), 1);
    let record = &origin.log().records()[0];
    assert_eq!((record.status, record.fault.as_deref()), (None, Some("f")));
}

#[tokio::test]
async fn a_truncated_body_closes_in_good_order_before_the_declared_length() {
    for after_bytes in [0, 1, 65_536, MIB - 1] {
        let origin = with(Fault::Truncate { after_bytes }).await;
        let got = wire(&origin, "").await;
        assert_eq!(got.header("content-length"), Some("1048576"));
        assert_eq!((got.body.len() as u64, &got.end), (after_bytes, &End::Closed));
        assert_right(&got);
        assert_eq!(origin.fired("f"), 1);
        assert_eq!(origin.log().counts().bytes_sent, after_bytes);
    }
}

#[tokio::test]
async fn a_reset_in_the_body_comes_after_its_bytes() {
    let origin = with(Fault::Reset { after_bytes: 100_000 }).await;
    let got = wire(&origin, "").await;
    assert_eq!((got.body.len(), &got.end), (100_000, &End::Reset));
    assert_right(&got);
    assert_eq!(origin.fired("f"), 1);
}

#[tokio::test]
async fn hangs_keep_the_connection_open_and_silent() {
    let origin = with(Fault::HangBeforeHead).await;
    let got = wire(&origin, "").await;
    assert_eq!((got.head.as_str(), got.end, origin.fired("f")), ("", End::Silent, 1));

    let origin = with(Fault::Hang { after_bytes: 70_000 }).await;
    let got = wire(&origin, "").await;
    assert_eq!((got.body.len(), &got.end, origin.fired("f")), (70_000, &End::Silent, 1));
    assert_right(&got);
}

#[tokio::test]
async fn extra_bytes_follow_a_body_of_the_declared_length() {
    let origin = with(Fault::ExtraBytes { bytes: 3 }).await;
    let mut got = wire(&origin, "").await;
    assert_eq!(got.header("content-length"), Some("1048576"));
    assert_eq!(got.body.split_off(MIB as usize), b"+++");
    assert_right(&got);
    assert_eq!((got.end, origin.fired("f")), (End::Closed, 1));
}

#[tokio::test]
async fn a_wrong_content_length_goes_with_the_true_body() {
    for (delta, declared) in [(1, "1048577"), (-1, "1048575")] {
        let origin = with(Fault::WrongContentLength { delta }).await;
        let got = wire(&origin, "").await;
        assert_eq!(got.header("content-length"), Some(declared));
        assert_eq!((got.body.len() as u64, &got.end), (MIB, &End::Closed));
        assert_right(&got);
        assert_eq!(origin.fired("f"), 1);
    }
}

#[tokio::test]
async fn a_range_is_answered_with_the_whole_or_under_a_wrong_name() {
    let origin = with(Fault::WholeInsteadOfRange).await;
    let got = wire(&origin, "range: bytes=5-9\r\n").await;
    assert_eq!((got.status(), got.body.len() as u64, origin.fired("f")), (200, MIB, 1));
    assert_eq!(got.header("content-range"), None);

    let origin = with(Fault::WrongContentRange { shift_bytes: 64 }).await;
    let got = wire(&origin, "range: bytes=5-9\r\n").await;
    assert_eq!((got.status(), got.body.len(), origin.fired("f")), (206, 5, 1));
    assert_eq!(got.header("content-range"), Some("bytes 69-73/1048576"));
    Pattern::new("b", KEY, 1).verify(5, &got.body).unwrap();
}

#[tokio::test]
async fn etags_are_wrong_missing_or_weak() {
    let true_etag = Pattern::new("b", KEY, 1).etag();
    let weak = format!("W/{true_etag}");
    let wrong = "\"0badc0de0badc0de0badc0de0badc0de\"";
    for (fault, seen) in [
        (Fault::WrongEtag, Some(wrong)),
        (Fault::MissingEtag, None),
        (Fault::WeakEtag, Some(weak.as_str())),
    ] {
        let origin = with(fault).await;
        let got = wire(&origin, "").await;
        assert_eq!((got.header("etag"), origin.fired("f")), (seen, 1));
        assert_right(&got);
    }
}

#[tokio::test]
async fn an_overwrite_moves_the_object_between_two_requests() {
    let origin = open_origin().await;
    origin.fault(FaultRule::new("f", Fault::Overwrite).nth(2));
    let reader = reader(&origin);
    let first = reader.verify_get("b", KEY, range(0, 1000), &UpTo(2)).await.unwrap();
    let second = reader.verify_get("b", KEY, range(1000, 2000), &UpTo(2)).await.unwrap();
    assert_eq!((first.version, second.version, origin.fired("f")), (1, 2, 1));
}

#[tokio::test]
async fn if_match_can_be_ignored_and_fires_only_where_it_would_have_failed() {
    let origin = with(Fault::IgnoreIfMatch).await;
    assert_eq!(wire(&origin, "").await.status(), 200);
    assert_eq!(origin.fired("f"), 0);
    assert_eq!(wire(&origin, "if-match: \"old\"\r\n").await.status(), 200);
    assert_eq!(origin.fired("f"), 1);
    assert_eq!(wire(&origin, "if-match: \"old\"\r\n").await.status(), 412);
}

#[tokio::test]
async fn a_flipped_bit_is_the_only_wrong_one() {
    let origin = with(Fault::FlipBit { at_byte: 300_001 }).await;
    let mut got = wire(&origin, "").await;
    got.body[300_001] ^= 1;
    assert_right(&got);
    assert_eq!(origin.fired("f"), 1);
}

#[tokio::test]
async fn delays_and_drips_take_their_time() {
    let origin = with(Fault::Delay { ms: 120 }).await;
    let began = SystemClock.now();
    reader(&origin).head("b", KEY).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(100), "a HEAD is not a GET");
    reader(&origin).verify_get("b", KEY, range(0, 9), &UpTo(1)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(120));
    assert_eq!(origin.fired("f"), 1);

    let origin = with(Fault::SlowDrip { bytes_per_second: 10_240 }).await;
    let read = reader(&origin).verify_get("b", KEY, range(0, 2048), &UpTo(1)).await.unwrap();
    assert!((180..=320).contains(&read.total.as_millis()), "{read:?}");
    assert_eq!(origin.fired("f"), 1);
}

#[tokio::test]
async fn a_fault_that_cannot_be_felt_is_not_counted() {
    let origin = with(Fault::Truncate { after_bytes: MIB }).await;
    assert_eq!(wire(&origin, "").await.body.len() as u64, MIB);
    assert_eq!(origin.evidence()[0].matched, 1);
    assert_eq!(origin.fired("f"), 0);
}

#[tokio::test]
async fn the_verifying_reader_tells_lies_from_honest_failures() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    let read = async |fault: Fault| {
        origin.clear_faults();
        origin.fault(FaultRule::new("f", fault).times(1));
        let error = reader.verify_get("b", KEY, range(0, 500_000), &UpTo(1)).await.unwrap_err();
        assert_eq!(origin.fired("f"), 1);
        error
    };
    for lie in [
        Fault::FlipBit { at_byte: 499_999 },
        Fault::WholeInsteadOfRange,
        Fault::WrongContentRange { shift_bytes: 8 },
        Fault::WrongEtag,
        Fault::MissingEtag,
        Fault::WrongContentLength { delta: -1 },
    ] {
        let error = read(lie.clone()).await;
        assert!(error.is_wrong(), "{lie:?}: {error}");
    }
    for honest in [
        Fault::Status { status: 500, code: "InternalError".into() },
        Fault::ResetBeforeHead,
        Fault::Truncate { after_bytes: 499_999 },
        Fault::Reset { after_bytes: 4096 },
    ] {
        let error = read(honest.clone()).await;
        assert!(!error.is_wrong(), "{honest:?}: {error}");
    }
    let error = read(Fault::Status { status: 503, code: "SlowDown".into() }).await;
    assert!(matches!(error, VerifyError::Status { code, .. } if code == "SlowDown"));
}

#[tokio::test]
async fn other_operations_can_fail_too() {
    let origin = open_origin().await;
    let fault = Fault::Status { status: 500, code: "InternalError".into() };
    origin.fault(FaultRule::new("f", fault).on(&[Op::PutObject, Op::ListObjectsV2]));
    let reader = reader(&origin);
    assert_eq!(reader.put("b", "k", "x".into()).await.unwrap().status.as_u16(), 500);
    assert!(reader.list_v2("b", "", None).await.is_err());
    assert_eq!(origin.fired("f"), 2);
}

#[tokio::test]
async fn an_unreachable_origin_cuts_connections_and_comes_back() {
    let origin = open_origin().await;
    let reader = reader(&origin);
    assert!(reader.head("b", KEY).await.is_ok());
    origin.set_reachable(false);
    SystemClock.sleep(Duration::from_millis(20)).await;
    assert!(reader.head("b", KEY).await.is_err());
    origin.set_reachable(true);
    assert!(reader.head("b", KEY).await.is_ok());
}
