//! The authority: which version of a name is current, when that was asked, and the questions
//! under way.
//!
//! Questions about one name are joined. A write through Forebay ends in [`Authority::forget`]:
//! what was known is gone, and an answer to a question asked before it is not recorded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use forebay_types::{Freshness, ObjectHead, ObjectId, ObjectName, Stamp};
use parking_lot::Mutex;
use quick_cache::sync::Cache as BoundedMap;
use tokio::sync::watch;

use crate::ask::OpenAsk;
use crate::error::ReadError;
use crate::flight::Flight;
use crate::limits::ABSENT_TTL;
use crate::traits::OriginReply;

/// A version of a name as the origin described it.
#[derive(Debug)]
pub(crate) struct Version {
    pub(crate) name: ObjectName,
    pub(crate) id: ObjectId,
    pub(crate) head: Arc<ObjectHead>,
    /// When the question was put; `None` for a version recalled from before a restart.
    pub(crate) asked_at: Option<Instant>,
}

impl Version {
    pub(crate) fn new(name: &ObjectName, head: ObjectHead, asked_at: Option<Instant>) -> Arc<Self> {
        let id = name.at(head.stamp.clone());
        Arc::new(Self { name: name.clone(), id, head: Arc::new(head), asked_at })
    }

    /// How long ago the origin was asked; zero where that is not known.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.asked_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }
}

/// What is known of a name.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    Version(Arc<Version>),
    Absent { reply: OriginReply, asked_at: Instant },
}

impl Known {
    /// Whether it may be used without asking.
    fn is_fresh(&self, freshness: Freshness, now: Instant) -> bool {
        match self {
            Self::Version(version) => match version.asked_at {
                Some(at) => freshness.allows(now.saturating_duration_since(at)),
                None => freshness == Freshness::Immutable,
            },
            Self::Absent { asked_at, .. } => {
                let age = now.saturating_duration_since(*asked_at);
                age < ABSENT_TTL && freshness.allows(age)
            }
        }
    }
}

/// A question to the origin about one name, shared by everyone who waits for its answer.
pub(crate) struct Question {
    pub(crate) ask: OpenAsk,
    /// Whether even a version that needs no asking is to be asked for.
    pub(crate) anew: bool,
    /// The fill of the bytes that came along with the answer, for the readers who asked.
    pub(crate) brought: OnceLock<Arc<Flight>>,
    answer: watch::Sender<Option<Result<Known, ReadError>>>,
    revoked: AtomicBool,
}

impl Question {
    /// Waits for the answer. The question goes on when the waiting reader goes away.
    pub(crate) async fn answer(&self) -> Result<Known, ReadError> {
        let mut answer = self.answer.subscribe();
        let answered = answer.wait_for(Option::is_some).await;
        let lost = || Err(ReadError::internal("the question to the origin was lost"));
        answered.ok().and_then(|answer| answer.clone()).unwrap_or_else(lost)
    }
}

/// One question in flight, at most one queued behind it.
struct Slot {
    running: Arc<Question>,
    queued: Option<Arc<Question>>,
}

/// A question that somebody now has to put to the origin.
pub(crate) struct ToPut(pub(crate) Arc<Question>);

/// What is known, and what is being asked.
pub(crate) struct Authority {
    known: BoundedMap<ObjectName, Known>,
    asking: Mutex<HashMap<ObjectName, Slot>>,
}

impl Authority {
    pub(crate) fn new(names_in_memory: usize) -> Self {
        Self { known: BoundedMap::new(names_in_memory), asking: Mutex::default() }
    }

    /// The version that `name` is known as, whether or not it may still be used.
    pub(crate) fn known_version(&self, name: &ObjectName) -> Option<Arc<Version>> {
        match self.known.get(name)? {
            Known::Version(version) => Some(version),
            Known::Absent { .. } => None,
        }
    }

    /// What is known of `name` and may be used without asking.
    pub(crate) fn fresh(
        &self,
        name: &ObjectName,
        freshness: Freshness,
        now: Instant,
    ) -> Option<Known> {
        self.known.get(name).filter(|known| known.is_fresh(freshness, now))
    }

    /// Joins the question about the ask's name, or begins one.
    ///
    /// With `anew` only a question that starts from now on will do: it is queued behind the
    /// one in flight, and everybody who comes before it starts shares it.
    pub(crate) fn join(&self, ask: &OpenAsk, anew: bool) -> (Arc<Question>, Option<ToPut>) {
        let mut asking = self.asking.lock();
        let new = || {
            Arc::new(Question {
                ask: ask.clone(),
                anew,
                brought: OnceLock::new(),
                answer: watch::Sender::new(None),
                revoked: AtomicBool::new(false),
            })
        };
        match asking.get_mut(&ask.name) {
            Some(slot) if anew => (slot.queued.get_or_insert_with(new).clone(), None),
            Some(slot) => (slot.running.clone(), None),
            None => {
                let running = new();
                let slot = Slot { running: running.clone(), queued: None };
                asking.insert(ask.name.clone(), slot);
                (running.clone(), Some(ToPut(running)))
            }
        }
    }

    /// Records and publishes an answer; returns the question that was queued behind it.
    pub(crate) fn finish(
        &self,
        question: &Arc<Question>,
        answer: Result<Known, ReadError>,
    ) -> Option<ToPut> {
        let next = {
            let mut asking = self.asking.lock();
            if let Ok(known) = &answer
                && !question.revoked.load(Ordering::Relaxed)
            {
                self.known.insert(question.ask.name.clone(), known.clone());
            }
            let runs = |slot: &Slot| Arc::ptr_eq(&slot.running, question);
            if asking.get(&question.ask.name).is_some_and(runs) {
                advance(&mut asking, &question.ask.name)
            } else {
                None
            }
        };
        question.answer.send_replace(Some(answer));
        next
    }

    /// Forgets `name`, and revokes the question in flight: who waits for it gets its answer,
    /// who comes later does not. Returns the question that was queued behind it.
    pub(crate) fn forget(&self, name: &ObjectName) -> Option<ToPut> {
        let mut asking = self.asking.lock();
        self.known.remove(name);
        asking.get(name)?.running.revoked.store(true, Ordering::Relaxed);
        advance(&mut asking, name)
    }

    /// Forgets `name` if it is still known as the version `stamp`.
    pub(crate) fn forget_version(&self, name: &ObjectName, stamp: &Stamp) {
        let _asking = self.asking.lock();
        if self.is_current(name, stamp) {
            self.known.remove(name);
        }
    }

    /// Whether `stamp` is the version that `name` is known as.
    pub(crate) fn is_current(&self, name: &ObjectName, stamp: &Stamp) -> bool {
        self.known_version(name).is_some_and(|version| version.head.stamp == *stamp)
    }
}

/// Takes the running question away and moves the queued one into its place.
fn advance(asking: &mut HashMap<ObjectName, Slot>, name: &ObjectName) -> Option<ToPut> {
    let slot = asking.remove(name)?;
    let running = slot.queued?;
    asking.insert(name.clone(), Slot { running: running.clone(), queued: None });
    Some(ToPut(running))
}
