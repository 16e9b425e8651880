//! Telling the holder that its lock is lost: a channel to select on, and callbacks on a thread of their own.

use super::error::Lost;
use crate::sys::channel::{Receiver, Sender, bounded};
use crate::sys::journal;
use crate::sys::sync::{Mutex, OnceLock};
use crate::sys::thread::Threads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A callback of a user.
pub(crate) type Callback = Box<dyn FnOnce(Lost) + Send>;

/// The signal of one lease.
#[derive(Default)]
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

    /// Adds a callback; the loss if it has happened already, together with the callback.
    pub(crate) fn on_lost(&self, callback: Callback) -> Option<(Callback, Lost)> {
        let mut state = self.state.lock();
        match (&state.fired, state.over) {
            (Some(lost), _) => Some((callback, lost.clone())),
            (None, true) => None,
            (None, false) => {
                state.callbacks.push(callback);
                None
            }
        }
    }

    /// Tells of the loss, once; the callbacks to run.
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

    /// Ends the signal: the lock was released.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        state.over = true;
        state.sender = None;
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        // A user's closure may run code when it is dropped.
        drop(callbacks);
    }
}

/// Threads without work that are kept.
const IDLE: usize = 2;

type Job = (Callback, Lost);

/// The threads that run users' callbacks, started when first needed: a callback that takes long delays no other one.
#[derive(Default)]
pub(crate) struct Callbacks(Arc<Mutex<Pool>>);

#[derive(Default)]
struct Pool {
    idle: Vec<Sender<Job>>,
    stopped: bool,
}

impl Callbacks {
    /// Has `callback` called soon; a panic in it is caught and logged.
    pub(crate) fn call(&self, threads: &Arc<Threads>, callback: Callback, lost: Lost) {
        let mut job = (callback, lost);
        while let Some(idle) = self.0.lock().idle.pop() {
            match idle.send(job) {
                Ok(()) => return,
                Err(e) => job = e.into_inner(),
            }
        }
        let pool = self.0.clone();
        if let Err(e) = threads.spawn("callbacks", move || work(&pool, job)) {
            journal::error!("no thread to tell of a lost lock with: {e}");
        }
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

fn work(pool: &Mutex<Pool>, first: Job) {
    let mut next = Some(first);
    while let Some((callback, lost)) = next {
        if catch_unwind(AssertUnwindSafe(|| callback(lost))).is_err() {
            journal::error!("a callback for a lost lock panicked");
        }
        let (sender, receiver) = bounded(1);
        {
            let mut pool = pool.lock();
            if pool.stopped || pool.idle.len() >= IDLE {
                return;
            }
            pool.idle.push(sender);
        }
        next = receiver.recv().ok();
    }
}
