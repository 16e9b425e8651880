//! How a loss is announced to a guard: on a channel to select on, and by callbacks on threads of their own.

use super::error::Lost;
use crate::sys::channel::{Receiver, Sender, bounded};
use crate::sys::journal;
use crate::sys::sync::{Mutex, OnceLock, Rank, none_held};
use crate::sys::thread::{Threads, survives};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A callback of a user.
pub(crate) type Callback = Box<dyn FnOnce(Lost) + Send>;

/// Callbacks that are not called any more. Dropped where no mutex is locked: a user's closure may run any code when it
/// is dropped.
#[must_use]
pub(crate) struct Uncalled(#[expect(dead_code, reason = "kept to be dropped")] Vec<Callback>);

impl Drop for Uncalled {
    fn drop(&mut self) {
        none_held();
    }
}

/// The signal of one guard.
pub(crate) struct Signal {
    receiver: OnceLock<Receiver<Lost>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sender: Option<Sender<Lost>>,
    callbacks: Vec<Callback>,
    fired: Option<Lost>,
    over: bool,
}

impl Default for Signal {
    fn default() -> Signal {
        Signal { receiver: OnceLock::default(), state: Mutex::new(Rank::Signal, State::default()) }
    }
}

impl Signal {
    /// The receiver: one message when the lock is lost, disconnected when it is released. In a forked child it is lost
    /// already, and no mutex of the parent's is touched.
    pub(crate) fn receiver(&self, forked: Option<Lost>) -> &Receiver<Lost> {
        self.receiver.get_or_init(|| {
            let (sender, receiver) = bounded(1);
            if let Some(lost) = forked {
                let _ = sender.try_send(lost);
                return receiver;
            }
            let mut state = self.state.lock();
            if let Some(lost) = &state.fired {
                let _ = sender.try_send(lost.clone());
            }
            state.sender = (!state.over).then_some(sender);
            receiver
        })
    }

    /// Adds a callback. If it is too late for that the callback comes back, with the loss if there was one: to be
    /// called or dropped where no mutex is locked.
    pub(crate) fn on_lost(&self, callback: Callback) -> Option<(Callback, Option<Lost>)> {
        let mut state = self.state.lock();
        if state.fired.is_none() && !state.over {
            state.callbacks.push(callback);
            return None;
        }
        Some((callback, state.fired.clone()))
    }

    /// Announces the loss, once; the callbacks to run.
    pub(crate) fn fire(&self, lost: &Lost) -> Vec<Callback> {
        let mut state = self.state.lock();
        if state.fired.is_some() || state.over {
            return Vec::new();
        }
        state.fired = Some(lost.clone());
        if let Some(sender) = &state.sender {
            let _ = sender.try_send(lost.clone());
        }
        std::mem::take(&mut state.callbacks)
    }

    /// Ends the signal: the lock was released. The callbacks that are not called any more.
    pub(crate) fn end(&self) -> Uncalled {
        let mut state = self.state.lock();
        state.over = true;
        state.sender = None;
        Uncalled(std::mem::take(&mut state.callbacks))
    }
}

/// How many callbacks of a client run at once.
const MOST_THREADS: usize = 16;
/// Threads without work that are kept.
const IDLE_THREADS: usize = 2;

type Job = (Callback, Lost);

/// The threads that run users' callbacks. A callback that takes long delays no other one until as many do as there may
/// be threads; then they wait for one another, in the order in which they came. One thread is there from the start, so
/// that the callbacks are called also where no thread can be started any more.
pub(crate) struct Callbacks(Arc<Mutex<Pool>>);

#[derive(Default)]
struct Pool {
    idle: Vec<Sender<Job>>,
    /// What no thread is free for.
    waiting: VecDeque<Job>,
    /// Threads that run or are being started.
    live: usize,
    stopped: bool,
}

impl Default for Callbacks {
    fn default() -> Callbacks {
        Callbacks(Arc::new(Mutex::new(Rank::Callbacks, Pool::default())))
    }
}

impl Callbacks {
    /// Starts the thread that is always there.
    pub(crate) fn start(&self, threads: &Arc<Threads>) -> io::Result<()> {
        self.0.lock().live += 1;
        self.hire(threads)
    }

    /// Has `callback` called soon; a panic in it is caught and logged.
    pub(crate) fn call(&self, threads: &Arc<Threads>, callback: Callback, lost: Lost) {
        let mut job = (callback, lost);
        let hires = loop {
            let mut pool = self.0.lock();
            let Some(idle) = pool.idle.pop() else {
                // Before a thread is started: if none can be, another one takes it.
                pool.waiting.push_back(job);
                let hires = pool.live < MOST_THREADS;
                pool.live += usize::from(hires);
                break hires;
            };
            drop(pool);
            match idle.send(job) {
                Ok(()) => return,
                Err(e) => job = e.into_inner(),
            }
        };
        if hires && let Err(e) = self.hire(threads) {
            journal::warn!("no further thread for callbacks, so they are called one after the other: {e}");
        }
    }

    /// Starts a thread that has been counted.
    fn hire(&self, threads: &Arc<Threads>) -> io::Result<()> {
        let pool = self.0.clone();
        threads.spawn_deep("callbacks", move || work(&pool)).inspect_err(|_| self.0.lock().live -= 1)
    }

    /// Ends the threads after what they have been given.
    pub(crate) fn stop(&self) {
        let mut pool = self.0.lock();
        pool.stopped = true;
        let idle = std::mem::take(&mut pool.idle);
        drop(pool);
        drop(idle);
    }
}

fn work(pool: &Mutex<Pool>) {
    loop {
        let job = {
            let mut pool = pool.lock();
            if let Some(job) = pool.waiting.pop_front() {
                Ok(job)
            } else if pool.stopped || pool.idle.len() >= IDLE_THREADS {
                pool.live -= 1;
                return;
            } else {
                let (sender, receiver) = bounded(1);
                pool.idle.push(sender);
                Err(receiver)
            }
        };
        let Ok((callback, lost)) = job.or_else(|jobs| jobs.recv()) else { continue };
        none_held();
        if !survives(|| callback(lost)) {
            journal::error!("a callback for a lost lock panicked");
        }
    }
}
