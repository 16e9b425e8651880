//! The same faults for other lock clients.
//!
//! Two clients of one library, each a process of its own, are set against each other on real masters while one fault
//! happens at a chosen moment. docs/VERIFICATION.md has the table and what each scene means.
#![allow(clippy::disallowed_methods, reason = "drives other processes by the machine's clock, not by the library's")]

pub mod driven;
pub mod duel;
pub mod link;
pub mod masters;
pub mod roster;
pub mod scenes;
pub mod seed;

use crate::Verdict;
use crate::nemesis::clock::Shim;
use clap::ValueEnum;
use parking_lot::Mutex;
use redleash_testkit::Scratch;
use roster::Peer;
use scenes::{Cell, Scene, Tally};
use seed::Seed;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The options of `verify peers`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Which clients, by name, separated by commas; default: all
    #[arg(long, value_delimiter = ',')]
    pub peers: Vec<String>,
    /// Which faults, separated by commas; default: all
    #[arg(long, value_delimiter = ',')]
    pub scenarios: Vec<Scene>,
    /// How many acquisitions per client and fault
    #[arg(long, default_value_t = 500)]
    pub acquisitions: usize,
    /// The same for reused-token, where every acquisition waits for a late message
    #[arg(long, default_value_t = 100)]
    pub slow_acquisitions: usize,
    /// How many masters
    #[arg(long, default_value_t = 3)]
    pub masters: usize,
    /// The seed of all timings
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many cells of the table are run at the same time
    #[arg(long, default_value_t = 3)]
    pub jobs: usize,
    /// The program that drives redleash; default: this one
    #[arg(long, hide = true)]
    pub here: Option<PathBuf>,
    /// Be a redleash client that is driven by stdin
    #[arg(long, hide = true)]
    pub duel: bool,
    /// The masters of that client
    #[arg(long, hide = true, default_value = "")]
    pub nodes: String,
    /// Its lease in ms
    #[arg(long, hide = true, default_value_t = 30_000)]
    pub ttl: u64,
    /// Its fault margin
    #[arg(long, hide = true, default_value_t = 0)]
    pub fault_margin: usize,
}

/// One cell of the table.
pub struct Row {
    /// The client.
    pub peer: Peer,
    /// The fault.
    pub scene: Scene,
    /// What came of it.
    pub tally: io::Result<Tally>,
}

/// Runs it.
pub fn run(options: &Options) -> Verdict {
    if options.duel {
        let served = driven::serve(&options.nodes, Duration::from_millis(options.ttl), options.fault_margin);
        return match served {
            Ok(()) => Verdict::held("stdin has ended"),
            Err(error) => Verdict::failed(error.to_string()),
        };
    }
    match play(options) {
        Ok(rows) => {
            print(&rows);
            verdict(&rows)
        }
        Err(error) => Verdict::failed(error.to_string()),
    }
}

/// Plays all scenes with all clients that are wanted.
///
/// # Errors
///
/// For an unknown client, one that has not been built, or a machine without `cc`.
pub fn play(options: &Options) -> io::Result<Vec<Row>> {
    let peers = chosen(options)?;
    let scenes = match options.scenarios.as_slice() {
        [] => Scene::value_variants().to_vec(),
        some => some.to_vec(),
    };
    let here = options.here.clone().map_or_else(std::env::current_exe, Ok)?;
    for peer in &peers {
        peer.command(&here)?;
    }
    let scratch = Scratch::new()?;
    let shim = Shim::compile(scratch.path())?;
    let mut work: Vec<(Peer, Scene)> = scenes.iter().flat_map(|s| peers.iter().map(|p| (p.clone(), *s))).collect();
    work.reverse();
    let (work, rows) = (Mutex::new(work), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    // Not in a `while let`, which would keep the list locked for as long as the cell runs.
                    let next = work.lock().pop();
                    let Some((peer, scene)) = next else { break };
                    let tally = cell(options, &peer, scene, &here, &shim).run();
                    eprintln!("{} {}: {tally:?}", peer.name, title(scene));
                    rows.lock().push(Row { peer, scene, tally });
                }
            });
        }
    });
    let mut rows = rows.into_inner();
    let place = |row: &Row| (peers.iter().position(|peer| peer.name == row.peer.name), row.scene);
    rows.sort_by_key(place);
    Ok(rows)
}

