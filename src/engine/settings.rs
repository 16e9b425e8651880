//! The settings that the engine runs by, already validated.

use crate::protocol::generation::Deployment;
use crate::protocol::lease;
use crate::protocol::retry::Backoff;
use crate::protocol::time::millis_up;
use crate::protocol::{Drift, Namespace, Quorum, validity};
use std::sync::Arc;
use std::time::Duration;

/// The settings of a client.
pub(crate) struct Settings {
    pub(crate) quorum: Quorum,
    pub(crate) namespace: Namespace,
    pub(crate) deployment: Deployment,
    pub(crate) quarantine: bool,
    pub(crate) max_lease: Duration,
    pub(crate) drift: Drift,
    pub(crate) ttl: Duration,
    pub(crate) master_timeout: Option<Duration>,
    pub(crate) round_timeout: Option<Duration>,
    pub(crate) hang_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) outage_patience: Duration,
    pub(crate) lanes: usize,
    pub(crate) pool_size: u32,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) test_on_check_out: bool,
    /// How many held locks have a watchdog thread of their own at most.
    pub(crate) watchdog_threads: usize,
    pub(crate) hand_over: Duration,
    pub(crate) label: Arc<str>,
    pub(crate) backoff: Backoff,
}

impl Settings {
    /// How long one master may take to answer a round of a lock with this ttl.
    pub(crate) fn master_timeout(&self, ttl: Duration) -> Duration {
        validity::master_timeout(ttl, self.master_timeout)
    }

    /// How long a round of a lock with this ttl is waited for.
    pub(crate) fn round_timeout(&self, ttl: Duration) -> Duration {
        validity::round_timeout(ttl, self.round_timeout, self.master_timeout)
    }

    /// How long the watchdog waits for a renewal of a lock with this ttl.
    pub(crate) fn renewal_timeout(&self, ttl: Duration) -> Duration {
        validity::renewal_timeout(ttl, self.round_timeout)
    }
}

/// The terms of one lock, shared by its handles and leases. Nothing in here is the user's code, because the
/// thread that drops it last may have a mutex locked: a pause of the user's own travels with the call
/// ([`Patience`](super::waiting::Patience)).
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) renew: bool,
    pub(crate) fenced: bool,
    pub(crate) lock_delay: Duration,
    pub(crate) min_hold: Duration,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) hand_over: Duration,
    pub(crate) tries: Option<u32>,
    pub(crate) fail_fast: bool,
    pub(crate) backoff: Backoff,
    pub(crate) label: Arc<str>,
}

impl Terms {
    /// Whether a lease on these terms serves a caller who asked for `other`.
    pub(crate) fn same(&self, other: &Terms) -> bool {
        let lease = |t: &Terms| (t.ttl, t.renew, t.fenced, t.lock_delay, t.min_hold, t.max_hold, t.hand_over);
        std::ptr::eq(self, other) || (lease(self) == lease(other) && self.label == other.label)
    }

    /// The life of the key on a master for a lease of `ttl`.
    pub(crate) fn px_ms(&self, ttl: Duration) -> u64 {
        millis_up(ttl.saturating_add(self.lock_delay))
    }

    pub(crate) fn lease(&self, drift: Drift) -> lease::Terms {
        lease::Terms { ttl: self.ttl, drift, renew: self.renew, max_hold: self.max_hold }
    }
}
