//! Who in this process is next: one thread per lock name contends for it or holds it, the others queue in FIFO order.

use super::lease::Lease;
use super::settings::Terms;
use super::waiting::Patience;
use crate::protocol::command::Tell;
use crate::protocol::handover::{MEMORY, courtesy, is_turn_over, steps_back};
use crate::protocol::wakeup::LATE;
use crate::protocol::{Keys, Mono, Wait};
use crate::sys::clock;
use crate::sys::sync::{Mutex, Rank};
use crate::sys::thread::{Thread, current, give_way, park_timeout};
use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

const SHARDS: usize = 16;

/// How often a thread gives way before it parks, while a lease is handed from thread to thread: the holds are short then,
/// and to be woken takes longer than one. Eight threads hand over five times as many with it. With more before it than
/// that it would do so in vain.
const YIELDS: u32 = 32;

/// What a queued thread is given.
enum Grant {
    /// Its turn to contend.
    Turn,
    /// The lease itself.
    Lease(Arc<Lease>),
    /// Leave to contend beside others.
    Free,
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
    /// Proof obligation: whoever takes a waiter out of its line calls this before the line is unlocked. A thread that gives
    /// up looks for a grant under the same lock, so it finds one or is still in line: no turn is lost.
    fn give(&self, grant: Grant) {
        *self.grant.lock() = Some(grant);
    }

    fn wake(&self) {
        self.thread.unpark();
    }
}

#[derive(Default)]
struct Line {
    /// A thread contends for the name, or holds it.
    occupied: bool,
    /// It holds it.
    held: bool,
    /// Its lease was handed over here.
    passing: bool,
    /// The last attempt met an outage: everybody contends for himself and tells of it in his own time.
    outage: bool,
    /// Others waited elsewhere when we released: leave the lock alone until then.
    yield_until: Mono,
    /// The number under which a thread of this process last waited at the masters; zero if none has.
    number: u64,
    /// When a master last said that others wait elsewhere.
    others: Option<Mono>,
    /// When the lock was last released here.
    released: Mono,
    /// How long the masters took to grant the last lease.
    round_trip: Duration,
    /// Since when this process has taken the lock again and again, and they were not let in.
    since: Option<Mono>,
    /// Somebody elsewhere is to be told soon, unless the lock is taken here again.
    tell_due: bool,
    waiters: VecDeque<Arc<Waiter>>,
}

impl Line {
    fn is_idle(&self, now: Mono) -> bool {
        let nobody = self.others.is_none_or(|heard| now.since(heard) > MEMORY);
        !self.occupied && !self.tell_due && self.waiters.is_empty() && self.yield_until <= now && nobody
    }
}

#[derive(Default)]
struct Shard {
    lines: HashMap<Arc<str>, Line>,
    closed: bool,
}

/// The lines of a client.
pub(crate) struct Queues {
    shards: [Mutex<Shard>; SHARDS],
}

/// How a call enters.
pub(crate) enum Entered {
    /// It contends, and nobody else of this process does; not before the given moment.
    Turn(Place, Mono),
    /// It contends beside others.
    Free,
    /// It has been handed a lease, and the place that goes with it.
    Lease(Arc<Lease>, Place),
    /// A thread of this process holds the lock, and the call does not wait (any longer).
    HeldByOther,
    /// The client was closed.
    Closed,
}

/// The right to contend for a name and to hold it; dropped, it goes to the next in line.
pub(crate) struct Place {
    queues: Arc<Queues>,
    name: Arc<str>,
    /// It is another's now.
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

    /// Enters the line of a name, and waits in it for as long as `patience` lasts.
    pub(crate) fn enter(self: &Arc<Self>, keys: &Keys, terms: &Arc<Terms>, patience: &mut Patience<'_>) -> Entered {
        let (waiter, near) = {
            let mut shard = self.shard(&keys.name).lock();
            if shard.closed {
                return Entered::Closed;
            }
            let line = match shard.lines.entry(keys.name.clone()) {
                Entry::Vacant(vacant) => vacant.insert(Line::default()),
                Entry::Occupied(line) => line.into_mut(),
            };
            if !line.occupied {
                line.occupied = true;
                return Entered::Turn(self.place(&keys.name), line.yield_until);
            }
            if line.outage {
                return Entered::Free;
            }
            if patience.wait == Wait::Once {
                return if line.held { Entered::HeldByOther } else { Entered::Free };
            }
            let waiter =
                Arc::new(Waiter { thread: current(), terms: terms.clone(), grant: Mutex::new(Rank::Grant, None) });
            line.waiters.push_back(waiter.clone());
            let near = line.passing && line.waiters.len() <= YIELDS as usize;
            (InLine { queues: self, name: &keys.name, waiter: Some(waiter) }, near)
        };
        if near {
            give_way(YIELDS, || waiter.has_grant());
        }
        self.wait(&keys.name, waiter, patience)
    }

