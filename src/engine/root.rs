//! The composition root: the parts of one client, the hooks between them, and their end.
//!
//! Each part knows the parts below it only. What it causes above it goes through a hook, and all hooks are here.

use super::chores::{Chore, Chores};
use super::connect::Connectors;
use super::drain::Caretakers;
use super::error::Error;
use super::hold::Home;
use super::lease::{Lease, Leases};
use super::listener::{Listener, Replaces};
use super::masters::Masters;
use super::notify::Notifier;
use super::queue::Queues;
use super::reaper::Reaper;
use super::settings::Settings;
use super::signal::Callbacks;
use super::timer::Timer;
use super::watchdog::Watchdogs;
use crate::protocol::LossReason;
use crate::sys::thread::survives;
use crate::sys::{clock, journal};
use crate::wire::address::Address;
use crate::wire::lane::{Hooks, Noticed};
use crate::wire::request::Request;
use std::io;
use std::ops::Deref;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// The parts of a client.
pub(crate) struct Parts {
    pub(crate) settings: Arc<Settings>,
    pub(crate) labels: Arc<Vec<String>>,
    pub(crate) masters: Arc<Masters>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) chores: Arc<Chores>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) listener: Arc<Listener>,
    pub(crate) reaper: Arc<Reaper>,
    pub(crate) connectors: Arc<Connectors>,
    callbacks: Callbacks,
    watchdogs: Watchdogs,
    caretakers: Caretakers,
    notifier: Notifier,
}

/// A client, for as long as a handle or a guard of it lives: its threads end with it.
pub(crate) struct Engine(Arc<Parts>);

impl Deref for Engine {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// What the lanes and the listener call; it does nothing before the parts are there, and after.
#[derive(Clone, Default)]
struct Upward(Arc<OnceLock<Weak<Parts>>>);

impl Upward {
    fn parts(&self) -> Option<Arc<Parts>> {
        self.0.get()?.upgrade()
    }
}

impl Hooks for Upward {
    fn connection_lost(&self, i: usize) {
        if let Some(parts) = self.parts() {
            parts.connectors.broke(i);
            parts.listener.doubt(i);
            parts.connectors.connect(i);
        }
    }

    fn undelivered(&self, i: usize, releases: Vec<Arc<Request>>) {
        if let Some(parts) = self.parts() {
            parts.reaper.take(i, releases);
        }
    }

    fn recovered(&self, i: usize) {
        if let Some(parts) = self.parts() {
            journal::debug!("{}: answers again", parts.labels[i]);
            parts.masters.recovered();
        }
    }

    fn waiters_elsewhere(&self, request: &Arc<Request>, notified: bool) {
        if let Some(parts) = self.parts() {
            parts.notifier.waiters_elsewhere(request, notified);
        }
    }

    fn drain_wanted(&self, lane: usize) {
        if let Some(parts) = self.parts() {
            parts.caretakers.later(lane);
        }
    }

    fn noticed(&self, i: usize, what: Noticed) {
        if let Some(parts) = self.parts() {
            parts.connectors.noticed(i, what);
        }
    }

    fn down_reason(&self, i: usize) -> String {
        self.parts().map_or_else(String::new, |parts| parts.connectors.down_reason(i))
    }
}

impl Replaces for Upward {
    fn replace(&self, i: usize, broken: bool) {
        if let Some(parts) = self.parts() {
            if broken {
                parts.connectors.broke(i);
            }
            parts.connectors.connect(i);
        }
    }
}

impl Home for Engine {
    fn watchdogs(&self) -> &Watchdogs {
        &self.watchdogs
    }

    fn callbacks(&self) -> &Callbacks {
        &self.callbacks
    }
}

impl Engine {
    /// Builds the engine and connects to all masters.
    pub(crate) fn start(settings: Settings, addresses: Vec<Address>) -> Result<Arc<Engine>, Error> {
        let parts = Parts::new(settings, addresses).map_err(Error::System)?;
        let engine = Arc::new(Engine(parts));
        engine.0.start_threads().map_err(Error::System)?;
        engine.connectors.meet()?;
        engine.sweep_due();
        Ok(engine)
    }

