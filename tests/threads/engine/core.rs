//! The engine: one master, one lane, and the threads. The order of its end is that of `src/engine/core.rs`.

use super::care::Caretakers;
use super::chores::{Chore, Record};
use super::held::Held;
use super::queue::Queues;
use super::rounds::Finished;
use super::settings::{Settings, Terms};
use super::shared::SharedWatchdog;
use super::signal::Callbacks;
use super::timer::Timer;
use super::watchdog::Watchdogs;
use crate::protocol::generation::Deployment;
use crate::protocol::retry::Backoff;
use crate::protocol::{Attempt, Command, Drift, Keys, LossReason, Mono, Namespace, Operation, Owner, Quorum, Token};
use crate::sys::clock;
use crate::sys::sync::{AtomicBool, Ordering};
use crate::sys::thread::Threads;
use crate::wire::conn::{Heard, serve};
use crate::wire::lane::{Hooks, Lane, LaneConfig};
use crate::wire::op::Op;
use crate::world;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// The ttl of a lease; a renewal is due after a third of it.
pub(crate) const TTL: Duration = Duration::from_secs(3);

pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) labels: Arc<Vec<String>>,
    pub(crate) lanes: Vec<Arc<Lane>>,
    pub(crate) timer: Arc<Timer<Weak<Held>>>,
    pub(crate) chores: Arc<Timer<Chore>>,
    pub(crate) record: Record,
    pub(crate) threads: Arc<Threads>,
    pub(crate) caretakers: Caretakers,
    pub(crate) callbacks: Callbacks,
    pub(crate) watchdogs: Watchdogs,
    pub(crate) queues: Arc<Queues>,
    pub(crate) shared: SharedWatchdog,
    /// What the master was told.
    pub(crate) heard: Heard,
    /// The events `Reap` that were handled, and when.
    pub(crate) reaped: Mutex<Vec<(usize, Mono)>>,
    closed: AtomicBool,
}

struct LaneHooks(Weak<Engine>);

impl Hooks for LaneHooks {
    fn connection_lost(&self, _: usize) {}

    fn undelivered(&self, _: usize, _: Vec<Arc<Op>>) {}

    fn recovered(&self, _: usize) {}

    fn others_wait(&self, _: &Arc<Op>, _: bool) {}

    fn unattended(&self, lane: usize) {
        if let Some(engine) = self.0.upgrade() {
            engine.care_later(lane);
        }
    }

    fn down_reason(&self, _: usize) -> String {
        String::new()
    }
}

impl Engine {
    pub(crate) fn start(forgetful: bool) -> Arc<Engine> {
        let quorum = Quorum::new(1, 0).unwrap();
        let drift = Drift::DEFAULT;
        // Nobody is called hung or late for what the scheduler does to him.
        let ages = Duration::from_secs(1_000_000);
        let settings = Settings {
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
            pool_size: 1,
            watchdog_threads: 256,
            hand_over: Duration::ZERO,
            label: "".into(),
            backoff: Backoff::DEFAULT,
        };
        let (conn, heard) = serve(forgetful);
        let engine = Arc::new_cyclic(|weak: &Weak<Engine>| {
            let config = LaneConfig {
                index: 0,
                quorum,
                deployment: settings.deployment.clone(),
                quarantine: settings.quarantine,
                master_timeout: ages,
                hang_timeout: ages,
            };
            Engine {
                labels: Arc::new(vec!["master".into()]),
                lanes: vec![Arc::new(Lane::new(config, Box::new(LaneHooks(weak.clone()))).unwrap())],
                timer: Timer::new().unwrap(),
                chores: Timer::new().unwrap(),
                record: Record::default(),
                threads: Arc::default(),
                caretakers: Caretakers::new(1),
                callbacks: Callbacks::default(),
                watchdogs: Watchdogs::new(settings.watchdog_threads),
                queues: Queues::new(),
                shared: SharedWatchdog,
                heard,
                reaped: Mutex::default(),
                closed: AtomicBool::new(false),
                settings,
            }
        });
        engine.lanes[0].install(0, conn);
        let due = |held: Weak<Held>| held.upgrade().iter().for_each(Held::due);
        engine.timer.start(&engine.threads, "timer", due).unwrap();
        let weak = Arc::downgrade(&engine);
        let chore = move |chore| {
            if let Some(engine) = weak.upgrade() {
                engine.do_chore(chore);
            }
        };
        engine.chores.start(&engine.threads, "chores", chore).unwrap();
        engine.watchdogs.start(&engine.threads).unwrap();
        engine
    }

    pub(crate) fn lane(&self, _: &Keys) -> &Arc<Lane> {
        &self.lanes[0]
    }

    pub(crate) fn is_forked(&self) -> bool {
        false
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn connect(&self, _: usize) {}

    pub(crate) fn tell_due(&self, _: Arc<Keys>, _: u64) {}

    pub(crate) fn reap_due(&self, i: usize) {
        self.reaped.lock().unwrap().push((i, world::now()));
        world::changed();
    }

    /// Ends the engine: whoever holds is told, and all threads end.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for held in self.timer.stop().iter().filter_map(Weak::upgrade) {
            held.lose(LossReason::Closed);
        }
        drop(self.chores.stop());
        self.watchdogs.stop();
        self.caretakers.stop();
        self.callbacks.stop();
        for lane in &self.lanes {
            lane.close();
        }
    }

    fn command(&self, name: &str, operation: Operation) -> Command {
        let owner = Owner::new(Token::from_bytes([7; 16]), &"".into(), 0);
        let keys = Arc::new(self.settings.namespace.keys(name).unwrap());
        Command { keys, owner: Arc::new(owner), operation, nonce: 0 }
    }

    /// A release of `name`, as a round; its answer is waited for if `awaited`.
    pub(crate) fn release_of(&self, name: &str, awaited: bool) -> Arc<Op> {
        let command = self.command(name, Operation::Release { keep: Duration::ZERO, tell: None });
        let quorum = self.settings.quorum;
        Arc::new(Op::new(command, quorum, quorum.all(), awaited))
    }

    /// A lease of `name` that was granted just now.
    pub(crate) fn grant(self: &Arc<Self>, name: &str, renew: bool) -> Arc<Held> {
        self.grant_on(name, &Engine::terms(renew, Duration::ZERO))
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

    /// A lease of `name` on these terms, granted just now.
    pub(crate) fn grant_on(self: &Arc<Self>, name: &str, terms: &Arc<Terms>) -> Arc<Held> {
        let operation = Operation::Acquire { px_ms: terms.px_ms(TTL), full: false, fence: false, word: None };
        let command = self.command(name, operation);
        let (keys, owner) = (command.keys.clone(), command.owner.clone());
        let quorum = self.settings.quorum;
        let op = Arc::new(Op::new(command, quorum, quorum.all(), true));
        let now = clock::now();
        let attempt = Attempt::acquiring(now, TTL, self.settings.drift);
        Held::new(self, &keys, &owner, terms, attempt, &Finished { op, start: now, end: now })
    }
}
