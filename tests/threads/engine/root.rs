//! What holds the parts together: one master, and of the hooks between the parts only those that the models need. The
//! order of the end is that of `src/engine/root.rs`.

use super::chores::{Chore, Chores};
use super::drain::Caretakers;
use super::hold::{Hold, Home};
use super::lease::{Lease, Leases};
use super::masters::{Masters, nobody};
use super::queue::{Place, Queues};
use super::rounds::RoundResult;
use super::settings::{Settings, Terms};
use super::signal::Callbacks;
use super::timer::Timer;
use super::watchdog::Watchdogs;
use crate::protocol::generation::Deployment;
use crate::protocol::retry::Backoff;
use crate::protocol::{Attempt, Command, Drift, LossReason, Mono, Namespace, Operation, Quorum};
use crate::sys::clock;
use crate::wire::conn::{Heard, serve};
use crate::wire::lane::{Hooks, Lane};
use crate::wire::request::Request;
use crate::world;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// The ttl of a lease; a renewal is due after a third of it.
pub(crate) const TTL: Duration = Duration::from_secs(3);

pub(crate) struct Engine {
    pub(crate) masters: Arc<Masters>,
    pub(crate) leases: Arc<Leases>,
    pub(crate) chores: Arc<Chores>,
    pub(crate) queues: Arc<Queues>,
    caretakers: Caretakers,
    callbacks: Callbacks,
    watchdogs: Watchdogs,
    /// What the master was sent.
    pub(crate) heard: Heard,
    /// The events `Reap` that were handled, and when.
    pub(crate) reaped: Mutex<Vec<(usize, Mono)>>,
}

#[derive(Clone, Default)]
struct Upward(Arc<OnceLock<Weak<Engine>>>);

impl Hooks for Upward {
    fn connection_lost(&self, _: usize) {}

    fn undelivered(&self, _: usize, _: Vec<Arc<Request>>) {}

    fn recovered(&self, _: usize) {}

    fn waiters_elsewhere(&self, _: &Arc<Request>, _: bool) {}

    fn drain_wanted(&self, lane: usize) {
        if let Some(engine) = self.0.get().and_then(Weak::upgrade) {
            engine.caretakers.later(lane);
        }
    }

