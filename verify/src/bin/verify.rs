//! `verify COMMAND`: the proof, as programs. Each ends with one verdict line and exits 0 only if everything held.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use redleash_verify::{fidelity, models, nemesis, peers, planted, scale, sim};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "verify", about = "Shows that redleash keeps its promises, or where it does not")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The protocol code as it ships, in a seeded world of simulated masters, networks and clients
    Sim(sim::Options),
    /// The simulated Redis against a real redis-server: the same commands, the same answers
    Fidelity(fidelity::Options),
    /// Faults planted in the code on purpose, and which checks find them
    Planted(planted::Options),
    /// Models of the protocol: no state breaks a promise, and without any one rule a promise breaks
    Models(models::Options),
    /// Faults on real servers: crashes, stops, clock steps, partitions; two holders at once must never occur
    Nemesis(nemesis::Options),
    /// The same faults for other lock clients
    Peers(peers::Options),
    /// Be a worker of the nemesis
    #[command(hide = true)]
    NemesisWorker(nemesis::worker::Options),
    /// Be the command that `redleash run` runs in the nemesis
    #[command(hide = true)]
    NemesisJob(nemesis::command::Options),
    /// How the cost grows with masters, threads, names, held locks and round trips
    Scale(scale::Options),
}

fn main() -> ExitCode {
    let verdict = match Cli::parse().command {
        Command::Sim(options) => sim::run(&options),
        Command::Fidelity(options) => fidelity::run(&options),
        Command::Planted(options) => planted::run(&options),
        Command::Models(options) => models::run(&options),
        Command::Nemesis(options) => nemesis::run(&options),
        Command::Peers(options) => peers::run(&options),
        Command::NemesisWorker(options) => nemesis::worker::run(&options),
        Command::NemesisJob(options) => nemesis::command::run(&options),
        Command::Scale(options) => scale::run(&options),
    };
    println!("{}: {}", if verdict.held { "HELD" } else { "FAILED" }, verdict.line);
    if verdict.held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
