//! What a client does: `protocol/round.rs`, `protocol/lease.rs`, `protocol/fence.rs` and the engine's use of them.

use super::config::{Config, Fencing, Network};
use super::rules::{Promise, Rule};
use super::server::{asked, server_of};
use super::state::{Client, Command, Extension, Kind, Link, MASTERS, Phase, Question, State};
use redleash_protocol::fence::{Rank, rank};
use redleash_protocol::quorum::Quorum;

/// Whether client `c` may rely on its lease now.
pub fn holds(state: &State, c: usize) -> bool {
    let client = &state.clients[c];
    client.phase == Phase::Holding && state.now < client.until && !client.releasing
}

fn votes(state: &State, c: usize, yes: impl Fn(&Link) -> bool) -> u8 {
    state.masters.iter().filter(|master| yes(&master.links[c])).count() as u8
}

fn send(config: &Config, state: &mut State, c: usize, commands: impl Fn(&Link) -> [Option<Command>; 2]) {
    for master in &mut state.masters {
        let link = &mut master.links[c];
        for command in commands(link).into_iter().flatten() {
            match config.network {
                Network::Connections => link.queue.push(command),
                Network::Anything => link.queue.add(command),
            }
        }
    }
}

fn send_one(config: &Config, state: &mut State, c: usize, command: Command) {
    send(config, state, c, |_| [Some(command), None]);
}

/// Begins an attempt: with the plain vote if the connection has cached a generation, else with the script. An acquire
/// that also asks for a token needs the script.
pub fn begin(config: &Config, state: &mut State, c: usize) {
    let now = state.now;
    let client = &mut state.clients[c];
    (client.phase, client.start) = (Phase::Acquiring, now);
    let attempt = client.attempt;
    let plain = config.network == Network::Connections && config.fencing[c] != Fencing::Folded;
    let clock = if config.fencing[c] == Fencing::Folded { asked(config, now, config.ahead[c]) } else { 0 };
    send(config, state, c, |link| {
        let set = Some(Command::new(Kind::Set, attempt, 0));
        if !plain || (link.cached == 0 && config.quarantine > 0) {
            return [Some(Command::new(Kind::Acquire, attempt, clock)), None];
        }
        if config.quarantine == 0 || !config.keeps(Rule::ReadGeneration) {
            return [set, None];
        }
        let read = Some(Command::new(Kind::Read, attempt, link.cached));
        if config.keeps(Rule::ReadBehindWrite) { [set, read] } else { [read, set] }
    });
}

/// Whether client `c` may take its lock now: a quorum of votes before the deadline, and a token that a quorum holds.
pub fn may_take(config: &Config, state: &State, c: usize) -> bool {
    let client = &state.clients[c];
    let in_time = state.now < client.start + config.ttl || !config.keeps(Rule::DeadlineFromStart);
    let enough = match client.phase {
        Phase::Acquiring => votes(state, c, |link| link.voted) >= config.quorum,
        Phase::Settling => votes(state, c, |link| link.holds_token) >= config.quorum,
        Phase::Idle | Phase::Holding => false,
    };
    in_time && enough
}

/// Takes the lock, or begins to write back the token that came with the acquire.
pub fn take(config: &Config, state: &mut State, c: usize) {
    let folded = config.fencing[c] == Fencing::Folded;
    if folded && state.clients[c].phase == Phase::Acquiring {
        let (token, done) = rank_of(config, state, c);
        state.clients[c].token = token;
        if !done {
            state.clients[c].phase = Phase::Settling;
            return write_back(config, state, c, token);
        }
    }
    let start = if config.keeps(Rule::DeadlineFromStart) { state.clients[c].start } else { state.now };
    check_servers(config, state, c, |link| link.voted);
    let client = &mut state.clients[c];
    (client.phase, client.start, client.until) = (Phase::Holding, 0, start + config.ttl);
    forget_answers(state, c, |link| {
        (link.voted, link.counter, link.holds_token) = (false, 0, false);
    });
    new_hold(state, c);
    if folded {
        state.clients[c].question = Question::Answered;
        note_token(config, state, state.clients[c].hold, state.clients[c].token);
    }
}

fn forget_answers(state: &mut State, c: usize, forget: impl Fn(&mut Link)) {
    state.masters.iter_mut().for_each(|master| forget(&mut master.links[c]));
}

