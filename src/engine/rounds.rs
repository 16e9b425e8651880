//! One round: queue, write, wait for the quorum or the limit.

use super::core::Engine;
use super::error::Tally;
use crate::protocol::{Command, Mono, Round};
use crate::sys::clock;
use crate::wire::lane::Lane;
use crate::wire::op::Op;
use std::sync::Arc;

/// A round that was waited for.
pub(crate) struct Finished {
    pub(crate) op: Arc<Op>,
    pub(crate) start: Mono,
    /// Read after the last answer that was looked at.
    pub(crate) end: Mono,
}

impl Finished {
    /// Waits for a round that was queued at `start`, at most until `deadline`.
    pub(crate) fn wait(lane: &Lane, op: Arc<Op>, start: Mono, deadline: Mono) -> Finished {
        lane.flush();
        lane.wait(&op, deadline);
        Finished { op, start, end: clock::now() }
    }

    /// Looks at the answers, and reads the clock after them: no vote comes in between, so none that is counted is later
    /// than the time given.
    pub(crate) fn look<T>(&mut self, look: impl FnOnce(&mut Round, Mono) -> T) -> T {
        let mut round = self.op.round.lock();
        self.end = clock::now();
        look(&mut round, self.end)
    }

    /// What every master said.
    pub(crate) fn tally(&self, engine: &Engine) -> Tally {
        self.tally_of(engine, &self.op.round.lock())
    }

    pub(crate) fn tally_of(&self, engine: &Engine, round: &Round) -> Tally {
        Tally::new(round, engine.settings.quorum.votes(), &engine.labels, self.start, self.end)
    }
}

impl Engine {
    /// Sends `command` to all masters and waits until it is decided, at most until `deadline`.
    pub(crate) fn round(&self, command: Command, deadline: Mono) -> Finished {
        let lane = self.lane(&command.keys);
        let quorum = self.settings.quorum;
        let op = Arc::new(Op::new(command, quorum, quorum.all(), true));
        let start = clock::now();
        lane.enqueue(op.clone());
        Finished::wait(lane, op, start, deadline)
    }
}
