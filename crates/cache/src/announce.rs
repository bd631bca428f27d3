//! Announcing a write: when it is done, no worker any more answers from what it knew of the
//! names before.
//!
//! At most one worker at a time answers for a name from memory. It is enough that it forgets;
//! but only its own word that it is the one will do, for rings move. Where that cannot be had,
//! the voters end everybody's word at once, and where they are gone too, everybody is told.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::timeout;
use forebay_telemetry::ReadCtx;
use forebay_types::{BlockIndex, ObjectName, WorkerId};
use futures_util::StreamExt;
use futures_util::stream;

use crate::cache::Cache;
use crate::limits::{
    ANNOUNCE_LIMIT, ANNOUNCE_PAUSE, ANNOUNCE_ROUNDS, FORGET_NAMES_AT_ONCE, FORGET_WORKERS_AT_ONCE,
};
use crate::metrics::Announced;
use crate::peers::{PeerFailure, Place, Vouching};

/// Somebody may still answer with what was there before the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAnnounced;

/// What came of one round at the authorities.
enum Round {
    /// Every name is forgotten by who vouches for it.
    Done,
    /// In this long, who vouches for the names that are left will be somebody else.
    Wait(Duration),
    /// Some authority does not answer, or does not vouch.
    Failed,
}

/// The names that are not forgotten for certain yet.
struct Announcement<'a> {
    cache: &'a Arc<Cache>,
    ctx: &'a ReadCtx,
    pending: Vec<ObjectName>,
}

impl Cache {
    /// Makes every worker forget what it knew of `names` before this call.
    pub(crate) async fn announce(
        self: &Arc<Self>,
        ctx: &ReadCtx,
        names: &[ObjectName],
    ) -> Result<(), NotAnnounced> {
        let vouching = self.owner.forget(ctx, names).await;
        let pending = names.iter().zip(vouching).filter(|(_, vouching)| !is_settled(*vouching));
        let pending: Vec<_> = pending.map(|(name, _)| name.clone()).collect();
        if pending.is_empty() {
            return Ok(());
        }
        let mut announcement = Announcement { cache: self, ctx, pending };
        let announced = timeout(&*self.clock, ANNOUNCE_LIMIT, announcement.run()).await;
        self.metrics().announced(announced.unwrap_or(Announced::Failed));
        announced.map(drop).map_err(|_| NotAnnounced)
    }
}