/// Ends the attempt on the client's side and queues its release after all that was sent for it.
pub fn end(config: &Config, state: &mut State, c: usize) {
    let attempt = state.clients[c].attempt;
    if state.clients[c].phase == Phase::Holding && !config.keeps(Rule::HandOverBeforeRelease) {
        state.clients[c].releasing = true;
    } else {
        state.clients[c] = Client { attempt: attempt + 1, ..Client::default() };
        forget_answers(state, c, |link| {
            (link.half, link.voted, link.extended, link.counter, link.holds_token) = (false, false, false, 0, false);
        });
    }
    let release = Command::new(Kind::Release, attempt, 0);
    if config.keeps(Rule::ReleaseOnSameConnection) {
        send_one(config, state, c, release);
    } else {
        forget_answers(state, c, |link| link.stragglers.push(release));
    }
}

/// Whether client `c` may begin to extend its lease. One extension at a time: a new one gives the former up.
pub fn may_begin_extension(config: &Config, state: &State, c: usize) -> bool {
    holds(state, c) && state.clients[c].extensions < config.extensions[c]
}

/// Begins an extension.
pub fn begin_extension(config: &Config, state: &mut State, c: usize) {
    let now = state.now;
    let client = &mut state.clients[c];
    client.jeopardy |= client.extension.is_some();
    client.extensions += 1;
    let number = client.extensions;
    client.extension = Some(Extension { start: now, number });
    let attempt = client.attempt;
    forget_answers(state, c, |link| link.extended = false);
    send_one(config, state, c, Command::new(Kind::Extend, attempt, number));
}

/// Whether the extension under way may be counted: a quorum before the old deadline and before its own.
pub fn may_extend(config: &Config, state: &State, c: usize) -> bool {
    let client = &state.clients[c];
    let Some(extension) = client.extension.filter(|_| client.phase == Phase::Holding) else { return false };
    let own = extension.start + config.lives[usize::from(extension.number) - 1];
    let in_time = state.now < client.until || !config.keeps(Rule::ExtendBeforeDeadline);
    in_time && state.now < own && votes(state, c, |link| link.extended) >= config.quorum
}

/// Counts the extension under way.
pub fn extend(config: &Config, state: &mut State, c: usize) {
    check_servers(config, state, c, |link| link.extended);
    let others_since = state.clients[c].hold != state.history.holds;
    let client = &mut state.clients[c];
    if let Some(extension) = client.extension.take() {
        client.until = client.until.max(extension.start + config.lives[usize::from(extension.number) - 1]);
    }
    client.jeopardy = false;
    state.history.extended = true;
    if others_since {
        breaks(config, state, Promise::Continuity);
    }
    forget_answers(state, c, |link| link.extended = false);
}

/// Whether client `c` may ask for a token.
pub fn may_ask(config: &Config, state: &State, c: usize) -> bool {
    holds(state, c) && config.fencing[c] == Fencing::OnDemand && state.clients[c].question == Question::None
}

/// Asks for a token.
pub fn ask(config: &Config, state: &mut State, c: usize) {
    let clock = asked(config, state.now, config.ahead[c]);
    let client = &mut state.clients[c];
    (client.question, client.asker) = (Question::Asked, client.hold);
    let attempt = client.attempt;
    send_one(config, state, c, Command::new(Kind::Fence, attempt, clock));
}

/// Whether the answers to the question are enough, before the deadline.
pub fn may_answer(config: &Config, state: &State, c: usize) -> bool {
    let client = &state.clients[c];
    let in_time = holds(state, c) || (client.phase == Phase::Holding && !config.keeps(Rule::FenceDeadline));
    let enough = match client.question {
        Question::Asked => votes(state, c, |link| link.counter > 0) >= config.quorum,
        Question::WritingBack => votes(state, c, |link| link.holds_token) >= config.quorum,
        Question::None | Question::Answered => false,
    };
    in_time && enough
}

