//! How long a caller waits, and what it is asked meanwhile.

use crate::protocol::{Mono, Wait};
use crate::sys::sync::none_held;
use std::sync::Arc;
use std::time::Duration;

/// The longest park: its clock may stand still during a suspend.
const PARK_INTERVAL: Duration = Duration::from_secs(1);

/// How often a caller is asked whether to go on: as soon as a person expects an answer.
const ASK_INTERVAL: Duration = Duration::from_millis(50);

/// A pause chosen by the user: the number of pauses so far in, the pause out.
pub(crate) type Pause = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// How long a call waits, and whether it still wants to. What the user gave for that runs on the calling thread, with
/// no mutex locked.
pub(crate) struct Patience<'a> {
    pub(crate) wait: Wait,
    /// The pauses between attempts, if the user chose them.
    pub(crate) pause: Option<&'a Pause>,
    go_on: Option<&'a mut dyn FnMut() -> bool>,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(wait: Wait, pause: Option<&'a Pause>) -> Patience<'a> {
        Patience { wait, pause, go_on: None }
    }

    pub(crate) fn asking(wait: Wait, pause: Option<&'a Pause>, go_on: &'a mut dyn FnMut() -> bool) -> Patience<'a> {
        Patience { wait, pause, go_on: Some(go_on) }
    }

    /// The moment after which there is nothing to wait for.
    pub(crate) fn limit(&self) -> Mono {
        if let Wait::Until(limit) = self.wait { limit } else { Mono::NEVER }
    }

    /// Whether the caller wants to go on; it is asked.
    pub(crate) fn goes_on(&mut self) -> bool {
        none_held();
        self.go_on.as_mut().is_none_or(|go_on| go_on())
    }

    /// The longest park at a time.
    pub(crate) fn longest_park(&self) -> Duration {
        if self.go_on.is_some() { ASK_INTERVAL } else { PARK_INTERVAL }
    }
}
