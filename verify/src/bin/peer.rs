//! redleash among its peers: the command line, the scenarios and the one line of JSON of bench/peers/README.md.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "measures with its own clock and threads, as every peer does")]

use redleash::{Client, Lease, Lock, LockGuard, Options, ReleaseOutcome, WatchdogMode};
use std::error::Error;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TTL: Duration = Duration::from_secs(8);
const HOLD_TTL: Duration = Duration::from_secs(6);
/// The ttl of the locks that are held beside threads at full rate.
const BESIDE_TTL: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(500);
/// How long a call that does not return is waited for after the end.
const GRACE: Duration = Duration::from_secs(45);

#[derive(Clone)]
struct Job {
    scenario: String,
    urls: Vec<String>,
    threads: usize,
    locks: usize,
    span: Duration,
    awaited: bool,
    fenced: bool,
    /// Whether the threads of this process may pass the lock on.
    hand_over: bool,
    shared: bool,
}

/// What one worker saw.
#[derive(Default)]
struct Share {
    latencies: Vec<Duration>,
    errors: usize,
    unconfirmed: usize,
}

#[derive(Default)]
struct Run {
    shares: Vec<Share>,
    took: Duration,
    stuck: usize,
    lost: Option<usize>,
}

fn main() -> Outcome<()> {
    let job = Job::from_args(std::env::args().skip(1))?;
    let client = job.client()?;
    // Fresh masters give no votes before they are settled; one master alone is never in quarantine.
    if let Err(error) = client.init() {
        eprintln!("init: {error}");
    }
    let run = match job.scenario.as_str() {
        "cycle" | "contended" | "hung" => {
            phase(&client, &job, WARM_UP);
            if job.scenario == "hung" {
                ready()?;
            }
            phase(&client, &job, job.span)
        }
        "handoff" => handoff(&client, &job)?,
        "hold" => hold(&client, &job)?,
        "hold-cycle" => hold_cycle(&client, &job)?,
        other => return Err(format!("unknown scenario {other}").into()),
    };
    client.close(Duration::from_secs(2));
    println!("{}", report(&job, run));
    // A stuck worker must not keep the process.
    std::process::exit(0)
}

impl Job {
    fn from_args(mut args: impl Iterator<Item = String>) -> Outcome<Job> {
        let mut job = Job {
            scenario: "cycle".into(),
            urls: vec!["redis://127.0.0.1:6379".into()],
            threads: 1,
            locks: 100,
            span: Duration::from_secs(3),
            awaited: true,
            fenced: false,
            hand_over: true,
            shared: false,
        };
        while let Some(name) = args.next() {
            if name == "--fenced" {
                job.fenced = true;
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--ports" => job.urls = value.split(',').map(|port| format!("redis://127.0.0.1:{port}")).collect(),
                "--scenario" => job.scenario = value,
                "--threads" => job.threads = value.parse::<usize>()?.max(1),
                "--seconds" => job.span = Duration::try_from_secs_f64(value.parse()?)?,
                "--locks" => job.locks = value.parse()?,
                "--hand-over" if value == "on" || value == "off" => job.hand_over = value == "on",
                "--watchdog" if value == "shared" || value == "per-lock" => job.shared = value == "shared",
                "--release" if value == "await" || value == "drop" => job.awaited = value == "await",
                _ => return Err(format!("unknown argument {name} {value}").into()),
            }
        }
        Ok(job)
    }

    fn client(&self) -> Outcome<Client> {
        let ttl = if self.scenario == "hold" { HOLD_TTL } else { TTL };
        let mut builder = Client::builder().nodes(self.urls.iter().cloned()).ttl(ttl);
        if !self.hand_over {
            builder = builder.hand_over(Duration::ZERO);
        }
        if self.shared {
            builder = builder.watchdog(WatchdogMode::Shared);
        }
        Ok(builder.build()?)
    }

    fn lock(&self, client: &Client, name: &str) -> Lock {
        client.lock(name).options(Options::new().fenced(self.fenced))
    }

