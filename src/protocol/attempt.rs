//! One attempt at a lock: until when its votes count, and what becomes of it.

use super::lease::{Lease, Terms};
use super::round::{Judgement, Round};
use super::time::Mono;
use super::validity::{self, Drift};
use crate::planted;
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

    /// An attempt to adopt a lease that its owner has given up and that ends at `until_old`: the quorum must be complete
    /// before both deadlines, so that nobody else was granted in between.
    pub fn adopting(start: Mono, ttl: Duration, drift: Drift, until_old: Mono) -> Attempt {
        let until_old = if planted::on("adopted_too_late") { Mono::NEVER } else { until_old };
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

    /// Ends the attempt if it was not granted: nothing of it is sent or counted afterwards. The masters on which to undo it,
    /// by a release of its value.
    ///
    /// Proof obligation: only an attempt that was given up is undone, as a whole. A granted one leaves its uncounted keys
    /// alone: an extension may adopt them, and an undo behind that would delete a key that counts (protocol-changes.md
    /// 1.3: two holders).
    pub fn end(&self, judgement: &Judgement, round: &mut Round) -> u32 {
        if *judgement != Judgement::Granted {
            round.close();
            return round.undo_targets();
        }
        if planted::on("undo_of_a_granted_attempt") { round.undo_targets() & !round.yes_mask() } else { 0 }
    }

    /// The lease of an attempt that was granted at `end`.
    pub fn lease(&self, terms: Terms, end: Mono) -> Lease {
        Lease::new(terms, if planted::on("validity_from_the_end") { end } else { self.start })
    }
}
