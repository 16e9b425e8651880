//! One held lease: what its guard, the timer and the watchdog share.

use super::acquire::undo;
use super::core::Engine;
use super::error::{Error, Lost, MasterAnswer, MasterReport, ReleaseOutcome, Rounded, Tally, Unconfirmed};
use super::gate::{Gate, Renewing};
use super::queue::Place;
use super::rounds::Finished;
use super::settings::Terms;
use super::signal::{Callback, Signal};
use super::watchdog::Seat;
use crate::protocol::command::Tell;
use crate::protocol::handover::Handover;
use crate::protocol::lease::{Extended, LeaseState};
use crate::protocol::{Attempt, Command, Keys, LossReason, Mono, Operation, Owner, Round, Todo};
use crate::sys::channel::Receiver;
use crate::sys::sync::{AtomicU64, Mutex, Ordering};
use crate::sys::{clock, entropy, journal};
use crate::wire::lane::Lane;
use crate::wire::op::Op;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// See the module.
pub(crate) struct Held {
    pub(crate) engine: Arc<Engine>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) owner: Arc<Owner>,
    pub(crate) terms: Arc<Terms>,
    /// The present holder's signal.
    signal: Mutex<Arc<Signal>>,
    /// The place in the line of this process, where the lock was queued for.
    place: Mutex<Option<Place>>,
    /// The watchdog's seat; held by its thread while it renews.
    pub(crate) seat: Seat,
    /// One extension at a time.
    pub(super) extending: Mutex<()>,
    /// The end of the lease in nanoseconds; zero once it is lost or released.
    until: AtomicU64,
    pub(super) gate: Mutex<Gate>,
    /// One question for a fencing token at a time.
    fencing: Mutex<()>,
    /// The last round that was granted, for the margin; late votes still come in.
    votes: Mutex<Arc<Op>>,
    this: Weak<Held>,
}

