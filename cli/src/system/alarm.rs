//! Polling with an end at a moment, also if the machine sleeps meanwhile.

use super::clock::Moment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io;
use std::time::Duration;

/// Waits until one of `readers` can be read, `due` has come, or `limit` is over. Returns which of them can be read. A
/// signal ends the wait as well.
pub(crate) fn wait(
    alarm: &mut Alarm,
    readers: &[BorrowedFd<'_>],
    due: Moment,
    limit: Option<Duration>,
) -> io::Result<Vec<bool>> {
    let limit = alarm.set(due)?.into_iter().chain(limit).min().map(timespec);
    let mut all: Vec<PollFd<'_>> = readers.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    all.extend(alarm.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
    match poll(&mut all, limit.as_ref()) {
        Ok(_) => Ok(all.iter().take(readers.len()).map(|fd| !fd.revents().is_empty()).collect()),
        Err(Errno::INTR) => Ok(vec![false; readers.len()]),
        Err(e) => Err(e.into()),
    }
}

fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: d.as_secs() as _, tv_nsec: d.subsec_nanos() as _ }
}

#[cfg(target_os = "linux")]
mod imp {
    use super::{BorrowedFd, Duration, Moment, io, timespec};
    use rustix::fd::{AsFd, OwnedFd};
    use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

    /// A timer that continues while the machine sleeps; the timeout of a poll does not.
    pub(crate) struct Alarm(OwnedFd);

    impl Alarm {
        pub(crate) fn new() -> io::Result<Alarm> {
            Ok(Alarm(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?))
        }

        /// Setting it also forgets that it has rung. Returns the timeout of the poll, which the timer makes
        /// superfluous.
        pub(super) fn set(&mut self, due: Moment) -> io::Result<Option<Duration>> {
            // Zero switches it off.
            let nanos = if due == Moment::NEVER { 0 } else { due.0.max(1) };
            let zero = timespec(Duration::ZERO);
            let spec = Itimerspec { it_interval: zero, it_value: timespec(Duration::from_nanos(nanos)) };
            timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &spec)?;
            Ok(None)
        }

        pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::{BorrowedFd, Duration, Moment, io};

    /// Here it is the timeout of a poll.
    pub(crate) struct Alarm;

    impl Alarm {
        pub(crate) fn new() -> io::Result<Alarm> {
            Ok(Alarm)
        }

        pub(super) fn set(&mut self, due: Moment) -> io::Result<Option<Duration>> {
            Ok((due != Moment::NEVER).then(|| due.since(Moment::now())))
        }

        pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }
}

pub(crate) use imp::Alarm;
