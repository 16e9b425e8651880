//! Chores: what has to be done at some moment and may be late, on a thread of its own, so that no renewal and no
//! announcement of a loss ever waits behind one.

use super::core::Engine;
use crate::protocol::Keys;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};
use crate::sys::thread::survives;
use crate::sys::{clock, journal};
use std::sync::Arc;
use std::time::Duration;

/// What is due. Doing it does not block, and takes a bounded time.
pub(crate) enum Chore {
    /// A lane may have replies that nobody reads; how often it had been led when this was entered.
    Care(usize, u64),
    /// Releases for a master that were not delivered.
    Reap(usize),
    /// A connector could not be started.
    Connect(usize),
    /// Connections may have been closed while they were idle.
    Sweep,
    /// Somebody waits elsewhere for a lock that was released here.
    Tell(Arc<Keys>, u64),
}

/// A chore that takes longer has overrun.
const OVERRUN: Duration = Duration::from_millis(10);
/// An event that is handled later than this is worth a line in the log.
const LATE: Duration = Duration::from_millis(50);

/// How the chores went.
#[derive(Default)]
pub(crate) struct Record {
    overruns: AtomicU64,
    /// The latest events of the two timers that were logged.
    logged: Mutex<[Duration; 2]>,
}

impl Record {
    /// How many chores took longer than 10 ms.
    pub(crate) fn overruns(&self) -> u64 {
        self.overruns.load(Ordering::Relaxed)
    }
}

impl Engine {
    /// Does a chore, on the thread of the chores.
    pub(crate) fn do_chore(self: &Arc<Self>, chore: Chore) {
        let start = clock::now();
        let name = match &chore {
            Chore::Care(..) => "look after unread replies",
            Chore::Reap(_) => "deliver releases again",
            Chore::Connect(_) => "start a connector",
            Chore::Sweep => "look at idle connections",
            Chore::Tell(..) => "notify a waiter",
        };
        let work = || match chore {
            Chore::Care(lane, leads) => self.care_due(lane, leads),
            Chore::Connect(i) => self.connect(i),
            Chore::Tell(keys, waiter) => self.tell_due(keys, waiter),
            Chore::Sweep => self.sweep_due(),
            Chore::Reap(i) => self.reap_due(i),
        };
        if !survives(work) {
            journal::error!("a chore panicked: {name}");
        }
        let took = clock::now().since(start);
        if took > OVERRUN {
            self.record.overruns.fetch_add(1, Ordering::Relaxed);
            journal::debug!("a chore took {took:.1?}: {name}");
        }
    }

    /// Logs how late the timers have been, if that is worth it and more than before.
    pub(crate) fn log_lateness(&self) {
        let late = [("lease timer", self.timer.latest()), ("chores", self.chores.latest())];
        for (k, (which, latest)) in late.into_iter().enumerate() {
            let logged = std::mem::replace(&mut self.record.logged.lock()[k], latest);
            if latest > LATE && latest > logged {
                journal::warn!(
                    "the {which} ran {latest:.0?} late: this process was stopped, or is short of processor time"
                );
            }
        }
    }
}
