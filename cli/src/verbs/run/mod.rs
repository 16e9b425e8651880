//! `redleash run`: a command under a lock.

mod feeder;
mod supervised;
mod waiting;
mod watch;

use crate::args::{MasterArgs, RunArgs};
use crate::command;
use crate::ending::{LEAST_TTL, Times};
use crate::exit::{self, Failure, SYSTEM, USAGE};
use crate::link::Ended;
use crate::masters::{self, CONNECT_TIMEOUT, LEAST_CONNECT_TIMEOUT};
use crate::stages::task::Task;
use crate::stages::trial;
use crate::system::clock::Moment;
use crate::system::signals;
use crate::system::terminal::{self, Terminal};
use crate::text::duration::exact;
use crate::text::{messages, say};
use feeder::Feeder;
use redleash::{LockGuard, ReleaseOutcome};
use std::sync::Arc;
use std::time::Duration;
use supervised::{Job, Prepared};
use waiting::{Acquired, Waiting};
use watch::{Outcome, Watch};

pub(crate) fn run(masters: &MasterArgs, args: &RunArgs, verbose: bool) -> Result<u8, Failure> {
    let start = Moment::now();
    let times = times(args)?;
    command::check(&args.name, &args.command)?;
    masters::check(masters)?;
    // Before any thread starts, since each thread inherits it.
    terminal::block_stops();
    let system = |what: &str, e: std::io::Error| {
        Failure::new(SYSTEM, format!("lock {:?}: {what}: {e}; nothing was started", args.name))
    };
    signals::hear_of_children().map_err(|e| system("cannot catch SIGCHLD", e))?;
    if args.contain {
        trial::attempt(&args.name)?;
    }
    let signals = signals::catch().map_err(|e| system("cannot catch signals", e))?;
    let terminal = Terminal::open();
    let connect_timeout = args.wait.unwrap_or(CONNECT_TIMEOUT).clamp(LEAST_CONNECT_TIMEOUT, CONNECT_TIMEOUT);
    let builder = masters::builder(masters).ttl(args.ttl).connect_timeout(connect_timeout);
    let client = builder.build().map_err(|e| masters::unfit(&e))?;
    let signals = &signals;
    let waiting = Waiting { client: &client, args, start, signals, terminal: terminal.as_ref(), verbose };
    let guard = match waiting.acquire()? {
        Acquired::Granted(guard) => Arc::new(guard),
        Acquired::Ended(code) => return Ok(code),
    };
    let fence = guard.fencing_token().map_err(|e| Failure::of(&args.name, &e))?;
    if verbose {
        say::sentence(&format!("lock {:?}: granted, fencing token {fence}", args.name));
    }
    let lost = || Failure::new(exit::LOST, format!("lock {:?} was lost before the command was started", args.name));
    let until = feeder::until(&guard).ok_or_else(lost)?;
    let task = Task {
        name: &args.name,
        on_lost: args.on_lost,
        times,
        foreground: terminal.as_ref().is_some_and(Terminal::is_for_the_command),
        contained: args.contain,
        command: &args.command,
    };
    let job = Job { task, fence, urls: args.pass_nodes.then(|| masters::urls(masters).join(",")) };
    let prepared = Prepared::new(&job, until).map_err(|e| system("cannot prepare the supervisor", e))?;
    let feeder = Feeder::start(&guard, &prepared.orders, args.ttl, until).map_err(|e| system("no thread", e))?;
    let mut supervised = match prepared.start() {
        Ok(supervised) => supervised,
        Err(e) => {
            // The feeder has the guard as well, and would keep the lock.
            feeder.stop();
            return Err(system("cannot start the supervisor", e));
        }
    };
    let watch = Watch {
        client: &client,
        guard: &guard,
        signals,
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

/// The times between SIGTERM, SIGKILL and the end of the lease; fails if the options leave no room for them.
fn times(args: &RunArgs) -> Result<Times, Failure> {
    let usage = |sentence: String| Err(Failure::new(USAGE, sentence));
    let (name, ttl) = (&args.name, args.ttl);
    if ttl < LEAST_TTL {
        let least = exact(LEAST_TTL);
        return usage(format!(
            "lock {name:?}: --ttl {} is below {least}; redleash needs that long to end a command",
            exact(ttl)
        ));
    }
    if let Some(kill_after) = args.kill_after
        && kill_after + Duration::from_secs(1) > ttl / 2
    {
        let (given, longest) = (exact(kill_after), exact((ttl / 2).saturating_sub(Duration::from_secs(1))));
        let enough = exact((kill_after + Duration::from_secs(1)) * 2);
        return usage(format!(
            "lock {name:?}: --kill-after {given} and 1s do not fit into half of --ttl {}; give --ttl {enough} or more, \
             or --kill-after {longest} or less",
            exact(ttl)
        ));
    }
    let times = Times::new(ttl, args.kill_after);
    let least = times.kill_after + times.margin;
    if let Some(hold) = args.max_hold.filter(|hold| *hold <= least) {
        return usage(format!(
            "lock {name:?}: --max-hold {} leaves no time beside --kill-after {}; give more than {}",
            exact(hold),
            exact(times.kill_after),
            exact(least)
        ));
    }
    Ok(times)
}

/// Releases the lock; the exit code.
fn finish(name: &str, guard: Arc<LockGuard>, outcome: Outcome, verbose: bool) -> Result<u8, Failure> {
    let Some(guard) = Arc::into_inner(guard) else {
        return Err(Failure::new(
            exit::SOFTWARE,
            format!("lock {name:?}: redleash itself still uses it, so it is not released; it ends with its ttl"),
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
                return Err(Failure::new(exit::LOST, messages::lost(name, &lost.reason.to_string(), ended)));
            }
            if verbose {
                say::sentence(&format!("lock {name:?}: released, the command ended {ended}"));
            }
            Ok(match ended {
                Ended::Code(code) => u8::try_from(code).unwrap_or(u8::MAX),
                Ended::Signal(signal) => exit::by_signal(signal),
            })
        }
    }
}
