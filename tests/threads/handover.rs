//! The hand-over of a lane's lead (`src/wire/seat.rs`).

use crate::sys::sync::Mutex;
use crate::wire::seat::{Awaited, Seat, Ticket, Turn};
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

/// A lane reduced to its seat and the replies that wait in its sockets.
struct Lane {
    seat: Seat<Round>,
    replies: Mutex<Vec<Arc<Round>>>,
}

impl Lane {
    fn submit(&self) -> Arc<Round> {
        let round = Arc::new(Round { ticket: Ticket::new() });
        self.replies.lock().push(round.clone());
        round
    }

    /// Reads one reply and wakes whose it is, as the leader does, or the writer that finds a connection broken.
    fn read_one(&self, mine: Option<&Arc<Round>>) {
        let Some(round) = self.replies.lock().pop() else { return };
        if mine.is_some_and(|m| Arc::ptr_eq(m, &round)) {
            round.ticket.mark_done();
        } else if let Some(thread) = self.seat.finish(&round) {
            thread.unpark();
        }
    }

    /// Waits as `Lane::wait` does; `patience` is after how many wake-ups the caller's time is over.
    fn wait(&self, round: &Arc<Round>, mut patience: usize) -> Turn {
        let turn = self.seat.wait(round, || {
            if patience > 0 {
                patience -= 1;
                thread::park();
            }
            patience > 0
        });
        if turn == Turn::Lead {
            while !round.ticket.is_done() {
                self.read_one(Some(round));
                thread::yield_now();
            }
            if let Some(next) = self.seat.hand_over() {
                next.unpark();
            }
        }
        turn
    }
}

/// Some callers wait to the end, one gives up at once, and a fifth thread decides rounds from outside.
fn scenario() {
    let lane = Arc::new(Lane { seat: Seat::new(), replies: Mutex::new(Vec::new()) });
    let mut threads = Vec::new();
    for caller in 0..4 {
        let lane = lane.clone();
        threads.push(thread::spawn(move || {
            for _ in 0..2 {
                let round = lane.submit();
                let patience = if caller == 0 { 0 } else { usize::MAX };
                let turn = lane.wait(&round, patience);
                let answered = round.ticket.is_done();
                assert!(answered || turn == Turn::GaveUp, "a caller left without its answer");
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
    assert!(!lane.seat.is_led(), "the lead was lost");
    assert!(lane.seat.hand_over().is_none(), "a waiter was left behind");
}

#[test]
fn no_wake_up_is_lost_when_the_lead_is_handed_over() {
    world::check("hand-over of the lead", scenario);
}
