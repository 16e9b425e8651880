//! Handing a lease to the next waiter of the same process, without the masters.
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
    /// Proof obligation: only a lease that is Held, by a good last round, with at least half of its ttl left, is passed on;
    /// never one in Jeopardy, nor one that is not renewed or has a longest hold, which is one holder's. And a token that
    /// was given out is never given out again: it rises by one per hand-over and stays below the next lease's, which is
    /// `STEP` higher at least.
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

/// How long a process leaves a lock alone that it has released while others waited elsewhere: `max(1 ms, 3 round trips)`.
/// Its next attempt would stand right behind its own release, before anybody else could come.
pub fn courtesy(round_trip: Duration) -> Duration {
    (round_trip * 3).clamp(Duration::from_millis(1), Duration::from_millis(50))
}

/// How long a process may take a lock again and again while others wait elsewhere: turns of some length cost less than a
/// change at every release.
pub const TURN: Duration = Duration::from_millis(7);

/// Whether a process that has taken a lock again and again for `run` tells those who wait elsewhere when it releases it.
pub fn is_turn_over(run: Duration) -> bool {
    run >= TURN
}

/// How long what a master has said of others who wait is believed.
pub const MEMORY: Duration = Duration::from_millis(200);

/// Whether a process that has taken a lock again and again for `run` leaves it alone for a moment when it releases it: it
/// was said `ago` that others wait elsewhere, and this release tells one of them, who would find it taken again. It does so at
/// each such release until it has heard that somebody was told, which ends its run; not by the time since they were told last,
/// for they may be told in step with its releases, and come too late each time.
pub fn steps_back(run: Duration, ago: Duration) -> bool {
    is_turn_over(run) && ago <= MEMORY
}
