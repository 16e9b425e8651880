//! A process that holds locks while some of its threads lock and unlock other locks as fast as they can.
//!
//! It prints `holding` and waits for a line, while a master is stopped. It runs for as long as ordered, prints what it
//! saw and waits for a line. It releases all locks, and prints `released`.

use super::histogram::Histogram;
use super::holder::say_and_wait;
use super::measure::{builder, failed, joined, usage};
use parking_lot::Mutex;
use redleash::{Client, Lease, LockGuard, Options, ReleaseOutcome};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The ttl of the locks that are held.
pub const HELD_TTL: Duration = Duration::from_secs(3);
/// The ttl of the locks that are locked and unlocked. Their releases for the hung master are kept for this long.
pub const CYCLE_TTL: Duration = Duration::from_secs(30);
/// How long the threads run at full rate before a master is stopped.
const WARM_UP: Duration = Duration::from_secs(1);
/// How often the deadlines of all held locks are read.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// How often memory and threads are read.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// A loss that was not announced for this long counts as unannounced.
const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// So many errors are kept in full.
const ERRORS: usize = 5;

/// What to do, as `1000:8:60`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// How many locks are held.
    pub held: usize,
    /// How many threads lock and unlock.
    pub threads: usize,
    /// For how long, in seconds.
    pub seconds: u64,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.held, self.threads, self.seconds)
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        let malformed = || format!("{text:?} is not HELD:THREADS:SECONDS");
        let [held, threads, seconds] = *text.split(':').collect::<Vec<_>>() else { return Err(malformed()) };
        Ok(Order {
            held: held.parse().map_err(|_| malformed())?,
            threads: threads.parse().map_err(|_| malformed())?,
            seconds: seconds.parse().map_err(|_| malformed())?,
        })
    }
}

/// What the process saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Held locks that were lost.
    pub lost: usize,
    /// Those whose announcement came after the deadline.
    pub late: usize,
    /// Those that were never announced.
    pub unannounced: usize,
    /// The reasons that the announcements gave, each with its number.
    pub reasons: BTreeMap<String, usize>,
    /// The least time in milliseconds that any held lock had left.
    pub least_ms: f64,
    /// Cycles per second, with the release awaited and with the guard dropped.
    pub cycles_per_second: [f64; 2],
    /// The time in milliseconds that 99 of 100 acquires did not exceed, to 10 %.
    pub p99_ms: f64,
    /// The longest acquire in milliseconds.
    pub longest_ms: f64,
    /// When the longest acquire ended, in seconds from the start.
    pub longest_at: f64,
    /// Acquires that failed.
    pub errors: usize,
    /// The first of those errors.
    pub messages: Vec<String>,
    /// Releases that no quorum confirmed.
    pub unconfirmed: usize,
    /// The most memory in bytes, in the second quarter and in the last.
    pub memory: [u64; 2],
    /// The most threads, in the second quarter and in the last.
    pub threads: [u64; 2],
    /// Releases that were still kept for the hung master at the end, and those that had been left to their ttl.
    pub undelivered: (usize, u64),
    /// The longest delay in milliseconds between the moment at which a renewal was due and its beginning.
    pub renewal_latest_ms: f64,
    /// The same for the client's chores.
    pub chore_latest_ms: f64,
}

/// What the threads at full rate do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    WarmUp,
    Awaited,
    Dropped,
    Over,
}

const PHASES: [Phase; 4] = [Phase::WarmUp, Phase::Awaited, Phase::Dropped, Phase::Over];

/// The phase, shared by all threads.
struct Stage(AtomicUsize);

impl Stage {
    fn now(&self) -> Phase {
        PHASES[self.0.load(Ordering::Relaxed)]
    }

    fn set(&self, phase: Phase) {
        self.0.store(phase as usize, Ordering::Relaxed);
    }
}

/// Ends the phases when dropped, also after an error, since the scope waits for the threads.
struct Ends<'a>(&'a Stage);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.set(Phase::Over);
    }
}

/// What one thread at full rate saw after the warm-up.
struct Share {
    cycles: [u64; 2],
    times: Histogram,
    longest: (Duration, Instant),
    errors: usize,
    messages: Vec<String>,
    unconfirmed: usize,
}

