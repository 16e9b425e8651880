//! A client process: its connections, and the rounds that its threads wait for. What the engine does with sockets and
//! threads is done here with events; every decision is the library's.

use super::clock::{Clock, Time};
use super::plan::MS;
use super::state::{Action, AwaitedRound, Client, Event, Hold, Orphan, Queue, Terms, Then, Worker, World};
use redleash::unversioned::{Heard, Request, Talk};
use redleash_protocol::generation::{Deployment, quarantine};
use redleash_protocol::health::{STEADY, reconnect_pause};
use redleash_protocol::init::{Init, Step};
use redleash_protocol::reap::next_attempt;
use redleash_protocol::validity::{master_timeout, round_timeout};
use redleash_protocol::{Answer, Cause, Command, Lease, Mono, Operation, Owner};
use std::sync::Arc;
use std::time::Duration;

impl World<'_> {
    /// Starts the clients; the first one settles the masters.
    pub(crate) fn add_clients(&mut self) {
        let n = self.plan.quorum.masters();
        for c in 0..self.plan.clients {
            let machine = c / 2;
            let (clock, wall) = if machine * 2 < c {
                (self.clients[c - 1].clock.clone(), self.clients[c - 1].wall.clone())
            } else {
                let ppm = match self.rng.below(3) {
                    0 => -(self.plan.rate as i64),
                    1 => self.plan.rate as i64,
                    _ => self.rng.around(self.plan.rate),
                };
                let boot = i128::from(self.rng.between(1, 1_000_000)) * 1_000_000;
                (Clock::new(boot, ppm), Clock::wall(self.rng.around(self.plan.client_offset), ppm))
            };
            let misfit = self.plan.misfit == Some(c);
            let max_lease = if misfit { self.plan.ttl } else { self.plan.max_lease + Duration::from_millis(1) };
            let deployment = Deployment::new("sim", self.plan.quorum, max_lease, self.plan.drift);
            self.clients.push(Client {
                clock,
                wall,
                machine,
                alive: true,
                paused_until: 0,
                stash: Vec::new(),
                talks: (0..n).map(|i| Talk::new(i, &deployment, self.plan.quarantine)).collect(),
                max_lease,
                block: deployment.block().into(),
                init: None,
                workers: (0..self.plan.workers).map(|_| Worker::default()).collect(),
                conns: vec![None; n],
                inbox: Vec::new(),
                orphans: Vec::new(),
                reposted: Vec::new(),
                steadiness: vec![(Mono::ZERO, 0); n],
                queues: (0..self.plan.names).map(|_| Queue::default()).collect(),
                deaf_until: vec![0; n],
            });
            for i in 0..n {
                self.connect(c, i);
            }
            for w in 0..self.plan.workers {
                let start = 20 * MS + self.rng.below(self.plan.ttl.as_nanos() as Time);
                self.after(start, Event::Step(c, w));
            }
        }
        if self.plan.servers.len() > self.servers.len() {
            self.checks.count("two names of one server");
        }
        if self.plan.quarantine {
            self.init(0);
            for c in 1..self.plan.clients {
                if self.plan.inits && self.plan.misfit != Some(c) && self.rng.chance(60) {
                    let later = self.rng.below(5 * MS);
                    self.after(later, Event::Init(c));
                }
            }
        }
    }

    /// A client settles the masters, or looks again after a pause.
    pub(crate) fn init(&mut self, c: usize) {
        if self.clients[c].init.is_none() {
            let now = self.mono(c);
            self.clients[c].init = Some(Init::new(&self.clients[c].block, now));
        }
        self.init_step(c, Operation::Blank { mark: false }, 0);
    }

    fn init_step(&mut self, c: usize, operation: Operation, nonce: u64) {
        let command = Command { nonce, ..self.nobodys(0, operation) };
        let request = self.round_of(command);
        let deadline = self.mono(c).plus(Duration::from_millis(200));
        self.ask(c, request, deadline, Then::Init);
    }

    /// A round of an init is over.
    pub(crate) fn init_looked(&mut self, c: usize, request: &Request) {
        let (now, random) = (self.mono(c), self.rng.bits());
        let ground = |answer: &Option<(Answer, Mono)>| match answer {
            Some((Answer::Ground(ground), _)) => Some(ground.clone()),
            _ => None,
        };
        let grounds: Vec<_> = request.look(|r| r.answers().iter().map(ground).collect());
        let Some(mut init) = self.clients[c].init.take() else { return };
        let (taken_back, step) = init.after(&grounds, now, random);
        self.note(|| format!("client {c}: init finds {grounds:?}: {step:?}"));
        if let Some(nonce) = taken_back {
            self.checks.count("marks of an init taken back");
            let command = Command { nonce, ..self.nobodys(0, Operation::Init { settle: false }) };
            self.post(c, Request::new(command, self.plan.quorum, self.plan.quorum.all(), false));
        }
        let nonce = self.rng.bits();
        match step {
            Step::Done { already } => {
                return self.checks.count(if already { "inits with nothing to do" } else { "masters settled" });
            }
            Step::Refused | Step::NoAnswer => return self.checks.count("inits refused"),
            Step::Mark => init.marks(nonce),
            _ => {}
        }
        self.clients[c].init = Some(init);
        match step {
            Step::Mark => self.init_step(c, Operation::Blank { mark: true }, nonce),
            Step::Settle(nonce) => self.init_step(c, Operation::Init { settle: true }, nonce),
            Step::Pause(pause) => self.after(pause.as_nanos() as Time, Event::Init(c)),
            _ => self.init_step(c, Operation::Blank { mark: false }, 0),
        }
    }

    /// A command about nobody's value.
    pub(crate) fn nobodys(&mut self, name: usize, operation: Operation) -> Command {
        let owner = Owner::new(redleash_protocol::Token::from_bytes([0; 16]), &Arc::from(""), 0);
        Command { keys: self.keys[name].clone(), owner: Arc::new(owner), operation, nonce: self.rng.bits() }
    }

    /// A round to all masters that somebody waits for.
    pub(crate) fn round_of(&self, command: Command) -> Request {
        Request::new(command, self.plan.quorum, self.plan.quorum.all(), true)
    }

    /// How long a round of this ttl is waited for.
    pub(crate) fn round_timeout(&self, ttl: Duration) -> Duration {
        round_timeout(ttl, None, None)
    }

    /// Queues a round, and has a thread wait for it until the deadline.
    pub(crate) fn ask(&mut self, client: usize, request: Request, deadline: Mono, then: Then) {
        self.next_wait += 1;
        let id = self.next_wait;
        self.rounds.insert(id, AwaitedRound { client, request: request.clone(), then });
        let (when, late) = (self.when(client, deadline), self.scheduling());
        self.at(when.saturating_add(late), Event::Wake(client, id));
        self.post(client, request);
    }

    /// Queues a round that nobody waits for.
    pub(crate) fn post(&mut self, client: usize, request: Request) {
        self.clients[client].inbox.push((request, None));
        // Any thread that is there writes; it may be slow.
        let late = if self.rng.chance(70) { 0 } else { self.scheduling() };
        self.after(late, Event::Flush(client));
    }

    pub(crate) fn flush(&mut self, c: usize) {
        let batch = std::mem::take(&mut self.clients[c].inbox);
        let now = self.mono(c);
        let limit = master_timeout(self.plan.ttl, None);
        for i in 0..self.plan.quorum.masters() {
            let jobs: Vec<(Request, bool)> = batch
                .iter()
                .filter(|(request, to)| to.map_or(request.targets() >> i & 1 == 1, |to| to == i))
                .map(|(request, to)| (request.clone(), to.is_some()))
                .collect();
            if jobs.is_empty() {
                continue;
            }
            let Some(conn) = self.clients[c].conns[i] else {
                for (request, _) in jobs {
                    self.failed(c, i, &request, Cause::Down("connecting".into()));
                }
                continue;
            };
            let (bytes, decided) = self.clients[c].talks[i].write(&jobs, now, limit);
            for request in decided {
                self.checks.count("masters that nobody waited for");
                self.decided(c, &request);
            }
            if !bytes.is_empty() {
                self.send(conn, bytes);
                let overdue = self.when(c, now.plus(self.plan.hang_timeout)) + MS;
                self.at(overdue, Event::Overdue(c, i, conn));
            }
        }
    }

    /// The thread that waits for a round may run.
    fn decided(&mut self, c: usize, request: &Request) {
        let found = self.rounds.iter().find(|(_, w)| w.client == c && w.request.is(request)).map(|(id, _)| *id);
        if let Some(id) = found {
            let late = self.scheduling();
            self.after(late, Event::Wake(c, id));
        }
    }

    /// A master gives no answer to a round.
    fn failed(&mut self, c: usize, i: usize, request: &Request, cause: Cause) {
        self.answered(c, i, request, Answer::Failed(cause));
    }

    fn answered(&mut self, c: usize, i: usize, request: &Request, answer: Answer) {
        let now = self.mono(c);
        self.checks.answer(&answer);
        // Masters say it in whole milliseconds.
        let whole = quarantine(self.clients[c].max_lease, self.plan.drift) + Duration::from_millis(1);
        if matches!(answer, Answer::Quarantined(left) if left > whole && self.plan.misfit.is_none()) {
            self.violated(|| format!("master {i} says {answer:?}, and a whole quarantine is {whole:?}"));
        }
        if matches!(answer, Answer::Failed(_)) && request.command().operation.is_release() {
            self.undelivered(c, i, request);
        }
        if let Answer::Yes(Some(said @ (2 | 3))) = answer
            && request.command().operation.is_release()
        {
            self.waiters_elsewhere(c, request, said == 2);
        }
        if request.answer(i, answer, now) {
            self.decided(c, request);
        }
    }

    pub(crate) fn hear(&mut self, conn: usize, bytes: &[u8]) {
        let (c, i) = (self.connections[conn].client, self.connections[conn].name);
        if self.clients[c].conns[i] != Some(conn) {
            return;
        }
        let mut heard = Vec::new();
        let sane = self.clients[c].talks[i].read(bytes, |h| heard.push(h));
        let mut resend = false;
        let ends = |a: &Answer| a.ends_the_connection().is_some_and(|cause| *cause != Cause::Nonsense);
        let ended = heard.iter().any(|h| matches!(h, Heard::Answer(_, answer) if ends(answer)));
        for h in heard {
            match h {
                Heard::Answer(request, answer) => self.answered(c, i, &request, answer),
                Heard::NoScript(request) => {
                    self.checks.count("scripts sent again");
                    self.clients[c].inbox.push((request, Some(i)));
                    resend = true;
                }
            }
        }
        if resend {
            self.flush(c);
        }
        if ended {
            self.checks.count("connections that a failover ended");
            self.disconnect(conn, false);
        } else if !sane {
            self.violated(|| format!("master {i} gave an answer that makes no sense"));
        }
    }

    /// A connection is given up by its client.
    pub(crate) fn disconnect(&mut self, conn: usize, overdue: bool) {
        let (c, i) = (self.connections[conn].client, self.connections[conn].name);
        self.close(conn);
        if self.clients[c].conns[i] != Some(conn) {
            return;
        }
        self.checks.count("connections given up");
        self.note(|| format!("client {c} gives up its connection to master {i}"));
        let now = self.mono(c);
        // The subscription may be dead, too: another one is made.
        let deaf = self.now + self.latency() + self.latency() + 10 * MS;
        let client = &mut self.clients[c];
        client.deaf_until[i] = deaf;
        client.conns[i] = None;
        let unanswered = client.talks[i].give_up();
        let (installed, flaps) = client.steadiness[i];
        client.steadiness[i].1 = if now.since(installed) < STEADY { flaps.saturating_add(1) } else { 0 };
        let pause = reconnect_pause(client.steadiness[i].1).as_nanos() as Time;
        let cause = if overdue { Cause::Hung } else { Cause::Broken("closed by the server".into()) };
        for request in unanswered {
            self.failed(c, i, &request, cause.clone());
        }
        let trip = self.rng.below(2 * MS);
        self.after(pause + trip, Event::Connect(c, i));
    }

    pub(crate) fn connect(&mut self, c: usize, i: usize) {
        if self.clients[c].conns[i].is_some() {
            return;
        }
        let Some((conn, (identity, replicated))) = self.dial(c, i) else {
            let again = self.rng.between(10, 250) * MS;
            return self.after(again, Event::Connect(c, i));
        };
        let now = self.mono(c);
        let client = &mut self.clients[c];
        client.talks[i].connected(&identity, replicated);
        client.conns[i] = Some(conn);
        client.steadiness[i].0 = now;
        for orphan in client.orphans.iter_mut().filter(|o| o.master == i) {
            orphan.due = Mono::ZERO;
        }
        if client.orphans.iter().any(|o| o.master == i) {
            self.after(0, Event::Reap(c, i));
        }
    }

    pub(crate) fn overdue(&mut self, c: usize, i: usize, conn: usize) {
        let now = self.mono(c);
        let client = &self.clients[c];
        if client.conns[i] == Some(conn) && client.talks[i].is_overdue(now, self.plan.hang_timeout) {
            self.disconnect(conn, true);
        }
    }

    /// A release may not have reached a master: it is tried again, as the reaper does.
    fn undelivered(&mut self, c: usize, i: usize, request: &Request) {
        let now = self.mono(c);
        let client = &mut self.clients[c];
        let known = client.reposted.iter().position(|(r, ..)| r.is(request)).map(|k| client.reposted.swap_remove(k));
        let (tries, key_ends) = known.map_or((0, now.plus(client.max_lease)), |(_, tries, ends)| (tries, ends));
        if let Some(due) = next_attempt(tries, now, key_ends) {
            client.orphans.push(Orphan { request: request.clone(), master: i, due, key_ends, tries });
            let when = self.when(c, due);
            self.at(when, Event::Reap(c, i));
        }
    }

    pub(crate) fn reap(&mut self, c: usize, i: usize) {
        let now = self.mono(c);
        let connected = self.clients[c].conns[i].is_some();
        let client = &mut self.clients[c];
        client.orphans.retain(|o| o.key_ends > now);
        let mut due = Vec::new();
        let mut k = 0;
        while k < client.orphans.len() {
            if client.orphans[k].master == i && client.orphans[k].due <= now && connected {
                due.push(client.orphans.swap_remove(k));
            } else {
                k += 1;
            }
        }
        for Orphan { request, key_ends, tries, .. } in due {
            self.checks.count("releases tried again");
            let again = Request::new(request.command().clone(), self.plan.quorum, 1 << i, false);
            self.clients[c].reposted.push((again.clone(), tries + 1, key_ends));
            self.post(c, again);
        }
    }

    /// Enters a lease that was granted, and plans what is due for it.
    pub(crate) fn hold(&mut self, hold: Hold) -> usize {
        self.holds.push(hold);
        let number = self.holds.len() - 1;
        self.replan(number);
        number
    }

    /// Plans what is due next for a lease.
    pub(crate) fn replan(&mut self, hold: usize) {
        let (client, due) = (self.holds[hold].client, self.holds[hold].lease.next_due());
        self.holds[hold].timer = due.map(|at| self.when(client, at));
        if let Some(when) = self.holds[hold].timer {
            self.at(when, Event::Lease(hold));
        }
        let until = self.holds[hold].lease.until();
        let end = self.when(client, until);
        self.at(end, Event::Deadline(hold, until));
    }

    /// Something is due for a lease: as the timer's thread does it.
    pub(crate) fn lease_due(&mut self, hold: usize) {
        if self.holds[hold].timer.is_none_or(|when| when > self.now) || self.holds[hold].over {
            return;
        }
        self.holds[hold].timer = None;
        let client = self.holds[hold].client;
        loop {
            let now = self.mono(client);
            match self.holds[hold].lease.poll(now) {
                redleash_protocol::Todo::Wait(at) => {
                    let when = self.when(client, at);
                    self.holds[hold].timer = Some(when);
                    return self.at(when, Event::Lease(hold));
                }
                redleash_protocol::Todo::Renew => {
                    self.checks.count("renewals");
                    let ttl = self.holds[hold].terms.ttl;
                    // The renewal under way plans the next one.
                    if self.plan.shared_watchdog { self.extend_many(hold) } else { self.extend(hold, ttl, None) }
                }
                redleash_protocol::Todo::Announce(_) => {
                    self.holds[hold].announced = true;
                    return self.leave_place(hold);
                }
                redleash_protocol::Todo::Nothing => return,
            }
        }
    }

    /// A process ends.
    pub(crate) fn crash(&mut self, c: usize) {
        self.note(|| format!("client {c} crashes"));
        self.clients[c].alive = false;
        for conn in self.clients[c].conns.clone().into_iter().flatten() {
            self.close(conn);
        }
        for hold in self.holds.iter_mut().filter(|h| h.client == c) {
            hold.over = true;
        }
        self.rounds.retain(|_, w| w.client != c);
    }

    /// A new lease's record.
    pub(crate) fn new_hold(
        &self,
        client: usize,
        name: usize,
        lease: Lease,
        owner: Arc<Owner>,
        terms: Terms,
        (request, line): (&Request, u64),
    ) -> Hold {
        Hold {
            client,
            name,
            lease,
            owner,
            terms,
            votes: request.look(|r| r.yes_mask()),
            request: request.clone(),
            good_at: self.now,
            fence: None,
            extending: false,
            line,
            place: false,
            over: false,
            announced: false,
            seen_lost: false,
            timer: None,
        }
    }

    /// A worker that adopts a handle joins a client.
    pub(crate) fn add_worker(&mut self, c: usize, action: Action) {
        self.clients[c].workers.push(Worker::with(action));
        let w = self.clients[c].workers.len() - 1;
        let pause = self.rng.below(self.plan.ttl.as_nanos() as Time / 2);
        self.after(pause, Event::Step(c, w));
    }
}
