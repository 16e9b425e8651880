//! What the users' threads do: acquire, hold, ask, extend, hand out, adopt, release.

use super::clock::Time;
use super::plan::MS;
use super::state::{Action, Event, Handle, Terms, Then, Worker, World};
use redleash::unversioned::Request;
use redleash_protocol::acquire::{Heard, PAUSE_AT_ONCE, Plan as AcquirePlan, SPLITS_AT_ONCE};
use redleash_protocol::retry::Backoff;
use redleash_protocol::wait_list::{Notify, WaitEntry};
use redleash_protocol::{Attempt, Command, End, Judgement, LeaseState, Mono, Operation, Owner, Step, Wait};
use std::sync::Arc;
use std::time::Duration;

/// The pauses of the last phase: a quarantine of a minute is not worth sixty rounds.
const CALM: Backoff =
    Backoff { min: Duration::from_millis(20), max: Duration::from_millis(500), cap: Duration::from_secs(6) };

impl World<'_> {
    fn worker(&mut self, c: usize, w: usize) -> &mut Worker {
        &mut self.clients[c].workers[w]
    }

    /// A worker goes on in a moment.
    fn go_on(&mut self, c: usize, w: usize, nanos: Time) {
        self.worker(c, w).busy = false;
        self.after(nanos, Event::Step(c, w));
    }

    /// A pause of a worker between two things.
    fn idle(&mut self) -> Time {
        let ttl = self.plan.ttl.as_nanos() as Time;
        if let Some((rests, _)) = self.plan.fight {
            let long = rests && self.rng.chance(10);
            return self.rng.below(if long { 150 * MS } else { MS / 20 });
        }
        match self.rng.below(4) {
            0 => self.rng.below(MS),
            1 => self.rng.below(ttl / 10),
            2 => self.rng.below(ttl / 2),
            _ => self.rng.below(ttl * 3 / 2),
        }
    }

    pub(crate) fn step(&mut self, c: usize, w: usize) {
        if self.worker(c, w).busy {
            return;
        }
        if let Some(hold) = self.worker(c, w).hold {
            return self.act(c, w, hold);
        }
        match self.worker(c, w).next.take() {
            Some(Action::Resume) => self.resume_call(c, w),
            Some(Action::Contend) => {
                let now = self.mono(c);
                let over = matches!(self.worker(c, w).wait, Some(Wait::Until(limit)) if limit <= now);
                self.worker(c, w).place = over;
                if over { self.end_call(c, w) } else { self.contend(c, w, true) }
            }
            Some(Action::ContendBeside) => self.contend(c, w, false),
            Some(Action::Listens) => self.listens(c, w),
            Some(Action::Adopt(handle)) => self.adopt(c, w, handle),
            _ => self.begin(c, w),
        }
    }

    /// Begins a call that acquires.
    fn begin(&mut self, c: usize, w: usize) {
        if self.worker(c, w).content || (self.calm && w > 0) || (!self.calm && self.attempts_left == 0) {
            return;
        }
        let ttl = match self.rng.below(4) {
            0 => self.plan.max_lease.min(self.plan.ttl * 2),
            _ => self.plan.ttl,
        };
        let ttl = if self.plan.misfit == Some(c) { self.plan.ttl } else { ttl };
        let delay = self.plan.lock_delay.min(self.plan.max_lease.saturating_sub(ttl));
        let terms = Terms {
            ttl,
            renew: self.rng.chance(60) || self.plan.fight.is_some(),
            fenced: self.rng.chance(self.plan.fenced.0),
            lock_delay: delay,
            max_hold: self.rng.chance(10).then(|| ttl * 2).filter(|_| self.plan.fight.is_none()),
        };
        let now = self.mono(c);
        let wait = match self.rng.below(4) {
            _ if self.calm => Wait::Forever { outage_patience: Duration::from_secs(100_000) },
            1 | 2 if self.plan.fight.is_some() => Wait::Forever { outage_patience: self.plan.ttl * 2 },
            0 if self.plan.fight.is_none() => Wait::Once,
            0..3 => Wait::Until(now.plus(self.plan.ttl * self.rng.between(1, 4) as u32 / 2)),
            _ => Wait::Forever { outage_patience: self.plan.ttl * 2 },
        };
        let usual = !self.calm && self.plan.fight.is_none();
        let plan = AcquirePlan {
            quorum: self.plan.quorum,
            wait,
            tries: self.rng.chance(10).then_some(5).filter(|_| usual),
            fail_fast: self.rng.chance(10) && usual,
            backoff: if self.calm { CALM } else { self.plan.backoff },
            custom_pauses: false,
            always_full: terms.fenced,
            yields: false,
        };
        let name = self.rng.below(self.plan.names as u64) as usize;
        let begun_true = self.now;
        let worker = self.worker(c, w);
        (worker.name, worker.terms, worker.plan, worker.wait) = (name, terms, Some(plan), Some(wait));
        (worker.begun, worker.begun_true, worker.call) = (now, begun_true, worker.call + 1);
        (worker.prompted, worker.polls, worker.heard) = (0, 0, Heard::default());
        self.note(|| format!("client {c}.{w} begins to acquire lock{name}: {wait:?}, {terms:?}"));
        self.enter(c, w);
    }

    /// A call is over without a lock.
    pub(crate) fn end_call(&mut self, c: usize, w: usize) {
        self.call_ended(c, w);
        let worker = self.worker(c, w);
        (worker.machine, worker.queued) = (None, false);
        let (name, place) = (worker.name, std::mem::take(&mut worker.place));
        if place {
            self.give_up_place(c, name);
        }
        let idle = self.idle();
        self.go_on(c, w, idle);
    }

    pub(crate) fn advance(&mut self, c: usize, w: usize, step: Step) {
        match step {
            Step::Listen => self.listen(c, w),
            Step::Round { full, entry } => self.attempt(c, w, full, entry),
            Step::Park(until) => self.park(c, w, until),
            Step::Done(end) => {
                self.checks.count(match end {
                    End::Contended => "calls that ended contended",
                    End::TriesUsedUp => "calls that used up their tries",
                    End::NoQuorum => "calls that ended without a quorum",
                    End::TooSlow => "calls that ended too slow",
                    End::Quarantined => "calls that ended in a quarantine",
                    End::Conflict => "calls that ended in a conflict",
                    End::Mismatch => "calls that ended in a mismatch",
                });
                self.note(|| format!("client {c}.{w}: {end:?}"));
                self.end_call(c, w);
            }
        }
    }

    /// Every call ends within its limit, one round more for a write-back.
    fn call_ended(&mut self, c: usize, w: usize) {
        let now = self.mono(c);
        let (paused, late) = (self.clients[c].paused_until, self.plan.late);
        let worker = &self.clients[c].workers[w];
        let round = self.round_timeout(worker.terms.ttl) + Duration::from_millis(2);
        let limit = match worker.wait {
            Some(Wait::Until(at)) => at.plus(round * 2),
            // The question by plain commands, the one by the script, a write-back; and what is asked again, with its
            // pauses.
            Some(Wait::Once) => worker.begun.plus(round * 3 + (round + PAUSE_AT_ONCE) * SPLITS_AT_ONCE),
            _ => return,
        };
        let undisturbed = paused < worker.begun_true && late == 0;
        if undisturbed && now > limit {
            let over = now.since(limit);
            self.violated(|| format!("a call of client {c}.{w} ended {over:?} after its limit"));
        }
    }

    /// One attempt of a call.
    fn attempt(&mut self, c: usize, w: usize, full: bool, entry: Option<WaitEntry>) {
        self.attempts_left = self.attempts_left.saturating_sub(1);
        if self.attempts_left == 0 && !self.calm {
            return self.end_call(c, w);
        }
        let name = self.worker(c, w).name;
        self.lie_in_wait(c, name);
        let wall_us = self.wall_us(c);
        let (fresh, nonce) = (self.rng.token(), self.rng.bits());
        let worker = &mut self.clients[c].workers[w];
        let Some(machine) = &mut worker.machine else { return };
        let token = machine.token(fresh);
        let owner = Arc::new(Owner::new(token, &Arc::from(format!("{c}.{w}")), wall_us / 1_000));
        let terms = worker.terms;
        let limit = if let Some(Wait::Until(at)) = worker.wait { at } else { Mono::NEVER };
        (worker.busy, worker.heard) = (true, Heard::default());
        let operation = Operation::Acquire { px_ms: terms.px_ms(terms.ttl), full, fence: terms.fenced, entry };
        let command = Command { keys: self.keys[name].clone(), owner: owner.clone(), operation, nonce };
        self.checks.life(owner.secret_hex(), terms.px_ms(terms.ttl));
        let start = self.mono(c);
        let attempt = Attempt::acquiring(start, terms.ttl, self.plan.drift);
        let deadline = start.plus(self.round_timeout(terms.ttl)).min(limit);
        let request = self.round_of(command);
        self.ask(c, request, deadline, Then::Attempt { worker: w, attempt, owner });
    }

    /// The masters on which an attempt is undone.
    pub(crate) fn take_back(&mut self, c: usize, request: &Request, targets: u32) {
        if targets != 0 {
            self.checks.count("attempts undone");
            let command = Command {
                operation: Operation::Release { keep: Duration::ZERO, notify: None },
                ..request.command().clone()
            };
            self.post(c, Request::new(command, self.plan.quorum, targets, false));
        }
    }

    /// A thread that waited for a round runs again.
    pub(crate) fn wake(&mut self, id: u64) {
        let Some(wait) = self.rounds.remove(&id) else { return };
        let (c, request) = (wait.client, wait.request);
        let end = self.mono(c);
        match wait.then {
            Then::Attempt { worker, attempt, owner } => self.attempted(c, worker, &request, attempt, owner),
            Then::Adopt { worker, attempt, owner } => self.adopted(c, worker, &request, attempt, owner),
            Then::FoldedBack { worker, hold, token, until } => {
                self.folded_back(c, worker, &request, hold, token, until)
            }
            Then::Extend { worker, hold, extension } => self.extended(&request, worker, hold, extension),
            Then::ExtendMany { leases } => self.extended_many(&request, leases),
            Then::Fence { worker, hold, until } => self.fenced(worker, &request, hold, until),
            Then::FenceBack { worker, hold, token, until } => {
                let reached = request.look(|r| r.reached());
                let present = self.holds[hold].lease.until();
                let settling = redleash_protocol::fence::written_back(token, reached, end, until, present);
                self.settled(c, worker, hold, settling);
            }
            Then::Verify { worker, hold } => {
                let quarantine = self.plan.quarantine;
                if let Some(reason) = request.look(|r| r.against(quarantine)) {
                    self.lose(hold, reason);
                }
                self.go_on(c, worker, 0);
            }
            Then::Release { worker } => {
                if request.look(|r| r.reached()) {
                    self.checks.count("releases confirmed");
                }
                let idle = self.idle();
                self.go_on(c, worker, idle);
            }
            Then::Init => self.init_looked(c, &request),
        }
    }

    fn attempted(&mut self, c: usize, w: usize, request: &Request, attempt: Attempt, owner: Arc<Owner>) {
        let end = self.mono(c);
        let (judgement, counters, undone) = request.look(|round| {
            let judgement = attempt.judge(round, end);
            let undone = attempt.end(&judgement, round);
            (judgement, round.counters(), undone)
        });
        self.checks.judgement(&judgement);
        self.take_back(c, request, undone);
        let (name, terms) = (self.worker(c, w).name, self.worker(c, w).terms);
        if judgement != Judgement::Granted {
            return self.not_granted(c, w, &judgement, attempt);
        }
        let lease = attempt.lease(terms.lease(&self.plan), end);
        let line = self.checks.next_grant();
        let hold = self.new_hold(c, name, lease, owner, terms, (request, line));
        let hold = self.hold(hold);
        self.granted(hold);
        if terms.fenced {
            use redleash_protocol::fence::{Settling, settle};
            match settle(self.plan.quorum, &counters, end, attempt.until()) {
                Settling::Token(token) => self.fence_known(hold, token),
                Settling::WriteBack(token) => {
                    self.checks.count("folded tokens written back");
                    let crashes = self.plan.faults.iter().any(|(_, f)| *f == super::plan::Fault::Crash);
                    if crashes && self.rng.chance(10) && self.survivors() > 1 {
                        self.checks.count("crashes between grant and write-back");
                        return self.crash(c);
                    }
                    let command = self.command(hold, Operation::WriteBack(token));
                    let deadline = end.plus(self.round_timeout(terms.ttl)).min(attempt.until());
                    let request = self.round_of(command);
                    let until = attempt.until();
                    return self.ask(c, request, deadline, Then::FoldedBack { worker: w, hold, token, until });
                }
                _ => return self.abandon(c, w, hold, &Judgement::TooSlow),
            }
        }
        self.use_hold(c, w, hold);
    }

    /// A call goes on after an attempt that was not granted.
    fn not_granted(&mut self, c: usize, w: usize, judgement: &Judgement, attempt: Attempt) {
        let (now, random) = (self.mono(c), self.rng.bits());
        let ttl = self.worker(c, w).terms.ttl;
        let took = ttl.saturating_sub(attempt.until().since(now)).min(ttl);
        let Some(mut machine) = self.worker(c, w).machine.take() else { return };
        let step = machine.after_round(judgement, took, now, random, None);
        let outage = judgement.is_outage();
        let worker = self.worker(c, w);
        worker.machine = Some(machine);
        if let Step::Park(poll) = step {
            worker.poll = poll;
        }
        self.not_granted_here(c, w, outage);
        self.advance(c, w, step);
        // What was heard during the attempt counts.
        if self.worker(c, w).heard != Heard::default() {
            let late = self.scheduling();
            self.after(late, Event::Step(c, w));
        }
    }

    fn folded_back(&mut self, c: usize, w: usize, request: &Request, hold: usize, token: u64, until: Mono) {
        use redleash_protocol::fence::{Settling, written_back};
        let reached = request.look(|r| r.reached());
        match written_back(token, reached, self.mono(c), until, self.holds[hold].lease.until()) {
            Settling::Token(token) => {
                self.fence_known(hold, token);
                self.use_hold(c, w, hold);
            }
            Settling::NoQuorum => self.abandon(c, w, hold, &Judgement::NoQuorum),
            _ => self.abandon(c, w, hold, &Judgement::TooSlow),
        }
    }

    /// Takes back a grant that is not given to anybody.
    fn abandon(&mut self, c: usize, w: usize, hold: usize, judgement: &Judgement) {
        self.checks.count("grants abandoned");
        let now = self.mono(c);
        let held = &mut self.holds[hold];
        held.lease.release(now);
        held.over = true;
        let request = held.request.clone();
        let targets = request.look(|round| {
            round.close();
            round.undo_targets()
        });
        self.take_back(c, &request, targets);
        let attempt = Attempt::acquiring(now, self.worker(c, w).terms.ttl, self.plan.drift);
        self.not_granted(c, w, judgement, attempt);
    }

    /// Plans what a worker does with its lock.
    fn use_hold(&mut self, c: usize, w: usize, hold: usize) {
        self.call_ended(c, w);
        let (now, ttl) = (self.mono(c), self.plan.ttl);
        let worker = self.worker(c, w);
        let (name, number) = (worker.name, worker.machine.as_ref().map_or(0, |machine| machine.number()));
        if std::mem::take(&mut worker.place) {
            self.clients[c].queues[name].local.granted(now, number);
            self.holds[hold].place = true;
        }
        let mut actions = vec![match self.rng.below(10) {
            _ if self.calm => Action::Release,
            _ if self.plan.fight.is_some_and(|(_, drops)| drops) => Action::LetGo,
            _ if self.plan.fight.is_some() => Action::Release,
            0..4 => Action::Release,
            4..8 => Action::LetGo,
            8 if !self.holds[hold].terms.renew => Action::Forget,
            _ => Action::HandOut,
        }];
        if !self.calm && self.plan.fight.is_none() {
            for _ in 0..self.rng.below(4) {
                actions.push(match self.rng.below(4) {
                    0 => {
                        let most = self.plan.max_lease.saturating_sub(self.plan.lock_delay);
                        let ttl = ttl * self.rng.between(2, 6) as u32 / 4;
                        Action::Extend(ttl.min(most).max(Duration::from_millis(100)))
                    }
                    1 => Action::Verify,
                    _ => Action::Fence,
                });
            }
            if !self.rng.chance(self.plan.fenced.1) {
                actions.retain(|a| !matches!(a, Action::Fence));
            }
        }
        let worker = self.worker(c, w);
        (worker.machine, worker.hold, worker.actions) = (None, Some(hold), actions);
        let idle = if self.plan.fight.is_some() { self.rng.below(MS / 3) } else { self.idle() };
        self.go_on(c, w, idle);
    }

    fn act(&mut self, c: usize, w: usize, hold: usize) {
        self.look_at(hold);
        let now = self.mono(c);
        let lost = !matches!(self.holds[hold].lease.state(now), LeaseState::Held | LeaseState::Jeopardy);
        let mut action = self.worker(c, w).actions.pop().unwrap_or(Action::Release);
        if self.calm && !matches!(action, Action::Release | Action::LetGo) {
            action = Action::Release;
        }
        if lost && self.rng.chance(70) && !matches!(action, Action::Forget) {
            // `check` has said so: the guard is dropped.
            action = Action::LetGo;
        }
        self.note(|| format!("client {c}.{w}: {action:?}"));
        match action {
            Action::Release | Action::LetGo => {
                let awaited = matches!(action, Action::Release);
                self.release(c, w, hold, awaited);
            }
            Action::Forget => self.leave(c, w),
            Action::HandOut => self.hand_out(c, w, hold),
            Action::Extend(_) if self.holds[hold].extending => {
                self.worker(c, w).actions.push(action);
                self.go_on(c, w, MS);
            }
            Action::Extend(ttl) => {
                self.worker(c, w).busy = true;
                self.checks.count("extensions by hand");
                self.extend(hold, ttl, Some(w));
            }
            Action::Fence => self.ask_fence(c, w, hold),
            Action::Verify => {
                self.worker(c, w).busy = true;
                let command = self.command(hold, Operation::Verify);
                let request = self.round_of(command);
                let deadline = now.plus(self.round_timeout(self.holds[hold].terms.ttl));
                self.ask(c, request, deadline, Then::Verify { worker: w, hold });
            }
            _ => self.go_on(c, w, 0),
        }
    }

    /// The worker is done with its lock.
    fn leave(&mut self, c: usize, w: usize) {
        let calm = self.calm;
        let worker = self.worker(c, w);
        (worker.hold, worker.content) = (None, calm);
        let idle = self.idle();
        self.go_on(c, w, idle);
    }

    fn release(&mut self, c: usize, w: usize, hold: usize, awaited: bool) {
        let now = self.mono(c);
        let held = &mut self.holds[hold];
        let before = held.lease.release(now);
        held.over = true;
        let lost = matches!(before, LeaseState::Lost(_));
        let (name, place) = (held.name, held.place);
        let limit = now.plus(self.round_timeout(self.holds[hold].terms.ttl));
        let notify = if place { self.clients[c].queues[name].local.release(now) } else { Notify::AT_ONCE };
        let command = self.command(hold, Operation::Release { keep: Duration::ZERO, notify: Some(notify) });
        let request = Request::new(command, self.plan.quorum, self.plan.quorum.all(), awaited);
        if awaited && !lost {
            self.worker(c, w).hold = None;
            self.worker(c, w).busy = true;
            let calm = self.calm;
            self.worker(c, w).content = calm;
            self.ask(c, request, limit, Then::Release { worker: w });
            self.leave_place(hold);
        } else {
            self.post(c, request);
            self.leave_place(hold);
            self.leave(c, w);
        }
    }

    fn hand_out(&mut self, c: usize, w: usize, hold: usize) {
        let now = self.mono(c);
        let held = &mut self.holds[hold];
        if !matches!(held.lease.state(now), LeaseState::Held | LeaseState::Jeopardy) {
            return self.release(c, w, hold, false);
        }
        let handle = Handle {
            name: held.name,
            owner: held.owner.clone(),
            until: held.lease.until(),
            line: held.line,
            terms: Terms { fenced: false, max_hold: None, ..held.terms },
        };
        held.lease.release(now);
        held.over = true;
        self.checks.count("locks handed out");
        self.leave_place(hold);
        self.leave(c, w);
        let machine = self.clients[c].machine;
        let heirs: Vec<usize> =
            (0..self.clients.len()).filter(|k| self.clients[*k].machine == machine && self.clients[*k].alive).collect();
        // A handle that was copied is adopted once all the same.
        let copies = if self.rng.chance(25) { 2 } else { 1 };
        for _ in 0..copies {
            let heir = self.rng.pick(&heirs);
            self.add_worker(heir, Action::Adopt(handle.clone()));
        }
    }

    fn adopt(&mut self, c: usize, w: usize, handle: Handle) {
        let wall_us = self.wall_us(c);
        let (fresh, nonce) = (self.rng.token(), self.rng.bits());
        let owner =
            Owner::new(redleash_protocol::Token::from_bytes(fresh), &Arc::from(format!("{c}.{w}")), wall_us / 1_000);
        let owner = Arc::new(owner);
        let px_ms = handle.terms.px_ms(handle.terms.ttl);
        let operation = Operation::Adopt { from: handle.owner.clone(), px_ms };
        let command = Command { keys: self.keys[handle.name].clone(), owner: owner.clone(), operation, nonce };
        self.checks.life(owner.secret_hex(), px_ms);
        let start = self.mono(c);
        let attempt = Attempt::adopting(start, handle.terms.ttl, self.plan.drift, handle.until);
        let deadline = start.plus(self.round_timeout(handle.terms.ttl)).min(handle.until);
        let worker = self.worker(c, w);
        (worker.name, worker.terms, worker.busy) = (handle.name, handle.terms, true);
        worker.wait = None;
        worker.next = Some(Action::Adopt(handle));
        let request = self.round_of(command);
        self.ask(c, request, deadline, Then::Adopt { worker: w, attempt, owner });
    }

    fn adopted(&mut self, c: usize, w: usize, request: &Request, attempt: Attempt, owner: Arc<Owner>) {
        let end = self.mono(c);
        let (judgement, undone) = request.look(|round| {
            let judgement = attempt.judge(round, end);
            let undone = attempt.end(&judgement, round);
            (judgement, undone)
        });
        self.take_back(c, request, undone);
        let Some(Action::Adopt(handle)) = self.worker(c, w).next.take() else { return };
        if judgement != Judgement::Granted {
            self.checks.count("adoptions refused");
            self.worker(c, w).content = true;
            return;
        }
        let lease = attempt.lease(handle.terms.lease(&self.plan), end);
        let hold = self.new_hold(c, handle.name, lease, owner, handle.terms, (request, handle.line));
        let hold = self.hold(hold);
        self.checks.count("locks adopted");
        if end >= handle.until {
            self.violated(|| format!("hold {hold} was adopted after the end of the lease before"));
        }
        self.inherited(hold);
        self.use_hold(c, w, hold);
    }
}
