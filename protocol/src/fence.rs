//! Fencing tokens from independent counters: the rank rule (`docs/SAFETY.md#fencing`).

use super::quorum::Quorum;
use super::time::Mono;

/// A counter rises by this much per raise; the numbers between are for hand-overs within one lease.
pub const STEP: u64 = 64;
/// Tokens stay below this, so that they are exact in SQL BIGINT, Lua and JSON (until the year 2255).
pub const LIMIT: u64 = 1 << 53;

/// What the counters of a round say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Fewer than a quorum answered.
    NotEnough,
    /// The token, and already a quorum holds it.
    Done(u64),
    /// The token; it must be written back to the masters of the mask, until a quorum holds it.
    WriteBack(u64, u32),
}

/// The token of a round in which master `i` answered `counters[i]`: with `v >= q` answers, the `r`-th largest, where
/// `r = q + v - N - f`.
///
/// Proof obligation: an earlier holder's token is held by a quorum, which meets our `v` answers in at least `r` honest
/// masters, each of which answered after that holder's end and so at least `STEP` above it. Hence the `r`-th largest
/// answer is above every earlier token, provided a quorum holds ours before we use it (`docs/SAFETY.md#fencing`).
pub fn rank(quorum: Quorum, counters: &[Option<u64>]) -> Rank {
    let mut given: Vec<u64> = counters.iter().copied().flatten().collect();
    if !quorum.reached(given.len()) {
        return Rank::NotEnough;
    }
    given.sort_unstable_by(|a, b| b.cmp(a));
    // r >= 1, because v >= q and 2q > N + f.
    let r = quorum.votes() + given.len() - quorum.masters() - quorum.margin();
    let token = given[r - 1];
    if given[quorum.votes() - 1] >= token {
        return Rank::Done(token);
    }
    let below = |c: &Option<u64>| c.is_none_or(|c| c < token);
    let mask = counters.iter().enumerate().filter(|(_, c)| below(c)).fold(0, |m, (i, _)| m | 1 << i);
    Rank::WriteBack(token, mask)
}

/// How far a token has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settling {
    /// A quorum holds it, in time: it is the lease's.
    Token(u64),
    /// It is to be written back to the masters that hold the lock.
    WriteBack(u64),
    /// The lease was over before a quorum held it.
    Late,
    /// Too few masters took it.
    NoQuorum,
}

/// What becomes of the counters of a round that reached a quorum, looked at before `now`. `until` is when the lease
/// ended as the round was sent.
///
/// Proof obligation: the last answer that is needed is in before `until`, and every answer comes from a script that
/// found our value and a settled generation (`docs/SAFETY.md#fencing`). Answers that come after this look are not
/// counted.
pub fn settle(quorum: Quorum, counters: &[Option<u64>], now: Mono, until: Mono) -> Settling {
    match rank(quorum, counters) {
        Rank::Done(token) if now < until => Settling::Token(token),
        Rank::WriteBack(token, _) => Settling::WriteBack(token),
        Rank::Done(_) | Rank::NotEnough => Settling::Late,
    }
}

/// What becomes of a token that was written back by a round that `reached` a quorum or not and was looked at before
/// `end`: a master answers yes with a counter that is at least the token. `until` is when the lease ended as its
/// counters were asked for, `present` when it ends by now: [`Mono::ZERO`] if it was lost or given up meanwhile.
pub fn written_back(token: u64, reached: bool, end: Mono, until: Mono, present: Mono) -> Settling {
    match (reached, end < until.min(present)) {
        (true, true) => Settling::Token(token),
        (true, false) => Settling::Late,
        (false, _) => Settling::NoQuorum,
    }
}
