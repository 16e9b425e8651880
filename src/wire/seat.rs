//! Who reads for all: the seat of a lane's leader, and how it is handed over.
//!
//! One waiting caller leads: it polls the sockets and wakes the others. When its own round is over it hands the lead to
//! another waiter, or leaves the seat empty. Kept apart and small, because a lost wake-up here would hang a caller:
//! `tests/threads/handover.rs` runs it through thousands of schedules.
//!
//! The invariant, under the mutex: whoever is in `waiters` is neither done nor leading, and while `led` is true exactly
//! one thread is leading or has been handed the lead and not yet passed it on.

use crate::sys::sync::{AtomicU8, Mutex, Ordering};
use crate::sys::thread::{Thread, current};
use std::sync::Arc;

const DONE: u8 = 1;
const LEAD: u8 = 2;

/// What one waiting thread is told.
#[derive(Debug)]
pub(crate) struct Ticket {
    flags: AtomicU8,
    thread: Thread,
}

impl Ticket {
    /// A ticket of the calling thread.
    pub(crate) fn new() -> Ticket {
        Ticket { flags: AtomicU8::new(0), thread: current() }
    }

    /// Whether what it waits for has happened.
    pub(crate) fn is_done(&self) -> bool {
        self.flags.load(Ordering::Acquire) & DONE != 0
    }

    /// Marks it done without looking for a waiter: for the leader's own ticket.
    pub(crate) fn mark_done(&self) {
        self.flags.fetch_or(DONE, Ordering::AcqRel);
    }
}

/// Something that a thread waits for.
pub(crate) trait Awaited {
    /// The ticket of the thread.
    fn ticket(&self) -> &Ticket;
}

/// How a wait ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It has happened.
    Done,
    /// It had happened before the wait began: whoever led has perhaps left since.
    Already,
    /// The caller leads now, and must end with [`Seat::hand_over`].
    Lead,
    /// `park` gave up.
    GaveUp,
}

#[derive(Debug)]
struct Inner<T> {
    led: bool,
    waiters: Vec<Arc<T>>,
}

/// The seat of a lane's leader.
#[derive(Debug)]
pub(crate) struct Seat<T>(Mutex<Inner<T>>);

impl<T: Awaited> Seat<T> {
    pub(crate) fn new() -> Seat<T> {
        Seat(Mutex::new(Inner { led: false, waiters: Vec::new() }))
    }

    /// Takes the seat if it is empty; for those who lead without waiting for anything.
    pub(crate) fn take(&self) -> bool {
        let mut inner = self.0.lock();
        !std::mem::replace(&mut inner.led, true)
    }

    /// Whether somebody leads.
    pub(crate) fn is_led(&self) -> bool {
        self.0.lock().led
    }

    /// Waits until `who` is done or its thread is to lead. `park` parks the thread, possibly for too short a time, and
    /// answers whether to go on waiting.
    pub(crate) fn wait(&self, who: &Arc<T>, mut park: impl FnMut() -> bool) -> Turn {
        {
            let mut inner = self.0.lock();
            if who.ticket().is_done() {
                return Turn::Already;
            }
            if !std::mem::replace(&mut inner.led, true) {
                return Turn::Lead;
            }
            inner.waiters.push(who.clone());
        }
        loop {
            if let Some(turn) = Self::turn(who) {
                return turn;
            }
            if !park() {
                return self.give_up(who);
            }
        }
    }

    /// The lead goes first: a waiter that is done *and* was handed the lead must pass it on.
    fn turn(who: &Arc<T>) -> Option<Turn> {
        let flags = who.ticket().flags.load(Ordering::Acquire);
        if flags & LEAD != 0 {
            who.ticket().flags.fetch_and(!LEAD, Ordering::AcqRel);
            Some(Turn::Lead)
        } else {
            (flags & DONE != 0).then_some(Turn::Done)
        }
    }

    fn give_up(&self, who: &Arc<T>) -> Turn {
        let mut inner = self.0.lock();
        inner.waiters.retain(|w| !Arc::ptr_eq(w, who));
        Self::turn(who).unwrap_or(Turn::GaveUp)
    }

    /// Marks `who` done; the thread to unpark, if it is waiting.
    pub(crate) fn finish(&self, who: &Arc<T>) -> Option<Thread> {
        let mut inner = self.0.lock();
        who.ticket().mark_done();
        let place = inner.waiters.iter().position(|w| Arc::ptr_eq(w, who))?;
        inner.waiters.remove(place);
        Some(who.ticket().thread.clone())
    }

    /// Gives the lead to the waiter that came last, or leaves the seat empty; the thread to unpark. Who came last will
    /// wait longest, and so leads for longest before the next hand-over, which costs a thread switch.
    pub(crate) fn hand_over(&self) -> Option<Thread> {
        let mut inner = self.0.lock();
        let Some(next) = inner.waiters.pop() else {
            inner.led = false;
            return None;
        };
        next.ticket().flags.fetch_or(LEAD, Ordering::AcqRel);
        Some(next.ticket().thread.clone())
    }
}
