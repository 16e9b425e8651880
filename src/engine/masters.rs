//! The masters of a client, as every part of the engine sees them: the lanes to them, rounds on these lanes, and
//! whether the client still works.

use super::error::{Error, Tally};
use super::rounds::RoundResult;
use super::settings::Settings;
use crate::protocol::{Command, Keys, Mono, Operation, Owner, Round, Token};
use crate::sys::sync::{AtomicBool, AtomicU64, Ordering, Pulse};
use crate::sys::thread::Threads;
use crate::sys::{self, clock};
use crate::wire::lane::{Hooks, Lane, LaneConfig};
use crate::wire::request::Request;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// See the module.
pub(crate) struct Masters {
    pub(crate) settings: Arc<Settings>,
    pub(crate) labels: Arc<Vec<String>>,
    pub(crate) lanes: Vec<Arc<Lane>>,
    /// The background threads of the client.
    pub(crate) threads: Arc<Threads>,
    /// Beats when a connection is made or given up, when a hung master answers, and at the end.
    pub(crate) progress: Arc<Pulse>,
    /// How often a connection of a lane was made, or a hung master has answered.
    recoveries: AtomicU64,
    pid: u32,
    closed: AtomicBool,
}

/// The owner in commands that are about no value of ours.
pub(crate) fn nobody() -> Arc<Owner> {
    Arc::new(Owner::new(Token::from_bytes([0; 16]), &Arc::from(""), 0))
}

impl Masters {
    /// Lanes without connections; `hooks` gives each what it calls.
    pub(crate) fn new(
        settings: Arc<Settings>,
        labels: Arc<Vec<String>>,
        hooks: impl Fn() -> Box<dyn Hooks>,
    ) -> io::Result<Masters> {
        let lane = |index| {
            let config = LaneConfig {
                index,
                quorum: settings.quorum,
                deployment: settings.deployment.clone(),
                quarantine: settings.quarantine,
                master_timeout: settings.master_timeout(settings.ttl),
                hang_timeout: settings.hang_timeout,
            };
            Lane::new(config, hooks()).map(Arc::new)
        };
        let lanes = (0..settings.lanes).map(lane).collect::<io::Result<_>>()?;
        Ok(Masters {
            settings,
            labels,
            lanes,
            threads: Arc::default(),
            progress: Arc::default(),
            recoveries: AtomicU64::new(0),
            pid: sys::pid(),
            closed: AtomicBool::new(false),
        })
    }

    /// The lane of a lock: everything that one lock says to one master goes down one connection.
    pub(crate) fn lane(&self, keys: &Keys) -> &Arc<Lane> {
        if self.lanes.len() == 1 {
            return &self.lanes[0];
        }
        let mut hasher = DefaultHasher::new();
        keys.name.hash(&mut hasher);
        &self.lanes[(hasher.finish() % self.lanes.len() as u64) as usize]
    }

    /// Sends `command` to all masters and waits until it is decided, at most until `deadline`.
    pub(crate) fn round(&self, command: Command, deadline: Mono) -> RoundResult {
        let lane = self.lane(&command.keys);
        let quorum = self.settings.quorum;
        let request = Arc::new(Request::new(command, quorum, quorum.all(), true));
        let start = clock::now();
        lane.enqueue(request.clone());
        RoundResult::wait(lane, request, start, deadline)
    }

    /// Sends `command` to the masters `targets` and does not wait.
    pub(crate) fn post(&self, command: Command, targets: u32) {
        let lane = self.lane(&command.keys);
        lane.post(Arc::new(Request::new(command, self.settings.quorum, targets, false)));
    }

    /// Notifies the first waiter of a lock if it is free, on behalf of one with this number in the wait list; the
    /// latter is in the list no longer. Does not wait.
    pub(crate) fn notify(&self, keys: Arc<Keys>, number: u64) {
        let command = Command { keys, owner: nobody(), operation: Operation::Notify(number), nonce: 0 };
        self.post(command, self.settings.quorum.all());
    }

    /// Takes back an attempt that was given up after it had been granted; from all masters, if it was `extended`
    /// meanwhile.
    pub(crate) fn undo(&self, attempt: &Request, extended: bool) {
        let mut round = attempt.round.lock();
        round.close();
        let targets = if extended { self.settings.quorum.all() } else { round.undo_targets() };
        drop(round);
        self.take_back(attempt, targets);
    }

    /// Releases the value of `attempt` on the masters `targets`, on the connections that carried it and behind it.
    pub(crate) fn take_back(&self, attempt: &Request, targets: u32) {
        if targets != 0 {
            let operation = Operation::Release { keep: Duration::ZERO, notify: None };
            let command = Command { operation, ..attempt.command.clone() };
            let lane = self.lane(&command.keys);
            lane.post(Arc::new(Request::new(command, self.settings.quorum, targets, false)));
        }
    }

    /// What every master answered.
    pub(crate) fn tally(&self, result: &RoundResult) -> Tally {
        self.tally_of(result, &result.request.round.lock())
    }

    /// The same, of answers that were looked at already.
    pub(crate) fn tally_of(&self, result: &RoundResult, round: &Round) -> Tally {
        Tally::new(round, self.settings.quorum.votes(), &self.labels, result.start, result.end)
    }

    /// Whether this process is not the one that built the client. Asked before any mutex is touched: in a forked child
    /// another thread's mutex may be locked for ever.
    pub(crate) fn is_forked(&self) -> bool {
        sys::pid() != self.pid
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Closes the client; false if it was closed before.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Refuses calls that cannot be served.
    pub(crate) fn usable(&self) -> Result<(), Error> {
        if self.is_forked() {
            Err(Error::Forked)
        } else if self.is_closed() {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Pauses until `at`, or until the client is closed.
    pub(crate) fn pause(&self, at: Mono) -> Result<(), Error> {
        self.progress.wait_until(at, || self.is_closed());
        self.usable()
    }

    /// The same, or until a master has recovered since the count of recoveries was `seen`.
    pub(crate) fn pause_of_outage(&self, at: Mono, seen: u64) -> Result<(), Error> {
        self.progress.wait_until(at, || self.is_closed() || self.recoveries() != seen);
        self.usable()
    }

    /// A master can be asked again: callers that pause because of an outage try again now.
    pub(crate) fn recovered(&self) {
        self.recoveries.fetch_add(1, Ordering::AcqRel);
        self.progress.notify();
    }

    /// How often a master has recovered.
    pub(crate) fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Acquire)
    }
}