    /// `true` unless the lock was already lost.
    fn release(&self, guard: LockGuard, share: &mut Share) -> bool {
        if !self.awaited {
            drop(guard);
            return true;
        }
        match guard.release() {
            ReleaseOutcome::Released => true,
            ReleaseOutcome::AlreadyLost(_) => false,
            _ => {
                share.unconfirmed += 1;
                true
            }
        }
    }

    fn cycle(&self, lock: &Lock, share: &mut Share) {
        let start = Instant::now();
        let held = match lock.acquire() {
            Ok(guard) => self.release(guard, share),
            Err(error) => {
                complain(&error);
                false
            }
        };
        if held {
            share.latencies.push(start.elapsed());
        } else {
            share.errors += 1;
        }
    }
}

fn phase(client: &Client, job: &Job, span: Duration) -> Run {
    let start = Instant::now();
    let (send, shares) = mpsc::channel();
    for i in 0..job.threads {
        let (job, send) = (job.clone(), send.clone());
        let one = job.scenario == "contended";
        let name = if one { "bench:contended".into() } else { format!("bench:cycle:{i}") };
        let lock = job.lock(client, &name);
        thread::spawn(move || {
            let mut share = Share::default();
            while start.elapsed() < span {
                job.cycle(&lock, &mut share);
            }
            let _ = send.send(share);
        });
    }
    drop(send);
    let mut run = Run::default();
    let end = start + span + GRACE;
    while let Ok(share) = shares.recv_timeout(end.saturating_duration_since(Instant::now())) {
        run.shares.push(share);
    }
    run.stuck = job.threads - run.shares.len();
    run.took = start.elapsed();
    run
}

/// A holds and B, another client, waits in its call; the latency is from A's release to B's lock.
fn handoff(client: &Client, job: &Job) -> Outcome<Run> {
    let other = job.client()?;
    let lock = job.lock(client, "bench:handoff");
    let start = Instant::now();
    let (mut share, mut stuck, mut seed) = (Share::default(), 0, 1_u64);
    while start.elapsed() < job.span && stuck == 0 {
        let guard = lock.acquire()?;
        let (begin, begun) = mpsc::channel();
        let (send, taken) = mpsc::channel();
        let (job, next) = (job.clone(), job.lock(&other, "bench:handoff"));
        let waiter = job.clone();
        thread::spawn(move || {
            let mut share = Share::default();
            let _ = begin.send(());
            let guard = loop {
                match next.acquire() {
                    Ok(guard) => break guard,
                    Err(_) => share.errors += 1,
                }
            };
            let at = Instant::now();
            waiter.release(guard, &mut share);
            let _ = send.send((at, share.errors));
        });
        begun.recv()?;
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        thread::sleep(Duration::from_millis(50 + (seed >> 33) % 100));
        let released = Instant::now();
        job.release(guard, &mut share);
        match taken.recv_timeout(GRACE) {
            Ok((at, errors)) => {
                share.latencies.push(at.saturating_duration_since(released));
                share.errors += errors;
            }
            Err(RecvTimeoutError::Timeout) => stuck += 1,
            Err(RecvTimeoutError::Disconnected) => return Err("the waiter panicked".into()),
        }
    }
    let took = start.elapsed();
    other.close(Duration::from_secs(2));
    Ok(Run { shares: vec![share], took, stuck, lost: None })
}

fn hold(client: &Client, job: &Job) -> Outcome<Run> {
    let start = Instant::now();
    let (mut shares, guards) = grab(client, job, HOLD_TTL);
    let took = start.elapsed();
    ready()?;
    thread::sleep(job.span);
    let mut lost = 0;
    for guard in guards {
        lost += usize::from(guard.check().is_err());
        job.release(guard, &mut shares[0]);
    }
    Ok(Run { shares, took, stuck: 0, lost: Some(lost) })
}

/// Threads at full rate beside locks that are held; those are what is to be lost, the rates are of the others.
fn hold_cycle(client: &Client, job: &Job) -> Outcome<Run> {
    let (shares, guards) = grab(client, job, BESIDE_TTL);
    let lacking: usize = shares.iter().map(|share| share.errors).sum();
    phase(client, job, WARM_UP);
    ready()?;
    let run = phase(client, job, job.span);
    let lost = guards.iter().filter(|guard| guard.check().is_err()).count();
    Ok(Run { lost: Some(lost + lacking), ..run })
}

