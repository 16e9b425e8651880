//! The engine of a client: its masters, lanes and threads.

use super::care::Caretakers;
use super::chores::{Chore, Record};
use super::connect::LookUp;
use super::error::Error;
use super::held::Held;
use super::listener::Listener;
use super::queue::Queues;
use super::reaper::Reaper;
use super::report::Reported;
use super::settings::Settings;
use super::shared::SharedWatchdog;
use super::signal::Callbacks;
use super::timer::Timer;
use super::watchdog::Watchdogs;
use crate::protocol::generation::{Found, of_another_set};
use crate::protocol::wakeup::LATE;
use crate::protocol::{Keys, LossReason, Mono, Operation};
use crate::sys::sync::{Mutex, Pulse};
use crate::sys::thread::{Threads, survives};
use crate::sys::{self, clock, journal};
use crate::wire::lane::{Hooks, Lane, LaneConfig, Noticed};
use crate::wire::master::{Address, ConnectError, Connector, Registry, Unfit};
use crate::wire::op::Op;
use crate::wire::pool::Pools;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One master, as the engine sees it.
pub(crate) struct Master {
    pub(crate) connector: Arc<Connector>,
    pub(crate) connecting: AtomicBool,
    /// When a connection was last put in place, and how many in a row broke at once.
    pub(crate) steadiness: Mutex<(Mono, u32)>,
    /// Why the last attempt to connect failed, if it did; for tallies.
    pub(crate) last_error: Mutex<Option<ConnectError>>,
    pub(crate) reported: Reported,
    /// When its address is looked up next.
    pub(crate) look_up: Mutex<LookUp>,
}

/// See the module.
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) labels: Arc<Vec<String>>,
    pub(crate) masters: Vec<Master>,
    pub(crate) pools: Arc<Pools>,
    pub(crate) lanes: Vec<Arc<Lane>>,
    /// When something is due for a lease.
    pub(crate) timer: Arc<Timer<Weak<Held>>>,
    pub(crate) chores: Arc<Timer<Chore>>,
    pub(crate) record: Record,
    pub(crate) threads: Arc<Threads>,
    pub(crate) caretakers: Caretakers,
    pub(crate) callbacks: Callbacks,
    pub(crate) watchdogs: Watchdogs,
    pub(crate) shared: SharedWatchdog,
    pub(crate) reaper: Reaper,
    pub(crate) queues: Arc<Queues>,
    pub(crate) listener: Arc<Listener>,
    /// Beats when a connection is made or given up, when a hung master answers, and at the end.
    pub(crate) progress: Arc<Pulse>,
    /// How often a connection of a lane was made, or a hung master has answered.
    recoveries: AtomicU64,
    pid: u32,
    closed: AtomicBool,
}

struct LaneHooks(Weak<Engine>);

impl Hooks for LaneHooks {
    fn connection_lost(&self, i: usize) {
        if let Some(engine) = self.0.upgrade() {
            engine.broke(i);
            engine.listener.doubt(i);
            engine.connect(i);
        }
    }

    fn undelivered(&self, i: usize, releases: Vec<Arc<Op>>) {
        if let Some(engine) = self.0.upgrade() {
            engine.reaper.take(&engine, i, releases);
        }
    }

    fn recovered(&self, i: usize) {
        if let Some(engine) = self.0.upgrade() {
            journal::debug!("{}: answers again", engine.labels[i]);
            engine.recovered();
        }
    }

    fn others_wait(&self, op: &Arc<Op>, told: bool) {
        let Some(engine) = self.0.upgrade() else { return };
        let (now, keys) = (clock::now(), &op.command.keys);
        if engine.queues.others_wait(&keys.name, now, told.then(|| op.made.unwrap_or(now))) {
            let waiter =
                if let Operation::Release { tell: Some(tell), .. } = op.command.operation { tell.waiter } else { 0 };
            engine.chores.enter(now.plus(LATE), Chore::Tell(keys.clone(), waiter));
        }
    }

    fn unattended(&self, lane: usize) {
        if let Some(engine) = self.0.upgrade() {
            engine.care_later(lane);
        }
    }

    fn noticed(&self, i: usize, what: Noticed) {
        if let Some(engine) = self.0.upgrade() {
            engine.masters[i].reported.noticed(&engine.labels[i], what);
        }
    }

    fn down_reason(&self, i: usize) -> String {
        self.0.upgrade().map_or_else(String::new, |engine| engine.down_reason(i))
    }
}

