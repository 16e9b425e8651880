//! A thread that tells the supervisor of every renewal; nothing that this process prints can hold it up.

use crate::clock::Moment;
use crate::link::Order;
use crate::supervised::Orders;
use redleash::LockGuard;
use redleash::crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// See the module.
pub(crate) struct Feeder {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// The end of the lease as the guard knows it; `None` if it is over.
///
/// The clock is read first, so the result is never later than the truth.
pub(crate) fn until(guard: &LockGuard) -> Option<Moment> {
    let now = Moment::now();
    let left = guard.remaining();
    (!left.is_zero()).then(|| now.plus(left))
}

impl Feeder {
    pub(crate) fn start(
        guard: &Arc<LockGuard>,
        orders: &Arc<Orders>,
        ttl: Duration,
        told: Moment,
    ) -> io::Result<Feeder> {
        let (stop, stopped) = bounded(0);
        let (guard, orders) = (guard.clone(), orders.clone());
        let look = (ttl / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let feed = move || {
            let mut told = told;
            while stopped.recv_timeout(look) == Err(RecvTimeoutError::Timeout) {
                if let Some(until) = until(&guard).filter(|until| *until > told.plus(Duration::from_millis(1))) {
                    orders.send(&Order::Until(until));
                    told = until;
                }
            }
        };
        let thread = std::thread::Builder::new().name("redleash-feeder".into()).spawn(feed)?;
        Ok(Feeder { stop, thread })
    }

    /// Ends the thread, which lets go of the guard.
    pub(crate) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}
