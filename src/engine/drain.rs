//! Caretakers: threads that drain a lane. They read its replies while no caller waits on it, so that none is left
//! unread.

use super::chores::{Chore, Chores};
use super::masters::Masters;
use crate::sys::channel::{Sender, unbounded};
use crate::sys::sync::{Mutex, Ordering, Rank};
use crate::sys::thread::survives;
use crate::sys::{clock, journal};
use crate::wire::lane::Lane;
use std::sync::Arc;
use std::time::Duration;

/// How long a lane with unanswered requests may go without a leader.
const LEADERLESS_DELAY: Duration = Duration::from_millis(20);

/// The caretakers of a client, one per lane, started when first needed.
pub(crate) struct Caretakers {
    masters: Arc<Masters>,
    chores: Arc<Chores>,
    slots: Vec<Mutex<Slot>>,
}

enum Slot {
    Empty,
    Filled(Sender<Arc<Lane>>),
    /// The client is closed: a caretaker that was started now would never be ended.
    Closed,
}

impl Caretakers {
    pub(crate) fn new(masters: Arc<Masters>, chores: Arc<Chores>) -> Caretakers {
        let slots = masters.lanes.iter().map(|_| Mutex::new(Rank::Caretaker, Slot::Empty)).collect();
        Caretakers { masters, chores, slots }
    }

    /// Looks after a lane in a moment: it may have replies that no thread reads.
    pub(crate) fn later(&self, lane: usize) {
        let leads = self.masters.lanes[lane].leads.load(Ordering::Relaxed);
        self.chores.enter(clock::now().plus(LEADERLESS_DELAY), Chore::Drain(lane, leads));
    }

    /// Looks after a lane, on the thread of the chores: a caretaker is sent only if no thread has led since the last
    /// look.
    pub(crate) fn due(&self, index: usize, leads: u64) {
        let lane = &self.masters.lanes[index];
        if !lane.is_owed() {
            lane.drain_requested.store(false, Ordering::Release);
            // Something may have been sent between the look and the store.
            if lane.is_owed() {
                lane.request_drain();
            }
            return;
        }
        let busy = lane.is_led() || lane.leads.load(Ordering::Relaxed) != leads;
        if busy || !self.send(lane) {
            self.later(index);
        }
    }

    /// Has `lane` drained; false if no thread could be started.
    fn send(&self, lane: &Arc<Lane>) -> bool {
        let mut slot = self.slots[lane.config.index].lock();
        match &*slot {
            Slot::Closed => return false,
            Slot::Filled(sender) if sender.send(lane.clone()).is_ok() => return true,
            Slot::Filled(_) | Slot::Empty => {}
        }
        let (sender, receiver) = unbounded::<Arc<Lane>>();
        let started = self.masters.threads.spawn("caretaker", move || {
            for lane in receiver {
                if !survives(|| lane.drain()) {
                    journal::error!("a caretaker panicked; it goes on");
                }
                lane.drain_requested.store(false, Ordering::Release);
                if lane.is_owed() {
                    lane.request_drain();
                }
            }
        });
        let sent = started.is_ok() && sender.send(lane.clone()).is_ok();
        *slot = if sent { Slot::Filled(sender) } else { Slot::Empty };
        sent
    }

    /// Ends the threads.
    pub(crate) fn stop(&self) {
        for slot in &self.slots {
            *slot.lock() = Slot::Closed;
        }
    }
}
