//! What a server does with a command, and what the client learns from the answer: `src/scripts/*.lua` and the plain
//! vote.

use super::config::Config;
use super::rules::Rule;
use super::state::{Client, Command, Kind, Link, Phase, Question, Server, State, Value};

/// The outcome of a command, for the traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key was written.
    Written,
    /// A vote that counts, if a round waits for it.
    Vote,
    /// The key is another's.
    Taken,
    /// The key is absent.
    Absent,
    /// The master is in quarantine.
    Quarantined,
    /// The generation is not the one that the connection had cached, or the key is not ours.
    Stale,
    /// The generation is the one that the connection had cached.
    Same,
    /// The counter was raised to this.
    Counter(u8),
    /// The key was deleted.
    Deleted,
    /// Nothing was changed.
    Nothing,
}

impl Outcome {
    fn is_yes(self) -> bool {
        matches!(self, Outcome::Written | Outcome::Vote | Outcome::Same | Outcome::Counter(_))
    }
}

/// The place of the server behind name `n`.
pub fn server_of(config: &Config, n: usize) -> usize {
    if config.alias && n == 1 { 0 } else { n }
}

/// The value of client `c`'s attempt on master `n`.
pub fn value(config: &Config, c: usize, attempt: u8, n: usize) -> Value {
    let attempt = if config.keeps(Rule::TokenPerAttempt) { attempt } else { 0 };
    let index = if config.alias && config.keeps(Rule::IndexInValue) { n as u8 } else { 0 };
    Value { owner: c as u8, attempt, index }
}

/// Executes `command` of client `c` on master `n`; `answered` says whether the answer arrives.
pub fn execute(config: &Config, state: &mut State, c: usize, n: usize, command: Command, answered: bool) -> Outcome {
    let now = state.now;
    let ours = value(config, c, command.attempt, n);
    let server = &mut state.masters[server_of(config, n)].server;
    let outcome = match command.kind {
        Kind::None => Outcome::Nothing,
        Kind::Set => set(config, server, ours, now),
        Kind::Read => read(server, ours, command.argument, config),
        Kind::Acquire => acquire(config, server, ours, now, command.argument),
        Kind::Extend => extend(config, server, ours, now, config.lives[usize::from(command.argument) - 1]),
        Kind::Fence => raise_if_ours(config, server, ours, now, |counter| {
            (counter + config.step).max(clock(config, now, command.argument))
        }),
        Kind::WriteBack => raise_if_ours(config, server, ours, now, |counter| counter.max(command.argument)),
        Kind::Release if server.key == Some(ours) => {
            delete(server);
            Outcome::Deleted
        }
        Kind::Release => Outcome::Nothing,
    };
    let seen = *server;
    let (link, client) = (&mut state.masters[n].links[c], &state.clients[c]);
    if command.kind == Kind::Release {
        link.released = link.released.max(command.attempt + 1);
    }
    if answered {
        learn(config, link, &seen, now, command, outcome);
        count(config, link, client, command, outcome);
    }
    outcome
}

/// Whether this script's answer counts (`generation.lua`): the generation belongs to this server process and is
/// settled. If there is no such generation, one is begun, with its quarantine.
fn may_vote(config: &Config, server: &mut Server, now: u8) -> bool {
    if config.quarantine == 0 {
        return true;
    }
    if server.generation == 0 || !server.own_run {
        begin_generation(config, server, now);
        return config.quarantine_length() == 0;
    }
    now >= server.ready
}

/// Begins a generation. Without the nonce this assumes the worst: the master's clock was set back so that the new
/// string equals the old one.
pub fn begin_generation(config: &Config, server: &mut Server, now: u8) {
    if config.keeps(Rule::Nonce) {
        server.generations += 1;
    }
    server.generation = server.generations;
    server.own_run = true;
    server.ready = now + config.quarantine_length();
}

fn delete(server: &mut Server) {
    (server.key, server.expires) = (None, 0);
}

fn write(server: &mut Server, ours: Value, expires: u8) {
    (server.key, server.expires) = (Some(ours), expires);
}

/// `SET NX PX`.
fn set(config: &Config, server: &mut Server, ours: Value, now: u8) -> Outcome {
    if server.key.is_some() {
        return Outcome::Taken;
    }
    write(server, ours, now + config.ttl);
    Outcome::Written
}

/// `MGET generation key`.
fn read(server: &Server, ours: Value, expected: u8, config: &Config) -> Outcome {
    // If it is read before the write, the key cannot be ours yet.
    let key_is_ours = server.key == Some(ours) || !config.keeps(Rule::ReadBehindWrite);
    if server.generation == expected && key_is_ours { Outcome::Same } else { Outcome::Stale }
}

