//! Faults put into the code on purpose, and who finds them.
//!
//! The faults are data ([`faults`]): the sources have none. `verify planted` copies the sources into a directory below
//! `target`, and for each fault writes its wrong text into the copy, builds what must find it, runs that, and takes the
//! fault out again.
#![allow(clippy::disallowed_methods, reason = "a program of its own, which measures itself")]

pub mod faults;
mod finder;
mod tree;

use crate::Verdict;
use faults::{Fault, Finder};
use finder::Workshop;
use std::collections::BTreeSet;
use std::env;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tree::Tree;

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

/// The number of histories in which the simulation must find nothing where no fault was planted.
const SOUND_SEEDS: u64 = 1_000;

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    find_all(options).unwrap_or_else(|e| Verdict::failed(format!("it broke off: {e}")))
}

fn find_all(options: &Options) -> io::Result<Verdict> {
    let is_chosen = |fault: &&Fault| options.only.as_ref().is_none_or(|only| fault.name.contains(only.as_str()));
    let faults: Vec<&Fault> = faults::all().filter(is_chosen).collect();
    if faults.is_empty() {
        return Ok(Verdict::failed("there is no fault of that name; verify/src/planted/faults lists them"));
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let target = std::path::absolute(target)?.join("planted");
    let tree = Tree::copy(&workspace, target.join("tree"))?;
    let sources = tree.root().to_path_buf();
    let mut workshop = Workshop { sources, target: target.join("build"), seeds: options.seeds.min(SOUND_SEEDS) };

    let finders: BTreeSet<Finder> = faults.iter().map(|fault| fault.found_by).collect();
    for finder in finders {
        match workshop.look(finder)? {
            Ok(None) => {}
            Ok(Some(how)) => return Ok(Verdict::failed(format!("found without a fault: {how}"))),
            Err(why) => return Ok(Verdict::failed(format!("without a fault: {why}"))),
        }
    }
    workshop.seeds = options.seeds;
    let mut found = 0;
    for fault in &faults {
        let start = Instant::now();
        let planted = tree.plant(fault)?;
        let outcome = workshop.look(fault.found_by);
        planted.take_out()?;
        let (verdict, how) = match outcome? {
            Ok(Some(how)) => ("found ", how),
            Ok(None) => ("MISSED", format!("{:?} finds nothing", fault.found_by)),
            Err(why) => ("MISSED", why),
        };
        found += usize::from(verdict == "found ");
        println!("{verdict}  {:<34} {}; {how} ({:.0} s)", fault.name, fault.what, start.elapsed().as_secs_f64());
    }
    let line = format!("found {found} of {}", faults.len());
    Ok(if found == faults.len() { Verdict::held(line) } else { Verdict::failed(line) })
}
