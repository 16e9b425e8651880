//! Many locks held by one client, some of whose threads lock and unlock others as fast as they can, while one master
//! after the other hangs.
//!
//! Never more than one master at a time hangs, none forgets anything, and the client has no faults. So no fault excuses
//! a loss: every lock must stay held, however much is queued for the master that does not answer. There is no proxy in
//! between, because it would slow the client down, and the danger shows only at the client's own speed.

use super::dice::Dice;
use crate::Verdict;
use crate::scale::child::Holder;
use crate::scale::measure::masters;
use crate::scale::rate::{Order, Seen};
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Locks that are held, with a ttl of 3 s.
const HELD: usize = 100;
/// Threads at full rate, with locks whose ttl is 30 s. Two threads queue so much for a silent master that looking
/// through the whole queue again and again would take too long, and they leave enough of the processors to the other
/// arenas.
const THREADS: usize = 2;
/// How long a master hangs, in milliseconds: several times the ttl of what is held.
const HANGS: (u64, u64) = (8_000, 14_000);
/// The client has its connection again after this time at the latest. An earlier fault would be a second one at a time.
const BACK: Duration = Duration::from_millis(3_500);
/// A fault that would be shorter is not begun.
const SHORTEST: Duration = Duration::from_secs(2);
/// Fewer cycles per second are no load, even on processors that others use.
const LEAST_RATE: f64 = 20.0;

/// The result.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// What the client saw.
    pub seen: Seen,
    /// How often a master was stopped.
    pub stops: usize,
}

/// Plays for `length`, with masters and times drawn from `seed`.
///
/// # Errors
///
/// If a master or the client cannot be started, or a master cannot be stopped.
pub fn play(here: &Path, length: Duration, seed: u64) -> io::Result<Crowd> {
    let deployment = masters(3)?;
    let order = Order { held: HELD, threads: THREADS, seconds: length.as_secs().max(1) };
    let mut holder = Holder::start(here, &["--rate", &order.to_string(), "--nodes", &deployment.urls().join(",")])?;
    holder.go_on()?;
    let (end, mut stops, mut dice) = (Instant::now() + length, 0, Dice::new(seed ^ 0x0063_726f_7764));
    let left = || end.saturating_duration_since(Instant::now());
    while left() > SHORTEST {
        let master = &deployment[dice.range(0, 2) as usize];
        let hangs = Duration::from_millis(dice.range(HANGS.0, HANGS.1));
        master.pause()?;
        thread::sleep(hangs.min(left()));
        master.resume()?;
        stops += 1;
        thread::sleep(BACK.min(left()));
    }
    let seen = holder.seen()?;
    holder.release()?;
    Ok(Crowd { seen, stops })
}

impl Crowd {
    /// Everything that must not happen, in words.
    pub fn violations(&self) -> Vec<String> {
        let seen = &self.seen;
        let mut found = Vec::new();
        if seen.lost > 0 {
            found.push(format!(
                "{} of {HELD} held locks were lost beside threads at full rate ({:?}), although two of three \
                 masters answered all the time",
                seen.lost, seen.reasons
            ));
        }
        let late = seen.late + seen.unannounced;
        if late > 0 {
            found.push(format!("{late} of these losses were announced after the deadline or never"));
        }
        if let Some(error) = seen.messages.first() {
            found.push(format!(
                "{} acquires of a free lock failed although two of three masters answered, the first with: {error}",
                seen.errors
            ));
        }
        found
    }

    /// Why this run would prove nothing, if so.
    pub fn vacuous(&self) -> Option<String> {
        let rate = self.rate();
        if self.stops == 0 {
            Some("no master hung beside the crowd of held locks".into())
        } else if rate < LEAST_RATE {
            Some(format!("the threads at full rate locked only {rate:.0} times a second"))
        } else {
            None
        }
    }

    fn rate(&self) -> f64 {
        self.seen.cycles_per_second.iter().sum::<f64>() / 2.0
    }

    /// The result as text.
    pub fn text(&self) -> String {
        let seen = &self.seen;
        let mut out = format!("\n3 masters, {HELD} locks held by one client beside {THREADS} threads at full rate\n");
        let figures = [
            ("held locks lost", seen.lost.to_string()),
            ("least time to spare, ttl 3 s", format!("{:.0} ms", seen.least_ms)),
            ("latest renewal, after it was due", format!("{:.0} ms", seen.renewal_latest_ms)),
            ("cycles of the other locks", format!("{:.0} per second", self.rate())),
            ("longest acquire", format!("{:.0} ms", seen.longest_ms)),
            ("acquires that failed", seen.errors.to_string()),
            ("releases queued, left to their ttl", format!("{}, {}", seen.undelivered.0, seen.undelivered.1)),
            ("stops, one master at a time", self.stops.to_string()),
        ];
        figures.iter().for_each(|(name, value)| out += &format!("  {name:<34} {value}\n"));
        self.violations().iter().for_each(|violation| out += &format!("  VIOLATION: {violation}\n"));
        self.vacuous().iter().for_each(|reason| out += &format!("  PROVES NOTHING: {reason}\n"));
        out
    }

    /// The verdict on `others` and on this.
    pub fn verdict(&self, others: Verdict) -> Verdict {
        match (others.held, self.violations().first(), self.vacuous()) {
            (false, Some(violation), _) => Verdict::failed(format!("{}; {violation}", others.line)),
            (false, None, _) => others,
            (true, Some(violation), _) => Verdict::failed(violation),
            (true, None, Some(reason)) => Verdict::failed(format!("it proves nothing: {reason}")),
            (true, None, None) => {
                let stops = self.stops;
                Verdict::held(format!(
                    "{}; {HELD} locks stayed held beside threads at full rate while a master hung {stops} times",
                    others.line
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(change: impl FnOnce(&mut Crowd)) -> Verdict {
        let seen = Seen { least_ms: 1_900.0, cycles_per_second: [900.0, 1_200.0], ..Seen::default() };
        let mut crowd = Crowd { seen, stops: 1 };
        change(&mut crowd);
        crowd.verdict(Verdict::held("all well"))
    }

    #[test]
    fn each_loss_is_a_violation_and_a_run_without_load_proves_nothing() {
        assert!(crowd(|_| {}).held);
        type Change = fn(&mut Crowd);
        let wrongs: [(Change, &str); 5] = [
            (|c| c.seen.lost = 2, "2 of 100 held locks"),
            (|c| c.seen.late = 1, "after the deadline"),
            (|c| c.seen.messages = vec!["hung".into()], "hung"),
            (|c| c.stops = 0, "proves nothing"),
            (|c| c.seen.cycles_per_second = [1.0; 2], "proves nothing"),
        ];
        for (wrong, words) in wrongs {
            let verdict = crowd(wrong);
            assert!(!verdict.held && verdict.line.contains(words), "{verdict:?}");
        }
    }
}
