//! One call that acquires: rounds, pauses, its place in the wait lists, and when to give up.
//!
//! ```text
//!  first ─▶ Round ──▶ granted
//!            │  ▲ ▲
//!   refused  │  │ └── Listen: subscribe, then take a place in the wait lists with the next round
//!            ▼  │
//!           Park: until the poll, a notification, the end of an outage, or the limit ──▶ Done
//! ```
//!
//! A notification is a hint and nothing else: it can be lost, late, or forged. So it only moves an attempt forward, the
//! poll comes without it, and the number of attempts that notifications can cause is limited.

use super::owner::Token;
use super::quorum::Quorum;
use super::retry::{self, Backoff, MAY_BE_FREE_WITHIN, SHORTEST};
use super::round::Judgement;
use super::time::{Mono, millis_up};
use super::wait_list::WaitEntry;
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
    /// Subscribe to the channel of notifications, take a number, and go on by [`Acquire::listens`].
    Listen,
    /// Begin a round now, with a new token.
    Round {
        /// Whether every master is asked by the full script.
        full: bool,
        /// The place in the wait lists that it takes if it is refused.
        entry: Option<WaitEntry>,
    },
    /// Park until this moment, or until something is heard; then go on by [`Acquire::resume`].
    Park(Mono),
    /// The call is over.
    Done(End),
}

/// How often a call that does not wait asks again because nobody may have the lock: of several calls at the same
/// moment, each with a vote or two, nobody would get it otherwise, and a job that several hosts start at once would run
/// on none.
pub const SPLITS_AT_ONCE: u32 = 3;

/// The longest pause of a call that does not wait: a lock that is held on a bare quorum looks split to it, and is asked
/// for as often.
pub const PAUSE_AT_ONCE: Duration = Duration::from_millis(20);

/// How many attempts notifications may cause in one wait, beyond one for each poll.
pub const CREDIT: u32 = 64;

/// The longest pause between two polls after which a waiter still has its place in the wait lists.
const LONGEST_POLL: Duration = Duration::from_secs(300);

/// The shortest life of a place, of which two polls are meant to fit in: a process may be late by so much.
const SHORTEST_LIFE: Duration = Duration::from_secs(2);

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
    /// The masters.
    pub quorum: Quorum,
    /// How long the call may wait.
    pub wait: Wait,
    /// The largest number of attempts; a call that counts them does not listen, and takes no place in the wait lists.
    pub tries: Option<u32>,
    /// Whether an outage ends the call at once.
    pub fail_fast: bool,
    /// The pauses on contention.
    pub backoff: Backoff,
    /// Whether the caller draws these pauses itself.
    pub custom_pauses: bool,
    /// Whether every round is by the full script.
    pub always_full: bool,
    /// Whether the call is a waiter from the beginning
    /// ([`LocalQueue::yields`](super::local_queue::LocalQueue::yields)).
    pub yields: bool,
}

/// What was heard since the last attempt began. It is safe to report it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The masters that have notified this waiter.
    pub notified: u32,
    /// A quorum of masters was subscribed to: a notification before that may have been missed.
    pub subscribed: bool,
}

/// A call that listens.
#[derive(Clone, Debug)]
struct Waiter {
    number: u64,
    began: Mono,
    heard: Heard,
    /// When what was heard asks for an attempt.
    due: Mono,
    /// How long the masters took to answer the last attempt.
    round_trip: Duration,
    credit: u32,
    /// The last attempt was due without anything heard.
    by_poll: bool,
}

/// The state machine of one acquiring call.
#[derive(Clone, Debug)]
pub struct Acquire {
    plan: Plan,
    attempts: u32,
    pauses: u32,
    splits: u32,
    /// Whether the last round was by the full script.
    full: bool,
    /// Whether the last round found that others hold it.
    refused: bool,
    /// The outage that the last round met, and when it began.
    outage: Option<(End, Mono)>,
    slowest: Duration,
    /// The end of the pause.
    poll: Mono,
    /// A master has recovered from the outage.
    recovered: bool,
    waiter: Option<Waiter>,
}

impl Acquire {
    /// A call that begins now.
    pub fn new(plan: Plan) -> Acquire {
        Acquire {
            plan,
            attempts: 0,
            pauses: 0,
            splits: 0,
            full: false,
            refused: false,
            outage: None,
            slowest: Duration::ZERO,
            poll: Mono::ZERO,
            recovered: false,
            waiter: None,
        }
    }

