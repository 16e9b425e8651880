//! The watchdog threads: one per held lease, begun when its first renewal is due, used again for other leases.

use super::held::Held;
use crate::protocol::Reason;
use crate::sys::channel::{Receiver, Sender, next_unless_stopped, unbounded};
use crate::sys::sync::Mutex;
use crate::sys::thread::Threads;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How many threads without a lease are kept.
const IDLE: usize = 64;
/// How many threads a client has at most; the leases beyond are renewed together. A thread takes four of the kernel's memory
/// mappings, of which a process has 65 530 unless told otherwise; a thread that finds none left when it begins aborts the
/// process, which nobody can catch.
const MOST: usize = 4_096;

/// The sending end of a thread's work. It travels with each job, so that a thread whose sender nobody keeps ends.
type Worker = Sender<Job>;

/// A renewal to do.
pub(crate) struct Job {
    held: Arc<Held>,
    worker: Option<Worker>,
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
    /// The thread renews now.
    Renewing,
    /// The lease is over.
    Retired,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Worker>,
    /// Threads that have been started and have not ended.
    live: usize,
    /// The thread that stands in where none can be started.
    shared: Option<Worker>,
    /// Dropped to end the threads.
    running: Option<Sender<()>>,
    stopped: Option<Receiver<()>>,
}

/// The watchdog threads of a client.
#[derive(Default, Clone)]
pub(crate) struct Watchdogs(Arc<Mutex<Pool>>);

impl Watchdogs {
    /// Starts the thread that stands in for those that cannot be started later.
    pub(crate) fn start(&self, threads: &Arc<Threads>) -> io::Result<()> {
        let (running, stopped) = unbounded();
        {
            let mut pool = self.0.lock();
            pool.running = Some(running);
            pool.stopped = Some(stopped);
        }
        let shared = self.spawn(threads, "standby")?;
        self.0.lock().shared = Some(shared);
        Ok(())
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        let mut pool = self.0.lock();
        let ended = (pool.running.take(), std::mem::take(&mut pool.idle), pool.shared.take());
        drop(pool);
        drop(ended);
    }

    fn spawn(&self, threads: &Arc<Threads>, role: &str) -> io::Result<Worker> {
        let (sender, jobs) = unbounded::<Job>();
        let stopped = {
            let mut pool = self.0.lock();
            pool.live += 1;
            pool.stopped.clone()
        };
        let dogs = self.clone();
        let work = move || {
            dogs.work(&jobs, stopped.as_ref());
            dogs.0.lock().live -= 1;
        };
        threads.spawn(role, work).inspect_err(|_| self.0.lock().live -= 1)?;
        Ok(sender)
    }

    /// Whether the lease has a thread, or may have one.
    pub(crate) fn has_room(&self, held: &Held) -> bool {
        if !matches!(*held.seat.0.lock(), Taken::Empty) {
            return true;
        }
        let pool = self.0.lock();
        !pool.idle.is_empty() || pool.live < MOST
    }

    fn work(&self, jobs: &Receiver<Job>, stopped: Option<&Receiver<()>>) {
        while let Some(Job { held, worker }) = next_unless_stopped(jobs, stopped) {
            renew(&held);
            if crate::planted::on("watchdog_dies") {
                return;
            }
            if let Some(worker) = worker {
                let mut seat = held.seat.0.lock();
                if let Taken::Retired = *seat {
                    drop(seat);
                    self.keep(worker);
                } else {
                    *seat = Taken::Waiting(worker);
                }
            }
        }
    }

    /// Has the lease renewed by its thread; called with its gate closed, so it must not block.
    pub(crate) fn renew(&self, threads: &Arc<Threads>, held: &Arc<Held>) {
        let mut seat = held.seat.0.lock();
        let worker = match std::mem::take(&mut *seat) {
            Taken::Waiting(worker) => Some(worker),
            Taken::Empty => self.hire(threads),
            // The renewal under way plans the next one.
            busy => {
                *seat = busy;
                return;
            }
        };
        if let Some(worker) = worker
            && worker.send(Job { held: held.clone(), worker: Some(worker.clone()) }).is_ok()
        {
            *seat = Taken::Renewing;
            return;
        }
        drop(seat);
        let shared = self.0.lock().shared.clone();
        if shared.is_none_or(|s| s.send(Job { held: held.clone(), worker: None }).is_err()) {
            log::error!("lock {:?}: there is no watchdog thread; the lease will end", held.keys.name);
        }
    }

    fn hire(&self, threads: &Arc<Threads>) -> Option<Worker> {
        if let Some(worker) = self.0.lock().idle.pop() {
            return Some(worker);
        }
        self.spawn(threads, "watchdog")
            .inspect_err(|e| log::warn!("no thread for a watchdog: {e}; the shared one renews"))
            .ok()
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
    let renewed = catch_unwind(AssertUnwindSafe(|| held.extend(held.ttl())));
    match renewed {
        Ok(Ok(())) => log::trace!("lock {:?}: renewed", held.keys.name),
        Ok(Err(e)) => log::debug!("lock {:?}: {e}", held.keys.name),
        Err(_) => held.lose(Reason::WatchdogPanic),
    }
}
