//! A long job that holds a lock far beyond its ttl: the watchdog renews it, and nested functions enter it again.

use redleash::{Client, Error, Lease, Options, ReentrantLock};
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?; // REDLEASH_NODES names the masters
    let _ = client.init(); // already done where the masters have been used before
    let ttl = Duration::from_millis(600);
    let lock = client.reentrant_lock("reports/monthly").options(Options::new().lease(Lease::Watchdog { ttl }));

    let guard = lock.acquire()?;
    for chapter in 1..=4 {
        write_chapter(&lock, chapter)?;
        // What the job would compute; three ttls in all.
        wait(Duration::from_millis(450));
        println!("chapter {chapter} done, held for at least {:?} more", guard.remaining());
    }
    guard.check()?;
    println!("renewed through {:?} with a ttl of {ttl:?}", Duration::from_millis(1800));
    Ok(())
}

fn write_chapter(lock: &ReentrantLock, chapter: u32) -> Result<(), Error> {
    // No round trip: this thread holds the lock already.
    let guard = lock.acquire()?;
    println!("chapter {chapter}: entered {} deep", guard.depth());
    write_footnotes(lock)
}

fn write_footnotes(lock: &ReentrantLock) -> Result<(), Error> {
    lock.with(|guard| {
        println!("  footnotes: entered {} deep", guard.depth());
        guard.ensure(Duration::from_millis(50))
    })
}

/// Stands for work.
fn wait(time: Duration) {
    let (_keep, never) = std::sync::mpsc::channel::<()>();
    let _ = never.recv_timeout(time);
}
