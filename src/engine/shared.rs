//! One watchdog thread for all leases of a client: renewals that fall due together travel together.

use super::lease::{Lease, Renewing};
use super::masters::Masters;
use super::rounds::RoundResult;
use crate::protocol::command::Renewal;
use crate::protocol::{Command, LossReason, Mono, Operation};
use crate::sys::sync::{Mutex, Rank};
use crate::sys::thread::survives;
use crate::sys::{clock, entropy, journal};
use crate::wire::lane::Lane;
use crate::wire::request::Request;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::sync::Arc;
use std::time::Duration;

/// How many leases one script renews.
const BATCH: usize = 100;
// One code for each, and what stands around them.
const _: () = assert!(BATCH + 4 <= crate::wire::reply::VALUES);
/// How many scripts are under way at once; more would fill the sockets.
const BATCHES: usize = 16;
/// How long the first renewal that is due waits for others.
const GATHER_WINDOW: Duration = Duration::from_millis(25);

/// The shared watchdog of a client; its thread starts with the first renewal.
pub(crate) struct SharedWatchdog(Mutex<Option<Sender<Arc<Lease>>>>);

impl Default for SharedWatchdog {
    fn default() -> SharedWatchdog {
        SharedWatchdog(Mutex::new(Rank::SharedWatchdog, None))
    }
}

impl SharedWatchdog {
    /// Has the lease renewed soon, if the thread runs already. Called with its gate closed, on the timer's thread.
    pub(crate) fn offer(&self, lease: &Arc<Lease>) -> bool {
        self.0.lock().as_ref().is_some_and(|sender| sender.send(lease.clone()).is_ok())
    }

    /// The same; the thread is started if it does not run. False if there is none to do it.
    pub(crate) fn renew(&self, lease: &Arc<Lease>) -> bool {
        let masters = lease.masters();
        let mut slot = self.0.lock();
        if masters.is_closed() {
            return false;
        }
        if slot.is_none() {
            let (sender, jobs) = unbounded();
            if let Err(e) = masters.threads.spawn("watchdogs", move || run(&jobs)) {
                journal::warn!("no thread for the shared watchdog: {e}");
                return false;
            }
            *slot = Some(sender);
        }
        slot.as_ref().is_some_and(|sender| sender.send(lease.clone()).is_ok())
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let sender = self.0.lock().take();
        drop(sender);
    }
}

fn run(jobs: &Receiver<Arc<Lease>>) {
    while let Ok(first) = jobs.recv() {
        let masters = first.masters().clone();
        let mut due = vec![first];
        let until = clock::now().plus(GATHER_WINDOW);
        while due.len() < BATCH * BATCHES {
            match jobs.recv_timeout(until.since(clock::now())) {
                Ok(lease) => due.push(lease),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        for lane in &masters.lanes {
            let of_lane: Vec<&Arc<Lease>> = due.iter().filter(|h| Arc::ptr_eq(h.lane(), lane)).collect();
            // A panic loses the leases, at once and aloud.
            if !survives(|| renew(&masters, lane, &of_lane)) {
                of_lane.iter().for_each(|lease| lease.lose(LossReason::WatchdogPanic));
            }
        }
    }
}

/// Renews leases whose commands travel on `lane`.
fn renew(masters: &Masters, lane: &Lane, due: &[&Arc<Lease>]) {
    let mut free = Vec::with_capacity(due.len());
    for lease in due {
        // One that is being extended by its holder is left to that, and looked at again soon.
        match lease.extending.try_lock() {
            Some(extending) => free.push((*lease, extending)),
            None => lease.defer_renewal(),
        }
    }
    let mut under_way = Vec::new();
    for batch in free.chunks(BATCH) {
        let start = clock::now();
        // Proof obligation: all gates of the batch are closed from the look at the leases until their renewal is
        // queued, so the release of each stands behind it on every connection. No other thread closes two gates.
        let mut gates: Vec<_> = batch.iter().map(|(lease, _)| lease.gate_among()).collect();
        let begun = batch
            .iter()
            .zip(&mut gates)
            .filter_map(|((lease, _), gate)| Some((*lease, lease.begin(gate, start, lease.ttl())?)));
        let begun: Vec<(&Arc<Lease>, Renewing)> = begun.collect();
        if let Some(request) = batch_request(masters, &begun) {
            lane.enqueue(request.clone());
            under_way.push((request, start, begun));
        }
        drop(gates);
    }
    lane.flush();
    for (request, start, begun) in under_way {
        let limit = begun.iter().map(|(lease, _)| masters.settings.renewal_timeout(lease.ttl())).min();
        let earliest = begun.iter().map(|(lease, _)| lease.until()).filter(|until| *until > Mono::ZERO).min();
        let deadline = start.plus(limit.unwrap_or_default()).min(earliest.unwrap_or(Mono::NEVER));
        let mut round = RoundResult::wait(lane, request, start, deadline);
        let parts = round.look(|answers, _| answers.parts(begun.len()));
        round.request.close();
        for ((lease, renewing), part) in begun.into_iter().zip(parts) {
            // What it came to is logged there; the lease plans the next try.
            drop(lease.conclude(renewing, &part, || masters.tally_of(&round, &part)));
        }
    }
}

fn batch_request(masters: &Masters, begun: &[(&Arc<Lease>, Renewing)]) -> Option<Arc<Request>> {
    let (first, _) = begun.first()?;
    let renewal = |(lease, _): &(&Arc<Lease>, Renewing)| Renewal {
        keys: lease.keys.clone(),
        owner: lease.owner.clone(),
        px_ms: lease.terms.px_ms(lease.ttl()),
    };
    let leases = begun.iter().map(renewal).collect();
    let operation = Operation::extend_many(leases, masters.settings.quarantine);
    let command = Command { keys: first.keys.clone(), owner: first.owner.clone(), operation, nonce: entropy::bits() };
    let quorum = masters.settings.quorum;
    Some(Arc::new(Request::new(command, quorum, quorum.all(), true)))
}
