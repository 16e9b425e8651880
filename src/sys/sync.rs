//! Mutexes, atomics and parking: the real ones, or shuttle's under `--cfg redleash_shuttle`, where `tests/handover.rs`
//! runs the hand-over of the lane's lead through thousands of schedules.

pub(crate) use parking_lot::{Condvar, Mutex};

/// What `wire::seat` is built from.
pub(crate) mod seat {
    #[cfg(not(redleash_shuttle))]
    pub(crate) use std::sync::atomic::{AtomicU8, Ordering};
    #[cfg(not(redleash_shuttle))]
    pub(crate) use std::thread::{Thread, current};

    #[cfg(not(redleash_shuttle))]
    pub(crate) use parking_lot::Mutex;

    #[cfg(redleash_shuttle)]
    pub(crate) use shuttle::sync::atomic::{AtomicU8, Ordering};
    #[cfg(redleash_shuttle)]
    pub(crate) use shuttle::thread::{Thread, current};

    /// shuttle's mutex with parking_lot's face.
    #[cfg(redleash_shuttle)]
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    #[cfg(redleash_shuttle)]
    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
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
    pub(crate) fn wait_until(&self, deadline: crate::protocol::Mono, happened: impl Fn() -> bool) -> bool {
        loop {
            let before = *self.beats.lock();
            if happened() {
                return true;
            }
            let left = deadline.since(super::clock::now());
            if left.is_zero() {
                return false;
            }
            let mut beats = self.beats.lock();
            if *beats == before {
                // A condition variable's clock may stand still during a suspend, so look again now and then.
                self.beat.wait_for(&mut beats, left.min(std::time::Duration::from_secs(1)));
            }
        }
    }
}