    /// The first step.
    pub fn first(&mut self, now: Mono) -> Step {
        if self.plan.yields && self.may_listen() { Step::Listen } else { self.round(self.plan.always_full, now) }
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

    /// The number under which this call waits; zero if it has not waited.
    pub fn number(&self) -> u64 {
        self.waiter.as_ref().map_or(0, |waiter| waiter.number)
    }

    /// Whether it pauses because of the masters, and not of other clients.
    pub fn is_outage(&self) -> bool {
        self.outage.is_some()
    }

    /// The step after [`Step::Listen`]: from `now` on the call waits under this number.
    pub fn listens(&mut self, number: u64, now: Mono) -> Step {
        self.waiter = Some(Waiter {
            number,
            began: now,
            heard: Heard::default(),
            due: Mono::NEVER,
            round_trip: Duration::ZERO,
            credit: CREDIT,
            by_poll: true,
        });
        // A release before the subscription was heard by nobody: try again, then wait.
        if self.is_over(now) { Step::Done(End::Contended) } else { self.round(true, now) }
    }

    /// Something was heard. A waiter that was notified tries at once if a quorum of masters did it, else a round trip
    /// later.
    pub fn heard(&mut self, heard: Heard, now: Mono) {
        let Some(waiter) = self.waiter.as_mut().filter(|waiter| waiter.credit > 0) else { return };
        let before = waiter.heard;
        waiter.heard.notified |= heard.notified;
        waiter.heard.subscribed |= heard.subscribed;
        if waiter.heard.subscribed && !before.subscribed {
            waiter.due = waiter.due.min(now);
        }
        if waiter.heard.notified != before.notified {
            let complete = self.plan.quorum.reached(waiter.heard.notified.count_ones() as usize);
            let rest = if complete { Duration::ZERO } else { waiter.round_trip };
            waiter.due = waiter.due.min(now.plus(rest));
        }
    }

    /// A master has recovered since the last attempt began: if it met an outage, that may be over.
    pub fn recovered(&mut self) {
        self.recovered = true;
    }

    /// The step after a pause, or when something was heard during it.
    pub fn resume(&mut self, now: Mono) -> Step {
        if self.is_over(now) {
            return Step::Done(self.outage.map_or(End::Contended, |(end, _)| end));
        }
        let heard = match (self.outage, &self.waiter) {
            (Some(_), _) if self.recovered => Mono::ZERO,
            (None, Some(waiter)) => waiter.due,
            _ => Mono::NEVER,
        };
        if now < self.poll.min(heard) {
            return Step::Park(self.poll.min(heard));
        }
        // A pause that was cut short was not in vain: the next one is no longer for it. Custom pauses count as they are
        // asked for.
        if now < self.poll && !self.plan.custom_pauses {
            self.pauses = self.pauses.saturating_sub(1);
        }
        self.round(true, now)
    }

    /// The step after a round that was not granted. `took` is how long it took, `random` has 64 uniform bits, `custom`
    /// overrides the pause on contention, and is lengthened to [`SHORTEST`].
    pub fn after_round(
        &mut self,
        judgement: &Judgement,
        took: Duration,
        now: Mono,
        random: u64,
        custom: Option<Duration>,
    ) -> Step {
        self.slowest = self.slowest.max(took);
        // A refusal by plain commands tells neither ttl nor type: ask once more by the full script before waiting.
        let over = self.is_over(now);
        let unsure =
            matches!(judgement, Judgement::HeldByOther(hint) if hint.is_none_or(|after| after <= MAY_BE_FREE_WITHIN));
        let blind = unsure && self.plan.wait != Wait::Once;
        if !self.full && !over && (blind || *judgement == Judgement::Unclear) {
            self.refused |= blind;
            return if blind { self.listen_or_ask(now) } else { self.round(true, now) };
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
                if let Some(after) = hint.filter(|after| *after <= MAY_BE_FREE_WITHIN) {
                    self.splits = splits.saturating_add(1);
                    hint = Some(after.saturating_mul(1 << splits.min(20)));
                }
                let pause = match self.plan.wait {
                    Wait::Once => self.after_split(splits, random),
                    _ => custom
                        .map(|pause| pause.max(SHORTEST))
                        .unwrap_or_else(|| self.plan.backoff.pause(self.pauses, hint, random)),
                };
                self.contended(now, pause, took, true)
            }
            Judgement::Split | Judgement::Absent | Judgement::Unclear => {
                self.splits = splits.saturating_add(1);
                self.contended(now, self.after_split(splits, random), took, false)
            }
            Judgement::TooSlow => self.outage(End::TooSlow, now, Duration::ZERO, random),
            Judgement::NoQuorum => self.outage(End::NoQuorum, now, Duration::ZERO, random),
            Judgement::Quarantined(wait) => self.outage(End::Quarantined, now, *wait, random),
        }
    }

