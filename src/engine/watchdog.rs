//! The watchdog threads: one per held lease, begun when its first renewal is due, used again for other leases.

use super::lease::Lease;
use super::shared::SharedWatchdog;
use super::worker::{Job, Worker, WorkerSlot};
use crate::protocol::LossReason;
use crate::sys::channel::{Receiver, Sender, next_unless_stopped, unbounded};
use crate::sys::journal;
use crate::sys::sync::{Mutex, Rank};
use crate::sys::thread::{Threads, survives};
use std::io;
use std::sync::Arc;

/// How many threads without a lease are kept.
const IDLE_THREADS: usize = 64;

#[derive(Default)]
struct Pool {
    /// The largest number of threads.
    most: usize,
    idle: Vec<Worker<Lease>>,
    /// Threads that have been started, or are about to be, and have not ended.
    live: usize,
    /// The thread that starts the others, and renews where none can be started.
    standby: Option<Worker<Lease>>,
    /// Dropped to end the threads.
    running: Option<Sender<()>>,
    stopped: Option<Receiver<()>>,
}

/// The watchdog threads of a client: one per lock, up to a number, and the shared one for those beyond.
#[derive(Clone)]
pub(crate) struct Watchdogs {
    pool: Arc<Mutex<Pool>>,
    shared: Arc<SharedWatchdog>,
}

/// Gives back a thread's place in the count, also if it was not started or panics.
struct Live(Watchdogs);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.pool.lock().live -= 1;
    }
}

impl Watchdogs {
    /// At most so many threads.
    pub(crate) fn new(most: usize) -> Watchdogs {
        Watchdogs {
            pool: Arc::new(Mutex::new(Rank::Watchdogs, Pool { most, ..Pool::default() })),
            shared: Arc::default(),
        }
    }

    /// Starts the thread that starts the others when their leases need them.
    pub(crate) fn start(&self, threads: &Arc<Threads>) -> io::Result<()> {
        let (running, stopped) = unbounded();
        let (standby, jobs) = unbounded();
        {
            let mut pool = self.pool.lock();
            pool.running = Some(running);
            pool.stopped = Some(stopped.clone());
            pool.standby = Some(standby);
        }
        let (dogs, starter) = (self.clone(), threads.clone());
        threads.spawn("standby", move || {
            while let Some(job) = next_unless_stopped(&jobs, Some(&stopped)) {
                let (Job::Renew(lease, _) | Job::Hire(lease) | Job::StandIn(lease)) = &job;
                let lease = lease.clone();
                if !survives(|| dogs.stand_by(&starter, job)) {
                    lease.lose(LossReason::WatchdogPanic);
                }
            }
        })
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        let mut pool = self.pool.lock();
        let ended = (pool.running.take(), std::mem::take(&mut pool.idle), pool.standby.take());
        drop(pool);
        drop(ended);
        self.shared.stop();
    }

    /// Has the lease renewed: by its own thread if it has one or may have one, else together with others. False if it
    /// cannot be now, because its thread is still busy with the renewal before. Called with the gate closed, on the
    /// timer's thread, so it must not block nor start a thread.
    pub(crate) fn renew(&self, lease: &Arc<Lease>, slot: &mut WorkerSlot<Lease>) -> bool {
        let together = !self.has_room(slot) && self.shared.offer(lease);
        together || self.renew_alone(lease, slot)
    }

    fn has_room(&self, slot: &WorkerSlot<Lease>) -> bool {
        if !matches!(slot, WorkerSlot::Empty) {
            return true;
        }
        let pool = self.pool.lock();
        !pool.idle.is_empty() || pool.live < pool.most
    }

    fn renew_alone(&self, lease: &Arc<Lease>, slot: &mut WorkerSlot<Lease>) -> bool {
        let mut worker = match slot {
            WorkerSlot::Waiting(worker) => Some(worker.clone()),
            WorkerSlot::Empty => None,
            WorkerSlot::Renewing | WorkerSlot::Retired => return false,
        };
        let mut pool = self.pool.lock();
        worker = worker.or_else(|| pool.idle.pop());
        let (to, job) = match worker {
            Some(worker) => (Some(worker.clone()), Job::Renew(lease.clone(), worker)),
            None if pool.live < pool.most => {
                pool.live += 1;
                (pool.standby.clone(), Job::Hire(lease.clone()))
            }
            None => (pool.standby.clone(), Job::StandIn(lease.clone())),
        };
        drop(pool);
        // Without a standby thread the client is closed, which loses the lease aloud.
        let sent = to.is_some_and(|to| to.send(job).is_ok());
        *slot = if sent { WorkerSlot::Renewing } else { WorkerSlot::Empty };
        sent
    }

    /// One job of the standby thread.
    fn stand_by(&self, threads: &Arc<Threads>, job: Job<Lease>) {
        let lease = match job {
            Job::Hire(lease) => match self.hire(threads) {
                Ok(worker) => {
                    // The thread lives for as long as a sender does, and takes what it is sent.
                    let _ = worker.send(Job::Renew(lease, worker.clone()));
                    return;
                }
                Err(e) => {
                    journal::warn!("no thread for a watchdog, so the lease is renewed together with others: {e}");
                    lease
                }
            },
            Job::Renew(lease, _) | Job::StandIn(lease) => lease,
        };
        if !self.shared.renew(&lease) {
            renew(&lease);
        }
        lease.renewed_by_standby();
    }

    /// Starts a thread, which was counted before.
    fn hire(&self, threads: &Arc<Threads>) -> io::Result<Worker<Lease>> {
        let live = Live(self.clone());
        let (sender, jobs) = unbounded::<Job<Lease>>();
        let stopped = self.pool.lock().stopped.clone();
        threads.spawn("watchdog", move || {
            live.0.work(&jobs, stopped.as_ref());
            drop(live);
        })?;
        Ok(sender)
    }

    fn work(&self, jobs: &Receiver<Job<Lease>>, stopped: Option<&Receiver<()>>) {
        while let Some(Job::Renew(lease, worker)) = next_unless_stopped(jobs, stopped) {
            renew(&lease);
            if let Some(worker) = lease.renewed_by(worker) {
                self.keep(worker);
            }
        }
    }

    /// A thread whose lease is over may serve another one.
    pub(crate) fn keep(&self, worker: Worker<Lease>) {
        let mut pool = self.pool.lock();
        if pool.running.is_some() && pool.idle.len() < IDLE_THREADS {
            pool.idle.push(worker);
        }
    }
}

/// One renewal. Errors do not end the watchdog: the lease plans the next try. A panic loses the lease, at once and
/// aloud.
fn renew(lease: &Lease) {
    // What it came to is logged where the lease is known: an error here may only mean that the lock was released.
    if survives(|| drop(lease.renew())) {
        journal::trace!("lock {:?}: a renewal has ended", lease.keys.name);
    } else {
        lease.lose(LossReason::WatchdogPanic);
    }
}
