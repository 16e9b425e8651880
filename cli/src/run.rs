//! `redleash run`: a command under a lock.

use crate::args::{MasterArgs, RunArgs};
use crate::clock::Moment;
use crate::command;
use crate::contain;
use crate::duration::show;
use crate::ending::{LEAST_TTL, Times};
use crate::exit::{self, Failure, SYSTEM, USAGE};
use crate::feeder::{self, Feeder};
use crate::holder;
use crate::line::Line;
use crate::link::Ended;
use crate::nodes::{self, CONNECT_TIMEOUT, LEAST_CONNECT_TIMEOUT};
use crate::say;
use crate::signals;
use crate::supervised::{Job, Prepared};
use crate::terminal::{self, Terminal};
use crate::waiting::{self, Patience, Waited, Waiting};
use crate::watch::{self, Outcome, Watch};
use redleash::crossbeam_channel::Receiver;
use redleash::{Client, Lease, LockGuard, Options, ReleaseOutcome};
use std::sync::Arc;
use std::time::Duration;

/// What others read about the holder is at most this long.
const MAX_LABEL: usize = 128;

pub(crate) fn run(masters: &MasterArgs, args: &RunArgs, verbose: bool) -> Result<u8, Failure> {
    let start = Moment::now();
    let times = times(args)?;
    command::check(&args.name, &args.command)?;
    nodes::check(masters)?;
    // Before any thread: they inherit it.
    terminal::block_stops();
    let system = |what: &str, e: std::io::Error| {
        Failure::new(SYSTEM, format!("lock {:?}: {what}: {e}; nothing was started", args.name))
    };
    signals::hear_of_children().map_err(|e| system("cannot catch SIGCHLD", e))?;
    if args.contain {
        contain::probe(&args.name)?;
    }
    let signals = signals::catch().map_err(|e| system("cannot catch signals", e))?;
    let terminal = Terminal::open();
    let connect_timeout = args.wait.unwrap_or(CONNECT_TIMEOUT).clamp(LEAST_CONNECT_TIMEOUT, CONNECT_TIMEOUT);
    let builder = nodes::builder(masters).ttl(args.ttl).connect_timeout(connect_timeout);
    let client = builder.build().map_err(|e| nodes::unfit(&e))?;
    let patience = match args.wait {
        Some(limit) if !limit.is_zero() => Patience::Until(start.plus(limit)),
        Some(_) => Patience::Once,
        None if args.nonblock => Patience::Once,
        None => Patience::Forever,
    };
    let guard = match acquire(&client, args, patience, &signals, terminal.as_ref(), verbose)? {
        Ok(guard) => Arc::new(guard),
        Err(code) => return Ok(code),
    };
    let fence = guard.fencing_token().map_err(|e| Failure::of(&args.name, &e))?;
    if verbose {
        say::sentence(&format!("lock {:?}: granted, fencing token {fence}", args.name));
    }
    let lost = || Failure::new(exit::LOST, format!("lock {:?} was lost before the command was started", args.name));
    let until = feeder::until(&guard).ok_or_else(lost)?;
    let job = Job {
        name: &args.name,
        fence,
        on_lost: args.on_lost,
        times,
        foreground: terminal.as_ref().is_some_and(Terminal::is_for_the_command),
        contain: args.contain,
        nodes: args.pass_nodes.then(|| nodes::urls(masters).join(",")),
        command: &args.command,
    };
    let prepared = Prepared::new(&job, until).map_err(|e| system("cannot prepare the supervisor", e))?;
    let feeder = Feeder::start(&guard, &prepared.orders, args.ttl, until).map_err(|e| system("no thread", e))?;
    let mut supervised = match prepared.start() {
        Ok(supervised) => supervised,
        Err(e) => {
            // It has the guard as well, and would keep the lock.
            feeder.stop();
            return Err(system("cannot start the supervisor", e));
        }
    };
    let watch = Watch {
        client: &client,
        guard: &guard,
        signals: &signals,
        terminal: terminal.as_ref(),
        on_lost: args.on_lost,
        times,
        max_hold: args.max_hold.is_some(),
        verbose,
    };
    let outcome = watch.run(&mut supervised, until);
    feeder.stop();
    finish(&args.name, guard, outcome, verbose)
}

