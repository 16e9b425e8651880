//! However the nemesis ends, no process and no directory of it is left.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a test of processes may stop at the first surprise"
)]

use redleash_testkit::{skipped, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);
/// The first run may have to build the command line program.
const BUILD: Duration = Duration::from_secs(600);

/// A process, by its pid and its start: no other process has both.
type Who = (u32, String);

/// All processes: their parent and their command line.
fn processes() -> BTreeMap<Who, (u32, String)> {
    let of = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let zombie = fields[0] == "Z";
        let line = String::from_utf8_lossy(&words).replace('\0', " ");
        (!zombie).then(|| ((pid, fields[19].to_string()), (fields[1].parse().unwrap(), line)))
    };
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(of).collect()
}

/// The descendants of a process, and what they are.
fn family(root: u32) -> BTreeMap<Who, String> {
    let all = processes();
    let mut found = BTreeMap::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for ((pid, start), (_, line)) in all.iter().filter(|(_, (of, _))| *of == parent) {
            parents.push(*pid);
            found.insert((*pid, start.clone()), line.clone());
        }
    }
    found
}

/// The scratch directories of a process.
fn directories(pid: u32) -> Vec<PathBuf> {
    let own = format!("redleash-{pid}-");
    let entries = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    entries.map(|e| e.path()).filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&own))).collect()
}

fn start() -> Child {
    let command = ["nemesis", "--seconds", "300", "--seed", "3"];
    Command::new(env!("CARGO_BIN_EXE_verify")).args(command).stdout(Stdio::null()).spawn().unwrap()
}

/// Servers, workers, commands under `redleash run`: all there.
fn busy(family: &BTreeMap<Who, String>) -> bool {
    let count = |what: &str| family.values().filter(|line| line.contains(what)).count();
    count("redis-server") >= 8 && count("nemesis-worker") >= 12 && count("nemesis-job") >= 1
}

#[track_caller]
fn ends_clean(signal: Signal) {
    let mut nemesis = start();
    let pid = nemesis.id();
    let mut seen = BTreeMap::new();
    wait_until(BUILD, || {
        seen = family(pid);
        busy(&seen) || nemesis.try_wait().unwrap().is_some()
    });
    assert!(busy(&seen) && !directories(pid).is_empty(), "it ended by itself");
    // One that is stopped does not notice that the nemesis has ended.
    let worker = seen.iter().find(|(_, line)| line.contains("nemesis-worker")).map(|((worker, _), _)| *worker).unwrap();
    kill_process(Pid::from_raw(worker as i32).unwrap(), Signal::STOP).unwrap();
    kill_process(Pid::from_child(&nemesis), signal).unwrap();
    assert!(!nemesis.wait().unwrap().success());
    let left = || -> Vec<String> {
        let now = processes();
        seen.iter().filter(|(who, _)| now.contains_key(*who)).map(|(_, line)| line.clone()).collect()
    };
    assert!(wait_until(LIMIT, || left().is_empty()), "{:#?}", left());
    assert!(wait_until(LIMIT, || directories(pid).is_empty()), "{:?}", directories(pid));
}

#[test]
fn nothing_is_left_after_ctrl_c_and_after_a_kill() {
    if skipped() {
        return;
    }
    ends_clean(Signal::INT);
    ends_clean(Signal::KILL);
}
