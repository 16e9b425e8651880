//! A thread that handles what is due, when it is due. A client has two: one for its leases, one for its chores.

use crate::protocol::Mono;
use crate::sys::clock;
use crate::sys::sync::{AtomicU64, Mutex, Ordering, Rank};
use crate::sys::thread::Threads;
use crate::sys::timer::Alarm;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// An entry of a timer, to take it out again.
pub(crate) type Key = (Mono, u64);

struct Queue<E> {
    due: BTreeMap<Key, E>,
    next_id: u64,
    armed: Mono,
    stopped: bool,
}

/// See the module.
pub(crate) struct Timer<E> {
    queue: Mutex<Queue<E>>,
    alarm: Alarm,
    /// The longest time from an event's being due to its being handled, in nanoseconds.
    latest: AtomicU64,
}

impl<E: Send + 'static> Timer<E> {
    pub(crate) fn new() -> io::Result<Arc<Timer<E>>> {
        let queue = Queue { due: BTreeMap::new(), next_id: 0, armed: Mono::NEVER, stopped: false };
        Ok(Arc::new(Timer { queue: Mutex::new(Rank::Timer, queue), alarm: Alarm::new()?, latest: AtomicU64::new(0) }))
    }

    /// Starts the thread; it ends with [`Timer::stop`]. `handle` must not block and must not panic: while it runs,
    /// nothing else of this timer is handled.
    pub(crate) fn start(
        self: &Arc<Self>,
        threads: &Arc<Threads>,
        role: &str,
        handle: impl FnMut(E) + Send + 'static,
    ) -> io::Result<()> {
        let timer = self.clone();
        threads.spawn(role, move || timer.run(handle))
    }

    /// Enters an event. The thread is woken only if this is due before anything it waits for; leases come and go far
    /// before their renewal, so it mostly sleeps.
    pub(crate) fn enter(&self, at: Mono, event: E) -> Key {
        let mut queue = self.queue.lock();
        queue.next_id += 1;
        let key = (at, queue.next_id);
        queue.due.insert(key, event);
        if at < queue.armed {
            queue.armed = at;
            drop(queue);
            self.alarm.wake();
        }
        key
    }

    /// Takes an event out, if it is still there.
    pub(crate) fn leave(&self, key: Key) {
        let event = self.queue.lock().due.remove(&key);
        drop(event);
    }

    /// Ends the thread; the events that were not due yet.
    pub(crate) fn stop(&self) -> Vec<E> {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        let events = std::mem::take(&mut queue.due);
        drop(queue);
        self.alarm.wake();
        events.into_values().collect()
    }

    /// The longest time so far from an event's being due to its being handled.
    pub(crate) fn latest(&self) -> Duration {
        Duration::from_nanos(self.latest.load(Ordering::Relaxed))
    }

    fn run(&self, mut handle: impl FnMut(E)) {
        loop {
            let now = clock::now();
            let next = {
                let mut queue = self.queue.lock();
                if queue.stopped {
                    return;
                }
                match queue.due.first_entry() {
                    Some(first) if first.key().0 <= now => Err(first.remove_entry()),
                    first => {
                        let at = first.map_or(Mono::NEVER, |f| f.key().0);
                        queue.armed = at;
                        Ok(at)
                    }
                }
            };
            match next {
                Ok(at) => self.alarm.sleep_until(at),
                Err(((at, _), event)) => {
                    let late = now.since(at).as_nanos() as u64;
                    if late > self.latest.load(Ordering::Relaxed) {
                        self.latest.store(late, Ordering::Relaxed);
                    }
                    handle(event);
                }
            }
        }
    }
}
