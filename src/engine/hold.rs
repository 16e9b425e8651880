//! One guard's part of a lock: the lease while this guard holds it, its place in the local queue, and its signal of a
//! loss; how it is handed over, released and dropped.
//!
//! A lease that is handed over has one hold after the other. Each has a signal of its own, so that a loss is
//! announced to the guard that holds the lease then, and to no other.

use super::error::{Error, Lost, MasterAnswer, MasterReport, ReleaseOutcome, Unconfirmed};
use super::lease::{Ended, Holder, Lease};
use super::queue::Place;
use super::rounds::RoundResult;
use super::signal::{Callback, Callbacks, Signal};
use super::watchdog::Watchdogs;
use super::worker::Worker;
use crate::protocol::command::Tell;
use crate::protocol::lease::LeaseState;
use crate::protocol::{LossReason, Mono};
use crate::sys::channel::Receiver;
use crate::sys::clock;
use crate::sys::sync::{Mutex, Rank};
use std::sync::{Arc, Weak};

/// The client of a hold, which the hold keeps alive.
pub(crate) trait Home: Send + Sync {
    fn watchdogs(&self) -> &Watchdogs;
    fn callbacks(&self) -> &Callbacks;
}

/// See the module.
pub(crate) struct Hold {
    pub(crate) lease: Arc<Lease>,
    signal: Signal,
    /// The place in the local queue, where the lock was queued for; given up with the release or the loss.
    place: Mutex<Option<Place>>,
    home: Arc<dyn Home>,
}

impl Hold {
    /// Holds `lease`, which has no holder now.
    pub(crate) fn new(home: Arc<dyn Home>, lease: Arc<Lease>, place: Option<Place>) -> Arc<Hold> {
        let hold = Arc::new(Hold { lease, signal: Signal::default(), place: Mutex::new(Rank::Place, place), home });
        let weak = Arc::downgrade(&hold);
        if let Some(lost) = hold.lease.held_by(weak as Weak<dyn Holder>) {
            hold.lost(&lost);
        }
        hold
    }

    /// The channel on which the loss is announced.
    pub(crate) fn lost_signal(&self) -> &Receiver<Lost> {
        let forked = self.lease.masters().is_forked().then(|| self.lease.lost_by(LossReason::Forked));
        self.signal.receiver(forked)
    }

    /// Has `callback` called when the lock is lost; soon, if it is already.
    pub(crate) fn on_lost(&self, callback: Callback) {
        if self.lease.masters().is_forked() {
            return;
        }
        if let Some((callback, Some(lost))) = self.signal.on_lost(callback) {
            self.call(callback, lost);
        }
    }

    fn call(&self, callback: Callback, lost: Lost) {
        self.home.callbacks().call(&self.lease.masters().threads, callback, lost);
    }

    /// Gives the place in the local queue, if there is one, to the next.
    fn leave_place(&self) {
        let place = self.place.lock().take();
        drop(place);
    }

    /// The watchdog thread of an ended lease may serve another one.
    fn keep(&self, worker: Option<Worker<Lease>>) {
        if let Some(worker) = worker {
            self.home.watchdogs().keep(worker);
        }
    }

    /// Hands the lease to the next in this process, without the masters.
    fn pass_on(&self) -> bool {
        let mut slot = self.place.lock();
        if let Some(place) = slot.take() {
            *slot = place.hand_over(&self.lease, || self.lease.pass_on());
            return slot.is_none();
        }
        false
    }

    /// Ends the lease on our side and queues its release, and has the next in this process contend behind that.
    fn end(&self, awaited: bool) -> Ended {
        let now = clock::now();
        let tell = self.place.lock().as_ref().map_or(Tell::AT_ONCE, |place| place.tell(now));
        let ended = self.lease.end(now, tell, awaited);
        if ended.release.is_some() {
            let place = self.place.lock().take();
            if let Some(place) = place {
                place.released(now, awaited);
            }
        }
        ended
    }

    /// Releases and waits for a quorum to confirm it.
    pub(crate) fn release(&self) -> ReleaseOutcome {
        let lease = &self.lease;
        let masters = lease.masters();
        if masters.is_forked() {
            return ReleaseOutcome::AlreadyLost(lease.lost_by(LossReason::Forked));
        }
        if self.pass_on() {
            drop(self.signal.end());
            return ReleaseOutcome::Released;
        }
        let Ended { before, release, worker } = self.end(true);
        // Dropped at the end, so that a panic in the drop of a user's closure leaves nothing undone.
        let _callbacks = self.signal.end();
        self.keep(worker);
        let Some(request) = release else { return ReleaseOutcome::Released };
        let start = clock::now();
        if let LeaseState::Lost(reason) = before {
            lease.lane().flush();
            lease.lane().request_drain();
            return ReleaseOutcome::AlreadyLost(lease.lost_by(reason));
        }
        let limit = masters.settings.round_timeout(lease.ttl());
        let round = RoundResult::wait(lease.lane(), request, start, start.plus(limit));
        let answers = round.request.round.lock();
        if answers.reached() {
            ReleaseOutcome::Released
        } else if answers.taken() {
            ReleaseOutcome::AlreadyLost(lease.lost_by(LossReason::Taken))
        } else if answers.taken_or_absent() {
            ReleaseOutcome::AlreadyLost(lease.lost_by(LossReason::KeyAbsent))
        } else {
            let unsure = |(i, m): &(usize, MasterReport)| {
                round.request.targets >> i & 1 == 1 && matches!(m.answer, MasterAnswer::Failed(_))
            };
            let tally = masters.tally_of(&round, &answers);
            ReleaseOutcome::Unconfirmed(Unconfirmed {
                name: lease.keys.name.to_string(),
                masters: tally.masters.into_iter().enumerate().filter(unsure).map(|(_, m)| m).collect(),
            })
        }
    }

    /// Writes the release and does not wait. In a forked child it does nothing, and says so: the lock is the parent's.
    pub(crate) fn let_go(&self) -> bool {
        if self.lease.masters().is_forked() {
            return false;
        }
        if self.pass_on() {
            drop(self.signal.end());
            return true;
        }
        let Ended { release, worker, .. } = self.end(false);
        let _callbacks = self.signal.end();
        self.keep(worker);
        if release.is_some() {
            self.lease.lane().flush();
            self.lease.lane().request_drain();
        }
        true
    }

    /// Gives the lease up on our side without releasing it on the masters: another process adopts it until the moment
    /// that is answered.
    pub(crate) fn detach(&self) -> Result<Mono, Error> {
        let (until, worker) = self.lease.detach()?;
        self.leave_place();
        self.keep(worker);
        drop(self.signal.end());
        Ok(until)
    }
}

impl Holder for Hold {
    fn lost(&self, lost: &Lost) {
        // The next thread of this process may try: the key ends soon, or is another owner's.
        self.leave_place();
        for callback in self.signal.fire(lost) {
            self.call(callback, lost.clone());
        }
    }
}