    /// Begins a round. What was heard before it is about the past.
    fn round(&mut self, full: bool, now: Mono) -> Step {
        let limit = self.limit();
        let longest = if self.plan.custom_pauses { LONGEST_POLL } else { self.plan.backoff.cap.min(LONGEST_POLL) };
        let life = (longest * 2).max(SHORTEST_LIFE).min(limit.since(now));
        let entry = self.waiter.as_mut().map(|waiter| waiter.attempt(now, life));
        (self.full, self.recovered) = (full || entry.is_some(), false);
        Step::Round { full: self.full, entry }
    }

    /// A call that counts its tries wants its own pauses between them.
    fn may_listen(&self) -> bool {
        self.plan.wait != Wait::Once && self.plan.tries.is_none()
    }

    /// From the first refusal on, a call that waits listens.
    fn listen_or_ask(&mut self, now: Mono) -> Step {
        if self.may_listen() && self.waiter.is_none() { Step::Listen } else { self.round(true, now) }
    }

    fn limit(&self) -> Mono {
        if let Wait::Until(limit) = self.plan.wait { limit } else { Mono::NEVER }
    }

    fn is_over(&self, now: Mono) -> bool {
        now >= self.limit()
    }

    fn after_split(&self, splits: u32, random: u64) -> Duration {
        let cap = if self.plan.wait == Wait::Once { PAUSE_AT_ONCE } else { self.plan.backoff.cap };
        retry::after_split(self.slowest, splits, cap, random)
    }

    /// Others have the lock, or votes for it; `held` if enough masters said that they have it.
    fn contended(&mut self, now: Mono, pause: Duration, took: Duration, held: bool) -> Step {
        (self.outage, self.refused) = (None, true);
        let used_up = self.plan.tries.is_some_and(|tries| self.attempts >= tries);
        if self.plan.wait == Wait::Once && (used_up || !(1..=SPLITS_AT_ONCE).contains(&self.splits)) {
            return Step::Done(End::Contended);
        }
        if used_up {
            return Step::Done(End::TriesUsedUp);
        }
        if self.is_over(now) {
            return Step::Done(End::Contended);
        }
        if held && self.may_listen() && self.waiter.is_none() {
            self.pauses += u32::from(self.plan.custom_pauses);
            return Step::Listen;
        }
        self.pauses += 1;
        self.poll = now.plus(pause).min(self.limit());
        if let Some(waiter) = &mut self.waiter {
            waiter.refused(took);
        }
        Step::Park(self.poll)
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
        let poll = [drawn, shortest].map(|pause| now.plus(pause)).into_iter().find(|poll| *poll < limit);
        self.poll = poll.unwrap_or(Mono::ZERO);
        poll.map_or(Step::Done(end), Step::Park)
    }
}

impl Waiter {
    /// An attempt begins; what it says for its place, which is kept for `life`.
    fn attempt(&mut self, now: Mono, life: Duration) -> WaitEntry {
        let yields = std::mem::take(&mut self.heard).notified == 0;
        self.by_poll = std::mem::replace(&mut self.due, Mono::NEVER) == Mono::NEVER;
        self.credit = self.credit.saturating_sub(u32::from(!self.by_poll));
        let waited_us = u64::try_from(now.since(self.began).as_micros()).unwrap_or(u64::MAX);
        WaitEntry { waiter: self.number, life_ms: millis_up(life).max(1), waited_us, yields }
    }

    /// The attempt was refused. Each poll gives back the credit of one attempt.
    fn refused(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
        self.credit = (self.credit + u32::from(self.by_poll)).min(CREDIT);
    }
}
