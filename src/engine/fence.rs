//! Fencing tokens: on demand, or from the counters of a fenced acquire.

use super::error::Error;
use super::lease::Lease;
use super::rounds::RoundResult;
use crate::protocol::fence::{self, Settling};
use crate::protocol::{Mono, Operation};
use crate::sys::clock;

/// Why there is no token.
pub(crate) enum NoToken {
    /// The lease was over before a quorum held it.
    Late,
    /// Too few masters took it.
    NoQuorum(RoundResult),
}

/// Makes a token of the counters of a round that reached a quorum: writes it back where fewer than a quorum hold it.
pub(crate) fn settle(lease: &Lease, counters: &[Option<u64>], until: Mono) -> Result<u64, NoToken> {
    let masters = lease.masters();
    let (settling, round) = match fence::settle(masters.settings.quorum, counters, clock::now(), until) {
        Settling::WriteBack(token) => {
            let limit = masters.settings.round_timeout(lease.ttl());
            let mut round =
                masters.round(lease.command(Operation::WriteBack(token)), clock::now().plus(limit).min(until));
            let settling =
                round.look(|answers, end| fence::written_back(token, answers.reached(), end, until, lease.until()));
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

/// The fencing token of a lease: asked for once, then remembered.
pub(crate) fn token(lease: &Lease) -> Result<u64, Error> {
    lease.check()?;
    if let Some(token) = lease.known_fence() {
        return Ok(token);
    }
    let _one = lease.fencing.lock();
    match lease.known_fence() {
        Some(token) => Ok(token),
        None => Ok(lease.remember_fence(ask(lease)?)),
    }
}

/// Asks the masters that hold the lock for a token.
fn ask(lease: &Lease) -> Result<u64, Error> {
    let masters = lease.masters();
    let limit = masters.settings.round_timeout(lease.ttl());
    let until = lease.until();
    let mut round = masters.round(lease.command(Operation::Fence), clock::now().plus(limit).min(until));
    let (counters, reached, taken) = round.look(|a, _| (a.counters(), a.reached(), a.taken()));
    lease.check()?;
    if taken {
        return Err(lease.taken());
    }
    if !reached {
        return Err(Error::NoQuorum(masters.tally(&round)));
    }
    settle(lease, &counters, until).map_err(|why| {
        let tally = match &why {
            NoToken::Late => masters.tally(&round),
            NoToken::NoQuorum(round) => masters.tally(round),
        };
        lease.check().err().unwrap_or(Error::NoQuorum(tally))
    })
}
