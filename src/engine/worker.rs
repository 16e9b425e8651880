//! Which watchdog thread renews a lease, and how a renewal travels to it.

use crate::sys::channel::Sender;
use std::sync::Arc;

/// The sending end of a watchdog thread's work. It travels with each job: a thread ends when the last one is dropped.
pub(crate) type Worker<L> = Sender<Job<L>>;

/// A renewal of the lease `L` to do.
pub(crate) enum Job<L> {
    /// By this thread, whose sender comes with it.
    Renew(Arc<L>, Sender<Job<L>>),
    /// By a thread that is to be started for it.
    Hire(Arc<L>),
    /// By the standby thread itself.
    StandIn(Arc<L>),
}

/// Whose thread renews a lease.
pub(crate) enum WorkerSlot<L> {
    /// No renewal has been due yet.
    Empty,
    /// The thread waits for the next renewal.
    Waiting(Worker<L>),
    /// The thread renews now, or is being started.
    Renewing,
    /// The lease is over.
    Retired,
}

impl<L> WorkerSlot<L> {
    /// The thread `worker` is done with a renewal: it waits for the next one, or comes back if the lease is over.
    pub(crate) fn done(&mut self, worker: Worker<L>) -> Option<Worker<L>> {
        if let WorkerSlot::Retired = self {
            return Some(worker);
        }
        *self = WorkerSlot::Waiting(worker);
        None
    }

    /// The lease is over; its thread, if it waits.
    pub(crate) fn retire(&mut self) -> Option<Worker<L>> {
        match std::mem::replace(self, WorkerSlot::Retired) {
            WorkerSlot::Waiting(worker) => Some(worker),
            WorkerSlot::Empty | WorkerSlot::Renewing | WorkerSlot::Retired => None,
        }
    }
}
