//! Channels with the interface of crossbeam's, as far as the library uses it.

use crate::world;
use shuttle::rand::{Rng, thread_rng};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

struct Channel<T> {
    // Never held over a step, so never contended.
    queue: Mutex<VecDeque<T>>,
    room: usize,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

impl<T> Channel<T> {
    fn is_ready(&self) -> bool {
        self.is_cut() || !self.queue.lock().unwrap().is_empty()
    }

    /// Whether nobody can send any more.
    fn is_cut(&self) -> bool {
        self.senders.load(SeqCst) == 0
    }

    fn take(&self) -> Option<T> {
        self.queue.lock().unwrap().pop_front()
    }
}

pub(crate) struct Sender<T>(Arc<Channel<T>>);
pub(crate) struct Receiver<T>(Arc<Channel<T>>);

#[derive(Debug)]
pub(crate) struct SendError<T>(T);

impl<T> SendError<T> {
    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Disconnected;

pub(crate) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

pub(crate) fn bounded<T>(room: usize) -> (Sender<T>, Receiver<T>) {
    let queue = Mutex::new(VecDeque::new());
    let channel = Arc::new(Channel { queue, room, senders: AtomicUsize::new(1), receivers: AtomicUsize::new(1) });
    (Sender(channel.clone()), Receiver(channel))
}

impl<T: Send + 'static> Sender<T> {
    pub(crate) fn send(&self, value: T) -> Result<(), SendError<T>> {
        let channel = self.0.clone();
        world::wait_until(move || {
            channel.receivers.load(SeqCst) == 0 || channel.queue.lock().unwrap().len() < channel.room
        });
        self.push(value)
    }

    pub(crate) fn try_send(&self, value: T) -> Result<(), SendError<T>> {
        world::step();
        self.push(value)
    }

    fn push(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.receivers.load(SeqCst) == 0 || self.0.queue.lock().unwrap().len() >= self.0.room {
            return Err(SendError(value));
        }
        self.0.queue.lock().unwrap().push_back(value);
        world::changed();
        Ok(())
    }
}

impl<T: Send + 'static> Receiver<T> {
    pub(crate) fn recv(&self) -> Result<T, Disconnected> {
        let channel = self.0.clone();
        world::wait_until(move || channel.is_ready());
        self.0.take().ok_or(Disconnected)
    }

    /// What is there now; `None` if nothing is, `Some(Err)` if nothing can come any more.
    pub(crate) fn poll(&self) -> Option<Result<T, Disconnected>> {
        world::step();
        self.0.take().map(Ok).or_else(|| self.0.is_cut().then_some(Err(Disconnected)))
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, SeqCst);
        Sender(self.0.clone())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.0.receivers.fetch_add(1, SeqCst);
        Receiver(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, SeqCst) == 1 {
            world::changed();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.0.receivers.fetch_sub(1, SeqCst) == 1 {
            // What nobody will receive is dropped with its last receiver.
            drop(std::mem::take(&mut *self.0.queue.lock().unwrap()));
            world::changed();
        }
    }
}

impl<T: Send + 'static> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = std::iter::FromFn<Box<dyn FnMut() -> Option<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        std::iter::from_fn(Box::new(move || self.recv().ok()))
    }
}

pub(crate) fn next_unless_stopped<T: Send + 'static>(jobs: &Receiver<T>, stopped: Option<&Receiver<()>>) -> Option<T> {
    world::idle(true);
    let (work, stop) = (jobs.0.clone(), stopped.map(|s| s.0.clone()));
    world::wait_until(move || work.is_ready() || stop.as_ref().is_some_and(|s| s.is_ready()));
    world::idle(false);
    let is_stopped = stopped.is_some_and(|s| s.0.is_ready());
    // Where both are ready either may be chosen.
    if is_stopped && thread_rng().gen_bool(0.5) { None } else { jobs.0.take() }
}
