//! How a client has fared.

use crate::engine::error::Undelivered;
use crate::engine::root::Engine;
use std::time::Duration;

/// What [`Client::stats`](crate::Client::stats) counts, since the client was built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The longest delay with which something began that was due for a lease: a renewal, or the announcement of its
    /// end. More than a few milliseconds mean that this process was stopped, or is short of processor time; above 50 ms
    /// it is logged.
    pub renewal_latest: Duration,
    /// The same for the client's chores, such as delivering releases again and checking idle connections. Leases do not
    /// wait for them.
    pub chore_latest: Duration,
    /// How many chores took longer than 10 ms. Chores do not block, so this too is a sign of too little processor time.
    pub chore_overruns: u64,
    /// Releases that could not be delivered.
    pub undelivered: Undelivered,
}

impl Stats {
    pub(crate) fn of(engine: &Engine, undelivered: Undelivered) -> Stats {
        Stats {
            renewal_latest: engine.leases.timer.latest(),
            chore_latest: engine.chores.latest(),
            chore_overruns: engine.chores.overruns(),
            undelivered,
        }
    }
}
