//! The checks over a history.

use super::arena::Setup;
use super::conduct::Injected;
use super::faults::Fault;
use super::history::{Hold, Kind};
use super::register::Accounts;
use super::worker::TICK;
use std::collections::BTreeMap;
use std::time::Duration;

/// What happened in one arena.
#[derive(Clone, Debug)]
pub struct History {
    /// The deployment and its workers.
    pub setup: Setup,
    /// The first and the last moment.
    pub span: (u64, u64),
    /// When all faults were over.
    pub healed: u64,
    /// All holds.
    pub holds: Vec<Hold>,
    /// What each row is.
    pub rows: Vec<Kind>,
    /// The faults that took place.
    pub faults: Vec<Injected>,
    /// The kinds of faults that had to take place.
    pub wanted: Vec<Fault>,
    /// What the registers hold.
    pub accounts: Accounts,
    /// Calls that waited and were not granted.
    pub busy: u64,
    /// How often each error of the library, result of a release and exit code of `redleash run` was reported.
    pub reported: BTreeMap<String, u64>,
    /// How long it took until no lock was left on any master; `None` if the time was over before.
    pub cleared: Option<Duration>,
    /// Faults of the harness.
    pub failures: Vec<String>,
}

/// A worker that was awake for so many ticks beyond its deadline before the loss was announced: that is late, however
/// busy the machine is.
const LATE_TICKS: u64 = 25;
/// With fewer acquisitions per second the run proves nothing.
const LEAST_PER_SECOND: f64 = 2.0;

/// Two holders at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The hold that began first.
    pub first: Hold,
    /// The hold that began during it.
    pub second: Hold,
    /// For how long.
    pub by: Duration,
}

/// Holds of one lock whose owners relied on it at the same time.
pub fn overlaps(holds: &[Hold]) -> Vec<Overlap> {
    let mut found = Vec::new();
    for holds in by_name(holds).values() {
        let mut last: Option<&Hold> = None;
        for hold in holds.iter().filter(|hold| hold.end() > hold.from) {
            if let Some(first) = last.filter(|last| last.end() > hold.from) {
                let by = Duration::from_nanos(first.end().min(hold.end()) - hold.from);
                found.push(Overlap { first: first.clone(), second: (*hold).clone(), by });
            }
            if last.is_none_or(|last| last.end() < hold.end()) {
                last = Some(hold);
            }
        }
    }
    found
}

/// Pairs of holds, in the order of their grants, whose fencing tokens do not rise.
pub fn falling_tokens(holds: &[Hold]) -> Vec<(Hold, Hold)> {
    let mut found = Vec::new();
    for holds in by_name(holds).values() {
        // A hold that was no longer valid when it was reported may have been granted long before.
        let seen = holds.iter().filter(|hold| hold.kind == Kind::Command || hold.until > hold.from);
        let mut highest: Option<&Hold> = None;
        for hold in seen.filter(|hold| hold.token.is_some()) {
            if let Some(before) = highest.filter(|before| before.token >= hold.token) {
                found.push((before.clone(), (*hold).clone()));
            } else {
                highest = Some(hold);
            }
        }
    }
    found
}

fn by_name(holds: &[Hold]) -> BTreeMap<usize, Vec<&Hold>> {
    let mut names: BTreeMap<usize, Vec<&Hold>> = BTreeMap::new();
    for hold in holds {
        names.entry(hold.name).or_default().push(hold);
    }
    names.values_mut().for_each(|holds| holds.sort_by_key(|hold| hold.from));
    names
}

/// One kind of fault in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// How often.
    pub times: u64,
    /// The time from its end to the next grant: median and maximum.
    pub recovery: (Duration, Duration),
}

impl History {
    /// Every kind of fault that took place.
    pub fn tolls(&self) -> BTreeMap<Fault, Toll> {
        let mut grants: Vec<u64> = self.holds.iter().map(|hold| hold.from).collect();
        grants.sort_unstable();
        let mut all: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
        for fault in &self.faults {
            let next = grants.get(grants.partition_point(|at| *at < fault.to));
            let took = next.map_or(Duration::MAX, |at| Duration::from_nanos(at - fault.to));
            all.entry(fault.fault).or_default().push(took);
        }
        let toll = |mut times: Vec<Duration>| {
            times.sort_unstable();
            let recovery = (times[times.len() / 2], times[times.len() - 1]);
            Toll { times: times.len() as u64, recovery }
        };
        all.into_iter().map(|(fault, times)| (fault, toll(times))).collect()
    }

