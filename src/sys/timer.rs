//! Sleeping until a moment of the lease clock, or until woken.

use crate::protocol::time::Mono;
use std::io;

#[cfg(all(target_os = "linux", not(redleash_portable)))]
mod imp {
    use super::{Mono, io};
    use crate::sys::wake::Wake;
    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fd::OwnedFd;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
    };

    /// A timerfd of CLOCK_BOOTTIME, so that a deadline that passed during a suspend is noticed at once after it.
    pub(crate) struct Alarm {
        timer: OwnedFd,
        wake: Wake,
    }

    impl Alarm {
        pub(crate) fn new() -> io::Result<Alarm> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            Ok(Alarm { timer: timerfd_create(TimerfdClockId::Boottime, flags)?, wake: Wake::new()? })
        }

        /// Ends a present or the next sleep.
        pub(crate) fn wake(&self) {
            self.wake.signal();
        }

        /// Sleeps until `at`, or until woken. May return early.
        pub(crate) fn sleep_until(&self, at: Mono) {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            // Zero would disarm it.
            let nanos = at.nanos().clamp(1, i64::MAX as u64);
            let value = Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ };
            let spec = Itimerspec { it_interval: zero, it_value: value };
            let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec);
            let mut fds =
                [PollFd::new(&self.timer, PollFlags::IN), PollFd::from_borrowed_fd(self.wake.fd(), PollFlags::IN)];
            let _ = poll(&mut fds, None);
            let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
            self.wake.drain();
        }
    }
}

#[cfg(not(all(target_os = "linux", not(redleash_portable))))]
mod imp {
    use super::{Mono, io};
    use crate::sys::clock;
    use crate::sys::sync::{Condvar, Mutex, Rank};

    /// A condition variable.
    pub(crate) struct Alarm {
        woken: Mutex<bool>,
        changed: Condvar,
    }

    impl Alarm {
        pub(crate) fn new() -> io::Result<Alarm> {
            Ok(Alarm { woken: Mutex::new(Rank::Alarm, false), changed: Condvar::new() })
        }

        /// Ends a present or the next sleep.
        pub(crate) fn wake(&self) {
            *self.woken.lock() = true;
            self.changed.notify_all();
        }

        /// Sleeps until `at`, or until woken. May return early.
        pub(crate) fn sleep_until(&self, at: Mono) {
            // At most a second at a time: the clock of a condition variable may stand still during a suspend.
            let mut woken = self.woken.lock();
            let left = at.since(clock::now()).min(std::time::Duration::from_secs(1));
            if !*woken && !left.is_zero() {
                woken = self.changed.wait_for(woken, left);
            }
            *woken = false;
        }
    }
}

pub(crate) use imp::Alarm;
