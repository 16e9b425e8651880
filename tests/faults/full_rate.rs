//! One master hangs while others of this client's threads lock and unlock as fast as they can: what is held stays held,
//! and masters that have answered are not called hung.

use crate::support::{eventually, let_pass, masters, ms, secs};
use redleash::{Client, Lease, Options, ReleaseOutcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Sets its flag when it is dropped, also by a failed assertion: the scope's threads must end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_held_lock_is_renewed_in_time_beside_threads_at_full_rate_while_a_master_hangs() {
    let Some(masters) = masters(3) else { return };
    // The limits as they come: this is about them.
    let client = Client::builder().nodes(masters.urls()).build().unwrap();
    client.init().unwrap();
    let held = client.lock("held").options(Options::new().lease(Lease::Watchdog { ttl: secs(3) })).acquire().unwrap();
    masters[2].pause().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let end = Over(&over);
        // The ttl of 30 s keeps every release that the hung master has not taken.
        let cycle = |name: &'static str, awaited: bool| {
            let (lock, over) = (client.lock(name), &over);
            move || {
                let (mut cycles, mut longest) = (0u64, Duration::ZERO);
                while !over.load(Ordering::Relaxed) {
                    let start = Instant::now();
                    let guard = lock.acquire().unwrap();
                    longest = longest.max(start.elapsed());
                    if awaited {
                        assert_eq!(guard.release(), ReleaseOutcome::Released);
                    } else {
                        drop(guard);
                    }
                    cycles += 1;
                }
                (cycles, longest)
            }
        };
        let workers = [("awaited", true), ("dropped", false)].map(|(name, awaited)| scope.spawn(cycle(name, awaited)));
        // It is renewed every second, so two seconds are left at the least if nothing is in the way.
        let (start, mut least) = (Instant::now(), held.remaining());
        while start.elapsed() < secs(8) && least > ms(500) {
            least = least.min(held.remaining());
            let_pass(ms(2));
        }
        let after = start.elapsed();
        drop(end);
        let results = workers.map(|worker| worker.join().unwrap());
        held.check().unwrap();
        let stats = client.stats();
        assert!(stats.renewal_latest < secs(1), "{stats:?}");
        assert!(least > ms(500), "only {least:?} were left of the lease after {after:?}; cycles, longest: {results:?}");
        for (cycles, longest) in results {
            assert!(cycles > 100, "{cycles} cycles are no load");
            assert!(longest < secs(3), "an acquire took {longest:?}");
        }
    });
    assert_eq!(held.release(), ReleaseOutcome::Released);
    masters[2].resume().unwrap();
    eventually("what was kept for the hung master is delivered", || client.stats().undelivered.pending == 0);
    let stats = client.stats();
    assert!(stats.renewal_latest < secs(3) && stats.chore_latest < secs(60), "{stats:?}");
}
