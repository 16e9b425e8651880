//! Waiting for a lock, until it is ours, the time is over, or a signal comes.

use crate::clock::Moment;
use crate::duration::rough;
use crate::holder;
use crate::line::Line;
use crate::say;
use crate::signals;
use redleash::crossbeam_channel::Receiver;
use redleash::{Client, Error, Lock, LockGuard};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long an outage is endured by who waits without a limit: the library's own measure.
const OUTAGE_PATIENCE: Duration = Duration::from_secs(10);
/// The pauses between attempts: the library's own, too.
const SHORTEST: Duration = Duration::from_millis(50);
const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(1);
/// How often the holder is asked for, for the line on the terminal.
const ASK: Duration = Duration::from_secs(2);

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Once,
    Until(Moment),
    Forever,
}

/// How the wait ended.
pub(crate) enum Waited {
    Granted(LockGuard),
    /// Others hold it.
    Busy,
    /// This signal asked us to end.
    Signal(i32),
}

/// See the module.
pub(crate) struct Waiting<'a> {
    pub(crate) client: &'a Client,
    pub(crate) lock: &'a Lock,
    pub(crate) patience: Patience,
    pub(crate) signals: &'a Receiver<i32>,
    pub(crate) verbose: bool,
}

impl Waiting<'_> {
    pub(crate) fn run(&self, line: &mut Line) -> Result<Waited, Error> {
        let start = Moment::now();
        let mut outage = None;
        let mut asked: Option<(Moment, String)> = None;
        for attempt in 0.. {
            let error = match self.lock.try_acquire() {
                Ok(Some(guard)) => return Ok(Waited::Granted(guard)),
                Ok(None) => None,
                Err(error) if error.is_retryable() => Some(error),
                Err(error) => return Err(error),
            };
            let now = Moment::now();
            outage = error.as_ref().map(|_| outage.unwrap_or(now));
            let end = match (self.patience, outage) {
                (Patience::Once, _) => now,
                (Patience::Until(end), _) => end,
                (Patience::Forever, Some(since)) => since.plus(OUTAGE_PATIENCE),
                (Patience::Forever, None) => Moment::NEVER,
            };
            let hopeless = matches!(&error, Some(Error::Quarantined { ready_in, .. }) if now.plus(*ready_in) > end);
            if now >= end || hopeless {
                return error.map_or(Ok(Waited::Busy), Err);
            }
            if asked.as_ref().is_none_or(|(at, _)| now.since(*at) >= ASK) && (line.is_enabled() || self.verbose) {
                let text = error.as_ref().map_or_else(|| self.whom(), ToString::to_string);
                if asked.is_none() && !line.is_enabled() {
                    say::sentence(&format!("lock {:?}: waiting: {text}", self.lock.name()));
                }
                asked = Some((now, text));
            }
            if let Some((_, text)) = &asked {
                let waited = rough(now.since(start));
                line.show(&format!("redleash: waiting for {:?} ({waited}): {text}", self.lock.name()));
            }
            if let Some(signal) = self.pause(now, pause(attempt).min(end.since(now))) {
                return Ok(Waited::Signal(signal));
            }
        }
        Ok(Waited::Busy)
    }

    fn whom(&self) -> String {
        match self.client.status(self.lock.name()) {
            Ok(status) => match holder::found(&status) {
                Some(master) => format!("held by {}", holder::words(master)),
                None => "held by nobody any more".into(),
            },
            Err(error) => error.to_string(),
        }
    }

    /// Sleeps, or returns the signal that is to end the wait.
    fn pause(&self, now: Moment, span: Duration) -> Option<i32> {
        let end = now.plus(span);
        loop {
            match self.signals.recv_timeout(end.since(Moment::now())) {
                Ok(signal) if signals::ends(signal) => return Some(signal),
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

/// The signal that came before there was a command to hand it to.
pub(crate) fn pending(signals: &Receiver<i32>) -> Option<i32> {
    signals.try_iter().find(|signal| signals::ends(*signal))
}

/// A random pause that grows. The hasher's keys are the standard library's randomness.
fn pause(attempt: u32) -> Duration {
    let longest = (0..attempt.min(16)).fold(FIRST, |d, _| d * 3 / 2).min(LONGEST);
    let random = RandomState::new().hash_one(attempt);
    let width = (longest - SHORTEST).as_nanos() as u64;
    SHORTEST + Duration::from_nanos(((u128::from(width) * u128::from(random)) >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end_somewhere() {
        for attempt in [0, 1, 5, 100, u32::MAX] {
            assert!((SHORTEST..=LONGEST).contains(&pause(attempt)));
        }
        assert!((0..100).all(|_| pause(0) <= FIRST));
    }
}
