//! One attempt at a lock: until when its votes count, and what becomes of it.

use super::lease::{Lease, Terms};
use super::round::{Judgement, Round};
use super::time::Mono;
use super::validity::{self, Drift};
use std::time::Duration;

/// An attempt whose round began at `start`.
#[derive(Clone, Copy, Debug)]
pub struct Attempt {
    start: Mono,
    until: Mono,
}

impl Attempt {
    /// An attempt to acquire for `ttl`, whose round began at `start`, before the first byte was sent.
    pub fn acquiring(start: Mono, ttl: Duration, drift: Drift) -> Attempt {
        Attempt { start, until: validity::until(start, ttl, drift) }
    }

    /// An attempt to adopt a lease that its owner has given up and that ends at `until_old`: the quorum must be
    /// complete before both deadlines, so that nobody else was granted in between.
    pub fn adopting(start: Mono, ttl: Duration, drift: Drift, until_old: Mono) -> Attempt {
        Attempt { start, until: validity::until(start, ttl, drift).min(until_old.max(start)) }
    }

    /// Until when its votes count.
    pub fn until(&self) -> Mono {
        self.until
    }

    /// What the answers amount to, looked at before `end`.
    pub fn judge(&self, round: &Round, end: Mono) -> Judgement {
        round.judge(end, self.until)
    }

    /// Ends the attempt if it was not granted: nothing of it is sent or counted afterwards. The masters on which to
    /// undo it, by a release of its value.
    ///
    /// Proof obligation: only an attempt that was given up is undone, as a whole. A granted one leaves its uncounted
    /// keys alone: an extension may adopt them, and an undo behind that would delete a key that counts, which makes two
    /// holders (`docs/SAFETY.md#undo`).
    pub fn end(&self, judgement: &Judgement, round: &mut Round) -> u32 {
        if *judgement == Judgement::Granted {
            return 0;
        }
        round.close();
        round.undo_targets()
    }

    /// The lease of an attempt that was granted at `end`: it is counted from the start of the round.
    pub fn lease(&self, terms: Terms, end: Mono) -> Lease {
        debug_assert!(end < self.until, "a lease of an attempt that was not granted in time");
        Lease::new(terms, self.start)
    }
}
