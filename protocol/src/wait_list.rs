//! The wait list of a lock, which its masters keep: an entry for each waiter, the one that has waited longest first.
//!
//! A release takes the first entry out and notifies that waiter; nobody else is woken. Each client has a channel of its
//! own.

use std::time::Duration;

/// How long a process may take a lock again and again while others wait elsewhere.
pub const QUANTUM: Duration = Duration::from_millis(7);

/// How long a waiter that was not notified leaves a free lock to one that was, and how long it lets the holder's
/// process take the lock again: a quantum. After it a free lock is anybody's, so a notified waiter that died delays the
/// others for no longer.
pub const YIELD_WINDOW: Duration = QUANTUM;

/// How long a master remembers when the last quantum began if nobody waits any more: as long as a notified waiter may
/// need to come.
pub const EMPTY_LIST_MEMORY: Duration = Duration::from_millis(20);

/// How many bits of a waiter's number are its own, as `notify_first.lua` has it too; the 24 above them are its
/// client's. Lua counts to 2^53 without loss.
const OWN_BITS: u32 = 28;

/// What an attempt of a waiter says for its place in the wait list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitEntry {
    /// The waiter's number.
    pub waiter: u64,
    /// How long its place is kept, in milliseconds.
    pub life_ms: u64,
    /// How long it has waited already, in microseconds.
    pub waited_us: u64,
    /// It was not notified: it leaves the lock alone for [`YIELD_WINDOW`] after another's quantum began, even if it is
    /// free.
    pub yields: bool,
}

/// How a release notifies the first waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The number under which the holder's process has waited itself, for it may still be in a wait list; zero if it
    /// has not.
    pub waiter: u64,
    /// At once; else the release only learns whether somebody waits, because the quantum of this process is not over.
    pub at_once: bool,
}

impl Notify {
    /// By a process that has not waited.
    pub const AT_ONCE: Notify = Notify { waiter: 0, at_once: true };
}

/// The number of a client, of 64 uniform bits. Clients with the same one wake each other in vain, and nothing else
/// comes of it.
pub fn client_number(random: u64) -> u64 {
    random >> 40
}

/// The number of one wait of a client, of 64 uniform bits; not zero.
pub fn waiter_number(client: u64, random: u64) -> u64 {
    client << OWN_BITS | (random >> (64 - OWN_BITS)).max(1)
}

/// The channel on which the waiters of one client are notified, of the lock's channel.
pub fn channel_of(channel: &str, client: u64) -> String {
    format!("{channel}:{client}")
}
