//! Connectors: threads that replace broken connections and make new ones. Callers never connect.

use super::chores::{Chore, Chores};
use super::error::Error;
use super::listener::Listener;
use super::masters::Masters;
use super::reaper::Reaper;
use super::report::Reported;
use super::timer::Key;
use crate::protocol::Mono;
use crate::protocol::generation::{Found, look_up_interval, of_another_set};
use crate::protocol::health::{STEADY, reconnect_pause};
use crate::sys::sync::{Mutex, Rank};
use crate::sys::thread::survives;
use crate::sys::{clock, journal};
use crate::wire::Pooled;
use crate::wire::address::Address;
use crate::wire::conn::Conn;
use crate::wire::lane::{Lane, Noticed};
use crate::wire::master::{ConnectError, Connector, Registry, Unfit};
use crate::wire::pool::Pools;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// When the address of a master is looked up next, and its entry among the chores.
#[derive(Default)]
struct LookUp {
    due: Mono,
    entered: Option<Key>,
}

/// What lacks a connection.
enum Vacancy {
    Lane(usize),
    Listener,
}

/// What connecting knows of one master.
struct Site {
    connector: Arc<Connector>,
    connecting: AtomicBool,
    /// When a connection was last put in place, and how many in a row broke at once.
    steadiness: Mutex<(Mono, u32)>,
    /// Why the last attempt to connect failed, if it did; for tallies.
    last_error: Mutex<Option<ConnectError>>,
    reported: Reported,
    /// When its address is looked up next.
    look_up: Mutex<LookUp>,
}

/// The connectors of a client.
pub(crate) struct Connectors {
    masters: Arc<Masters>,
    chores: Arc<Chores>,
    reaper: Arc<Reaper>,
    listener: Arc<Listener>,
    pools: Pools,
    sites: Vec<Site>,
}

impl Connectors {
    pub(crate) fn new(
        masters: Arc<Masters>,
        chores: Arc<Chores>,
        reaper: Arc<Reaper>,
        listener: Arc<Listener>,
        addresses: Vec<Address>,
    ) -> Connectors {
        let settings = &masters.settings;
        let pools = Pools::new(addresses.len(), settings.pool_size.max(settings.lanes as u32 + 3));
        let registry = Registry::new(addresses.len());
        let site = |(index, address)| Site {
            connector: Arc::new(Connector {
                index,
                address,
                labels: masters.labels.clone(),
                registry: registry.clone(),
                connect_timeout: settings.connect_timeout,
                generation: settings.namespace.generation(),
                block: settings.deployment.block().to_string(),
                unused: settings.namespace.unused(),
                pattern: settings.namespace.pattern(),
                warned: AtomicBool::new(false),
            }),
            connecting: AtomicBool::new(false),
            steadiness: Mutex::new(Rank::Steadiness, (Mono::ZERO, 0)),
            last_error: Mutex::new(Rank::LastError, None),
            reported: Reported::default(),
            look_up: Mutex::new(Rank::LookUp, LookUp::default()),
        };
        let sites = addresses.into_iter().enumerate().map(site).collect();
        Connectors { masters, chores, reaper, listener, pools, sites }
    }

