//! The order in which servers are asked for one block: its owners clockwise, other workers, the
//! origin, and last those workers that gave no sign of life. Then all of it again, a few times.

use std::collections::VecDeque;

use forebay_types::BlockIndex;

use crate::ask::Name;
use crate::error::ReadError;
use crate::limits::{OTHERS_ASKED, ROUNDS};
use crate::servers::{Server, Servers};

/// Whom to ask next. Looks at the ring as it is by then.
#[derive(Debug)]
pub(crate) struct Route {
    block: BlockIndex,
    /// Who comes when nobody is waiting.
    next: Stage,
    waiting: VecDeque<Server>,
    asked_in_this_round: Vec<Server>,
    rounds_failed: u32,
    last_failure: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Owners,
    Others,
    Origin,
    Silent,
    Pause,
}

impl Route {
    pub(crate) fn new(block: BlockIndex) -> Self {
        Self {
            block,
            next: Stage::Owners,
            waiting: VecDeque::new(),
            asked_in_this_round: Vec::new(),
            rounds_failed: 0,
            last_failure: String::new(),
        }
    }

    /// The next server. Waits between two rounds, and fails after the last.
    pub(crate) async fn next(
        &mut self,
        servers: &Servers,
        name: &Name,
    ) -> Result<Server, ReadError> {
        loop {
            if let Some(server) = self.waiting.pop_front() {
                self.asked_in_this_round.push(server.clone());
                return Ok(server);
            }
            (self.next, self.waiting) = match self.next {
                Stage::Owners => (Stage::Others, self.owners(servers, name, false)),
                Stage::Others => (Stage::Origin, self.others(servers, false)),
                Stage::Origin => (Stage::Silent, servers.origin.iter().cloned().collect()),
                Stage::Silent => (Stage::Pause, self.silent(servers, name)),
                Stage::Pause => {
                    self.pause(servers).await?;
                    (Stage::Owners, VecDeque::new())
                }
            };
        }
    }

    /// Says why the server asked last did not do.
    pub(crate) fn failed(&mut self, why: String) {
        tracing::debug!(block = self.block.0, why, "asking another server");
        self.last_failure = why;
    }

    /// Another question about the same block.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::new(self.block);
    }

    /// Bytes came: rounds are counted from here, and go on with whoever is next.
    pub(crate) fn made_progress(&mut self) {
        self.rounds_failed = 0;
    }

    fn owners(&self, servers: &Servers, name: &Name, silent: bool) -> VecDeque<Server> {
        let cluster = servers.cluster();
        let owners = cluster.owners(name, self.block).into_iter();
        owners.filter(|server| servers.is_silent(server) == silent).cloned().collect()
    }

    fn others(&self, servers: &Servers, silent: bool) -> VecDeque<Server> {
        let is_wanted = |server: &Server| {
            servers.is_silent(server) == silent && !self.asked_in_this_round.contains(server)
        };
        servers.draw(OTHERS_ASKED, is_wanted).into()
    }

    fn silent(&self, servers: &Servers, name: &Name) -> VecDeque<Server> {
        let mut silent = self.owners(servers, name, true);
        let others = self.others(servers, true).into_iter();
        let others: Vec<_> = others.filter(|server| !silent.contains(server)).collect();
        silent.extend(others);
        silent.retain(|server| !self.asked_in_this_round.contains(server));
        silent
    }

    async fn pause(&mut self, servers: &Servers) -> Result<(), ReadError> {
        let rounds_failed = self.rounds_failed + 1;
        let wait = ROUNDS.wait_after(rounds_failed, &*servers.rng);
        let wait = wait.ok_or_else(|| ReadError::Unavailable(self.last_failure.clone()))?;
        servers.clock.sleep(wait).await;
        self.rounds_failed = rounds_failed;
        self.asked_in_this_round.clear();
        Ok(())
    }
}
