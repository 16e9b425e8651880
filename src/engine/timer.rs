//! One thread that knows when things are due: renewals, announcements of a loss, caretakers, undelivered releases.

use super::core::Engine;
use super::held::Held;
use crate::protocol::{Keys, Mono};
use crate::sys::clock;
use crate::sys::sync::Mutex;
use crate::sys::thread::Threads;
use crate::sys::timer::Alarm;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};

/// What is due. Handling it does not block.
pub(crate) enum Event {
    /// Something about a lease.
    Lease(Weak<Held>),
    /// A lane may have replies that nobody reads; how often it had been led when this was entered.
    Care(usize, u64),
    /// Releases for a master that were not delivered.
    Reap(usize),
    /// A connector could not be started.
    Connect(usize),
    /// Connections may have been closed while they were idle.
    Sweep,
    /// Somebody waits elsewhere for a lock that was released here.
    Tell(Arc<Keys>, u64),
}

/// An entry of the timer, to take it out again.
pub(crate) type Key = (Mono, u64);

struct Queue {
    due: BTreeMap<Key, Event>,
    next_id: u64,
    armed: Mono,
    stopped: bool,
}

/// The timer of a client.
pub(crate) struct Timer {
    queue: Mutex<Queue>,
    alarm: Alarm,
}

impl Timer {
    pub(crate) fn new() -> io::Result<Arc<Timer>> {
        let queue = Queue { due: BTreeMap::new(), next_id: 0, armed: Mono::NEVER, stopped: false };
        Ok(Arc::new(Timer { queue: Mutex::new(queue), alarm: Alarm::new()? }))
    }

    /// Starts the thread; it ends with [`Timer::stop`].
    pub(crate) fn start(self: &Arc<Self>, threads: &Arc<Threads>, engine: Weak<Engine>) -> io::Result<()> {
        let timer = self.clone();
        threads.spawn("timer", move || timer.run(&engine))
    }

    /// Enters an event. The thread is woken only if this is due before anything it waits for; leases come and go far
    /// before their renewal, so it mostly sleeps.
    pub(crate) fn enter(&self, at: Mono, event: Event) -> Key {
        let mut queue = self.queue.lock();
        queue.next_id += 1;
        let key = (at, queue.next_id);
        queue.due.insert(key, event);
        if at < queue.armed && !crate::planted::on("timer_oversleeps") {
            queue.armed = at;
            drop(queue);
            self.alarm.wake();
        }
        key
    }

    /// Takes an event out, if it is still there.
    pub(crate) fn leave(&self, key: Key) {
        self.queue.lock().due.remove(&key);
    }

    /// Ends the thread; the leases that were waiting for something.
    pub(crate) fn stop(&self) -> Vec<Arc<Held>> {
        let mut queue = self.queue.lock();
        queue.stopped = true;
        let events = std::mem::take(&mut queue.due);
        drop(queue);
        self.alarm.wake();
        let lease = |event| if let Event::Lease(held) = event { held.upgrade() } else { None };
        events.into_values().filter_map(lease).collect()
    }

    fn run(&self, engine: &Weak<Engine>) {
        loop {
            let now = clock::now();
            let next = {
                let mut queue = self.queue.lock();
                if queue.stopped {
                    return;
                }
                match queue.due.first_entry() {
                    Some(first) if first.key().0 <= now => Err(first.remove()),
                    first => {
                        let at = first.map_or(Mono::NEVER, |f| f.key().0);
                        queue.armed = at;
                        Ok(at)
                    }
                }
            };
            match next {
                Ok(at) => self.alarm.sleep_until(at),
                Err(event) => handle(engine, event),
            }
        }
    }
}

fn handle(engine: &Weak<Engine>, event: Event) {
    match event {
        Event::Lease(held) => {
            if let Some(held) = held.upgrade() {
                held.due();
            }
        }
        Event::Care(lane, leads) => {
            if let Some(engine) = engine.upgrade() {
                engine.care_due(lane, leads);
            }
        }
        Event::Connect(i) => {
            if let Some(engine) = engine.upgrade() {
                engine.connect(i);
            }
        }
        Event::Tell(keys, waiter) => {
            if let Some(engine) = engine.upgrade() {
                engine.tell_due(keys, waiter);
            }
        }
        Event::Sweep => {
            if let Some(engine) = engine.upgrade() {
                engine.sweep_due();
            }
        }
        Event::Reap(i) => {
            if let Some(engine) = engine.upgrade() {
                engine.reap_due(i);
            }
        }
    }
}