impl Announcement<'_> {
    /// Ends when everybody has forgotten, and not before.
    async fn run(&mut self) -> Announced {
        let mut failed = 0;
        loop {
            let wait = match self.ask_authorities().await {
                Round::Done => return Announced::Authority,
                Round::Wait(wait) => wait.max(ANNOUNCE_PAUSE),
                Round::Failed => {
                    failed += 1;
                    ANNOUNCE_PAUSE
                }
            };
            if failed == ANNOUNCE_ROUNDS {
                failed = 0;
                if self.cache.fence.fence().await.is_ok() {
                    return Announced::Fence;
                }
                if self.tell_everybody().await {
                    return Announced::Everybody;
                }
            }
            self.cache.clock.sleep(wait).await;
        }
    }

    /// Tells each authority which of its names to forget.
    async fn ask_authorities(&mut self) -> Round {
        let batches = self.by_authority().into_iter();
        let asked: Vec<_> = batches.map(|(place, names)| self.ask(place, names)).collect();
        let answers: Vec<_> =
            stream::iter(asked).buffer_unordered(FORGET_WORKERS_AT_ONCE).concat().await;
        let mut round = Round::Done;
        for (_, vouching) in answers.iter().filter(|(_, vouching)| !is_settled(*vouching)) {
            round = match (vouching, round) {
                (Vouching::NotYet(wait), Round::Done) => Round::Wait(*wait),
                (Vouching::NotYet(wait), Round::Wait(longest)) => Round::Wait(longest.max(*wait)),
                _ => Round::Failed,
            };
        }
        let left = answers.into_iter().filter(|(_, vouching)| !is_settled(*vouching));
        self.pending = left.map(|(name, _)| name).collect();
        round
    }

    /// The names by their authority, in batches that fit one message.
    fn by_authority(&self) -> Vec<(Place, Vec<ObjectName>)> {
        let mut batches: Vec<(Place, Vec<ObjectName>)> = Vec::new();
        for name in &self.pending {
            let owners = self.cache.placement.owners(name, BlockIndex(0));
            let authority = owners.first().copied().unwrap_or(Place::Here);
            let fits = |(place, names): &&mut (Place, Vec<_>)| {
                *place == authority && names.len() < FORGET_NAMES_AT_ONCE
            };
            match batches.iter_mut().find(fits) {
                Some((_, names)) => names.push(name.clone()),
                None => batches.push((authority, vec![name.clone()])),
            }
        }
        batches
    }

    /// What an authority says of each name; one that does not answer vouches for nothing.
    async fn ask(&self, authority: Place, names: Vec<ObjectName>) -> Vec<(ObjectName, Vouching)> {
        let answer = match authority {
            Place::Here => Ok(self.cache.owner.forget(self.ctx, &names).await),
            Place::There(worker) => self.cache.peers.forget(worker, &names).await,
        };
        let vouching = match answer {
            Ok(vouching) if vouching.len() == names.len() => vouching,
            _ => vec![Vouching::Lapsed; names.len()],
        };
        names.into_iter().zip(vouching).collect()
    }

    /// Tells all other workers. A name is forgotten for certain when one of them vouches for it,
    /// or when all of them have forgotten it or have ended, and with that forgotten everything.
    async fn tell_everybody(&mut self) -> bool {
        let mut told = Vec::new();
        let mut all_forgot = true;
        loop {
            let mut others = self.cache.placement.others();
            others.retain(|worker| !told.contains(worker));
            if others.is_empty() || self.pending.is_empty() {
                break;
            }
            all_forgot &= self.tell(&others).await;
            // Who has answered may have told us of others.
            told.extend(others);
        }
        all_forgot || self.pending.is_empty()
    }

    /// Tells some workers, and drops the names that one of them vouches for. Returns whether all
    /// of them have forgotten the others.
    async fn tell(&mut self, workers: &[WorkerId]) -> bool {
        let names = &self.pending;
        let told: Vec<_> = workers.iter().map(|worker| self.tell_one(*worker, names)).collect();
        let answers: Vec<_> =
            stream::iter(told).buffer_unordered(FORGET_WORKERS_AT_ONCE).collect().await;
        let all_forgot = answers.iter().all(Option::is_some);
        let mut settled = vec![false; names.len()];
        for vouching in answers.into_iter().flatten() {
            for (settled, vouching) in settled.iter_mut().zip(vouching) {
                *settled |= is_settled(vouching);
            }
        }
        let mut settled = settled.into_iter();
        self.pending.retain(|_| !settled.next().unwrap_or(false));
        all_forgot
    }

    /// What a worker vouches for; nothing where it has ended, `None` where it may remember.
    async fn tell_one(&self, worker: WorkerId, names: &[ObjectName]) -> Option<Vec<Vouching>> {
        let mut vouching = Vec::with_capacity(names.len());
        for names in names.chunks(FORGET_NAMES_AT_ONCE) {
            match self.cache.peers.forget(worker, names).await {
                Ok(answer) if answer.len() == names.len() => vouching.extend(answer),
                Err(PeerFailure::Gone) => return Some(Vec::new()),
                Ok(_) | Err(_) => return None,
            }
        }
        Some(vouching)
    }
}

/// Whether the worker that says so was the only one to answer for the name from memory. It has
/// forgotten it by now, and whoever comes after it uses nothing from before.
fn is_settled(vouching: Vouching) -> bool {
    matches!(vouching, Vouching::Since(_))
}
