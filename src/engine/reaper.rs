//! Releases that could not be delivered: tried again a few times, then left to their ttl.

use super::core::Engine;
use super::timer::Event;
use crate::protocol::reap::{CAPACITY, next_attempt};
use crate::protocol::{Mono, Operation};
use crate::sys::clock;
use crate::sys::sync::Mutex;
use crate::wire::op::Op;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How many releases are posted at once; more would fill the socket of a server that has just come back.
const BATCH: usize = 256;
const PAUSE: Duration = Duration::from_millis(20);

struct Orphan {
    op: Arc<Op>,
    due: Mono,
    key_ends: Mono,
}

/// The undelivered releases of a client, by master.
pub(crate) struct Reaper {
    orphans: Vec<Mutex<Vec<Orphan>>>,
    kept: AtomicUsize,
    left_to_ttl: AtomicU64,
}

impl Reaper {
    pub(crate) fn new(masters: usize) -> Reaper {
        Reaper {
            orphans: (0..masters).map(|_| Mutex::new(Vec::new())).collect(),
            kept: AtomicUsize::new(0),
            left_to_ttl: AtomicU64::new(0),
        }
    }

    /// Takes the release `op` that may not have reached master `i`.
    pub(crate) fn take(&self, engine: &Engine, i: usize, op: &Arc<Op>) {
        let now = clock::now();
        let key_ends = op.key_ends.unwrap_or_else(|| now.plus(engine.settings.max_lease));
        let Some(due) = next_attempt(op.tries, now, key_ends).filter(|_| self.kept.load(Ordering::Relaxed) < CAPACITY)
        else {
            self.left_to_ttl.fetch_add(1, Ordering::Relaxed);
            return;
        };
        self.kept.fetch_add(1, Ordering::Relaxed);
        self.orphans[i].lock().push(Orphan { op: op.clone(), due, key_ends });
        engine.timer.enter(due, Event::Reap(i));
    }

    /// Master `i` can be reached again: everything for it is due.
    pub(crate) fn reconnected(&self, engine: &Engine, i: usize) {
        let mut orphans = self.orphans[i].lock();
        for orphan in orphans.iter_mut() {
            orphan.due = Mono::ZERO;
        }
        let any = !orphans.is_empty();
        drop(orphans);
        if any {
            engine.timer.enter(clock::now(), Event::Reap(i));
        }
    }

    /// How many releases wait to be delivered, and how many were left to their ttl.
    pub(crate) fn counts(&self) -> (usize, u64) {
        (self.kept.load(Ordering::Relaxed), self.left_to_ttl.load(Ordering::Relaxed))
    }
}

impl Engine {
    /// Posts what is due for master `i`, on the timer thread.
    pub(crate) fn reap_due(&self, i: usize) {
        let now = clock::now();
        let mut orphans = self.reaper.orphans[i].lock();
        let over = orphans.extract_if(.., |o| o.key_ends <= now).count();
        // Without a connection a try would be wasted: it is due again when there is one.
        let ready = |o: &Orphan| o.due <= now && self.lane(&o.op.command.keys).links[i].conn().is_some();
        let mut due: Vec<Orphan> = orphans.extract_if(.., |o| ready(o)).take(BATCH).collect();
        let more = orphans.iter().any(ready);
        drop(orphans);
        self.reaper.kept.fetch_sub(over + due.len(), Ordering::Relaxed);
        self.reaper.left_to_ttl.fetch_add(over as u64, Ordering::Relaxed);
        for Orphan { op, key_ends, .. } in due.drain(..) {
            let mut command = op.command.clone();
            if let Operation::Release { keep, .. } = &mut command.operation {
                *keep = keep.saturating_sub(now.since(op.made.unwrap_or(now)));
            }
            let mut again = Op::new(command, self.settings.quorum, 1 << i, false);
            again.made = Some(now);
            again.tries = op.tries + 1;
            again.key_ends = Some(key_ends);
            self.lane(&op.command.keys).post(Arc::new(again));
        }
        if more {
            self.timer.enter(now.plus(PAUSE), Event::Reap(i));
        }
    }
}
