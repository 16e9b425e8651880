//! A round on its way: the command, the answers so far, and the thread that waits.

use super::packed::Packed;
use super::seat::{Awaited, Ticket};
use crate::protocol::{Answer, Command, Mono, Quorum, Round};
use crate::sys::sync::Mutex;
use std::fmt;

/// One round on one lane.
pub(crate) struct Op {
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

impl Op {
    /// A round to the masters `targets` of `quorum`.
    pub(crate) fn new(command: Command, quorum: Quorum, targets: u32, awaited: bool) -> Op {
        let mut round = Round::new(quorum, command.operation.rule());
        for i in (0..quorum.masters()).filter(|i| targets >> i & 1 == 0) {
            round.do_not_await(i);
        }
        let round = Mutex::new(round);
        let packed = Packed::of(&command);
        Op { command, targets, awaited, round, made: None, tries: 0, key_ends: None, packed, ticket: Ticket::new() }
    }

    /// Takes an answer; true if it decides a round that somebody waits for.
    pub(crate) fn answer(&self, i: usize, answer: Answer, now: Mono) -> bool {
        self.round.lock().on_answer(i, answer, now) && self.awaited
    }

    /// Notes that nobody waits for master `i`; true if this decides a round that somebody waits for.
    pub(crate) fn do_not_await(&self, i: usize) -> bool {
        self.round.lock().do_not_await(i) && self.awaited
    }

    /// Whether it may be sent again to a master that did not know the script.
    ///
    /// Proof obligation: what is sent again belongs to a round that is neither decided nor given up, so it stands before
    /// the undo or the release of its value on this connection. A release may be sent at any time: its value is not used
    /// again.
    pub(crate) fn may_be_sent_again(&self) -> bool {
        let operation = &self.command.operation;
        operation.is_release() || (operation.is_repeatable() && self.round.lock().may_be_sent_again())
    }

    /// Ends the attempt: nothing of it is sent again.
    pub(crate) fn close(&self) {
        self.round.lock().close();
    }
}

impl Awaited for Op {
    fn ticket(&self) -> &Ticket {
        &self.ticket
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Op").field("command", &self.command).field("targets", &self.targets).finish_non_exhaustive()
    }
}