    /// Ends all threads; the names of the locks that were still held, and how many threads have not ended in `limit`.
    pub(crate) fn close(&self, limit: Duration) -> (Vec<String>, usize) {
        let mut unreleased = Vec::new();
        if self.masters.close() {
            // Nobody renews from here on, so the holders are notified before the callbacks' thread ends.
            for lease in self.leases.timer.stop().iter().filter_map(Weak::upgrade) {
                lease.lose(LossReason::Closed);
                unreleased.push(lease.keys.name.to_string());
            }
            self.stop();
            for lane in &self.masters.lanes {
                lane.close();
            }
            self.connectors.close();
        }
        let left = self.masters.threads.wait(limit);
        journal::flush();
        (unreleased, left)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.masters.is_forked() {
            // All that was shared with threads that do not exist here is left alone: every part, for ever.
            std::mem::forget(self.0.clone());
            return;
        }
        let open = self.masters.close();
        self.leases.timer.stop();
        self.stop();
        if open {
            journal::flush();
        }
    }
}

impl Parts {
    fn new(settings: Settings, addresses: Vec<Address>) -> io::Result<Arc<Parts>> {
        let labels = Arc::new(addresses.iter().map(|a| a.label.clone()).collect::<Vec<_>>());
        let settings = Arc::new(settings);
        let (timer, chores, queues) = (Timer::new()?, Chores::new()?, Queues::new());
        let upward = Upward::default();
        let masters = Masters::new(settings.clone(), labels.clone(), || Box::new(upward.clone()))?;
        let masters = Arc::new(masters);
        let listener = Listener::new(masters.clone(), Box::new(upward.clone()))?;
        let reaper = Arc::new(Reaper::new(masters.clone(), chores.clone()));
        let connectors = Connectors::new(masters.clone(), chores.clone(), reaper.clone(), listener.clone(), addresses);
        let parts = Arc::new(Parts {
            leases: Arc::new(Leases { masters: masters.clone(), timer }),
            caretakers: Caretakers::new(masters.clone(), chores.clone()),
            notifier: Notifier::new(masters.clone(), chores.clone(), queues.clone()),
            watchdogs: Watchdogs::new(settings.watchdog_threads),
            callbacks: Callbacks::default(),
            connectors: Arc::new(connectors),
            settings,
            labels,
            masters,
            chores,
            queues,
            listener,
            reaper,
        });
        let _ = upward.0.set(Arc::downgrade(&parts));
        Ok(parts)
    }

    fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let threads = &self.masters.threads;
        let watchdogs = self.watchdogs.clone();
        self.leases.timer.start(threads, "timer", move |lease: Weak<Lease>| {
            let Some(lease) = lease.upgrade() else { return };
            if !survives(|| lease.due(|lease, slot| watchdogs.renew(lease, slot))) {
                lease.lose(LossReason::WatchdogPanic);
            }
        })?;
        let parts = Arc::downgrade(self);
        self.chores.start(threads, move |chore| {
            if let Some(parts) = parts.upgrade() {
                parts.work(chore);
            }
        })?;
        self.watchdogs.start(threads)?;
        self.callbacks.start(threads)
    }

    /// Does a chore, on their thread.
    fn work(&self, chore: Chore) {
        match chore {
            Chore::Drain(lane, leads) => self.caretakers.due(lane, leads),
            Chore::Connect(i) => self.connectors.connect(i),
            Chore::Notify(keys, waiter) => self.notifier.due(keys, waiter),
            Chore::Sweep => self.sweep_due(),
            Chore::Reap(i) => self.reaper.due(i),
        }
    }

    /// Looks at what is idle, on the thread of the chores, now and then.
    fn sweep_due(&self) {
        for lane in &self.masters.lanes {
            lane.sweep();
        }
        self.connectors.rest();
        self.queues.sweep(clock::now());
        self.chores.log_lateness(self.leases.timer.latest());
        self.chores.enter(clock::now().plus(SWEEP_INTERVAL), Chore::Sweep);
    }

    fn stop(&self) {
        self.chores.stop();
        self.watchdogs.stop();
        self.caretakers.stop();
        self.callbacks.stop();
        self.notifier.close();
        self.listener.stop();
        self.masters.progress.notify();
    }
}

/// How often idle connections are looked at.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
