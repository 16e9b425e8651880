//! Questions and acts that are about no lease of ours: status, forced release, init; and the adoption of a lease that
//! another process has given up.

use super::error::{Error, Tally};
use super::hold::Hold;
use super::masters::nobody;
use super::root::Engine;
use super::rounds::RoundResult;
use super::settings::Terms;
use crate::protocol::init::{Ground, Init, Step};
use crate::protocol::{Answer, Attempt, Command, Judgement, Keys, Mono, Operation, Owner, Token};
use crate::sys::{clock, entropy};
use crate::wire::request::Request;
use std::sync::Arc;
use std::time::Duration;

/// What an init has found, by master.
fn found(request: &Request) -> Vec<Option<Ground>> {
    let ground = |answer: &Option<(Answer, Mono)>| match answer {
        Some((Answer::Ground(ground), _)) => Some(ground.clone()),
        _ => None,
    };
    request.round.lock().answers().iter().map(ground).collect()
}

impl Engine {
    /// Asks all masters; waits for each that is not known to be down.
    pub(crate) fn ask_all(&self, keys: Arc<Keys>, operation: Operation) -> Result<RoundResult, Error> {
        let limit = self.settings.master_timeout(self.settings.ttl);
        self.ask_all_as(keys, operation, entropy::bits(), limit)
    }

    fn ask_all_as(
        &self,
        keys: Arc<Keys>,
        operation: Operation,
        nonce: u64,
        limit: Duration,
    ) -> Result<RoundResult, Error> {
        self.masters.usable()?;
        self.connectors.freshen(self.masters.lane(&keys), Mono::NEVER);
        let command = Command { keys, owner: nobody(), operation, nonce };
        Ok(self.masters.round(command, clock::now().plus(limit)))
    }

    /// Settles new and empty masters, or waits until others have; what they said last, and whether nothing was left to
    /// do.
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
                    self.masters.progress.wait_until(clock::now().plus(pause), || self.masters.is_closed());
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
            let (taken_back, next) = init.after(&found(&round.request), clock::now(), entropy::bits());
            if let Some(nonce) = taken_back {
                let operation = Operation::Init { settle: false };
                let command = Command { keys: keys.clone(), owner: nobody(), operation, nonce };
                self.masters.post(command, self.settings.quorum.all());
            }
            (step, tally) = (next, Some(self.masters.tally(&round)));
        }
    }

    /// Adopts the lease of `from`, which its owner has given up and which ends at `until_old`.
    ///
    /// The value is replaced by one with a token of our own, so that a lease is adopted once. Proof obligation: the
    /// votes are those of an acquire, with the given-up key in the place of an absent one.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        keys: &Arc<Keys>,
        terms: &Arc<Terms>,
        from: Arc<Owner>,
        until_old: Mono,
    ) -> Result<Arc<Hold>, Error> {
        self.masters.usable()?;
        let (token, nonce) = entropy::token_and_nonce().map_err(Error::System)?;
        let owner = Arc::new(Owner::new(Token::from_bytes(token), &terms.label, clock::wall_us() / 1_000));
        let operation = Operation::Adopt { from, px_ms: terms.px_ms(terms.ttl) };
        let command = Command { keys: keys.clone(), owner: owner.clone(), operation, nonce };
        let deadline = clock::now().plus(self.settings.round_timeout(terms.ttl)).min(until_old);
        self.connectors.freshen(self.masters.lane(keys), deadline);
        let mut round = self.masters.round(command, deadline);
        let attempt = Attempt::adopting(round.start, terms.ttl, self.settings.drift, until_old);
        let (judgement, undone) = round.look(|answers, end| {
            let judgement = attempt.judge(answers, end);
            let undone = attempt.end(&judgement, answers);
            (judgement, undone)
        });
        self.masters.take_back(&round.request, undone);
        match judgement {
            Judgement::Granted => {
                let lease = self.leases.grant(keys, &owner, terms, attempt, &round);
                if self.masters.is_closed() {
                    lease.abandon();
                    return Err(Error::Closed);
                }
                Ok(Hold::new(self.clone(), lease, None))
            }
            other => Err(Error::of_judgement(
                other,
                &keys.name,
                terms.ttl,
                self.settings.deployment.block(),
                self.masters.tally(&round),
            )),
        }
    }
}
