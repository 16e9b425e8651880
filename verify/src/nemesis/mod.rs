//! Faults on real servers: masters behind a network that fails, workers that are stopped and killed, and a check of all
//! that the workers report.
#![allow(clippy::disallowed_methods, reason = "it waits for other processes, not for the library's clock")]

pub mod arena;
pub mod check;
pub mod clock;
pub mod command;
pub mod conduct;
pub mod crew;
pub mod crowd;
pub mod dice;
pub mod faults;
pub mod history;
pub mod keeper;
pub mod page;
pub mod pipe;
pub mod proxy;
pub mod register;
pub mod report;
pub mod worker;

use crate::Verdict;
use arena::{Arena, COMMAND_TTL, MAX_LEASE, Setup, TTL};
use check::History;
use clock::Shim;
use conduct::Conductor;
use crew::Record;
use crowd::Crowd;
use dice::Dice;
use faults::{Fault, Planned, schedule};
use history::now;
use keeper::Keeper;
use redleash_testkit::{Scratch, available, wait_until};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The options of `verify nemesis`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// How many minutes of faults.
    #[arg(long, default_value_t = 0)]
    pub minutes: u64,
    /// How many seconds of faults, beside the minutes. Without both: one minute.
    #[arg(long, default_value_t = 0)]
    pub seconds: u64,
    /// The seed of the schedule and of the workers. Default: a new one.
    #[arg(long)]
    pub seed: Option<u64>,
    /// The number of masters, without and with a fault margin of 1. Default: 3 without and 5 with a margin, side by
    /// side.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(["3", "5"]))]
    pub masters: Option<String>,
    /// Write a page with the timeline into this file.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Switch the quarantine off: the check must find two holders. Only with workers that use the library.
    #[arg(long, hide = true)]
    pub no_quarantine: bool,
}

/// After the last fault: in this time quarantines end, and every worker acquires a lock.
const CALM: Duration = Duration::from_secs(5);
/// How late the masters and the timers of this machine may be when all keys must be absent.
const SLACK: Duration = Duration::from_millis(500);
/// How many more stops there are if those of the schedule hit no bad moment, so that the control lost no update.
const MORE_STOPS: usize = 8;

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    match histories(options) {
        Ok((histories, crowd)) => {
            histories.iter().for_each(|history| print!("{}", report::text(history)));
            crowd.iter().for_each(|crowd| print!("{}", crowd.text()));
            println!();
            let verdict = match &crowd {
                Some(crowd) => crowd.verdict(report::verdict(&histories)),
                None => report::verdict(&histories),
            };
            match write_page(options, &histories, &verdict) {
                Ok(()) => verdict,
                Err(error) => Verdict::failed(format!("the page cannot be written: {error}")),
            }
        }
        Err(error) => Verdict::failed(error.to_string()),
    }
}

fn write_page(options: &Options, histories: &[History], verdict: &Verdict) -> io::Result<()> {
    let Some(path) = &options.html else { return Ok(()) };
    let seed = histories.first().map_or(0, |history| history.setup.seed);
    let masters = options.masters.as_ref().map_or(String::new(), |n| format!(" --masters {n}"));
    let command = format!("verify nemesis --seconds {} --seed {seed}{masters}", length(options).as_secs());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, page::page(histories, verdict, &command, &report::today()))?;
    println!("{} has the timeline", path.display());
    Ok(())
}

fn length(options: &Options) -> Duration {
    match Duration::from_secs(options.minutes * 60 + options.seconds) {
        Duration::ZERO => Duration::from_secs(60),
        length => length,
    }
}

fn histories(options: &Options) -> Result<(Vec<History>, Option<Crowd>), Box<dyn Error>> {
    if !available() {
        return Err("redis-server is not installed (scripts/install-redis does it)".into());
    }
    let length = length(options);
    let seed = options.seed.unwrap_or_else(now);
    let redleash = command_line()?;
    let scratch = Scratch::new()?;
    let shim = Shim::compile(scratch.path())
        .inspect_err(|error| eprintln!("NO CLOCK STEPS: the shim cannot be compiled: {error}"))
        .ok();
    let keeper = Arc::new(Keeper::start()?);
    let kinds: &[(usize, usize)] = match options.masters.as_deref() {
        Some("3") => &[(3, 0), (3, 1)],
        Some("5") => &[(5, 0), (5, 1)],
        _ => &[(3, 0), (5, 1)],
    };
    println!("seed {seed}, {} s of faults", length.as_secs());
    let here = std::env::current_exe()?;
    let (arenas, crowd) = thread::scope(|scope| {
        // Without the quarantine only the check for two holders matters.
        let crowd = (!options.no_quarantine).then(|| {
            let here = &here;
            scope.spawn(move || crowd::play(here, length, seed).map_err(|error| error.to_string()))
        });
        let arenas: Vec<_> = kinds
            .iter()
            .map(|(masters, margin)| {
                let redleash = (!options.no_quarantine).then(|| redleash.clone());
                let no_quarantine = options.no_quarantine;
                let setup = Setup { masters: *masters, margin: *margin, seed, redleash, no_quarantine };
                let (scratch, shim, keeper) = (&scratch, shim.as_ref(), &keeper);
                scope.spawn(move || play(&setup, scratch, shim, keeper, length).map_err(|error| error.to_string()))
            })
            .collect();
        let joined = arenas.into_iter().map(|arena| arena.join().unwrap_or_else(|_| Err("an arena panicked".into())));
        let arenas = joined.collect::<Result<Vec<_>, _>>();
        let crowd = crowd.map(|crowd| crowd.join().unwrap_or_else(|_| Err("the crowd's arena panicked".into())));
        (arenas, crowd.transpose())
    });
    Ok((arenas?, crowd?))
}

