//! The configurations: the whole protocol, and every rule left out once.

use super::config::{Config, Expected, Fault, Fencing, LOSSES, Network, Witness};
use super::rules::{Promise, Rule};

/// All configurations, the long ones first.
pub fn all() -> Vec<Config> {
    let mut all = whole();
    all.extend(votes());
    all.extend(leases());
    all.extend(fencing());
    all.extend(hand_overs());
    all
}

const LOCK: &[Promise] = &[Promise::Exclusion, Promise::Continuity];

/// The configuration `with` of the whole protocol, and what it is without `rule`.
fn without(rule: &'static [Rule], promise: Promise, with: Config) -> Config {
    Config { removed: rule, expected: Expected::Breaks(promise), ..with }
}

/// Tokens on demand or with the acquire, one attempt each, in a network that may do anything.
const FENCED: Config = Config {
    horizon: 2,
    network: Network::Anything,
    fencing: [Fencing::OnDemand; 2],
    witness: Witness::TwoTokens,
    cached: false,
    ..Config::BASE
};
const FOLDED: Config = Config { fencing: [Fencing::OnDemand, Fencing::Folded], ..FENCED };
/// One loss of counters, which follow a clock by four per tick. The quarantine is longer than leases, and A's own clock
/// is three ticks ahead.
const FENCED_LOSS: Config = Config {
    faults: 1,
    kinds: &[Fault::Flush],
    noticed_at_once: true,
    uncounted_writes: true,
    quarantine: 3,
    clock: 4,
    ahead: [3, 0],
    horizon: 4,
    releases: false,
    earliest: [0, 1],
    ..FENCED
};
/// One thread of A hands its lease to others; steps of two.
const HANDED: Config = Config { hand_overs: 2, step: 2, horizon: 1, ..FOLDED };
/// Master 3 lost its memory before. A's connection does not know that yet, so its key there is written and not counted.
const ADOPTED: Config = Config {
    quarantined: true,
    extensions: [1, 0],
    releases: false,
    witness: Witness::Extended,
    promises: LOCK,
    ..Config::BASE
};
const EXTENDED: Config = Config { extensions: [1, 0], witness: Witness::Extended, promises: LOCK, ..Config::BASE };
const ONE_LOSS: Config = Config { faults: 1, kinds: LOSSES, promises: LOCK, ..Config::BASE };
const ONE_FLUSH: Config = Config { faults: 1, kinds: &[Fault::Flush], promises: LOCK, ..Config::BASE };

