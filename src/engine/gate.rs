//! What the gate of a lease protects.

use super::timer::Key;
use crate::protocol::Mono;
use crate::protocol::handover::Handover;
use crate::protocol::lease::{self, Lease, LeaseState};
use crate::wire::op::Op;
use std::sync::Arc;
use std::time::Duration;

/// An extension under way.
pub(super) struct Renewing(pub(super) lease::Extension);

/// What the gate protects: whoever writes about this lease passes it first.
pub(super) struct Gate {
    pub(super) lease: Lease,
    pub(super) timer: Option<Key>,
    pub(super) handover: Handover,
    /// The extension under way, to be closed before a release is queued.
    pub(super) extension: Option<Arc<Op>>,
    /// The longest ttl that an extension has asked for; if there was one, any master may have the key.
    pub(super) extended: Option<Duration>,
    /// The loss is in the log.
    pub(super) loss_logged: bool,
}

impl Gate {
    /// An extension that asks for `ttl` is about to be queued.
    pub(super) fn extends(&mut self, ttl: Duration) {
        self.extended = self.extended.max(Some(ttl));
    }

    /// Ends the lease on our side; the state it was in. Nothing of an extension is sent again from here on.
    pub(super) fn release(&mut self, now: Mono) -> LeaseState {
        if let Some(op) = self.extension.take() {
            op.close();
        }
        self.lease.release(now)
    }
}
