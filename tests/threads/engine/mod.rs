//! The engine's parts as they ship, and a stand-in for what holds them together.

pub(crate) mod core;

#[path = "../../../src/engine/care.rs"]
pub(crate) mod care;
#[path = "../../../src/engine/chores.rs"]
pub(crate) mod chores;
#[path = "../../../src/engine/error.rs"]
pub(crate) mod error;
#[path = "../../../src/engine/gate.rs"]
pub(crate) mod gate;
#[path = "../../../src/engine/held.rs"]
pub(crate) mod held;
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

/// No model acquires.
pub(crate) mod acquire {
    pub(crate) fn undo(_: &super::core::Engine, _: &crate::wire::op::Op, _: bool) {}
}

/// No model has the leases renewed by a shared watchdog.
pub(crate) mod shared {
    use super::core::Engine;
    use super::held::Held;
    use std::sync::Arc;

    #[derive(Default)]
    pub(crate) struct SharedWatchdog;

    impl SharedWatchdog {
        pub(crate) fn offer(&self, _: &Arc<Held>) -> bool {
            false
        }

        pub(crate) fn renew(&self, _: &Arc<Engine>, _: &Arc<Held>) -> bool {
            false
        }
    }
}

/// How long a caller waits in line.
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

/// No model asks for a fencing token.
pub(crate) mod fence {
    use super::core::Engine;
    use super::error::Error;
    use super::held::Held;

    pub(crate) fn ask(_: &Engine, _: &Held) -> Result<u64, Error> {
        Err(Error::Closed)
    }
}
