//! The kinds of faults, and the seeded schedule of a run.
//!
//! The schedule stays within the claim: partitions, outages, crashes and pauses of anything, and the loss of the state
//! of any number of masters, are allowed with every configuration; stepped clocks and evicted keys only with a fault
//! margin, and only on one master, always the same.

use super::dice::Dice;
use super::proxy::Way;
use std::time::Duration;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Requests do not arrive; replies would.
    RequestsParted,
    /// Requests arrive, replies do not.
    RepliesParted,
    /// Nothing arrives; connections are half-open.
    Parted,
    /// Connections are refused.
    Refused,
    /// Everything is late.
    Slow,
    /// All connections are reset once.
    Cut,
    /// kill -9, and restarted with nothing in it.
    KilledEmpty,
    /// kill -9, and restarted with its append-only file.
    KilledAof,
    /// A master is stopped (SIGSTOP, SIGCONT).
    Stopped,
    /// FLUSHALL.
    Flushed,
    /// SCRIPT FLUSH.
    ScriptsFlushed,
    /// No memory for any write (maxmemory, noeviction).
    Full,
    /// The wall clock of a master steps forward.
    ClockForward,
    /// The wall clock of a master steps backward.
    ClockBack,
    /// The locks of a master are evicted; its generation stays.
    Evicted,
    /// A worker is stopped beyond its deadline, between its check and its write.
    WorkerStopped,
    /// A worker is stopped for less than its lease.
    WorkerPaused,
    /// A worker is killed (SIGKILL).
    WorkerKilled,
    /// `redleash run` is stopped beyond the lease; its supervisor is not.
    RunStopped,
    /// `redleash run` is killed (SIGKILL) while its command works.
    RunKilled,
}

use Fault::*;

/// Faults that every configuration must survive.
pub const ALWAYS: [Fault; 17] = [
    RequestsParted,
    RepliesParted,
    Parted,
    Refused,
    Slow,
    Cut,
    KilledEmpty,
    KilledAof,
    Stopped,
    Flushed,
    ScriptsFlushed,
    Full,
    WorkerStopped,
    WorkerPaused,
    WorkerKilled,
    RunStopped,
    RunKilled,
];

/// Faults that only a configuration with a fault margin must survive.
pub const WITH_MARGIN: [Fault; 3] = [ClockForward, ClockBack, Evicted];

impl Fault {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            RequestsParted => "partition, requests",
            RepliesParted => "partition, replies",
            Parted => "partition, both ways",
            Refused => "connections refused",
            Slow => "slow network",
            Cut => "connections reset",
            KilledEmpty => "kill -9, restart empty",
            KilledAof => "kill -9, restart with AOF",
            Stopped => "master stopped",
            Flushed => "FLUSHALL",
            ScriptsFlushed => "SCRIPT FLUSH",
            Full => "out of memory",
            ClockForward => "clock steps forward",
            ClockBack => "clock steps backward",
            Evicted => "locks evicted",
            WorkerStopped => "worker stopped beyond its deadline",
            WorkerPaused => "worker paused within its lease",
            WorkerKilled => "worker killed",
            RunStopped => "redleash run stopped",
            RunKilled => "redleash run killed",
        }
    }

    /// Whether it hits workers and not masters.
    pub fn hits_workers(self) -> bool {
        matches!(self, WorkerStopped | WorkerPaused | WorkerKilled | RunStopped | RunKilled)
    }
}

/// One fault of the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// What.
    pub fault: Fault,
    /// When, from the start of the run.
    pub at: Duration,
    /// For how long; zero for what happens at once.
    pub lasts: Duration,
    /// Which masters.
    pub masters: Vec<usize>,
    /// What becomes of bytes in a partition.
    pub way: Way,
    /// The size of a clock's step.
    pub step: Duration,
    /// A random number that chooses a worker, where any will do.
    pub draw: u64,
}

/// What the schedule needs to know of an arena.
#[derive(Clone, Copy, Debug)]
pub struct Ground {
    /// The number of masters.
    pub masters: usize,
    /// The fault margin.
    pub margin: usize,
    /// Whether clocks can be stepped.
    pub clocks: bool,
    /// Whether there are commands under `redleash run`.
    pub commands: bool,
    /// The ttl of the workers' leases.
    pub ttl: Duration,
    /// The ttl of the commands' leases.
    pub command_ttl: Duration,
}

