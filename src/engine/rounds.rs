//! One round that was waited for.

use crate::protocol::{Mono, Round};
use crate::sys::clock;
use crate::wire::lane::Lane;
use crate::wire::request::Request;
use std::sync::Arc;

/// A round that was waited for, to its decision or its deadline.
pub(crate) struct RoundResult {
    pub(crate) request: Arc<Request>,
    pub(crate) start: Mono,
    /// Read after the last answer that was looked at.
    pub(crate) end: Mono,
}

impl RoundResult {
    /// Waits for a round that was queued at `start`, at most until `deadline`.
    pub(crate) fn wait(lane: &Lane, request: Arc<Request>, start: Mono, deadline: Mono) -> RoundResult {
        lane.flush();
        lane.wait(&request, deadline);
        RoundResult { request, start, end: clock::now() }
    }

    /// Looks at the answers, and reads the clock after them: no vote comes in between, so none that is counted is later
    /// than the time given.
    pub(crate) fn look<T>(&mut self, look: impl FnOnce(&mut Round, Mono) -> T) -> T {
        let mut round = self.request.round.lock();
        self.end = clock::now();
        look(&mut round, self.end)
    }
}
