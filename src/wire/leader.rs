//! Leader and followers: which of the threads that wait on a lane reads for all.
//!
//! One waiting thread leads: it polls the sockets and wakes the others, the followers. When its own request is done it
//! promotes a follower, or leaves the lane without a leader. Kept apart and small, because a lost wake-up here would
//! hang a caller: `tests/threads/handover.rs` runs it through thousands of schedules.
//!
//! The invariant, under the mutex: a thread in `followers` is neither done nor leading, and while `led` is true exactly
//! one thread leads, or has been promoted and has not resigned yet.

use crate::sys::sync::{AtomicU8, Mutex, Ordering, Rank};
use crate::sys::thread::{Thread, current};
use std::sync::Arc;

const DONE: u8 = 1;
const LEAD: u8 = 2;

/// What a waiting thread is waiting for, and how it is woken.
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

    /// Marks it done without looking for a follower: for the leader's own ticket.
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
pub(crate) enum WaitEnd {
    /// It has happened.
    Done,
    /// It had happened before the wait began: the leader of that time may have left since.
    Already,
    /// The caller leads now, and must end with [`Leader::promote`].
    Lead,
    /// `park` gave up.
    GaveUp,
}

#[derive(Debug)]
struct Inner<T> {
    led: bool,
    followers: Vec<Arc<T>>,
}

/// The leader's post, and the followers.
#[derive(Debug)]
pub(crate) struct Leader<T>(Mutex<Inner<T>>);

impl<T: Awaited> Leader<T> {
    /// No thread leads.
    pub(crate) fn new() -> Leader<T> {
        Leader(Mutex::new(Rank::Leader, Inner { led: false, followers: Vec::new() }))
    }

    /// Takes the lead if no other thread has it.
    pub(crate) fn try_lead(&self) -> bool {
        let mut inner = self.0.lock();
        !std::mem::replace(&mut inner.led, true)
    }

    /// Whether some thread leads.
    pub(crate) fn is_led(&self) -> bool {
        self.0.lock().led
    }

    /// Waits until `own` is done or its thread is to lead. `park` parks the thread, possibly for too short a time, and
    /// answers whether to go on waiting.
    pub(crate) fn wait(&self, own: &Arc<T>, mut park: impl FnMut() -> bool) -> WaitEnd {
        {
            let mut inner = self.0.lock();
            if own.ticket().is_done() {
                return WaitEnd::Already;
            }
            if !std::mem::replace(&mut inner.led, true) {
                return WaitEnd::Lead;
            }
            inner.followers.push(own.clone());
        }
        loop {
            if let Some(end) = Self::end(own) {
                return end;
            }
            if !park() {
                return self.give_up(own);
            }
        }
    }

    /// The lead goes first: a follower that is done *and* was promoted must pass the lead on.
    fn end(own: &Arc<T>) -> Option<WaitEnd> {
        let flags = own.ticket().flags.load(Ordering::Acquire);
        if flags & LEAD != 0 {
            own.ticket().flags.fetch_and(!LEAD, Ordering::AcqRel);
            Some(WaitEnd::Lead)
        } else {
            (flags & DONE != 0).then_some(WaitEnd::Done)
        }
    }

    fn give_up(&self, own: &Arc<T>) -> WaitEnd {
        let mut inner = self.0.lock();
        inner.followers.retain(|f| !Arc::ptr_eq(f, own));
        Self::end(own).unwrap_or(WaitEnd::GaveUp)
    }

    /// Marks `own` done; the thread to unpark, if it follows.
    pub(crate) fn finish(&self, own: &Arc<T>) -> Option<Thread> {
        let mut inner = self.0.lock();
        own.ticket().mark_done();
        let place = inner.followers.iter().position(|f| Arc::ptr_eq(f, own))?;
        inner.followers.remove(place);
        Some(own.ticket().thread.clone())
    }

    /// Ends the caller's lead: promotes the follower that came last, or leaves no leader; the thread to unpark. The
    /// last one will wait longest, and so leads for longest before the next change, which costs a thread switch.
    pub(crate) fn promote(&self) -> Option<Thread> {
        let mut inner = self.0.lock();
        let Some(next) = inner.followers.pop() else {
            inner.led = false;
            return None;
        };
        next.ticket().flags.fetch_or(LEAD, Ordering::AcqRel);
        Some(next.ticket().thread.clone())
    }
}

/// Threads to wake, once no mutex is locked.
#[derive(Default)]
pub(super) struct Woken {
    pub(super) threads: Vec<Thread>,
    /// A request was decided by something else than a reply.
    pub(super) decided: bool,
}

impl Woken {
    pub(super) fn unpark(&mut self) {
        for thread in self.threads.drain(..) {
            thread.unpark();
        }
        self.decided = false;
    }
}