fn cycle(client: &Client, thread: usize, stage: &Stage) -> Share {
    let lock = client.lock(&format!("cycle/{thread}"));
    let (times, longest) = (Histogram::new(), (Duration::ZERO, Instant::now()));
    let mut share = Share { cycles: [0; 2], times, longest, errors: 0, messages: Vec::new(), unconfirmed: 0 };
    loop {
        let phase = stage.now();
        if phase == Phase::Over {
            return share;
        }
        let start = Instant::now();
        let result = lock.acquire();
        let end = Instant::now();
        let counts = phase != Phase::WarmUp;
        if counts {
            share.times.add(end - start);
            if end - start > share.longest.0 {
                share.longest = (end - start, end);
            }
        }
        match result {
            Ok(guard) if phase == Phase::Awaited => {
                share.cycles[0] += 1;
                share.unconfirmed += usize::from(guard.release() != ReleaseOutcome::Released);
            }
            Ok(guard) => {
                drop(guard);
                share.cycles[1] += u64::from(counts);
            }
            Err(error) if counts => {
                share.errors += 1;
                if share.messages.len() < ERRORS {
                    share.messages.push(error.to_string());
                }
            }
            Err(_) => {}
        }
    }
}

/// Announcements of losses: which lock, when, why.
type Losses = Arc<Mutex<Vec<(usize, Instant, String)>>>;

/// What is read from the held locks and from the process.
struct Watch<'a> {
    guards: &'a [LockGuard],
    parent: Option<Pid>,
    /// When each lease ends, as last read.
    deadlines: Vec<Instant>,
    least: Duration,
    /// Time, memory, threads.
    samples: Vec<(Duration, u64, u64)>,
}

impl Watch<'_> {
    /// Reads for `span`; `start` is the start of the run.
    fn look(&mut self, start: Instant, until: Instant) -> io::Result<()> {
        while Instant::now() < until {
            // If the parent was killed, nobody reads what this process prints.
            if rustix::process::getppid() != self.parent {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            for (guard, deadline) in self.guards.iter().zip(&mut self.deadlines) {
                let left = guard.remaining();
                self.least = self.least.min(left);
                if !left.is_zero() {
                    // The clock is read after the guard, so the deadline is not later than this.
                    *deadline = Instant::now() + left;
                }
            }
            if self.samples.last().is_none_or(|(at, ..)| start.elapsed() >= *at + SAMPLE_INTERVAL) {
                let used = usage(std::process::id())?;
                self.samples.push((start.elapsed(), used.rss, used.threads));
            }
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// The most of what `pick` gives, in the second quarter of `span` and in the last.
    fn most(&self, span: Duration, pick: fn(&(Duration, u64, u64)) -> u64) -> [u64; 2] {
        [1, 3].map(|quarter| {
            let within = |at: Duration| at >= span / 4 * quarter && at < span / 4 * (quarter + 1);
            self.samples.iter().filter(|(at, ..)| within(*at)).map(pick).max().unwrap_or(0)
        })
    }
}

fn hold(client: &Client, order: Order) -> io::Result<Vec<LockGuard>> {
    let options = Options::new().lease(Lease::Watchdog { ttl: HELD_TTL });
    let part = |thread: usize| {
        let names = (thread..order.held).step_by(order.threads.max(1));
        names
            .map(|i| client.lock(&format!("held/{i}")).options(options.clone()).acquire())
            .collect::<Result<Vec<_>, _>>()
    };
    let part = &part;
    let parts: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..order.threads.max(1)).map(|i| scope.spawn(move || part(i))).collect();
        threads.into_iter().map(joined).collect()
    });
    let mut guards = Vec::with_capacity(order.held);
    for part in parts {
        guards.extend(part.map_err(failed)?);
    }
    Ok(guards)
}

