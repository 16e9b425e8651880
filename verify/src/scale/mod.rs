//! How cost grows: with masters, threads, names, held locks, and the way to the masters. docs/PERFORMANCE.md has the
//! plots.
#![allow(clippy::disallowed_methods, reason = "measures real servers by the machine's clock, not by the library's")]

pub mod child;
pub mod held;
mod histogram;
pub mod holder;
pub mod hung;
pub mod measure;
pub mod plot;
pub mod rate;
pub mod sheet;
pub mod sweeps;

use crate::Verdict;
use clap::ValueEnum;
use holder::Order;
use sheet::Sheet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use sweeps::Pace;

/// The options of `verify scale`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Only check in seconds whether everything works; the numbers mean little
    #[arg(long)]
    pub quick: bool,
    /// Write plots and rows into this directory, and the tables into PERFORMANCE.md beside it
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Measure only these, separated by commas
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<Sweep>,
    /// How long each row of `hung-rate` takes; default: 60, with `--quick` 10
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// The program that holds locks; default: this one
    #[arg(long, hide = true)]
    pub here: Option<PathBuf>,
    /// Be a process that holds locks
    #[arg(long, hide = true)]
    pub hold: Option<Order>,
    /// Be a process that holds locks and locks at full rate
    #[arg(long, hide = true)]
    pub rate: Option<rate::Order>,
    /// Be a process that keeps a processor busy until its standard input ends
    #[arg(long, hide = true)]
    pub spin: bool,
    /// The masters of that process
    #[arg(long, hide = true, default_value = "")]
    pub nodes: String,
}

/// Which quantity grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sweep {
    /// Masters, from 1 to 9
    Masters,
    /// Threads, from 1 to 64
    Threads,
    /// Names, from 10 to 100 000
    Names,
    /// Held locks, from 100 to 20 000
    Held,
    /// The round trip, from 0.1 to 10 ms
    Distance,
    /// Nothing grows: locks are held beside threads at full rate while a master hangs, with idle and with busy
    /// processors
    HungRate,
}

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    if let Some(order) = options.hold {
        return match holder::serve(&options.nodes, order) {
            Ok(()) => Verdict::held("all released"),
            Err(error) => Verdict::failed(error.to_string()),
        };
    }
    if let Some(order) = options.rate {
        return match rate::serve(&options.nodes, order) {
            Ok(()) => Verdict::held("all released"),
            Err(error) => Verdict::failed(error.to_string()),
        };
    }
    if options.spin {
        hung::spin();
    }
    if !redleash_testkit::available() {
        return Verdict::failed("redis-server is not installed (scripts/install-redis does it)");
    }
    match measure(options) {
        Ok(sheets) => verdict(&sheets),
        Err(error) => Verdict::failed(error.to_string()),
    }
}

/// Measures and writes what is wanted.
///
/// # Errors
///
/// If a server, a lock or a file fails.
pub fn measure(options: &Options) -> io::Result<Vec<Sheet>> {
    let pace = Pace { quick: options.quick };
    let here = options.here.clone().map_or_else(std::env::current_exe, Ok)?;
    let wanted = match options.only.as_slice() {
        [] => Sweep::value_variants(),
        some => some,
    };
    let mut sheets = Vec::new();
    for sweep in wanted {
        let sheet = match sweep {
            Sweep::Masters => sweeps::by_masters(pace),
            Sweep::Threads => sweeps::by_threads(pace),
            Sweep::Names => sweeps::by_names(pace),
            Sweep::Held => held::by_held(pace, &here),
            Sweep::Distance => sweeps::by_distance(pace),
            Sweep::HungRate => hung::hung_rate(pace, options.seconds.map(Duration::from_secs), &here),
        }?;
        println!("{}", sheet.markdown());
        if let Some(out) = &options.out {
            sheet.write(out)?;
        }
        sheets.push(sheet);
    }
    if let Some(out) = &options.out {
        sheet::refresh(out, "machine", &sheet::wrapped("", &machine(options.quick)))?;
    }
    Ok(sheets)
}

/// Where this was measured, in words.
fn machine(quick: bool) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok());
    let gib = memory.map_or(0, |kib: u64| (kib + (1 << 19)) >> 20);
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok();
        output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string()).unwrap_or_default()
    };
    let version = said("redis-server", &["--version"]);
    let version = version.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("of unknown version");
    let mut text = format!(
        "Measured on a machine with {cores} cores and {gib} GiB of memory ({}, {}), which runs the redis-servers \
         ({version}) as well as the client.",
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    if cfg!(debug_assertions) {
        text += " **Built without optimisation.**";
    }
    if quick {
        text += " **A quick run: its numbers mean little.**";
    }
    text
}

fn verdict(sheets: &[Sheet]) -> Verdict {
    let problems: Vec<&str> = sheets.iter().flat_map(|sheet| &sheet.problems).map(String::as_str).collect();
    let rows: usize = sheets.iter().map(|sheet| sheet.rows.len()).sum();
    let empty = sheets.iter().find(|sheet| sheet.rows.is_empty());
    if let Some(sheet) = empty {
        return Verdict::failed(format!("{}: nothing was measured", sheet.name));
    }
    if !problems.is_empty() {
        return Verdict::failed(problems.join("; "));
    }
    let held = if sheets.iter().any(|sheet| sheet.name == "held") {
        "; every held lock was renewed as often as it should be and none was lost, even while a master hung"
    } else {
        ""
    };
    let hung = if sheets.iter().any(|sheet| sheet.name == hung::NAME) {
        "; no lock was lost beside threads at full rate while a master hung"
    } else {
        ""
    };
    Verdict::held(format!("{rows} points measured{held}{hung}"))
}

/// The plots that a page shows.
pub fn plots_of(page: &str) -> Vec<&Path> {
    let after = page.split("](scale/").skip(1);
    after.filter_map(|rest| rest.split_once(')')).map(|(name, _)| Path::new(name)).collect()
}
