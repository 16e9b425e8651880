//! `verify nemesis-worker`: a process that acquires locks through the library, works under them, and reports all of it.

use super::dice::Dice;
use super::history::{Event, now};
use super::register::Session;
use parking_lot::Mutex;
use redleash::{Client, Error, Lease, LockGuard, Lost, Options as LockOptions, ReleaseOutcome, Retry};
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The tick of the metronome, which counts the time that the process is awake.
pub const TICK: Duration = Duration::from_millis(10);
/// A write is begun only if the lease lasts for at least so much longer.
const LEAST_LEFT: Duration = Duration::from_millis(150);

/// The options of a worker.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The port of the registers.
    #[arg(long)]
    pub registers: u16,
    /// The number of locks.
    #[arg(long)]
    pub locks: usize,
    /// The ttl of a lease in milliseconds.
    #[arg(long)]
    pub ttl: u64,
    /// The longest lease in milliseconds.
    #[arg(long)]
    pub max_lease: u64,
    /// The fault margin.
    #[arg(long)]
    pub margin: usize,
    /// The seed.
    #[arg(long)]
    pub seed: u64,
    /// Switch the quarantine off.
    #[arg(long)]
    pub no_quarantine: bool,
}

/// The client that all workers of an arena use; the masters are in the environment.
///
/// # Errors
///
/// The error of the library.
pub fn client(options: &Options, urls: &[String]) -> Result<Client, Error> {
    Client::builder()
        .nodes(urls)
        .ttl(Duration::from_millis(options.ttl))
        .max_lease(Duration::from_millis(options.max_lease))
        .fault_margin(options.margin)
        .quarantine(!options.no_quarantine)
        .master_timeout(Duration::from_millis(150))
        .round_timeout(Duration::from_millis(200))
        .outage_patience(Duration::from_secs(2))
        .retry(Retry::Backoff {
            min: Duration::from_millis(3),
            max: Duration::from_millis(20),
            cap: Duration::from_millis(120),
        })
        .build()
}

/// Works until its standard input ends.
pub fn run(options: &Options) -> ! {
    let urls: Vec<String> = std::env::var("REDLEASH_NODES").unwrap_or_default().split(',').map(String::from).collect();
    let stop = Arc::new(AtomicBool::new(false));
    let ended = stop.clone();
    thread::spawn(move || {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::SeqCst);
    });
    let result = client(options, &urls).map_err(|error| error.to_string()).and_then(|client| {
        let session = Session::open(options.registers, false).map_err(|error| error.to_string())?;
        let mut worker = Worker { client, session, dice: Dice::new(options.seed), watch: Arc::default(), holds: 0 };
        worker.work(options, &stop);
        worker.client.close(Duration::from_millis(500));
        Ok(())
    });
    if let Err(problem) = result {
        Event::Error(problem.replace('\n', "; ")).print();
        std::process::exit(1);
    }
    std::process::exit(0);
}

/// What the metronome and the loss signal look at.
#[derive(Default)]
struct Watch {
    hold: u64,
    guard: Option<Arc<LockGuard>>,
    until: u64,
    /// Whether the loss was announced.
    announced: bool,
    late: u64,
}

type Shared = Arc<Mutex<Watch>>;

impl Watch {
    fn tick(&mut self) {
        let Some(guard) = &self.guard else { return };
        let (at, left) = (now(), guard.remaining());
        if !left.is_zero() {
            self.see(at + left.as_nanos() as u64);
        } else if !self.announced && at > self.until {
            self.late += 1;
        }
    }

    fn see(&mut self, until: u64) {
        if until > self.until + 1_000_000 {
            self.until = until;
            Event::Until(until).print();
        }
    }

    fn lost(&mut self, hold: u64, lost: &Lost) {
        if self.hold == hold && self.guard.is_some() {
            self.announced = true;
            Event::Lost { at: now(), reason: format!("{:?}", lost.reason) }.print();
        }
    }
}

struct Worker {
    client: Client,
    session: Session,
    dice: Dice,
    watch: Shared,
    holds: u64,
}

