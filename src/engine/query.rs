//! Questions and acts that are about no lease of ours: status, forced release, init; and the adoption of a lease that
//! another process has given up.

use super::chores::Chore;
use super::core::Engine;
use super::error::{Error, Tally};
use super::held::Held;
use super::rounds::Finished;
use super::settings::Terms;
use crate::protocol::init::{Ground, Init, Step};
use crate::protocol::{Answer, Attempt, Command, Judgement, Keys, Mono, Operation, Owner, Token};
use crate::sys::{clock, entropy};
use crate::wire::op::Op;
use std::sync::Arc;
use std::time::Duration;

/// An owner for commands that are about nobody's value.
fn nobody() -> Arc<Owner> {
    Arc::new(Owner::new(Token::from_bytes([0; 16]), &Arc::from(""), 0))
}

/// What an init has found, by master.
fn found(op: &Op) -> Vec<Option<Ground>> {
    let ground = |answer: &Option<(Answer, Mono)>| match answer {
        Some((Answer::Ground(ground), _)) => Some(ground.clone()),
        _ => None,
    };
    op.round.lock().answers().iter().map(ground).collect()
}

impl Held {
    /// Asks a quorum whether the lock is still ours.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        self.check()?;
        let limit = self.engine.settings.round_timeout(self.terms.ttl);
        let mut round = self.engine.round(self.command(Operation::Verify), clock::now().plus(limit));
        let quarantine = self.engine.settings.quarantine;
        let (reached, against) = round.look(|a, _| (a.reached(), a.against(quarantine)));
        if let Some(reason) = against {
            self.lose(reason);
        }
        self.check()?;
        if reached { Ok(()) } else { Err(Error::NoQuorum(round.tally(&self.engine))) }
    }
}

impl Engine {
    /// Tells those who wait elsewhere for a lock that was released here and not taken again, on the thread of the chores.
    pub(crate) fn tell_due(&self, keys: Arc<Keys>, waiter: u64) {
        let now = clock::now();
        let Some(at) = self.queues.tell_when(&keys.name, now) else { return };
        if at > now {
            self.chores.enter(at, Chore::Tell(keys, waiter));
        } else {
            self.tell(keys, waiter);
        }
    }

    /// Tells those who wait elsewhere, without waiting for an answer.
    pub(crate) fn tell(&self, keys: Arc<Keys>, waiter: u64) {
        let quorum = self.settings.quorum;
        let command = Command { keys, owner: nobody(), operation: Operation::Tell(waiter), nonce: 0 };
        let lane = self.lane(&command.keys).clone();
        lane.post(Arc::new(Op::new(command, quorum, quorum.all(), false)));
    }

    /// Asks all masters; waits for each that is not known to be down.
    pub(crate) fn ask_all(&self, keys: Arc<Keys>, operation: Operation) -> Result<Finished, Error> {
        let limit = self.settings.master_timeout(self.settings.ttl);
        self.ask_all_as(keys, operation, entropy::bits(), limit)
    }

    fn ask_all_as(
        &self,
        keys: Arc<Keys>,
        operation: Operation,
        nonce: u64,
        limit: Duration,
    ) -> Result<Finished, Error> {
        self.usable()?;
        self.freshen(self.lane(&keys), Mono::NEVER);
        let command = Command { keys, owner: nobody(), operation, nonce };
        Ok(self.round(command, clock::now().plus(limit)))
    }

    /// Settles new and empty masters, or waits until others have; what they said last, and whether nothing was left to do.
    pub(crate) fn init(&self) -> Result<(Tally, bool), Error> {
        let keys = Arc::new(self.settings.namespace.keys("-").map_err(|e| Error::config("namespace", e.to_string()))?);
        let mut init = Init::new(self.settings.deployment.block(), clock::now());
        let (mut step, mut tally) = (Step::Look, None);
        // It is rare, and a master that is given up too early fails all of it.
        let limit = self.settings.master_timeout(self.settings.ttl).max(Duration::from_secs(2));
        loop {
            let (operation, nonce) = match (step, tally) {
                (Step::Look, _) => (Operation::Blank { mark: false }, 0),
                (Step::Mark, _) => (Operation::Blank { mark: true }, entropy::bits()),
                (Step::Settle(nonce), _) => (Operation::Init { settle: true }, nonce),
                (Step::Pause(pause), _) => {
                    self.progress.wait_until(clock::now().plus(pause), || self.is_closed());
                    (Operation::Blank { mark: false }, 0)
                }
                (Step::Done { already }, Some(tally)) => return Ok((tally, already)),
                (Step::Refused, Some(tally)) => return Err(Error::NotBlank(tally)),
                (_, Some(tally)) => return Err(Error::NoQuorum(tally)),
                (_, None) => return Err(Error::Closed),
            };
            if matches!(operation, Operation::Blank { mark: true }) {
                init.marks(nonce);
            }
            let round = self.ask_all_as(keys.clone(), operation, nonce, limit)?;
            let (taken_back, next) = init.after(&found(&round.op), clock::now(), entropy::bits());
            if let Some(nonce) = taken_back {
                let quorum = self.settings.quorum;
                let operation = Operation::Init { settle: false };
                let command = Command { keys: keys.clone(), owner: nobody(), operation, nonce };
                self.lane(&command.keys).clone().post(Arc::new(Op::new(command, quorum, quorum.all(), false)));
            }
            (step, tally) = (next, Some(round.tally(self)));
        }
    }

    /// Adopts the lease of `from`, which its owner has given up and which ends at `until_old`.
    ///
    /// The value is replaced by one with a token of our own, so that a lease is adopted once. Proof obligation: the votes
    /// are those of an acquire, with the given-up key in the place of an absent one.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        keys: &Arc<Keys>,
        terms: &Arc<Terms>,
        from: Arc<Owner>,
        until_old: Mono,
    ) -> Result<Arc<Held>, Error> {
        self.usable()?;
        let (token, nonce) = entropy::token_and_nonce().map_err(Error::System)?;
        let owner = Arc::new(Owner::new(Token::from_bytes(token), &terms.label, clock::wall_us() / 1_000));
        let operation = Operation::Adopt { from, px_ms: terms.px_ms(terms.ttl) };
        let command = Command { keys: keys.clone(), owner: owner.clone(), operation, nonce };
        let deadline = clock::now().plus(self.settings.round_timeout(terms.ttl)).min(until_old);
        let mut round = self.round(command, deadline);
        let attempt = Attempt::adopting(round.start, terms.ttl, self.settings.drift, until_old);
        let (judgement, undone) = round.look(|answers, end| {
            let judgement = attempt.judge(answers, end);
            let undone = attempt.end(&judgement, answers);
            (judgement, undone)
        });
        super::acquire::take_back(self, &round.op, undone);
        match judgement {
            Judgement::Granted => {
                let held = Held::new(self, keys, &owner, terms, attempt, &round);
                if self.is_closed() {
                    held.abandon();
                    return Err(Error::Closed);
                }
                Ok(held)
            }
            other => Err(Error::of_judgement(
                other,
                &keys.name,
                terms.ttl,
                self.settings.deployment.block(),
                round.tally(self),
            )),
        }
    }

    /// What is left of a moment of this boot.
    pub(crate) fn left(until: Mono) -> Duration {
        until.since(clock::now())
    }
}
