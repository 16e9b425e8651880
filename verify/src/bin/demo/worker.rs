//! One worker process: its threads update the ledger, as those of the other workers do.

use crate::ledger::{Counts, Ledger, Update, batches, count, total};
use crate::{Failure, LOCK, THREADS, WORKERS};
use redleash::{Client, Lock, Options};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// So many losses are tried again; a failure that stays must end.
const TRIES: usize = 5;
/// The time between the reading and the writing of an update: long enough for another update to come in between.
const THINKING: Duration = Duration::from_millis(60);
/// The time before a thread asks for the lock, so that all workers get it and a person can follow.
const PREPARING: Duration = Duration::from_millis(150);

pub(crate) struct Worker {
    number: usize,
    ledger: PathBuf,
    batches: Vec<Counts>,
    lock: Option<Lock>,
}

impl Worker {
    /// `NUMBER LEDGER INPUT BATCHES URLS`; no urls means no lock.
    pub(crate) fn from_args(args: &[String]) -> Result<Worker, Failure> {
        let [number, ledger, input, updates, urls] = args else {
            return Err("the demo starts its workers itself".into());
        };
        let lock = if urls.is_empty() {
            None
        } else {
            let client = Client::builder()
                .nodes(urls.split(',').map(String::from))
                .ttl(Duration::from_secs(6))
                .label(format!("worker {number}"))
                .build()?;
            Some(client.lock(LOCK).options(Options::new().fenced(true)))
        };
        let text = fs::read_to_string(input)?;
        let batches = batches(&text, updates.parse()?).iter().map(|batch| count(batch)).collect();
        Ok(Worker { number: number.parse()?, ledger: ledger.into(), batches, lock })
    }

    pub(crate) fn run(&self) -> Result<(), Failure> {
        say(format_args!("ready\t{}", self.number));
        let mut line = String::new();
        io::stdin().read_line(&mut line)?;
        // The conductor never closes this input. When it ends, the conductor has died, and this worker ends too.
        thread::spawn(|| {
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            std::process::exit(1);
        });
        thread::scope(|scope| {
            for t in 0..THREADS {
                scope.spawn(move || self.updates(t));
            }
        });
        say(format_args!("done\t{}", self.number));
        Ok(())
    }

    /// Makes the updates of this thread, one for each of its batches.
    fn updates(&self, t: usize) {
        let who = format!("{}{}", self.number, char::from(b'a' + t as u8));
        let mine = (self.number - 1) * THREADS + t;
        for batch in self.batches.iter().skip(mine).step_by(WORKERS * THREADS) {
            thread::sleep(PREPARING);
            let mut written = false;
            for _ in 0..TRIES {
                let result = match &self.lock {
                    Some(lock) => self.locked(lock, &who, batch, &mut written),
                    None => self.unlocked(&who, batch, &mut written),
                };
                if let Err(error) = result {
                    say(format_args!("trouble\t{who}\t{}", error.to_string().replace('\n', "; ")));
                }
                if written {
                    break;
                }
            }
        }
    }

    fn locked(&self, lock: &Lock, who: &str, batch: &Counts, written: &mut bool) -> Result<(), Failure> {
        lock.with(|guard| {
            let token = guard.fencing_token()?;
            say(format_args!("holds\t{who}\t{token}\t{}", guard.remaining().as_millis()));
            let mut ledger = Ledger::read(&self.ledger)?;
            thread::sleep(THINKING);
            if token <= ledger.last_token() {
                say(format_args!("stale\t{who}\t{token}"));
                return Err("the ledger has seen a newer token".into());
            }
            ledger.add(batch, Update { token, who: who.into() });
            guard.check()?;
            self.write(&ledger, who, batch, written)
        })
    }

    fn unlocked(&self, who: &str, batch: &Counts, written: &mut bool) -> Result<(), Failure> {
        let mut ledger = Ledger::read(&self.ledger)?;
        thread::sleep(THINKING);
        ledger.add(batch, Update { token: 0, who: who.into() });
        self.write(&ledger, who, batch, written)
    }

    fn write(&self, ledger: &Ledger, who: &str, batch: &Counts, written: &mut bool) -> Result<(), Failure> {
        ledger.write(Path::new(&self.ledger), who)?;
        *written = true;
        say(format_args!("wrote\t{who}\t{}\t{}", total(batch), ledger.words()));
        Ok(())
    }
}

/// Writes one line to the conductor in one write, because all workers share its pipe.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = io::stdout().write_all(format!("{line}\n").as_bytes());
}
