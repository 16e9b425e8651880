//! A process that holds very many locks. Each row of the table has a process of its own, whose memory is that of its
//! locks.
//!
//! It prints `holding` and waits for a line, watches the renewals, prints what it saw and waits for a line, releases
//! all locks, and prints `released`.

use super::measure::{Usage, builder, failed, joined, usage};
use redleash::{LockGuard, WatchdogMode};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Write};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that acquire.
const THREADS: usize = 8;

/// What to hold, as `shared:20000:9000:10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Whether one watchdog thread renews all.
    pub shared: bool,
    /// How many locks.
    pub count: usize,
    /// The ttl in milliseconds.
    pub ttl_ms: u64,
    /// How many renewals of each lock to wait for.
    pub renewals: u64,
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mode = if self.shared { "shared" } else { "per-lock" };
        write!(f, "{mode}:{}:{}:{}", self.count, self.ttl_ms, self.renewals)
    }
}

impl FromStr for Order {
    type Err = String;

    fn from_str(text: &str) -> Result<Order, String> {
        let malformed = || format!("{text:?} is not MODE:COUNT:TTL_MS:RENEWALS");
        let [mode @ ("shared" | "per-lock"), count, ttl, renewals] = *text.split(':').collect::<Vec<_>>() else {
            return Err(malformed());
        };
        Ok(Order {
            shared: mode == "shared",
            count: count.parse().map_err(|_| malformed())?,
            ttl_ms: ttl.parse().map_err(|_| malformed())?,
            renewals: renewals.parse().map_err(|_| malformed())?,
        })
    }
}

/// What a holder saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Locks acquired per second.
    pub acquired_per_second: f64,
    /// Locks lost.
    pub lost: usize,
    /// Renewals of the lock that was renewed least.
    pub least: u64,
    /// Renewals of all.
    pub renewals: u64,
    /// CPU of the renewals in microseconds.
    pub cpu_us: f64,
    /// Threads at the end.
    pub threads: u64,
    /// Memory in bytes that the locks brought.
    pub memory: u64,
}

/// Does what is ordered, one step for each line on stdin.
///
/// # Errors
///
/// If a lock is not granted, or the other process has ended.
pub fn serve(urls: &str, order: Order) -> io::Result<()> {
    let mode = if order.shared { WatchdogMode::Shared } else { WatchdogMode::PerLock };
    let ttl = Duration::from_millis(order.ttl_ms);
    let client = builder(urls.split(',').map(str::to_string)).ttl(ttl).watchdog(mode).build().map_err(failed)?;
    // What the first lock needs once is not part of the price of the others.
    drop(client.lock("first").acquire().map_err(failed)?);
    let (before, start) = (usage(std::process::id())?, Instant::now());
    let hold = |thread: usize| {
        let names = (thread..order.count).step_by(THREADS);
        names.map(|i| client.lock(&format!("held/{i}")).acquire()).collect::<Result<Vec<_>, _>>()
    };
    let hold = &hold;
    let held: Vec<Result<Vec<LockGuard>, _>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || hold(i))).collect();
        threads.into_iter().map(joined).collect()
    });
    let mut guards = Vec::with_capacity(order.count);
    for part in held {
        guards.extend(part.map_err(failed)?);
    }
    let acquired_per_second = order.count as f64 / start.elapsed().as_secs_f64();
    say_and_wait("holding")?;
    let seen = watch(&guards, order, before)?;
    let seen = Seen { acquired_per_second, ..seen };
    say_and_wait(&serde_json::to_string(&seen)?)?;
    drop(guards);
    client.status("first").map_err(failed)?;
    let start = Instant::now();
    while client.undelivered().pending > 0 && start.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(20));
    }
    client.close(Duration::from_secs(10));
    println!("released");
    Ok(())
}

/// Prints a line and waits for one.
pub(super) fn say_and_wait(line: &str) -> io::Result<()> {
    println!("{line}");
    io::stdout().flush()?;
    match io::stdin().lock().read_line(&mut String::new())? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Watches until each lock has been renewed as often as ordered, or twice the time for that is over.
fn watch(guards: &[LockGuard], order: Order, before: Usage) -> io::Result<Seen> {
    let ttl = Duration::from_millis(order.ttl_ms);
    let began = usage(std::process::id())?;
    let limit = ttl / 3 * (order.renewals as u32) * 2 + ttl;
    let start = Instant::now();
    // The time that is left grows only by a renewal. There are several looks per renewal, so that none is overlooked.
    let mut locks: Vec<(Duration, u64)> = guards.iter().map(|guard| (guard.remaining(), 0)).collect();
    loop {
        thread::sleep(ttl / 10);
        let mut lost = 0;
        for (guard, (left, renewals)) in guards.iter().zip(&mut locks) {
            let now = guard.remaining();
            *renewals += u64::from(now > *left);
            *left = now;
            lost += usize::from(guard.check().is_err());
        }
        let least = locks.iter().map(|(_, renewals)| *renewals).min().unwrap_or(0);
        if least >= order.renewals || lost > 0 || start.elapsed() > limit {
            let end = usage(std::process::id())?;
            return Ok(Seen {
                acquired_per_second: 0.0,
                lost,
                least,
                renewals: locks.iter().map(|(_, renewals)| *renewals).sum(),
                cpu_us: end.cpu.saturating_sub(began.cpu).as_secs_f64() * 1e6,
                threads: end.threads,
                memory: end.rss.saturating_sub(before.rss),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn orders_are_read_as_they_were_written() {
        let order = Order { shared: true, count: 20_000, ttl_ms: 9_000, renewals: 10 };
        assert_eq!(order.to_string(), "shared:20000:9000:10");
        assert_eq!(order.to_string().parse(), Ok(order));
        for text in ["", "shared:1:2", "both:1:2:3", "shared:x:2:3"] {
            assert!(text.parse::<Order>().is_err(), "{text}");
        }
    }
}
