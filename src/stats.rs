//! How a client has fared.

use crate::engine::error::Undelivered;
use crate::engine::root::Engine;
use std::time::Duration;

/// The connections of a client, to all masters together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// How many are open now.
    pub open: u64,
    /// How many of these are idle in their pools: neither a lane uses them, nor the thread that hears of releases.
    pub idle: u64,
    /// How many were made since the client was built, without those that only looked up an address.
    pub made: u64,
    /// How many of these were closed, by either side.
    pub closed: u64,
    /// How often one was taken out of its pool, new or idle.
    pub check_outs: u64,
    /// How many idle ones did not pass the test when they were to be used again.
    pub failed_tests: u64,
}

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
    /// The connections of this client.
    pub connections: ConnectionStats,
}

impl Stats {
    pub(crate) fn of(engine: &Engine, undelivered: Undelivered) -> Stats {
        let counts = engine.connectors.counts();
        Stats {
            renewal_latest: engine.leases.timer.latest(),
            chore_latest: engine.chores.latest(),
            chore_overruns: engine.chores.overruns(),
            undelivered,
            connections: ConnectionStats {
                open: counts.open(),
                idle: counts.idle(),
                made: counts.made(),
                closed: counts.closed(),
                check_outs: counts.check_outs(),
                failed_tests: counts.failed_tests(),
            },
        }
    }
}
