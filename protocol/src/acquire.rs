//! One call that acquires: rounds, pauses, and when to give up.

use super::owner::Token;
use super::retry::{self, Backoff, SHORTEST, SOON};
use super::round::Judgement;
use super::time::Mono;
use std::time::Duration;

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// One answer, now; while the votes are split, at most [`SPLITS_AT_ONCE`] more.
    Once,
    /// Until this moment.
    Until(Mono),
    /// As long as others hold the lock; an outage is endured for this long.
    Forever {
        /// The longest time without a quorum of masters.
        outage_patience: Duration,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Begin a round now, with a new token.
    Round {
        /// Whether every master is asked by the full script.
        full: bool,
    },
    /// Pause until this moment.
    Sleep(Mono),
    /// The call is over.
    Done(End),
}

/// How often a call that does not wait asks again because the lock may be nobody's: of six that met, each with a vote or two, nobody got
/// it in 2 to 3 of 100 cases, and a job that several hosts start at once ran on none (`tests/behaviour/exclusion.rs`).
pub const SPLITS_AT_ONCE: u32 = 3;

/// The longest pause of a call that does not wait: a lock that is held on a bare quorum looks split to it, and is asked for as often.
pub const PAUSE_AT_ONCE: Duration = Duration::from_millis(20);

/// How a call ended without a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Others hold it.
    Contended,
    /// Others hold it, and the number of tries is used up.
    TriesUsedUp,
    /// Too few masters answered.
    NoQuorum,
    /// A quorum answered too late.
    TooSlow,
    /// Too many masters are in quarantine.
    Quarantined,
    /// The key is another kind of thing.
    Conflict,
    /// A master belongs to another deployment.
    Mismatch,
}

/// The settings of an acquiring call.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How long the call may wait.
    pub wait: Wait,
    /// The largest number of attempts.
    pub tries: Option<u32>,
    /// Whether an outage ends the call at once.
    pub fail_fast: bool,
    /// The pauses on contention.
    pub backoff: Backoff,
    /// Whether every round is by the full script.
    pub always_full: bool,
}

/// The state machine of one acquiring call.
#[derive(Clone, Debug)]
pub struct Acquire {
    plan: Plan,
    attempts: u32,
    pauses: u32,
    splits: u32,
    /// Whether the last round found that others hold it.
    refused: bool,
    /// The outage that the last round met, and when it began.
    outage: Option<(End, Mono)>,
    slowest: Duration,
}

impl Acquire {
    /// A call that begins now.
    pub fn new(plan: Plan) -> Acquire {
        Acquire { plan, attempts: 0, pauses: 0, splits: 0, refused: false, outage: None, slowest: Duration::ZERO }
    }

    /// The first step.
    pub fn first(&mut self) -> Step {
        Step::Round { full: self.plan.always_full }
    }

    /// The token of the next attempt: of 128 fresh bits from the operating system, and of no attempt before.
    pub fn token(&mut self, fresh: [u8; 16]) -> Token {
        Token::from_bytes(fresh)
    }

    /// The number of attempts so far.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The number of pauses so far, as a custom pause takes it.
    pub fn pauses(&self) -> u32 {
        self.pauses
    }

    /// The last pause ended early, because the lock was said to be free: it was none of a waiter that polls in vain, and the
    /// next one is not longer for it.
    pub fn was_woken(&mut self) {
        self.pauses = self.pauses.saturating_sub(1);
    }

    /// The step after a pause.
    pub fn after_pause(&self, now: Mono) -> Step {
        match self.plan.wait {
            Wait::Until(limit) if now >= limit => Step::Done(self.outage.map_or(End::Contended, |(end, _)| end)),
            _ => Step::Round { full: true },
        }
    }

