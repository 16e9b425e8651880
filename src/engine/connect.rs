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
use crate::wire::pool::{PoolConfig, Pools};
use crate::wire::poolstats::Counts;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// When the address of a master is looked up next, and its entry among the chores.
#[derive(Default)]
struct LookUp {
    due: Mono,
    /// The server that the last look-up found, while its name is claimed for this master.
    identity: Option<String>,
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
    /// When r2d2 last looked for connections that are idle for too long, in nanoseconds.
    reaped: AtomicU64,
    sites: Vec<Site>,
}

/// How often r2d2 looks for connections that have been idle for too long, at most; by itself it does so every 30 s.
const REAP_INTERVAL: Duration = Duration::from_secs(10);

impl Connectors {
    pub(crate) fn new(
        masters: Arc<Masters>,
        chores: Arc<Chores>,
        reaper: Arc<Reaper>,
        listener: Arc<Listener>,
        addresses: Vec<Address>,
    ) -> Connectors {
        let settings = &masters.settings;
        let config = PoolConfig {
            size: settings.pool_size,
            idle_timeout: settings.idle_timeout,
            test_on_check_out: settings.test_on_check_out,
            test_timeout: settings.connect_timeout,
        };
        let pools = Pools::new(&masters.labels, config);
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
        Connectors { masters, chores, reaper, listener, pools, reaped: AtomicU64::new(0), sites }
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
        if self.masters.is_closed() || self.sites[i].connecting.swap(true, Ordering::SeqCst) {
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
        let lacks = |lane: &Arc<Lane>| lane.links[i].conn().is_none() && !lane.is_asleep();
        let lane = self.masters.lanes.iter().position(lacks);
        lane.map(Vacancy::Lane).or_else(|| self.listener.wants(i).then_some(Vacancy::Listener))
    }

    /// Whether a lane has a connection to master `i`, so that votes of it may be counted.
    fn is_in_use(&self, i: usize) -> bool {
        self.masters.lanes.iter().any(|lane| lane.links[i].conn().is_some())
    }

    /// Whether it is time to see which server is at the address of master `i`.
    fn look_up_is_due(&self, i: usize) -> bool {
        self.is_in_use(i) && self.sites[i].look_up.lock().due <= clock::now()
    }

    /// Who the server of master `i` is, if that was looked up not long ago: an idle connection to it may be used.
    ///
    /// Proof obligation: as for [`compare`](Connectors::compare). Such a connection counts as if it had been in use
    /// since the last look-up, which had this identity, and the next one compares it as well.
    fn known_identity(&self, i: usize) -> Option<String> {
        let look_up = self.sites[i].look_up.lock();
        look_up.identity.clone().filter(|_| clock::now() < look_up.due)
    }

    /// Another address may lead to the server of master `i` from now on: no lane has a connection to it. So the idle
    /// ones are not used either before its address has been looked up.
    fn release_name(&self, i: usize) {
        self.sites[i].look_up.lock().identity = None;
        self.sites[i].connector.registry.release(i);
    }

    /// Has a connector started for master `i` when its address is to be looked up next.
    fn look_up_later(&self, i: usize) {
        let in_use = self.is_in_use(i);
        let mut look_up = self.sites[i].look_up.lock();
        if let Some(key) = look_up.entered.take() {
            self.chores.leave(key);
        }
        if !in_use {
            return;
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
        {
            let mut look_up = self.sites[i].look_up.lock();
            look_up.due = asked.plus(next);
            if let Some(identity) = now_there {
                look_up.identity = identity.map(str::to_string);
            }
        }
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
    pub(crate) fn freshen(self: &Arc<Self>, lane: &Lane, limit: Mono) {
        let now = clock::now();
        if !lane.is_idle(now) {
            return;
        }
        let wakes = lane.wake_up(now);
        let masters = 0..self.sites.len();
        let connected = |i: &usize| lane.links[*i].conn().is_some();
        let before: Vec<usize> = masters.clone().filter(connected).collect();
        lane.sweep();
        let awaited: Vec<usize> = if wakes {
            masters.clone().for_each(|i| self.connect(i));
            masters.collect()
        } else {
            before.into_iter().filter(|i| !connected(i)).collect()
        };
        if !awaited.is_empty() {
            let known = |i: &usize| connected(i) || self.sites[*i].last_error.lock().is_some();
            let limit = limit.min(now.plus(self.masters.settings.connect_timeout));
            self.masters.progress.wait_until(limit, || self.masters.is_closed() || awaited.iter().all(known));
        }
        if wakes {
            lane.is_awake();
        }
    }

    /// There is a connection to master `i`, for what lacks one.
    fn connected(self: &Arc<Self>, i: usize, pooled: Pooled) {
        *self.sites[i].last_error.lock() = None;
        self.sites[i].reported.connected(&self.masters.labels[i]);
        self.install(i, pooled);
        self.masters.progress.notify();
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
            // Into the pool, where it stays until it is wanted; it is tested then.
            None => drop(pooled),
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

    /// Closes the connections of the lanes that have been idle for the time that the user has set, if there is one, and
    /// those that have been idle in the pools for that time.
    pub(crate) fn rest(&self) {
        let Some(limit) = self.masters.settings.idle_timeout else { return };
        // What is to be delivered again is delivered first.
        if self.reaper.counts().pending == 0 {
            for lane in &self.masters.lanes {
                if lane.rest(limit) {
                    let index = lane.config.index;
                    journal::debug!("lane {index} has been idle for {limit:?}: its connections are closed");
                    // Why a master was away long ago is no reason not to wait for it.
                    self.sites.iter().for_each(|site| *site.last_error.lock() = None);
                }
            }
        }
        let (now, reaped) = (clock::now(), self.reaped.load(Ordering::Relaxed));
        if now.since(Mono::from_nanos(reaped)) > REAP_INTERVAL {
            self.reaped.store(now.nanos(), Ordering::Relaxed);
            self.pools.reap();
        }
    }

    /// What the pools have counted.
    pub(crate) fn counts(&self) -> &Counts {
        self.pools.counts()
    }

    /// Closes all connections that are not in use.
    pub(crate) fn close(&self) {
        self.pools.close();
    }
}

/// Not for longer than a moment, while one comes back: `build` asks for room for the lanes, the listener and a look-up.
const FULL: &str = "its pool has no room for another connection";

/// Connects until every lane, and the listener if it runs, has a connection to master `i`, and its address has been
/// looked up not long ago. The client is not kept alive meanwhile.
fn run(connectors: &Weak<Connectors>, i: usize) {
    let mut failures = 0_u32;
    loop {
        let Some(alive) = connectors.upgrade().filter(|c| !c.masters.is_closed()) else { return };
        let site = &alive.sites[i];
        let idle = || alive.vacancy(i).is_none() && !alive.look_up_is_due(i);
        if idle() {
            // A lane that wakes up stores that first, then looks here.
            site.connecting.swap(false, Ordering::SeqCst);
            // One may have broken between the look and the store.
            if idle() || site.connecting.swap(true, Ordering::SeqCst) {
                alive.look_up_later(i);
                return;
            }
        }
        let (connector, pool) = (site.connector.clone(), alive.pools.of(i));
        if !alive.is_in_use(i) {
            alive.release_name(i);
        }
        let pause = reconnect_pause(site.steadiness.lock().1.saturating_add(failures));
        let (progress, wanted) = (alive.masters.progress.clone(), alive.vacancy(i).is_some());
        let known = alive.known_identity(i).filter(|_| wanted);
        drop(alive);
        if !pause.is_zero() && wanted {
            let gone = || connectors.upgrade().is_none_or(|c| c.masters.is_closed());
            progress.wait_until(clock::now().plus(pause), gone);
        }
        let Some(pool) = pool else { return };
        if let Some(pooled) = known.as_ref().and_then(|identity| pool.check_out(identity)) {
            let Some(alive) = connectors.upgrade().filter(|c| !c.masters.is_closed()) else { return };
            // The pause and the test have taken time.
            if alive.known_identity(i) == known {
                failures = 0;
                alive.connected(i, pooled);
            } else {
                pooled.break_off();
            }
            continue;
        }
        let asked = clock::now();
        let made = if pool.has_room() { connector.connect() } else { Err(ConnectError::Io(FULL.into())) };
        let Some(alive) = connectors.upgrade().filter(|c| !c.masters.is_closed()) else { return };
        alive.compare(i, asked, &made);
        if let Err(ConnectError::Unfit(Unfit::Duplicate(other, _))) = &made {
            alive.look_up_now(*other);
        }
        if alive.vacancy(i).is_none() {
            // The connections that are there lead to where the address does.
            continue;
        }
        if let Err(why) = &made {
            *alive.sites[i].last_error.lock() = Some(why.clone());
            alive.sites[i].reported.down(&alive.masters.labels[i], why);
        }
        match made.ok().and_then(|conn| alive.pools.enter(i, conn)) {
            Some(pooled) => {
                failures = 0;
                alive.connected(i, pooled);
            }
            None => {
                failures += 1;
                alive.masters.progress.notify();
            }
        }
    }
}
