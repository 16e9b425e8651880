//! Worker threads that share a client and guard a read-modify-write with a lock scope each.

use redleash::{Client, Error};
use std::sync::atomic::{AtomicU32, Ordering};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env()?; // REDLEASH_NODES names the masters
    let _ = client.init(); // already done where the masters have been used before
    let total = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let (client, total) = (&client, &total);
        let workers: Vec<_> = (1..=4).map(|worker| scope.spawn(move || add(client, total, worker))).collect();
        workers.into_iter().try_for_each(|w| w.join().unwrap_or(Err(Error::Closed)))
    })?;
    let total = total.into_inner();
    println!("total {total}");
    if total != 20 {
        return Err(format!("{} updates were lost", 20 - total).into());
    }
    Ok(())
}

fn add(client: &Client, total: &AtomicU32, worker: u32) -> Result<(), Error> {
    let lock = client.lock("workers/total");
    (0..5).try_for_each(|_| {
        lock.with(|guard| {
            // A load and a store that another thread could come between, were it not for the lock.
            let before = total.load(Ordering::Relaxed);
            std::thread::yield_now();
            guard.check()?;
            total.store(before + 1, Ordering::Relaxed);
            println!("worker {worker}: {before} -> {}", before + 1);
            Ok(())
        })
    })
}
