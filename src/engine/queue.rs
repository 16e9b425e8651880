//! The threads of a process that want the same lock: one contends for it or holds it, the others park behind it in FIFO
//! order. Who may go next is decided in [`protocol::local_queue`](crate::protocol::local_queue).

use super::lease::Lease;
use super::settings::Terms;
use super::waiting::Patience;
use crate::protocol::local_queue::{Entering, LocalQueue};
use crate::protocol::wait_list::Notify;
use crate::protocol::{Keys, Mono, Wait};
use crate::sys::clock;
use crate::sys::sync::{Mutex, Rank};
use crate::sys::thread::{Thread, current, give_way, park_timeout};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const SHARDS: usize = 16;

/// How often a thread gives way before it parks, while a lease is handed from thread to thread: the holds are short
/// then, and to be woken takes longer than one. Behind more threads than that it would give way in vain.
const SPINS: u32 = 32;

/// What a queued thread is given.
enum Grant {
    /// The right to contend.
    Contend,
    /// The lease itself.
    Lease(Arc<Lease>),
    /// Leave to contend beside others.
    ContendBeside,
    /// Nothing: the client was closed.
    Closed,
}

struct Waiter {
    thread: Thread,
    terms: Arc<Terms>,
    grant: Mutex<Option<Grant>>,
}

impl Waiter {
    /// Lays down what the thread is given; it is woken afterwards.
    ///
    /// Proof obligation: this is called for each waiter that is taken out of its queue, before the queue is unlocked. A
    /// thread that gives up looks for a grant under the same lock, so it finds one or is still in the queue: no grant
    /// is lost.
    fn give(&self, grant: Grant) {
        *self.grant.lock() = Some(grant);
    }

    fn wake(&self) {
        self.thread.unpark();
    }
}

#[derive(Default)]
struct Queue {
    local: LocalQueue,
    /// The lease was handed over here.
    handed_over: bool,
    waiters: VecDeque<Arc<Waiter>>,
}

#[derive(Default)]
struct Shard {
    queues: HashMap<Arc<str>, Queue>,
    closed: bool,
}

/// The queues of a client.
pub(crate) struct Queues {
    shards: [Mutex<Shard>; SHARDS],
}

/// How a call enters.
pub(crate) enum Entered {
    /// It contends, and nobody else of this process does; whether it yields to waiters of other processes.
    Contends(Place, bool),
    /// It contends beside others.
    ContendsBeside,
    /// It has been handed a lease, and the place that goes with it.
    Lease(Arc<Lease>, Place),
    /// A thread of this process holds the lock, and the call does not wait (any longer).
    Refused,
    /// The client was closed.
    Closed,
}

/// The right to contend for a name and to hold it; dropped, it goes to the next in the queue.
pub(crate) struct Place {
    queues: Arc<Queues>,
    name: Arc<str>,
    /// It is another thread's now.
    handed_over: bool,
}

impl Queues {
    pub(crate) fn new() -> Arc<Queues> {
        Arc::new(Queues { shards: std::array::from_fn(|_| Mutex::new(Rank::Queue, Shard::default())) })
    }