    /// Holds that were lost, by reason.
    pub fn losses(&self) -> BTreeMap<&str, u64> {
        let mut losses = BTreeMap::new();
        for (_, reason) in self.holds.iter().filter_map(|hold| hold.lost.as_ref()) {
            *losses.entry(reason.as_str()).or_default() += 1;
        }
        losses
    }

    /// Everything that must not happen, in words.
    pub fn violations(&self) -> Vec<String> {
        let mut found: Vec<String> = self.failures.iter().map(|failure| format!("harness: {failure}")).collect();
        let ms = |at: u64| (at.saturating_sub(self.span.0)) as f64 / 1e6;
        let holder = |hold: &Hold| {
            let (row, from, to) = (hold.worker, ms(hold.from), ms(hold.end()));
            format!("row {row} from {from:.1} to {to:.1} ms (token {:?})", hold.token)
        };
        for Overlap { first, second, by } in overlaps(&self.holds) {
            found.push(format!(
                "two holders of n{} for {:.1} ms: {}, {}",
                first.name,
                by.as_secs_f64() * 1e3,
                holder(&first),
                holder(&second)
            ));
        }
        for (first, second) in falling_tokens(&self.holds) {
            found.push(format!(
                "tokens of n{} do not rise: {:?} at {:.1} ms (row {}), then {:?} at {:.1} ms (row {})",
                first.name,
                first.token,
                ms(first.from),
                first.worker,
                second.token,
                ms(second.from),
                second.worker
            ));
        }
        for hold in self.holds.iter().filter(|hold| hold.late >= LATE_TICKS) {
            let late = TICK * hold.late as u32;
            let announced = if hold.lost.is_some() { "announced only" } else { "never announced" };
            found.push(format!(
                "a loss was {announced} to row {}, which had been awake for {late:?} after its deadline at {:.1} ms",
                hold.worker,
                ms(hold.until)
            ));
        }
        for (name, (fenced, free)) in &self.accounts {
            if fenced.lost > 0 || fenced.value != fenced.accepted {
                found.push(format!(
                    "the fenced register of n{name} lost {} of {} updates",
                    fenced.lost, fenced.accepted
                ));
            }
            if free.late_writes[1] > 0 {
                let writes = free.late_writes[1];
                found.push(format!("commands wrote {writes} times to n{name} after a later holder had begun"));
            }
        }
        match self.cleared {
            Some(_) => {}
            None => found.push("locks are left on the masters although their leases have ended".into()),
        }
        for name in self.accounts.keys() {
            if !self.holds.iter().any(|hold| hold.name == *name && hold.from > self.healed) {
                found.push(format!("no worker acquired n{name} after all faults were over"));
            }
        }
        found
    }