/// The whole protocol. Nothing is left out, and every reachable state is visited.
fn whole() -> Vec<Config> {
    vec![
        Config { name: "lock", about: "acquire and release", horizon: 4, ..Config::BASE },
        Config {
            name: "lock-break",
            about: "a connection breaks, its commands arrive late",
            breaks: 1,
            ..Config::BASE
        },
        Config { name: "lock-loss", about: "a master loses its memory, in four ways", releases: false, ..ONE_LOSS },
        Config {
            name: "cold-losses",
            about: "two losses, nothing cached",
            faults: 2,
            releases: false,
            cached: false,
            ..ONE_LOSS
        },
        Config { name: "retry", about: "a second attempt of A", attempts: [2, 1], horizon: 1, ..Config::BASE },
        Config {
            name: "retry-flush",
            about: "a second attempt of B, nothing cached, a flush",
            attempts: [1, 2],
            cached: false,
            horizon: 2,
            ..ONE_FLUSH
        },
        Config { name: "extend", about: "A extends and releases", ..EXTENDED },
        Config {
            name: "extend-flush",
            about: "A extends, a master is flushed",
            faults: 1,
            kinds: &[Fault::Flush],
            releases: false,
            earliest: [0, 1],
            ..EXTENDED
        },
        Config {
            name: "adopt",
            about: "an uncounted key is adopted by an extension, a connection breaks",
            breaks: 1,
            ..ADOPTED
        },
        Config { name: "fence", about: "tokens on demand", ..FENCED },
        Config { name: "fence-folded", about: "A asks for its token, B gets it with the acquire", ..FOLDED },
        Config {
            name: "fence-lossy",
            about: "both get tokens with the acquire, two answers are lost",
            fencing: [Fencing::Folded; 2],
            losses: 2,
            ..FENCED
        },
        Config {
            name: "fence-loss",
            about: "counters lost, A's clock three ticks ahead; A's token comes with the acquire, B asks",
            fencing: [Fencing::Folded, Fencing::OnDemand],
            earliest: [0, 2],
            ..FENCED_LOSS
        },
        Config {
            name: "fence-loss-folded",
            about: "the same, both tokens come with the acquire",
            fencing: [Fencing::Folded; 2],
            ..FENCED_LOSS
        },
        Config { name: "hand-over", about: "two hand-overs in A, tokens on demand", ..HANDED },
        Config {
            name: "alias",
            about: "two names of one server, A extends",
            alias: true,
            promises: &[Promise::Servers, Promise::Exclusion, Promise::Continuity],
            witness: Witness::Extended,
            ..EXTENDED
        },
        Config {
            name: "margin",
            about: "a master forgets without a trace, fault margin 1",
            quorum: 3,
            kinds: &[Fault::Forget],
            releases: false,
            ..ONE_FLUSH
        },
        Config {
            name: "tidy",
            about: "no key stays after a release",
            promises: &[Promise::Exclusion, Promise::Tidiness],
            attempts: [2, 1],
            horizon: 1,
            ..Config::BASE
        },
        Config { name: "revoke", about: "the lock is revoked", revokes: 2, releases: false, horizon: 2, ..EXTENDED },
    ]
}

/// Rules of the vote and of the generation.
fn votes() -> Vec<Config> {
    use Promise::Exclusion;
    vec![
        without(
            &[Rule::TokenPerAttempt],
            Exclusion,
            Config {
                name: "no-token-per-attempt",
                network: Network::Anything,
                cached: false,
                attempts: [2, 1],
                horizon: 1,
                ..Config::BASE
            },
        ),
        without(
            &[Rule::DeadlineFromStart],
            Exclusion,
            Config { name: "deadline-from-answer", releases: false, ..Config::BASE },
        ),
        without(
            &[Rule::Quarantine],
            Exclusion,
            Config { name: "no-quarantine", releases: false, horizon: 1, ..ONE_LOSS },
        ),
        without(
            &[Rule::QuarantineLength],
            Exclusion,
            Config { name: "short-quarantine", attempts: [1, 2], cached: false, horizon: 2, ..ONE_FLUSH },
        ),
        without(
            &[Rule::FaultMargin],
            Exclusion,
            Config { name: "no-margin", kinds: &[Fault::Forget], releases: false, ..ONE_FLUSH },
        ),
        without(&[Rule::ReadGeneration], Exclusion, Config { name: "no-read", releases: false, ..ONE_FLUSH }),
        without(
            &[Rule::ReadBehindWrite],
            Exclusion,
            Config { name: "read-before-write", releases: false, horizon: 1, ..ONE_FLUSH },
        ),
        without(
            &[Rule::CachePerConnection],
            Exclusion,
            Config { name: "cache-inherited", releases: false, kinds: &[Fault::RestartOld], horizon: 1, ..ONE_FLUSH },
        ),
        without(
            &[Rule::CacheSettledOnly],
            Exclusion,
            Config { name: "cache-unsettled", attempts: [1, 2], cached: false, horizon: 1, ..ONE_FLUSH },
        ),
        without(
            &[Rule::Nonce],
            Exclusion,
            Config { name: "no-nonce", noticed_at_once: true, releases: false, horizon: 1, ..ONE_FLUSH },
        ),
    ]
}

