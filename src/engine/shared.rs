//! One watchdog thread for all leases of a client: renewals that fall due together travel together.

use super::core::Engine;
use super::gate::Renewing;
use super::held::Held;
use super::rounds::Finished;
use crate::protocol::command::Renewal;
use crate::protocol::{Command, LossReason, Mono, Operation};
use crate::sys::sync::Mutex;
use crate::sys::thread::survives;
use crate::sys::{clock, entropy, journal};
use crate::wire::lane::Lane;
use crate::wire::op::Op;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How many leases one script renews.
const BATCH: usize = 100;
// One code for each, and what stands around them.
const _: () = assert!(BATCH + 4 <= crate::wire::reply::VALUES);
/// How many scripts are under way at once; more would fill the sockets.
const BATCHES: usize = 16;
/// How long the first renewal that is due waits for company.
const GATHER: Duration = Duration::from_millis(25);

/// The shared watchdog of a client; its thread starts with the first renewal.
#[derive(Default)]
pub(crate) struct SharedWatchdog(Mutex<Option<Sender<Arc<Held>>>>);

impl SharedWatchdog {
    /// Has the lease renewed soon, if the thread runs already. Called with its gate closed, on the timer's thread.
    pub(crate) fn offer(&self, held: &Arc<Held>) -> bool {
        self.0.lock().as_ref().is_some_and(|sender| sender.send(held.clone()).is_ok())
    }

    /// The same; the thread is started if it does not run. False if there is none to do it.
    pub(crate) fn renew(&self, engine: &Arc<Engine>, held: &Arc<Held>) -> bool {
        let mut slot = self.0.lock();
        if engine.is_closed() {
            return false;
        }
        if slot.is_none() {
            let (sender, jobs) = unbounded();
            let weak = Arc::downgrade(engine);
            if let Err(e) = engine.threads.spawn("watchdogs", move || run(&weak, &jobs)) {
                journal::warn!("no thread for the shared watchdog: {e}");
                return false;
            }
            *slot = Some(sender);
        }
        slot.as_ref().is_some_and(|sender| sender.send(held.clone()).is_ok())
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let sender = self.0.lock().take();
        drop(sender);
    }
}

fn run(engine: &Weak<Engine>, jobs: &Receiver<Arc<Held>>) {
    while let Ok(first) = jobs.recv() {
        let mut due = vec![first];
        let until = clock::now().plus(GATHER);
        while due.len() < BATCH * BATCHES {
            match jobs.recv_timeout(until.since(clock::now())) {
                Ok(held) => due.push(held),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let Some(engine) = engine.upgrade() else { return };
        for lane in &engine.lanes {
            let of_lane: Vec<&Arc<Held>> = due.iter().filter(|h| Arc::ptr_eq(engine.lane(&h.keys), lane)).collect();
            // A panic loses the leases, at once and aloud.
            if !survives(|| renew(&engine, lane, &of_lane)) {
                of_lane.iter().for_each(|held| held.lose(LossReason::WatchdogPanic));
            }
        }
    }
}

/// Renews leases whose commands travel on `lane`.
fn renew(engine: &Engine, lane: &Lane, due: &[&Arc<Held>]) {
    let mut free = Vec::with_capacity(due.len());
    for held in due {
        // One that is being extended by its holder is left to that, and looked at again soon.
        match held.extending.try_lock() {
            Some(extending) => free.push((*held, extending)),
            None => held.defer_renewal(),
        }
    }
    let mut under_way = Vec::new();
    for batch in free.chunks(BATCH) {
        let start = clock::now();
        // Proof obligation: all gates of the batch are closed from the look at the leases until their renewal is queued, so
        // the release of each stands behind it on every connection. Nobody else closes two gates.
        let mut gates: Vec<_> = batch.iter().map(|(held, _)| held.gate.lock()).collect();
        let begun =
            batch.iter().zip(&mut gates).filter_map(|((held, _), gate)| Some((*held, held.begin(gate, start)?)));
        let begun: Vec<(&Arc<Held>, Renewing)> = begun.collect();
        if let Some(op) = batch_op(engine, &begun) {
            lane.enqueue(op.clone());
            under_way.push((op, start, begun));
        }
        drop(gates);
    }
    lane.flush();
    for (op, start, begun) in under_way {
        let limit = begun.iter().map(|(held, _)| engine.settings.renewal_timeout(held.ttl())).min();
        let earliest = begun.iter().map(|(held, _)| held.until()).filter(|until| *until > Mono::ZERO).min();
        let deadline = start.plus(limit.unwrap_or_default()).min(earliest.unwrap_or(Mono::NEVER));
        let mut round = Finished::wait(lane, op, start, deadline);
        let parts = round.look(|answers, _| answers.parts(begun.len()));
        round.op.close();
        for ((held, renewing), part) in begun.into_iter().zip(parts) {
            // What it came to is logged there; the lease plans the next try.
            drop(held.conclude(renewing, &part, || round.tally_of(engine, &part)));
        }
    }
}

fn batch_op(engine: &Engine, begun: &[(&Arc<Held>, Renewing)]) -> Option<Arc<Op>> {
    let (first, _) = begun.first()?;
    let renewal = |(held, _): &(&Arc<Held>, Renewing)| Renewal {
        keys: held.keys.clone(),
        owner: held.owner.clone(),
        px_ms: held.terms.px_ms(held.ttl()),
    };
    let leases = begun.iter().map(renewal).collect();
    let operation = Operation::extend_many(leases, engine.settings.quarantine);
    let command = Command { keys: first.keys.clone(), owner: first.owner.clone(), operation, nonce: entropy::bits() };
    let quorum = engine.settings.quorum;
    Some(Arc::new(Op::new(command, quorum, quorum.all(), true)))
}
