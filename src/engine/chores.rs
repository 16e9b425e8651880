//! Chores: what has to be done at some moment and may be late. They have a thread of their own, so that no renewal and
//! no announcement of a loss ever waits behind one.

use super::timer::{Key, Timer};
use crate::protocol::{Keys, Mono};
use crate::sys::sync::{AtomicU64, Mutex, Ordering, Rank};
use crate::sys::thread::{Threads, survives};
use crate::sys::{clock, journal};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What is due. Doing it does not block, and takes a bounded time.
pub(crate) enum Chore {
    /// A lane may have replies that no thread reads; how often it had been led when this was entered.
    Drain(usize, u64),
    /// Releases for a master that were not delivered.
    Reap(usize),
    /// A connector could not be started.
    Connect(usize),
    /// Connections may have been closed while they were idle.
    Sweep,
    /// There may be waiters elsewhere for a lock that was released here; the number under which this process waited.
    Notify(Arc<Keys>, u64),
}

impl Chore {
    fn name(&self) -> &'static str {
        match self {
            Chore::Drain(..) => "look after unread replies",
            Chore::Reap(_) => "deliver releases again",
            Chore::Connect(_) => "start a connector",
            Chore::Sweep => "look at idle connections",
            Chore::Notify(..) => "notify a waiter",
        }
    }
}

/// A chore that takes longer has overrun.
const OVERRUN_DELAY: Duration = Duration::from_millis(10);
/// An event that is handled later than this is worth a line in the log.
const LOGGED_DELAY: Duration = Duration::from_millis(50);

/// The chores of a client, and how they went.
pub(crate) struct Chores {
    timer: Arc<Timer<Chore>>,
    overruns: AtomicU64,
    /// The latest events of the lease timer and of the chores that were logged.
    logged: Mutex<[Duration; 2]>,
}

impl Chores {
    pub(crate) fn new() -> io::Result<Arc<Chores>> {
        Ok(Arc::new(Chores {
            timer: Timer::new()?,
            overruns: AtomicU64::new(0),
            logged: Mutex::new(Rank::Lateness, [Duration::ZERO; 2]),
        }))
    }

    /// Starts the thread; `work` does a chore.
    pub(crate) fn start(
        self: &Arc<Self>,
        threads: &Arc<Threads>,
        mut work: impl FnMut(Chore) + Send + 'static,
    ) -> io::Result<()> {
        let chores = self.clone();
        self.timer.start(threads, "chores", move |chore| chores.run(chore, &mut work))
    }

    fn run(&self, chore: Chore, work: impl FnOnce(Chore)) {
        let (start, name) = (clock::now(), chore.name());
        if !survives(|| work(chore)) {
            journal::error!("a chore panicked: {name}");
        }
        let took = clock::now().since(start);
        if took > OVERRUN_DELAY {
            self.overruns.fetch_add(1, Ordering::Relaxed);
            journal::debug!("a chore took {took:.1?}: {name}");
        }
    }

    /// Has `chore` done at the moment `at`.
    pub(crate) fn enter(&self, at: Mono, chore: Chore) -> Key {
        self.timer.enter(at, chore)
    }

    /// Takes a chore out, if it has not been begun.
    pub(crate) fn leave(&self, key: Key) {
        self.timer.leave(key);
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        drop(self.timer.stop());
    }

    /// How many chores took longer than 10 ms.
    pub(crate) fn overruns(&self) -> u64 {
        self.overruns.load(Ordering::Relaxed)
    }

    /// The longest time so far from a chore's being due to its being begun.
    pub(crate) fn latest(&self) -> Duration {
        self.timer.latest()
    }

    /// Logs how late the chores and the timer of the leases have been, if that is worth it and more than before.
    pub(crate) fn log_lateness(&self, lease_timer: Duration) {
        let late = [("lease timer", lease_timer), ("chores", self.latest())];
        for (k, (which, latest)) in late.into_iter().enumerate() {
            let logged = std::mem::replace(&mut self.logged.lock()[k], latest);
            if latest > LOGGED_DELAY && latest > logged {
                journal::warn!(
                    "the {which} ran {latest:.0?} late: this process was stopped, or is short of processor time"
                );
            }
        }
    }
}
