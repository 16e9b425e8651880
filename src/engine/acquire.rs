//! Acquiring a lock: rounds with a token each, undone when they fail, until the protocol says that it is over.

use super::error::Error;
use super::fence::{self, NoToken};
use super::hold::Hold;
use super::lease::Lease;
use super::queue::{Entered, Place};
use super::root::Engine;
use super::rounds::RoundResult;
use super::settings::Terms;
use super::waiting::{Patience, Paused, Waiting};
use crate::protocol::acquire::Plan;
use crate::protocol::command::Word;
use crate::protocol::{Acquire, Attempt, Command, End, Judgement, Keys, Mono, Operation, Owner, Step, Wait};
use crate::sys::sync::none_held;
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
        // Whoever counts its own attempts makes them, and stands in no line.
        if terms.tries.is_some() {
            return contend(engine, keys, terms, patience, None, false);
        }
        return match engine.queues.enter(keys, terms, patience) {
            Entered::Turn(place, not_before) => {
                let steps_back = patience.wait != Wait::Once && not_before > clock::now();
                if steps_back {
                    engine.masters.pause(not_before.min(patience.limit()))?;
                }
                contend(engine, keys, terms, patience, Some(place), steps_back)
            }
            Entered::Free => contend(engine, keys, terms, patience, None, false),
            Entered::Lease(lease, place) => {
                let hold = Hold::new(engine.clone(), lease, Some(place));
                if hold.lease.remaining().is_zero() {
                    hold.let_go();
                    continue;
                }
                Ok(Some(hold))
            }
            Entered::HeldByOther => Ok(None),
            Entered::Closed => Err(Error::Closed),
        };
    }
}

/// Contends for the lock on the masters; `place` is the place in the line of this process, if the call stands in it. Who
/// `steps_back` knows that others wait, and waits as they do from the beginning.
fn contend(
    engine: &Arc<Engine>,
    keys: &Arc<Keys>,
    terms: &Arc<Terms>,
    patience: &mut Patience<'_>,
    mut place: Option<Place>,
    steps_back: bool,
) -> Result<Option<Arc<Hold>>, Error> {
    let begin = clock::now();
    let mut waiting = Waiting::new(&engine.masters, &engine.listener, keys, terms);
    if steps_back {
        waiting.listen(patience);
    }
    let mut machine = Acquire::new(Plan {
        wait: patience.wait,
        tries: terms.tries,
        fail_fast: terms.fail_fast,
        backoff: terms.backoff,
        always_full: terms.fenced,
    });
    let mut last = None;
    let mut step = machine.first();
    loop {
        step = match step {
            Step::Round { full } => {
                let word = waiting.word(patience);
                let full = full || word.is_some();
                match attempt(engine, keys, terms, &mut machine, (full, word), patience.limit())? {
                    Ok(lease) => {
                        if let Some(place) = &place {
                            let now = clock::now();
                            place.waited_as(waiting.number());
                            // From the begin of its round on.
                            place.holds(now, now.since(lease.granted));
                        }
                        return Ok(Some(Hold::new(engine.clone(), lease, place)));
                    }
                    Err(failed) => {
                        let took = failed.round.end.since(failed.round.start);
                        waiting.failed(&failed.judgement, took, patience);
                        if let Some(place) = &place {
                            if failed.judgement.is_outage() { place.outage() } else { place.answered() }
                        }
                        let custom = patience.pause.map(|pause| {
                            none_held();
                            pause(machine.pauses())
                        });
                        let now = clock::now();
                        let next = machine.after_round(&failed.judgement, full, took, now, entropy::bits(), custom);
                        let then = match &next {
                            Step::Sleep(at) => at.since(now),
                            Step::Round { .. } | Step::Done(_) => Duration::ZERO,
                        };
                        journal::trace!(
                            "lock {:?}: {} votes in {took:.1?}, {}; {} after {then:.1?}",
                            keys.name,
                            failed.round.request.round.lock().yes(),
                            failed.judgement,
                            if matches!(next, Step::Done(_)) { "the call ends" } else { "the next attempt comes" },
                        );
                        last = Some(failed);
                        next
                    }
                }
            }
            Step::Sleep(at) => {
                // Nobody stands in line behind a call that does not wait.
                if patience.wait == Wait::Once {
                    place = None;
                }
                match waiting.pause(at, patience)? {
                    Paused::Through => {}
                    // Pauses of the caller's own are counted as they are asked for.
                    Paused::Woken if patience.pause.is_some() => {}
                    Paused::Woken => machine.was_woken(),
                    Paused::GivenUp => return Ok(None),
                }
                machine.after_pause(clock::now())
            }
            Step::Done(end) => return finish(engine, keys, terms, end, (begin, machine.attempts()), last),
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
    (full, word): (bool, Option<Word>),
    limit: Mono,
) -> Result<Result<Arc<Lease>, Failed>, Error> {
    let settings = &engine.settings;
    engine.connectors.freshen(engine.masters.lane(keys), limit);
    let wall_us = clock::wall_us();
    // Only scripts may begin a generation, and they take the nonce.
    let (token, nonce) = entropy::token_and_nonce().map_err(Error::System)?;
    let owner = Arc::new(Owner::new(machine.token(token), &terms.label, wall_us / 1_000));
    let operation = Operation::Acquire { px_ms: terms.px_ms(terms.ttl), full, fence: terms.fenced, word };
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
        // Its timer is gone: nobody would renew it or tell of its end.
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
