//! One lease: what its guard, the timer and the watchdogs share.
//!
//! One mutex, the gate, protects all that changes together: the state machine, the extension under way, the holder, the
//! watchdog thread. A command about the lease is queued under the gate, so its order on every connection is the order
//! in which the gate was passed. Three things stand beside the gate:
//!
//! - `until`, an atomic copy of the deadline, so that `check` takes no mutex;
//! - `extending`, which is locked for a whole round: one extension at a time, and a release must not wait for it;
//! - `fencing`, which is locked for a round too: one question for a fencing token at a time.

use super::error::{Error, Lost, Rounded, Tally};
use super::masters::Masters;
use super::rounds::RoundResult;
use super::settings::Terms;
use super::timer::{Key, Timer};
use super::worker::{Worker, WorkerSlot};
use crate::protocol::command::Tell;
use crate::protocol::handover::Handover;
use crate::protocol::lease::{self as machine, Extended, LeaseState};
use crate::protocol::{Attempt, Command, Keys, LossReason, Mono, Operation, Owner, Round, Todo};
use crate::sys::sync::{AtomicU64, Mutex, MutexGuard, Ordering, Rank};
use crate::sys::{clock, entropy, journal};
use crate::wire::lane::Lane;
use crate::wire::request::Request;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The holder of a lease, as the lease knows it.
pub(crate) trait Holder: Send + Sync {
    /// The lease is lost, or its end is announced. Called with no mutex locked, perhaps more than once.
    fn lost(&self, lost: &Lost);
}

/// What all leases of a client share.
pub(crate) struct Leases {
    pub(crate) masters: Arc<Masters>,
    /// When something is due for a lease.
    pub(crate) timer: Arc<Timer<Weak<Lease>>>,
}

/// See the module.
pub(crate) struct Lease {
    leases: Arc<Leases>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) terms: Arc<Terms>,
    /// When the round that was granted began.
    pub(crate) granted: Mono,
    /// The end of the lease in nanoseconds; zero once it is lost or released.
    until: AtomicU64,
    pub(super) extending: Mutex<()>,
    pub(super) fencing: Mutex<()>,
    gate: Mutex<Gate>,
    this: Weak<Lease>,
}

/// An extension under way.
pub(super) struct Renewing(machine::Extension);

/// What the gate protects: what is sent about this lease passes it first.
pub(super) struct Gate {
    machine: machine::Lease,
    timer: Option<Key>,
    handover: Handover,
    /// The extension under way, to be closed before a release is queued.
    extension: Option<Arc<Request>>,
    /// The longest ttl that an extension has asked for; if there was one, any master may have the key.
    extended: Option<Duration>,
    /// The last round that was granted, for the margin; late votes still come in.
    votes: Arc<Request>,
    pub(super) worker: WorkerSlot<Lease>,
    holder: Option<Weak<dyn Holder>>,
    /// Why the lease is lost or about to be, once that was announced.
    announced: Option<LossReason>,
}

impl Gate {
    /// An extension that asks for `ttl` is about to be queued.
    fn extends(&mut self, ttl: Duration) {
        self.extended = self.extended.max(Some(ttl));
    }

    /// Ends the lease on our side; the state it was in. Nothing of an extension is sent again from here on.
    fn release(&mut self, now: Mono) -> LeaseState {
        if let Some(request) = self.extension.take() {
            request.close();
        }
        self.machine.release(now)
    }
}

/// What the end of a lease on our side leaves to be done.
pub(crate) struct Ended {
    /// The state before.
    pub(crate) before: LeaseState,
    /// The release that was queued; `None` if one was queued before.
    pub(crate) release: Option<Arc<Request>>,
    /// The watchdog thread, for another lease.
    pub(crate) worker: Option<Worker<Lease>>,
}

