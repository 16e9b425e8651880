//! Acquiring a lock: rounds with a token each, undone when they fail, until the protocol says that it is over.

use super::error::Error;
use super::fence::{self, NoToken};
use super::hold::Hold;
use super::lease::Lease;
use super::listener::Listening;
use super::masters::Masters;
use super::queue::{Entered, Place};
use super::root::Engine;
use super::rounds::RoundResult;
use super::settings::Terms;
use super::waiting::Patience;
use crate::protocol::acquire::Plan;
use crate::protocol::wait_list::WaitEntry;
use crate::protocol::{Acquire, Attempt, Command, End, Judgement, Keys, Mono, Operation, Owner, Step, Wait};
use crate::sys::sync::none_held;
use crate::sys::thread::park_timeout;
use crate::sys::{clock, entropy, journal};
use std::sync::Arc;
use std::time::Duration;

/// An attempt that was not granted; it has been undone.
struct Failed {
    judgement: Judgement,
    round: RoundResult,
}

/// Acquires the lock of `keys`; `None` if others hold it for as long as the caller waits.
pub(crate) fn acquire(
    engine: &Arc<Engine>,
    keys: &Arc<Keys>,
    terms: &Arc<Terms>,
    patience: &mut Patience<'_>,
) -> Result<Option<Arc<Hold>>, Error> {
    loop {
        engine.masters.usable()?;
        // A call that counts its own attempts makes them, and waits behind nobody.
        if terms.tries.is_some() {
            return contend(engine, keys, terms, patience, None, false);
        }
        return match engine.queues.enter(keys, terms, patience) {
            Entered::Contends(place, yields) => contend(engine, keys, terms, patience, Some(place), yields),
            Entered::ContendsBeside => contend(engine, keys, terms, patience, None, false),
            Entered::Lease(lease, place) => {
                let hold = Hold::new(engine.clone(), lease, Some(place));
                if hold.lease.remaining().is_zero() {
                    hold.let_go();
                    continue;
                }
                Ok(Some(hold))
            }
            Entered::Refused => Ok(None),
            Entered::Closed => Err(Error::Closed),
        };
    }
}

/// Contends for the lock on the masters, as the protocol says; `place` is the place in the queue of this process, if
/// the call has it.
fn contend(
    engine: &Arc<Engine>,
    keys: &Arc<Keys>,
    terms: &Arc<Terms>,
    patience: &mut Patience<'_>,
    mut place: Option<Place>,
    yields: bool,
) -> Result<Option<Arc<Hold>>, Error> {
    let begin = clock::now();
    let mut machine = Acquire::new(Plan {
        quorum: engine.settings.quorum,
        wait: patience.wait,
        tries: terms.tries,
        fail_fast: terms.fail_fast,
        backoff: terms.backoff,
        custom_pauses: patience.pause.is_some(),
        always_full: terms.fenced,
        yields,
    });
    let (mut listening, mut recoveries, mut last) = (None, 0, None);
    let mut waits = Waits { masters: &engine.masters, keys, number: 0 };
    let mut step = machine.first(begin);
    loop {
        step = match step {
            Step::Listen => {
                // Before the first attempt nothing is waited for: the subscription asks for another one when it comes.
                let settle = if last.is_some() { patience.limit() } else { begin };
                let listens: &Listening = listening.insert(engine.listener.listen(keys, settle));
                waits.number = listens.number();
                machine.listens(listens.number(), clock::now())
            }
            Step::Round { full, entry } => {
                recoveries = engine.masters.recoveries();
                listening.iter().for_each(Listening::forget);
                let failed = match attempt(engine, keys, terms, &mut machine, (full, entry), patience.limit())? {
                    Ok(lease) => {
                        waits.number = 0;
                        place.iter().for_each(|place| place.granted(clock::now(), machine.number()));
                        return Ok(Some(Hold::new(engine.clone(), lease, place)));
                    }
                    Err(failed) => last.insert(failed),
                };
                if let Some(place) = &place {
                    if failed.judgement.is_outage() { place.outage() } else { place.refused() }
                }
                let took = failed.round.end.since(failed.round.start);
                let custom = patience.pause.map(|pause| {
                    none_held();
                    pause(machine.pauses())
                });
                let now = clock::now();
                let next = machine.after_round(&failed.judgement, took, now, entropy::bits(), custom);
                let then = if let Step::Park(until) = next { until.since(now) } else { Duration::ZERO };
                journal::trace!(
                    "lock {:?}: {} votes in {took:.1?}, {}; {} after {then:.1?}",
                    keys.name,
                    failed.round.request.round.lock().yes(),
                    failed.judgement,
                    if matches!(next, Step::Done(_)) { "the call ends" } else { "the next attempt comes" },
                );
                next
            }
            Step::Park(_) => {
                // A call that does not wait keeps nobody waiting behind it.
                if patience.wait == Wait::Once {
                    place = None;
                }
                engine.masters.usable()?;
                if !patience.goes_on() {
                    return Ok(None);
                }
                let now = clock::now();
                listening.iter().for_each(|listening| machine.heard(listening.heard(), now));
                if engine.masters.recoveries() != recoveries {
                    machine.recovered();
                }
                let next = machine.resume(now);
                if let Step::Park(until) = next {
                    let until = until.min(now.plus(patience.longest_park()));
                    match &listening {
                        _ if machine.is_outage() => engine.masters.pause_of_outage(until, recoveries)?,
                        Some(_) => park_timeout(until.since(now)),
                        None => engine.masters.pause(until)?,
                    }
                }
                next
            }
            Step::Done(end) => return finish(engine, keys, terms, end, (begin, machine.attempts()), last),
        }
    }
}