    fn shard(&self, name: &str) -> &Mutex<Shard> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        &self.shards[hasher.finish() as usize % SHARDS]
    }

    /// Runs `act` on a queue that there is.
    fn with<T>(&self, name: &str, act: impl FnOnce(&mut Queue) -> T) -> Option<T> {
        self.shard(name).lock().queues.get_mut(name).map(act)
    }

    /// Enters the queue of a name, and waits in it for as long as `patience` lasts.
    pub(crate) fn enter(self: &Arc<Self>, keys: &Keys, terms: &Arc<Terms>, patience: &mut Patience<'_>) -> Entered {
        let (waiter, near) = {
            let mut shard = self.shard(&keys.name).lock();
            if shard.closed {
                return Entered::Closed;
            }
            let queue = shard.queues.entry(keys.name.clone()).or_default();
            match queue.local.enter(patience.wait != Wait::Once) {
                Entering::Contends => {
                    let yields = queue.local.yields(clock::now());
                    return Entered::Contends(self.place(&keys.name), yields);
                }
                Entering::ContendsBeside => return Entered::ContendsBeside,
                Entering::Refused => return Entered::Refused,
                Entering::Queues => {}
            }
            let waiter =
                Arc::new(Waiter { thread: current(), terms: terms.clone(), grant: Mutex::new(Rank::Grant, None) });
            queue.waiters.push_back(waiter.clone());
            let near = queue.handed_over && queue.waiters.len() <= SPINS as usize;
            (Queued { queues: self, name: &keys.name, waiter: Some(waiter) }, near)
        };
        if near {
            give_way(SPINS, || waiter.has_grant());
        }
        self.wait(&keys.name, waiter, patience)
    }

    fn wait(self: &Arc<Self>, name: &Arc<str>, mut waiter: Queued<'_>, patience: &mut Patience<'_>) -> Entered {
        let limit = patience.limit();
        let grant = loop {
            if let Some(grant) = waiter.take() {
                break grant;
            }
            let left = limit.since(clock::now());
            if left.is_zero() || !patience.goes_on() {
                match waiter.leave() {
                    Some(grant) => break grant,
                    None => return Entered::Refused,
                }
            }
            park_timeout(left.min(patience.longest_park()));
        };
        let now = clock::now();
        match grant {
            Grant::Contend if limit <= now => {
                drop(self.place(name));
                Entered::Refused
            }
            Grant::Contend => {
                let yields = self.with(name, |queue| queue.local.yields(now));
                Entered::Contends(self.place(name), yields.unwrap_or(false))
            }
            Grant::Lease(lease) => Entered::Lease(lease, self.place(name)),
            Grant::ContendBeside => Entered::ContendsBeside,
            Grant::Closed => Entered::Closed,
        }
    }

    fn place(self: &Arc<Self>, name: &Arc<str>) -> Place {
        Place { queues: self.clone(), name: name.clone(), handed_over: false }
    }

    /// A master says at `now` that others wait elsewhere for a lock that this process has released, and whether one of
    /// them was `notified`. True if a late notification is to be planned.
    pub(crate) fn waiters_elsewhere(&self, name: &Arc<str>, now: Mono, notified: bool) -> bool {
        let mut shard = self.shard(name).lock();
        !shard.closed && shard.queues.entry(name.clone()).or_default().local.waiters_elsewhere(now, notified)
    }

    /// When the planned notification is due, if it is still needed.
    pub(crate) fn late_notification(&self, name: &Arc<str>, now: Mono) -> Option<Mono> {
        self.with(name, |queue| queue.local.late_notification(now)).flatten()
    }

    /// How many threads wait in a queue.
    #[cfg(feature = "unversioned")]
    pub(crate) fn queued(&self, name: &str) -> usize {
        self.with(name, |queue| queue.waiters.len()).unwrap_or(0)
    }

    /// Forgets what is not needed any more.
    pub(crate) fn sweep(&self, now: Mono) {
        for shard in &self.shards {
            shard.lock().queues.retain(|_, queue| !queue.waiters.is_empty() || !queue.local.is_forgettable(now));
        }
    }

    /// Sends all threads away, for good. Answers for which locks a waiter elsewhere is still to be notified, and the
    /// number under which this process waited for them.
    pub(crate) fn close(&self) -> Vec<(Arc<str>, u64)> {
        let mut to_notify = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.closed = true;
            for (name, queue) in shard.queues.drain() {
                to_notify.extend(queue.local.last_notification().map(|number| (name, number)));
                for waiter in queue.waiters {
                    waiter.give(Grant::Closed);
                    waiter.wake();
                }
            }
        }
        to_notify
    }
}

