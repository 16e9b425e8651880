//! The generation of a master, and the quarantine after a loss of state.
//!
//! Every master holds one string `run_id:ready_at_us:max_lease_ms:cluster:N:q:nonce`. The scripts compare it in every
//! vote; absence or another `run_id` starts a new generation whose votes count after `ready_at`.

use super::quorum::Quorum;
use super::time::{millis_up, nanos};
use super::validity::Drift;
use std::time::Duration;

/// What all clients of one deployment must agree on; part of every generation string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    block: String,
    quarantine_us: u64,
}

impl Deployment {
    /// The deployment `cluster` with leases of at most `max_lease` on the masters of `quorum`.
    pub fn new(cluster: &str, quorum: Quorum, max_lease: Duration, drift: Drift) -> Deployment {
        Deployment {
            block: format!("{}:{cluster}:{}:{}", millis_up(max_lease), quorum.masters(), quorum.votes()),
            quarantine_us: nanos(quarantine(max_lease, drift)).div_ceil(1_000),
        }
    }

    /// `max_lease_ms:cluster:N:q`, compared byte for byte.
    pub fn block(&self) -> &str {
        &self.block
    }

    /// How long a master without memory casts no votes, in microseconds.
    pub fn quarantine_us(&self) -> u64 {
        self.quarantine_us
    }
}

/// The length of a quarantine: `max_lease * (1 + 2 * drift) + 10 ms`.
///
/// Proof obligation: no lease that was granted before the loss is still relied on when the quarantine ends, by any client
/// whose clock runs within `drift` of the master's (safety.md 2.2, case iii).
pub fn quarantine(max_lease: Duration, drift: Drift) -> Duration {
    drift.lengthen(max_lease) + Duration::from_millis(10)
}

/// Whether a cluster id may stand in a generation string: 1 to 64 of `A-Z a-z 0-9 . _ -`.
pub fn valid_cluster(id: &str) -> bool {
    (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// A generation string taken apart, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// The server's run id; empty where clients may not ask for it.
    pub run_id: String,
    /// When votes count again, in microseconds of the master's clock since 1970.
    pub ready_at_us: u64,
    /// `max_lease_ms:cluster:N:q`.
    pub block: String,
}

/// What stands in the place of a generation while an init is under way begins with this. It is no generation: a master that is
/// asked for a vote meanwhile begins one, with its quarantine.
pub const INIT_MARK: &str = "init:";

impl Generation {
    /// Reads a generation string; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Generation> {
        let (run_id, rest) = text.split_once(':')?;
        let (ready, rest) = rest.split_once(':')?;
        let (block, nonce) = rest.rsplit_once(':')?;
        let hex = |s: &str| s.bytes().all(|b| b.is_ascii_hexdigit());
        (hex(run_id) && hex(nonce) && !nonce.is_empty() && block.split(':').count() == 4).then_some(())?;
        ready.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        Some(Generation { run_id: run_id.into(), ready_at_us: ready.parse().ok()?, block: block.into() })
    }
}
