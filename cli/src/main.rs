//! `redleash`: a command under a lock that every host sees. See README.md beside this package.
//!
//! `args` reads the command line, and `verbs` has a room for each verb. `run` starts `stages`, which are processes of
//! this program too, and talks to them by `link`. All of them use `system` and `text`.

#![forbid(unsafe_code)]

mod args;
mod command;
mod ending;
mod exit;
mod link;
mod logger;
mod masters;
mod stages;
mod system;
mod text;
mod verbs;

use args::{Action, Args};
use exit::Failure;
use stages::stage::Stage;
use std::ffi::OsString;
use std::process::ExitCode;
use text::say;
use verbs::{bench, init, run, status, unlock};

fn main() -> ExitCode {
    let argv: Vec<OsString> = std::env::args_os().collect();
    if let Some(stage) = argv.get(1).and_then(|word| Stage::of(word)) {
        return stages::main(stage, &argv[2..]).into();
    }
    let code = Args::parse_from(&argv).and_then(|args| act(&args)).unwrap_or_else(|failure: Failure| {
        // It is empty if clap has said everything.
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
