//! Handing a lease to the next thread of the same process, without the masters: *lock cohorting*, with a budget.
//!
//! To the masters there is one holder with one value, so exclusion and continuity speak of the value and are untouched;
//! inside the process the guards follow one another under the lease's gate.

use super::fence::STEP;
use super::lease::{Lease, LeaseState};
use super::time::Mono;
use std::time::Duration;

/// How long a process may pass a lease around, counted from the first hand-over.
pub const BUDGET: Duration = Duration::from_millis(10);

/// The hand-overs of one lease, and what its fencing token is by now.
#[derive(Clone, Debug)]
pub struct Handover {
    budget: Duration,
    since: Option<Mono>,
    counter: Option<u64>,
    passed: u64,
}

impl Handover {
    /// A lease fresh from the masters, to be passed around for at most `budget`; zero means never.
    pub fn new(budget: Duration) -> Handover {
        Handover { budget, since: None, counter: None, passed: 0 }
    }

    /// Passes the lease on, if it may be: then its holder is another one.
    ///
    /// Proof obligation: only a lease that is Held, by a good last round, with at least half of its ttl left, is passed
    /// on; never one in Jeopardy, nor one that is not renewed or has a longest hold, which is one holder's. And a token
    /// that was given out is never given out again: it rises by one per hand-over and stays below the next lease's,
    /// which is `STEP` higher at least.
    pub fn pass(&mut self, lease: &Lease, now: Mono) -> bool {
        let budget_left = self.since.map_or(!self.budget.is_zero(), |since| now.since(since) < self.budget);
        let healthy = lease.state(now) == LeaseState::Held && lease.may_write(now) && lease.is_renewed_without_end();
        let enough = lease.until().since(now) >= lease.ttl() / 2;
        let token_left = self.counter.is_none() || self.passed + 1 < STEP;
        if !(budget_left && healthy && enough && token_left) {
            return false;
        }
        self.since.get_or_insert(now);
        if self.counter.is_some() {
            self.passed += 1;
        }
        true
    }

    /// Keeps the counter that the masters gave this lease; the first one stays.
    pub fn remember(&mut self, counter: u64) {
        self.counter.get_or_insert(counter);
    }

    /// The present holder's fencing token, if the counter is known.
    pub fn token(&self) -> Option<u64> {
        self.counter.map(|counter| counter + self.passed)
    }
}