/// Takes the token from the answers, or begins to write it back.
pub fn answer(config: &Config, state: &mut State, c: usize) {
    if state.clients[c].question == Question::Asked {
        let (token, done) = rank_of(config, state, c);
        state.clients[c].token = token;
        if !done {
            state.clients[c].question = Question::WritingBack;
            return write_back(config, state, c, token);
        }
    }
    forget_answers(state, c, |link| (link.counter, link.holds_token) = (0, false));
    let client = &mut state.clients[c];
    client.question = Question::Answered;
    let Client { asker, hold, token, .. } = *client;
    client.asker = 0;
    note_token(config, state, asker, token);
    if hold != asker {
        note_token(config, state, hold, token);
    }
}

/// The token that follows from the answered counters, and whether a quorum holds it, by the library's own function.
fn rank_of(config: &Config, state: &State, c: usize) -> (u8, bool) {
    let counters: Vec<Option<u64>> =
        state.masters.iter().map(|m| m.links[c].counter).map(|n| (n > 0).then_some(n.into())).collect();
    if !config.keeps(Rule::FenceRank) {
        return (counters.into_iter().flatten().max().unwrap_or(0) as u8, true);
    }
    match Quorum::new(MASTERS, 0).map(|quorum| rank(quorum, &counters)) {
        Some(Rank::Done(token)) => (token as u8, true),
        Some(Rank::WriteBack(token, _)) => (token as u8, false),
        Some(Rank::NotEnough) | None => unreachable!("a quorum answered"),
    }
}

fn write_back(config: &Config, state: &mut State, c: usize, token: u8) {
    forget_answers(state, c, |link| link.counter = 0);
    let attempt = state.clients[c].attempt;
    send_one(config, state, c, Command::new(Kind::WriteBack, attempt, token));
}

/// Whether client `c` may hand its lease to another of its threads, without asking the masters.
pub fn may_hand_over(config: &Config, state: &State, c: usize) -> bool {
    let client = &state.clients[c];
    if client.phase != Phase::Holding || client.hand_overs >= config.hand_overs || client.two_guards {
        return false;
    }
    let held = (state.now < client.until && !client.jeopardy) || !config.keeps(Rule::HandOverHeldOnly);
    let asking = matches!(client.question, Question::Asked | Question::WritingBack);
    let numbers_left = client.question != Question::Answered || client.shift + 1 < config.step;
    held && (!asking || !config.keeps(Rule::HandOverAfterQuestion))
        && (numbers_left || !config.keeps(Rule::HandOverWithinStep))
}

/// Hands the lease over: the first guard ends, the second begins with the deadline and the token as they are.
pub fn hand_over(config: &Config, state: &mut State, c: usize) {
    let client = &state.clients[c];
    if state.now >= client.until || client.jeopardy {
        breaks(config, state, Promise::HandOver);
    }
    let client = &mut state.clients[c];
    client.hand_overs += 1;
    client.two_guards = !config.keeps(Rule::HandOverMarksFirst);
    client.releasing = false;
    let known = client.question == Question::Answered;
    client.shift += u8::from(known);
    let token = client.token + client.shift;
    new_hold(state, c);
    if known {
        note_token(config, state, state.clients[c].hold, token);
    }
}

fn new_hold(state: &mut State, c: usize) {
    state.history.holds += 1;
    state.clients[c].hold = state.history.holds;
}

fn note_token(config: &Config, state: &mut State, hold: u8, token: u8) {
    let place = usize::from(hold) - 1;
    let (before, from) = state.history.tokens.split_at(place);
    let rises =
        before.iter().all(|other| *other < token) && from[1..].iter().all(|other| *other == 0 || *other > token);
    state.history.tokens[place] = token;
    if !rises {
        breaks(config, state, Promise::TokenOrder);
    }
}

fn check_servers(config: &Config, state: &mut State, c: usize, yes: impl Fn(&Link) -> bool) {
    let mut servers = [false; MASTERS];
    for n in (0..MASTERS).filter(|n| yes(&state.masters[*n].links[c])) {
        servers[server_of(config, n)] = true;
    }
    let distinct = servers.iter().filter(|voted| **voted).count();
    if distinct < usize::from(config.quorum) {
        breaks(config, state, Promise::Servers);
    }
}

/// Notes a broken promise that this configuration makes; the first one stays.
pub fn breaks(config: &Config, state: &mut State, promise: Promise) {
    if config.promises.contains(&promise) {
        state.history.broken.get_or_insert(promise);
    }
}