    fn wait(self: &Arc<Self>, name: &Arc<str>, mut waiter: InLine<'_>, patience: &mut Patience<'_>) -> Entered {
        let limit = patience.limit();
        let grant = loop {
            if let Some(grant) = waiter.take() {
                break grant;
            }
            let left = limit.since(clock::now());
            if left.is_zero() || !patience.goes_on() {
                match waiter.leave() {
                    Some(grant) => break grant,
                    None => return Entered::HeldByOther,
                }
            }
            park_timeout(left.min(patience.look()));
        };
        match grant {
            Grant::Turn if limit <= clock::now() => {
                drop(self.place(name));
                Entered::HeldByOther
            }
            Grant::Turn => Entered::Turn(self.place(name), self.yield_until(name)),
            Grant::Lease(lease) => Entered::Lease(lease, self.place(name)),
            Grant::Free => Entered::Free,
            Grant::Closed => Entered::Closed,
        }
    }

    fn place(self: &Arc<Self>, name: &Arc<str>) -> Place {
        Place { queues: self.clone(), name: name.clone(), handed_over: false }
    }

    fn yield_until(&self, name: &str) -> Mono {
        self.shard(name).lock().lines.get(name).map_or(Mono::ZERO, |line| line.yield_until)
    }

    /// A master says at `now` that others wait elsewhere for a lock that this process has released. If they were told, the
    /// lock is left alone for a moment after they were: `told` is when it was released, and the answer may be read late. If
    /// not, it is noted that they are to be told; true if nobody has noted it before.
    pub(crate) fn others_wait(&self, name: &Arc<str>, now: Mono, told: Option<Mono>) -> bool {
        let mut shard = self.shard(name).lock();
        if shard.closed {
            return false;
        }
        let line = shard.lines.entry(name.clone()).or_default();
        line.others = Some(now);
        let Some(released) = told else { return !std::mem::replace(&mut line.tell_due, true) };
        let trip = line.round_trip;
        line.yield_until = line.yield_until.max(released.plus(trip).plus(courtesy(trip)));
        (line.since, line.tell_due) = (None, false);
        false
    }

    /// When somebody elsewhere is to be told, if that is still noted: [`LATE`] after the release, if nobody here has wanted the
    /// lock since. The note is taken back if that is now, or if somebody holds on to the lock: then he tells. Where it is
    /// taken again and again the note stays, for each release would make the same one, and is looked at more and more rarely.
    pub(crate) fn tell_when(&self, name: &Arc<str>, now: Mono) -> Option<Mono> {
        let mut shard = self.shard(name).lock();
        let line = shard.lines.get_mut(name).filter(|line| line.tell_due)?;
        let at = line.released.plus(LATE);
        line.tell_due = at > now;
        match (line.occupied, line.tell_due) {
            (false, _) => Some(at),
            (true, true) => Some(now.plus(LATE.max(line.since.map_or(LATE, |since| now.since(since))))),
            (true, false) => None,
        }
    }

    /// How many threads wait in a line.
    #[cfg(feature = "unversioned")]
    pub(crate) fn in_line(&self, name: &str) -> usize {
        self.shard(name).lock().lines.get(name).map_or(0, |line| line.waiters.len())
    }

    /// Forgets lines that nobody stands in.
    pub(crate) fn sweep(&self, now: Mono) {
        for shard in &self.shards {
            shard.lock().lines.retain(|_, line| !line.is_idle(now));
        }
    }

    /// Sends everybody away, for good. Answers for which locks somebody elsewhere is still to be told, and the number under
    /// which this process waited for them.
    pub(crate) fn close(&self) -> Vec<(Arc<str>, u64)> {
        let mut to_tell = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.closed = true;
            for (name, line) in shard.lines.drain() {
                if line.tell_due && !line.occupied {
                    to_tell.push((name, line.number));
                }
                for waiter in line.waiters {
                    waiter.give(Grant::Closed);
                    waiter.wake();
                }
            }
        }
        to_tell
    }
}

/// A thread's place in a line until it takes what it is given. If it never does, because the caller's closure panicked, the
/// place is given up, and what was given goes to the next.
struct InLine<'a> {
    queues: &'a Arc<Queues>,
    name: &'a Arc<str>,
    /// Until it has taken a grant or left the line.
    waiter: Option<Arc<Waiter>>,
}

