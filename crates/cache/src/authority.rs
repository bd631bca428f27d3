//! The authority: which version of a name is current, when that was asked, and the questions
//! under way.
//!
//! Questions about one name are joined. A write ends in [`Authority::forget`]: what was known
//! is gone, and an answer to a question asked before it is not recorded, and given to nobody
//! who comes after it. Whether this worker may speak for a name at all is for the asker's
//! [`Terms`] to say: nothing here knows of other workers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use forebay_types::ObjectName;
use parking_lot::Mutex;
use quick_cache::sync::Cache as BoundedMap;
use tokio::sync::Notify;

use crate::error::ReadError;
use crate::flight::Flight;
use crate::peers::PeerOpenAsk;
use crate::version::{Asked, Content, Known, Terms, Version};

/// A question to the origin about one name, shared by everyone who waits for its answer.
pub(crate) struct Question {
    pub(crate) ask: PeerOpenAsk,
    /// The fill of the bytes that came along with the answer, for the readers who asked.
    pub(crate) brought: OnceLock<Arc<Flight>>,
    /// Whether even a version that needs no asking is to be asked for. Settled when it begins.
    must_ask: AtomicBool,
    /// When it was put to the origin. Set before it is.
    asked_at: OnceLock<Instant>,
    answer: OnceLock<Result<Known, ReadError>>,
    answered: Notify,
    revoked: AtomicBool,
}

impl Question {
    fn new(ask: &PeerOpenAsk, terms: &Terms) -> Arc<Self> {
        Arc::new(Self {
            ask: ask.clone(),
            brought: OnceLock::new(),
            must_ask: AtomicBool::new(terms.must_ask),
            asked_at: OnceLock::new(),
            answer: OnceLock::new(),
            answered: Notify::new(),
            revoked: AtomicBool::new(false),
        })
    }

    /// To be called before the origin is asked; returns the time that the answer counts from.
    pub(crate) fn put_at(&self, now: Instant) -> Instant {
        *self.asked_at.get_or_init(|| now)
    }

    pub(crate) fn must_ask(&self) -> bool {
        self.must_ask.load(Ordering::Relaxed)
    }

    /// Waits for the answer. The question goes on when the waiting reader goes away.
    pub(crate) async fn answer(&self) -> Result<Known, ReadError> {
        loop {
            let answered = self.answered.notified();
            let mut answered = std::pin::pin!(answered);
            answered.as_mut().enable();
            if let Some(answer) = self.answer.get() {
                return answer.clone();
            }
            answered.await;
        }
    }

    fn answer_with(&self, answer: Result<Known, ReadError>) {
        let _ = self.answer.set(answer);
        self.answered.notify_waiters();
    }

    /// Whether its answer does for somebody who comes now. What has not been put to the origin
    /// yet will be put later than now.
    fn does_for(&self, terms: &Terms) -> bool {
        let asks = self.must_ask() || !terms.must_ask;
        let in_time = || self.asked_at.get().is_none_or(|at| terms.allow(*at));
        asks && terms.since.is_some() && in_time()
    }
}

/// One question in flight, at most one queued behind it.
struct Slot {
    running: Arc<Question>,
    queued: Option<Arc<Question>>,
}

impl Slot {
    /// The question in flight, where its answer does; else the one behind it, which everybody
    /// shares who comes before it begins.
    fn join(&mut self, ask: &PeerOpenAsk, terms: &Terms) -> Arc<Question> {
        if self.running.does_for(terms) {
            return self.running.clone();
        }
        let queued = self.queued.get_or_insert_with(|| Question::new(ask, terms));
        if terms.must_ask {
            queued.must_ask.store(true, Ordering::Relaxed);
        }
        queued.clone()
    }
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
    pub(crate) fn standing(&self, name: &ObjectName, terms: &Terms) -> Option<Known> {
        self.known.get(name).filter(|known| known.stands(terms))
    }

    /// Joins a question about the ask's name whose answer will do, or begins one.
    pub(crate) fn join(&self, ask: &PeerOpenAsk, terms: &Terms) -> (Arc<Question>, Option<ToPut>) {
        let mut asking = self.asking.lock();
        if let Some(slot) = asking.get_mut(&ask.name) {
            return (slot.join(ask, terms), None);
        }
        let running = Question::new(ask, terms);
        let slot = Slot { running: running.clone(), queued: None };
        asking.insert(ask.name.clone(), slot);
        (running.clone(), Some(ToPut(running)))
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
        question.answer_with(answer);
        next
    }

    /// Notes what another worker said, for readers to whom a version stands for ever. What this
    /// worker has asked itself says more, unless it has changed since.
    pub(crate) fn hear(&self, version: &Arc<Version>) {
        let _asking = self.asking.lock();
        let asked_here = self.known_version(&version.content.name).is_some_and(|known| {
            known.content.id == version.content.id && matches!(known.asked, Asked::Here(_))
        });
        if !asked_here {
            self.known.insert(version.content.name.clone(), Known::Version(version.clone()));
        }
    }

    /// Forgets `name`, and revokes the question in flight: who waits for it gets its answer,
    /// who comes later does not. Returns the question that was queued behind it.
    pub(crate) fn forget(&self, name: &ObjectName) -> Option<ToPut> {
        let mut asking = self.asking.lock();
        self.known.remove(name);
        asking.get(name)?.running.revoked.store(true, Ordering::Relaxed);
        advance(&mut asking, name)
    }

    /// Forgets a name if it is still known as this version.
    pub(crate) fn forget_version(&self, content: &Content) {
        let _asking = self.asking.lock();
        let known = self.known_version(&content.name);
        if known.is_some_and(|version| version.content.id == content.id) {
            self.known.remove(&content.name);
        }
    }
}

/// Takes the running question away and moves the queued one into its place.
fn advance(asking: &mut HashMap<ObjectName, Slot>, name: &ObjectName) -> Option<ToPut> {
    let slot = asking.remove(name)?;
    let running = slot.queued?;
    asking.insert(name.clone(), Slot { running: running.clone(), queued: None });
    Some(ToPut(running))
}
