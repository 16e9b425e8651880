//! What the library has from the operating system, as the scheduler controls it. The names are those of `src/sys`.

pub(crate) mod channel;

/// No model forks.
pub(crate) fn pid() -> u32 {
    0
}

pub(crate) mod clock {
    pub(crate) use crate::world::now;
}

pub(crate) mod entropy {
    use shuttle::rand::{RngCore, thread_rng};

    pub(crate) fn bits() -> u64 {
        thread_rng().next_u64()
    }
}

/// Lines go to the logger at once: the models read them.
pub(crate) mod journal {
    pub(crate) use log::{debug, error, info, trace, warn};
}

#[path = "../../../src/sys/rank.rs"]
mod rank;

pub(crate) mod sync {
    pub(crate) use super::rank::Rank;
    use crate::protocol::Mono;
    use shuttle::sync::Mutex as Inner;
    pub(crate) use shuttle::sync::MutexGuard;
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

    /// Every order of the locks is tried here: a wrong one is a deadlock.
    pub(crate) fn none_held() {}

    /// No model pauses.
    #[derive(Default)]
    pub(crate) struct Pulse;

    impl Pulse {
        pub(crate) fn notify(&self) {}

        pub(crate) fn wait_until(&self, _: Mono, _: impl Fn() -> bool) -> bool {
            unreachable!("no model pauses")
        }
    }

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(Inner<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(_: Rank, value: T) -> Mutex<T> {
            Mutex(Inner::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub(crate) fn lock_among(&self) -> MutexGuard<'_, T> {
            self.lock()
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    pub(crate) struct OnceLock<T> {
        one: Mutex<()>,
        cell: std::sync::OnceLock<T>,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            OnceLock { one: Mutex::new(Rank::Signal, ()), cell: std::sync::OnceLock::new() }
        }
    }

    impl<T> OnceLock<T> {
        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let _one = self.one.lock();
            if self.cell.get().is_none() {
                let made = make();
                return self.cell.get_or_init(|| made);
            }
            self.cell.get_or_init(|| unreachable!())
        }
    }
}

pub(crate) mod thread {
    pub(crate) use crate::world::park_for as park_timeout;

    /// Once is as good as often, where every order of the threads is tried.
    pub(crate) fn give_way(_: u32, mut done: impl FnMut() -> bool) {
        if !done() {
            shuttle::thread::yield_now();
        }
    }
    pub(crate) use shuttle::thread::{Thread, current};
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Threads, or none while they are `scarce`.
    #[derive(Default)]
    pub(crate) struct Threads {
        pub(crate) scarce: AtomicBool,
    }

    impl Threads {
        pub(crate) fn spawn(self: &Arc<Self>, role: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
            if self.scarce.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            crate::world::start(role, body);
            Ok(())
        }

        pub(crate) fn spawn_deep(self: &Arc<Self>, role: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
            self.spawn(role, body)
        }
    }

    /// A panic is a model's failure, and goes on.
    pub(crate) fn survives(foreign: impl FnOnce()) -> bool {
        foreign();
        true
    }
}

pub(crate) mod timer {
    use super::wake::Wake;
    use crate::protocol::Mono;
    use crate::world;
    use std::io;

    /// Sleeps until a moment of the world's clock.
    pub(crate) struct Alarm(Wake);

    impl Alarm {
        pub(crate) fn new() -> io::Result<Alarm> {
            Ok(Alarm(Wake::new()?))
        }

        pub(crate) fn wake(&self) {
            self.0.signal();
        }

        pub(crate) fn sleep_until(&self, at: Mono) {
            let wake = self.0.clone();
            world::wait_until(move || wake.is_signalled() || world::now() >= at);
            self.0.drain();
        }
    }
}

pub(crate) mod wake {
    use crate::world;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A flag in the place of a descriptor.
    #[derive(Clone)]
    pub(crate) struct Wake(Arc<AtomicBool>);

    impl Wake {
        pub(crate) fn new() -> io::Result<Wake> {
            Ok(Wake(Arc::default()))
        }

        pub(crate) fn signal(&self) {
            world::step();
            self.0.store(true, Ordering::SeqCst);
            world::changed();
        }

        pub(crate) fn drain(&self) {
            world::step();
            self.0.store(false, Ordering::SeqCst);
        }

        pub(crate) fn is_signalled(&self) -> bool {
            self.0.load(Ordering::SeqCst)
        }
    }
}
