//! `with-servers N -- COMMAND...` runs a command with the addresses of N fresh redis-servers in REDLEASH_NODES and ends
//! as the command does.
#![forbid(unsafe_code)]

use redleash_testkit::{Masters, available};
use std::error::Error;
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: with-servers N -- COMMAND...";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("with-servers: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [count, dashes, program, arguments @ ..] = args.as_slice() else {
        return Err(USAGE.into());
    };
    if dashes != "--" {
        return Err(USAGE.into());
    }
    if !available() {
        return Err("redis-server is not installed (scripts/install-redis does it)".into());
    }
    let servers = Masters::start(count.parse()?)?;
    let status = Command::new(program)
        .args(arguments)
        .env("REDLEASH_NODES", servers.urls().join(","))
        .status()
        .map_err(|error| format!("{program}: {error}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