    /// Why this run would prove nothing, if so.
    pub fn vacuous(&self) -> Vec<String> {
        let mut found = Vec::new();
        for fault in &self.wanted {
            if !self.faults.iter().any(|injected| injected.fault == *fault) {
                found.push(format!("\"{}\" never happened", fault.name()));
            }
        }
        let seconds = (self.span.1 - self.span.0) as f64 / 1e9;
        if (self.holds.len() as f64) < seconds * LEAST_PER_SECOND {
            found.push(format!("only {} acquisitions in {seconds:.0} s", self.holds.len()));
        }
        let lost: u64 = self.accounts.values().map(|(_, free)| free.lost).sum();
        if lost == 0 {
            found.push("the unfenced registers lost no update: no worker was stopped at a bad moment".into());
        }
        if self.holds.iter().all(|hold| hold.lost.is_none()) {
            found.push("no lease was lost".into());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::register::Account;
    use super::*;

    fn hold(name: usize, from: u64, until: u64, token: u64) -> Hold {
        let (kind, left, lost) = (Kind::Library, None, None);
        Hold { worker: from as usize, kind, name, from, until, token: Some(token), left, lost, late: 0 }
    }

    #[test]
    fn two_holders_at_once_are_found_and_neighbours_are_not() {
        assert!(overlaps(&[hold(0, 10, 20, 1), hold(0, 20, 30, 2), hold(1, 15, 25, 3)]).is_empty());
        let found = overlaps(&[hold(0, 10, 50, 1), hold(0, 20, 30, 2), hold(0, 40, 60, 3)]);
        assert_eq!(found.iter().map(|o| o.by.as_nanos()).collect::<Vec<_>>(), [10, 10]);
    }

    #[test]
    fn a_hold_ends_when_it_is_given_up_or_taken_away_and_at_its_deadline_at_the_latest() {
        let mut first = hold(0, 10, 50, 1);
        first.left = Some(15);
        assert!(overlaps(&[first.clone(), hold(0, 20, 30, 2)]).is_empty());
        first.left = Some(90);
        assert_eq!(overlaps(&[first.clone(), hold(0, 20, 30, 2)]).len(), 1);
        // The loss by the deadline is announced a little early. The owner may rely on the lock until the deadline.
        first.lost = Some((15, "Expired".into()));
        assert_eq!(overlaps(&[first.clone(), hold(0, 20, 30, 2)]).len(), 1);
        first.lost = Some((15, "Taken".into()));
        assert!(overlaps(&[first, hold(0, 20, 30, 2)]).is_empty());
    }

    /// Three sound holds and a late write of the first holder. Everything that had to happen has happened.
    fn sound() -> History {
        let setup = Setup { masters: 3, margin: 0, seed: 1, redleash: None, no_quarantine: false };
        let second = 1_000_000_000;
        let mut holds = vec![
            hold(0, second, 2 * second, 1),
            hold(0, 3 * second, 4 * second, 2),
            hold(0, 6 * second, 7 * second, 3),
        ];
        holds[0].lost = Some((2 * second, "Expired".into()));
        let fault = Injected {
            fault: Fault::Stopped,
            masters: vec![0],
            row: None,
            from: second,
            to: 2 * second,
            detail: String::new(),
        };
        let fenced = Account { value: 5, accepted: 5, token: 3, refused: 1, ..Account::default() };
        let free = Account { value: 5, accepted: 7, lost: 2, late_writes: [1, 0], ..Account::default() };
        History {
            setup,
            span: (0, second),
            healed: 5 * second,
            holds,
            rows: vec![Kind::Library],
            faults: vec![fault],
            wanted: vec![Fault::Stopped],
            accounts: [(0, (fenced, free))].into(),
            busy: 0,
            reported: BTreeMap::new(),
            cleared: Some(Duration::ZERO),
            failures: Vec::new(),
        }
    }

    #[test]
    fn a_sound_history_has_no_violation_and_each_wrong_has_one() {
        assert_eq!((sound().violations(), sound().vacuous()), (Vec::new(), Vec::new()));
        assert_eq!(sound().tolls()[&Fault::Stopped].recovery.0, Duration::from_secs(1));
        let wrongs: [fn(&mut History); 8] = [
            |h| h.holds[0].until = 3_500_000_000,
            |h| h.holds[2].token = Some(2),
            |h| h.holds[0].late = LATE_TICKS,
            |h| h.accounts.values_mut().for_each(|(fenced, _)| fenced.lost = 1),
            |h| h.accounts.values_mut().for_each(|(_, free)| free.late_writes[1] = 1),
            |h| h.cleared = None,
            |h| h.healed = 8_000_000_000,
            |h| h.failures.push("a panic".into()),
        ];
        for (i, wrong) in wrongs.iter().enumerate() {
            let mut history = sound();
            wrong(&mut history);
            assert_eq!(history.violations().len(), 1, "wrong {i}: {:?}", history.violations());
        }
        let nothings: [fn(&mut History); 4] = [
            |h| h.wanted.push(Fault::Cut),
            |h| h.span.1 *= 1000,
            |h| h.accounts.values_mut().for_each(|(_, free)| free.lost = 0),
            |h| h.holds[0].lost = None,
        ];
        for (i, nothing) in nothings.iter().enumerate() {
            let mut history = sound();
            nothing(&mut history);
            assert_eq!(history.vacuous().len(), 1, "nothing {i}: {:?}", history.vacuous());
        }
    }

    #[test]
    fn tokens_rise_in_the_order_of_valid_grants() {
        assert!(falling_tokens(&[hold(0, 30, 40, 7), hold(0, 10, 20, 6), hold(1, 35, 45, 2)]).is_empty());
        assert_eq!(falling_tokens(&[hold(0, 10, 20, 6), hold(0, 30, 40, 6)]).len(), 1);
        assert_eq!(falling_tokens(&[hold(0, 10, 20, 6), hold(0, 30, 40, 5), hold(0, 50, 60, 6)]).len(), 2);
        // It was reported too late to be valid, so it was granted before the other.
        assert!(falling_tokens(&[hold(0, 10, 20, 6), hold(0, 30, 30, 5)]).is_empty());
    }
}
