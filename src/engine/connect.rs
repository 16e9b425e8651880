//! Connectors: threads that replace broken connections and make new ones. Callers never connect.

use super::chores::Chore;
use super::core::Engine;
use super::timer::Key;
use crate::protocol::Mono;
use crate::protocol::generation::look_up_interval;
use crate::protocol::health::{STEADY, reconnect_pause};
use crate::sys::thread::survives;
use crate::sys::{clock, journal};
use crate::wire::Pooled;
use crate::wire::conn::Conn;
use crate::wire::lane::Lane;
use crate::wire::master::{ConnectError, Unfit};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// When the address of a master is looked up next, and its entry among the chores.
#[derive(Default)]
pub(crate) struct LookUp {
    due: Mono,
    entered: Option<Key>,
}

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

    /// Whether it is time to see which server is at the address of master `i`.
    fn look_up_is_due(&self, i: usize) -> bool {
        self.masters[i].look_up.lock().due <= clock::now()
    }

    /// Has a connector started for master `i` when its address is to be looked up next.
    fn look_up_later(&self, i: usize) {
        let mut look_up = self.masters[i].look_up.lock();
        if let Some(key) = look_up.entered.take() {
            self.chores.leave(key);
        }
        look_up.entered = Some(self.chores.enter(look_up.due.max(clock::now()), Chore::Connect(i)));
    }

    /// Has the address of master `i` looked up at once: another node leads to the server that it led to.
    fn look_up_now(self: &Arc<Self>, i: usize) {
        self.masters[i].look_up.lock().due = Mono::ZERO;
        self.connect(i);
    }

    /// Notes what was found at the address of master `i` at the moment `asked`, and leaves connections that lead elsewhere.
    ///
    /// Proof obligation: no vote of the former server is counted later than one interval after its address began to lead to
    /// another one, unless the address cannot be looked up. A quarantine is longer than a lease by that interval.
    fn compare(self: &Arc<Self>, i: usize, asked: Mono, made: &Result<Conn, ConnectError>) {
        let interval = look_up_interval(self.settings.max_lease);
        // The rest of the interval is for the handshake, and for a retry.
        let (now_there, next) = match made {
            Ok(conn) => (Some(Some(conn.identity())), interval * 3 / 4),
            Err(ConnectError::Unfit(unfit)) => (unfit.is_elsewhere().then_some(None), interval * 3 / 4),
            Err(_) => (None, STEADY.min(interval)),
        };
        self.masters[i].look_up.lock().due = asked.plus(next);
        if let Some(identity) = now_there {
            let mut left = false;
            for lane in &self.lanes {
                left |= lane.leave_all_but(i, identity, "its address leads to another server now");
            }
            if left {
                journal::info!(
                    "{}: the server at this address is another one now, or has another history",
                    self.labels[i]
                );
                self.listener.doubt(i);
            }
        }
    }

    /// Sees to it that connections which the servers have closed while nothing was sent are replaced before they are used; waits
    /// for the new ones until `limit` at most. Does nothing for a lane that is in use.
    pub(crate) fn freshen(&self, lane: &Lane, limit: Mono) {
        let now = clock::now();
        if !lane.is_idle(now) {
            return;
        }
        let masters = 0..self.masters.len();
        let connected = |i: &usize| lane.links[*i].conn().is_some();
        let before: Vec<usize> = masters.filter(connected).collect();
        lane.sweep();
        let closed: Vec<usize> = before.into_iter().filter(|i| !connected(i)).collect();
        if !closed.is_empty() {
            let known = |i: &usize| connected(i) || self.masters[*i].last_error.lock().is_some();
            let limit = limit.min(now.plus(self.settings.connect_timeout));
            self.progress.wait_until(limit, || self.is_closed() || closed.iter().all(known));
        }
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

/// Connects until every lane, and the listener if it runs, has a connection to master `i`, and its address has been looked up
/// not long ago. The engine is not kept alive meanwhile.
fn run(engine: &Weak<Engine>, i: usize) {
    let mut failures = 0_u32;
    loop {
        let Some(alive) = engine.upgrade().filter(|e| !e.is_closed()) else { return };
        let master = &alive.masters[i];
        let idle = || alive.vacancy(i).is_none() && !alive.look_up_is_due(i);
        if idle() {
            master.connecting.store(false, Ordering::Release);
            // One may have broken between the look and the store.
            if idle() || master.connecting.swap(true, Ordering::AcqRel) {
                alive.look_up_later(i);
                return;
            }
        }
        let connector = master.connector.clone();
        if alive.lanes.iter().all(|lane| lane.links[i].conn().is_none()) {
            connector.registry.release(i);
        }
        let pause = reconnect_pause(master.steadiness.lock().1.saturating_add(failures));
        let (progress, wanted) = (alive.progress.clone(), alive.vacancy(i).is_some());
        drop(alive);
        if !pause.is_zero() && wanted {
            let gone = || engine.upgrade().is_none_or(|e| e.is_closed());
            progress.wait_until(clock::now().plus(pause), gone);
        }
        let asked = clock::now();
        let made = connector.connect();
        let Some(alive) = engine.upgrade().filter(|e| !e.is_closed()) else { return };
        alive.compare(i, asked, &made);
        if let Err(ConnectError::Unfit(Unfit::Duplicate(other, _))) = &made {
            alive.look_up_now(*other);
        }
        if alive.vacancy(i).is_none() {
            // The connections that are there lead to where the address does.
            continue;
        }
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
