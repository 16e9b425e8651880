//! `redleash bench`: what locks cost on these masters.

mod bars;
mod found;
mod spread;
mod work;

use crate::args::{BenchArgs, MasterArgs};
use crate::exit::{self, Failure, SYSTEM, USAGE};
use crate::masters;
use crate::system::clock::Moment;
use crate::system::signals;
use crate::system::terminal::Terminal;
use crate::text::duration::exact;
use crate::text::progress::ProgressLine;
use crate::text::say;
use bars::Ink;
use found::{Found, Throughput};
use redleash::crossbeam_channel::Receiver;
use redleash::{Client, Error, Lock};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;
use std::time::Duration;
use work::Stop;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3_600);
/// How often the progress line is written, and how soon a signal or the end of a part is seen.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How long a thread holds a lock that another thread of its client waits for.
const SHORT_HOLD: Duration = Duration::from_micros(100);
/// How long a client may take to deliver its releases and to end its threads.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The parts of the measurement, by their shares of the time.
const ROUND_TRIPS: u32 = 1;
const RELEASED: u32 = 2;
const DROPPED: u32 = 1;
const THROUGHPUT: u32 = 4;
const HAND_OVER: u32 = 1;
const SHARES: u32 = ROUND_TRIPS + RELEASED + DROPPED + THROUGHPUT + 2 * HAND_OVER;

pub(crate) fn bench(masters: &MasterArgs, args: &BenchArgs) -> Result<u8, Failure> {
    if args.seconds < SHORTEST || args.seconds > LONGEST {
        let (given, least, most) = (exact(args.seconds), exact(SHORTEST), exact(LONGEST));
        return Err(Failure::new(USAGE, format!("--seconds {given} is out of range: give {least} to {most}")));
    }
    let system = |e| Failure::new(SYSTEM, format!("cannot catch signals: {e}; nothing was measured"));
    let signals = signals::catch().map_err(system)?;
    let terminal = Terminal::open();
    let client = masters::client(masters)?;
    // The operating system seeds it.
    let prefix = format!("redleash-bench/{:016x}", RandomState::new().build_hasher().finish());
    let votes = ready(&client, &prefix)?;
    announce(masters, args, &prefix);
    let mut course = Course {
        masters,
        client: &client,
        prefix: &prefix,
        signals: &signals,
        line: ProgressLine::new(terminal.as_ref()),
        begun: Moment::now(),
        total: args.seconds,
        signal: None,
        found: Found { votes, ..Found::default() },
    };
    let ended = course.run(&args.threads);
    let left = course.clear();
    let Course { signal, mut found, .. } = course;
    found.ended_by = signal.map(signals::name);
    if args.json {
        say::json(&found::json(&found))
    } else {
        say::result(&found::text(&found, Ink::of_stdout()))
    };
    ended.map_err(|e| Failure::of(&format!("{prefix}/..."), &e))?;
    if left {
        say::sentence("a master did not confirm the last release; its key ends with its ttl");
    }
    if let (Some(signal), Some(name)) = (signal, &found.ended_by) {
        say::sentence(&format!("{name} ended the measurement; this is what was measured so far"));
        return Ok(exit::by_signal(signal));
    }
    Ok(0)
}

/// Acquires one lock, so that masters that grant none are reported before anything is measured. Returns the quorum.
fn ready(client: &Client, prefix: &str) -> Result<usize, Failure> {
    let name = format!("{prefix}/first");
    let failed = |e: Error| Failure::of(&name, &e);
    if let Some(guard) = client.lock(&name).try_acquire().map_err(failed)? {
        let _ = guard.release();
    }
    Ok(client.status(&name).map_err(failed)?.quorum)
}

fn announce(masters: &MasterArgs, args: &BenchArgs, prefix: &str) {
    let most = args.threads.iter().max().copied().unwrap_or(1);
    say::sentence(&format!(
        "bench: for about {} up to {most} threads acquire and release locks on {} masters as fast as they can, under \
         names of their own ({prefix}/...); other clients of these masters are slower meanwhile; Ctrl-C ends it",
        exact(args.seconds),
        masters::urls(masters).len(),
    ));
}

struct Course<'a> {
    masters: &'a MasterArgs,
    client: &'a Client,
    prefix: &'a str,
    signals: &'a Receiver<i32>,
    line: ProgressLine,
    begun: Moment,
    total: Duration,
    signal: Option<i32>,
    found: Found,
}

