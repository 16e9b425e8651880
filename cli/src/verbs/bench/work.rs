//! The work that is measured. Each function works until [`Stop`] says that its time is over, and records what it finds.

use super::found::{Free, Master};
use super::spread::Spread;
use crate::system::clock::Moment;
use parking_lot::Mutex;
use redleash::{Client, Error, Lock, LockGuard, ReleaseOutcome};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

/// Whether the time of the work is over.
#[derive(Default)]
pub(crate) struct Stop(AtomicBool);

impl Stop {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        !self.0.load(Ordering::Relaxed)
    }

    fn pause(&self, time: Duration) {
        let until = Moment::now().plus(time);
        while self.goes_on() {
            let left = until.since(Moment::now());
            if left.is_zero() {
                return;
            }
            // May return early, if the library has unparked this thread since.
            thread::park_timeout(left);
        }
    }
}

/// `None` once it is over.
fn acquire(lock: &Lock, stop: &Stop) -> Result<Option<LockGuard>, Error> {
    if !stop.goes_on() {
        return Ok(None);
    }
    lock.acquire_while(None, || stop.goes_on())
}

/// Asks all masters the same question, over and over.
pub(crate) fn round_trips(client: &Client, name: &str, stop: &Stop, masters: &mut Vec<Master>) -> Result<(), Error> {
    while stop.goes_on() {
        let status = client.status(name)?;
        masters.resize_with(status.masters.len(), Master::default);
        for (master, said) in masters.iter_mut().zip(status.masters) {
            master.label = said.master;
            master.asked += 1;
            if let Some(time) = said.round_trip {
                master.round_trip.record(time);
            }
            master.failure = said.failure.or(master.failure.take());
        }
    }
    Ok(())
}

/// Acquires a free lock and releases it, and waits for both.
pub(crate) fn released(lock: &Lock, stop: &Stop, free: &mut Free) -> Result<(), Error> {
    loop {
        let start = Moment::now();
        let Some(guard) = acquire(lock, stop)? else { return Ok(()) };
        let held = Moment::now();
        let release = guard.release();
        let end = Moment::now();
        free.acquire.record(held.since(start));
        free.release.record(end.since(held));
        free.unconfirmed += u64::from(!matches!(release, ReleaseOutcome::Released));
    }
}

/// Acquires a free lock and drops the guard.
pub(crate) fn dropped(lock: &Lock, stop: &Stop, spread: &mut Spread) -> Result<(), Error> {
    while let Some(guard) = acquire(lock, stop)? {
        let start = Moment::now();
        drop(guard);
        spread.record(Moment::now().since(start));
    }
    Ok(())
}

/// Every thread acquires and drops a lock of its own. Counts these locks.
pub(crate) fn throughput(locks: &[Lock], stop: &Stop, done: &mut u64) -> Result<(), Error> {
    let cycles = |lock: &Lock| {
        let mut count = 0;
        let ended = loop {
            match acquire(lock, stop) {
                Ok(Some(guard)) => drop(guard),
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
            count += 1;
        };
        (count, ended)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = locks.iter().map(|lock| scope.spawn(move || cycles(lock))).collect();
        let ended = threads.into_iter().map(joined).map(|(count, ended)| {
            *done += count;
            ended
        });
        first_error(ended.collect())
    })
}

/// Two handles contend for the same lock: records the time from the moment at which one releases it until the other has
/// it. Each holds it for `hold`, so that the other surely waits.
pub(crate) fn hand_over(locks: &[Lock; 2], hold: Duration, stop: &Stop, spread: &mut Spread) -> Result<(), Error> {
    let last: Mutex<Option<(usize, Moment)>> = Mutex::default();
    let cycles = |who: usize| {
        let mut mine = Spread::default();
        let ended = loop {
            let guard = match acquire(&locks[who], stop) {
                Ok(Some(guard)) => guard,
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            };
            let now = Moment::now();
            if let Some((_, since)) = last.lock().take_if(|(before, _)| *before != who) {
                mine.record(now.since(since));
            }
            stop.pause(hold);
            *last.lock() = Some((who, Moment::now()));
            drop(guard);
        };
        (mine, ended)
    };
    let cycles = &cycles;
    thread::scope(|scope| {
        let threads = [0, 1].map(|who| scope.spawn(move || cycles(who)));
        let ended = threads.into_iter().map(joined).map(|(mine, ended)| {
            spread.add(&mine);
            ended
        });
        first_error(ended.collect())
    })
}

/// The first error, once all have ended.
fn first_error(ended: Vec<Result<(), Error>>) -> Result<(), Error> {
    ended.into_iter().collect()
}

pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