/// Checks what only the command line knows of.
fn times(args: &RunArgs) -> Result<Times, Failure> {
    let usage = |sentence: String| Err(Failure::new(USAGE, sentence));
    let (name, ttl) = (&args.name, args.ttl);
    if ttl < LEAST_TTL {
        let least = show(LEAST_TTL);
        return usage(format!(
            "lock {name:?}: --ttl {} is below {least}; a command cannot be ended in less",
            show(ttl)
        ));
    }
    if let Some(kill_after) = args.kill_after
        && kill_after + Duration::from_secs(1) > ttl / 2
    {
        let (given, longest) = (show(kill_after), show((ttl / 2).saturating_sub(Duration::from_secs(1))));
        let enough = show((kill_after + Duration::from_secs(1)) * 2);
        return usage(format!(
            "lock {name:?}: --kill-after {given} and 1 s do not fit into half of --ttl {}; give --ttl {enough} or more, or \
             --kill-after {longest} or less",
            show(ttl)
        ));
    }
    let times = Times::new(ttl, args.kill_after);
    let least = times.kill_after + times.margin;
    if let Some(hold) = args.max_hold.filter(|hold| *hold <= least) {
        return usage(format!(
            "lock {name:?}: --max-hold {} leaves no time beside --kill-after {}; give more than {}",
            show(hold),
            show(times.kill_after),
            show(least)
        ));
    }
    Ok(times)
}

/// The lock, or the code to end with.
fn acquire(
    client: &Client,
    args: &RunArgs,
    patience: Patience,
    signals: &Receiver<i32>,
    terminal: Option<&Terminal>,
    verbose: bool,
) -> Result<Result<LockGuard, u8>, Failure> {
    let mut options = Options::new()
        .lease(Lease::Watchdog { ttl: args.ttl })
        .fenced(true)
        .lock_delay(args.lock_delay)
        .label(label(&args.command));
    if let Some(hold) = args.min_hold {
        options = options.min_hold(hold);
    }
    if let Some(hold) = args.max_hold {
        options = options.max_hold(hold);
    }
    let lock = client.lock(&args.name).options(options);
    let mut line = Line::new(terminal);
    let waited = Waiting { client, lock: &lock, patience, signals, verbose }.run(&mut line);
    drop(line);
    let name = &args.name;
    let ended_by = |signal: i32| {
        let signal_name = signals::name(signal);
        say::sentence(&format!("lock {name:?}: {signal_name} ended the wait; nothing was started"));
        Ok(Err(exit::by_signal(signal)))
    };
    match waited.map_err(|e| Failure::of(name, &e))? {
        Waited::Granted(guard) => match waiting::pending(signals) {
            None => Ok(Ok(guard)),
            Some(signal) => {
                let _ = guard.release();
                ended_by(signal)
            }
        },
        Waited::Signal(signal) => ended_by(signal),
        Waited::Busy if args.quiet => Ok(Err(args.conflict_exit_code)),
        Waited::Busy => {
            let holder = client.status(name).ok().as_ref().and_then(holder::with_masters);
            let holder = holder.unwrap_or_else(|| "somebody who has just let it go".into());
            let over = if patience == Patience::Once {
                "is held by"
            } else {
                "is still held, when the waiting time is over, by"
            };
            say::sentence(&format!(
                "lock {name:?} {over} {holder}; nothing was started, try again later or wait longer (-w)"
            ));
            Ok(Err(args.conflict_exit_code))
        }
    }
}

/// Host, process and command, without what could break the value or is a secret.
fn label(command: &[std::ffi::OsString]) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let text = format!("{host} pid {} {}", std::process::id(), command::short_name(command));
    let mut label: String = text.chars().filter(|c| !c.is_control()).collect();
    while label.len() > MAX_LABEL {
        label.pop();
    }
    label
}

/// Releases the lock; the exit code.
fn finish(name: &str, guard: Arc<LockGuard>, outcome: Outcome, verbose: bool) -> Result<u8, Failure> {
    let Some(guard) = Arc::into_inner(guard) else {
        return Err(Failure::new(
            exit::SOFTWARE,
            format!("lock {name:?}: somebody still uses it; it ends with its ttl"),
        ));
    };
    let release = guard.release();
    if let ReleaseOutcome::Unconfirmed(unconfirmed) = &release
        && verbose
    {
        let masters: Vec<String> = unconfirmed.masters.iter().map(|m| format!("{}: {}", m.master, m.answer)).collect();
        let masters = masters.join("; ");
        say::sentence(&format!(
            "lock {name:?}: too few masters confirmed the release ({masters}); it ends with its ttl"
        ));
    }
    match outcome {
        Outcome::NotStarted(why) => {
            Err(Failure::new(SYSTEM, format!("lock {name:?}: the command could not be started: {why}")))
        }
        Outcome::Lost(why) => Err(Failure::new(exit::LOST, why)),
        Outcome::Ended(ended) => {
            if let ReleaseOutcome::AlreadyLost(lost) = release {
                return Err(Failure::new(exit::LOST, watch::lost_sentence(name, &lost.reason.to_string(), ended)));
            }
            if verbose {
                say::sentence(&format!("lock {name:?}: released, the command ended {}", how(ended)));
            }
            Ok(match ended {
                Ended::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
                Ended::Signal(signal) => exit::by_signal(signal),
            })
        }
    }
}

/// `with exit code 3`, `by SIGTERM`.
pub(crate) fn how(ended: Ended) -> String {
    match ended {
        Ended::Code(code) => format!("with exit code {code}"),
        Ended::Signal(signal) => format!("by {}", signals::name(signal)),
    }
}
