//! The rules of the protocol, each of which a configuration can leave out, and the promises that they keep.

/// A rule. Each docstring says what it demands and which step of the proof needs it.
///
/// The proof in short. *Vote lemma*: if A counts a vote of a master and the same master later votes for B, then A no
/// longer relies on that vote. For A's key can only have ended by (i) its expiry, (ii) A's own release, or (iii) a loss
/// of the master's memory, and each of the three implies that A's deadline is over or that A has given up. *Exclusion*:
/// two quorums share a master, and the client for which this master voted first no longer relies on its vote.
/// *Continuity*: an extension is complete before the old deadline, so the lock was granted to no other client in
/// between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Every attempt has a value of its own (lemma, ii: no release of another attempt deletes the key).
    TokenPerAttempt,
    /// The deadline counts from before the first byte was sent, not from the last answer (lemma, i: so the key lives
    /// longer).
    DeadlineFromStart,
    /// A master that lost its memory casts no votes for a while (lemma, iii).
    Quarantine,
    /// The quarantine is as long as the longest lease (lemma, iii: no lease from before the loss is left at its end).
    QuarantineLength,
    /// In quarantine a renewal is not counted either, whether or not it writes (lemma, iii, for extensions).
    NoCountInQuarantine,
    /// The quorum is `floor((N + f) / 2) + 1`: two quorums share a master that did not forget without a trace
    /// (exclusion).
    FaultMargin,
    /// The value on master `i` carries `i`: one server behind two names casts one vote (exclusion counts servers).
    IndexInValue,
    /// The plain vote reads the generation (lemma, iii, for plain votes).
    ReadGeneration,
    /// It reads the generation after the write, so that an equal string proves that it was in force at the write.
    ReadBehindWrite,
    /// It compares with what *this connection* saw: a new connection inherits no cached generation.
    CachePerConnection,
    /// Only a generation that is out of its quarantine is cached.
    CacheSettledOnly,
    /// Every generation has a random part, so that equal strings are one generation, whatever the master's clock did.
    Nonce,
    /// A key whose vote was not counted is undone only when its attempt is over: an extension may have adopted it.
    UndoOnlyWhenOver,
    /// The release is sent on the connection of the attempt, after its commands. Without this rule nothing unsafe
    /// happens, but keys are left.
    ReleaseOnSameConnection,
    /// An extension is complete before the old deadline (continuity).
    ExtendBeforeDeadline,
    /// An extension writes an absent key again only where the quarantine is in force (continuity: elsewhere the lock
    /// may have been granted to another client while the key was absent).
    RecreateUnderQuarantine,
    /// No script shortens the ttl of a key: a shorter extension that arrives late changes nothing after a longer one
    /// (lemma, i).
    NeverShorten,
    /// Revoking keeps the ttl of the key: no other client is granted the lock before the holder's deadline (lemma, ii).
    RevokeKeepsLife,
    /// The fencing scripts raise the counter only while our value is there. An acquire that also asks for a token reads
    /// the counters before it is granted, so it would not see a late raise by the former holder.
    FenceOwnValue,
    /// The fencing scripts check the generation as a vote does, because counters start again after a loss.
    FenceGeneration,
    /// The last answer that a token needs arrives before the deadline: after it, the next holder may have asked
    /// already.
    FenceDeadline,
    /// The token is the `r`-th largest counter, `r = q + v - N - f`, and a quorum holds it before it is used.
    FenceRank,
    /// Counters are raised at least to a clock, so that they go on rising after a loss.
    FenceClock,
    /// That clock is the master's own, so that a client's wrong clock does not matter.
    FenceOwnClock,
    /// A lease is handed over inside a process only while it is held and its last renewal was good.
    HandOverHeldOnly,
    /// The first guard is marked not held before the second one exists.
    HandOverMarksFirst,
    /// Once a release is queued anywhere, the lease is not handed over.
    HandOverBeforeRelease,
    /// A lease is handed over fewer times than there are numbers between two tokens.
    HandOverWithinStep,
    /// A guard does not hand over its lease while its question for a token is under way.
    HandOverAfterQuestion,
}

impl Rule {
    /// All of them.
    pub const ALL: [Rule; 29] = [
        Rule::TokenPerAttempt,
        Rule::DeadlineFromStart,
        Rule::Quarantine,
        Rule::QuarantineLength,
        Rule::NoCountInQuarantine,
        Rule::FaultMargin,
        Rule::IndexInValue,
        Rule::ReadGeneration,
        Rule::ReadBehindWrite,
        Rule::CachePerConnection,
        Rule::CacheSettledOnly,
        Rule::Nonce,
        Rule::UndoOnlyWhenOver,
        Rule::ReleaseOnSameConnection,
        Rule::ExtendBeforeDeadline,
        Rule::RecreateUnderQuarantine,
        Rule::NeverShorten,
        Rule::RevokeKeepsLife,
        Rule::FenceOwnValue,
        Rule::FenceGeneration,
        Rule::FenceDeadline,
        Rule::FenceRank,
        Rule::FenceClock,
        Rule::FenceOwnClock,
        Rule::HandOverHeldOnly,
        Rule::HandOverMarksFirst,
        Rule::HandOverBeforeRelease,
        Rule::HandOverWithinStep,
        Rule::HandOverAfterQuestion,
    ];
}

/// What the protocol promises; a state remembers the first promise that was broken on the way to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Promise {
    /// At most one guard is held at any time.
    Exclusion,
    /// A lease that was extended was held all the time: nobody else was granted in between.
    Continuity,
    /// Tokens rise in the order in which the lock was granted or handed over.
    TokenOrder,
    /// The votes of a granted round come from as many servers.
    Servers,
    /// A lease that is handed over is held, and was renewed last time.
    HandOver,
    /// After an executed release no key of that attempt is left.
    Tidiness,
}

impl Promise {
    /// All of them.
    pub const ALL: [Promise; 6] = [
        Promise::Exclusion,
        Promise::Continuity,
        Promise::TokenOrder,
        Promise::Servers,
        Promise::HandOver,
        Promise::Tidiness,
    ];

    /// The name of the property.
    pub fn name(self) -> &'static str {
        match self {
            Promise::Exclusion => "exclusion",
            Promise::Continuity => "continuity",
            Promise::TokenOrder => "token order",
            Promise::Servers => "servers",
            Promise::HandOver => "hand-over",
            Promise::Tidiness => "tidiness",
        }
    }
}