impl Course<'_> {
    fn lock(&self, name: &str) -> Lock {
        self.client.lock(&format!("{}/{name}", self.prefix))
    }

    fn run(&mut self, threads: &[u16]) -> Result<(), Error> {
        let client = self.client;
        let share = |n: u32| self.total * n / SHARES;
        let (trips, released, dropped) = (share(ROUND_TRIPS), share(RELEASED), share(DROPPED));
        let (throughput, hand_over) = (share(THROUGHPUT) / threads.len().max(1) as u32, share(HAND_OVER));
        let free = self.lock("free");
        let mut found = std::mem::take(&mut self.found);
        let mut measure = || {
            let name = free.name();
            self.part("round trips", trips, |stop| work::round_trips(client, name, stop, &mut found.masters))?;
            self.part("a free lock", released, |stop| work::released(&free, stop, &mut found.free))?;
            self.part("dropping the guard", dropped, |stop| work::dropped(&free, stop, &mut found.free.drop))?;
            for n in threads {
                let locks: Vec<Lock> = (0..*n).map(|i| self.lock(&i.to_string())).collect();
                let (mut locks_taken, start) = (0, Moment::now());
                let title = format!("throughput with {n} threads");
                let ended = self.part(&title, throughput, |stop| work::throughput(&locks, stop, &mut locks_taken));
                let took = Moment::now().since(start);
                if locks_taken > 0 {
                    found.throughput.push(Throughput { threads: *n, locks: locks_taken, took });
                }
                ended?;
            }
            let between_threads = [self.lock("hand-over"), self.lock("hand-over")];
            self.part("hand-over between threads", hand_over, |stop| {
                work::hand_over(&between_threads, SHORT_HOLD, stop, &mut found.threads)
            })?;
            if self.signal.is_some() {
                return Ok(());
            }
            let other = masters::builder(self.masters).build()?;
            let between_clients = [self.lock("hand-over"), other.lock(between_threads[0].name())];
            // Long enough for the other client to be refused and to enter the wait list.
            let round_trip = found.free.acquire.percentile(0.5);
            let hold = (round_trip * 8).clamp(Duration::from_millis(2), Duration::from_millis(100));
            let ended = self.part("hand-over between clients", hand_over, |stop| {
                work::hand_over(&between_clients, hold, stop, &mut found.clients)
            });
            other.close(CLOSE_TIMEOUT);
            ended
        };
        let ended = measure();
        found.took = Moment::now().since(self.begun);
        self.found = found;
        ended
    }

    /// Runs one part for its share of the time and shows the progress. A signal ends it, and no part runs after a
    /// signal.
    fn part(
        &mut self,
        title: &str,
        span: Duration,
        work: impl FnOnce(&Stop) -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        if self.signal.is_some() {
            return Ok(());
        }
        let stop = Stop::default();
        let end = Moment::now().plus(span);
        thread::scope(|scope| {
            let worker = scope.spawn(|| work(&stop));
            while !worker.is_finished() && self.signal.is_none() {
                let left = end.since(Moment::now());
                if left.is_zero() {
                    break;
                }
                let percent = Moment::now().since(self.begun).as_secs_f64() * 100.0 / self.total.as_secs_f64();
                self.line.show(&format!("redleash: bench: {:.0} %: {title}", percent.min(99.0)));
                let heard = self.signals.recv_timeout(left.min(LOOK_INTERVAL)).ok();
                self.signal = heard.filter(|signal| signals::ends(*signal));
            }
            stop.set();
            work::joined(worker)
        })
    }

    /// Leaves nothing behind: removes the wait-list entry of the last waiter, and waits until the masters have received
    /// every release. True if a master has not.
    fn clear(&mut self) -> bool {
        let lock = self.lock("hand-over");
        if let Ok(Some(guard)) = lock.try_acquire_for(CLOSE_TIMEOUT) {
            let _ = guard.release();
        }
        // On every connection the releases were sent before this question.
        let asked = self.client.status(lock.name());
        let undelivered = self.client.undelivered();
        self.client.close(CLOSE_TIMEOUT);
        asked.is_err() || undelivered.pending > 0 || undelivered.left_to_ttl > 0
    }
}
