//! Releases that could not be delivered: tried again until their keys end, a bounded number at a time.

use super::chores::{Chore, Chores};
use super::error::Undelivered;
use super::masters::Masters;
use super::timer::Key;
use crate::protocol::reap::{Next, Orphans};
use crate::protocol::{Command, Mono, Operation};
use crate::sys::clock;
use crate::sys::sync::{Mutex, Rank};
use crate::wire::request::Request;
use std::sync::Arc;
use std::time::Duration;

/// How many releases are looked at in one go. More would fill the socket of a master that has just come back, and keep
/// the other chores waiting.
const BATCH: usize = 256;
/// The time between two batches.
const BATCH_INTERVAL: Duration = Duration::from_millis(20);
/// How much memory the releases for one master may take, in bytes, about.
const MEMORY_BYTES: usize = 8 * 1024 * 1024;

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
    fn plan(&mut self, i: usize, chores: &Chores) {
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

/// The undelivered releases of a client.
pub(crate) struct Reaper {
    masters: Arc<Masters>,
    chores: Arc<Chores>,
    /// By master.
    bins: Vec<Mutex<Bin>>,
}

impl Reaper {
    pub(crate) fn new(masters: Arc<Masters>, chores: Arc<Chores>) -> Reaper {
        let bin = || {
            Mutex::new(Rank::Reaper, Bin { orphans: Orphans::new(MEMORY_BYTES), chore: None, not_before: Mono::ZERO })
        };
        let bins = masters.labels.iter().map(|_| bin()).collect();
        Reaper { masters, chores, bins }
    }

    /// Takes releases that may not have reached master `i`.
    pub(crate) fn take(&self, i: usize, releases: Vec<Arc<Request>>) {
        let now = clock::now();
        let mut bin = self.bins[i].lock();
        for request in releases {
            let key_ends = request.key_ends.unwrap_or_else(|| now.plus(self.masters.settings.max_lease));
            let orphan = Orphan { command: request.command.clone(), made: request.made.unwrap_or(now) };
            let size = orphan.size();
            bin.orphans.take(orphan, size, request.tries, key_ends, now);
        }
        bin.plan(i, &self.chores);
    }

    /// Master `i` can be reached again: everything for it is due.
    pub(crate) fn reconnected(&self, i: usize) {
        let mut bin = self.bins[i].lock();
        bin.orphans.reconnected();
        bin.plan(i, &self.chores);
    }

    /// What waits to be delivered, and what was left to its ttl.
    pub(crate) fn counts(&self) -> Undelivered {
        self.bins.iter().map(Mutex::lock).fold(Undelivered::default(), |sum, bin| Undelivered {
            pending: sum.pending + bin.orphans.len(),
            left_to_ttl: sum.left_to_ttl + bin.orphans.given_up(),
        })
    }

    /// Sends again what is due for master `i`, on the thread of the chores.
    pub(crate) fn due(&self, i: usize) {
        let now = clock::now();
        let mut posts = Vec::new();
        {
            let mut bin = self.bins[i].lock();
            bin.chore = None;
            let reachable = |o: &Orphan| self.masters.lane(&o.command.keys).links[i].conn().is_some();
            for _ in 0..BATCH {
                match bin.orphans.next(now, reachable) {
                    Some(Next::Post { release, tries, key_ends }) => posts.push((release, tries, key_ends)),
                    Some(Next::Wait | Next::Ended(_)) => {}
                    None => break,
                }
            }
            bin.not_before = now.plus(BATCH_INTERVAL);
            bin.plan(i, &self.chores);
        }
        let mut lanes = 0_u64;
        for (Orphan { mut command, made }, tries, key_ends) in posts {
            if let Operation::Release { keep, .. } = &mut command.operation {
                *keep = keep.saturating_sub(now.since(made));
            }
            let lane = self.masters.lane(&command.keys).clone();
            let mut again = Request::new(command, self.masters.settings.quorum, 1 << i, false);
            again.made = Some(now);
            again.tries = tries;
            again.key_ends = Some(key_ends);
            lane.enqueue(Arc::new(again));
            lanes |= 1 << lane.config.index;
        }
        for lane in self.masters.lanes.iter().filter(|lane| lanes >> lane.config.index & 1 == 1) {
            lane.flush();
            lane.request_drain();
        }
    }
}
