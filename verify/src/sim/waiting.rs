//! How processes wait for a lock: their local queues, their places in the wait lists, and the notifications between
//! them, which may be late, lost or forged. And what is promised to waiters.

use super::clock::Time;
use super::plan::MS;
use super::state::{Action, Event, World};
use redleash::unversioned::Request;
use redleash_protocol::acquire::{CREDIT, Heard};
use redleash_protocol::local_queue::{Entering, NOTIFY_DELAY};
use redleash_protocol::wait_list::{channel_of, waiter_number};
use redleash_protocol::{Acquire, Mono, Operation, Step, Wait, acquire};

/// How long a waiter lets its subscription settle, as the listener does.
const SETTLE: Time = 20 * MS;

impl World<'_> {
    /// A call of a worker enters the local queue of its lock.
    pub(crate) fn enter(&mut self, c: usize, w: usize) {
        let worker = &self.clients[c].workers[w];
        let (name, wait, call) = (worker.name, worker.wait, worker.call);
        if worker.plan.is_some_and(|plan| plan.tries.is_some()) {
            return self.contend(c, w, false);
        }
        match self.clients[c].queues[name].local.enter(wait != Some(Wait::Once)) {
            Entering::Contends => self.contend(c, w, true),
            Entering::ContendsBeside => self.contend(c, w, false),
            Entering::Refused => self.end_call(c, w),
            Entering::Queues => {
                self.checks.count("threads behind another of their process");
                self.clients[c].queues[name].waiting.push_back(w);
                let worker = &mut self.clients[c].workers[w];
                (worker.queued, worker.busy) = (true, true);
                if let Some(Wait::Until(limit)) = wait {
                    let when = self.when(c, limit);
                    self.at(when, Event::QueueLimit(c, w, call));
                }
            }
        }
    }

    /// A call has waited in the local queue for as long as it may.
    pub(crate) fn queue_limit(&mut self, c: usize, w: usize, call: u64) {
        let worker = &self.clients[c].workers[w];
        if worker.queued && worker.call == call {
            let name = worker.name;
            self.clients[c].queues[name].waiting.retain(|other| *other != w);
            self.end_call(c, w);
        }
    }

    /// A call contends at the masters; with the place of its process, or beside others.
    pub(crate) fn contend(&mut self, c: usize, w: usize, place: bool) {
        let now = self.mono(c);
        let name = self.clients[c].workers[w].name;
        let yields = place && self.clients[c].queues[name].local.yields(now);
        let worker = &mut self.clients[c].workers[w];
        let Some(plan) = worker.plan else { return };
        (worker.place, worker.queued) = (place, false);
        let mut machine = Acquire::new(acquire::Plan { yields, ..plan });
        let step = machine.first(now);
        worker.machine = Some(machine);
        if step == Step::Listen {
            self.checks.count("calls that yielded to waiters of other processes");
        }
        self.advance(c, w, step);
    }

    /// The place in a local queue is free: the next worker has it.
    pub(crate) fn give_up_place(&mut self, c: usize, name: usize) {
        let queue = &mut self.clients[c].queues[name];
        let next = queue.waiting.pop_front();
        queue.local.leave(next.is_some());
        if let Some(w) = next {
            self.let_contend(c, w, Action::Contend);
        }
    }

    fn let_contend(&mut self, c: usize, w: usize, action: Action) {
        let worker = &mut self.clients[c].workers[w];
        (worker.next, worker.busy, worker.queued) = (Some(action), false, false);
        let late = self.scheduling();
        self.after(late, Event::Step(c, w));
    }

    /// What an attempt came to, for the other threads of the process.
    pub(crate) fn not_granted_here(&mut self, c: usize, w: usize, outage: bool) {
        let (name, place) = (self.clients[c].workers[w].name, self.clients[c].workers[w].place);
        let queue = &mut self.clients[c].queues[name];
        match (place, outage) {
            (false, _) => {}
            (true, false) => queue.local.refused(),
            (true, true) => {
                queue.local.outage();
                for w in std::mem::take(&mut queue.waiting) {
                    self.let_contend(c, w, Action::ContendBeside);
                }
            }
        }
    }

    /// A call subscribes, and goes on when a quorum of masters has confirmed it, or has not for a while.
    pub(crate) fn listen(&mut self, c: usize, w: usize) {
        self.checks.count("calls that waited at the masters");
        let name = self.clients[c].workers[w].name;
        let mut pause = 0;
        if !self.clients[c].queues[name].subscribed {
            let mut trips: Vec<Time> =
                (0..self.plan.quorum.masters()).map(|_| self.latency() + self.latency()).collect();
            trips.sort_unstable();
            let settled = trips[self.plan.quorum.votes() - 1];
            self.after(settled, Event::Subscribed(c, name));
            pause = settled.min(SETTLE);
        }
        let mut when = self.now + pause;
        if let Some(Wait::Until(limit)) = self.clients[c].workers[w].wait {
            when = when.min(self.when(c, limit));
        }
        let worker = &mut self.clients[c].workers[w];
        (worker.next, worker.busy) = (Some(Action::Listens), false);
        self.at(when, Event::Step(c, w));
    }

    /// The call is a waiter from now on.
    pub(crate) fn listens(&mut self, c: usize, w: usize) {
        let (now, random) = (self.mono(c), self.rng.bits());
        let Some(mut machine) = self.clients[c].workers[w].machine.take() else { return };
        let step = machine.listens(waiter_number(c as u64, random), now);
        self.clients[c].workers[w].machine = Some(machine);
        self.advance(c, w, step);
    }

    /// A call pauses.
    pub(crate) fn park(&mut self, c: usize, w: usize, until: Mono) {
        let when = self.when(c, until);
        let worker = &mut self.clients[c].workers[w];
        (worker.next, worker.busy) = (Some(Action::Resume), false);
        // The clocks of the history and of the client are rounded: a nanosecond may be left.
        if worker.parked_until != Some(when) || when <= self.now {
            worker.parked_until = Some(when);
            let when = when.max(self.now + 1_000);
            self.at(when, Event::Step(c, w));
        }
    }

    /// The pause of a call may be over.
    pub(crate) fn resume_call(&mut self, c: usize, w: usize) {
        let now = self.mono(c);
        let worker = &mut self.clients[c].workers[w];
        let Some(mut machine) = worker.machine.take() else { return };
        machine.heard(worker.heard, now);
        let step = machine.resume(now);
        if let Step::Round { .. } = step {
            let early = now < worker.poll;
            *(if early { &mut worker.prompted } else { &mut worker.polls }) += 1;
            let (prompted, polls) = (worker.prompted, worker.polls);
            if early {
                self.checks.count("attempts that a notification caused");
            }
            if prompted > CREDIT + polls {
                self.violated(|| format!("client {c}.{w}: {prompted} attempts by notifications, {polls} polls"));
            }
        }
        self.clients[c].workers[w].machine = Some(machine);
        self.advance(c, w, step);
    }

    /// A master has published something.
    pub(crate) fn published(&mut self, server: usize, channel: &[u8], payload: &[u8]) {
        self.checks.count("notifications sent");
        let number = std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok());
        let found = (0..self.clients.len()).flat_map(|c| (0..self.keys.len()).map(move |name| (c, name)));
        let is_channel =
            |(c, name): &(usize, usize)| channel_of(&self.keys[*name].channel, *c as u64).as_bytes() == channel;
        let (Some(number), Some((c, name))) = (number, found.into_iter().find(is_channel)) else {
            return self.violated(|| format!("a notification for nobody: {}", String::from_utf8_lossy(channel)));
        };
        for i in (0..self.plan.servers.len()).filter(|i| self.plan.servers[*i] == server).collect::<Vec<_>>() {
            let deaf = self.clients[c].deaf_until[i] > self.now || self.cut.contains_key(&(c, i));
            if !self.clients[c].alive {
                self.checks.count("notifications to waiters that died");
            } else if deaf || !self.clients[c].queues[name].subscribed || self.rng.chance(self.plan.lost_messages) {
                self.checks.count("notifications missed");
            } else {
                let trip = self.latency();
                self.after(trip, Event::Notified(c, i, name, number));
            }
        }
    }

    /// A notification reaches a client.
    pub(crate) fn notified(&mut self, c: usize, i: usize, name: usize, number: u64) {
        let is_it = |machine: &Option<Acquire>| machine.as_ref().is_some_and(|machine| machine.number() == number);
        let worker = self.clients[c].workers.iter().position(|w| w.name == name && is_it(&w.machine));
        let Some(w) = worker else { return self.checks.count("notifications to waiters that had gone") };
        self.checks.count("notifications heard");
        self.tell_worker(c, w, Heard { notified: 1 << i, subscribed: false });
    }

    /// A quorum is subscribed to: those who listen may have missed something.
    pub(crate) fn subscribed(&mut self, c: usize, name: usize) {
        self.clients[c].queues[name].subscribed = true;
        for w in 0..self.clients[c].workers.len() {
            if self.clients[c].workers[w].name == name {
                self.tell_worker(c, w, Heard { notified: 0, subscribed: true });
            }
        }
    }

    fn tell_worker(&mut self, c: usize, w: usize, heard: Heard) {
        let worker = &mut self.clients[c].workers[w];
        worker.heard.notified |= heard.notified;
        worker.heard.subscribed |= heard.subscribed;
        if matches!(worker.next, Some(Action::Resume)) && !worker.busy {
            let late = self.scheduling();
            self.after(late, Event::Step(c, w));
        }
    }

    /// A release was answered: waiters are elsewhere.
    pub(crate) fn waiters_elsewhere(&mut self, c: usize, request: &Request, notified: bool) {
        let Operation::Release { notify: Some(notify), .. } = request.command().operation else { return };
        let Some(name) = self.keys.iter().position(|keys| keys.name == request.command().keys.name) else { return };
        let now = self.mono(c);
        if self.clients[c].queues[name].local.waiters_elsewhere(now, notified) {
            let when = self.when(c, now.plus(NOTIFY_DELAY));
            self.at(when, Event::LateNotification(c, name, notify.waiter));
        }
    }

    pub(crate) fn late_notification(&mut self, c: usize, name: usize, number: u64) {
        let now = self.mono(c);
        let Some(due) = self.clients[c].queues[name].local.late_notification(now) else { return };
        if due > now {
            let when = self.when(c, due);
            return self.at(when, Event::LateNotification(c, name, number));
        }
        self.checks.count("late notifications");
        let command = self.nobodys(name, Operation::Notify(number));
        let request = Request::new(command, self.plan.quorum, self.plan.quorum.all(), false);
        self.post(c, request);
    }

    /// Somebody who may publish forges notifications.
    pub(crate) fn forge(&mut self) {
        if self.calm {
            return;
        }
        let c = self.rng.below(self.clients.len() as u64) as usize;
        let i = self.rng.below(self.plan.servers.len() as u64) as usize;
        let waiters: Vec<(usize, u64)> = (self.clients[c].workers.iter().filter(|_| self.clients[c].alive))
            .filter_map(|w| Some((w.name, w.machine.as_ref()?.number())))
            .filter(|(_, number)| *number != 0)
            .collect();
        for (name, number) in waiters {
            self.checks.count("notifications forged");
            self.notified(c, i, name, number);
        }
        let pause = self.rng.below(2 * MS);
        self.after(pause, Event::Forge);
    }

    /// What waiters are promised: a free lock is taken soon, and nobody is overtaken without end.
    pub(crate) fn watch(&mut self) {
        let Some((free_bound, wait_bound)) = self.plan.promises.filter(|_| !self.calm) else { return };
        for name in 0..self.keys.len() {
            let waits = |w: &&super::state::Worker| w.name == name && (w.queued || w.machine.is_some());
            let alive = self.clients.iter().filter(|client| client.alive);
            let longest = alive.flat_map(|c| c.workers.iter().filter(waits)).map(|w| w.begun_true).min();
            let Some(begun) = longest.filter(|_| self.is_free(name)) else {
                if let Some(begun) = longest.filter(|begun| self.now - begun > wait_bound) {
                    let waited = (self.now - begun) as f64 / 1e6;
                    self.violated(|| format!("somebody waits for lock{name} for {waited} ms, and others have it"));
                }
                self.checks.free_since[name] = None;
                continue;
            };
            let since = (*self.checks.free_since[name].get_or_insert(self.now)).max(begun);
            if self.now - since > free_bound {
                let free = (self.now - since) as f64 / 1e6;
                self.violated(|| format!("lock{name} is free for {free} ms, and somebody waits for it"));
            }
        }
        self.after(3 * MS, Event::Watch);
    }

    /// Nobody holds the lock, and a quorum of masters has no key of it.
    fn is_free(&self, name: usize) -> bool {
        let absent = |i: &usize| self.text_at(*i, &self.keys[name].lock).is_none();
        let absent = (0..self.plan.servers.len()).filter(absent).count();
        let held = (0..self.holds.len()).rev().take(20).any(|h| self.holds[h].name == name && self.is_live(h));
        !held && self.plan.quorum.reached(absent)
    }
}