impl Leases {
    /// The lease of `attempt`, granted by `round`.
    pub(crate) fn grant(
        self: &Arc<Self>,
        keys: &Arc<Keys>,
        owner: &Arc<Owner>,
        terms: &Arc<Terms>,
        attempt: Attempt,
        round: &RoundResult,
    ) -> Arc<Lease> {
        let handover = Handover::new(if terms.min_hold.is_zero() { terms.hand_over } else { Duration::ZERO });
        let machine = attempt.lease(terms.lease(self.masters.settings.drift), round.end);
        Arc::new_cyclic(|this: &Weak<Lease>| {
            // What is due already is left to the timer's thread: the guard does not exist yet.
            let timer = machine.next_due().map(|at| self.timer.enter(at, this.clone()));
            Lease {
                leases: self.clone(),
                keys: keys.clone(),
                owner: owner.clone(),
                terms: terms.clone(),
                granted: machine.granted(),
                until: AtomicU64::new(machine.until().nanos()),
                extending: Mutex::new(Rank::Extending, ()),
                fencing: Mutex::new(Rank::Fencing, ()),
                gate: Mutex::new(
                    Rank::Gate,
                    Gate {
                        machine,
                        timer,
                        handover,
                        extension: None,
                        extended: None,
                        votes: round.request.clone(),
                        worker: WorkerSlot::Empty,
                        holder: None,
                        announced: None,
                    },
                ),
                this: this.clone(),
            }
        })
    }
}

impl Lease {
    pub(crate) fn masters(&self) -> &Arc<Masters> {
        &self.leases.masters
    }

    pub(crate) fn lane(&self) -> &Arc<Lane> {
        self.masters().lane(&self.keys)
    }

    /// A command about this lease.
    pub(crate) fn command(&self, operation: Operation) -> Command {
        Command { keys: self.keys.clone(), owner: self.owner.clone(), operation, nonce: entropy::bits() }
    }

    /// The ttl of a renewal.
    pub(crate) fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// The end of the lease; [`Mono::ZERO`] once it is over.
    pub(crate) fn until(&self) -> Mono {
        Mono::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// What is left of the lease; zero once it is over, and from then on.
    pub(crate) fn remaining(&self) -> Duration {
        if self.masters().is_forked() {
            return Duration::ZERO;
        }
        let left = self.until().since(clock::now());
        if left.is_zero() { self.confirm_end() } else { left }
    }

    /// What is left, asked again under the gate, where an extension may just have been counted. If nothing is, the
    /// lease is lost here and now: a guard that has said so once does not take it back.
    #[cold]
    fn confirm_end(&self) -> Duration {
        let gate = self.gate.lock();
        let now = clock::now();
        let left = gate.machine.until().since(now);
        let state = gate.machine.state(now);
        drop(gate);
        if let LeaseState::Lost(reason) = state {
            self.lose(reason);
        }
        left
    }

    /// Whether the lease is held now: one atomic load, the clock, and the process id.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.remaining().is_zero() { Err(Error::Lost(self.lost())) } else { Ok(()) }
    }

    /// Whether the lease is held for at least `min` more.
    pub(crate) fn ensure(&self, min: Duration) -> Result<(), Error> {
        let left = self.remaining();
        if left.is_zero() {
            Err(Error::Lost(self.lost()))
        } else if left < min {
            Err(Error::EndsSoon { name: self.keys.name.to_string(), left, wanted: min })
        } else {
            Ok(())
        }
    }

    /// Where the lease stands.
    pub(crate) fn state(&self) -> LeaseState {
        if self.masters().is_forked() {
            return LeaseState::Lost(LossReason::Forked);
        }
        let now = clock::now();
        self.gate.lock().machine.state(now)
    }

    fn lost(&self) -> Lost {
        let reason = match self.state() {
            LeaseState::Lost(reason) => reason,
            _ => LossReason::Expired,
        };
        self.lost_by(reason)
    }

    pub(crate) fn lost_by(&self, reason: LossReason) -> Lost {
        Lost { name: self.keys.name.to_string(), reason }
    }

    /// Votes beyond the quorum in the last round that was granted, late ones included.
    pub(crate) fn margin(&self) -> usize {
        if self.masters().is_forked() {
            return 0;
        }
        let request = self.gate.lock().votes.clone();
        let votes = request.round.lock().yes();
        votes.saturating_sub(self.masters().settings.quorum.votes())
    }

