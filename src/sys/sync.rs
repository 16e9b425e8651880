//! Mutexes, condition variables and atomics, and waiting for something to become true.
//!
//! All that threads share is built from here, from `sys::thread` and from `sys::channel`, so that `tests/threads` can
//! put a scheduler that it controls in their place. The order in which mutexes are locked is in `sys::rank`.
//!
//! They are the standard library's: parking_lot keeps all waiting threads of a process in one table, and a fork while
//! another thread is changing it leaves a child in which any mutex may block for ever.

pub(crate) use super::rank::Rank;
use std::fmt;
use std::ops::{Deref, DerefMut};
pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

/// A mutex that a panic does not poison: what it protects is left whole between statements.
pub(crate) struct Mutex<T> {
    #[cfg(debug_assertions)]
    rank: Rank,
    inner: std::sync::Mutex<T>,
}

/// A locked mutex.
pub(crate) struct MutexGuard<'a, T> {
    // Dropped in this order: unlocked, then taken from the stack.
    inner: std::sync::MutexGuard<'a, T>,
    #[cfg(debug_assertions)]
    _held: held::Held,
}

impl<T> Mutex<T> {
    /// A mutex of this rank.
    pub(crate) const fn new(rank: Rank, value: T) -> Mutex<T> {
        #[cfg(not(debug_assertions))]
        let _ = rank;
        Mutex {
            #[cfg(debug_assertions)]
            rank,
            inner: std::sync::Mutex::new(value),
        }
    }

    /// Locks it; in a debug build, panics where the thread holds a mutex of the same or a higher rank.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        held::check(self.rank, false);
        self.locked(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks it beside others of the same rank; see `sys::rank` for who may.
    #[inline]
    pub(crate) fn lock_among(&self) -> MutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        held::check(self.rank, true);
        self.locked(self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks it if nobody else has.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(guard) => Some(self.locked(guard)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.locked(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    #[inline]
    fn locked<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            inner,
            #[cfg(debug_assertions)]
            _held: held::Held::new(self.rank),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// Asserts, in a debug build, that the calling thread has no mutex locked: code of the user's is about to run.
#[inline]
pub(crate) fn none_held() {
    #[cfg(debug_assertions)]
    held::check_none();
}

/// The ranks of the mutexes that each thread holds.
#[cfg(debug_assertions)]
mod held {
    use super::Rank;
    use std::cell::RefCell;

    thread_local! {
        static RANKS: RefCell<Vec<Rank>> = const { RefCell::new(Vec::new()) };
    }

    /// A locked mutex of this rank.
    pub(super) struct Held(Rank);

    impl Held {
        pub(super) fn new(rank: Rank) -> Held {
            // At the end of a thread its stack may have been freed already.
            let _ = RANKS.try_with(|ranks| ranks.borrow_mut().push(rank));
            Held(rank)
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let _ = RANKS.try_with(|ranks| {
                let mut ranks = ranks.borrow_mut();
                if let Some(place) = ranks.iter().rposition(|rank| *rank == self.0) {
                    ranks.remove(place);
                }
            });
        }
    }

    fn highest() -> Option<Rank> {
        RANKS.try_with(|ranks| ranks.borrow().iter().max().copied()).ok().flatten()
    }

    pub(super) fn check(rank: Rank, among: bool) {
        if let Some(highest) = highest() {
            let right = rank > highest || among && rank == highest;
            assert!(right || std::thread::panicking(), "{rank:?} is locked while {highest:?} is held (sys/rank.rs)");
        }
    }

    pub(super) fn check_none() {
        let highest = highest();
        assert!(
            highest.is_none() || std::thread::panicking(),
            "code of the user's runs while {highest:?} is held (sys/rank.rs)"
        );
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Condvar {
        Condvar(std::sync::Condvar::new())
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Waits for at most `limit`; may return early. The guard counts as held meanwhile.
    pub(crate) fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        MutexGuard {
            inner: self.0.wait_timeout(guard.inner, limit).unwrap_or_else(PoisonError::into_inner).0,
            #[cfg(debug_assertions)]
            _held: guard._held,
        }
    }
}

/// Waiting for something to become true, until notified by a thread that may have changed it.
pub(crate) struct Pulse {
    beats: Mutex<u64>,
    beat: Condvar,
}

impl Default for Pulse {
    fn default() -> Pulse {
        Pulse { beats: Mutex::new(Rank::Pulse, 0), beat: Condvar::new() }
    }
}

impl Pulse {
    /// Something may have changed.
    pub(crate) fn notify(&self) {
        *self.beats.lock() += 1;
        self.beat.notify_all();
    }

    /// Waits until `happened`, or until `deadline`; whether it has happened.
    pub(crate) fn wait_until(&self, deadline: crate::protocol::time::Mono, happened: impl Fn() -> bool) -> bool {
        loop {
            let before = *self.beats.lock();
            if happened() {
                return true;
            }
            let left = deadline.since(super::clock::now());
            if left.is_zero() {
                return false;
            }
            let beats = self.beats.lock();
            if *beats == before {
                // A condition variable's clock may stand still during a suspend, so look again now and then.
                drop(self.beat.wait_for(beats, left.min(Duration::from_secs(1))));
            }
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::{Mutex, Rank, none_held};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn panics(act: impl FnOnce()) -> bool {
        catch_unwind(AssertUnwindSafe(act)).is_err()
    }

    fn pair() -> (Mutex<()>, Mutex<()>) {
        (Mutex::new(Rank::Gate, ()), Mutex::new(Rank::Timer, ()))
    }

    #[test]
    fn the_wrong_order_of_locks_panics() {
        let (gate, timer) = pair();
        let outer = gate.lock();
        drop(timer.lock());
        drop(outer);
        let outer = timer.lock();
        assert!(panics(|| drop(gate.lock())), "the gate is above a timer");
        assert!(gate.try_lock().is_some(), "what waits for nobody may be tried in any order");
        drop(outer);
        drop(gate.lock());
    }

    #[test]
    fn two_of_one_rank_are_locked_by_lock_among_only() {
        let (one, other) = (Mutex::new(Rank::Gate, ()), Mutex::new(Rank::Gate, ()));
        let first = one.lock_among();
        assert!(panics(|| drop(other.lock())));
        let second = other.lock_among();
        // In any order, as the guards of a batch are dropped.
        drop(first);
        assert!(panics(|| drop(one.lock())), "the other is still held");
        drop(second);
        drop(one.lock());
    }

    #[test]
    fn code_of_the_users_does_not_run_under_a_mutex() {
        let (gate, _) = pair();
        none_held();
        let held = gate.lock();
        assert!(panics(none_held));
        drop(held);
        let tried = gate.try_lock();
        assert!(tried.is_some() && panics(none_held), "a mutex that was tried is held as well");
        drop(tried);
        none_held();
    }
}
