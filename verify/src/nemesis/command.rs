//! `verify nemesis-job`: the command that `redleash run` runs. It knows the fencing token and no deadline. It must be
//! dead before the lease ends, so its hold lasts until its last sign of life.

use super::dice::Dice;
use super::history::{Event, now};
use super::register::Session;
use std::io;
use std::thread;
use std::time::Duration;

/// The options of the command.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The port of the registers.
    #[arg(long)]
    pub registers: u16,
    /// The number of the lock.
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
    Event::Granted { name: options.name, at: now(), until: 0 }.print();
    let token = std::env::var("REDLEASH_FENCE").ok().and_then(|token| token.parse().ok());
    let code = match token {
        None => 2,
        Some(token) => {
            Event::Token(token).print();
            i32::from(work(options, token).is_err())
        }
    };
    Event::Left { at: now() }.print();
    std::process::exit(code);
}

fn work(options: &Options, token: u64) -> io::Result<()> {
    let mut session = Session::open(options.registers, true)?;
    let mut dice = Dice::new(options.seed);
    let updates = if dice.one_in(6) { dice.range(20, 80) } else { dice.range(1, 4) };
    for _ in 0..updates {
        let Some((fenced, free)) = session.read(options.name, token)? else { return Ok(()) };
        for _ in 0..dice.range(0, 8) {
            Event::Alive(now()).print();
            thread::sleep(STEP);
        }
        let _ = session.write_fenced(options.name, token, fenced)?;
        session.write_free(options.name, token, free)?;
        Event::Alive(now()).print();
    }
    Ok(())
}
