//! Caretakers: threads that read a lane when nobody waits on it, so that no reply is left unread.

use super::chores::Chore;
use super::core::Engine;
use crate::sys::channel::{Sender, unbounded};
use crate::sys::sync::{Mutex, Ordering};
use crate::sys::thread::{Threads, survives};
use crate::sys::{clock, journal};
use crate::wire::lane::Lane;
use std::sync::Arc;
use std::time::Duration;

/// How long a lane with unanswered requests may go without a leader.
const PATIENCE: Duration = Duration::from_millis(20);

/// The caretakers of a client, one per lane, started when first needed.
pub(crate) struct Caretakers(Vec<Mutex<Slot>>);

#[derive(Default)]
enum Slot {
    #[default]
    Empty,
    Filled(Sender<Arc<Lane>>),
    /// The client is closed: a caretaker that was started now would never be ended.
    Closed,
}

impl Caretakers {
    pub(crate) fn new(lanes: usize) -> Caretakers {
        Caretakers((0..lanes).map(|_| Mutex::default()).collect())
    }

    /// Has `lane` read until nothing is owed; false if no thread could be started.
    fn send(&self, threads: &Arc<Threads>, lane: &Arc<Lane>) -> bool {
        let mut slot = self.0[lane.config.index].lock();
        match &*slot {
            Slot::Closed => return false,
            Slot::Filled(sender) if sender.send(lane.clone()).is_ok() => return true,
            Slot::Filled(_) | Slot::Empty => {}
        }
        let (sender, receiver) = unbounded::<Arc<Lane>>();
        let started = threads.spawn("caretaker", move || {
            for lane in receiver {
                if !survives(|| lane.take_care()) {
                    journal::error!("a caretaker panicked; it goes on");
                }
                lane.attended.store(false, Ordering::Release);
                if lane.is_owed() {
                    lane.attend();
                }
            }
        });
        let sent = started.is_ok() && sender.send(lane.clone()).is_ok();
        *slot = if sent { Slot::Filled(sender) } else { Slot::Empty };
        sent
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        for slot in &self.0 {
            *slot.lock() = Slot::Closed;
        }
    }
}

/// How often idle connections are looked at.
const SWEEP: Duration = Duration::from_secs(1);

impl Engine {
    /// Looks at idle connections, on the thread of the chores, now and then.
    pub(crate) fn sweep_due(&self) {
        for lane in &self.lanes {
            lane.sweep();
        }
        self.queues.sweep(clock::now());
        self.log_lateness();
        self.chores.enter(clock::now().plus(SWEEP), Chore::Sweep);
    }

    /// A lane may have replies that nobody reads: asked for by the lane, looked after in a moment.
    pub(crate) fn care_later(&self, index: usize) {
        let Some(lane) = self.lanes.get(index) else { return };
        let leads = lane.leads.load(Ordering::Relaxed);
        self.chores.enter(clock::now().plus(PATIENCE), Chore::Care(index, leads));
    }

    /// Looks after a lane, on the thread of the chores: a caretaker is sent only if nobody has led since the last look.
    pub(crate) fn care_due(&self, index: usize, leads: u64) {
        let Some(lane) = self.lanes.get(index) else { return };
        if !lane.is_owed() {
            lane.attended.store(false, Ordering::Release);
            // Something may have been sent between the look and the store.
            if lane.is_owed() {
                lane.attend();
            }
            return;
        }
        let busy = lane.is_led() || lane.leads.load(Ordering::Relaxed) != leads;
        if busy || !self.caretakers.send(&self.threads, lane) {
            self.care_later(index);
        }
    }
}
