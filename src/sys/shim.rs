//! What `wire::seat` is built from: the real parts, or shuttle's under `--cfg redleash_shuttle`, where `tests/handover.rs`
//! runs the hand-over of the lead through thousands of schedules. This file imports nothing of the crate, so that the
//! test can include it.

#[cfg(not(redleash_shuttle))]
pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
#[cfg(not(redleash_shuttle))]
use std::sync::{Mutex as Inner, MutexGuard};
#[cfg(not(redleash_shuttle))]
pub(crate) use std::thread::{Thread, current};

#[cfg(redleash_shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU8, Ordering};
#[cfg(redleash_shuttle)]
use shuttle::sync::{Mutex as Inner, MutexGuard};
#[cfg(redleash_shuttle)]
pub(crate) use shuttle::thread::{Thread, current};

/// A mutex that a panic does not poison.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(Inner<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(Inner::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
