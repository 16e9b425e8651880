//! A request on its way: the command, the answers so far, and the thread that waits.

use super::leader::{Awaited, Ticket};
use super::packed::Packed;
use crate::protocol::{Answer, Command, Mono, Quorum, Round};
use crate::sys::sync::{Mutex, Rank};
use std::fmt;

/// One round of a command on one lane.
pub(crate) struct Request {
    pub(crate) command: Command,
    /// The masters it goes to.
    pub(crate) targets: u32,
    /// Whether a thread waits for it.
    pub(crate) awaited: bool,
    pub(crate) round: Mutex<Round>,
    /// For a release: when it was made; its minimum hold counts from here.
    pub(crate) made: Option<Mono>,
    /// For a release: how often it was posted before.
    pub(crate) tries: u32,
    /// For a release: when the key's ttl ends, if it is known.
    pub(crate) key_ends: Option<Mono>,
    pub(super) packed: Option<Packed>,
    ticket: Ticket,
}

impl Request {
    /// A round to the masters `targets` of `quorum`.
    pub(crate) fn new(command: Command, quorum: Quorum, targets: u32, awaited: bool) -> Request {
        let mut round = Round::new(quorum, command.operation.rule());
        for i in (0..quorum.masters()).filter(|i| targets >> i & 1 == 0) {
            round.do_not_await(i);
        }
        let round = Mutex::new(Rank::Round, round);
        let packed = Packed::of(&command);
        Request {
            command,
            targets,
            awaited,
            round,
            made: None,
            tries: 0,
            key_ends: None,
            packed,
            ticket: Ticket::new(),
        }
    }

    /// Takes an answer; true if it decides a request that a thread waits for.
    pub(crate) fn answer(&self, i: usize, answer: Answer, now: Mono) -> bool {
        self.round.lock().on_answer(i, answer, now) && self.awaited
    }

    /// Notes that master `i` is not waited for; true if this decides a request that a thread waits for.
    pub(crate) fn do_not_await(&self, i: usize) -> bool {
        self.round.lock().do_not_await(i) && self.awaited
    }

    /// Whether it may be sent again to a master that did not know the script.
    ///
    /// Proof obligation: a request that is sent again is neither decided nor given up, so it stands before the undo or
    /// the release of its value on this connection. A release may be sent at any time: its value is not used again.
    pub(crate) fn may_be_sent_again(&self) -> bool {
        let operation = &self.command.operation;
        operation.is_release() || (operation.is_repeatable() && self.round.lock().may_be_sent_again())
    }

    /// Ends the attempt: nothing of it is sent again.
    pub(crate) fn close(&self) {
        self.round.lock().close();
    }
}

impl Awaited for Request {
    fn ticket(&self) -> &Ticket {
        &self.ticket
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("command", &self.command)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}
