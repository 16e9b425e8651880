//! A timer of the kernel that kills this process, also if it is stopped.

#[cfg(target_os = "linux")]
mod imp {
    use crate::system::clock::Moment;
    use nix::sys::signal::{SigEvent, SigevNotify, Signal};
    use nix::sys::time::TimeSpec;
    use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
    use nix::time::ClockId;
    use std::io;
    use std::time::Duration;

    /// See the module.
    pub(crate) struct Fuse(Timer);

    impl Fuse {
        pub(crate) fn new() -> io::Result<Fuse> {
            let kill = SigEvent::new(SigevNotify::SigevSignal { signal: Signal::SIGKILL, si_value: 0 });
            Timer::new(ClockId::CLOCK_BOOTTIME, kill).map(Fuse).map_err(|e| {
                let e = io::Error::from(e);
                io::Error::new(e.kind(), format!("the kernel refuses a timer: {e}"))
            })
        }

        /// Kills this process at `at`; what was set before does not count any more.
        pub(crate) fn set(&mut self, at: Moment) -> io::Result<()> {
            // Zero would switch it off.
            let at = TimeSpec::from_duration(Duration::from_nanos(at.0.max(1)));
            Ok(self.0.set(Expiration::OneShot(at), TimerSetTimeFlags::TFD_TIMER_ABSTIME)?)
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use crate::system::clock::Moment;
    use std::io;

    /// Not on this operating system: nothing is contained here, so nothing needs it.
    pub(crate) struct Fuse;

    impl Fuse {
        pub(crate) fn new() -> io::Result<Fuse> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "this operating system has no timer that kills a process"))
        }

        pub(crate) fn set(&mut self, _: Moment) -> io::Result<()> {
            Ok(())
        }
    }
}

pub(crate) use imp::Fuse;
