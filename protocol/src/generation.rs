//! The generation of a master, and the quarantine after a loss of state.
//!
//! Every master holds one string `identity:ready_at_us:max_lease_ms:deployment:N:q:nonce`. The scripts compare it in
//! every vote; absence or another identity starts a new generation whose votes count after `ready_at`.
//!
//! The identity of a master is that of its process and of its history: the first 24 digits of its `run_id` and of its
//! `master_replid`. A restart and a promoted replica have another run id; a master that became a replica and a master
//! again has the same run id, and another replication id.

use super::quorum::Quorum;
use super::time::{millis_up, nanos};
use super::validity::Drift;
use std::time::Duration;

/// The number of digits of an identity.
pub const IDENTITY: usize = 48;

/// What all clients of one deployment must agree on; part of every generation string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    block: String,
    quarantine_us: u64,
}

impl Deployment {
    /// The deployment named `name` with leases of at most `max_lease` on the masters of `quorum`.
    pub fn new(name: &str, quorum: Quorum, max_lease: Duration, drift: Drift) -> Deployment {
        Deployment {
            block: format!("{}:{name}:{}:{}", millis_up(max_lease), quorum.masters(), quorum.votes()),
            quarantine_us: nanos(quarantine(max_lease, drift)).div_ceil(1_000),
        }
    }

    /// `max_lease_ms:deployment:N:q`, compared byte for byte.
    pub fn block(&self) -> &str {
        &self.block
    }

    /// How long a master without memory casts no votes, in microseconds.
    pub fn quarantine_us(&self) -> u64 {
        self.quarantine_us
    }
}

/// Why a master with `theirs` for its block refuses a client with `ours`, and what to do.
pub fn difference(theirs: &str, ours: &str) -> String {
    if theirs == ours {
        return "its generation was written by an older version: update all clients, and delete that key when no lock \
                has been held for max_lease"
            .into();
    }
    format!(
        "it belongs to a deployment with other settings (max_lease_ms:deployment:masters:quorum is {theirs} there, \
         {ours} here); all clients must agree"
    )
}

/// What a generation that begins on master `i` ends in: the place of the master in the list of the client that began
/// it, in two digits, and 64 random bits.
pub fn nonce(i: usize, random: u64) -> String {
    format!("{i:02x}{random:016x}")
}

/// The random bits of what [`nonce`] made for master `i`; `None` if it made this for another master, or not at all.
pub fn random_bits(nonce: &str, i: usize) -> Option<u64> {
    let (place, random) = nonce.split_at_checked(2)?;
    (random.len() == 16 && usize::from_str_radix(place, 16) == Ok(i)).then(|| u64::from_str_radix(random, 16).ok())?
}

/// What a client has found at the address of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nobody answers.
    Nobody,
    /// A master without a generation.
    Blank,
    /// A master whose generation was begun by a client that had it in this place.
    Place(usize),
}

/// Looks for a sign that a master belongs to another set of masters with the same settings: it had another place there,
/// and at least half of the masters here are new. A master with such a sign, and its place there.
///
/// Another place alone is no such sign: the same masters may be named in another order, and one of them may have begun
/// anew.
pub fn of_another_set(found: &[Found]) -> Option<(usize, usize)> {
    let moved = found.iter().enumerate().find_map(|(i, f)| match f {
        Found::Place(place) if *place != i => Some((i, *place)),
        _ => None,
    })?;
    let blank = found.iter().filter(|f| **f == Found::Blank).count();
    (2 * blank >= found.len()).then_some(moved)
}

/// How often, at the least, a client looks up the address of each master and compares the server there with the one
/// that it is connected to. A part of every quarantine.
pub fn look_up_interval(max_lease: Duration) -> Duration {
    max_lease / 4
}

/// The length of a quarantine: `(max_lease + look_up_interval) * (1 + 2 * drift) + 10 ms`.
///
/// Proof obligation: no lease that was granted before the loss is still relied on when the quarantine ends, by any
/// client whose clock runs within `drift` of the master's. The loss may be that the address leads to another server
/// while the former one lives on: then the last vote of the former is one interval later than the first contact with
/// the new one, and its lease ends one `max_lease` later still.
pub fn quarantine(max_lease: Duration, drift: Drift) -> Duration {
    drift.lengthen(max_lease.saturating_add(look_up_interval(max_lease))).saturating_add(Duration::from_millis(10))
}

/// Whether the name of a deployment may stand in a generation string: 1 to 64 of `A-Z a-z 0-9 . _ -`.
pub fn valid_deployment(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// A generation string taken apart, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// Who the server was: 24 digits of its run id and 24 of its replication id.
    pub identity: String,
    /// When votes count again, in microseconds of the master's clock since 1970.
    pub ready_at_us: u64,
    /// `max_lease_ms:deployment:N:q`.
    pub block: String,
    /// The place of the master in the list of the client that began it; `None` in an older format.
    pub place: Option<usize>,
}

/// What stands in the place of a generation while an init is under way begins with this. It is no generation: a master
/// that is asked for a vote meanwhile begins one, with its quarantine.
pub const INIT_MARK: &str = "init:";

impl Generation {
    /// Reads a generation string, also one of the older format; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Generation> {
        let (identity, rest) = text.split_once(':')?;
        let (ready, rest) = rest.split_once(':')?;
        let (block, nonce) = rest.rsplit_once(':')?;
        let hex = |s: &str| s.bytes().all(|b| b.is_ascii_hexdigit());
        (hex(identity) && hex(nonce) && !nonce.is_empty() && block.split(':').count() == 4).then_some(())?;
        ready.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
        let place =
            (identity.len() == IDENTITY && nonce.len() == 18).then(|| usize::from_str_radix(&nonce[..2], 16).ok());
        Some(Generation {
            identity: identity.into(),
            ready_at_us: ready.parse().ok()?,
            block: block.into(),
            place: place.flatten(),
        })
    }
}