/// The command line program beside this one. It is built if it is absent or older than its source.
fn command_line() -> Result<PathBuf, Box<dyn Error>> {
    let me = std::env::current_exe()?;
    let folder = me.parent().ok_or("this program has no path")?;
    let redleash = folder.join("redleash");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let sources = ["src", "protocol/src", "cli/src"].map(|folder| workspace.join(folder));
    let newest = sources.iter().filter_map(|folder| newest(folder).ok()).max();
    let built = fs::metadata(&redleash).and_then(|file| file.modified()).ok();
    if built.is_some() && newest <= built {
        return Ok(redleash);
    }
    eprintln!("building the command line program");
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "-p", "redleash-cli", "--profile", profile, "--target-dir"])
        .arg(folder.parent().ok_or("this program is not in a target directory")?)
        .current_dir(workspace)
        .status()?;
    if status.success() { Ok(redleash) } else { Err("cargo cannot build redleash-cli".into()) }
}

/// When the newest file below the folder was written.
fn newest(folder: &Path) -> io::Result<SystemTime> {
    let times = fs::read_dir(folder)?.map(|entry| {
        let entry = entry?;
        if entry.file_type()?.is_dir() { newest(&entry.path()) } else { entry.metadata()?.modified() }
    });
    times.collect::<io::Result<Vec<_>>>().map(|times| times.into_iter().max().unwrap_or(SystemTime::UNIX_EPOCH))
}

fn play(
    setup: &Setup,
    scratch: &Scratch,
    shim: Option<&Shim>,
    keeper: &Arc<Keeper>,
    length: Duration,
) -> Result<History, Box<dyn Error>> {
    let arena = Arena::start(setup, scratch, shim)?;
    let mut dice = Dice::new(setup.seed ^ ((setup.masters as u64) << 8) ^ setup.margin as u64);
    let (ground, start) = (arena.ground(), now());
    let plan = schedule(&ground, length, &mut dice);
    let crew = arena.crew(keeper)?;
    let mut conductor = Conductor::new(&arena, &crew);
    conductor.play(&plan, length + CALM);
    for _ in 0..MORE_STOPS {
        if arena.registers.lost_free() > 0 {
            break;
        }
        let again = plan.iter().find(|planned| planned.fault == Fault::WorkerStopped);
        let again: Vec<Planned> = again.map(|p| Planned { at: Duration::ZERO, ..p.clone() }).into_iter().collect();
        conductor.play(&again, CALM);
    }
    let healed = now();
    thread::sleep(CALM);
    let (faults, mut failures, ahead) = (conductor.done, conductor.failures, conductor.ahead_us);
    let rows = crew.kinds();
    let records = crew.finish();
    let end = now();
    // On a master whose clock has stepped back, a key lives longer.
    let back = arena.clock.as_ref().map_or(0, |clock| ahead - clock.offset_us());
    let limit = TTL.max(COMMAND_TTL) + MAX_LEASE + SLACK + Duration::from_micros(back.max(0) as u64);
    let since = Instant::now();
    let empty = || arena.keys().iter().all(|keys| *keys == Some(0));
    let cleared = wait_until(limit, empty).then(|| since.elapsed());
    let reported = reported(&records, &mut failures);
    let lives = || records.iter().flat_map(|record| &record.lives);
    Ok(History {
        setup: setup.clone(),
        span: (start, end),
        healed,
        holds: lives().flat_map(|life| life.holds.clone()).collect(),
        rows,
        faults,
        wanted: ground.faults(),
        accounts: arena.registers.accounts(),
        busy: lives().map(|life| life.busy).sum(),
        reported,
        cleared,
        failures,
    })
}

/// What else the rows reported, counted. What must not occur is added to the failures.
fn reported(records: &[Record], failures: &mut Vec<String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (row, record) in records.iter().enumerate() {
        failures.extend(record.failure.iter().map(|failure| format!("row {row}: {failure}")));
        let codes = record.codes.iter().map(|code| format!("exit {code}"));
        let lives = record.lives.iter();
        for life in lives.clone() {
            failures.extend(life.nonsense.iter().map(|line| format!("row {row} printed {line:?}")));
        }
        for what in lives.flat_map(|life| life.errors.iter().chain(&life.releases)).cloned().chain(codes) {
            *counts.entry(what).or_default() += 1;
        }
    }
    counts
}