    /// Asks a quorum whether the lock is still ours.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        self.check()?;
        let masters = self.masters();
        let deadline = clock::now().plus(masters.settings.round_timeout(self.ttl()));
        let mut round = masters.round(self.command(Operation::Verify), deadline);
        let quarantine = masters.settings.quarantine;
        let (reached, against) = round.look(|a, _| (a.reached(), a.against(quarantine)));
        if let Some(reason) = against {
            self.lose(reason);
        }
        self.check()?;
        if reached { Ok(()) } else { Err(Error::NoQuorum(masters.tally(&round))) }
    }

    /// The fencing token, if it was asked for.
    pub(crate) fn known_fence(&self) -> Option<u64> {
        self.gate.lock().handover.token()
    }

    /// Keeps the counter that the masters gave; the present holder's fencing token.
    pub(crate) fn remember_fence(&self, counter: u64) -> u64 {
        let mut gate = self.gate.lock();
        gate.handover.remember(counter);
        gate.handover.token().unwrap_or(counter)
    }

    /// Makes `holder` the one to whom a loss is announced; the loss, if there was one while the lease had no holder.
    pub(crate) fn held_by(&self, holder: Weak<dyn Holder>) -> Option<Lost> {
        let mut gate = self.gate.lock();
        gate.holder = Some(holder);
        let announced = gate.announced;
        drop(gate);
        announced.map(|reason| self.lost_by(reason))
    }

    /// Takes the lease from its holder, to be handed to the next in this process without the masters; false if that may
    /// not be.
    ///
    /// Proof obligation: under the gate, and the present guard is being given up by its owner, so it answers no more
    /// questions, and no loss is announced to it from here on. No release of this value is queued anywhere, because one
    /// is queued under the gate only, by the last holder.
    pub(crate) fn pass_on(&self) -> bool {
        let mut gate = self.gate.lock();
        let Gate { machine, handover, holder, .. } = &mut *gate;
        let passed = handover.pass(machine, clock::now());
        if passed {
            *holder = None;
        }
        passed
    }

    /// Loses the lease because a majority holds another value; the error that says so.
    pub(crate) fn taken(&self) -> Error {
        self.lose(LossReason::Taken);
        Error::Lost(self.lost())
    }

    /// Loses the lease at once, and announces it.
    pub(crate) fn lose(&self, reason: LossReason) {
        let mut gate = self.gate.lock();
        let alive = gate.machine.lose(reason);
        self.until.store(0, Ordering::Release);
        self.unplan(&mut gate);
        drop(gate);
        if alive {
            self.announce(reason);
        }
    }

    fn announce(&self, reason: LossReason) {
        let mut gate = self.gate.lock();
        // Logged once, though `check` finds an announced end again; not at all if it was released since the look at it.
        let (released, logged) = (gate.machine.is_released(), gate.announced.is_some());
        gate.announced.get_or_insert(reason);
        let holder = gate.holder.as_ref().and_then(Weak::upgrade);
        drop(gate);
        if released {
            return;
        }
        let lost = self.lost_by(reason);
        if !logged {
            journal::error!("{lost}");
        }
        if let Some(holder) = holder {
            holder.lost(&lost);
        }
    }

    /// Does what is due, on the timer's thread: it does not block, and starts threads for nothing but the callbacks of
    /// a loss. `renew` has the lease renewed by another thread, or answers that it cannot be now; it is called with the
    /// gate closed.
    pub(crate) fn due(self: &Arc<Self>, renew: impl Fn(&Arc<Lease>, &mut WorkerSlot<Lease>) -> bool) {
        let mut gate = self.gate.lock();
        // The key of this event, or of a newer one that this look makes superfluous.
        self.unplan(&mut gate);
        loop {
            match gate.machine.poll(clock::now()) {
                Todo::Wait(at) => {
                    gate.timer = Some(self.leases.timer.enter(at, self.this.clone()));
                    drop(gate);
                    return self.lose_if_closed();
                }
                Todo::Renew => {
                    if !renew(self, &mut gate.worker) {
                        gate.machine.defer_renewal(clock::now());
                    }
                }
                Todo::Announce(reason) => {
                    drop(gate);
                    return self.announce(reason);
                }
                Todo::Nothing => return,
            }
        }
    }

    /// The watchdog thread `worker` is done with a renewal; it comes back if the lease is over.
    pub(super) fn renewed_by(&self, worker: Worker<Lease>) -> Option<Worker<Lease>> {
        self.gate.lock().worker.done(worker)
    }

    /// The standby thread is done with a renewal: the next one may find another thread.
    pub(super) fn renewed_by_standby(&self) {
        let mut gate = self.gate.lock();
        if let WorkerSlot::Renewing = gate.worker {
            gate.worker = WorkerSlot::Empty;
        }
    }

    /// A timer that was stopped meanwhile would announce nothing any more.
    fn lose_if_closed(&self) {
        if self.masters().is_closed() {
            self.lose(LossReason::Closed);
        }
    }

    /// The renewal that was due could not begin: it is due again soon.
    pub(super) fn defer_renewal(&self) {
        let mut gate = self.gate.lock();
        gate.machine.defer_renewal(clock::now());
        self.replan(&mut gate);
    }

    fn unplan(&self, gate: &mut Gate) {
        if let Some(key) = gate.timer.take() {
            self.leases.timer.leave(key);
        }
    }

    fn replan(&self, gate: &mut Gate) {
        self.unplan(gate);
        gate.timer = gate.machine.next_due().map(|at| self.leases.timer.enter(at, self.this.clone()));
    }

    /// Closes the gate beside those of other leases: for the shared watchdog alone.
    pub(super) fn gate_among(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock_among()
    }

    /// Begins an extension at `start`, under the gate; `None` if the lease is over.
    pub(super) fn begin(&self, gate: &mut Gate, start: Mono, ttl: Duration) -> Option<Renewing> {
        gate.extends(ttl);
        gate.machine.begin_extension(start, ttl).map(Renewing)
    }

    /// Renews the lease, for the watchdog.
    pub(crate) fn renew(&self) -> Result<(), Error> {
        self.extend_within(self.ttl(), self.masters().settings.renewal_timeout(self.ttl()))
    }

    /// Extends the lease by one round that asks for `ttl`.
    pub(crate) fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.extend_within(ttl, self.masters().settings.round_timeout(self.ttl()))
    }

    fn extend_within(&self, ttl: Duration, limit: Duration) -> Result<(), Error> {
        let _one = self.extending.lock();
        let settings = &self.masters().settings;
        let operation = Operation::extend(self.terms.px_ms(ttl), settings.quarantine);
        let request = Arc::new(Request::new(self.command(operation), settings.quorum, settings.quorum.all(), true));
        let lane = self.lane();
        let start = clock::now();
        // Proof obligation: a renewal is queued under the gate and only while the lease lives, so a release stands
        // behind it on every connection; and a release closes it, so it is not sent again (for want of its script)
        // behind that.
        let renewing = {
            let mut gate = self.gate.lock();
            let renewing = self.begin(&mut gate, start, ttl);
            if renewing.is_some() {
                lane.enqueue(request.clone());
                gate.extension = Some(request.clone());
            }
            renewing
        };
        let Some(renewing) = renewing else { return Err(Error::Lost(self.lost())) };
        let deadline = start.plus(limit).min(self.until());
        let mut round = RoundResult::wait(lane, request, start, deadline);
        let answers = round.look(|answers, _| answers.clone());
        let result = self.conclude(renewing, &answers, || self.masters().tally_of(&round, &answers));
        match result {
            // Late votes still come in, for the margin.
            Ok(()) => self.gate.lock().votes = round.request,
            Err(_) => round.request.close(),
        }
        result
    }

    /// Ends an extension with what the masters have answered.
    pub(super) fn conclude(
        &self,
        Renewing(extension): Renewing,
        answers: &Round,
        tally: impl FnOnce() -> Tally,
    ) -> Result<(), Error> {
        let (reached, against) = (answers.reached(), answers.against(self.masters().settings.quarantine));
        let mut gate = self.gate.lock();
        // The clock once more, under the gate: what `check` has called lost stays lost.
        let now = clock::now();
        let before = gate.machine.state(now);
        match gate.machine.conclude(extension, reached, against, now, entropy::bits) {
            Extended::Yes => {
                self.until.store(gate.machine.until().nanos(), Ordering::Release);
                self.replan(&mut gate);
                drop(gate);
                if before == LeaseState::Jeopardy {
                    journal::info!("lock {:?} is renewed again and goes on", self.keys.name);
                }
                self.lose_if_closed();
                Ok(())
            }
            Extended::Over => {
                drop(gate);
                Err(Error::Lost(self.lost()))
            }
            Extended::Lost(reason) => {
                drop(gate);
                self.lose(reason);
                Err(Error::Lost(self.lost()))
            }
            Extended::Failed => {
                let left = Rounded(gate.machine.until().since(now));
                self.replan(&mut gate);
                drop(gate);
                self.lose_if_closed();
                let tally = tally();
                let name = &self.keys.name;
                // One warning for all failures in a row.
                if before == LeaseState::Held {
                    journal::warn!(
                        "lock {name:?} ends in {left} unless it is renewed before; a renewal failed: {tally}"
                    );
                } else {
                    journal::debug!("lock {name:?} ends in {left}; another renewal failed: {tally}");
                }
                Err(Error::NoQuorum(tally))
            }
        }
    }

    /// Ends the lease on our side and queues its release, under the gate: behind all that a renewal has queued.
    pub(crate) fn end(&self, now: Mono, tell: Tell, awaited: bool) -> Ended {
        let mut gate = self.gate.lock();
        let again = gate.machine.is_released();
        let before = gate.release(now);
        self.until.store(0, Ordering::Release);
        self.unplan(&mut gate);
        let worker = gate.worker.retire();
        if again {
            return Ended { before, release: None, worker };
        }
        let keep = self.terms.min_hold.saturating_sub(now.since(self.granted));
        let quorum = self.masters().settings.quorum;
        // A release begins no generation, so it needs no random nonce.
        let command = Command {
            keys: self.keys.clone(),
            owner: self.owner.clone(),
            operation: Operation::Release { keep, tell: Some(tell) },
            nonce: 0,
        };
        // A master that was down when the lock was acquired has nothing of it: no release waits there for its return.
        let targets = if gate.extended.is_some() { quorum.all() } else { gate.votes.round.lock().undo_targets() };
        let longest = gate.extended.unwrap_or_default().max(self.terms.ttl);
        let mut request = Request::new(command, quorum, targets, awaited);
        request.made = Some(now);
        request.key_ends = Some(now.plus(longest + self.terms.lock_delay));
        let request = Arc::new(request);
        self.lane().enqueue(request.clone());
        Ended { before, release: Some(request), worker }
    }

    /// Releases a lease that has no holder, and does not wait.
    pub(crate) fn let_go(&self, tell: Tell) {
        if self.end(clock::now(), tell, false).release.is_some() {
            self.lane().flush();
            self.lane().request_drain();
        }
    }

    /// Gives the lease up on our side without releasing it on the masters: another process adopts it until the moment
    /// that is answered. A lost lease stays as it is. Waits for an extension under way until that has ended.
    pub(crate) fn detach(&self) -> Result<(Mono, Option<Worker<Lease>>), Error> {
        if self.masters().is_forked() {
            return Err(Error::Lost(self.lost_by(LossReason::Forked)));
        }
        // An extension under way ends first, by its answers or its limit, so that it does not come to the masters
        // behind the adoption. One that does all the same writes nothing (adopt.lua).
        let _extending = self.extending.lock();
        let now = clock::now();
        let mut gate = self.gate.lock();
        if let LeaseState::Lost(reason) = gate.machine.state(now) {
            return Err(Error::Lost(self.lost_by(reason)));
        }
        let until = gate.machine.until();
        gate.release(now);
        self.until.store(0, Ordering::Release);
        self.unplan(&mut gate);
        Ok((until, gate.worker.retire()))
    }

    /// Takes back a lease that gets no holder.
    pub(crate) fn abandon(&self) {
        let votes = self.gate.lock().votes.clone();
        if self.detach().is_err() {
            journal::debug!("lock {:?}: lost before it was handed out", self.keys.name);
        }
        let extended = self.gate.lock().extended.is_some();
        self.masters().undo(&votes, extended);
    }
}
