//! Connectors: threads that replace broken connections and make new ones. Callers never connect.

use super::chores::Chore;
use super::core::Engine;
use crate::protocol::health::{STEADY, reconnect_pause};
use crate::sys::clock;
use crate::sys::thread::survives;
use crate::wire::Pooled;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Who lacks a connection.
enum Vacancy {
    Lane(usize),
    Listener,
}

impl Engine {
    /// Sees to it that every lane gets a connection to master `i`.
    pub(crate) fn connect(self: &Arc<Self>, i: usize) {
        let master = &self.masters[i];
        if self.is_closed() || master.connecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let engine = Arc::downgrade(self);
        let connect = move || {
            if !survives(|| run(&engine, i))
                && let Some(engine) = engine.upgrade()
            {
                engine.connect_later(i, "the thread that connects has panicked");
            }
        };
        if let Err(e) = self.threads.spawn_deep("connect", connect) {
            self.connect_later(i, &format!("no thread to connect with: {e}"));
        }
    }

    /// Nobody connects to master `i` now: it is tried again in a while.
    fn connect_later(&self, i: usize, why: &str) {
        self.masters[i].reported.down(&self.labels[i], &why);
        self.masters[i].connecting.store(false, Ordering::Release);
        self.chores.enter(clock::now().plus(STEADY), Chore::Connect(i));
    }

    /// Notes that a connection to master `i` broke.
    pub(crate) fn broke(&self, i: usize) {
        let mut steadiness = self.masters[i].steadiness.lock();
        let (installed, flaps) = *steadiness;
        let at_once = clock::now().since(installed) < STEADY;
        steadiness.1 = if at_once { flaps.saturating_add(1) } else { 0 };
    }

    fn vacancy(&self, i: usize) -> Option<Vacancy> {
        let lane = self.lanes.iter().position(|lane| lane.links[i].conn().is_none());
        lane.map(Vacancy::Lane).or_else(|| self.listener.wants(i).then_some(Vacancy::Listener))
    }

    /// Gives a connection to master `i` to who lacks it.
    fn install(self: &Arc<Self>, i: usize, pooled: Pooled) {
        self.masters[i].steadiness.lock().0 = clock::now();
        match self.vacancy(i) {
            Some(Vacancy::Lane(lane)) => {
                self.lanes[lane].install(i, pooled);
                if self.is_closed() {
                    self.lanes[lane].close();
                }
                self.reaper.reconnected(self, i);
                self.recovered();
            }
            Some(Vacancy::Listener) => self.listener.install(i, pooled),
            // Left in the pool it would die there unnoticed.
            None => pooled.break_off(),
        }
    }
}

/// Connects until every lane, and the listener if it runs, has a connection to master `i`. The engine is not kept alive meanwhile.
fn run(engine: &Weak<Engine>, i: usize) {
    let mut failures = 0_u32;
    loop {
        let Some(alive) = engine.upgrade().filter(|e| !e.is_closed()) else { return };
        let master = &alive.masters[i];
        if alive.vacancy(i).is_none() {
            master.connecting.store(false, Ordering::Release);
            // One may have broken between the look and the store.
            if alive.vacancy(i).is_none() || master.connecting.swap(true, Ordering::AcqRel) {
                return;
            }
        }
        let connector = master.connector.clone();
        let pause = reconnect_pause(master.steadiness.lock().1.saturating_add(failures));
        let progress = alive.progress.clone();
        drop(alive);
        if !pause.is_zero() {
            let gone = || engine.upgrade().is_none_or(|e| e.is_closed());
            progress.wait_until(clock::now().plus(pause), gone);
        }
        let made = connector.connect();
        let Some(alive) = engine.upgrade().filter(|e| !e.is_closed()) else { return };
        *alive.masters[i].last_error.lock() = made.as_ref().err().cloned();
        match &made {
            Ok(_) => alive.masters[i].reported.connected(&alive.labels[i]),
            Err(why) => alive.masters[i].reported.down(&alive.labels[i], why),
        }
        match made.ok().and_then(|conn| alive.pools.enter(i, conn)) {
            Some(pooled) => {
                failures = 0;
                alive.install(i, pooled);
            }
            None => failures += 1,
        }
        alive.progress.notify();
    }
}
