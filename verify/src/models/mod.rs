//! The protocol as a model, exhausted: `verify models`.
//!
//! [`rules`] says what the protocol demands, [`state`] what there is, [`client`] and [`server`] what the two sides do,
//! [`actions`] what can happen, [`configs`] what is left out and how far things may go. `docs/VERIFICATION.md` has the
//! results.
#![allow(clippy::disallowed_methods, reason = "a program of its own, which measures itself")]

pub mod actions;
pub mod client;
pub mod config;
pub mod configs;
pub mod model;
pub mod rules;
pub mod server;
pub mod state;
pub mod trace;

use crate::Verdict;
use config::{Config, Expected};
use model::{HELD, Protocol, WITNESS};
use parking_lot::Mutex;
use rules::Promise;
use rustix::time::{ClockId, clock_gettime};
use stateright::{Checker, HasDiscoveries, Model};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The options of `verify models`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Check only this configuration; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub config: Vec<String>,
    /// List the configurations and what they show
    #[arg(long)]
    pub list: bool,
    /// Print the shortest way to each broken promise
    #[arg(long)]
    pub traces: bool,
    /// How many configurations to check at the same time
    #[arg(long, default_value_t = 2)]
    pub jobs: usize,
}

/// A configuration with more transitions than this is given up: its bounds do not fit the machine.
const LIMIT: usize = 25_000_000;

/// What the checker found in one configuration.
#[derive(Clone, Debug)]
pub struct Found {
    /// The promise that was broken, and the way there in words.
    pub broken: Option<(Promise, Vec<String>)>,
    /// Whether the lock was held sometimes, and the witness of the configuration was seen.
    pub alive: bool,
    /// Whether every reachable state was visited.
    pub exhausted: bool,
    /// The number of different states.
    pub states: usize,
    /// The length of the longest of the shortest ways to a state.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
}

impl Found {
    /// Whether this is the expected result.
    pub fn is_expected(&self, config: &Config) -> bool {
        match config.expected {
            Expected::Holds => self.broken.is_none() && self.exhausted && self.alive,
            Expected::Breaks(promise) => self.broken.as_ref().is_some_and(|(broken, _)| *broken == promise),
        }
    }

    fn verdict(&self) -> String {
        match &self.broken {
            Some((promise, steps)) => format!("{} broken in {} steps", promise.name(), steps.len()),
            None if !self.exhausted => "not exhausted".into(),
            None if !self.alive => "nothing happened in it".into(),
            None => "holds".into(),
        }
    }
}

/// Checks one configuration, breadth first on one thread, so that the first trace is a shortest one.
pub fn check(config: &Config) -> Found {
    let begun = Instant::now();
    let checker =
        Protocol::new(config.clone()).checker().threads(1).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    checker.model().reopen();
    let mut discoveries = checker.discoveries();
    let broken = Promise::ALL.into_iter().find_map(|promise| {
        let path = discoveries.remove(promise.name())?;
        Some((promise, trace::words(config, &path.into_actions())))
    });
    Found {
        alive: discoveries.contains_key(HELD) && discoveries.contains_key(WITNESS),
        exhausted: broken.is_none() && checker.is_done() && checker.state_count() < LIMIT,
        broken,
        states: checker.unique_state_count(),
        // The checker counts the states on the way, including the first.
        depth: checker.max_depth() - 1,
        took: begun.elapsed(),
    }
}

fn expected(config: &Config) -> &'static str {
    match config.expected {
        Expected::Holds => "holds",
        Expected::Breaks(promise) => promise.name(),
    }
}

fn left_out(config: &Config) -> String {
    if config.removed.is_empty() { "nothing".into() } else { format!("{:?}", config.removed[0]) }
}

fn print(config: &Config, found: &Found, traces: bool) {
    println!(
        "{:<22} without {:<24} {:>9} states, depth {:>2}, {:>5.1} s  expected {:<12} {}{}",
        config.name,
        left_out(config),
        found.states,
        found.depth,
        found.took.as_secs_f64(),
        expected(config),
        found.verdict(),
        if found.is_expected(config) { "" } else { "  <-- NOT AS EXPECTED" },
    );
    if let Some((_, steps)) = found.broken.as_ref().filter(|_| traces) {
        steps.iter().enumerate().for_each(|(i, step)| println!("    {:>2}. {step}", i + 1));
    }
}

/// The processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Checks the chosen configurations, `jobs` at a time, and prints them in their order. Returns how many were not as
/// expected, and the number of states.
fn check_all(chosen: &[Config], options: &Options) -> (usize, usize) {
    let next = AtomicUsize::new(0);
    let waiting = Mutex::new((0, BTreeMap::new()));
    let tally = Mutex::new((0, 0));
    let work = || {
        while let Some(config) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
            let place = chosen.iter().position(|c| c.name == config.name).unwrap_or_default();
            let found = check(config);
            {
                let (unexpected, states) = &mut *tally.lock();
                *unexpected += usize::from(!found.is_expected(config));
                *states += found.states;
            }
            let (next, ready) = &mut *waiting.lock();
            ready.insert(place, found);
            while let Some(found) = ready.remove(next) {
                print(&chosen[*next], &found, options.traces);
                *next += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        (0..options.jobs.max(1)).for_each(|_| {
            scope.spawn(work);
        });
    });
    tally.into_inner()
}

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    let all = configs::all();
    if options.list {
        for config in &all {
            println!("{:<22} without {:<24} {}", config.name, left_out(config), config.about);
        }
        return Verdict::held(format!("{} configurations", all.len()));
    }
    if let Some(unknown) = options.config.iter().find(|name| all.iter().all(|c| c.name != **name)) {
        return Verdict::failed(format!("there is no configuration {unknown:?}; --list shows them"));
    }
    let wanted = |c: &&Config| options.config.is_empty() || options.config.iter().any(|name| name == c.name);
    let chosen: Vec<Config> = all.iter().filter(wanted).cloned().collect();
    let whole = chosen.iter().filter(|c| c.removed.is_empty()).count();
    let begun = Instant::now();
    let (unexpected, states) = check_all(&chosen, options);
    let times = format!("{:.0} s, {:.0} s of processor time", begun.elapsed().as_secs_f64(), cpu().as_secs_f64());
    if unexpected > 0 {
        return Verdict::failed(format!(
            "{unexpected} of {} configurations were not as expected; {times}",
            chosen.len()
        ));
    }
    Verdict::held(format!(
        "{whole} configurations of the whole protocol exhausted, {} with a rule left out refuted; {states} states, \
         {times}",
        chosen.len() - whole,
    ))
}
