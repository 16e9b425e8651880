//! What can happen next.

use super::client;
use super::config::{Config, Fault, Network};
use super::rules::{Promise, Rule};
use super::server::{self, Outcome, server_of, value};
use super::state::{CLIENTS, Command, Kind, Link, MASTERS, NOBODY, Phase, Queue, State, Value};

/// Something that can happen. `c` is a client, `n` the place of a master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// Client `c` asks for the lock.
    Begin(usize),
    /// Client `c` takes the lock, or writes back the token that came with its acquire.
    Take(usize),
    /// Client `c` gives its attempt up.
    GiveUp(usize),
    /// Client `c` releases the lock.
    Release(usize),
    /// Client `c` asks for more time.
    BeginExtension(usize),
    /// Client `c` counts its extension.
    Extend(usize),
    /// Client `c` asks for a fencing token.
    Ask(usize),
    /// Client `c` takes its token from the answers, or writes it back.
    Answer(usize),
    /// A thread of client `c` hands the lease to another one.
    HandOver(usize),
    /// The first thread learns that it has handed the lease over.
    MarkFirst(usize),
    /// Master `n` executes the command of client `c` at this place of the queue, and the answer arrives.
    Execute(usize, usize, usize),
    /// The same; the answer is lost.
    ExecuteUnanswered(usize, usize, usize),
    /// Master `n` executes the next command in a former socket of client `c`.
    Straggle(usize, usize),
    /// The connection of client `c` to master `n` breaks.
    Break(usize, usize),
    /// Master `n` has a fault.
    Fault(usize, Fault),
    /// The lock is revoked on master `n`.
    Revoke(usize),
}

/// All that can happen in `state`.
pub fn actions(config: &Config, state: &State, out: &mut Vec<Action>) {
    if state.history.broken.is_some() {
        return;
    }
    if state.now < config.horizon {
        out.push(Action::Tick);
    }
    for c in 0..CLIENTS {
        client_actions(config, state, c, out);
        (0..MASTERS).for_each(|n| link_actions(config, state, c, n, out));
    }
    for n in 0..MASTERS {
        if state.spent.faults < config.faults {
            out.extend(config.kinds.iter().map(|fault| Action::Fault(n, *fault)));
        }
        let revocable = state.masters[n].server.key.is_some_and(|key| key.owner != NOBODY);
        if state.spent.revokes < config.revokes && revocable {
            out.push(Action::Revoke(n));
        }
    }
}

fn client_actions(config: &Config, state: &State, c: usize, out: &mut Vec<Action>) {
    let client = &state.clients[c];
    let may_begin =
        client.attempt < config.attempts[c] && state.now < config.horizon && state.now >= config.earliest[c];
    let more = client.attempt + 1 < config.attempts[c];
    let may = [
        (client.phase == Phase::Idle && may_begin, Action::Begin(c)),
        (client::may_take(config, state, c), Action::Take(c)),
        (matches!(client.phase, Phase::Acquiring | Phase::Settling) && (more || config.releases), Action::GiveUp(c)),
        (client.phase == Phase::Holding && config.releases && !client.releasing, Action::Release(c)),
        (client::may_begin_extension(config, state, c), Action::BeginExtension(c)),
        (client::may_extend(config, state, c), Action::Extend(c)),
        (client::may_ask(config, state, c), Action::Ask(c)),
        (client::may_answer(config, state, c), Action::Answer(c)),
        (client::may_hand_over(config, state, c), Action::HandOver(c)),
        (client.two_guards, Action::MarkFirst(c)),
    ];
    out.extend(may.into_iter().filter(|(enabled, _)| *enabled).map(|(_, action)| action));
}

fn link_actions(config: &Config, state: &State, c: usize, n: usize, out: &mut Vec<Action>) {
    let link = &state.masters[n].links[c];
    let places = match config.network {
        Network::Connections => link.queue.len().min(1),
        Network::Anything => link.queue.len(),
    };
    for (place, command) in link.queue.iter().take(places).enumerate() {
        out.push(Action::Execute(c, n, place));
        if state.spent.losses < config.losses && command.kind != Kind::Release {
            out.push(Action::ExecuteUnanswered(c, n, place));
        }
    }
    if !link.stragglers.is_empty() {
        out.push(Action::Straggle(c, n));
    }
    if state.spent.breaks < config.breaks && !link.queue.is_empty() {
        out.push(Action::Break(c, n));
    }
}

/// Carries out `action`; for a command, returns its outcome. The masters keep their places.
pub fn apply(config: &Config, state: &mut State, action: Action) -> Option<Outcome> {
    match action {
        Action::Tick => tick(state),
        Action::Begin(c) => client::begin(config, state, c),
        Action::Take(c) => client::take(config, state, c),
        Action::GiveUp(c) | Action::Release(c) => client::end(config, state, c),
        Action::BeginExtension(c) => client::begin_extension(config, state, c),
        Action::Extend(c) => client::extend(config, state, c),
        Action::Ask(c) => client::ask(config, state, c),
        Action::Answer(c) => client::answer(config, state, c),
        Action::HandOver(c) => client::hand_over(config, state, c),
        Action::MarkFirst(c) => state.clients[c].two_guards = false,
        Action::Execute(c, n, place) => {
            let command = state.masters[n].links[c].queue.take(place);
            return Some(server::execute(config, state, c, n, command, true));
        }
        Action::ExecuteUnanswered(c, n, place) => {
            state.spent.losses += 1;
            let command = state.masters[n].links[c].queue.take(place);
            return Some(server::execute(config, state, c, n, command, false));
        }
        Action::Straggle(c, n) => {
            let command = state.masters[n].links[c].stragglers.take(0);
            return Some(server::execute(config, state, c, n, command, false));
        }
        Action::Break(c, n) => {
            state.spent.breaks += 1;
            let link = &mut state.masters[n].links[c];
            link.queue.iter().for_each(|command| link.stragglers.push(command));
            disconnect(config, link);
        }
        Action::Fault(n, fault) => suffer(config, state, n, fault),
        Action::Revoke(n) => revoke(config, state, n),
    }
    None
}

