//! When a command is ended: decisions alone, without a clock and without I/O.

use crate::args::OnLost;
use crate::system::clock::Moment;
use std::time::Duration;

/// How long before the end of the lease SIGKILL is sent at the latest.
const MARGIN: Duration = Duration::from_millis(500);
/// How long the processes that a command left behind have to end by themselves: a `tee` may still have something to
/// write.
const GRACE: Duration = Duration::from_secs(1);
/// The shortest ttl that leaves time to end a command.
pub(crate) const LEAST_TTL: Duration = Duration::from_secs(1);

/// The times between SIGTERM, SIGKILL and the end of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) kill_after: Duration,
    pub(crate) margin: Duration,
}

impl Times {
    /// A ttl below 4 s has no half second to spare: there the margin is an eighth of the ttl.
    pub(crate) fn new(ttl: Duration, kill_after: Option<Duration>) -> Times {
        let kill_after = kill_after.unwrap_or_else(|| (ttl / 4).min(Duration::from_secs(5)));
        Times { kill_after, margin: MARGIN.min(ttl / 8) }
    }
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// SIGTERM to the command and what it started.
    Term,
    /// SIGKILL to them.
    Kill,
    /// Nothing before this moment.
    Wait(Moment),
}

/// The end of one command.
///
/// Proof obligation: `until` never lies after the end of the lease, and under `OnLost::Kill` the answer at
/// `until - margin` and after is `Kill`, whatever happened before.
pub(crate) struct Ending {
    times: Times,
    on_lost: OnLost,
    until: Moment,
    /// The lock is lost, or nobody is left to renew it.
    over: bool,
    /// When the command ended, if it left processes behind.
    left_others: Option<Moment>,
    /// When they got SIGTERM.
    termed: Option<Moment>,
    /// When they got SIGKILL.
    killed: Option<Moment>,
}

impl Ending {
    pub(crate) fn new(times: Times, on_lost: OnLost, until: Moment) -> Ending {
        Ending { times, on_lost, until, over: false, left_others: None, termed: None, killed: None }
    }

    /// The lease was renewed. After SIGTERM that changes nothing: the command may be halfway through its end.
    pub(crate) fn renewed(&mut self, until: Moment) {
        if self.termed.is_none() {
            self.until = until;
        }
    }

    /// The lock is lost, or nobody is left to renew it: end the command now.
    pub(crate) fn over(&mut self) {
        self.over = true;
    }

    /// The command has ended, and processes that it started have not.
    pub(crate) fn left_others(&mut self, now: Moment) {
        self.left_others.get_or_insert(now);
    }

    /// When they got SIGKILL.
    pub(crate) fn killed(&self) -> Option<Moment> {
        self.killed
    }

    /// What to do at `now`, and done with that: the next answer supposes that it was done.
    pub(crate) fn step(&mut self, now: Moment) -> Step {
        // --on-lost spares the command, not what it left behind.
        let policy = if self.left_others.is_some() { OnLost::Kill } else { self.on_lost };
        if policy == OnLost::Warn || self.killed.is_some() {
            return Step::Wait(Moment::NEVER);
        }
        let last = self.until.minus(self.times.margin);
        let Some(termed) = self.termed else {
            let due = last.minus(self.times.kill_after);
            let due = self.left_others.map_or(due, |at| due.min(at.plus(GRACE)));
            if !self.over && now < due {
                return Step::Wait(due);
            }
            self.termed = Some(now);
            return Step::Term;
        };
        if policy == OnLost::Term {
            return Step::Wait(Moment::NEVER);
        }
        let kill = termed.plus(self.times.kill_after).min(last);
        if now < kill {
            return Step::Wait(kill);
        }
        self.killed = Some(now);
        Step::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Moment {
        Moment(ms * 1_000_000)
    }

    fn ending(on_lost: OnLost) -> Ending {
        Ending::new(Times::new(Duration::from_secs(16), None), on_lost, at(16_000))
    }

    #[test]
    fn a_lease_that_is_not_renewed() {
        let mut e = ending(OnLost::Kill);
        assert_eq!(e.step(at(0)), Step::Wait(at(11_500)));
        e.renewed(at(21_000));
        assert_eq!(e.step(at(11_500)), Step::Wait(at(16_500)));
        assert_eq!(e.step(at(16_500)), Step::Term);
        assert_eq!(e.step(at(16_500)), Step::Wait(at(20_500)));
        e.renewed(at(30_000));
        assert_eq!(e.step(at(20_500)), Step::Kill);
        assert_eq!(e.step(at(20_501)), Step::Wait(Moment::NEVER));
    }

    #[test]
    fn a_machine_that_slept_beyond_the_lease() {
        let mut e = ending(OnLost::Kill);
        assert_eq!(e.step(at(99_000)), Step::Term);
        assert_eq!(e.step(at(99_000)), Step::Kill);
    }

    #[test]
    fn a_loss_leaves_kill_after_and_never_more_than_the_lease() {
        let mut e = ending(OnLost::Kill);
        e.over();
        assert_eq!(e.step(at(1000)), Step::Term);
        assert_eq!(e.step(at(1000)), Step::Wait(at(5000)));
        let mut e = ending(OnLost::Kill);
        e.over();
        assert_eq!(e.step(at(14_000)), Step::Term);
        assert_eq!(e.step(at(14_000)), Step::Wait(at(15_500)));
    }

    #[test]
    fn policies() {
        let mut e = ending(OnLost::Term);
        assert_eq!(e.step(at(12_000)), Step::Term);
        assert_eq!(e.step(at(99_000)), Step::Wait(Moment::NEVER));
        let mut e = ending(OnLost::Warn);
        e.over();
        assert_eq!(e.step(at(99_000)), Step::Wait(Moment::NEVER));
    }

    #[test]
    fn leftovers_have_a_grace() {
        let mut e = ending(OnLost::Warn);
        e.left_others(at(2000));
        assert_eq!(e.step(at(2000)), Step::Wait(at(3000)));
        assert_eq!(e.step(at(3000)), Step::Term);
        assert_eq!(e.step(at(3000)), Step::Wait(at(7000)));
        assert_eq!(e.step(at(7000)), Step::Kill);
    }

    #[test]
    fn the_documented_times() {
        let seconds = Duration::from_secs;
        assert_eq!(Times::new(seconds(15), None).kill_after, Duration::from_millis(3750));
        assert_eq!(Times::new(seconds(60), None).kill_after, seconds(5));
        assert_eq!(Times::new(seconds(60), Some(seconds(20))).kill_after, seconds(20));
        assert_eq!(Times::new(seconds(4), None).margin, Duration::from_millis(500));
    }
}
