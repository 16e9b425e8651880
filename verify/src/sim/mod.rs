//! The protocol as it ships in a seeded world of simulated masters.
//!
//! Masters in memory run the shipped scripts in Lua; a network delays, loses and breaks; clients have clocks of their
//! own. What is said is encoded and decoded by the library, and what is decided is decided by it. One history is one
//! seed.

#![allow(clippy::disallowed_methods, reason = "a run is timed; the histories have clocks of their own")]

mod ambush;
mod checks;
mod client;
pub mod clock;
mod faults;
mod holding;
pub mod keyspace;
pub mod lua;
mod plan;
pub mod resp;
pub mod rng;
pub mod server;
mod state;
mod waiting;
mod worker;
mod world;

use crate::Verdict;
use indicatif::{ProgressBar, ProgressStyle};
use lua::Interpreter;
use parking_lot::Mutex;
use state::{Counts, World};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The options of `verify sim`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of seeds
    #[arg(long, default_value_t = 20_000)]
    pub seeds: u64,
    /// The first seed; alone, runs only this one and prints what happened
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run this many histories, with progress and a page of results
    #[arg(long, conflicts_with_all = ["seeds", "seed"])]
    pub histories: Option<u64>,
    /// Print the verdict only
    #[arg(long)]
    pub quiet: bool,
    /// Threads; by default as many as there are cores
    #[arg(long)]
    pub threads: Option<usize>,
}

/// One history: what went wrong, and what happened.
#[derive(Default)]
struct History {
    violation: Option<String>,
    counts: Counts,
    trace: Vec<String>,
}

fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    format!("it panicked: {}", text.unwrap_or("without words"))
}

fn history(seed: u64, lua: &Interpreter, traced: bool) -> History {
    let mut world = World::new(seed, lua, traced);
    world.run();
    let plan = format!("{:?}", world.plan);
    let mut trace = world.checks.trace.take().unwrap_or_default();
    if traced {
        trace.insert(0, plan);
    }
    world.checks.counts.insert("events", world.events);
    History { violation: world.checks.violation.take(), counts: std::mem::take(&mut world.checks.counts), trace }
}

/// What must happen in a run of many seeds, so that it is not empty.
const MUST_HAPPEN: &[&str] = &[
    "grants",
    "rounds refused",
    "rounds split",
    "rounds too slow",
    "rounds unclear",
    "rounds in a quarantine",
    "rounds of another deployment",
    "rounds without a quorum",
    "votes refused in a quarantine",
    "votes refused to another deployment",
    "keys written that did not count",
    "attempts undone",
    "masters that nobody waited for",
    "scripts sent again",
    "connections given up",
    "tails of broken connections executed",
    "releases confirmed",
    "releases tried again",
    "renewals",
    "renewals of several leases at once",
    "extensions",
    "extensions by hand",
    "extensions that failed",
    "keys renewed or written again",
    "leases lost to another value",
    "leases lost with their keys",
    "deadlines passed",
    "locks handed out",
    "locks adopted",
    "adoptions refused",
    "tokens on demand",
    "tokens written back",
    "folded tokens written back",
    "crashes between grant and write-back",
    "grants abandoned",
    "two names of one server",
    "ambushes of a holder",
    "ambushes of a token",
    "holders that went on while they were overtaken",
    "tokens asked for from a master that forgot",
    "threads behind another of their process",
    "calls that waited at the masters",
    "calls that yielded to waiters of other processes",
    "notifications sent",
    "notifications heard",
    "notifications missed",
    "notifications forged",
    "notifications to waiters that died",
    "notifications to waiters that had gone",
    "late notifications",
    "attempts that a notification caused",
];

fn report(counts: &Counts, took: f64) {
    let (faults, rest): (Vec<_>, Vec<_>) = counts.iter().partition(|(what, _)| what.starts_with("fault: "));
    println!("What happened");
    for (what, times) in rest {
        println!("{times:>14}  {what}");
    }
    println!("\nFaults injected: {}", faults.iter().map(|(_, times)| **times).sum::<u64>());
    for (what, times) in faults {
        println!("{times:>14}  {}", what.trim_start_matches("fault: "));
    }
    println!("\n{took:.1} s");
}

struct Sum {
    counts: Counts,
    /// The first violation by seed.
    violation: Option<(u64, String)>,
}

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    if let (Some(seed), None) = (options.seed, options.histories) {
        return replay(seed);
    }
    let seeds = options.histories.unwrap_or(options.seeds);
    let start = Instant::now();
    if options.quiet {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let next = AtomicU64::new(0);
    let bar = options.histories.map(progress);
    let sum = run_all(seeds, options, &next, bar.as_ref());
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let took = start.elapsed().as_secs_f64();
    if !options.quiet {
        report(&sum.counts, took);
    }
    if let Some((seed, what)) = sum.violation {
        return Verdict::failed(format!("seed {seed}: {what}; see it with: verify sim --seed {seed}"));
    }
    let faults = plan::Fault::ALL.iter().map(|f| f.name());
    let missing: Vec<&str> =
        MUST_HAPPEN.iter().copied().chain(faults).filter(|what| !sum.counts.contains_key(what)).collect();
    if seeds >= 5_000 && !missing.is_empty() {
        return Verdict::failed(format!("never happened: {missing:?}"));
    }
    Verdict::held(format!("{seeds} histories, no violation, {:.0} histories/s", seeds as f64 / took))
}

fn replay(seed: u64) -> Verdict {
    let Ok(lua) = Interpreter::new() else { return Verdict::failed("a script is not Lua") };
    let history = history(seed, &lua, true);
    for line in &history.trace {
        println!("{line}");
    }
    match history.violation {
        Some(what) => Verdict::failed(format!("seed {seed}: {what}")),
        None => Verdict::held(format!("seed {seed}: no violation")),
    }
}

fn progress(histories: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} histories, {per_sec}, {eta} left");
    ProgressBar::new(histories).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn run_all(seeds: u64, options: &Options, next: &AtomicU64, bar: Option<&ProgressBar>) -> Sum {
    let threads = options.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    let sum = Mutex::new(Sum { counts: Counts::new(), violation: None });
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| work(seeds, next, &sum, bar));
        }
    });
    sum.into_inner()
}

fn work(seeds: u64, next: &AtomicU64, sum: &Mutex<Sum>, bar: Option<&ProgressBar>) {
    let Ok(lua) = Interpreter::new() else { return };
    let mut mine = Counts::new();
    let mut violation = None;
    loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= seeds {
            break;
        }
        // A panic of the library is a violation like any other.
        let history = catch_unwind(AssertUnwindSafe(|| history(seed, &lua, false)))
            .unwrap_or_else(|panic| History { violation: Some(panicked(&*panic)), ..History::default() });
        if let Some(bar) = bar {
            bar.inc(1);
        }
        for (what, times) in history.counts {
            *mine.entry(what).or_default() += times;
        }
        if let Some(what) = history.violation {
            violation = Some((seed, what));
            next.store(seeds, Ordering::Relaxed);
            break;
        }
    }
    let mut sum = sum.lock();
    for (what, times) in mine {
        *sum.counts.entry(what).or_default() += times;
    }
    sum.violation = [sum.violation.take(), violation].into_iter().flatten().min();
}