fn tick(state: &mut State) {
    state.now += 1;
    for master in &mut state.masters {
        let server = &mut master.server;
        if server.key.is_some() && state.now >= server.expires {
            (server.key, server.expires) = (None, 0);
        }
        if state.now >= server.ready {
            server.ready = 0;
        }
    }
}

/// A new connection: nothing was sent on it, and it has cached nothing.
fn disconnect(config: &Config, link: &mut Link) {
    (link.queue, link.half) = (Queue::default(), false);
    if config.keeps(Rule::CachePerConnection) {
        link.cached = 0;
    }
}

fn suffer(config: &Config, state: &mut State, n: usize, fault: Fault) {
    state.spent.faults += 1;
    let now = state.now;
    let master = &mut state.masters[n];
    let server = &mut master.server;
    (server.key, server.expires) = (None, 0);
    if fault == Fault::Forget {
        return;
    }
    (server.ready, server.counter) = (0, 0);
    match fault {
        Fault::Flush | Fault::RestartEmpty => server.generation = 0,
        Fault::RestartOld | Fault::Forget => server.own_run = false,
        Fault::Resync => {
            server.generations += 1;
            (server.generation, server.own_run) = (server.generations, false);
        }
    }
    if config.noticed_at_once {
        server::begin_generation(config, server, now);
    }
    if matches!(fault, Fault::RestartEmpty | Fault::RestartOld) {
        for link in &mut master.links {
            disconnect(config, link);
            link.stragglers = Queue::default();
        }
    }
}

/// `revoke.lua`: the value gets no owner; the ttl of the key stays.
fn revoke(config: &Config, state: &mut State, n: usize) {
    state.spent.revokes += 1;
    let server = &mut state.masters[n].server;
    if config.keeps(Rule::RevokeKeepsLife) {
        server.key = Some(Value { owner: NOBODY, attempt: 0, index: 0 });
    } else {
        (server.key, server.expires) = (None, 0);
    }
}

/// Checks the promises about a single moment.
pub fn watch(config: &Config, state: &mut State) {
    let guards = |c| u8::from(client::holds(state, c)) * (1 + u8::from(state.clients[c].two_guards));
    if (0..CLIENTS).map(guards).sum::<u8>() > 1 {
        client::breaks(config, state, Promise::Exclusion);
    }
    if config.promises.contains(&Promise::Tidiness) {
        let left_behind = |c: usize, n: usize| {
            let key = state.masters[n].server.key.filter(|key| usize::from(key.owner) == c);
            key.is_some_and(|key| key.attempt < state.masters[n].links[c].released)
        };
        if (0..CLIENTS).any(|c| (0..MASTERS).any(|n| left_behind(c, n))) {
            client::breaks(config, state, Promise::Tidiness);
        }
    }
}

/// Removes what can have no effect any more, so that states that differ in nothing else become one state.
pub fn tidy(config: &Config, state: &mut State) {
    for c in 0..CLIENTS {
        let client = &mut state.clients[c];
        if client.phase == Phase::Holding && state.now >= client.until && config.keeps(Rule::ExtendBeforeDeadline) {
            client.extension = None;
            state.masters.iter_mut().for_each(|master| master.links[c].extended = false);
        }
        let client = state.clients[c];
        let last = client.attempt + u8::from(client.phase != Phase::Idle) >= config.attempts[c];
        let counts_votes = client.phase == Phase::Acquiring || !config.keeps(Rule::UndoOnlyWhenOver);
        for n in 0..MASTERS {
            let key = state.masters[server_of(config, n)].server.key;
            let link = &mut state.masters[n].links[c];
            // The cache is read when an attempt begins, half a vote while votes are counted.
            link.cached = if last { 0 } else { link.cached };
            link.half &= counts_votes;
            if last && !counts_votes {
                link.queue.retain(|command| command.kind != Kind::Read);
            }
            link.stragglers.retain(|command| command.kind != Kind::Read);
            let before = *link;
            let useful = |command: Command| {
                is_useful(config, &before, key, client.attempt, command, |attempt| value(config, c, attempt, n))
            };
            link.queue.retain(useful);
            link.stragglers.retain(useful);
            if !config.promises.contains(&Promise::Tidiness) {
                link.released = 0;
            }
        }
    }
}

/// Whether a command of an attempt that is over can still have an effect. A release, fence or write-back has one only
/// if the key of its attempt is there or may still be written.
fn is_useful(
    config: &Config,
    link: &Link,
    key: Option<Value>,
    attempt: u8,
    command: Command,
    value: impl Fn(u8) -> Value,
) -> bool {
    let needs_key = match command.kind {
        Kind::Release => config.keeps(Rule::TokenPerAttempt),
        // They may begin a generation, unless a loss is noticed at once or there is none.
        Kind::Fence | Kind::WriteBack => {
            config.keeps(Rule::FenceOwnValue) && (config.noticed_at_once || config.faults == 0)
        }
        Kind::None | Kind::Set | Kind::Read | Kind::Acquire | Kind::Extend => false,
    };
    let over = command.attempt < attempt;
    let writer = |other: Command| other.attempt == command.attempt && other.writes_key();
    let may_be_there =
        key == Some(value(command.attempt)) || link.queue.iter().chain(link.stragglers.iter()).any(writer);
    !(needs_key && over) || may_be_there
}
