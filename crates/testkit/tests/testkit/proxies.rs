//! The proxy is transparent in fair weather, and in foul weather bad in exactly the way asked.

use std::time::Duration;

use forebay_rt::{Clock, SystemClock, timeout};
use forebay_testkit::proxy::{Cut, Ending, FaultProxy, Link, Weather};
use forebay_testkit::reader::{Reader, UpTo};
use forebay_testkit::{FaultOrigin, Pattern};

use crate::{MIB, open_origin, range};

const KEY: &str = "data/00000003";

async fn behind_a_proxy() -> (FaultOrigin, FaultProxy, Reader) {
    let origin = open_origin().await;
    let proxy = FaultProxy::start(origin.address()).await.unwrap();
    let reader = Reader::new(&proxy.endpoint()).unwrap();
    (origin, proxy, reader)
}

/// Reads the object until something ends it: how many right bytes came, and with which error.
async fn read_to_the_end(reader: &Reader) -> (u64, Option<String>) {
    let mut answer = reader.get("b", KEY, None).await.unwrap();
    let mut at = 0;
    loop {
        match timeout(&SystemClock, Duration::from_millis(300), answer.chunk()).await {
            Err(_) => return (at, Some("silence".into())),
            Ok(Ok(None)) => return (at, None),
            Ok(Err(error)) => return (at, Some(format!("{error}"))),
            Ok(Ok(Some(chunk))) => {
                Pattern::new("b", KEY, 1).verify(at, &chunk).unwrap();
                at += chunk.len() as u64;
            }
        }
    }
}

#[tokio::test]
async fn fair_weather_changes_nothing_and_counts_bytes() {
    let (_origin, proxy, reader) = behind_a_proxy().await;
    for _ in 0..5 {
        reader.verify_get("b", KEY, None, &UpTo(1)).await.unwrap();
    }
    let counts = proxy.counts();
    assert_eq!(counts.connections, 1);
    assert!(counts.down_bytes > 5 * MIB && counts.down_bytes < 5 * MIB + 5000, "{counts:?}");
}

#[tokio::test]
async fn latency_is_added_once_a_direction_and_does_not_narrow_the_link() {
    let (_origin, proxy, reader) = behind_a_proxy().await;
    let link = Link { latency: Duration::from_millis(40), ..Link::default() };
    proxy.set(Weather { up: link, down: link });
    reader.head("b", KEY).await.unwrap();
    let read = reader.verify_get("b", KEY, None, &UpTo(1)).await.unwrap();
    assert!((80..140).contains(&read.first_byte.as_millis()), "{read:?}");
    assert!(read.total < Duration::from_millis(250), "{read:?}");
}

#[tokio::test]
async fn bandwidth_is_kept_within_a_tenth() {
    let (_origin, proxy, reader) = behind_a_proxy().await;
    let down = Link { bytes_per_second: Some(4 * MIB), ..Link::default() };
    proxy.set(Weather { down, ..Weather::default() });
    let read = reader.verify_get("b", KEY, None, &UpTo(1)).await.unwrap();
    let ratio = read.total.as_secs_f64() / 0.25;
    assert!((0.95..1.10).contains(&ratio), "{ratio}");
}

#[tokio::test]
async fn a_cut_lets_its_bytes_through_and_then_closes_or_resets() {
    for ending in [Ending::Close, Ending::Reset] {
        let (_origin, proxy, reader) = behind_a_proxy().await;
        proxy.set(Weather::cut_down(100_000, ending));
        let (bytes, error) = read_to_the_end(&reader).await;
        let error = error.unwrap();
        let is_reset = error.contains("reset");
        assert_eq!(is_reset, ending == Ending::Reset, "{error}");
        // The head of the answer is a few hundred of the bytes.
        assert!((99_000..100_000).contains(&bytes), "{bytes}");
        let counts = proxy.counts();
        assert_eq!((counts.down_bytes, counts.closed + counts.reset), (100_000, 1), "{counts:?}");
    }
}

#[tokio::test]
async fn a_half_open_link_is_silent_until_it_is_mended() {
    let (_origin, proxy, reader) = behind_a_proxy().await;
    proxy.set(Weather::cut_down(50_000, Ending::Stall));
    let (bytes, error) = read_to_the_end(&reader).await;
    assert_eq!(error.as_deref(), Some("silence"));
    assert!((49_000..50_000).contains(&bytes), "{bytes}");
    assert_eq!(proxy.counts().stalled, 1);

    let waiting = forebay_rt::spawn({
        let reader = reader.clone();
        async move { reader.verify_get("b", KEY, range(0, 200_000), &UpTo(1)).await }
    });
    SystemClock.sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished());
    proxy.set(Weather::default());
    assert_eq!(waiting.await.unwrap().unwrap().bytes, 200_000);
}

#[tokio::test]
async fn connections_that_are_open_feel_the_weather_change() {
    let (_origin, proxy, reader) = behind_a_proxy().await;
    reader.verify_get("b", KEY, None, &UpTo(1)).await.unwrap();
    let cut = Some(Cut { after_bytes: 0, ending: Ending::Reset });
    proxy.set(Weather { up: Link { cut, ..Link::default() }, ..Weather::default() });
    SystemClock.sleep(Duration::from_millis(100)).await;
    assert_eq!(proxy.counts().reset, 1);
    assert!(reader.head("b", KEY).await.is_err());
    proxy.set(Weather::default());
    assert!(reader.head("b", KEY).await.is_ok());
}
