//! When a waiter tries again: at a message that the lock was released, or when its poll is due.
//!
//! A message is a hint and nothing else: it can be lost, late, or forged. So it only moves an attempt forward, and the
//! number of attempts that messages can cause is limited.

use super::handover::TURN;
use super::quorum::Quorum;
use super::retry::between;
use super::time::Mono;
use std::time::Duration;

/// How many attempts messages may cause in one wait, beyond one for each poll.
pub const CREDIT: u32 = 64;
/// How long a waiter that was not told leaves a free lock to somebody who was, or is about to be.
pub const PATIENCE: Duration = TURN;
/// How long a master remembers that it has told somebody, in milliseconds: until those who were not told have left word again.
pub const MARK_MS: u64 = 20;
/// How long a process whose turn is not over has to take the lock again, before those who wait are told that it is free.
pub const LATE: Duration = Duration::from_millis(1);
/// How far apart the first attempts of several waiters should be.
const SPACING: Duration = Duration::from_micros(150);
/// How long a waiter that lost a race lets the winner work, per waiter.
const SHARE: Duration = Duration::from_millis(1);
/// The longest such time.
const LONGEST_TURN: Duration = Duration::from_millis(10);

/// What a waiter has heard.
#[derive(Clone, Debug)]
pub struct Wakeup {
    number: u64,
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
    /// A master says that nobody has waited longer.
    is_first: bool,
}

/// The word that an attempt leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The waiter's number.
    pub waiter: u64,
    /// How long its waiter has waited.
    pub waited: Duration,
    /// Whether it leaves a free lock to somebody who was told of it a moment ago, or is about to be: this waiter was not.
    ///
    /// It costs little time: [`PATIENCE`] after the last tale, or the first word since, a free lock is anybody's.
    pub courteous: bool,
}

/// What a release tells those who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// How many waited.
    pub waiters: u64,
    /// The waiter that has waited longest, if the master knows.
    pub first: Option<u64>,
}

/// How long a winner works before others ask again, if so many wait.
fn turn(waiters: u64) -> Duration {
    (SHARE * u32::try_from(waiters).unwrap_or(u32::MAX).min(1_000)).min(LONGEST_TURN)
}

impl Wakeup {
    /// A wait that begins now, under a number of its own, of 64 uniform bits.
    pub fn new(quorum: Quorum, now: Mono, random: u64) -> Wakeup {
        Wakeup {
            // Lua counts to 2^53 without loss.
            number: (random >> 12).max(1),
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
            is_first: false,
        }
    }

    /// An attempt is about to be sent: what was heard before it is about the past. Answers what word it should leave; none
    /// in a race, where others are as eager.
    pub fn attempt(&mut self, now: Mono) -> Option<Leave> {
        let after_turn = std::mem::take(&mut self.in_turn);
        let by_message = self.due != Mono::NEVER && !after_turn;
        self.by_poll = !by_message && !after_turn;
        let first = std::mem::take(&mut self.is_first);
        let raced = by_message && !first && self.news.is_some_and(|(_, waiters)| waiters > 1);
        (self.heard, self.due, self.deaf) = (0, Mono::NEVER, raced);
        if !raced {
            self.news = None;
        }
        let waited = now.since(self.began);
        (!raced).then_some(Leave { waiter: self.number, waited, courteous: !by_message })
    }

    /// The attempt, which took `round_trip`, found the lock held; `poll` is when to try at the latest. When to do so in
    /// fact, unless a message comes.
    pub fn refused(&mut self, round_trip: Duration, now: Mono, poll: Mono, random: u64) -> Mono {
        self.round_trip = round_trip;
        match self.news.take_if(|_| self.deaf) {
            // The race was lost: let the winner have its turn, then leave word.
            Some((_, waiters)) => {
                self.in_turn = true;
                let turn = turn(waiters);
                poll.min(now.plus(between(turn * 7 / 8, turn * 9 / 8, random)))
            }
            None => {
                self.credit = (self.credit + u32::from(self.by_poll)).min(CREDIT);
                poll
            }
        }
    }

    /// Master `i` says that the lock was released; `random` has 64 uniform bits. If somebody else has waited longest, it is
    /// his turn: this waiter does not race him, and leaves word again a little later.
    pub fn on_message(&mut self, i: usize, message: Message, now: Mono, random: u64) {
        let waiters = message.waiters.clamp(1, 1_000);
        let first = message.first.map(|first| first == self.number);
        if self.credit == 0 || (self.deaf && first != Some(true)) {
            return;
        }
        if first == Some(false) && waiters > 1 {
            if self.due == Mono::NEVER {
                self.credit -= 1;
                (self.in_turn, self.deaf) = (true, true);
                let turn = turn(waiters);
                self.due = now.plus(between(turn * 3 / 8, turn * 5 / 8, random));
            }
            return;
        }
        self.heard |= 1 << i;
        self.news = Some((now, waiters));
        let complete = self.quorum.reached(self.heard.count_ones() as usize);
        let patience = if complete { Duration::ZERO } else { self.round_trip };
        let precedence = match first {
            Some(true) => Duration::ZERO,
            _ => self.precedence(waiters, now, random),
        };
        let due = now.plus(patience).plus(precedence);
        if first == Some(true) {
            self.is_first = true;
            if std::mem::take(&mut self.in_turn) {
                (self.due, self.deaf) = (Mono::NEVER, false);
            }
        }
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

    /// The waiter's number; not zero.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// When messages ask for an attempt; [`Mono::NEVER`] if they do not.
    pub fn due(&self) -> Mono {
        self.due
    }
}
