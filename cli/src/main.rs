//! `redleash`: a command under a lock that every host sees. See README.md beside this package.

#![forbid(unsafe_code)]

mod alarm;
mod args;
mod bench;
mod child;
mod clock;
mod command;
mod contain;
mod duration;
mod ending;
mod exit;
mod feeder;
mod holder;
mod init;
mod line;
mod link;
mod logger;
mod nodes;
mod run;
mod say;
mod signals;
mod status;
mod supervised;
mod supervisor;
mod terminal;
mod tree;
mod unlock;
mod waiting;
mod watch;

use args::{Action, Args};
use exit::Failure;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    // The stages between `run` and the command; started by this program alone, so they are not in the help.
    match argv.get(1).and_then(|word| word.to_str()) {
        Some(supervisor::STAGE) => return supervisor::main(&argv[2..]).into(),
        Some(contain::STAGE) => return contain::main(&argv[2..]).into(),
        Some(contain::PROBE) => return contain::probe_main(false).into(),
        Some(contain::PROBE_INSIDE) => return contain::probe_main(true).into(),
        Some(child::STAGE) => return child::main(&argv[2..]).into(),
        _ => {}
    }
    let code = Args::parse_from(&argv).and_then(|args| act(&args)).unwrap_or_else(|failure: Failure| {
        // Empty if clap has said it all.
        if !failure.sentence.is_empty() {
            say::sentence(&failure.sentence);
        }
        failure.code
    });
    code.into()
}

fn act(args: &Args) -> Result<u8, Failure> {
    logger::install(args.verbose);
    match &args.action {
        Action::Run(run) => run::run(&args.masters, run, args.verbose > 0),
        Action::Status(status) => status::status(&args.masters, status),
        Action::Init => init::init(&args.masters),
        Action::Unlock(unlock) => unlock::unlock(&args.masters, unlock),
        Action::Bench(bench) => bench::bench(&args.masters, bench),
    }
}
