//! The circuit breaker: which masters a round waits for.

use super::time::Mono;
use std::time::Duration;

/// What is known of the connection to one master when a round is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// No connection: nothing can be sent.
    Down,
    /// A connection whose oldest unanswered request was sent at this moment, if there is one.
    Up(Option<Mono>),
}

/// What a round does about one master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Send, and wait for the answer.
    Ask,
    /// Send, but do not wait: it owes an answer for too long. A late vote still counts within its own round.
    AskOnly,
    /// Do not send: it is down.
    Skip,
}

/// Decides how a round treats a master, given the limit after which an unanswered master is called hung. All answers
/// that had come by `read_up_to` have been read: an answer may lie in the socket of a process that was not given a
/// processor, and says nothing against the master.
pub fn treat(link: Link, read_up_to: Mono, limit: Duration) -> Treatment {
    match link {
        Link::Down => Treatment::Skip,
        Link::Up(Some(sent)) if read_up_to.since(sent) > limit => Treatment::AskOnly,
        Link::Up(_) => Treatment::Ask,
    }
}

/// Whether a connection is given up: its oldest unanswered request was older than the connection's own limit at `now`,
/// up to which all answers have been read.
///
/// This clock is apart from every round's, so that a lock with a short ttl does not cost the others their connection.
pub fn give_up(oldest: Option<Mono>, now: Mono, limit: Duration) -> bool {
    oldest.is_some_and(|sent| now.since(sent) > limit)
}

/// How long a connection must live not to count as broken at once.
pub const STEADY: Duration = Duration::from_secs(1);

/// The pause before a master is connected to again whose last `failures` connections could not be made or broke at
/// once: none at first, then 50 ms, doubled up to 1 s.
pub fn reconnect_pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        n => Duration::from_millis(50).saturating_mul(1 << (n - 2).min(8)).min(STEADY),
    }
}
