//! What every sweep needs: settled masters, a client, load, and what processes use.

use redleash::{Client, ClientBuilder, Error, Lock};
use redleash_testkit::{Masters, Server};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Clock ticks of /proc/PID/stat per second: 100 on all common Linux machines.
const TICKS: u64 = 100;
const KIB: u64 = 1024;

/// An error of the library as one of the system.
pub fn failed(error: Error) -> io::Error {
    io::Error::other(error.to_string())
}

/// The builder of a client that waits long enough for its masters, however busy the machine is.
pub fn builder(urls: impl IntoIterator<Item = String>) -> ClientBuilder {
    Client::builder().nodes(urls).connect_timeout(Duration::from_secs(5))
}

/// Empties the masters and settles them.
///
/// # Errors
///
/// If a master does not answer.
pub fn settle(masters: &[Server]) -> io::Result<()> {
    for master in masters {
        master.command(&["FLUSHALL"])?;
    }
    let client = builder(masters.iter().map(Server::url)).build().map_err(failed)?;
    client.init().map_err(failed)?;
    client.close(Duration::from_secs(5));
    Ok(())
}

/// New masters, settled.
///
/// # Errors
///
/// If they cannot be started.
pub fn masters(n: usize) -> io::Result<Masters> {
    let deployment = Masters::start(n)?;
    settle(&deployment)?;
    Ok(deployment)
}

/// The result of some load.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Locks acquired and released per second.
    pub per_second: f64,
    /// How long acquiring took, in microseconds, sorted.
    pub acquire_us: Vec<f64>,
    /// This process' CPU per lock in microseconds.
    pub cpu_us: f64,
}

impl Load {
    /// The time in microseconds that this share of all did not exceed.
    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.acquire_us, share)
    }
}

/// The value that this share of all, sorted, did not exceed; 0 if there are none.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

/// Starts threads that acquire and drop what `lock(thread, i)` returns, for as long as `span`.
///
/// # Errors
///
/// The first of any thread.
pub fn load(threads: usize, span: Duration, lock: impl Fn(usize, usize) -> Lock + Sync) -> io::Result<Load> {
    let over = AtomicBool::new(false);
    let lock = &lock;
    let work = |thread: usize| -> Result<Vec<f64>, Error> {
        let mut times = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let lock = lock(thread, times.len());
            let start = Instant::now();
            let guard = lock.acquire()?;
            times.push(start.elapsed().as_nanos() as f64 / 1e3);
            drop(guard);
        }
        Ok(times)
    };
    let work = &work;
    let (start, before) = (Instant::now(), usage(std::process::id())?);
    let found: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|i| scope.spawn(move || work(i))).collect();
        thread::sleep(span);
        over.store(true, Ordering::Relaxed);
        workers.into_iter().map(joined).collect()
    });
    let (took, after) = (start.elapsed(), usage(std::process::id())?);
    let mut acquire_us = Vec::new();
    for times in found {
        acquire_us.extend(times.map_err(failed)?);
    }
    acquire_us.sort_by(f64::total_cmp);
    let count = acquire_us.len() as f64;
    let cpu = (after.cpu.saturating_sub(before.cpu)).as_secs_f64() * 1e6;
    Ok(Load { per_second: count / took.as_secs_f64(), cpu_us: cpu / count.max(1.0), acquire_us })
}

/// The result of a thread; its panic goes on here.
pub fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a process uses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// CPU since it began.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub rss: u64,
    /// Threads.
    pub threads: u64,
}

/// What a process uses, from /proc.
///
/// # Errors
///
/// If it has ended, or there is no /proc.
pub fn usage(pid: u32) -> io::Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    parse(&stat, &status).ok_or_else(|| io::Error::other("/proc is not as expected"))
}

fn parse(stat: &str, status: &str) -> Option<Usage> {
    // After the name, which may have blanks: state is field 3, utime and stime are 14 and 15.
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(Usage {
        cpu: Duration::from_millis(ticks * 1_000 / TICKS),
        rss: value("VmRSS:")? * KIB,
        threads: value("Threads:")?,
    })
}

/// The memory that a master uses, as it reports it.
///
/// # Errors
///
/// If it does not answer.
pub fn used_memory(master: &Server) -> io::Result<u64> {
    let info = master.command(&["INFO", "memory"])?.text().unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|n| n.trim().parse().ok()).ok_or_else(|| io::Error::other("INFO has no used_memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| percentile(&values, share)), [50.0, 99.0, 100.0]);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn what_a_process_uses() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 3 0 100 1000 20";
        let used = parse(stat, "Name:\ta\nVmRSS:\t     2048 kB\nThreads:\t3\n").unwrap();
        assert_eq!((used.cpu, used.rss, used.threads), (Duration::from_secs(2), 2 << 20, 3));
        assert!(usage(std::process::id()).unwrap().rss > 100_000);
    }
}