impl Worker {
    fn work(&mut self, options: &Options, stop: &AtomicBool) {
        let watch = self.watch.clone();
        thread::spawn(move || {
            loop {
                thread::sleep(TICK);
                watch.lock().tick();
            }
        });
        while !stop.load(Ordering::SeqCst) {
            let name = self.dice.range(0, options.locks as u64 - 1) as usize;
            let lock = self.client.lock(&format!("n{name}")).options(self.lock_options(options));
            let waited = match self.dice.range(0, 7) {
                0 => lock.try_acquire(),
                1 => lock.acquire().map(Some),
                _ => lock.try_acquire_for(Duration::from_millis(self.dice.range(100, 1500))),
            };
            match waited {
                Ok(Some(guard)) => {
                    if let Err(error) = self.hold(name, guard) {
                        Event::Error(format!("registers: {error}")).print();
                        return;
                    }
                }
                Ok(None) => Event::Busy.print(),
                Err(error) => {
                    Event::Error(variant(&error)).print();
                    thread::sleep(Duration::from_millis(20));
                }
            }
            thread::sleep(Duration::from_millis(self.dice.range(0, 20)));
        }
    }

    fn lock_options(&mut self, options: &Options) -> LockOptions {
        let plain = LockOptions::new().fenced(self.dice.one_in(2));
        match self.dice.one_in(8) {
            true => plain.lease(Lease::Fixed { ttl: Duration::from_millis(options.ttl) }),
            false => plain,
        }
    }

    fn hold(&mut self, name: usize, guard: LockGuard) -> io::Result<()> {
        let at = now();
        let until = at + guard.remaining().as_nanos() as u64;
        Event::Granted { name, at, until }.print();
        let guard = Arc::new(guard);
        self.holds += 1;
        let hold = self.holds;
        *self.watch.lock() = Watch { hold, guard: Some(guard.clone()), until, announced: false, late: 0 };
        self.ask_for_the_loss(&guard, hold);
        let token = guard.fencing_token();
        if let Ok(token) = token {
            Event::Token(token).print();
            self.update(name, &guard, token)?;
        }
        // If the lease is over, the worker waits for the announcement too: how late it comes is part of the history.
        while guard.check().is_err() && !self.watch.lock().announced && self.watch.lock().late < 200 {
            thread::sleep(TICK / 2);
        }
        let late = {
            let mut watch = self.watch.lock();
            watch.guard = None;
            watch.late
        };
        if late > 0 {
            Event::Late(late).print();
        }
        Event::Left { at: now() }.print();
        self.let_go(guard);
        Ok(())
    }

    /// Asks for the announcement of a loss: by callback or by channel.
    fn ask_for_the_loss(&mut self, guard: &LockGuard, hold: u64) {
        let watch = self.watch.clone();
        if self.dice.one_in(2) {
            guard.on_lost(move |loss| watch.lock().lost(hold, &loss));
        } else {
            let signal = guard.lost().clone();
            thread::spawn(move || {
                if let Ok(loss) = signal.recv() {
                    watch.lock().lost(hold, &loss);
                }
            });
        }
    }

    fn update(&mut self, name: usize, guard: &LockGuard, token: u64) -> io::Result<()> {
        let mut work = match self.dice.range(0, 39) {
            0 => self.dice.range(500, 3000),
            1..=4 => self.dice.range(30, 150),
            _ => self.dice.range(1, 15),
        } as i64;
        while work > 0 {
            let Some((fenced, free)) = self.session.read(name, token)? else { return Ok(()) };
            match guard.ensure(LEAST_LEFT) {
                Ok(()) => {}
                Err(Error::Lost(_)) => return Ok(()),
                Err(_) => {
                    thread::sleep(TICK);
                    work -= 10;
                    continue;
                }
            }
            let thought = if work > 20 || self.dice.one_in(20) { 40 } else { self.dice.range(0, 3) };
            if thought == 40 {
                Event::Thinking.print();
            }
            thread::sleep(Duration::from_millis(thought));
            // There is no check here on purpose: this is the write that only the resource can refuse.
            let _ = self.session.write_fenced(name, token, fenced)?;
            self.session.write_free(name, token, free)?;
            work -= thought as i64 + 1;
        }
        Ok(())
    }

    fn let_go(&mut self, guard: Arc<LockGuard>) {
        // The metronome's share of the guard was dropped with the watch.
        let Some(guard) = Arc::into_inner(guard) else { return };
        if self.dice.one_in(3) {
            drop(guard);
            return;
        }
        Event::Released(match guard.release() {
            ReleaseOutcome::Released => "Released".into(),
            ReleaseOutcome::AlreadyLost(lost) => format!("AlreadyLost({:?})", lost.reason),
            ReleaseOutcome::Unconfirmed(_) => "Unconfirmed".into(),
            other => format!("{other:?}"),
        })
        .print();
    }
}

/// The name of an error's kind.
fn variant(error: &Error) -> String {
    let shown = format!("{error:?}");
    shown.rsplit('[').next().unwrap_or_default().trim_end_matches(']').into()
}
