//! The guard of a held lock.

use crate::detached::DetachedLease;
use crate::engine::error::{Error, Lost, ReleaseOutcome};
use crate::engine::fence;
use crate::engine::hold::Hold;
use crate::engine::lease::Lease;
use crate::options::check_extension;
use crate::protocol::{LeaseState, LossReason};
use crate::sys::clock;
use crossbeam_channel::Receiver;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A held lock; dropping it releases the lock.
///
/// It lives as long as its variable, so give it a name: `let _guard = lock.acquire()?;` holds the lock to the end of
/// the block. `let _ = lock.acquire()?;` drops the guard, and releases the lock, before the next statement; so does
/// `lock.try_acquire()?;` alone. The compiler warns of neither.
///
/// `Drop` writes the release to all masters and waits for none of them; what could not be delivered is tried again in
/// the background. [`release`](LockGuard::release) waits and says what became of it. A guard may be sent to another
/// thread and dropped there. In a forked child the guard is lost and releases nothing: the lock belongs to the parent.
#[must_use = "the lock is released as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
pub struct LockGuard {
    hold: Option<Arc<Hold>>,
}

impl LockGuard {
    pub(crate) fn new(hold: Arc<Hold>) -> LockGuard {
        LockGuard { hold: Some(hold) }
    }

    fn hold(&self) -> &Hold {
        match &self.hold {
            Some(hold) => hold,
            // Only the methods that consume the guard take it out.
            None => unreachable!("a guard without a lease"),
        }
    }

    fn lease(&self) -> &Lease {
        &self.hold().lease
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.lease().keys.name
    }

    /// Whether the lock is held at this instant. It reads an atomic, the clock and the process id, and does no I/O.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] from the deadline on, for good.
    pub fn check(&self) -> Result<(), Error> {
        self.lease().check()
    }

    /// Whether the lock is held for at least `min` more, even if no renewal succeeds. Ask before a step that must not
    /// be interrupted halfway. No I/O.
    ///
    /// # Errors
    ///
    /// [`Error::EndsSoon`] if less is left, [`Error::Lost`] if nothing is.
    pub fn ensure(&self, min: Duration) -> Result<(), Error> {
        self.lease().ensure(min)
    }

    /// How long the lock is held for if no renewal succeeds; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        self.lease().remaining()
    }

    /// Where the lease stands.
    pub fn state(&self) -> LeaseState {
        self.lease().state()
    }

    /// Asks a quorum of masters whether the lock is still ours: one round trip. [`check`](LockGuard::check) does not
    /// need it to be right; this finds earlier what a clock cannot tell, such as a forced release.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if a majority says no, [`Error::NoQuorum`] if too few answer.
    pub fn verify(&self) -> Result<(), Error> {
        self.lease().verify()
    }

    /// Prolongs the lease, by one round to a quorum, so that it lasts for at least `ttl` from this call on. Never
    /// shortens it.
    ///
    /// The masters are asked for a little more, so that the promise holds while their clocks run faster than ours: 1 %
    /// and 2 ms with the default drift bound. That and the lock-delay count against `max_lease`, so the longest
    /// extension is a little shorter: 59.398 s with the default `max_lease` of 60 s.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if too few masters agree (the lease goes on as it was), [`Error::Lost`] if it is over,
    /// [`Error::Config`] for a ttl below 100 ms or above the longest extension, which it names. [`Error::EndsSoon`] if
    /// [`max_hold`](crate::Options::max_hold) ends the lock before; it is extended until then.
    pub fn extend(&self, ttl: Duration) -> Result<(), Error> {
        let lease = self.lease();
        let asked = check_extension(ttl, &lease.masters().settings, &lease.terms)?;
        if lease.masters().is_forked() {
            return lease.check();
        }
        let wanted = clock::now().plus(ttl);
        lease.extend(asked)?;
        // Cut short by `max_hold`, or lost since.
        if lease.until() < wanted { lease.ensure(ttl) } else { Ok(()) }
    }

    /// The fencing token of this lease: a number above that of every earlier holder that asked for one. Hand it to the
    /// resource with every write, and have the resource refuse lower ones: `UPDATE ... WHERE fence <= ?`.
    ///
    /// The first call asks the masters, by one round trip, or two if their counters disagree; later calls return the
    /// same number. With [`Options::fenced`](crate::Options::fenced) the first round trip is saved too. It is below
    /// 2^53, and so exact in SQL, JSON and Lua. The adopter of a detached lease gets a higher one.
    ///
    /// Tokens go on rising after masters have lost their counters if the masters' clocks are no further apart than
    /// `max_lease`; with one master and no quarantine, if its clock is not stepped back.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if too few masters answer (the lock is not lost by it; ask again), [`Error::Lost`].
    pub fn fencing_token(&self) -> Result<u64, Error> {
        fence::token(self.lease())
    }

    /// A channel that gets one message when the lock is lost, and is disconnected when it is released. Made for
    /// `crossbeam_channel::select!`.
    ///
    /// The message is due `max(20 ms, ttl / 100)` before the deadline, also if every master hangs, and at once if a
    /// majority says that another owner holds the lock. No thread is sure to be scheduled in time, so ask
    /// [`check`](LockGuard::check) before what cannot be undone.
    pub fn lost(&self) -> &Receiver<Lost> {
        self.hold().lost_signal()
    }

    /// Calls `callback` on a thread of the client when the lock is lost; at once if it is already. Not called after a
    /// release. A panic in it is caught and logged.
    ///
    /// Up to 16 callbacks of a client run at once, each on a stack of the standard size; more wait, in the order in
    /// which the locks were lost. So one that takes long delays none, and sixteen that never end delay all. None is
    /// left out. A callback that is not called is dropped by the thread that drops or releases the guard.
    pub fn on_lost(&self, callback: impl FnOnce(Lost) + Send + 'static) {
        self.hold().on_lost(Box::new(callback));
    }

    /// Votes beyond the quorum in the last good round, late ones included: how many masters may lose the key before the
    /// next renewal without endangering the lock.
    pub fn margin(&self) -> usize {
        self.lease().margin()
    }

    /// Releases the lock, and waits for a quorum to confirm it, for at most the
    /// [round timeout](crate::ClientBuilder::round_timeout).
    pub fn release(mut self) -> ReleaseOutcome {
        match self.hold.take() {
            Some(hold) => {
                let released = hold.release();
                if let ReleaseOutcome::AlreadyLost(Lost { reason: LossReason::Forked, .. }) = released {
                    std::mem::forget(hold);
                }
                released
            }
            None => unreachable!("a guard without a lease"),
        }
    }

    /// Gives the lock up without releasing it, for another process of this machine to [`adopt`](crate::Client::adopt)
    /// before the lease ends. Waits for a renewal that is under way, for at most a sixth of the ttl, or the [round
    /// timeout](crate::ClientBuilder::round_timeout) where one is set.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if there is nothing left to hand over.
    pub fn detach(mut self) -> Result<DetachedLease, Error> {
        match self.hold.take() {
            Some(hold) => {
                let detached = DetachedLease::of(&hold);
                if detached.is_err() {
                    leave(hold);
                }
                detached
            }
            None => unreachable!("a guard without a lease"),
        }
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if let Some(hold) = self.hold.take() {
            leave(hold);
        }
    }
}

/// Lets go of a lock and of what its guard shared. In a forked child even that would touch mutexes that another thread
/// of the parent may have held, so it is forgotten there.
fn leave(hold: Arc<Hold>) {
    if !hold.let_go() {
        std::mem::forget(hold);
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name())
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
