//! The hand-over of a lane's lead (`src/wire/leader.rs`).

use crate::sys::sync::{Mutex, Rank};
use crate::wire::leader::{Awaited, Leader, Ticket, WaitEnd};
use crate::world;
use shuttle::thread;
use std::sync::Arc;

/// A round: done when its reply has been read.
struct Round {
    ticket: Ticket,
}

impl Awaited for Round {
    fn ticket(&self) -> &Ticket {
        &self.ticket
    }
}

/// A lane reduced to its leader and the replies that wait in its sockets.
struct Lane {
    leader: Leader<Round>,
    replies: Mutex<Vec<Arc<Round>>>,
}

impl Lane {
    fn submit(&self) -> Arc<Round> {
        let round = Arc::new(Round { ticket: Ticket::new() });
        self.replies.lock().push(round.clone());
        round
    }

    /// Reads one reply and wakes the thread that waits for it, as the leader does, or a writer that finds a connection
    /// broken.
    fn read_one(&self, mine: Option<&Arc<Round>>) {
        let Some(round) = self.replies.lock().pop() else { return };
        if mine.is_some_and(|m| Arc::ptr_eq(m, &round)) {
            round.ticket.mark_done();
        } else if let Some(thread) = self.leader.finish(&round) {
            thread.unpark();
        }
    }

    /// Waits as `Lane::wait` does; `patience` is after how many wake-ups the caller's time is over.
    fn wait(&self, round: &Arc<Round>, mut patience: usize) -> WaitEnd {
        let end = self.leader.wait(round, || {
            if patience > 0 {
                patience -= 1;
                thread::park();
            }
            patience > 0
        });
        if end == WaitEnd::Lead {
            while !round.ticket.is_done() {
                self.read_one(Some(round));
                thread::yield_now();
            }
            if let Some(next) = self.leader.promote() {
                next.unpark();
            }
        }
        end
    }
}

/// Some callers wait to the end, one gives up at once, and a fifth thread decides rounds from outside.
fn scenario() {
    let lane = Arc::new(Lane { leader: Leader::new(), replies: Mutex::new(Rank::Inbox, Vec::new()) });
    let mut threads = Vec::new();
    for caller in 0..4 {
        let lane = lane.clone();
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                let round = lane.submit();
                let patience = if caller == 0 { 0 } else { usize::MAX };
                let end = lane.wait(&round, patience);
                let answered = round.ticket.is_done();
                assert!(answered || end == WaitEnd::GaveUp, "a caller left without its answer");
                assert!(caller == 0 || answered, "only the impatient one gives up");
            }
        }));
    }
    let outsider = lane.clone();
    threads.push(thread::spawn(move || {
        for _ in 0..2 {
            outsider.read_one(None);
        }
    }));
    for thread in threads {
        thread.join().unwrap();
    }
    assert!(!lane.leader.is_led(), "the lead was lost");
    assert!(lane.leader.promote().is_none(), "a waiter was left behind");
}

#[test]
fn no_wake_up_is_lost_when_the_lead_is_handed_over() {
    world::check("hand-over of the lead", scenario);
}