/// Acquires all that is to be held, side by side.
fn grab(client: &Client, job: &Job, ttl: Duration) -> (Vec<Share>, Vec<LockGuard>) {
    let (send, taken) = mpsc::channel();
    for first in 0..job.threads {
        let (job, client, send) = (job.clone(), client.clone(), send.clone());
        thread::spawn(move || {
            let (mut share, mut guards) = (Share::default(), Vec::new());
            for i in (first..job.locks).step_by(job.threads) {
                let lease = Options::new().lease(Lease::Watchdog { ttl }).fenced(job.fenced);
                let lock = client.lock(&format!("bench:hold:{i}")).options(lease);
                let begun = Instant::now();
                match lock.acquire() {
                    Ok(guard) => {
                        share.latencies.push(begun.elapsed());
                        guards.push(guard);
                    }
                    Err(error) => {
                        complain(&error);
                        share.errors += 1;
                    }
                }
            }
            let _ = send.send((share, guards));
        });
    }
    drop(send);
    let (shares, guards): (Vec<Share>, Vec<_>) = taken.iter().unzip();
    (shares, guards.into_iter().flatten().collect())
}

fn ready() -> Outcome<()> {
    println!("READY");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

/// The first failures only: thousands of them say no more.
fn complain(error: &redleash::Error) {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static SAID: AtomicUsize = AtomicUsize::new(0);
    if SAID.fetch_add(1, Ordering::Relaxed) < 5 {
        eprintln!("{error}");
    }
}

fn report(job: &Job, run: Run) -> String {
    let sum = |field: fn(&Share) -> usize| run.shares.iter().map(field).sum::<usize>();
    let (errors, unconfirmed) = (sum(|s| s.errors), sum(|s| s.unconfirmed));
    let counts: Vec<usize> = run.shares.iter().map(|share| share.latencies.len()).collect();
    let mut latencies: Vec<Duration> = run.shares.iter().flat_map(|share| share.latencies.iter().copied()).collect();
    latencies.sort_unstable();
    let at = |rank: f64| {
        let last = latencies.len().saturating_sub(1);
        let index = ((latencies.len() as f64 * rank) as usize).min(last);
        latencies.get(index).map_or(0.0, |latency| latency.as_nanos() as f64 / 1e3)
    };
    let (ops, seconds) = (latencies.len(), run.took.as_secs_f64());
    let mut notes = format!(
        "release {}, {}, {}, {}; returns at a majority",
        if job.awaited { "awaited" } else { "written by drop" },
        if job.fenced { "fenced" } else { "not fenced" },
        if job.hand_over { "hand-over on" } else { "hand-over off" },
        if job.shared { "one watchdog" } else { "a watchdog per lock" },
    );
    let mut extra = String::new();
    if let Some(lost) = run.lost {
        extra = format!(r#","locks":{},"lost":{lost}"#, job.locks);
    }
    if job.scenario == "hold" {
        extra += &format!(r#","acquire_s":{seconds:.3}"#);
    } else {
        let (most, least) = (counts.iter().max().unwrap_or(&0), counts.iter().min().unwrap_or(&0));
        notes += &format!("; max/min per thread={most}/{least}");
    }
    if run.stuck > 0 {
        notes += &format!("; stuck={}", run.stuck);
    }
    if unconfirmed > 0 {
        notes += &format!("; unconfirmed={unconfirmed}");
    }
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(at);
    let times = format!(r#""p50_us":{p50:.1},"p99_us":{p99:.1},"p999_us":{p999:.1},"max_us":{max:.1}"#);
    let (scenario, masters, threads, rate) = (&job.scenario, job.urls.len(), job.threads, ops as f64 / seconds);
    let head = format!(r#""peer":"redleash","scenario":"{scenario}","nodes":{masters},"threads":{threads}"#);
    let count = format!(r#""ops":{ops},"ops_per_s":{rate:.1}"#);
    format!(r#"{{{head},{count},{times},"errors":{errors}{extra},"notes":"{notes}"}}"#)
}
