//! What one process knows of a lock that its threads want: who may contend, whether it yields to waiters of other
//! processes, and whether its release notifies one of them.
//!
//! A process keeps a contended lock for a *quantum*: to change processes at every release costs two thread switches and
//! a round trip each. The release that ends the quantum notifies the first waiter, and from then on the process
//! contends as a waiter itself: its attempt, which the masters see right behind its release, would win against the
//! notified one each time.

use super::time::Mono;
use super::wait_list::{Notify, QUANTUM};
use std::time::Duration;

/// How long a process whose quantum is not over has to take the lock again, before a waiter is notified that it is
/// free.
pub const NOTIFY_DELAY: Duration = Duration::from_millis(1);

/// How long a master's report of waiters elsewhere is believed: several rounds, and no longer than a short hold.
pub const WAITERS_WINDOW: Duration = Duration::from_millis(200);

/// How a call enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entering {
    /// It contends, and nobody else of this process does.
    Contends,
    /// It contends beside another thread.
    ContendsBeside,
    /// It waits behind other threads.
    Queues,
    /// A thread of this process holds the lock, and the call does not wait.
    Refused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Free,
    Contended,
    Held,
}

/// See the module. Which threads are in the queue is known to the caller.
#[derive(Clone, Debug, Default)]
pub struct LocalQueue {
    place: Place,
    /// The last attempt met an outage: each thread contends for itself and fails in its own time.
    outage: bool,
    /// When this process took the lock first since another may have had it.
    quantum: Option<Mono>,
    /// When a master last reported waiters elsewhere.
    waiters_elsewhere: Option<Mono>,
    /// When the lock was last released here.
    released: Mono,
    /// A late notification is planned.
    notify_planned: bool,
    /// The number under which a thread of this process last waited at the masters; zero if none has.
    number: u64,
}

impl LocalQueue {
    /// A thread comes that `waits`, or does not.
    pub fn enter(&mut self, waits: bool) -> Entering {
        match self.place {
            Place::Free => {
                self.place = Place::Contended;
                Entering::Contends
            }
            _ if self.outage => Entering::ContendsBeside,
            _ if waits => Entering::Queues,
            Place::Held => Entering::Refused,
            Place::Contended => Entering::ContendsBeside,
        }
    }

    /// The place is given up; it goes to the first in the queue if there is a `next`.
    pub fn leave(&mut self, next: bool) {
        self.place = if next { Place::Contended } else { Place::Free };
        self.outage &= next;
    }

    /// Whether the thread that contends at `now` does so as a waiter from the beginning: waiters were reported
    /// elsewhere less than [`WAITERS_WINDOW`] ago, and this process is not within its quantum. Often the next attempt
    /// is sent before the answer to the release is read, so this goes by what was said before, too.
    pub fn yields(&self, now: Mono) -> bool {
        self.knows_of_waiters(now) && self.is_quantum_over(now)
    }

    fn knows_of_waiters(&self, now: Mono) -> bool {
        self.waiters_elsewhere.is_some_and(|at| now.since(at) <= WAITERS_WINDOW)
    }

    fn is_quantum_over(&self, now: Mono) -> bool {
        self.quantum.is_none_or(|since| now.since(since) >= QUANTUM)
    }

    /// The lock is held from `now` on, by a thread that waited at the masters under `number`, if that is not zero.
    pub fn granted(&mut self, now: Mono, number: u64) {
        (self.place, self.outage) = (Place::Held, false);
        self.quantum.get_or_insert(now);
        if number != 0 {
            self.number = number;
        }
    }

    /// An attempt was refused by enough masters: another process has the lock.
    pub fn refused(&mut self) {
        (self.outage, self.quantum) = (false, None);
    }

    /// An attempt met an outage: the queue dissolves.
    pub fn outage(&mut self) {
        self.outage = true;
    }

    /// The lock is released at `now`; how that notifies a waiter. All masters notify at the same release, or none does:
    /// if each went by its own clock, they would cut the quantum into pieces.
    pub fn release(&mut self, now: Mono) -> Notify {
        self.released = now;
        Notify { waiter: self.number, at_once: self.is_quantum_over(now) }
    }

    /// A master says at `now` that waiters are elsewhere, and whether the release `notified` one of them, which ends
    /// the quantum. True if a late notification is to be planned; [`NOTIFY_DELAY`] from now it is asked for by
    /// [`LocalQueue::late_notification`].
    pub fn waiters_elsewhere(&mut self, now: Mono, notified: bool) -> bool {
        self.waiters_elsewhere = Some(now);
        if notified {
            (self.quantum, self.notify_planned) = (None, false);
            return false;
        }
        !std::mem::replace(&mut self.notify_planned, true)
    }

    /// When the planned notification is due; at once if that is not after `now`. `None` if it is not needed any more:
    /// somebody here holds on to the lock, and notifies with the release. Where the lock is taken again and again the
    /// plan stays, for each release would make the same one, and is looked at more and more rarely.
    pub fn late_notification(&mut self, now: Mono) -> Option<Mono> {
        if !self.notify_planned {
            return None;
        }
        let due = self.released.plus(NOTIFY_DELAY);
        self.notify_planned = due > now;
        match (self.place, self.notify_planned) {
            (Place::Free, _) => Some(due),
            (_, true) => Some(now.plus(NOTIFY_DELAY.max(self.quantum.map_or(NOTIFY_DELAY, |since| now.since(since))))),
            (_, false) => None,
        }
    }

    /// At the end of the client: the number to notify with, if a waiter elsewhere is still to be notified.
    pub fn last_notification(&self) -> Option<u64> {
        (self.notify_planned && self.place == Place::Free).then_some(self.number)
    }

    /// Whether it is as good as a new one.
    pub fn is_new(&self) -> bool {
        self.place == Place::Free && !self.notify_planned && self.waiters_elsewhere.is_none()
    }

    /// Whether nothing is known that the next thread would need.
    pub fn is_forgettable(&self, now: Mono) -> bool {
        self.place == Place::Free && !self.notify_planned && !self.knows_of_waiters(now)
    }
}
