//! Faults put into the code on purpose, and who finds them.
//!
//! The faults exist only in a build with `--cfg redleash_planted`. `verify planted` makes that build in a directory of its
//! own and lets it run itself once per fault, for the choice of a fault is one per process.

pub mod faults;

use crate::Verdict;
use faults::{FAULTS, Fault, Finder};
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The options of `verify planted`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The most histories of the simulation per fault
    #[arg(long, default_value_t = 20_000)]
    pub seeds: u64,
    /// Only the faults whose names contain this
    #[arg(long)]
    pub only: Option<String>,
}

/// Whether this program has the faults in it.
const PLANTED: bool = cfg!(redleash_planted);

/// The name of the variable that chooses a fault.
const CHOICE: &str = "REDLEASH_PLANTED";

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    let outcome = if PLANTED { find_all(options) } else { build_and_run(options) };
    outcome.unwrap_or_else(|e| Verdict::failed(format!("it broke off: {e}")))
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn target() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    if PLANTED { target } else { target.join("planted") }
}

/// cargo, for a build with the faults.
fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let flags = if PLANTED { flags } else { format!("{flags} --cfg redleash_planted") };
    cargo.current_dir(workspace()).env("RUSTFLAGS", flags.trim()).env("CARGO_TARGET_DIR", target()).env_remove(CHOICE);
    cargo
}

/// Builds this program with the faults and has it do the rest.
fn build_and_run(options: &Options) -> io::Result<Verdict> {
    let built = cargo().args(["build", "--quiet", "--release", "-p", "redleash-verify", "--bin", "verify"]).status()?;
    if !built.success() {
        return Ok(Verdict::failed("the build with the faults failed"));
    }
    let flags = env::var("RUSTFLAGS").unwrap_or_default();
    let mut planted = Command::new(target().join("release/verify"));
    planted.args(["planted", "--seeds", &options.seeds.to_string()]);
    if let Some(only) = &options.only {
        planted.args(["--only", only]);
    }
    planted.env("RUSTFLAGS", format!("{flags} --cfg redleash_planted").trim()).env("CARGO_TARGET_DIR", target());
    let held = planted.env_remove(CHOICE).status()?.success();
    let line = "the build with the faults has said above what was found";
    Ok(if held { Verdict::held(line) } else { Verdict::failed(line) })
}

/// What became of a fault.
enum Outcome {
    /// It was found; how.
    Found(String),
    /// It was not; what happened instead.
    Missed(String),
}

fn find_all(options: &Options) -> io::Result<Verdict> {
    let chosen = |f: &&Fault| options.only.as_ref().is_none_or(|only| f.name.contains(only.as_str()));
    let faults: Vec<&Fault> = FAULTS.iter().filter(chosen).collect();
    if faults.is_empty() {
        return Ok(Verdict::failed("there is no fault of that name; verify/src/planted/faults.rs lists them"));
    }
    if let Outcome::Found(how) = simulate("", options.seeds.min(1_000))? {
        return Ok(Verdict::failed(format!("something was found where no fault was chosen: {how}")));
    }
    let mut found = 0;
    for fault in &faults {
        let outcome = match fault.finder {
            Finder::Simulation => simulate(fault.name, options.seeds)?,
            Finder::Test(file, test) => test_finds(fault.name, file, test)?,
        };
        match outcome {
            Outcome::Found(how) => {
                found += 1;
                println!("found   {:<34} {}; {how}", fault.name, fault.what);
            }
            Outcome::Missed(why) => println!("MISSED  {:<34} {}; {why}", fault.name, fault.what),
        }
    }
    let line = format!("found {found} of {}", faults.len());
    Ok(if found == faults.len() { Verdict::held(line) } else { Verdict::failed(line) })
}

/// Runs the simulation with a fault.
fn simulate(name: &str, seeds: u64) -> io::Result<Outcome> {
    let mut command = Command::new(env::current_exe()?);
    let output = command.args(["sim", "--quiet", "--seeds", &seeds.to_string()]).env(CHOICE, name).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default().to_string();
    // Not every failure is a find: a program that cannot start fails too.
    Ok(match last.strip_prefix("FAILED: ") {
        Some(what) if what.starts_with("seed ") => {
            Outcome::Found(what.split("; see").next().unwrap_or(what).to_string())
        }
        _ => Outcome::Missed(last),
    })
}

/// Runs a test of the library with and without a fault: it must fail with it only.
fn test_finds(name: &str, file: &str, test: &str) -> io::Result<Outcome> {
    let run = |choice: &str| {
        let mut cargo = cargo();
        cargo.args(["test", "--quiet", "-p", "redleash", "--test", file]);
        // The models of the threads run through enough schedules only when they are optimised.
        cargo.args((file == "threads").then_some("--release")).args(["--", "--exact", test]);
        cargo.env(CHOICE, choice).output()
    };
    let (sound, faulty) = (run("")?, run(name)?);
    let says = |output: &std::process::Output, what: &str| String::from_utf8_lossy(&output.stdout).contains(what);
    let place = format!("tests/{file}.rs, {test}");
    Ok(if !sound.status.success() || !says(&sound, "1 passed") {
        Outcome::Missed(format!("{place}: it does not pass without the fault"))
    } else if faulty.status.success() || !says(&faulty, "1 failed") {
        Outcome::Missed(format!("{place}: it passes with the fault"))
    } else {
        Outcome::Found(place)
    })
}
