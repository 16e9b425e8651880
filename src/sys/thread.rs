//! Named threads with small stacks, and a count of those that live.

use super::journal;
pub(crate) use super::panics::survives;
use super::sync::{Condvar, Mutex, Rank};
use std::cell::Cell;
use std::io;
use std::sync::Arc;
pub(crate) use std::thread::{Thread, current, park_timeout};
use std::time::Duration;

/// The stack of a background thread: they parse replies, nothing deep.
const STACK: usize = 256 * 1024;

/// Lets other threads run, at most so often, until `done`.
pub(crate) fn give_way(times: u32, mut done: impl FnMut() -> bool) {
    for _ in 0..times {
        if done() {
            return;
        }
        std::thread::yield_now();
    }
}

/// The background threads of one client.
pub(crate) struct Threads {
    live: Mutex<usize>,
    ended: Condvar,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { live: Mutex::new(Rank::Threads, 0), ended: Condvar::new() }
    }
}

thread_local! {
    /// The client whose background thread this is, by address; zero elsewhere.
    static OURS: Cell<usize> = const { Cell::new(0) };
}

impl Threads {
    /// Starts `body` on a thread called `redleash-{role}`.
    pub(crate) fn spawn(self: &Arc<Self>, role: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.spawn_on(Some(STACK), role, body)
    }

    /// The same with a stack of the standard size, for one that runs what is not ours to judge: a user's callback, or
    /// what the system's resolver loads.
    pub(crate) fn spawn_deep(self: &Arc<Self>, role: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.spawn_on(None, role, body)
    }

    fn spawn_on(
        self: &Arc<Self>,
        stack: Option<usize>,
        role: &str,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let threads = self.clone();
        *self.live.lock() += 1;
        let builder = std::thread::Builder::new().name(format!("redleash-{role}"));
        let builder = stack.into_iter().fold(builder, std::thread::Builder::stack_size);
        let spawned = builder.spawn(move || {
            OURS.set(Arc::as_ptr(&threads) as usize);
            let _end = End(threads);
            if !survives(body) {
                journal::error!("the thread {:?} panicked and has ended", std::thread::current().name().unwrap_or(""));
            }
        });
        spawned.map(drop).inspect_err(|_| *self.live.lock() -= 1)
    }

    /// Waits until all threads have ended, but for the calling one; how many are left after `limit`.
    pub(crate) fn wait(self: &Arc<Self>, limit: Duration) -> usize {
        let own = usize::from(OURS.get() == Arc::as_ptr(self) as usize);
        let deadline = super::clock::now().plus(limit);
        let mut live = self.live.lock();
        while *live > own {
            let left = deadline.since(super::clock::now());
            if left.is_zero() {
                break;
            }
            live = self.ended.wait_for(live, left);
        }
        live.saturating_sub(own)
    }
}

struct End(Arc<Threads>);

impl Drop for End {
    fn drop(&mut self) {
        *self.0.live.lock() -= 1;
        self.0.ended.notify_all();
    }
}