/// A call in the wait lists of the masters. If it ends without the lock, it leaves them, and a notification that it may
/// have been sent goes to the next waiter.
struct Waits<'a> {
    masters: &'a Masters,
    keys: &'a Arc<Keys>,
    /// Zero if it is in none.
    number: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.number != 0 && self.masters.usable().is_ok() {
            self.masters.notify(self.keys.clone(), self.number);
        }
    }
}

fn finish(
    engine: &Engine,
    keys: &Keys,
    terms: &Terms,
    end: End,
    (begin, tries): (Mono, u32),
    last: Option<Failed>,
) -> Result<Option<Arc<Hold>>, Error> {
    let Some(Failed { judgement, round }) = last.filter(|_| end != End::Contended) else { return Ok(None) };
    let mut tally = engine.masters.tally(&round);
    if tries > 1 {
        tally.tried_for = round.end.since(begin);
    }
    Err(match end {
        End::TriesUsedUp => Error::TriesUsedUp { tries, tally },
        _ => Error::of_judgement(judgement, &keys.name, terms.ttl, engine.settings.deployment.block(), tally),
    })
}

/// One attempt, with a token of its own.
fn attempt(
    engine: &Arc<Engine>,
    keys: &Arc<Keys>,
    terms: &Arc<Terms>,
    machine: &mut Acquire,
    (full, entry): (bool, Option<WaitEntry>),
    limit: Mono,
) -> Result<Result<Arc<Lease>, Failed>, Error> {
    let settings = &engine.settings;
    engine.connectors.freshen(engine.masters.lane(keys), limit);
    let wall_us = clock::wall_us();
    // Only scripts may begin a generation, and they take the nonce.
    let (token, nonce) = entropy::token_and_nonce().map_err(Error::System)?;
    let owner = Arc::new(Owner::new(machine.token(token), &terms.label, wall_us / 1_000));
    let operation = Operation::Acquire { px_ms: terms.px_ms(terms.ttl), full, fence: terms.fenced, entry };
    let command = Command { keys: keys.clone(), owner: owner.clone(), operation, nonce };
    let round_timeout = settings.round_timeout(terms.ttl);
    let mut round = engine.masters.round(command, clock::now().plus(round_timeout).min(limit));
    let attempt = Attempt::acquiring(round.start, terms.ttl, settings.drift);
    let (judgement, counters, undone) = round.look(|answers, end| {
        let judgement = attempt.judge(answers, end);
        let undone = attempt.end(&judgement, answers);
        (judgement, terms.fenced.then(|| answers.counters()), undone)
    });
    engine.masters.take_back(&round.request, undone);
    if judgement != Judgement::Granted {
        return Ok(Err(Failed { judgement, round }));
    }
    let lease = engine.leases.grant(keys, &owner, terms, attempt, &round);
    if engine.masters.is_closed() {
        // Its timer has ended: nobody would renew it or announce its end.
        lease.abandon();
        return Err(Error::Closed);
    }
    if let Some(counters) = counters {
        let (judgement, round) = match fence::settle(&lease, &counters, attempt.until()) {
            Ok(token) => {
                lease.remember_fence(token);
                return Ok(Ok(lease));
            }
            Err(NoToken::Late) => (Judgement::TooSlow, round),
            Err(NoToken::NoQuorum(round)) => (Judgement::NoQuorum, round),
        };
        lease.abandon();
        return Ok(Err(Failed { judgement, round }));
    }
    Ok(Ok(lease))
}