fn cell<'a>(options: &Options, peer: &'a Peer, scene: Scene, here: &'a Path, shim: &'a Shim) -> Cell<'a> {
    let acquisitions = match scene {
        Scene::ReusedToken => options.slow_acquisitions,
        _ => options.acquisitions,
    };
    // Without the client's name, so that all clients have the same timings.
    let seed = Seed::new(options.seed, &title(scene));
    Cell { peer, scene, masters: options.masters, acquisitions, seed, here, shim }
}

fn chosen(options: &Options) -> io::Result<Vec<Peer>> {
    let all = roster::all();
    let known: Vec<&str> = all.iter().map(|peer| peer.name).collect();
    if let Some(name) = options.peers.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(io::Error::other(format!("there is no peer {name}; there are {}", known.join(", "))));
    }
    let wanted = |peer: &Peer| options.peers.is_empty() || options.peers.iter().any(|name| name == peer.name);
    Ok(all.into_iter().filter(wanted).collect())
}

fn title(scene: Scene) -> String {
    scene.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
}

/// Violations per 10 000 acquisitions, and their number of how many.
fn rate(tally: &io::Result<Tally>) -> String {
    match tally {
        Ok(Tally { note: Some(note), .. }) => note.split(": ").next().unwrap_or_default().to_string(),
        Ok(Tally { acquisitions: 0, refused, .. }) => format!("not granted in {refused} calls"),
        Ok(tally) => {
            let rate = tally.violations * 10_000 / tally.acquisitions;
            format!("{rate} ({} of {})", tally.violations, tally.acquisitions)
        }
        Err(error) => format!("failed: {error}"),
    }
}

fn print(rows: &[Row]) {
    let mut scenes: Vec<Scene> = rows.iter().map(|row| row.scene).collect();
    scenes.sort();
    scenes.dedup();
    println!("| client | {} |", scenes.iter().map(|s| title(*s)).collect::<Vec<_>>().join(" | "));
    println!("|---{}|", "|---".repeat(scenes.len()));
    for client in rows.chunk_by(|a, b| a.peer.name == b.peer.name) {
        let cells: Vec<String> = client.iter().map(|row| rate(&row.tally)).collect();
        println!("| {} | {} |", client[0].peer.name, cells.join(" | "));
    }
    for client in rows.chunk_by(|a, b| a.peer.name == b.peer.name) {
        println!("{}: {}", client[0].peer.name, client[0].peer.library);
    }
}

/// What redleash promises must hold, and every cell must have been run. The results of others are reported, not judged.
fn verdict(rows: &[Row]) -> Verdict {
    let mut problems = Vec::new();
    let (mut ours, mut others) = ((0, 0), (0, 0));
    for row in rows {
        let cell = format!("{} {}", row.peer.name, title(row.scene));
        let tally = match &row.tally {
            Ok(tally) => tally,
            Err(error) => {
                problems.push(format!("{cell}: {error}"));
                continue;
            }
        };
        let redleash = row.peer.vote == roster::Vote::Redleash;
        let sum = if redleash { &mut ours } else { &mut others };
        *sum = (sum.0 + tally.violations, sum.1 + tally.acquisitions);
        // Without a fault margin redleash, like any Redlock, depends on the clocks of the masters.
        let promised = redleash && (row.scene != Scene::ClockStep || row.peer.fault_margin > 0);
        if promised && tally.violations > 0 {
            problems.push(format!("{cell}: {} violations of {}", tally.violations, tally.acquisitions));
        }
        if promised && tally.acquisitions == 0 && tally.note.is_none() {
            problems.push(format!("{cell}: nothing was acquired"));
        }
    }
    let sums = format!(
        "redleash: {} violations in {} acquisitions (including clock steps without a fault margin); other clients: \
         {} in {}",
        ours.0, ours.1, others.0, others.1
    );
    match problems.as_slice() {
        [] => Verdict::held(sums),
        some => Verdict::failed(format!("{}; {sums}", some.join("; "))),
    }
}
