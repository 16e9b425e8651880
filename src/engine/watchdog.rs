//! The watchdog threads: one per held lease, begun when its first renewal is due, used again for other leases.

use super::held::Held;
use crate::protocol::LossReason;
use crate::sys::channel::{Receiver, Sender, next_unless_stopped, unbounded};
use crate::sys::journal;
use crate::sys::sync::Mutex;
use crate::sys::thread::{Threads, survives};
use std::io;
use std::sync::Arc;

/// How many threads without a lease are kept.
const IDLE: usize = 64;

/// The sending end of a thread's work. It travels with each job, so that a thread whose sender nobody keeps ends.
type Worker = Sender<Job>;

/// A renewal to do.
pub(crate) enum Job {
    /// By this thread, whose sender comes with it.
    Renew(Arc<Held>, Worker),
    /// By a thread that is to be started for it.
    Hire(Arc<Held>),
    /// By the standby thread itself.
    StandIn(Arc<Held>),
}

/// Whose thread renews a lease.
#[derive(Default)]
pub(crate) struct Seat(Mutex<Taken>);

#[derive(Default)]
enum Taken {
    /// No renewal has been due yet.
    #[default]
    Empty,
    /// The thread waits for the next renewal.
    Waiting(Worker),
    /// The thread renews now, or is being started.
    Renewing,
    /// The lease is over.
    Retired,
}

#[derive(Default)]
struct Pool {
    /// The largest number of threads.
    most: usize,
    idle: Vec<Worker>,
    /// Threads that have been started, or are about to be, and have not ended.
    live: usize,
    /// The thread that starts the others, and renews where none can be started.
    standby: Option<Worker>,
    /// Dropped to end the threads.
    running: Option<Sender<()>>,
    stopped: Option<Receiver<()>>,
}

/// The watchdog threads of a client.
#[derive(Default, Clone)]
pub(crate) struct Watchdogs(Arc<Mutex<Pool>>);

/// Gives back a thread's place in the count, also if it was not started or panics.
struct Live(Watchdogs);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.0.lock().live -= 1;
    }
}

impl Watchdogs {
    /// At most so many threads.
    pub(crate) fn new(most: usize) -> Watchdogs {
        Watchdogs(Arc::new(Mutex::new(Pool { most, ..Pool::default() })))
    }

    /// Starts the thread that starts the others when their leases need them.
    pub(crate) fn start(&self, threads: &Arc<Threads>) -> io::Result<()> {
        let (running, stopped) = unbounded();
        let (standby, jobs) = unbounded();
        {
            let mut pool = self.0.lock();
            pool.running = Some(running);
            pool.stopped = Some(stopped.clone());
            pool.standby = Some(standby);
        }
        let (dogs, starter) = (self.clone(), threads.clone());
        threads.spawn("standby", move || {
            while let Some(job) = next_unless_stopped(&jobs, Some(&stopped)) {
                let (Job::Renew(held, _) | Job::Hire(held) | Job::StandIn(held)) = &job;
                let held = held.clone();
                if !survives(|| dogs.stand_by(&starter, job)) {
                    held.lose(LossReason::WatchdogPanic);
                }
            }
        })
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        let mut pool = self.0.lock();
        let ended = (pool.running.take(), std::mem::take(&mut pool.idle), pool.standby.take());
        drop(pool);
        drop(ended);
    }

    /// Whether the lease has a thread, or may have one.
    pub(crate) fn has_room(&self, held: &Held) -> bool {
        if !matches!(*held.seat.0.lock(), Taken::Empty) {
            return true;
        }
        let pool = self.0.lock();
        !pool.idle.is_empty() || pool.live < pool.most
    }

    /// Has the lease renewed by its thread; false if that is still busy with the renewal before. Called with the gate closed, on the
    /// timer's thread, so it must not block nor start a thread.
    pub(crate) fn renew(&self, held: &Arc<Held>) -> bool {
        let mut seat = held.seat.0.lock();
        let mut worker = match std::mem::take(&mut *seat) {
            Taken::Waiting(worker) => Some(worker),
            Taken::Empty => None,
            busy => {
                *seat = busy;
                return false;
            }
        };
        let mut pool = self.0.lock();
        worker = worker.or_else(|| pool.idle.pop());
        let (to, job) = match worker {
            Some(worker) => (Some(worker.clone()), Job::Renew(held.clone(), worker)),
            None if pool.live < pool.most => {
                pool.live += 1;
                (pool.standby.clone(), Job::Hire(held.clone()))
            }
            None => (pool.standby.clone(), Job::StandIn(held.clone())),
        };
        drop(pool);
        // Without a standby thread the client is closed, which loses the lease aloud.
        let sent = to.is_some_and(|to| to.send(job).is_ok());
        if sent {
            *seat = Taken::Renewing;
        }
        sent
    }

    /// One job of the standby thread.
    fn stand_by(&self, threads: &Arc<Threads>, job: Job) {
        let held = match job {
            Job::Hire(held) => match self.hire(threads) {
                Ok(worker) => {
                    // The thread lives for as long as a sender does, and takes what it is sent.
                    let _ = worker.send(Job::Renew(held, worker.clone()));
                    return;
                }
                Err(e) => {
                    journal::warn!("no thread for a watchdog, so the lease is renewed together with others: {e}");
                    held
                }
            },
            Job::Renew(held, _) | Job::StandIn(held) => held,
        };
        if !held.renew_together() {
            renew(&held);
        }
        let mut seat = held.seat.0.lock();
        if let Taken::Renewing = *seat {
            *seat = Taken::Empty;
        }
    }

    /// Starts a thread, which was counted before.
    fn hire(&self, threads: &Arc<Threads>) -> io::Result<Worker> {
        let live = Live(self.clone());
        let (sender, jobs) = unbounded::<Job>();
        let stopped = self.0.lock().stopped.clone();
        threads.spawn("watchdog", move || {
            live.0.work(&jobs, stopped.as_ref());
            drop(live);
        })?;
        Ok(sender)
    }

    fn work(&self, jobs: &Receiver<Job>, stopped: Option<&Receiver<()>>) {
        while let Some(Job::Renew(held, worker)) = next_unless_stopped(jobs, stopped) {
            renew(&held);
            let mut seat = held.seat.0.lock();
            if let Taken::Retired = *seat {
                drop(seat);
                self.keep(worker);
            } else {
                *seat = Taken::Waiting(worker);
            }
        }
    }

    /// The lease is over: its thread may serve another one.
    pub(crate) fn retire(&self, held: &Held) {
        let before = std::mem::replace(&mut *held.seat.0.lock(), Taken::Retired);
        if let Taken::Waiting(worker) = before {
            self.keep(worker);
        }
    }

    fn keep(&self, worker: Worker) {
        let mut pool = self.0.lock();
        if pool.running.is_some() && pool.idle.len() < IDLE {
            pool.idle.push(worker);
        }
    }
}

/// One renewal. Errors do not end the watchdog: the lease plans the next try. A panic loses the lease, at once and aloud.
fn renew(held: &Held) {
    // What it came to is logged where the lease is known: an error here may only mean that the lock was released.
    if survives(|| drop(held.renew())) {
        journal::trace!("lock {:?}: a renewal has ended", held.keys.name);
    } else {
        held.lose(LossReason::WatchdogPanic);
    }
}