impl InLine<'_> {
    fn has_grant(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.grant.lock().is_some())
    }

    /// What the thread was given, if it was given something; it is not in line any more then.
    fn take(&mut self) -> Option<Grant> {
        let grant = self.waiter.as_ref()?.grant.lock().take()?;
        self.waiter = None;
        Some(grant)
    }

    /// Leaves the line; what was given in the last moment.
    fn leave(&mut self) -> Option<Grant> {
        let waiter = self.waiter.take()?;
        let mut shard = self.queues.shard(self.name).lock();
        let grant = waiter.grant.lock().take();
        if grant.is_none()
            && let Some(line) = shard.lines.get_mut(self.name)
        {
            line.waiters.retain(|w| !Arc::ptr_eq(w, &waiter));
        }
        grant
    }
}

impl Drop for InLine<'_> {
    fn drop(&mut self) {
        match self.leave() {
            Some(Grant::Turn) => drop(self.queues.place(self.name)),
            Some(Grant::Lease(lease)) => {
                let (place, now) = (self.queues.place(self.name), clock::now());
                lease.let_go(place.tell(now));
                place.released(now, false);
            }
            Some(Grant::Free | Grant::Closed) | None => {}
        }
    }
}

impl Place {
    fn with_line<T>(&self, act: impl FnOnce(&mut Line) -> T) -> Option<T> {
        self.queues.shard(&self.name).lock().lines.get_mut(&self.name).map(act)
    }

    /// The number under which this process has last waited for the lock, and may still be known to masters: `number`, if it
    /// is not zero.
    pub(crate) fn waited_as(&self, number: u64) {
        if number != 0 {
            self.with_line(|line| line.number = number);
        }
    }

    /// How a release at `now` tells those who wait elsewhere: the masters all do so at the same release, or none does.
    pub(crate) fn tell(&self, now: Mono) -> Tell {
        let tell = |line: &mut Line| {
            let at_once = line.since.is_none_or(|since| is_turn_over(now.since(since)));
            Tell { waiter: line.number, at_once }
        };
        self.with_line(tell).unwrap_or(Tell::AT_ONCE)
    }

    /// The lock is held from `now` on, after a round of this length: who does not wait need not ask.
    pub(crate) fn holds(&self, now: Mono, round_trip: Duration) {
        self.with_line(|line| {
            (line.held, line.outage, line.round_trip) = (true, false, round_trip);
            line.since.get_or_insert(now);
        });
    }

    /// An attempt was refused by masters enough.
    pub(crate) fn answered(&self) {
        self.with_line(|line| (line.outage, line.since) = (false, None));
    }

    /// The lock is released. Who contends for it next stands right behind the release and has not heard what is answered
    /// to it, if the releaser does not wait (`heard` is false) or others are in line: so it goes by what was said before.
    pub(crate) fn released(&self, now: Mono, heard: bool) {
        self.with_line(|line| {
            line.released = now;
            let (Some(said), Some(since)) = (line.others, line.since) else { return };
            let unheard = !heard || !line.waiters.is_empty();
            let steps = steps_back(now.since(since), now.since(said));
            if unheard && steps {
                line.yield_until = line.yield_until.max(now.plus(courtesy(line.round_trip)));
            }
        });
    }

    /// An attempt met an outage: whoever waits here contends for himself, and ends in his own time.
    pub(crate) fn outage(&self) {
        let waiters = self.with_line(|line| {
            line.outage = true;
            line.waiters.iter().for_each(|waiter| waiter.give(Grant::Free));
            std::mem::take(&mut line.waiters)
        });
        waiters.into_iter().flatten().for_each(|waiter| waiter.wake());
    }

    /// Gives `lease`, and this place with it, to the first in line, if it wants it on the same terms and `pass` agrees;
    /// the place comes back otherwise.
    pub(crate) fn hand_over(mut self, lease: &Arc<Lease>, pass: impl FnOnce() -> bool) -> Option<Place> {
        let given = self.with_line(|line| {
            let same = line.waiters.front().is_some_and(|w| w.terms.same(&lease.terms));
            let waiter = if same && pass() { line.waiters.pop_front()? } else { return None };
            waiter.give(Grant::Lease(lease.clone()));
            line.passing = true;
            Some(waiter)
        });
        let Some(waiter) = given.flatten() else { return Some(self) };
        waiter.wake();
        // Whoever takes the lease has the place now.
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
        let Entry::Occupied(mut entry) = shard.lines.entry(self.name.clone()) else { return };
        let line = entry.get_mut();
        (line.held, line.passing) = (false, false);
        let next = line.waiters.pop_front();
        if let Some(next) = &next {
            next.give(Grant::Turn);
        } else {
            line.occupied = false;
            line.outage = false;
            if line.yield_until == Mono::ZERO && line.others.is_none() && !line.tell_due {
                entry.remove();
            }
        }
        drop(shard);
        if let Some(next) = next {
            next.wake();
        }
    }
}