impl Engine {
    /// Builds the engine and connects to all masters, waiting for them for at most one connect limit. An outage is not an
    /// error here: the first lock reports it. A node that can never serve is one.
    pub(crate) fn start(settings: Settings, addresses: Vec<Address>) -> Result<Arc<Engine>, Error> {
        let n = addresses.len();
        let labels: Arc<Vec<String>> = Arc::new(addresses.iter().map(|a| a.label.clone()).collect());
        let progress = Arc::new(Pulse::default());
        let masters = masters(&settings, addresses, &labels);
        let size = settings.pool_size.max(settings.lanes as u32 + 3);
        let pools = Arc::new(Pools::new(n, size));
        let timer = Timer::new().map_err(Error::System)?;
        let chores = Timer::new().map_err(Error::System)?;
        let listener = Listener::new(settings.quorum).map_err(Error::System)?;
        let mut failed = None;
        let engine = Arc::new_cyclic(|weak: &Weak<Engine>| {
            let lane = |index| {
                let config = LaneConfig {
                    index,
                    quorum: settings.quorum,
                    deployment: settings.deployment.clone(),
                    quarantine: settings.quarantine,
                    master_timeout: settings.master_timeout(settings.ttl),
                    hang_timeout: settings.hang_timeout,
                };
                Lane::new(config, Box::new(LaneHooks(weak.clone()))).map(Arc::new)
            };
            let lanes = (0..settings.lanes).map(lane).collect::<Result<Vec<_>, _>>();
            Engine {
                labels,
                masters,
                pools,
                lanes: lanes.unwrap_or_else(|e| {
                    failed = Some(e);
                    Vec::new()
                }),
                timer,
                chores,
                record: Record::default(),
                threads: Arc::default(),
                caretakers: Caretakers::new(settings.lanes),
                callbacks: Callbacks::default(),
                watchdogs: Watchdogs::new(settings.watchdog_threads),
                shared: SharedWatchdog::default(),
                reaper: Reaper::new(n),
                queues: Queues::new(),
                listener,
                progress,
                recoveries: AtomicU64::new(0),
                pid: sys::pid(),
                closed: AtomicBool::new(false),
                settings,
            }
        });
        if let Some(e) = failed {
            return Err(Error::System(e));
        }
        engine.start_timers().map_err(Error::System)?;
        engine.watchdogs.start(&engine.threads).map_err(Error::System)?;
        engine.callbacks.start(&engine.threads).map_err(Error::System)?;
        engine.meet()?;
        engine.sweep_due();
        Ok(engine)
    }

    fn start_timers(self: &Arc<Self>) -> std::io::Result<()> {
        self.timer.start(&self.threads, "timer", |held: Weak<Held>| {
            let Some(held) = held.upgrade() else { return };
            if !survives(|| held.due()) {
                held.lose(LossReason::WatchdogPanic);
            }
        })?;
        let engine = Arc::downgrade(self);
        self.chores.start(&self.threads, "chores", move |chore| {
            if let Some(engine) = engine.upgrade() {
                engine.do_chore(chore);
            }
        })
    }

    /// Connects to all masters in parallel.
    fn meet(self: &Arc<Self>) -> Result<(), Error> {
        let n = self.masters.len();
        for i in 0..n {
            self.connect(i);
        }
        let known = |i: usize| {
            self.masters[i].last_error.lock().is_some() || self.lanes.iter().all(|l| l.links[i].conn().is_some())
        };
        let deadline = clock::now().plus(self.settings.connect_timeout);
        self.progress.wait_until(deadline, || (0..n).all(known));
        let mut unfit = Vec::new();
        for (i, master) in self.masters.iter().enumerate() {
            if let Some(ConnectError::Unfit(why)) = &*master.last_error.lock() {
                unfit.push((self.labels[i].clone(), why.clone()));
            }
        }
        // Where a node is unfit for another reason too, all of them are named.
        if unfit.iter().all(|(_, why)| matches!(why, Unfit::Deployment(..)))
            && let Some((master, Unfit::Deployment(theirs, ours))) = unfit.first()
        {
            let (master, ours, theirs) = (master.clone(), ours.clone(), theirs.clone());
            return Err(Error::DeploymentMismatch { master, ours, theirs });
        }
        if !unfit.is_empty() {
            let named: Vec<String> = unfit.iter().map(|(master, why)| format!("{master}: {why}")).collect();
            return Err(Error::config("nodes", named.join("; ")));
        }
        self.are_one_set()
    }

