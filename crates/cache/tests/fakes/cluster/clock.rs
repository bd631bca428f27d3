//! Time that moves on when nobody has anything else to do, so that a run takes no time and is
//! the same for the same seed.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use forebay_rt::{Clock, SystemClock};
use parking_lot::Mutex;

#[derive(Clone)]
pub struct SimClock {
    start: (Instant, SystemTime),
    timers: Arc<Mutex<Timers>>,
}

#[derive(Default)]
struct Timers {
    passed: Duration,
    next_id: u64,
    waiting: BTreeMap<(Duration, u64), Waker>,
    stuck: bool,
    root: Option<Waker>,
}

impl SimClock {
    pub fn new() -> Self {
        let start = (SystemClock.now(), SystemClock.wall());
        Self { start, timers: Arc::default() }
    }

    /// Time since the beginning of the run.
    pub fn passed(&self) -> Duration {
        self.timers.lock().passed
    }

    /// The instant at which the run was `passed` old.
    pub fn at(&self, passed: Duration) -> Instant {
        self.start.0 + passed
    }

    /// Runs `future` and all tasks that it begins on this thread.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        let clock = self.clone();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.on_thread_park(move || clock.move_on()).build().unwrap();
        runtime.block_on(async {
            let mut future = std::pin::pin!(future);
            std::future::poll_fn(|cx| {
                let polled = future.as_mut().poll(cx);
                let mut timers = self.timers.lock();
                assert!(polled.is_ready() || !timers.stuck, "everybody waits for somebody else");
                timers.root = Some(cx.waker().clone());
                polled
            })
            .await
        })
    }

    /// To the time that somebody is waiting for next.
    fn move_on(&self) {
        let mut timers = self.timers.lock();
        let waker = if let Some(((at, _), waker)) = timers.waiting.pop_first() {
            timers.passed = timers.passed.max(at);
            Some(waker)
        } else {
            timers.stuck = true;
            timers.root.clone()
        };
        drop(timers);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        self.start.0 + self.passed()
    }

    fn wall(&self) -> SystemTime {
        self.start.1 + self.passed()
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut timers = self.timers.lock();
        timers.next_id += 1;
        let key = (timers.passed + duration, timers.next_id);
        drop(timers);
        Box::pin(Sleep { timers: self.timers.clone(), key })
    }
}

impl fmt::Debug for SimClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimClock({:?})", self.passed())
    }
}

struct Sleep {
    timers: Arc<Mutex<Timers>>,
    key: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timers = self.timers.lock();
        if timers.passed >= self.key.0 {
            return Poll::Ready(());
        }
        timers.waiting.insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.timers.lock().waiting.remove(&self.key);
    }
}
