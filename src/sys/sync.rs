//! Mutexes, and waiting for something to become true.

pub(crate) use parking_lot::{Condvar, Mutex};

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
            let mut beats = self.beats.lock();
            if *beats == before {
                // A condition variable's clock may stand still during a suspend, so look again now and then.
                self.beat.wait_for(&mut beats, left.min(std::time::Duration::from_secs(1)));
            }
        }
    }
}