/// Does what is ordered, one step for each line on stdin.
///
/// # Errors
///
/// If a lock that is to be held is not granted, or the other process has ended.
pub fn serve(urls: &str, order: Order) -> io::Result<()> {
    let client = builder(urls.split(',').map(str::to_string)).ttl(CYCLE_TTL).build().map_err(failed)?;
    let guards = hold(&client, order)?;
    let losses: Losses = Arc::default();
    for (i, guard) in guards.iter().enumerate() {
        let losses = losses.clone();
        guard.on_lost(move |lost| {
            let at = Instant::now();
            losses.lock().push((i, at, format!("{:?}", lost.reason)));
        });
    }
    let seen = run(&client, &guards, &losses, order)?;
    say_and_wait(&serde_json::to_string(&seen)?)?;
    drop(guards);
    client.close(Duration::from_secs(10));
    println!("released");
    Ok(())
}

fn run(client: &Client, guards: &[LockGuard], losses: &Losses, order: Order) -> io::Result<Seen> {
    let stage = Stage(AtomicUsize::new(0));
    let span = Duration::from_secs(order.seconds);
    let deadlines = guards.iter().map(|guard| Instant::now() + guard.remaining()).collect();
    let parent = rustix::process::getppid();
    let mut watch = Watch { guards, parent, deadlines, least: HELD_TTL, samples: Vec::new() };
    let (start, shares) = thread::scope(|scope| -> io::Result<_> {
        let stage = &stage;
        let ends = Ends(stage);
        let threads: Vec<_> = (0..order.threads).map(|i| scope.spawn(move || cycle(client, i, stage))).collect();
        thread::sleep(WARM_UP);
        say_and_wait("holding")?;
        let start = Instant::now();
        stage.set(Phase::Awaited);
        watch.look(start, start + span / 2)?;
        stage.set(Phase::Dropped);
        watch.look(start, start + span)?;
        drop(ends);
        Ok((start, threads.into_iter().map(joined).collect::<Vec<_>>()))
    })?;
    let stats = client.stats();
    let lost = |guard: &LockGuard| guard.check().is_err();
    let late = Instant::now() + ANNOUNCEMENT_TIMEOUT;
    let announced = || losses.lock().clone();
    while announced().len() < guards.iter().filter(|guard| lost(guard)).count() && Instant::now() < late {
        thread::sleep(LOOK_INTERVAL);
    }
    let announced = announced();
    let mut reasons = BTreeMap::new();
    announced.iter().for_each(|(_, _, reason)| *reasons.entry(reason.clone()).or_default() += 1);
    let mut times = Histogram::new();
    shares.iter().for_each(|share| times.join(&share.times));
    let longest = shares.iter().map(|share| share.longest).max_by_key(|(time, _)| *time);
    let (longest, at) = longest.unwrap_or((Duration::ZERO, start));
    let rate = |half: usize| {
        let cycles: u64 = shares.iter().map(|share| share.cycles[half]).sum();
        cycles as f64 / (span / 2).as_secs_f64()
    };
    let total = guards.iter().filter(|guard| lost(guard)).count().max(announced.len());
    Ok(Seen {
        lost: total,
        late: announced.iter().filter(|(i, at, _)| *at > watch.deadlines[*i]).count(),
        unannounced: total - announced.len(),
        reasons,
        least_ms: if total > 0 { 0.0 } else { watch.least.as_secs_f64() * 1e3 },
        cycles_per_second: [0, 1].map(rate),
        p99_ms: times.percentile(0.99),
        longest_ms: longest.as_secs_f64() * 1e3,
        longest_at: at.saturating_duration_since(start).as_secs_f64(),
        errors: shares.iter().map(|share| share.errors).sum(),
        messages: shares.iter().flat_map(|share| share.messages.clone()).take(ERRORS).collect(),
        unconfirmed: shares.iter().map(|share| share.unconfirmed).sum(),
        memory: watch.most(span, |(_, memory, _)| *memory),
        threads: watch.most(span, |(_, _, threads)| *threads),
        undelivered: (stats.undelivered.pending, stats.undelivered.left_to_ttl),
        renewal_latest_ms: stats.renewal_latest.as_secs_f64() * 1e3,
        chore_latest_ms: stats.chore_latest.as_secs_f64() * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_were_written() {
        let order = Order { held: 1_000, threads: 8, seconds: 60 };
        assert_eq!(order.to_string(), "1000:8:60");
        assert_eq!(order.to_string().parse(), Ok(order));
        for text in ["", "1:2", "1:2:3:4", "x:2:3"] {
            assert!(text.parse::<Order>().is_err(), "{text}");
        }
    }
}
