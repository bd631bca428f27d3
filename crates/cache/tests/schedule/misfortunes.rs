//! What goes wrong.

use std::sync::Arc;
use std::time::Duration;

use forebay_rt::Clock;

use super::{Class, Schedule};
use crate::fakes::cluster::net::Node;

#[derive(Debug, Clone, Copy)]
enum Misfortune {
    /// A worker is killed,
    Kill,
    /// or starts again on its disks.
    Restart,
    /// Two workers cannot reach each other for a while, in one direction or both;
    CutOff,
    /// or a worker the origin,
    OriginLost,
    /// or a worker the voters.
    VotersLost,
    /// or both the voters and another worker.
    Cornered,
    /// Nobody reaches the voters.
    VotersGone,
    /// A worker's heartbeats stop, and nothing else.
    Silence,
    /// A worker joins the ring, or leaves it,
    RingChange,
    /// or leaves it and comes back,
    RingThereAndBack,
    /// or leaves it without hearing of that.
    RingUnheard,
    /// Somebody writes without asking us.
    ChangedBehind,
}

const ANY: [Misfortune; 13] = [
    Misfortune::Kill,
    Misfortune::Restart,
    Misfortune::CutOff,
    Misfortune::OriginLost,
    Misfortune::VotersLost,
    Misfortune::Cornered,
    Misfortune::Cornered,
    Misfortune::VotersGone,
    Misfortune::Silence,
    Misfortune::RingChange,
    Misfortune::RingThereAndBack,
    Misfortune::RingUnheard,
    Misfortune::ChangedBehind,
];

const ONE: [Misfortune; 5] = [
    Misfortune::Kill,
    Misfortune::CutOff,
    Misfortune::OriginLost,
    Misfortune::VotersLost,
    Misfortune::RingChange,
];

impl Schedule {
    /// Something goes wrong, and most often ends.
    pub(super) async fn suffer(self: Arc<Self>) {
        let choice = if self.class == Class::Wild { &ANY[..] } else { &ONE };
        let misfortune = choice[self.below(choice.len() as u64) as usize];
        let worker = self.victim();
        let here = Node::Worker(worker);
        match misfortune {
            Misfortune::Kill => self.cluster.kill(worker),
            Misfortune::Restart => {
                self.cluster.kill(worker);
                self.clock.sleep(self.up_to(Duration::from_secs(10))).await;
                self.cluster.restart(worker);
            }
            Misfortune::CutOff => self.cut(here, Node::Worker(self.any_worker())).await,
            Misfortune::OriginLost => self.cut(here, Node::Origin).await,
            Misfortune::VotersLost => self.cut(here, Node::Voters).await,
            Misfortune::Cornered => {
                let other = Node::Worker(self.victim());
                futures_util::join!(self.cut(here, Node::Voters), self.cut(here, other));
            }
            Misfortune::VotersGone => {
                let all = 0..self.cluster.shared.workers.lock().len();
                let time = self.up_to(Duration::from_secs(20));
                all.clone().for_each(|worker| self.cluster.cut_from(worker, Node::Voters));
                self.clock.sleep(time).await;
                all.for_each(|worker| self.cluster.mend_to(worker, Node::Voters));
            }
            Misfortune::Silence => {
                if let Some((process, _)) = self.cluster.shared.worker(worker) {
                    process.be_silent(self.up_to(Duration::from_secs(15)));
                }
            }
            Misfortune::RingChange => self.change_ring(worker),
            Misfortune::RingThereAndBack => {
                self.change_ring(worker);
                self.clock.sleep(self.up_to(Duration::from_secs(15))).await;
                self.change_ring(worker);
            }
            Misfortune::RingUnheard => {
                self.cluster.cut_from(worker, Node::Voters);
                self.clock.sleep(self.up_to(Duration::from_secs(3))).await;
                self.change_ring(worker);
                self.clock.sleep(self.up_to(Duration::from_secs(20))).await;
                self.cluster.mend_to(worker, Node::Voters);
            }
            Misfortune::ChangedBehind => {
                let key = &self.keys[self.any_key()];
                let size = (self.below(4) > 0).then_some(key.size);
                self.cluster.shared.origin.change(&key.name, size, self.clock.passed());
            }
        }
    }

    /// Somebody to whom something happens: often the authority of what is read most.
    fn victim(&self) -> usize {
        match self.below(2) {
            0 => self.any_worker(),
            _ => self.cluster.owners(&self.keys[self.any_key()].name, 0)[0],
        }
    }

    /// Cuts a way for a while, in both directions or in one.
    async fn cut(&self, one: Node, two: Node) {
        let net = &self.cluster.shared.net;
        match self.below(3) {
            0 => net.cut(one, two),
            1 => net.cut(two, one),
            _ => net.cut_both(one, two),
        }
        self.clock.sleep(self.up_to(Duration::from_secs(20))).await;
        net.mend_both(one, two);
    }

    /// A worker joins, or leaves.
    fn change_ring(&self, worker: usize) {
        let mut members = self.cluster.shared.voters.view().rings[0].clone();
        match members.iter().position(|member| *member == worker) {
            Some(at) if members.len() > 1 => drop(members.remove(at)),
            Some(_) => {}
            None => members.push(worker),
        }
        self.cluster.change_ring(members);
    }
}