    /// Connects to all masters in parallel, and waits for them for at most one connect limit. An outage is no error
    /// here: the first lock reports it. A master that can never serve is one.
    pub(crate) fn meet(self: &Arc<Self>) -> Result<(), Error> {
        let (n, lanes) = (self.sites.len(), &self.masters.lanes);
        for i in 0..n {
            self.connect(i);
        }
        let known = |i: usize| {
            self.sites[i].last_error.lock().is_some() || lanes.iter().all(|lane| lane.links[i].conn().is_some())
        };
        let deadline = clock::now().plus(self.masters.settings.connect_timeout);
        self.masters.progress.wait_until(deadline, || (0..n).all(known));
        let mut unfit = Vec::new();
        for (i, site) in self.sites.iter().enumerate() {
            if let Some(ConnectError::Unfit(why)) = &*site.last_error.lock() {
                unfit.push((self.masters.labels[i].clone(), why.clone()));
            }
        }
        // Where a master is unfit for another reason too, all of them are named.
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

    /// Refuses masters that belong to another set as well.
    fn are_one_set(&self) -> Result<(), Error> {
        let found = |i: usize| self.masters.lanes[0].links[i].conn().map_or(Found::Nobody, |conn| conn.found());
        let found: Vec<Found> = (0..self.sites.len()).map(found).collect();
        if let Some((i, place)) = of_another_set(&found) {
            return Err(Error::config(
                "nodes",
                format!(
                    "{}: it is master {} of another set, and master {} of this one. All clients must name the \
                     same masters in the same order; another set takes masters and a deployment name of its own. If \
                     no other set is in use, delete the key {} there: the master begins anew, with a quarantine",
                    self.masters.labels[i],
                    place + 1,
                    i + 1,
                    self.masters.settings.namespace.generation()
                ),
            ));
        }
        if found.iter().enumerate().any(|(i, f)| matches!(f, Found::Place(place) if *place != i)) {
            journal::warn!(
                "other clients name these masters in another order, or two of them have swapped their addresses, or \
                 they belong to another set of masters too: name the same masters in the same order everywhere"
            );
        }
        Ok(())
    }

    /// Sees to it that every lane gets a connection to master `i`.
    pub(crate) fn connect(self: &Arc<Self>, i: usize) {
        if self.masters.is_closed() || self.sites[i].connecting.swap(true, Ordering::AcqRel) {
            return;
        }
        let connectors = Arc::downgrade(self);
        let connect = move || {
            if !survives(|| run(&connectors, i))
                && let Some(connectors) = connectors.upgrade()
            {
                connectors.connect_later(i, "the thread that connects has panicked");
            }
        };
        if let Err(e) = self.masters.threads.spawn_deep("connect", connect) {
            self.connect_later(i, &format!("no thread to connect with: {e}"));
        }
    }

    /// Connecting to master `i` could not begin, or ended too early: it begins again after a while.
    fn connect_later(&self, i: usize, why: &str) {
        self.sites[i].reported.down(&self.masters.labels[i], &why);
        self.sites[i].connecting.store(false, Ordering::Release);
        self.chores.enter(clock::now().plus(STEADY), Chore::Connect(i));
    }

    /// Notes that a connection to master `i` broke.
    pub(crate) fn broke(&self, i: usize) {
        let mut steadiness = self.sites[i].steadiness.lock();
        let (installed, flaps) = *steadiness;
        let at_once = clock::now().since(installed) < STEADY;
        steadiness.1 = if at_once { flaps.saturating_add(1) } else { 0 };
    }

    fn vacancy(&self, i: usize) -> Option<Vacancy> {
        let lane = self.masters.lanes.iter().position(|lane| lane.links[i].conn().is_none());
        lane.map(Vacancy::Lane).or_else(|| self.listener.wants(i).then_some(Vacancy::Listener))
    }

    /// Whether it is time to see which server is at the address of master `i`.
    fn look_up_is_due(&self, i: usize) -> bool {
        self.sites[i].look_up.lock().due <= clock::now()
    }

    /// Has a connector started for master `i` when its address is to be looked up next.
    fn look_up_later(&self, i: usize) {
        let mut look_up = self.sites[i].look_up.lock();
        if let Some(key) = look_up.entered.take() {
            self.chores.leave(key);
        }
        look_up.entered = Some(self.chores.enter(look_up.due.max(clock::now()), Chore::Connect(i)));
    }

    /// Has the address of master `i` looked up at once: another address leads to the server that it led to.
    fn look_up_now(self: &Arc<Self>, i: usize) {
        self.sites[i].look_up.lock().due = Mono::ZERO;
        self.connect(i);
    }

    /// Notes which server was at the address of master `i` at the moment `asked`, and gives up connections to any
    /// other.
    ///
    /// Proof obligation: no vote of the former server is counted later than one interval after its address began to
    /// lead to another one, unless the address cannot be looked up. A quarantine is longer than a lease by that
    /// interval.
    fn compare(self: &Arc<Self>, i: usize, asked: Mono, made: &Result<Conn, ConnectError>) {
        let interval = look_up_interval(self.masters.settings.max_lease);
        // The rest of the interval is for the handshake, and for a retry.
        let (now_there, next) = match made {
            Ok(conn) => (Some(Some(conn.identity())), interval * 3 / 4),
            Err(ConnectError::Unfit(unfit)) => (unfit.is_elsewhere().then_some(None), interval * 3 / 4),
            Err(_) => (None, STEADY.min(interval)),
        };
        self.sites[i].look_up.lock().due = asked.plus(next);
        if let Some(identity) = now_there {
            let mut left = false;
            for lane in &self.masters.lanes {
                left |= lane.leave_all_but(i, identity, "its address leads to another server now");
            }
            if left {
                journal::info!(
                    "{}: the server at this address is another one now, or has another history",
                    self.masters.labels[i]
                );
                self.listener.doubt(i);
            }
        }
    }

    /// Sees to it that connections which the servers have closed while nothing was sent are replaced before they are
    /// used; waits for the new ones until `limit` at most. Does nothing for a lane that is in use.
    pub(crate) fn freshen(&self, lane: &Lane, limit: Mono) {
        let now = clock::now();
        if !lane.is_idle(now) {
            return;
        }
        let masters = 0..self.sites.len();
        let connected = |i: &usize| lane.links[*i].conn().is_some();
        let before: Vec<usize> = masters.filter(connected).collect();
        lane.sweep();
        let closed: Vec<usize> = before.into_iter().filter(|i| !connected(i)).collect();
        if !closed.is_empty() {
            let known = |i: &usize| connected(i) || self.sites[*i].last_error.lock().is_some();
            let limit = limit.min(now.plus(self.masters.settings.connect_timeout));
            self.masters.progress.wait_until(limit, || self.masters.is_closed() || closed.iter().all(known));
        }
    }

    /// Gives a connection to master `i` to what lacks one: a lane, or the listener.
    fn install(self: &Arc<Self>, i: usize, pooled: Pooled) {
        self.sites[i].steadiness.lock().0 = clock::now();
        match self.vacancy(i) {
            Some(Vacancy::Lane(lane)) => {
                self.masters.lanes[lane].install(i, pooled);
                if self.masters.is_closed() {
                    self.masters.lanes[lane].close();
                }
                self.reaper.reconnected(i);
                self.masters.recovered();
            }
            Some(Vacancy::Listener) => self.listener.install(i, pooled),
            // Left in the pool it would die there unnoticed.
            None => pooled.break_off(),
        }
    }

    /// Why master `i` cannot be reached.
    pub(crate) fn down_reason(&self, i: usize) -> String {
        let error = self.sites[i].last_error.lock();
        error.as_ref().map_or_else(|| "a connection is being made".to_string(), ToString::to_string)
    }

    /// A lane noticed something about master `i`.
    pub(crate) fn noticed(&self, i: usize, what: Noticed) {
        self.sites[i].reported.noticed(&self.masters.labels[i], what);
    }

    /// Closes all connections that are not in use.
    pub(crate) fn close(&self) {
        self.pools.close();
    }
}

/// Connects until every lane, and the listener if it runs, has a connection to master `i`, and its address has been
/// looked up not long ago. The client is not kept alive meanwhile.
fn run(connectors: &Weak<Connectors>, i: usize) {
    let mut failures = 0_u32;
    loop {
        let Some(alive) = connectors.upgrade().filter(|c| !c.masters.is_closed()) else { return };
        let site = &alive.sites[i];
        let idle = || alive.vacancy(i).is_none() && !alive.look_up_is_due(i);
        if idle() {
            site.connecting.store(false, Ordering::Release);
            // One may have broken between the look and the store.
            if idle() || site.connecting.swap(true, Ordering::AcqRel) {
                alive.look_up_later(i);
                return;
            }
        }
        let connector = site.connector.clone();
        if alive.masters.lanes.iter().all(|lane| lane.links[i].conn().is_none()) {
            connector.registry.release(i);
        }
        let pause = reconnect_pause(site.steadiness.lock().1.saturating_add(failures));
        let (progress, wanted) = (alive.masters.progress.clone(), alive.vacancy(i).is_some());
        drop(alive);
        if !pause.is_zero() && wanted {
            let gone = || connectors.upgrade().is_none_or(|c| c.masters.is_closed());
            progress.wait_until(clock::now().plus(pause), gone);
        }
        let asked = clock::now();
        let made = connector.connect();
        let Some(alive) = connectors.upgrade().filter(|c| !c.masters.is_closed()) else { return };
        alive.compare(i, asked, &made);
        if let Err(ConnectError::Unfit(Unfit::Duplicate(other, _))) = &made {
            alive.look_up_now(*other);
        }
        if alive.vacancy(i).is_none() {
            // The connections that are there lead to where the address does.
            continue;
        }
        *alive.sites[i].last_error.lock() = made.as_ref().err().cloned();
        match &made {
            Ok(_) => alive.sites[i].reported.connected(&alive.masters.labels[i]),
            Err(why) => alive.sites[i].reported.down(&alive.masters.labels[i], why),
        }
        match made.ok().and_then(|conn| alive.pools.enter(i, conn)) {
            Some(pooled) => {
                failures = 0;
                alive.install(i, pooled);
            }
            None => failures += 1,
        }
        alive.masters.progress.notify();
    }
}
