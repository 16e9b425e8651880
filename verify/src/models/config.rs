//! A configuration: what is left out of the protocol, and how far the adversary and the clients may go.

use super::rules::{Promise, Rule};
use super::state::CLIENTS;

/// How commands travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Connections: in order. A broken connection leaves commands in its socket, which are executed at some time or
    /// never.
    Connections,
    /// Anything: any order, any delay, loss. This is harsher than TCP. It is for scripts only, since the plain vote
    /// needs its order.
    Anything,
}

/// How a client gets its fencing tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// Not at all.
    Never,
    /// Asked for by a holder, once.
    OnDemand,
    /// Asked for together with the lock.
    Folded,
}

/// How a master loses its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `FLUSHALL`: the process and its connections go on.
    Flush,
    /// It restarts empty.
    RestartEmpty,
    /// It restarts from an old copy of its data: the lock is absent, the generation string is there.
    RestartOld,
    /// It takes over the data of another server: the lock is absent, the generation is another one.
    Resync,
    /// The key is lost without a trace, as by eviction. The promises do not cover it, except within the fault margin.
    Forget,
}

/// Losses that the generation shows.
pub const LOSSES: &[Fault] = &[Fault::Flush, Fault::RestartEmpty, Fault::RestartOld, Fault::Resync];

/// The expected result of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Every reachable state was visited, and no promise was broken.
    Holds,
    /// This promise is broken.
    Breaks(Promise),
}

/// Something that must happen in a configuration that holds, since a model in which nothing happens breaks no promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A lock is held.
    Held,
    /// Both clients, or both of a client's threads, have held it.
    HeldTwice,
    /// A lease was extended.
    Extended,
    /// Two holds have a token.
    TwoTokens,
}

/// A configuration. Times are in ticks; a lease lives for [`Config::ttl`] of them.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name.
    pub name: &'static str,
    /// What it shows, in words.
    pub about: &'static str,
    /// The rules that are left out.
    pub removed: &'static [Rule],
    /// The expected result.
    pub expected: Expected,
    /// What must happen besides.
    pub witness: Witness,
    /// The promises that are checked; the others are not made in this configuration.
    pub promises: &'static [Promise],

    /// The time ends here.
    pub horizon: u8,
    /// The life of a key.
    pub ttl: u8,
    /// The life that the first, second ... extension asks for.
    pub lives: [u8; 2],
    /// The length of a quarantine; 0 switches it off.
    pub quarantine: u8,
    /// The number of votes.
    pub quorum: u8,
    /// The number of attempts of each client.
    pub attempts: [u8; CLIENTS],
    /// When each client may begin.
    pub earliest: [u8; CLIENTS],
    /// The number of extensions of each client.
    pub extensions: [u8; CLIENTS],
    /// Whether attempts are given up and locks released.
    pub releases: bool,

    /// How commands travel.
    pub network: Network,
    /// The largest number of broken connections.
    pub breaks: u8,
    /// The largest number of lost answers, in a network that may do anything.
    pub losses: u8,
    /// The largest number of faults.
    pub faults: u8,
    /// Which faults.
    pub kinds: &'static [Fault],
    /// Whether a loss is noticed at once, by clients that are not modelled. A quarantine that begins early is the worst
    /// case.
    pub noticed_at_once: bool,
    /// Whether an acquire also writes the key in quarantine, uncounted, as a plain vote does if its comparison fails.
    /// This is for a network that may do anything, where acquires are scripts.
    pub uncounted_writes: bool,
    /// The largest number of masters on which the key is revoked.
    pub revokes: u8,
    /// Whether the connections have cached the generation at the beginning.
    pub cached: bool,
    /// Whether master 3 lost its memory before, and is in a quarantine that ends at 1.
    pub quarantined: bool,
    /// Whether masters 1 and 2 are one server.
    pub alias: bool,

    /// How the clients get their tokens.
    pub fencing: [Fencing; CLIENTS],
    /// By how much a counter is raised.
    pub step: u8,
    /// Units of a counter per tick of a clock; 0: counters follow no clock.
    pub clock: u8,
    /// How much each client's clock is ahead, in ticks; without [`Rule::FenceOwnClock`] the counters follow it.
    pub ahead: [u8; CLIENTS],
    /// The largest number of hand-overs inside a client.
    pub hand_overs: u8,
}

impl Config {
    /// Two clients with one attempt each, over connections, without faults.
    pub const BASE: Config = Config {
        name: "",
        about: "",
        removed: &[],
        expected: Expected::Holds,
        witness: Witness::HeldTwice,
        promises: &[Promise::Exclusion, Promise::Continuity, Promise::TokenOrder],
        horizon: 3,
        ttl: 2,
        lives: [2, 2],
        quarantine: 2,
        quorum: 2,
        attempts: [1, 1],
        earliest: [0, 0],
        extensions: [0, 0],
        releases: true,
        network: Network::Connections,
        breaks: 0,
        losses: 0,
        faults: 0,
        kinds: &[],
        noticed_at_once: false,
        uncounted_writes: false,
        revokes: 0,
        cached: true,
        quarantined: false,
        alias: false,
        fencing: [Fencing::Never; CLIENTS],
        step: 1,
        clock: 0,
        ahead: [0, 0],
        hand_overs: 0,
    };

    /// Whether `rule` is in force.
    pub fn keeps(&self, rule: Rule) -> bool {
        !self.removed.contains(&rule)
    }

    /// The quarantine in force, with what is left out.
    pub fn quarantine_length(&self) -> u8 {
        if !self.keeps(Rule::Quarantine) {
            0
        } else if !self.keeps(Rule::QuarantineLength) {
            self.ttl - 1
        } else {
            self.quarantine
        }
    }
}