    fn down_reason(&self, _: usize) -> String {
        String::new()
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

fn settings() -> Settings {
    let (quorum, drift) = (Quorum::new(1, 0).unwrap(), Drift::DEFAULT);
    // No master is called hung, and no answer late, because of what the scheduler does.
    let ages = Duration::from_secs(1_000_000);
    Settings {
        quorum,
        namespace: Namespace::new("rl").unwrap(),
        deployment: Deployment::new("default", quorum, ages, drift),
        quarantine: true,
        max_lease: ages,
        drift,
        ttl: TTL,
        master_timeout: Some(ages),
        round_timeout: Some(ages),
        hang_timeout: ages,
        connect_timeout: ages,
        outage_patience: ages,
        lanes: 1,
        pool_size: 3,
        idle_timeout: None,
        test_on_check_out: true,
        watchdog_threads: 256,
        hand_over: Duration::ZERO,
        label: "".into(),
        backoff: Backoff::DEFAULT,
    }
}

impl Engine {
    pub(crate) fn start(forgetful: bool) -> Arc<Engine> {
        let (conn, heard) = serve(forgetful);
        let upward = Upward::default();
        let labels = Arc::new(vec!["master".into()]);
        let masters = Masters::new(Arc::new(settings()), labels, || Box::new(upward.clone())).unwrap();
        let (masters, chores) = (Arc::new(masters), Chores::new().unwrap());
        let engine = Arc::new(Engine {
            leases: Arc::new(Leases { masters: masters.clone(), timer: Timer::new().unwrap() }),
            queues: Queues::new(),
            caretakers: Caretakers::new(masters.clone(), chores.clone()),
            callbacks: Callbacks::default(),
            watchdogs: Watchdogs::new(masters.settings.watchdog_threads),
            masters,
            chores,
            heard,
            reaped: Mutex::default(),
        });
        let _ = upward.0.set(Arc::downgrade(&engine));
        engine.lane().install(0, conn);
        let (threads, watchdogs) = (&engine.masters.threads, engine.watchdogs.clone());
        let due = move |lease: Weak<Lease>| {
            if let Some(lease) = lease.upgrade() {
                lease.due(|lease, slot| watchdogs.renew(lease, slot));
            }
        };
        engine.leases.timer.start(threads, "timer", due).unwrap();
        let weak = Arc::downgrade(&engine);
        let work = move |chore| {
            if let Some(engine) = weak.upgrade() {
                engine.work(chore);
            }
        };
        engine.chores.start(threads, work).unwrap();
        engine.watchdogs.start(threads).unwrap();
        engine
    }

    fn work(&self, chore: Chore) {
        match chore {
            Chore::Drain(lane, leads) => self.caretakers.due(lane, leads),
            Chore::Reap(i) => {
                self.reaped.lock().unwrap().push((i, world::now()));
                world::changed();
            }
            Chore::Connect(_) | Chore::Sweep | Chore::Notify(..) => {}
        }
    }

    pub(crate) fn lane(&self) -> &Arc<Lane> {
        &self.masters.lanes[0]
    }

    /// Ends the engine: the losses are announced, and all threads end.
    pub(crate) fn close(&self) {
        self.masters.close();
        for lease in self.leases.timer.stop().iter().filter_map(Weak::upgrade) {
            lease.lose(LossReason::Closed);
        }
        self.chores.stop();
        self.watchdogs.stop();
        self.caretakers.stop();
        self.callbacks.stop();
        self.lane().close();
    }

    fn command(&self, name: &str, operation: Operation) -> Command {
        let keys = Arc::new(self.masters.settings.namespace.keys(name).unwrap());
        Command { keys, owner: nobody(), operation, nonce: 0 }
    }

    /// A release of `name`, as a round; its answer is waited for if `awaited`.
    pub(crate) fn release_of(&self, name: &str, awaited: bool) -> Arc<Request> {
        let command = self.command(name, Operation::Release { keep: Duration::ZERO, notify: None });
        let quorum = self.masters.settings.quorum;
        Arc::new(Request::new(command, quorum, quorum.all(), awaited))
    }

    /// A lease of `name` that was granted just now.
    pub(crate) fn grant(self: &Arc<Self>, name: &str, renew: bool) -> Arc<Hold> {
        self.grant_on(name, &Engine::terms(renew, Duration::ZERO), None)
    }

    /// Terms on which a lease may be handed over for so long.
    pub(crate) fn terms(renew: bool, hand_over: Duration) -> Arc<Terms> {
        Arc::new(Terms {
            ttl: TTL,
            renew,
            fenced: false,
            lock_delay: Duration::ZERO,
            min_hold: Duration::ZERO,
            max_hold: None,
            hand_over,
            tries: None,
            fail_fast: false,
            backoff: Backoff::DEFAULT,
            label: "".into(),
        })
    }

    /// A lease of `name` on these terms, granted just now, with its place in the local queue.
    pub(crate) fn grant_on(self: &Arc<Self>, name: &str, terms: &Arc<Terms>, place: Option<Place>) -> Arc<Hold> {
        let operation = Operation::Acquire { px_ms: terms.px_ms(TTL), full: false, fence: false, entry: None };
        let command = self.command(name, operation);
        let (keys, owner) = (command.keys.clone(), command.owner.clone());
        let quorum = self.masters.settings.quorum;
        let request = Arc::new(Request::new(command, quorum, quorum.all(), true));
        let now = clock::now();
        let attempt = Attempt::acquiring(now, TTL, self.masters.settings.drift);
        let round = RoundResult { request, start: now, end: now };
        let lease = self.leases.grant(&keys, &owner, terms, attempt, &round);
        if let Some(place) = &place {
            place.granted(now, 0);
        }
        Hold::new(self.clone(), lease, place)
    }
}
