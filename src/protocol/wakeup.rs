//! When a waiter tries again: at a message that the lock was released, or when its poll is due.
//!
//! A message is a hint and nothing else: it can be lost, late, or forged. So it only moves an attempt forward, and the
//! number of attempts that messages can cause is limited.

use super::quorum::Quorum;
use super::retry::between;
use super::time::Mono;
use std::time::Duration;

/// How many attempts messages may cause in one wait, beyond one for each poll.
pub const CREDIT: u32 = 64;
/// How long somebody must have waited to be told at once by whoever releases; who comes back sooner than that may take the
/// lock again, so that processes take turns of some length and do not change places at every release.
pub const PATIENCE: Duration = Duration::from_millis(6);
/// How far apart the first attempts of several waiters should be.
const SPACING: Duration = Duration::from_micros(150);
/// How long a waiter that lost a race lets the winner work, per waiter.
const TURN: Duration = Duration::from_millis(1);
/// The longest such time.
const LONGEST_TURN: Duration = Duration::from_millis(10);

/// What a waiter has heard.
#[derive(Clone, Debug)]
pub struct Wakeup {
    quorum: Quorum,
    began: Mono,
    heard: u32,
    /// When the message came that says so, or will be taken to say so, and how many waited then.
    news: Option<(Mono, u64)>,
    due: Mono,
    /// How long the masters took to answer the last attempt.
    round_trip: Duration,
    credit: u32,
    /// The last attempt was made because its poll was due: neither a message nor the end of a winner's turn asked for it.
    by_poll: bool,
    /// The present pause is a winner's turn.
    in_turn: bool,
    /// Messages do not count: it is somebody else's turn.
    deaf: bool,
}

impl Wakeup {
    /// A wait that begins now.
    pub fn new(quorum: Quorum, now: Mono) -> Wakeup {
        Wakeup {
            quorum,
            began: now,
            heard: 0,
            news: None,
            due: Mono::NEVER,
            round_trip: Duration::ZERO,
            credit: CREDIT,
            by_poll: false,
            in_turn: false,
            deaf: false,
        }
    }

    /// An attempt is about to be sent: what was heard before it is about the past. Answers whether it should leave word
    /// that somebody waits; not so right after a race, where others are as eager.
    pub fn attempt(&mut self) -> bool {
        let by_message = self.due != Mono::NEVER;
        self.by_poll = !by_message && !std::mem::take(&mut self.in_turn);
        let raced = by_message && self.news.is_some_and(|(_, waiters)| waiters > 1) && !self.deaf;
        (self.heard, self.due, self.deaf) = (0, Mono::NEVER, raced);
        if !raced {
            self.news = None;
        }
        !raced
    }

    /// The attempt, which took `round_trip`, found the lock held; `poll` is when to try at the latest. When to do so in
    /// fact, unless a message comes.
    pub fn refused(&mut self, round_trip: Duration, now: Mono, poll: Mono, random: u64) -> Mono {
        self.round_trip = round_trip;
        match self.news.take_if(|_| self.deaf) {
            // The race was lost: let the winner have its turn, then leave word.
            Some((_, waiters)) => {
                self.in_turn = true;
                let turn = (TURN * u32::try_from(waiters).unwrap_or(u32::MAX).min(1_000)).min(LONGEST_TURN);
                poll.min(now.plus(between(turn * 7 / 8, turn * 9 / 8, random)))
            }
            None => {
                self.credit = (self.credit + u32::from(self.by_poll)).min(CREDIT);
                poll
            }
        }
    }

    /// Master `i` says that the lock was released while `waiters` waited; `random` has 64 uniform bits.
    pub fn on_message(&mut self, i: usize, waiters: u64, now: Mono, random: u64) {
        if self.deaf || self.credit == 0 {
            return;
        }
        self.heard |= 1 << i;
        let (_, waiters) = *self.news.insert((now, waiters.clamp(1, 1_000)));
        let complete = self.quorum.reached(self.heard.count_ones() as usize);
        let patience = if complete { Duration::ZERO } else { self.round_trip };
        let due = now.plus(patience).plus(self.precedence(waiters, now, random));
        if self.due == Mono::NEVER {
            self.credit -= 1;
            self.due = due;
        } else if complete {
            self.due = self.due.min(due);
        }
    }

    /// How long this waiter lets others go first: who has waited longest goes first.
    fn precedence(&self, waiters: u64, now: Mono, random: u64) -> Duration {
        if waiters <= 1 {
            return Duration::ZERO;
        }
        let n = u32::try_from(waiters).unwrap_or(u32::MAX);
        let (spread, round) = (SPACING * n, (LONGEST_TURN * n).as_micros().max(1));
        let waited = now.since(self.began).as_micros().min(round);
        let kept = spread.as_micros() * (round - waited) / round;
        Duration::from_micros(kept as u64) + between(Duration::ZERO, SPACING / 2, random)
    }

    /// When messages ask for an attempt; [`Mono::NEVER`] if they do not.
    pub fn due(&self) -> Mono {
        self.due
    }
}