/// Rules of extension, undo, release and revoking.
fn leases() -> Vec<Config> {
    use Promise::{Continuity, Exclusion, Servers, Tidiness};
    vec![
        without(
            &[Rule::NoCountInQuarantine],
            Exclusion,
            Config { name: "count-in-quarantine", faults: 1, kinds: &[Fault::Flush], releases: false, ..EXTENDED },
        ),
        without(&[Rule::UndoOnlyWhenOver], Exclusion, Config { name: "early-undo", ..ADOPTED }),
        without(&[Rule::ExtendBeforeDeadline], Continuity, Config { name: "late-extension", ..EXTENDED }),
        // No re-creation: a late command of the acquire writes the key again, and the extension finds it.
        without(
            &[Rule::ExtendBeforeDeadline],
            Continuity,
            Config {
                name: "late-extension-kept",
                network: Network::Anything,
                cached: false,
                quarantine: 0,
                ..EXTENDED
            },
        ),
        without(
            &[Rule::NeverShorten],
            Exclusion,
            Config { name: "shortened-key", extensions: [2, 0], lives: [1, 2], breaks: 1, releases: false, ..EXTENDED },
        ),
        without(
            &[Rule::RecreateUnderQuarantine],
            Continuity,
            Config {
                name: "recreate-unguarded",
                quarantine: 0,
                faults: 1,
                kinds: &[Fault::Flush],
                promises: &[Continuity],
                ..EXTENDED
            },
        ),
        without(
            &[Rule::IndexInValue],
            Servers,
            Config { name: "no-index", alias: true, promises: &[Servers], ..EXTENDED },
        ),
        without(
            &[Rule::ReleaseOnSameConnection],
            Tidiness,
            Config { name: "release-elsewhere", promises: &[Tidiness], attempts: [2, 1], horizon: 1, ..Config::BASE },
        ),
        without(
            &[Rule::RevokeKeepsLife],
            Exclusion,
            Config { name: "revoke-at-once", revokes: 2, releases: false, horizon: 2, ..EXTENDED },
        ),
    ]
}

/// Rules of fencing.
fn fencing() -> Vec<Config> {
    use Promise::TokenOrder;
    const FLUSHED: Config = Config { releases: true, horizon: 1, earliest: [0, 0], ahead: [1, 0], ..FENCED_LOSS };
    const BOTH_FOLDED: Config = Config { fencing: [Fencing::Folded; 2], ..FENCED_LOSS };
    vec![
        without(&[Rule::FenceOwnValue], TokenOrder, Config { name: "fence-any-value", ..FOLDED }),
        without(
            &[Rule::FenceGeneration],
            TokenOrder,
            Config { name: "fence-any-generation", fencing: [Fencing::Folded, Fencing::OnDemand], ..FLUSHED },
        ),
        without(&[Rule::FenceDeadline], TokenOrder, Config { name: "fence-late", ..FENCED }),
        without(
            &[Rule::FenceRank],
            TokenOrder,
            Config { name: "fence-maximum", fencing: [Fencing::Folded; 2], attempts: [2, 1], horizon: 1, ..FENCED },
        ),
        without(&[Rule::FenceClock], TokenOrder, Config { name: "fence-no-clock", ..BOTH_FOLDED }),
        without(&[Rule::FenceOwnClock], TokenOrder, Config { name: "fence-clients-clock", ..BOTH_FOLDED }),
    ]
}

/// Rules of local hand-over.
fn hand_overs() -> Vec<Config> {
    use Promise::{Exclusion, HandOver, TokenOrder};
    vec![
        without(
            &[Rule::HandOverHeldOnly],
            HandOver,
            Config { name: "hand-over-in-jeopardy", extensions: [2, 0], promises: &[HandOver], ..HANDED },
        ),
        without(&[Rule::HandOverMarksFirst], Exclusion, Config { name: "hand-over-unmarked", ..HANDED }),
        without(&[Rule::HandOverBeforeRelease], Exclusion, Config { name: "hand-over-released", ..HANDED }),
        without(&[Rule::HandOverWithinStep], TokenOrder, Config { name: "hand-over-beyond-step", ..HANDED }),
        without(&[Rule::HandOverAfterQuestion], TokenOrder, Config { name: "hand-over-asking", ..HANDED }),
    ]
}