/// A queued thread until it takes what it is given. If it never does, because the caller's closure panicked, it leaves,
/// and what it was given goes to the next.
struct Queued<'a> {
    queues: &'a Arc<Queues>,
    name: &'a Arc<str>,
    /// Until it has taken a grant or left the queue.
    waiter: Option<Arc<Waiter>>,
}

impl Queued<'_> {
    fn has_grant(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.grant.lock().is_some())
    }

    /// What the thread was given, if it was given something; it is not in the queue any more then.
    fn take(&mut self) -> Option<Grant> {
        let grant = self.waiter.as_ref()?.grant.lock().take()?;
        self.waiter = None;
        Some(grant)
    }

    /// Leaves the queue; what was given in the last moment.
    fn leave(&mut self) -> Option<Grant> {
        let waiter = self.waiter.take()?;
        let mut shard = self.queues.shard(self.name).lock();
        let grant = waiter.grant.lock().take();
        if grant.is_none()
            && let Some(queue) = shard.queues.get_mut(self.name)
        {
            queue.waiters.retain(|w| !Arc::ptr_eq(w, &waiter));
        }
        grant
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        match self.leave() {
            Some(Grant::Contend) => drop(self.queues.place(self.name)),
            Some(Grant::Lease(lease)) => {
                let place = self.queues.place(self.name);
                lease.let_go(place.release(clock::now()));
            }
            Some(Grant::ContendBeside | Grant::Closed) | None => {}
        }
    }
}

impl Place {
    fn with<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> Option<T> {
        self.queues.with(&self.name, act)
    }

    /// The lock is held from `now` on, by a thread that waited at the masters under `number`, if that is not zero.
    pub(crate) fn granted(&self, now: Mono, number: u64) {
        self.with(|queue| queue.local.granted(now, number));
    }

    /// An attempt was refused by enough masters.
    pub(crate) fn refused(&self) {
        self.with(|queue| queue.local.refused());
    }

    /// An attempt met an outage: each queued thread contends for itself, and ends in its own time.
    pub(crate) fn outage(&self) {
        let waiters = self.with(|queue| {
            queue.local.outage();
            queue.waiters.iter().for_each(|waiter| waiter.give(Grant::ContendBeside));
            std::mem::take(&mut queue.waiters)
        });
        waiters.into_iter().flatten().for_each(|waiter| waiter.wake());
    }

    /// The lock is released at `now`; how that notifies a waiter elsewhere.
    pub(crate) fn release(&self, now: Mono) -> Notify {
        self.with(|queue| queue.local.release(now)).unwrap_or(Notify::AT_ONCE)
    }

    /// Gives `lease`, and this place with it, to the first in the queue, if it wants it on the same terms and `pass`
    /// agrees; the place comes back otherwise.
    pub(crate) fn hand_over(mut self, lease: &Arc<Lease>, pass: impl FnOnce() -> bool) -> Option<Place> {
        let given = self.with(|queue| {
            let same = queue.waiters.front().is_some_and(|w| w.terms.same(&lease.terms));
            let waiter = if same && pass() { queue.waiters.pop_front()? } else { return None };
            waiter.give(Grant::Lease(lease.clone()));
            queue.handed_over = true;
            Some(waiter)
        });
        let Some(waiter) = given.flatten() else { return Some(self) };
        waiter.wake();
        self.handed_over = true;
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.handed_over {
            return;
        }
        let mut shard = self.queues.shard(&self.name).lock();
        let Some(queue) = shard.queues.get_mut(&self.name) else { return };
        queue.handed_over = false;
        let next = queue.waiters.pop_front();
        queue.local.leave(next.is_some());
        if let Some(next) = &next {
            next.give(Grant::Contend);
        } else if queue.local.is_new() {
            shard.queues.remove(&self.name);
        }
        drop(shard);
        if let Some(next) = next {
            next.wake();
        }
    }
}
