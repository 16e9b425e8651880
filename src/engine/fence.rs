//! Fencing tokens: on demand, or from the counters of a fenced acquire.

use super::core::Engine;
use super::error::Error;
use super::held::Held;
use super::rounds::Finished;
use crate::protocol::fence::{self, Settling};
use crate::protocol::{Mono, Operation};
use crate::sys::clock;

/// Why there is no token.
pub(crate) enum NoToken {
    /// The lease was over before a quorum held it.
    Late,
    /// Too few masters took it.
    NoQuorum(Finished),
}

/// Makes a token of the counters of a round that reached a quorum: writes it back where fewer than a quorum hold it.
pub(crate) fn settle(engine: &Engine, held: &Held, counters: &[Option<u64>], until: Mono) -> Result<u64, NoToken> {
    let (settling, round) = match fence::settle(engine.settings.quorum, counters, clock::now(), until) {
        Settling::WriteBack(token) => {
            let limit = engine.settings.round_timeout(held.ttl());
            let mut round =
                engine.round(held.command(Operation::WriteBack(token)), clock::now().plus(limit).min(until));
            let settling =
                round.look(|answers, end| fence::written_back(token, answers.reached(), end, until, held.until()));
            (settling, Some(round))
        }
        settling => (settling, None),
    };
    match (settling, round) {
        (Settling::Token(token), _) => Ok(token),
        (Settling::NoQuorum, Some(round)) => Err(NoToken::NoQuorum(round)),
        _ => Err(NoToken::Late),
    }
}

/// Asks the masters that hold the lock for a token.
pub(crate) fn ask(engine: &Engine, held: &Held) -> Result<u64, Error> {
    let limit = engine.settings.round_timeout(held.ttl());
    let until = held.until();
    let mut round = engine.round(held.command(Operation::Fence), clock::now().plus(limit).min(until));
    let (counters, reached, taken) = round.look(|a, _| (a.counters(), a.reached(), a.taken()));
    held.check()?;
    if taken {
        return Err(held.taken());
    }
    if !reached {
        return Err(Error::NoQuorum(round.tally(engine)));
    }
    settle(engine, held, &counters, until).map_err(|why| {
        let tally = match &why {
            NoToken::Late => round.tally(engine),
            NoToken::NoQuorum(round) => round.tally(engine),
        };
        held.check().err().unwrap_or(Error::NoQuorum(tally))
    })
}
