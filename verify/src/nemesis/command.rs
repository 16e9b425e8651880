//! `verify nemesis-job`: what `redleash run` runs. It knows the fencing token and no deadline: it must be dead before
//! the lease ends, so every sign of life is part of the hold.

use super::dice::Dice;
use super::history::{Event, now};
use super::register::Session;
use std::io;
use std::thread;
use std::time::Duration;

/// What the nemesis tells the command.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Where the registers are.
    #[arg(long)]
    pub registers: u16,
    /// Which lock.
    #[arg(long)]
    pub name: usize,
    /// The seed.
    #[arg(long)]
    pub seed: u64,
}

/// The time between signs of life.
const STEP: Duration = Duration::from_millis(5);

/// Works for a while.
pub fn run(options: &Options) -> ! {
    Event::Granted { name: options.name, at: now(), until: 0 }.say();
    let token = std::env::var("REDLEASH_FENCE").ok().and_then(|token| token.parse().ok());
    let code = match token {
        None => 2,
        Some(token) => {
            Event::Token(token).say();
            i32::from(work(options, token).is_err())
        }
    };
    Event::Left { at: now() }.say();
    std::process::exit(code);
}

fn work(options: &Options, token: u64) -> io::Result<()> {
    let mut session = Session::open(options.registers, true)?;
    let mut dice = Dice::new(options.seed);
    let turns = if dice.one_in(6) { dice.range(20, 80) } else { dice.range(1, 4) };
    for _ in 0..turns {
        let Some((fenced, free)) = session.read(options.name, token)? else { return Ok(()) };
        for _ in 0..dice.range(0, 8) {
            Event::Alive(now()).say();
            thread::sleep(STEP);
        }
        let _ = session.write_fenced(options.name, token, fenced)?;
        session.write_free(options.name, token, free)?;
        Event::Alive(now()).say();
    }
    Ok(())
}