impl Ground {
    /// The kinds of faults that happen here.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = ALWAYS.to_vec();
        if self.margin > 0 {
            faults.extend(WITH_MARGIN);
        }
        faults.retain(|fault| match fault {
            ClockForward | ClockBack => self.clocks,
            RunStopped | RunKilled => self.commands,
            _ => true,
        });
        faults
    }
}

/// The time before the first fault.
const CALM: Duration = Duration::from_millis(1500);
/// The least and the most time from one fault to the next, on average.
const SPACING: [Duration; 2] = [Duration::from_millis(600), Duration::from_millis(2000)];

/// Faults from the start to the end of a run: all kinds in a random order, again and again, so that each kind comes
/// once before any comes twice. The first round is complete, however short the run is.
pub fn schedule(ground: &Ground, length: Duration, dice: &mut Dice) -> Vec<Planned> {
    let kinds = ground.faults();
    let spacing = (length.saturating_sub(2 * CALM) / kinds.len() as u32).clamp(SPACING[0], SPACING[1]);
    let mut planned = Vec::new();
    let mut at = CALM;
    loop {
        let mut order = kinds.clone();
        dice.shuffle(&mut order);
        for fault in order {
            if planned.len() >= kinds.len() && at + CALM > length {
                return planned;
            }
            planned.push(plan(fault, at, ground, dice));
            at += spacing.mul_f64(dice.range(50, 150) as f64 / 100.0);
        }
    }
}

fn plan(fault: Fault, at: Duration, ground: &Ground, dice: &mut Dice) -> Planned {
    let mut ms = |from, to| Duration::from_millis(dice.range(from, to));
    let lasts = match fault {
        RequestsParted | RepliesParted | Parted | Stopped | Slow => ms(300, 2500),
        Refused | KilledEmpty | KilledAof | Full => ms(100, 1500),
        WorkerStopped => ground.ttl + ms(600, 1800),
        WorkerPaused => ms(50, 500),
        RunStopped => ground.command_ttl + ms(200, 1500),
        Cut | Flushed | ScriptsFlushed | ClockForward | ClockBack | Evicted | WorkerKilled | RunKilled => {
            Duration::ZERO
        }
    };
    let step = ms(1200, 4000);
    let mut masters: Vec<usize> = (0..ground.masters).collect();
    if fault.hits_workers() {
        masters.clear();
    } else if WITH_MARGIN.contains(&fault) {
        masters.truncate(ground.margin);
    } else {
        dice.shuffle(&mut masters);
        // One master that forgets is outvoted. The quarantine matters when a quorum forgets.
        let forgets = matches!(fault, KilledEmpty | Flushed);
        masters.truncate(match (dice.range(0, 11), forgets) {
            (0, _) | (1..=7, true) => ground.masters,
            (1 | 2, false) | (8, true) => 2,
            _ => 1,
        });
    }
    let way = dice.pick(&[Way::Hold, Way::Swallow]);
    Planned { fault, at, lasts, masters, way, step, draw: dice.bits() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground(margin: usize) -> Ground {
        let (ttl, command_ttl) = (Duration::from_secs(1), Duration::from_millis(2500));
        Ground { masters: 5, margin, clocks: true, commands: true, ttl, command_ttl }
    }

    #[test]
    fn the_same_seed_is_the_same_schedule_and_every_kind_comes() {
        for margin in [0, 1] {
            let ground = ground(margin);
            let make = |seed| schedule(&ground, Duration::from_secs(60), &mut Dice::new(seed));
            assert_eq!(make(7), make(7));
            assert_ne!(make(7), make(8));
            for seconds in [5, 60, 600] {
                let all = schedule(&ground, Duration::from_secs(seconds), &mut Dice::new(seconds));
                for fault in ground.faults() {
                    assert!(all.iter().any(|planned| planned.fault == fault), "{fault:?} in {seconds} s");
                }
            }
        }
    }

    #[test]
    fn clocks_step_and_keys_are_evicted_only_within_the_margin() {
        for seed in 0..50 {
            let within = |margin| schedule(&ground(margin), Duration::from_secs(120), &mut Dice::new(seed));
            assert!(within(0).iter().all(|planned| !WITH_MARGIN.contains(&planned.fault)));
            let outside = |p: &Planned| WITH_MARGIN.contains(&p.fault) && p.masters != [0];
            assert!(!within(1).iter().any(outside));
        }
    }
}
