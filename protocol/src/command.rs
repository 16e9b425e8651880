//! What is said to a master, as data.

use super::layout::Keys;
use super::owner::Owner;
use super::round::Rule;
use super::wait_list::{Notify, WaitEntry};
use std::sync::Arc;
use std::time::Duration;

/// What a round asks of every master about one lock.
#[derive(Clone, Debug)]
pub struct Command {
    /// The keys of the lock.
    pub keys: Arc<Keys>,
    /// Whose value it is about.
    pub owner: Arc<Owner>,
    /// What to do.
    pub operation: Operation,
    /// 64 random bits for a generation that a script may have to begin.
    pub nonce: u64,
}

/// The part of one lease in a renewal of many.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The keys of the lock.
    pub keys: Arc<Keys>,
    /// Whose value it is.
    pub owner: Arc<Owner>,
    /// The key's new life in milliseconds.
    pub px_ms: u64,
}

/// The operations.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Write our value if the key is absent.
    Acquire {
        /// The key's life on the master: ttl and lock-delay, in milliseconds.
        px_ms: u64,
        /// By the full script even where plain commands would do.
        full: bool,
        /// Raise the fencing counter in the same script.
        fence: bool,
        /// If the lock is not granted, this place in the wait list. By the script only.
        entry: Option<WaitEntry>,
    },
    /// Renew our key; where `recreate` is set, write it again if it is absent.
    Extend {
        /// The key's new life in milliseconds.
        px_ms: u64,
        /// Whether an absent key is written again.
        recreate: bool,
    },
    /// Renew many leases of one client, each as `Extend` does.
    ExtendMany {
        /// The leases; the command is named after the first.
        leases: Arc<[Renewal]>,
        /// As in `Extend`.
        recreate: bool,
    },
    /// Take over the key of the value `from` (on each master with its index), which its owner has given up.
    Adopt {
        /// The former owner.
        from: Arc<Owner>,
        /// The key's new life in milliseconds.
        px_ms: u64,
    },
    /// Delete our key and announce it, or let it live on for `keep` (the minimum hold).
    Release {
        /// How long the key stays.
        keep: Duration,
        /// Notify a waiter. Not for an attempt that is undone: it may have held nothing.
        notify: Option<Notify>,
    },
    /// Raise the fencing counter while our key is there.
    Fence,
    /// Lift the fencing counter to at least this while our key is there.
    WriteBack(u64),
    /// Notify the first waiter that the lock is free, if it still is; with the number under which the last holder has
    /// waited.
    Notify(u64),
    /// Ask whether our key is there.
    Verify,
    /// Ask who holds the lock.
    Status,
    /// Take the lock from its holder: the key stays, with a value that is nobody's, until its ttl ends.
    Revoke {
        /// Delete the key instead: the next one is granted while the former holder may still rely on its lease.
        now: bool,
    },
    /// Ask what stands on the master.
    Blank {
        /// If it is new and empty, mark it for the `Init` with the same nonce.
        mark: bool,
    },
    /// Begin a generation without quarantine on a master that is still marked for it.
    Init {
        /// Otherwise take the mark back.
        settle: bool,
    },
}

/// How an acquire asks one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `SET NX PX` and, behind it on the same connection, `MGET generation key`.
    Pair,
    /// The script.
    Script,
}

impl Operation {
    /// An extension for `px_ms`. An absent key is written again only where the quarantine is in force: elsewhere nobody
    /// vouches for the time in which it was absent.
    pub fn extend(px_ms: u64, quarantine: bool) -> Operation {
        Operation::Extend { px_ms, recreate: quarantine }
    }

    /// Extensions of many leases, each as by [`Operation::extend`].
    pub fn extend_many(leases: Arc<[Renewal]>, quarantine: bool) -> Operation {
        Operation::ExtendMany { leases, recreate: quarantine }
    }

    /// A number for each operation, below 32.
    pub fn number(&self) -> u32 {
        match self {
            Operation::Acquire { .. } => 0,
            Operation::Extend { .. } => 1,
            Operation::Adopt { .. } => 2,
            Operation::Release { .. } => 3,
            Operation::Fence => 4,
            Operation::WriteBack(_) => 5,
            Operation::Verify => 6,
            Operation::Status => 7,
            Operation::Revoke { .. } => 8,
            Operation::Blank { .. } => 9,
            Operation::Init { .. } => 10,
            Operation::ExtendMany { .. } => 11,
            Operation::Notify(_) => 12,
        }
    }

    /// When a round of this operation is over.
    pub fn rule(&self) -> Rule {
        match self {
            Operation::Status
            | Operation::Revoke { .. }
            | Operation::Blank { .. }
            | Operation::Init { .. }
            | Operation::Notify(_) => Rule::All,
            Operation::ExtendMany { .. } => Rule::QuorumOrAll,
            _ => Rule::Quorum,
        }
    }

    /// Whether it may be sent again behind other commands, while its round is open and undecided. Not so a renewal of
    /// many leases: one of them may have been released meanwhile, and its key would be written again.
    pub fn is_repeatable(&self) -> bool {
        !matches!(self, Operation::ExtendMany { .. })
    }

    /// Whether a yes to it is a vote, which no master in quarantine casts.
    pub fn is_vote(&self) -> bool {
        matches!(self, Operation::Acquire { .. } | Operation::Extend { .. } | Operation::Adopt { .. })
    }

    /// Whether this is a release: unlike a vote, it may be sent again after its attempt has ended.
    pub fn is_release(&self) -> bool {
        matches!(self, Operation::Release { .. })
    }
}

/// How an acquire is put to a connection that has (`settled`) or has not seen a settled generation.
///
/// Proof obligation: plain commands are a vote only with a settled generation cached from the full script on this very
/// connection (`docs/SAFETY.md#plain-vote`) or, without quarantine, where no generation stands. Anything rare is the
/// script.
pub fn form(quarantine: bool, full: bool, fenced: bool, settled: bool) -> Form {
    if full || fenced || (quarantine && !settled) { Form::Script } else { Form::Pair }
}
