//! What the pools report: counted for the statistics, and written to the log.
//!
//! r2d2 calls these on the thread that uses the pool. One of them, the timeout, comes with r2d2's mutex locked, and a
//! connection may come back under one of ours. So they do nothing but count and queue a line for the logger.

use crate::sys::journal;
use crate::sys::sync::{AtomicU64, Ordering};
use std::io;
use std::sync::Arc;

/// Counts of all pools of a client. A connection goes in when it is made, and is either idle or checked out.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    made: AtomicU64,
    closed: AtomicU64,
    check_outs: AtomicU64,
    check_ins: AtomicU64,
    failed_tests: AtomicU64,
}

impl Counts {
    /// A connection was checked out.
    pub(crate) fn checked_out(&self) {
        self.check_outs.fetch_add(1, Ordering::Relaxed);
    }

    /// How many connections have come into the pools.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// How many have left them for good.
    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// How often one was checked out.
    pub(crate) fn check_outs(&self) -> u64 {
        self.check_outs.load(Ordering::Relaxed)
    }

    /// How often one did not pass the test.
    pub(crate) fn failed_tests(&self) -> u64 {
        self.failed_tests.load(Ordering::Relaxed)
    }

    /// How many are open now.
    pub(crate) fn open(&self) -> u64 {
        self.made().saturating_sub(self.closed())
    }

    /// How many of these nobody uses.
    pub(crate) fn idle(&self) -> u64 {
        let in_use = self.check_outs().saturating_sub(self.check_ins.load(Ordering::Relaxed));
        self.open().saturating_sub(in_use)
    }
}

/// The events of one pool.
#[derive(Clone, Debug)]
pub(super) struct Events {
    master: Arc<str>,
    counts: Arc<Counts>,
}

impl Events {
    pub(super) fn new(master: &str, counts: &Arc<Counts>) -> Events {
        Events { master: master.into(), counts: counts.clone() }
    }
}

impl r2d2::HandleEvent for Events {
    fn handle_acquire(&self, event: r2d2::event::AcquireEvent) {
        self.counts.made.fetch_add(1, Ordering::Relaxed);
        journal::trace!("{}: connection {} comes into the pool", self.master, event.connection_id());
    }

    fn handle_release(&self, event: r2d2::event::ReleaseEvent) {
        self.counts.closed.fetch_add(1, Ordering::Relaxed);
        let id = event.connection_id();
        journal::debug!("{}: connection {id} is closed after {:.1?}", self.master, event.age());
    }

    fn handle_checkout(&self, event: r2d2::event::CheckoutEvent) {
        self.counts.checked_out();
        let id = event.connection_id();
        journal::trace!("{}: connection {id} is checked out after {:.1?}", self.master, event.duration());
    }

    fn handle_timeout(&self, event: r2d2::event::TimeoutEvent) {
        journal::debug!("{}: the pool gave no connection within {:.1?}", self.master, event.timeout());
    }

    fn handle_checkin(&self, event: r2d2::event::CheckinEvent) {
        self.counts.check_ins.fetch_add(1, Ordering::Relaxed);
        let id = event.connection_id();
        journal::trace!("{}: connection {id} comes back after {:.1?}", self.master, event.duration());
    }
}

impl r2d2::HandleError<io::Error> for Events {
    fn handle_error(&self, error: io::Error) {
        // r2d2 also asks for connections when none is handed in: that is nobody's error.
        if error.kind() != io::ErrorKind::NotFound {
            self.counts.failed_tests.fetch_add(1, Ordering::Relaxed);
            journal::debug!("{}: an idle connection did not pass its test and is closed: {error}", self.master);
        }
    }
}
