//! The engine's parts as they ship, and a stand-in for what holds them together.

pub(crate) mod root;

#[path = "../../../src/engine/chores.rs"]
pub(crate) mod chores;
#[path = "../../../src/engine/drain.rs"]
pub(crate) mod drain;
#[path = "../../../src/engine/error.rs"]
pub(crate) mod error;
#[path = "../../../src/engine/hold.rs"]
pub(crate) mod hold;
#[path = "../../../src/engine/lease.rs"]
pub(crate) mod lease;
#[path = "../../../src/engine/masters.rs"]
pub(crate) mod masters;
#[path = "../../../src/engine/queue.rs"]
pub(crate) mod queue;
#[path = "../../../src/engine/rounds.rs"]
pub(crate) mod rounds;
#[path = "../../../src/engine/settings.rs"]
pub(crate) mod settings;
#[path = "../../../src/engine/signal.rs"]
pub(crate) mod signal;
#[path = "../../../src/engine/timer.rs"]
pub(crate) mod timer;
#[path = "../../../src/engine/watchdog.rs"]
pub(crate) mod watchdog;
#[path = "../../../src/engine/worker.rs"]
pub(crate) mod worker;

/// No model has the leases renewed by a shared watchdog.
pub(crate) mod shared {
    use super::lease::Lease;
    use std::sync::Arc;

    #[derive(Default)]
    pub(crate) struct SharedWatchdog;

    impl SharedWatchdog {
        pub(crate) fn offer(&self, _: &Arc<Lease>) -> bool {
            false
        }

        pub(crate) fn renew(&self, _: &Arc<Lease>) -> bool {
            false
        }

        pub(crate) fn stop(&self) {}
    }
}

/// How long a caller waits in the local queue.
pub(crate) mod waiting {
    use crate::protocol::{Mono, Wait};
    use std::marker::PhantomData;
    use std::time::Duration;

    pub(crate) struct Patience<'a> {
        pub(crate) wait: Wait,
        pub(crate) limit: Mono,
        pub(crate) lives: PhantomData<&'a ()>,
    }

    impl Patience<'_> {
        pub(crate) fn limit(&self) -> Mono {
            self.limit
        }

        pub(crate) fn goes_on(&self) -> bool {
            true
        }

        pub(crate) fn look(&self) -> Duration {
            Duration::MAX
        }
    }
}