/// `acquire.lua`. If the key has our own value, that is a refusal too, as in the script.
fn acquire(config: &Config, server: &mut Server, ours: Value, now: u8, asked: u8) -> Outcome {
    if !may_vote(config, server, now) {
        if config.uncounted_writes && asked == 0 && server.key.is_none() {
            write(server, ours, now + config.ttl);
            return Outcome::Stale;
        }
        return Outcome::Quarantined;
    }
    if server.key.is_some() {
        return Outcome::Taken;
    }
    write(server, ours, now + config.ttl);
    if asked == 0 {
        return Outcome::Vote;
    }
    server.counter = (server.counter + config.step).max(clock(config, now, asked));
    Outcome::Counter(server.counter)
}

/// `extend.lua`.
fn extend(config: &Config, server: &mut Server, ours: Value, now: u8, life: u8) -> Outcome {
    if !may_vote(config, server, now) && config.keeps(Rule::NoCountInQuarantine) {
        return Outcome::Quarantined;
    }
    let recreate = config.quarantine > 0 || !config.keeps(Rule::RecreateUnderQuarantine);
    match server.key {
        Some(value) if value != ours => return Outcome::Taken,
        None if !recreate => return Outcome::Absent,
        None => write(server, ours, now + life),
        Some(_) if config.keeps(Rule::NeverShorten) => server.expires = server.expires.max(now + life),
        Some(_) => server.expires = now + life,
    }
    Outcome::Vote
}

/// `fence.lua` and `write_back.lua`.
fn raise_if_ours(config: &Config, server: &mut Server, ours: Value, now: u8, raise: impl Fn(u8) -> u8) -> Outcome {
    if !may_vote(config, server, now) && config.keeps(Rule::FenceGeneration) {
        return Outcome::Quarantined;
    }
    if server.key != Some(ours) && config.keeps(Rule::FenceOwnValue) {
        return if server.key.is_some() { Outcome::Taken } else { Outcome::Absent };
    }
    server.counter = raise(server.counter);
    Outcome::Counter(server.counter)
}

/// What a client, whose clock is `ahead` ticks ahead, sends with its question for a token: its clock, or 1.
pub fn asked(config: &Config, now: u8, ahead: u8) -> u8 {
    if config.keeps(Rule::FenceOwnClock) { 1 } else { (now + ahead) * config.clock + 1 }
}

/// What a counter is raised to at least.
fn clock(config: &Config, now: u8, asked: u8) -> u8 {
    let clock = if config.keeps(Rule::FenceClock) { config.clock } else { 0 };
    if config.keeps(Rule::FenceOwnClock) { now * clock + 1 } else { asked }
}

/// Updates the generation that the connection has cached: a script's answer names a settled one, a failed comparison
/// drops it. Nothing is cached where nothing will be compared.
fn learn(config: &Config, link: &mut Link, server: &Server, now: u8, command: Command, outcome: Outcome) {
    let checks = !matches!(command.kind, Kind::None | Kind::Set | Kind::Read | Kind::Release);
    if command.kind == Kind::Read && outcome == Outcome::Stale {
        link.cached = 0;
    }
    if checks && config.network == super::config::Network::Connections && config.quarantine > 0 {
        let settled = now >= server.ready || !config.keeps(Rule::CacheSettledOnly);
        if settled && server.own_run {
            link.cached = server.generation;
        }
    }
}

/// Counts the answer for the round that waits for it. At most one vote per master and round: a flag.
fn count(config: &Config, link: &mut Link, client: &Client, command: Command, outcome: Outcome) {
    if client.attempt != command.attempt || client.phase == Phase::Idle {
        return;
    }
    let acquiring = client.phase == Phase::Acquiring;
    let yes = outcome.is_yes();
    match command.kind {
        Kind::Set if config.quarantine == 0 || !config.keeps(Rule::ReadGeneration) => link.voted |= yes && acquiring,
        Kind::Set if !config.keeps(Rule::ReadBehindWrite) => link.voted |= yes && acquiring && link.half,
        Kind::Set => link.half = yes,
        Kind::Read if !config.keeps(Rule::ReadBehindWrite) => link.half = yes,
        Kind::Read => {
            link.voted |= yes && acquiring && link.half;
            if !config.keeps(Rule::UndoOnlyWhenOver) && link.half && !yes {
                link.queue.push(Command::new(Kind::Release, command.attempt, 0));
            }
            link.half = false;
        }
        Kind::Acquire if acquiring => {
            link.voted |= yes;
            if let Outcome::Counter(counter) = outcome {
                link.counter = counter;
            }
        }
        Kind::Extend => {
            link.extended |= yes && client.extension.is_some_and(|e| e.number == command.argument);
        }
        Kind::Fence => {
            if let (Outcome::Counter(counter), Question::Asked) = (outcome, client.question) {
                link.counter = counter;
            }
        }
        Kind::WriteBack => {
            let waits = client.phase == Phase::Settling || client.question == Question::WritingBack;
            link.holds_token |= yes && waits && client.token == command.argument;
        }
        Kind::None | Kind::Acquire | Kind::Release => {}
    }
}
