//! Mutexes, condition variables and atomics, and waiting for something to become true.
//!
//! All that threads share is built from here, from `sys::thread` and from `sys::channel`, so that `tests/threads` can put
//! a scheduler that it controls in their place.
//!
//! They are the standard library's: parking_lot keeps all waiting threads of a process in one table, and a fork while
//! another thread is changing it leaves a child in which any mutex may block for ever.

pub(crate) use std::sync::OnceLock;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A mutex that a panic does not poison: what it protects is left whole between statements.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
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

    /// Waits for at most `limit`; may return early.
    pub(crate) fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> MutexGuard<'a, T> {
        self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Waiting for something to become true, told by whoever may have changed it.
#[derive(Default)]
pub(crate) struct Pulse {
    beats: Mutex<u64>,
    beat: Condvar,
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