    /// The step after a round that was not granted. `full` tells how it was asked, `took` how long it took, `random` has
    /// 64 uniform bits, `custom` overrides the pause on contention, and is
    /// lengthened to [`SHORTEST`].
    pub fn after_round(
        &mut self,
        judgement: &Judgement,
        full: bool,
        took: Duration,
        now: Mono,
        random: u64,
        custom: Option<Duration>,
    ) -> Step {
        self.slowest = self.slowest.max(took);
        // A refusal by plain commands tells neither ttl nor type: ask once more by the full script before waiting.
        let over = matches!(self.plan.wait, Wait::Until(limit) if now >= limit);
        let untold = matches!(judgement, Judgement::HeldByOther(hint) if hint.is_none_or(|after| after <= SOON));
        let blind = untold && self.plan.wait != Wait::Once;
        if !full && !over && (blind || *judgement == Judgement::Unclear) {
            self.refused |= blind;
            return Step::Round { full: true };
        }
        self.attempts += 1;
        // The limit cut the last round short: what is known is still that others hold it.
        if over && self.refused && *judgement == Judgement::NoQuorum {
            return Step::Done(End::Contended);
        }
        let splits = std::mem::take(&mut self.splits);
        match judgement {
            Judgement::Granted => Step::Done(End::Contended),
            Judgement::Conflict(..) => Step::Done(End::Conflict),
            Judgement::Mismatch(..) => Step::Done(End::Mismatch),
            Judgement::HeldByOther(hint) => {
                // Once more soon, if it may be free; but a minority can look free for as long as others hold the lock.
                let mut hint = *hint;
                if let Some(after) = hint.filter(|after| *after <= SOON) {
                    self.splits = splits.saturating_add(1);
                    hint = Some(after.saturating_mul(1 << splits.min(20)));
                }
                let pause = match self.plan.wait {
                    Wait::Once => self.after_split(splits, random),
                    _ => custom
                        .map(|pause| pause.max(SHORTEST))
                        .unwrap_or_else(|| self.plan.backoff.pause(self.pauses, hint, random)),
                };
                self.contended(now, pause)
            }
            Judgement::Split | Judgement::Absent | Judgement::Unclear => {
                self.splits = splits.saturating_add(1);
                self.contended(now, self.after_split(splits, random))
            }
            Judgement::TooSlow => self.outage(End::TooSlow, now, Duration::ZERO, random),
            Judgement::NoQuorum => self.outage(End::NoQuorum, now, Duration::ZERO, random),
            Judgement::Quarantined(wait) => self.outage(End::Quarantined, now, *wait, random),
        }
    }

    fn after_split(&self, splits: u32, random: u64) -> Duration {
        let cap = if self.plan.wait == Wait::Once { PAUSE_AT_ONCE } else { self.plan.backoff.cap };
        retry::after_split(self.slowest, splits, cap, random)
    }

    fn contended(&mut self, now: Mono, pause: Duration) -> Step {
        (self.outage, self.refused) = (None, true);
        let used_up = self.plan.tries.is_some_and(|tries| self.attempts >= tries);
        if self.plan.wait == Wait::Once && (used_up || !(1..=SPLITS_AT_ONCE).contains(&self.splits)) {
            return Step::Done(End::Contended);
        }
        if used_up {
            return Step::Done(End::TriesUsedUp);
        }
        self.pauses += 1;
        let wake = now.plus(pause);
        match self.plan.wait {
            Wait::Until(limit) if now >= limit => Step::Done(End::Contended),
            Wait::Until(limit) => Step::Sleep(wake.min(limit)),
            _ => Step::Sleep(wake),
        }
    }

    /// `at_least` is how long the outage is known to last.
    fn outage(&mut self, end: End, now: Mono, at_least: Duration, random: u64) -> Step {
        // Of a call that does not wait the first answer counts.
        if self.plan.wait == Wait::Once && self.refused {
            return Step::Done(End::Contended);
        }
        let since = self.outage.map_or(now, |(_, since)| since);
        (self.outage, self.refused) = (Some((end, since)), false);
        let limit = match self.plan.wait {
            Wait::Once => now,
            Wait::Until(limit) => limit,
            Wait::Forever { outage_patience } => since.plus(outage_patience),
        };
        let over = self.plan.tries.is_some_and(|tries| self.attempts >= tries);
        if over || self.plan.fail_fast || now.plus(at_least) >= limit {
            return Step::Done(end);
        }
        let shortest = self.plan.backoff.min.max(Duration::from_millis(1)).max(at_least.min(Duration::from_secs(1)));
        let drawn = self.plan.backoff.pause(self.pauses, None, random).max(shortest);
        self.pauses += 1;
        // A drawn pause that is too long for what is left gives way to the shortest.
        let wake = [drawn, shortest].map(|pause| now.plus(pause)).into_iter().find(|wake| *wake < limit);
        wake.map_or(Step::Done(end), Step::Sleep)
    }
}
