//! Releases that could not be delivered: tried again until their keys end, a bounded number at a time.

use super::chores::Chore;
use super::core::Engine;
use super::error::Undelivered;
use super::timer::{Key, Timer};
use crate::protocol::reap::{Next, Orphans};
use crate::protocol::{Command, Mono, Operation};
use crate::sys::clock;
use crate::sys::sync::Mutex;
use crate::wire::op::Op;
use std::sync::Arc;
use std::time::Duration;

/// How many releases are looked at in one go; more would fill the socket of a server that has just come back, and keep the
/// other chores waiting.
const BATCH: usize = 256;
/// The pause between two batches.
const PAUSE: Duration = Duration::from_millis(20);
/// How much memory the releases for one master may take, in bytes, about.
const MEMORY: usize = 8 * 1024 * 1024;

struct Orphan {
    command: Command,
    made: Mono,
}

impl Orphan {
    /// What it takes in memory, about: its keys each have the name of the lock in them.
    fn size(&self) -> usize {
        512 + 8 * self.command.keys.name.len()
    }
}

struct Bin {
    orphans: Orphans<Orphan>,
    /// The one chore that is entered for this master, and when it is due.
    chore: Option<Key>,
    /// When the next batch may be sent.
    not_before: Mono,
}

impl Bin {
    /// Sees to it that the chore comes when something is due.
    fn plan(&mut self, i: usize, chores: &Timer<Chore>) {
        let Some(due) = self.orphans.next_due().map(|due| due.max(self.not_before)) else { return };
        // What is due since long ago is due now: the timer counts how late it is.
        let due = due.max(clock::now());
        if self.chore.is_some_and(|(at, _)| at <= due) {
            return;
        }
        if let Some(later) = self.chore.replace(chores.enter(due, Chore::Reap(i))) {
            chores.leave(later);
        }
    }
}

/// The undelivered releases of a client, by master.
pub(crate) struct Reaper(Vec<Mutex<Bin>>);

impl Reaper {
    pub(crate) fn new(masters: usize) -> Reaper {
        let bin = || Mutex::new(Bin { orphans: Orphans::new(MEMORY), chore: None, not_before: Mono::ZERO });
        Reaper((0..masters).map(|_| bin()).collect())
    }

    /// Takes releases that may not have reached master `i`.
    pub(crate) fn take(&self, engine: &Engine, i: usize, releases: Vec<Arc<Op>>) {
        let now = clock::now();
        let mut bin = self.0[i].lock();
        for op in releases {
            let key_ends = op.key_ends.unwrap_or_else(|| now.plus(engine.settings.max_lease));
            let orphan = Orphan { command: op.command.clone(), made: op.made.unwrap_or(now) };
            let size = orphan.size();
            bin.orphans.take(orphan, size, op.tries, key_ends, now);
        }
        bin.plan(i, &engine.chores);
    }

    /// Master `i` can be reached again: everything for it is due.
    pub(crate) fn reconnected(&self, engine: &Engine, i: usize) {
        let mut bin = self.0[i].lock();
        bin.orphans.reconnected();
        bin.plan(i, &engine.chores);
    }

    /// What waits to be delivered, and what was left to its ttl.
    pub(crate) fn counts(&self) -> Undelivered {
        self.0.iter().map(Mutex::lock).fold(Undelivered::default(), |sum, bin| Undelivered {
            pending: sum.pending + bin.orphans.len(),
            left_to_ttl: sum.left_to_ttl + bin.orphans.given_up(),
        })
    }
}

impl Engine {
    /// Sends again what is due for master `i`, on the thread of the chores.
    pub(crate) fn reap_due(&self, i: usize) {
        let now = clock::now();
        let mut posts = Vec::new();
        {
            let mut bin = self.reaper.0[i].lock();
            bin.chore = None;
            let reachable = |o: &Orphan| self.lane(&o.command.keys).links[i].conn().is_some();
            for _ in 0..BATCH {
                match bin.orphans.next(now, reachable) {
                    Some(Next::Post { release, tries, key_ends }) => posts.push((release, tries, key_ends)),
                    Some(Next::Wait | Next::Ended(_)) => {}
                    None => break,
                }
            }
            bin.not_before = now.plus(PAUSE);
            bin.plan(i, &self.chores);
        }
        let mut lanes = 0_u64;
        for (Orphan { mut command, made }, tries, key_ends) in posts {
            if let Operation::Release { keep, .. } = &mut command.operation {
                *keep = keep.saturating_sub(now.since(made));
            }
            let lane = self.lane(&command.keys).clone();
            let mut again = Op::new(command, self.settings.quorum, 1 << i, false);
            again.made = Some(now);
            again.tries = tries;
            again.key_ends = Some(key_ends);
            lane.enqueue(Arc::new(again));
            lanes |= 1 << lane.config.index;
        }
        for lane in self.lanes.iter().filter(|lane| lanes >> lane.config.index & 1 == 1) {
            lane.flush();
            lane.attend();
        }
    }
}
