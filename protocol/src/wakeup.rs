//! When a waiter tries again: when it is told that the lock is free, a while after the one before it was, or when its poll is due.
//!
//! The masters keep the line of those who wait, and tell the one who has waited longest, and the next; nobody else is woken. A
//! message is a hint and nothing else: it can be lost, late, or forged. So it only moves an attempt forward, and the number of
//! attempts that messages can cause is limited.

use super::command::Word;
use super::handover::TURN;
use super::quorum::Quorum;
use super::retry::between;
use super::time::{Mono, millis_up};
use std::time::Duration;

/// How many attempts messages may cause in one wait, beyond one for each poll.
pub const CREDIT: u32 = 64;
/// How long a waiter that was not told leaves a free lock to somebody who was, or is about to be. It costs little time: this
/// long after somebody was told, or the first has come, a free lock is anybody's.
pub const PATIENCE: Duration = TURN;
/// How long a master remembers that it has told somebody, in milliseconds, if nobody else waits.
pub const MARK_MS: u64 = 20;
/// How long a process whose turn is not over has to take the lock again, before those who wait are told that it is free.
pub const LATE: Duration = Duration::from_millis(1);

/// What a waiter has heard.
#[derive(Clone, Debug)]
pub struct Wakeup {
    number: u64,
    quorum: Quorum,
    began: Mono,
    /// The masters that have told this waiter since its last attempt.
    told_by: u32,
    due: Mono,
    /// How long the masters took to answer the last attempt.
    round_trip: Duration,
    credit: u32,
    /// An attempt was made.
    asked: bool,
    /// The last attempt was made because its poll was due.
    by_poll: bool,
}

/// What a release tells a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its place in the line: it has the first if the lock is its to take, the second if another was told that.
    pub place: u64,
    /// Its number.
    pub waiter: u64,
}

/// How many bits of a waiter's number are its own, as `pass_on.lua` has it too; the 24 above them are its client's. Lua counts
/// to 2^53 without loss.
const OWN_BITS: u32 = 28;

/// The number of a client, of 64 uniform bits. Clients with the same one hear what the other is told, and nothing else comes of it.
pub fn client_number(random: u64) -> u64 {
    random >> 40
}

/// The channel on which the waiters of one client are told of a lock, of the lock's channel.
pub fn channel_of(channel: &str, client: u64) -> String {
    format!("{channel}:{client}")
}

impl Wakeup {
    /// A wait of this client that begins now, under a number of its own, of 64 uniform bits.
    pub fn new(quorum: Quorum, now: Mono, client: u64, random: u64) -> Wakeup {
        Wakeup {
            number: client << OWN_BITS | (random >> (64 - OWN_BITS)).max(1),
            quorum,
            began: now,
            told_by: 0,
            due: Mono::NEVER,
            round_trip: Duration::ZERO,
            credit: CREDIT,
            asked: false,
            by_poll: false,
        }
    }

    /// An attempt is about to be sent: what was heard before it is about the past. Answers what it says of this waiter, who
    /// keeps its place for `life`.
    pub fn attempt(&mut self, now: Mono, life: Duration) -> Word {
        self.asked = true;
        let courteous = std::mem::take(&mut self.told_by) == 0;
        self.by_poll = std::mem::replace(&mut self.due, Mono::NEVER) == Mono::NEVER;
        self.credit = self.credit.saturating_sub(u32::from(!self.by_poll));
        let waited_us = u64::try_from(now.since(self.began).as_micros()).unwrap_or(u64::MAX);
        Word { waiter: self.number, ms: millis_up(life).max(1), waited_us, courteous }
    }

    /// Whether an attempt was made in this wait.
    pub fn has_asked(&self) -> bool {
        self.asked
    }

    /// The attempt, which took `round_trip`, found the lock held.
    pub fn refused(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
        self.credit = (self.credit + u32::from(self.by_poll)).min(CREDIT);
    }

    /// From now on messages of a quorum come. Who was in line before may have been told, and has not heard it: it tries again.
    pub fn subscribed(&mut self, now: Mono) {
        if self.asked && self.credit > 0 {
            self.due = self.due.min(now);
        }
    }

    /// Master `i` says that the lock was released; `random` has 64 uniform bits.
    ///
    /// Who is told tries: at once if a quorum of masters told it, else a round trip later. The next tries two to three turns
    /// later, if it has heard nothing more: the one before it may have died.
    pub fn on_message(&mut self, i: usize, message: Message, now: Mono, random: u64) {
        if self.credit == 0 || message.waiter != self.number {
            return;
        }
        if message.place == 1 {
            self.told_by |= 1 << i;
            let complete = self.quorum.reached(self.told_by.count_ones() as usize);
            let patience = if complete { Duration::ZERO } else { self.round_trip };
            self.due = self.due.min(now.plus(patience));
        } else if self.told_by == 0 {
            let turn = TURN.max(self.round_trip * 4);
            self.due = now.plus(between(turn * 2, turn * 3, random));
        }
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