    /// Looks for masters that belong to another set, too.
    fn are_one_set(&self) -> Result<(), Error> {
        let found = |i: usize| self.lanes[0].links[i].conn().map_or(Found::Nobody, |conn| conn.found());
        let found: Vec<Found> = (0..self.masters.len()).map(found).collect();
        if let Some((i, place)) = of_another_set(&found) {
            return Err(Error::config(
                "nodes",
                format!(
                    "{}: it is node {} of another set of masters, and node {} of this one. All clients must name the same masters \
                     in the same order; another set takes masters and a deployment name of its own. If no other set is in use, \
                     delete the key {} there: the master begins anew, with a quarantine",
                    self.labels[i],
                    place + 1,
                    i + 1,
                    self.settings.namespace.generation()
                ),
            ));
        }
        if found.iter().enumerate().any(|(i, f)| matches!(f, Found::Place(place) if *place != i)) {
            journal::warn!(
                "other clients name these masters in another order, or two of them have swapped their addresses, or they belong \
                 to another set of masters too: name the same masters in the same order everywhere"
            );
        }
        Ok(())
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

    /// Why master `i` cannot be reached.
    pub(crate) fn down_reason(&self, i: usize) -> String {
        let error = self.masters[i].last_error.lock();
        error.as_ref().map_or_else(|| "a connection is being made".to_string(), ToString::to_string)
    }

    /// Whether this process is the one that built the engine. Asked before any mutex is touched: in a forked child
    /// another thread's mutex may be locked for ever.
    pub(crate) fn is_forked(&self) -> bool {
        sys::pid() != self.pid
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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

    /// A master can be asked again: whoever pauses because of an outage tries again now.
    pub(crate) fn recovered(&self) {
        self.recoveries.fetch_add(1, Ordering::AcqRel);
        self.progress.notify();
    }

    /// How often a master has recovered.
    pub(crate) fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Acquire)
    }

    /// Ends all threads; the names of the locks that were still held, and how many threads have not ended in `limit`.
    pub(crate) fn close(&self, limit: Duration) -> (Vec<String>, usize) {
        let mut unreleased = Vec::new();
        if !self.closed.swap(true, Ordering::AcqRel) {
            // Nobody renews from here on, so whoever holds is told before the callbacks' thread ends.
            for held in self.timer.stop().iter().filter_map(Weak::upgrade) {
                held.lose(LossReason::Closed);
                unreleased.push(held.keys.name.to_string());
            }
            self.stop();
            for lane in &self.lanes {
                lane.close();
            }
            self.pools.close();
        }
        let left = self.threads.wait(limit);
        journal::flush();
        (unreleased, left)
    }

    fn stop(&self) {
        drop(self.chores.stop());
        self.watchdogs.stop();
        self.shared.stop();
        self.caretakers.stop();
        self.callbacks.stop();
        for (name, waiter) in self.queues.close() {
            if let Ok(keys) = self.settings.namespace.keys(&name) {
                self.tell(Arc::new(keys), waiter);
            }
        }
        self.listener.stop();
        self.progress.notify();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.is_forked() {
            // Everything shared with threads that do not exist here is left alone.
            std::mem::forget(std::mem::take(&mut self.lanes));
            std::mem::forget(std::mem::take(&mut self.masters));
            std::mem::forget(self.pools.clone());
            std::mem::forget(self.timer.clone());
            std::mem::forget(self.chores.clone());
            std::mem::forget(self.queues.clone());
            std::mem::forget(self.listener.clone());
            std::mem::forget(std::mem::take(&mut self.watchdogs));
            std::mem::forget(std::mem::take(&mut self.shared));
            std::mem::forget(std::mem::take(&mut self.callbacks));
            std::mem::forget(std::mem::replace(&mut self.caretakers, Caretakers::new(0)));
        } else {
            let closed = self.closed.swap(true, Ordering::AcqRel);
            self.timer.stop();
            self.stop();
            if !closed {
                journal::flush();
            }
        }
    }
}

fn masters(settings: &Settings, addresses: Vec<Address>, labels: &Arc<Vec<String>>) -> Vec<Master> {
    let registry = Registry::new(addresses.len());
    let master = |(index, address)| Master {
        connector: Arc::new(Connector {
            index,
            address,
            labels: labels.clone(),
            registry: registry.clone(),
            connect_timeout: settings.connect_timeout,
            generation: settings.namespace.generation(),
            block: settings.deployment.block().to_string(),
            unused: settings.namespace.unused(),
            pattern: settings.namespace.pattern(),
            warned: AtomicBool::new(false),
        }),
        connecting: AtomicBool::new(false),
        steadiness: Mutex::default(),
        last_error: Mutex::default(),
        reported: Reported::default(),
        look_up: Mutex::default(),
    };
    addresses.into_iter().enumerate().map(master).collect()
}
