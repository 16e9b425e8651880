//! The world of one history: true time, the network, the servers and the clients, one event after the other.

use super::clock::{Clock, Time};
use super::lua::Interpreter;
use super::plan::{Fault, MS, Plan};
use super::rng::Rng;
use super::server::Server;
use super::state::{Checks, Connection, Event, World};
use redleash_protocol::{Mono, Namespace};
use std::collections::BTreeMap;
use std::sync::Arc;

/// More events than any history needs: it goes round in circles.
const TOO_MANY: u64 = 400_000;

impl<'a> World<'a> {
    /// The world of a seed.
    pub(crate) fn new(seed: u64, lua: &'a Interpreter, traced: bool) -> World<'a> {
        let mut rng = Rng::new(seed);
        let plan = Plan::draw(&mut rng);
        let count = plan.servers.iter().max().map_or(0, |max| max + 1);
        let server = |i: usize, rng: &mut Rng| {
            let clock = Clock::wall(rng.around(plan.server_offset), rng.around(plan.rate));
            Server::new(clock, format!("{:016x}{:023x}{i:x}", rng.bits(), 0))
        };
        let mut servers: Vec<Server> = (0..count).map(|i| server(i, &mut rng)).collect();
        let replicated = plan.faults.iter().any(|(_, fault)| *fault == Fault::FailBack);
        servers.iter_mut().for_each(|server| server.replicated = replicated);
        let namespace = Namespace::new("rl").unwrap_or_else(|_| unreachable!("a good namespace"));
        let name = |k: usize| namespace.keys(&format!("lock{k}")).unwrap_or_else(|_| unreachable!("a good name"));
        let keys = (0..plan.names).map(|k| Arc::new(name(k))).collect();
        let mut world = World {
            now: 0,
            servers,
            clients: Vec::new(),
            connections: Vec::new(),
            holds: Vec::new(),
            rounds: BTreeMap::new(),
            keys,
            checks: Checks::new(plan.names, traced),
            cut: BTreeMap::new(),
            slow_until: 0,
            calm: false,
            attempts_left: plan.attempts,
            enough: false,
            next_wait: 0,
            lua,
            queue: BTreeMap::new(),
            next_event: 0,
            events: 0,
            plan,
            rng,
        };
        world.populate();
        world
    }

    /// The scripts.
    pub(crate) fn lua(&self) -> &'a Interpreter {
        self.lua
    }

