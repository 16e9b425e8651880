//! The steps that lead to a broken promise, in words.

use super::actions::{self, Action};
use super::config::{Config, Fault};
use super::model::first;
use super::server::Outcome;
use super::state::{Command, Kind, MASTERS, Phase, Question, State};

/// The steps in words. The checker sorts the masters in each state; here they keep their names.
pub fn words(config: &Config, steps: &[Action]) -> Vec<String> {
    let mut state = first(config);
    let mut names: Vec<usize> = (1..=MASTERS).collect();
    let mut lines = Vec::new();
    for step in steps {
        let before = state;
        let outcome = actions::apply(config, &mut state, *step);
        actions::watch(config, &mut state);
        actions::tidy(config, &mut state);
        lines.push(line(*step, &before, &state, outcome, &names));
        if !config.alias {
            let mut columns: Vec<_> = state.masters.iter().copied().zip(names).collect();
            columns.sort_by_key(|(master, _)| *master);
            names = columns.iter().map(|(_, name)| *name).collect();
            columns.iter().zip(&mut state.masters).for_each(|((sorted, _), master)| *master = *sorted);
        }
    }
    lines
}

fn line(step: Action, before: &State, after: &State, outcome: Option<Outcome>, names: &[usize]) -> String {
    let who = |c: usize| ["A", "B"][c];
    match step {
        Action::Tick => format!("time is {}", after.now),
        Action::Begin(c) => format!("{}: asks for the lock", who(c)),
        Action::Take(c) if after.clients[c].phase == Phase::Settling => {
            format!("{}: writes token {} back", who(c), after.clients[c].token)
        }
        Action::Take(c) => {
            let client = &after.clients[c];
            let token =
                if client.question == Question::Answered { format!(", token {}", client.token) } else { String::new() };
            format!("{}: granted until {}{token}", who(c), client.until)
        }
        Action::GiveUp(c) => format!("{}: gives the attempt up", who(c)),
        Action::Release(c) => format!("{}: releases", who(c)),
        Action::BeginExtension(c) => format!("{}: asks for more time", who(c)),
        Action::Extend(c) => format!("{}: extended until {}", who(c), after.clients[c].until),
        Action::Ask(c) => format!("{}: asks for a token", who(c)),
        Action::Answer(c) if after.clients[c].question == Question::WritingBack => {
            format!("{}: writes token {} back", who(c), after.clients[c].token)
        }
        Action::Answer(c) => format!("{}: token {}", who(c), after.clients[c].token + after.clients[c].shift),
        Action::HandOver(c) => {
            let client = &after.clients[c];
            let token = if client.question == Question::Answered {
                format!(", token {}", client.token + client.shift)
            } else {
                String::new()
            };
            format!("{}: hands the lease to another of its threads{token}", who(c))
        }
        Action::MarkFirst(c) => format!("{}: its first guard is marked not held", who(c)),
        Action::Execute(c, n, place) => command(who(c), names[n], taken(before, c, n, place), "", outcome),
        Action::ExecuteUnanswered(c, n, place) => {
            command(who(c), names[n], taken(before, c, n, place), ", the answer is lost", outcome)
        }
        Action::Straggle(c, n) => {
            let command_ = before.masters[n].links[c].stragglers.iter().next().unwrap_or_default();
            command(who(c), names[n], command_, " from a former connection", outcome)
        }
        Action::Break(c, n) => format!("the connection of {} to {} breaks", who(c), names[n]),
        Action::Fault(n, fault) => format!("{} {}", names[n], suffered(fault)),
        Action::Revoke(n) => format!("the lock is revoked on {}", names[n]),
    }
}

fn taken(before: &State, c: usize, n: usize, place: usize) -> Command {
    before.masters[n].links[c].queue.iter().nth(place).unwrap_or_default()
}

fn suffered(fault: Fault) -> &'static str {
    match fault {
        Fault::Flush => "is flushed",
        Fault::RestartEmpty => "restarts empty",
        Fault::RestartOld => "restarts from an old copy",
        Fault::Resync => "takes over another server's data",
        Fault::Forget => "loses the key without a trace",
    }
}

fn command(who: &str, master: usize, command: Command, how: &str, outcome: Option<Outcome>) -> String {
    let verb = match command.kind {
        Kind::None => "nothing",
        Kind::Set => "SET",
        Kind::Read => "MGET",
        Kind::Acquire => "acquire script",
        Kind::Extend => "extend script",
        Kind::Fence => "fence script",
        Kind::WriteBack => "write-back script",
        Kind::Release => "release script",
    };
    let what = match outcome {
        Some(Outcome::Written) => "written".into(),
        Some(Outcome::Vote) => "yes".into(),
        Some(Outcome::Taken) => "no, held by another".into(),
        Some(Outcome::Absent) => "no, absent".into(),
        Some(Outcome::Quarantined) => "no, in quarantine".into(),
        Some(Outcome::Stale) => "another generation or value".into(),
        Some(Outcome::Same) => "same generation".into(),
        Some(Outcome::Counter(counter)) => format!("yes, counter {counter}"),
        Some(Outcome::Deleted) => "deleted".into(),
        Some(Outcome::Nothing) | None => "nothing to do".into(),
    };
    let attempt = if command.attempt > 0 { format!(" (attempt {})", command.attempt + 1) } else { String::new() };
    format!("{who}: {verb}{attempt} on {master}{how}: {what}")
}
