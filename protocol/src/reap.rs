//! What becomes of a release that could not be delivered: it is tried again until the ttl of its key ends.
//!
//! Every operation is cheap however many releases wait: nothing looks at all of them but a reconnection, once.

use super::time::Mono;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The pause before the first retry; doubled per failure up to [`LONGEST_PAUSE`].
pub const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two tries: so long after a master has recovered a refused release can still be on its way.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// When a release that has failed `tries` times before is due again, now that it has failed once more; `None` if the
/// ttl of its key ends before.
pub fn next_attempt(tries: u32, now: Mono, key_ends: Mono) -> Option<Mono> {
    let pause = FIRST_PAUSE.saturating_mul(1 << tries.min(8)).min(LONGEST_PAUSE);
    Some(now.plus(pause)).filter(|at| *at < key_ends)
}

/// A release that waits.
#[derive(Debug)]
struct Orphan<T> {
    release: T,
    tries: u32,
    key_ends: Mono,
    size: usize,
}

/// What is to be done about the release that was due.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// Send it again.
    Post {
        /// The release.
        release: T,
        /// How often it was sent before.
        tries: u32,
        /// When the ttl of its key ends.
        key_ends: Mono,
    },
    /// Nothing: it waits on, for its master cannot be reached.
    Wait,
    /// Nothing: its key has ended.
    Ended(T),
}

/// The undelivered releases for one master.
#[derive(Debug)]
pub struct Orphans<T> {
    /// Those that are due because their master can be reached again.
    ready: VecDeque<Orphan<T>>,
    /// Those that wait for their first retry, in the order in which they came and are due.
    fresh: VecDeque<(Mono, Orphan<T>)>,
    /// The others, by when they are due.
    again: BTreeMap<(Mono, u64), Orphan<T>>,
    next_id: u64,
    size: usize,
    limit: usize,
    given_up: u64,
}

impl<T> Orphans<T> {
    /// None yet, and never more than of size `limit` in total.
    pub fn new(limit: usize) -> Orphans<T> {
        Orphans {
            ready: VecDeque::new(),
            fresh: VecDeque::new(),
            again: BTreeMap::new(),
            next_id: 0,
            size: 0,
            limit,
            given_up: 0,
        }
    }

    /// Takes a release of this size that has just failed and had failed `tries` times before. It is given up, and
    /// counted, if there is no room for it or its key ends before the next try.
    pub fn take(&mut self, release: T, size: usize, tries: u32, key_ends: Mono, now: Mono) {
        let due = next_attempt(tries, now, key_ends).filter(|_| self.size + size <= self.limit);
        let Some(due) = due else {
            self.given_up += 1;
            return;
        };
        self.size += size;
        let orphan = Orphan { release, tries: tries + 1, key_ends, size };
        if tries == 0 {
            // The pause is the same for all of them, so they come in the order in which they are due.
            self.fresh.push_back((due, orphan));
        } else {
            self.wait(due, orphan);
        }
    }

    fn wait(&mut self, due: Mono, orphan: Orphan<T>) {
        self.next_id += 1;
        self.again.insert((due, self.next_id), orphan);
    }

    /// The master can be reached again: all that wait now are due.
    pub fn reconnected(&mut self) {
        self.ready.extend(self.fresh.drain(..).map(|(_, orphan)| orphan));
        self.ready.extend(std::mem::take(&mut self.again).into_values());
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<Mono> {
        if !self.ready.is_empty() {
            return Some(Mono::ZERO);
        }
        let fresh = self.fresh.front().map(|(due, _)| *due);
        let again = self.again.first_key_value().map(|((due, _), _)| *due);
        fresh.into_iter().chain(again).min()
    }

    fn pop(&mut self, now: Mono) -> Option<Orphan<T>> {
        if let Some(orphan) = self.ready.pop_front() {
            return Some(orphan);
        }
        let due = self.next_due().filter(|due| *due <= now)?;
        if self.fresh.front().is_some_and(|(first, _)| *first == due) {
            return self.fresh.pop_front().map(|(_, orphan)| orphan);
        }
        self.again.pop_first().map(|(_, orphan)| orphan)
    }

    /// Takes out the release that is due first, if one is due, and decides about it. A release that cannot be sent
    /// because it is not `reachable` waits until the master is reconnected or its key ends.
    pub fn next(&mut self, now: Mono, reachable: impl Fn(&T) -> bool) -> Option<Next<T>> {
        let orphan = self.pop(now)?;
        if orphan.key_ends <= now {
            self.size -= orphan.size;
            self.given_up += 1;
            return Some(Next::Ended(orphan.release));
        }
        if !reachable(&orphan.release) {
            self.wait(orphan.key_ends, orphan);
            return Some(Next::Wait);
        }
        self.size -= orphan.size;
        let Orphan { release, tries, key_ends, .. } = orphan;
        Some(Next::Post { release, tries, key_ends })
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.ready.len() + self.fresh.len() + self.again.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many were left to the ttl of their keys.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }
}