    /// Adds a line to the trace, if somebody wants to read it.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.checks.trace {
            trace.push(format!("{:>12.3} ms  {}", now as f64 / 1e6, line()));
        }
    }

    /// Enters an event.
    pub(crate) fn at(&mut self, when: Time, event: Event) {
        self.next_event += 1;
        self.queue.insert((when.max(self.now), self.next_event), event);
    }

    /// Enters an event that comes some nanoseconds from now.
    pub(crate) fn after(&mut self, nanos: Time, event: Event) {
        self.at(self.now.saturating_add(nanos), event);
    }

    /// Runs the history to its end.
    pub(crate) fn run(&mut self) {
        while let Some(((when, _), event)) = self.queue.pop_first() {
            self.now = when;
            self.events += 1;
            if self.events > TOO_MANY {
                self.violated(|| "the history does not end".into());
            }
            if self.checks.violation.is_some() || self.enough || self.is_over() {
                return;
            }
            self.handle(event);
        }
        self.violated(|| "nothing happens any more, and not everybody got the lock in the end".into());
    }

    fn handle(&mut self, event: Event) {
        let client = match &event {
            Event::ToClient(conn, _) | Event::Closed(conn) => Some(self.connections[*conn].client),
            Event::Connect(c, _) | Event::Flush(c) | Event::Wake(c, _) | Event::Step(c, _) => Some(*c),
            Event::Overdue(c, ..) | Event::Reap(c, _) | Event::Init(c) => Some(*c),
            Event::Notified(c, ..) | Event::Subscribed(c, _) | Event::LateNotification(c, ..) => Some(*c),
            Event::QueueLimit(c, ..) => Some(*c),
            Event::Lease(hold) => Some(self.holds[*hold].client),
            _ => None,
        };
        if let Some(c) = client {
            let client = &self.clients[c];
            if !client.alive {
                return;
            }
            if client.paused_until > self.now || !client.stash.is_empty() {
                if client.stash.is_empty() {
                    self.at(client.paused_until, Event::Resume(c));
                }
                return self.clients[c].stash.push(event);
            }
        }
        self.carry_out(event);
    }

    /// A paused client goes on: what has come meanwhile comes now, in its order, or the threads run before they
    /// read, or read before they run.
    fn resume(&mut self, c: usize) {
        if self.clients[c].paused_until > self.now {
            let until = self.clients[c].paused_until;
            return self.at(until, Event::Resume(c));
        }
        let mut stash = std::mem::take(&mut self.clients[c].stash);
        let heard = |event: &Event| matches!(event, Event::ToClient(..) | Event::Closed(_));
        match self.rng.below(3) {
            0 => stash.sort_by_key(heard),
            1 => stash.sort_by_key(|event| !heard(event)),
            _ => {}
        }
        for event in stash {
            if self.clients[c].alive {
                self.carry_out(event);
            }
        }
    }

    /// A stopped server goes on.
    fn wake_server(&mut self, server: usize) {
        if self.servers[server].stopped_until > self.now {
            let until = self.servers[server].stopped_until;
            return self.at(until, Event::WakeServer(server));
        }
        for (conn, bytes) in std::mem::take(&mut self.servers[server].stash) {
            self.serve(conn, bytes);
        }
    }

    fn carry_out(&mut self, event: Event) {
        match event {
            Event::ToServer(conn, bytes) => self.serve(conn, bytes),
            Event::ToClient(conn, bytes) => self.hear(conn, &bytes),
            Event::Closed(conn) => self.disconnect(conn, false),
            Event::Connect(c, i) => self.connect(c, i),
            Event::Flush(c) => self.flush(c),
            Event::Wake(_, wait) => self.wake(wait),
            Event::Step(c, w) => self.step(c, w),
            Event::Lease(hold) => self.lease_due(hold),
            Event::Overdue(c, i, conn) => self.overdue(c, i, conn),
            Event::Reap(c, i) => self.reap(c, i),
            Event::Fault(fault) => self.fault(fault),
            Event::Deadline(hold, until) => self.deadline(hold, until),
            Event::Heal(c, i) => {
                if self.cut.get(&(c, i)).is_some_and(|until| *until <= self.now) {
                    self.cut.remove(&(c, i));
                }
            }
            Event::Calm => self.calm_down(),
            Event::Resume(c) => self.resume(c),
            Event::Snapshot => (0..self.servers.len()).for_each(|server| self.snapshot(server)),
            Event::WakeServer(server) => self.wake_server(server),
            Event::Init(c) => self.init(c),
            Event::Notified(c, i, name, number) => self.notified(c, i, name, number),
            Event::Subscribed(c, name) => self.subscribed(c, name),
            Event::LateNotification(c, name, number) => self.late_notification(c, name, number),
            Event::QueueLimit(c, w, call) => self.queue_limit(c, w, call),
            Event::Forge => self.forge(),
            Event::Watch => self.watch(),
            Event::Trap(trap) => self.spring(trap),
        }
    }

    /// How long a message is on its way.
    pub(crate) fn latency(&mut self) -> Time {
        let (low, high) = self.plan.latency;
        let mut time = self.rng.between(low, high);
        if !self.calm && self.rng.chance(self.plan.slow) {
            time += self.rng.below(self.plan.ttl.as_nanos() as Time / 2);
        }
        if self.now < self.slow_until {
            time += self.rng.below(self.plan.ttl.as_nanos() as Time);
        }
        time
    }

    /// A new connection from a client to the server behind a name, with the identity that its handshake has seen, and
    /// whether the server has replicas.
    pub(crate) fn dial(&mut self, client: usize, name: usize) -> Option<(usize, (String, bool))> {
        let server = self.plan.servers[name];
        let there = &self.servers[server];
        let Server { up, process, stopped_until, .. } = there;
        if !up || *stopped_until > self.now || self.cut.contains_key(&(client, name)) {
            return None;
        }
        let (process, seen) = (*process, (there.identity(), there.replicated));
        self.connections.push(Connection {
            client,
            name,
            server,
            process,
            open: true,
            lost_out: false,
            lost_in: false,
            last_out: 0,
            last_in: 0,
            tail: None,
            received: Vec::new(),
        });
        Some((self.connections.len() - 1, seen))
    }

    /// Puts bytes on their way to a server, behind all that went before on this connection.
    pub(crate) fn send(&mut self, conn: usize, bytes: Vec<u8>) {
        let arrives = self.now + self.latency();
        let c = &mut self.connections[conn];
        if c.lost_out || self.cut.contains_key(&(c.client, c.name)) {
            // What comes after a gap waits for it, as TCP has it.
            c.lost_out = true;
            return;
        }
        c.last_out = c.last_out.max(arrives);
        let when = c.last_out;
        self.at(when, Event::ToServer(conn, bytes));
    }

    fn serve(&mut self, conn: usize, bytes: Vec<u8>) {
        let c = &self.connections[conn];
        let (client, name, number) = (c.client, c.name, c.server);
        let server = &self.servers[number];
        if !server.up || server.process != c.process {
            return;
        }
        if server.stopped_until > self.now || !server.stash.is_empty() {
            if server.stash.is_empty() {
                self.at(server.stopped_until, Event::WakeServer(number));
            }
            return self.servers[number].stash.push((conn, bytes));
        }
        if !c.open {
            match c.tail {
                Some(when) if when > self.now => return self.at(when, Event::ToServer(conn, bytes)),
                Some(_) => self.checks.count("tails of broken connections executed"),
                None => return,
            }
        }
        let mut received = std::mem::take(&mut self.connections[conn].received);
        received.extend_from_slice(&bytes);
        let now = self.now;
        let (replies, changes) = self.servers[number].serve(&mut received, self.lua, now);
        self.connections[conn].received = received;
        if self.checks.trace.is_some() {
            let said = show(&bytes);
            let answered = show(&replies);
            self.note(|| format!("master {name} ({number}) of client {client}: {said} -> {answered}"));
        }
        self.changed(number, &changes);
        for (channel, payload) in std::mem::take(&mut self.servers[number].keys.published) {
            self.published(number, &channel, &payload);
        }
        if replies.is_empty() {
            return;
        }
        let arrives = self.now + self.latency();
        let c = &mut self.connections[conn];
        if c.lost_in || !c.open || self.cut.contains_key(&(c.client, c.name)) {
            c.lost_in = true;
            return;
        }
        c.last_in = c.last_in.max(arrives);
        let when = c.last_in;
        self.at(when, Event::ToClient(conn, replies));
    }

    /// Closes a connection at its client's end. What it has sent is executed later, or never, or as if nothing had
    /// happened.
    pub(crate) fn close(&mut self, conn: usize) {
        let later = self.now + self.rng.below(4 * self.plan.ttl.as_nanos() as Time);
        let tail = match self.rng.below(3) {
            _ if !self.plan.stragglers => None,
            0 => None,
            1 => Some(self.now),
            _ => Some(later),
        };
        let c = &mut self.connections[conn];
        if c.open {
            (c.open, c.tail) = (false, tail);
        }
    }

    /// An open connection, if there is one.
    pub(crate) fn any_connection(&mut self) -> Option<usize> {
        let open: Vec<usize> = (0..self.connections.len()).filter(|i| self.connections[*i].open).collect();
        (!open.is_empty()).then(|| self.rng.pick(&open))
    }

    /// Loses what is sent on a connection from now on, in one direction.
    pub(crate) fn cut_off(&mut self, conn: usize, requests: bool) {
        let c = &mut self.connections[conn];
        if requests { c.lost_out = true } else { c.lost_in = true }
    }

    /// The process behind a server's connections has ended: its clients notice in a moment.
    pub(crate) fn reset(&mut self, server: usize) {
        let ended: Vec<usize> = (0..self.connections.len())
            .filter(|i| self.connections[*i].open && self.connections[*i].server == server)
            .collect();
        for conn in ended {
            let when = self.latency();
            self.after(when, Event::Closed(conn));
        }
    }

    /// The time of a client.
    pub(crate) fn mono(&self, client: usize) -> Mono {
        Mono::from_nanos(self.clients[client].clock.nanos(self.now) as u64)
    }

    /// When a client's clock shows `at`.
    pub(crate) fn when(&self, client: usize, at: Mono) -> Time {
        if at == Mono::NEVER { Time::MAX } else { self.clients[client].clock.when(i128::from(at.nanos())) }
    }

    /// The wall clock of a client, in microseconds.
    pub(crate) fn wall_us(&self, client: usize) -> u64 {
        self.clients[client].wall.micros(self.now) as u64
    }

    /// How long a thread takes to run once it may.
    pub(crate) fn scheduling(&mut self) -> Time {
        let late = !self.calm && self.rng.chance(self.plan.late);
        self.rng.below(if late { self.plan.ttl.as_nanos() as Time } else { 60_000 })
    }

    fn populate(&mut self) {
        self.add_clients();
        for (when, fault) in self.plan.faults.clone() {
            self.at(when, Event::Fault(fault));
        }
        let activity = self.plan.activity;
        self.at(activity, Event::Calm);
        self.at(20 * MS, Event::Watch);
        if self.plan.forged {
            self.at(20 * MS, Event::Forge);
        }
        // An old snapshot has what was there before the first lock, and is of a settled master.
        self.at(19 * MS, Event::Snapshot);
    }

    /// The time after the last fault in which everybody gets the lock in the end.
    pub(crate) fn patience(&self) -> Time {
        let lease = self.plan.max_lease.as_nanos() as Time;
        2 * lease + 30_000 * MS
    }
}

/// The first words of requests or replies, for people.
fn show(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let words = text.split("\r\n").filter(|w| !w.starts_with(['*', '$']) && !w.is_empty());
    let short =
        words.map(|w| if w.len() > 60 { format!("{}..", w.chars().take(44).collect::<String>()) } else { w.into() });
    short.collect::<Vec<String>>().join(" ").replace('\n', " ")
}
