//! Telling the holder that its lock is lost: a channel to select on, and callbacks on a thread of their own.

use super::error::Lost;
use crate::sys::sync::Mutex;
use crate::sys::thread::Threads;
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

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
    /// The receiver: one message when the lock is lost, disconnected when it is released.
    pub(crate) fn receiver(&self) -> &Receiver<Lost> {
        self.receiver.get_or_init(|| {
            let (sender, receiver) = bounded(1);
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

/// The thread that runs users' callbacks, started when first needed.
#[derive(Default)]
pub(crate) struct Callbacks(Mutex<Option<Sender<(Callback, Lost)>>>);

impl Callbacks {
    /// Has `callback` called soon; a panic in it is caught and logged.
    pub(crate) fn call(&self, threads: &Arc<Threads>, callback: Callback, lost: Lost) {
        let mut slot = self.0.lock();
        let job = match slot.as_ref() {
            Some(sender) => match sender.send((callback, lost)) {
                Ok(()) => return,
                Err(e) => e.into_inner(),
            },
            None => (callback, lost),
        };
        let (sender, receiver) = unbounded::<(Callback, Lost)>();
        let started = threads.spawn("callbacks", move || {
            for (callback, lost) in receiver {
                if catch_unwind(AssertUnwindSafe(|| callback(lost))).is_err() {
                    log::error!("a callback for a lost lock panicked");
                }
            }
        });
        match started {
            Ok(()) => {
                let _ = sender.send(job);
                *slot = Some(sender);
            }
            Err(e) => log::error!("no thread to tell of a lost lock with: {e}"),
        }
    }

    /// Ends the thread after what it has been given.
    pub(crate) fn stop(&self) {
        *self.0.lock() = None;
    }
}