impl Held {
    /// The lease of `attempt`, granted by `round`.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        keys: &Arc<Keys>,
        owner: &Arc<Owner>,
        terms: &Arc<Terms>,
        attempt: Attempt,
        round: &Finished,
    ) -> Arc<Held> {
        let handover = Handover::new(if terms.min_hold.is_zero() { terms.hand_over } else { Duration::ZERO });
        let lease = attempt.lease(terms.lease(engine.settings.drift), round.end);
        Arc::new_cyclic(|this: &Weak<Held>| {
            // What is due already is left to the timer's thread: the guard does not exist yet.
            let timer = lease.next_due().map(|at| engine.timer.enter(at, this.clone()));
            Held {
                engine: engine.clone(),
                keys: keys.clone(),
                owner: owner.clone(),
                terms: terms.clone(),
                signal: Mutex::default(),
                place: Mutex::new(None),
                seat: Seat::default(),
                extending: Mutex::new(()),
                until: AtomicU64::new(lease.until().nanos()),
                gate: Mutex::new(Gate { lease, timer, handover, extension: None, extended: None, loss_logged: false }),
                fencing: Mutex::new(()),
                votes: Mutex::new(round.op.clone()),
                this: this.clone(),
            }
        })
    }

    fn lane(&self) -> &Arc<Lane> {
        self.engine.lane(&self.keys)
    }

    /// A command about this lease.
    pub(crate) fn command(&self, operation: Operation) -> Command {
        Command { keys: self.keys.clone(), owner: self.owner.clone(), operation, nonce: entropy::bits() }
    }

    /// The end of the lease; [`Mono::ZERO`] once it is over.
    pub(crate) fn until(&self) -> Mono {
        Mono::from_nanos(self.until.load(Ordering::Acquire))
    }

    /// The ttl of a renewal.
    pub(crate) fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// What is left of the lease; zero once it is over, and from then on.
    pub(crate) fn remaining(&self) -> Duration {
        if self.engine.is_forked() {
            return Duration::ZERO;
        }
        let left = self.until().since(clock::now());
        if left.is_zero() { self.confirm_end() } else { left }
    }

    /// What is left, asked again under the gate, where an extension may just have been counted. If nothing is, the lease is
    /// lost here and now: a guard that has said so once does not take it back.
    #[cold]
    fn confirm_end(&self) -> Duration {
        let gate = self.gate.lock();
        let now = clock::now();
        let left = gate.lease.until().since(now);
        let state = gate.lease.state(now);
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

    fn lost(&self) -> Lost {
        let reason = if self.engine.is_forked() {
            LossReason::Forked
        } else {
            match self.state() {
                LeaseState::Lost(reason) => reason,
                _ => LossReason::Expired,
            }
        };
        self.lost_by(reason)
    }

    fn lost_by(&self, reason: LossReason) -> Lost {
        Lost { name: self.keys.name.to_string(), reason }
    }

    /// Where the lease stands.
    pub(crate) fn state(&self) -> LeaseState {
        if self.engine.is_forked() {
            return LeaseState::Lost(LossReason::Forked);
        }
        let now = clock::now();
        self.gate.lock().lease.state(now)
    }

    /// Loses the lease because a majority holds another value; the error that says so.
    pub(crate) fn taken(&self) -> Error {
        self.lose(LossReason::Taken);
        Error::Lost(self.lost())
    }

    /// Loses the lease at once and tells so.
    pub(crate) fn lose(&self, reason: LossReason) {
        let mut gate = self.gate.lock();
        let news = gate.lease.lose(reason);
        self.until.store(0, Ordering::Release);
        self.unplan(&mut gate);
        drop(gate);
        if news {
            self.announce(reason);
        }
    }

    fn announce(&self, reason: LossReason) {
        // The next in this process may try: the key ends soon, or is somebody else's.
        self.leave_place();
        let mut gate = self.gate.lock();
        // Logged once, though `check` finds an announced end again; not at all if it was released since the look at it.
        let (released, logged) = (gate.lease.is_released(), std::mem::replace(&mut gate.loss_logged, true));
        drop(gate);
        let lost = self.lost_by(reason);
        if !released && !logged {
            journal::error!("{lost}");
        }
        if released {
            return;
        }
        for callback in self.signal().fire(&lost) {
            self.engine.callbacks.call(&self.engine.threads, callback, lost.clone());
        }
    }

    /// Leaves the place in line, if there is one, to the next.
    fn leave_place(&self) {
        let place = self.place.lock().take();
        drop(place);
    }

    /// The present holder's signal.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        self.signal.lock().clone()
    }

    /// The channel of `signal` that tells of the loss.
    pub(crate) fn lost_signal<'a>(&self, signal: &'a Signal) -> &'a Receiver<Lost> {
        let forked = self.engine.is_forked().then(|| self.lost_by(LossReason::Forked));
        signal.receiver(forked)
    }

    /// Has `callback` called when the lock is lost; soon, if it is already.
    pub(crate) fn on_lost(&self, callback: Callback) {
        if self.engine.is_forked() {
            return;
        }
        if let Some((callback, Some(lost))) = self.signal().on_lost(callback) {
            self.engine.callbacks.call(&self.engine.threads, callback, lost);
        }
    }

    /// Something is due, says the timer, on whose thread this runs: it does not block, and starts threads for
    /// nothing but the callbacks of a loss.
    pub(crate) fn due(self: &Arc<Self>) {
        let mut gate = self.gate.lock();
        // The key of this event, or of a newer one that this look makes superfluous.
        self.unplan(&mut gate);
        loop {
            match gate.lease.poll(clock::now()) {
                Todo::Wait(at) => {
                    gate.timer = Some(self.engine.timer.enter(at, self.this.clone()));
                    drop(gate);
                    return self.lose_if_closed();
                }
                Todo::Renew => {
                    let dogs = &self.engine.watchdogs;
                    let together = !dogs.has_room(self) && self.engine.shared.offer(self);
                    if !together && !dogs.renew(self) {
                        gate.lease.defer_renewal(clock::now());
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

    /// Has the lease renewed soon, together with others; false if no thread can be started for that.
    pub(crate) fn renew_together(self: &Arc<Self>) -> bool {
        self.engine.shared.renew(&self.engine, self)
    }

    /// A timer that was stopped meanwhile would tell of nothing any more.
    fn lose_if_closed(&self) {
        if self.engine.is_closed() {
            self.lose(LossReason::Closed);
        }
    }

    /// The renewal that was due could not begin: it is due again soon.
    pub(super) fn defer_renewal(&self) {
        let mut gate = self.gate.lock();
        gate.lease.defer_renewal(clock::now());
        self.replan(&mut gate);
    }

    fn unplan(&self, gate: &mut Gate) {
        if let Some(key) = gate.timer.take() {
            self.engine.timer.leave(key);
        }
    }

    fn replan(&self, gate: &mut Gate) {
        self.unplan(gate);
        gate.timer = gate.lease.next_due().map(|at| self.engine.timer.enter(at, self.this.clone()));
    }

    /// Begins an extension at `start`, under the gate; `None` if the lease is over.
    pub(super) fn begin(&self, gate: &mut Gate, start: Mono) -> Option<Renewing> {
        gate.extends(self.ttl());
        gate.lease.begin_extension(start, self.ttl()).map(Renewing)
    }

    /// Renews the lease, for the watchdog.
    pub(crate) fn renew(&self) -> Result<(), Error> {
        self.extend_within(self.ttl(), self.engine.settings.renewal_timeout(self.ttl()))
    }

    /// Extends the lease by one round that asks for `ttl`.
    pub(crate) fn extend(&self, ttl: Duration) -> Result<(), Error> {
        self.extend_within(ttl, self.engine.settings.round_timeout(self.ttl()))
    }

    fn extend_within(&self, ttl: Duration, limit: Duration) -> Result<(), Error> {
        let _one = self.extending.lock();
        let quorum = self.engine.settings.quorum;
        let operation = Operation::extend(self.terms.px_ms(ttl), self.engine.settings.quarantine);
        let op = Arc::new(Op::new(self.command(operation), quorum, quorum.all(), true));
        let lane = self.lane();
        let start = clock::now();
        // Proof obligation: a renewal is queued under the gate and only while the lease lives, so a release stands behind
        // it on every connection; and a release closes it, so it is not sent again (for want of its script) behind that.
        let extension = {
            let mut gate = self.gate.lock();
            gate.extends(ttl);
            let extension = gate.lease.begin_extension(start, ttl);
            if extension.is_some() {
                lane.enqueue(op.clone());
                gate.extension = Some(op.clone());
            }
            extension
        };
        let Some(extension) = extension else { return Err(Error::Lost(self.lost())) };
        let deadline = start.plus(limit).min(self.until());
        let mut round = Finished::wait(lane, op, start, deadline);
        let (answers, end) = round.look(|answers, end| (answers.clone(), end));
        let result = self.conclude(Renewing(extension), &answers, || {
            Tally::new(&answers, quorum.votes(), &self.engine.labels, start, end)
        });
        match result {
            // Late votes still come in, for the margin.
            Ok(()) => *self.votes.lock() = round.op,
            Err(_) => round.op.close(),
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
        let (reached, against) = (answers.reached(), answers.against(self.engine.settings.quarantine));
        let mut gate = self.gate.lock();
        // The clock once more, under the gate: what `check` has called lost stays lost.
        let now = clock::now();
        let before = gate.lease.state(now);
        match gate.lease.conclude(extension, reached, against, now, entropy::bits) {
            Extended::Yes => {
                self.until.store(gate.lease.until().nanos(), Ordering::Release);
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
                let left = Rounded(gate.lease.until().since(now));
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

    /// Votes beyond the quorum in the last round that was granted, late ones included.
    pub(crate) fn margin(&self) -> usize {
        if self.engine.is_forked() {
            return 0;
        }
        let votes = self.votes.lock().round.lock().yes();
        votes.saturating_sub(self.engine.settings.quorum.votes())
    }

    pub(crate) fn remember_fence(&self, token: u64) {
        self.gate.lock().handover.remember(token);
    }

    /// Takes the place in the line of this process for as long as the lock is held.
    pub(crate) fn occupy(&self, place: Place) {
        // From the begin of its round on.
        let granted = self.gate.lock().lease.granted();
        let now = clock::now();
        place.holds(now, now.since(granted));
        *self.place.lock() = Some(place);
    }

    /// The fencing token of this lease: asked for once, then remembered.
    pub(crate) fn fencing_token(&self) -> Result<u64, Error> {
        self.check()?;
        if let Some(token) = self.known_fence() {
            return Ok(token);
        }
        let _one = self.fencing.lock();
        if let Some(token) = self.known_fence() {
            return Ok(token);
        }
        let counter = super::fence::ask(&self.engine, self)?;
        let mut gate = self.gate.lock();
        gate.handover.remember(counter);
        Ok(gate.handover.token().unwrap_or(counter))
    }

    /// The fencing token, if it was asked for.
    pub(crate) fn known_fence(&self) -> Option<u64> {
        self.gate.lock().handover.token()
    }

    /// Ends the lease on our side; the state before, and the release to send. Queued under the gate, behind all that a
    /// renewal has queued.
    fn end(&self, awaited: bool) -> (LeaseState, Option<Arc<Op>>) {
        let now = clock::now();
        let tell = self.place.lock().as_ref().map_or(Tell::AT_ONCE, |place| place.tell(now));
        let mut gate = self.gate.lock();
        let again = gate.lease.is_released();
        let before = gate.release(now);
        self.until.store(0, Ordering::Release);
        self.unplan(&mut gate);
        if again {
            return (before, None);
        }
        let held_for = now.since(gate.lease.granted());
        let keep = self.terms.min_hold.saturating_sub(held_for);
        let quorum = self.engine.settings.quorum;
        // A release begins no generation, so it needs no random nonce.
        let command = Command {
            keys: self.keys.clone(),
            owner: self.owner.clone(),
            operation: Operation::Release { keep, tell: Some(tell) },
            nonce: 0,
        };
        // A master that was down when the lock was acquired has nothing of it: no release waits there for its return.
        let targets =
            if gate.extended.is_some() { quorum.all() } else { self.votes.lock().round.lock().undo_targets() };
        let longest = gate.extended.unwrap_or_default().max(self.terms.ttl);
        let mut op = Op::new(command, quorum, targets, awaited);
        op.made = Some(now);
        op.key_ends = Some(now.plus(longest + self.terms.lock_delay));
        let op = Arc::new(op);
        self.lane().enqueue(op.clone());
        drop(gate);
        // The next in this process contends behind the release.
        let place = self.place.lock().take();
        if let Some(place) = place {
            place.released(now, awaited);
        }
        (before, Some(op))
    }

    /// Hands the lease to the next in this process, without the masters.
    ///
    /// Proof obligation: under the gate, and the present guard is being given up by its owner, so it answers no more
    /// questions; its signal ends before the next holder has one. No release of this value is queued anywhere, because
    /// one is queued under the gate only, by the last holder.
    fn pass_on(&self) -> bool {
        // Dropped last, when no mutex is locked any more: they are the user's.
        let mut callbacks = Vec::new();
        let place = self.place.lock();
        let (Some(place), Some(this)) = (&*place, self.this.upgrade()) else { return false };
        place.hand_over(&this, || {
            let mut gate = self.gate.lock();
            let Gate { lease, handover, .. } = &mut *gate;
            let passed = handover.pass(lease, clock::now());
            drop(gate);
            if passed {
                let signal = std::mem::take(&mut *self.signal.lock());
                callbacks = signal.end();
            }
            passed
        })
    }

    /// Releases and waits for a quorum to confirm it.
    pub(crate) fn release(&self) -> ReleaseOutcome {
        if self.engine.is_forked() {
            return ReleaseOutcome::AlreadyLost(self.lost_by(LossReason::Forked));
        }
        if self.pass_on() {
            return ReleaseOutcome::Released;
        }
        let (before, op) = self.end(true);
        // The user's: dropped when all is done, so that a panic in one of them leaves nothing undone.
        let _callbacks = self.signal().end();
        self.engine.watchdogs.retire(self);
        let Some(op) = op else { return ReleaseOutcome::Released };
        let start = clock::now();
        if let LeaseState::Lost(reason) = before {
            self.lane().flush();
            self.lane().attend();
            return ReleaseOutcome::AlreadyLost(self.lost_by(reason));
        }
        let limit = self.engine.settings.round_timeout(self.terms.ttl);
        let round = Finished::wait(self.lane(), op, start, start.plus(limit));
        let answers = round.op.round.lock();
        if answers.reached() {
            ReleaseOutcome::Released
        } else if answers.taken() {
            ReleaseOutcome::AlreadyLost(self.lost_by(LossReason::Taken))
        } else if answers.taken_or_absent() {
            ReleaseOutcome::AlreadyLost(self.lost_by(LossReason::KeyAbsent))
        } else {
            let unsure = |(i, m): &(usize, MasterReport)| {
                round.op.targets >> i & 1 == 1 && matches!(m.answer, MasterAnswer::Failed(_))
            };
            let tally = round.tally_of(&self.engine, &answers);
            ReleaseOutcome::Unconfirmed(Unconfirmed {
                name: self.keys.name.to_string(),
                masters: tally.masters.into_iter().enumerate().filter(unsure).map(|(_, m)| m).collect(),
            })
        }
    }

    /// Writes the release and does not wait. In a forked child it does nothing, and says so: the lock is the parent's.
    pub(crate) fn let_go(&self) -> bool {
        if self.engine.is_forked() {
            return false;
        }
        if self.pass_on() {
            return true;
        }
        let (_, op) = self.end(false);
        let _callbacks = self.signal().end();
        self.engine.watchdogs.retire(self);
        if op.is_some() {
            self.lane().flush();
            self.lane().attend();
        }
        true
    }

    /// Gives the lease up on our side without releasing it on the masters: somebody else adopts it until the moment that is
    /// answered. A lost lease stays as it is. Waits for an extension under way until that has ended.
    pub(crate) fn hand_out(&self) -> Result<Mono, Error> {
        if self.engine.is_forked() {
            return Err(Error::Lost(self.lost_by(LossReason::Forked)));
        }
        // An extension under way ends first, by its answers or its limit, so that it does not come to the masters behind the
        // adoption. One that does all the same writes nothing (adopt.lua).
        let extending = self.extending.lock();
        let now = clock::now();
        let mut gate = self.gate.lock();
        if let LeaseState::Lost(reason) = gate.lease.state(now) {
            return Err(Error::Lost(self.lost_by(reason)));
        }
        let until = gate.lease.until();
        gate.release(now);
        self.until.store(0, Ordering::Release);
        self.unplan(&mut gate);
        drop(gate);
        drop(extending);
        self.leave_place();
        let _callbacks = self.signal().end();
        self.engine.watchdogs.retire(self);
        Ok(until)
    }

    /// Takes back a grant that is not given to anybody.
    pub(crate) fn abandon(&self) {
        let op = self.votes.lock().clone();
        if self.hand_out().is_err() {
            journal::debug!("lock {:?}: lost before it was handed out", self.keys.name);
        }
        undo(&self.engine, &op, self.gate.lock().extended.is_some());
    }
}
