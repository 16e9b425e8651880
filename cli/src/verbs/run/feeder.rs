//! A thread that sends each new end of the lease to the supervisor. It prints nothing, so that no reader of the output
//! can hold it up.

use super::supervised::Orders;
use crate::link::Order;
use crate::system::clock::Moment;
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
/// The clock is read before the guard, so the result is never too late.
pub(crate) fn until(guard: &LockGuard) -> Option<Moment> {
    let now = Moment::now();
    let left = guard.remaining();
    (!left.is_zero()).then(|| now.plus(left))
}

impl Feeder {
    /// `sent` is the end of the lease that the supervisor knows already.
    pub(crate) fn start(
        guard: &Arc<LockGuard>,
        orders: &Arc<Orders>,
        ttl: Duration,
        sent: Moment,
    ) -> io::Result<Feeder> {
        let (stop, stopped) = bounded(0);
        let (guard, orders) = (guard.clone(), orders.clone());
        let interval = (ttl / 20).clamp(Duration::from_millis(10), Duration::from_millis(500));
        let feed = move || {
            let mut sent = sent;
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if let Some(until) = until(&guard).filter(|until| *until > sent.plus(Duration::from_millis(1))) {
                    orders.send(&Order::Until(until));
                    sent = until;
                }
            }
        };
        let thread = std::thread::Builder::new().name("redleash-feeder".into()).spawn(feed)?;
        Ok(Feeder { stop, thread })
    }

    /// Ends the thread, so that it does not keep the guard any more.
    pub(crate) fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}
