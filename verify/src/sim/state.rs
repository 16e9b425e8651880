//! What there is in one history: the world, its processes with their threads, locks and rounds, and what happens to
//! them. Data only; each part of what is done with it has a file of its own.

use super::clock::{Clock, Time};
use super::lua::Interpreter;
use super::plan::{Fault, Plan};
use super::rng::Rng;
use super::server::Server;
use redleash::unversioned::{Request, Talk};
use redleash_protocol::init::Init;
use redleash_protocol::lease::{self, Extension};
use redleash_protocol::local_queue::LocalQueue;
use redleash_protocol::time::millis_up;
use redleash_protocol::{Acquire, Attempt, Keys, Lease, Mono, Owner, acquire};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The world.
pub(super) struct World<'a> {
    pub(super) plan: Plan,
    pub(super) rng: Rng,
    pub(super) now: Time,
    pub(super) servers: Vec<Server>,
    pub(super) clients: Vec<Client>,
    pub(super) connections: Vec<Connection>,
    pub(super) holds: Vec<Hold>,
    pub(super) rounds: BTreeMap<u64, AwaitedRound>,
    pub(super) keys: Vec<Arc<Keys>>,
    pub(super) checks: Checks,
    /// Partitioned pairs of client and master, and until when.
    pub(super) cut: BTreeMap<(usize, usize), Time>,
    pub(super) slow_until: Time,
    pub(super) calm: bool,
    pub(super) attempts_left: u32,
    /// The history may end, although not everybody got the lock.
    pub(super) enough: bool,
    pub(super) next_wait: u64,
    pub(super) lua: &'a Interpreter,
    pub(super) queue: BTreeMap<(Time, u64), Event>,
    pub(super) next_event: u64,
    pub(super) events: u64,
}

/// What happens next.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Bytes reach the server of a connection.
    ToServer(usize, Vec<u8>),
    /// Bytes reach the client of a connection.
    ToClient(usize, Vec<u8>),
    /// A client notices that a connection was closed.
    Closed(usize),
    /// A client's attempt to connect to a master ends.
    Connect(usize, usize),
    /// A client writes what is queued.
    Flush(usize),
    /// A waiting thread runs again: its round is decided, or its deadline has come.
    Wake(usize, u64),
    /// A worker's next step.
    Step(usize, usize),
    /// Something is due for a lease.
    Lease(usize),
    /// A connection may owe an answer for too long.
    Overdue(usize, usize, usize),
    /// Releases for a master may be due.
    Reap(usize, usize),
    /// A fault.
    Fault(Fault),
    /// The deadline of a lease has passed.
    Deadline(usize, Mono),
    /// A partition, a slow network or the like is over.
    Heal(usize, usize),
    /// The last phase begins: no faults any more.
    Calm,
    /// A paused client goes on.
    Resume(usize),
    /// All servers save their data.
    Snapshot,
    /// The moment of an ambush.
    Trap(Trap),
    /// A stopped server goes on.
    WakeServer(usize),
    /// A client settles the masters.
    Init(usize),
    /// A master's notification reaches a client: the master, the lock, and the waiter's number.
    Notified(usize, usize, usize, u64),
    /// A quorum is subscribed to, by a client for a lock.
    Subscribed(usize, usize),
    /// A late notification may be due, by a client for a lock, with the number of its last wait.
    LateNotification(usize, usize, u64),
    /// A call of a worker may have reached its limit in the local queue.
    QueueLimit(usize, usize, u64),
    /// Somebody forges notifications.
    Forge,
    /// The liveness of all locks is looked at.
    Watch,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: usize,
    /// The master's index as the client counts.
    pub(super) name: usize,
    pub(super) server: usize,
    /// The process that it leads to.
    pub(super) process: u64,
    /// The client has not closed it.
    pub(super) open: bool,
    /// What is sent after this time is lost.
    pub(super) lost_out: bool,
    pub(super) lost_in: bool,
    pub(super) last_out: Time,
    pub(super) last_in: Time,
    /// What is executed after the client has closed it: at this time, or never.
    pub(super) tail: Option<Time>,
    pub(super) received: Vec<u8>,
}

impl Connection {
    /// Nothing more arrives at the server before this time.
    pub(super) fn hold_back(&mut self, until: Time) {
        self.last_out = self.last_out.max(until);
    }

    /// Something was lost on it: nothing comes through any more.
    pub(super) fn is_dead(&self) -> bool {
        self.lost_out || self.lost_in
    }
}

/// A release that was not delivered.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) request: Request,
    pub(super) master: usize,
    pub(super) due: Mono,
    pub(super) key_ends: Mono,
    pub(super) tries: u32,
}

/// One process.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) clock: Clock,
    pub(super) wall: Clock,
    pub(super) machine: usize,
    pub(super) alive: bool,
    pub(super) paused_until: Time,
    /// What has come while it was paused.
    pub(super) stash: Vec<Event>,
    pub(super) max_lease: Duration,
    pub(super) block: String,
    /// The init under way.
    pub(super) init: Option<Init>,
    pub(super) workers: Vec<Worker>,
    pub(super) talks: Vec<Talk>,
    pub(super) conns: Vec<Option<usize>>,
    /// Rounds to write; the master, where one is sent again.
    pub(super) inbox: Vec<(Request, Option<usize>)>,
    pub(super) orphans: Vec<Orphan>,
    /// Releases that were posted again: how often, and when their keys end.
    pub(super) reposted: Vec<(Request, u32, Mono)>,
    pub(super) steadiness: Vec<(Mono, u32)>,
    /// The local queues, by lock.
    pub(super) queues: Vec<Queue>,
    /// Until when each master's notifications are not heard.
    pub(super) deaf_until: Vec<Time>,
}

/// The local queue of one process for one lock.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) local: LocalQueue,
    /// The workers behind the one that has the place.
    pub(super) waiting: VecDeque<usize>,
    /// A quorum of masters is subscribed to.
    pub(super) subscribed: bool,
}

/// One held lease.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) client: usize,
    pub(super) name: usize,
    pub(super) lease: Lease,
    pub(super) owner: Arc<Owner>,
    pub(super) terms: Terms,
    pub(super) request: Request,
    /// The masters whose votes its last good round rests on.
    pub(super) votes: u32,
    /// When its last good round was over.
    pub(super) good_at: Time,
    pub(super) fence: Option<u64>,
    pub(super) extending: bool,
    /// The number of the grant that its line of adoptions began with.
    pub(super) line: u64,
    /// It has the place in its local queue.
    pub(super) place: bool,
    /// Given back, handed out, or its process ended.
    pub(super) over: bool,
    pub(super) announced: bool,
    /// Somebody has seen that it was lost.
    pub(super) seen_lost: bool,
    pub(super) timer: Option<Time>,
}

/// A thread that waits for a round.
#[derive(Debug)]
pub(super) struct AwaitedRound {
    pub(super) client: usize,
    pub(super) request: Request,
    pub(super) then: Then,
}

/// What the thread does when the round is decided or its time is over.
#[derive(Clone, Debug)]
pub(super) enum Then {
    /// An attempt of a worker.
    Attempt { worker: usize, attempt: Attempt, owner: Arc<Owner> },
    /// The adoption of a handle.
    Adopt { worker: usize, attempt: Attempt, owner: Arc<Owner> },
    /// The write-back of a token that an attempt has drawn.
    FoldedBack { worker: usize, hold: usize, token: u64, until: Mono },
    /// An extension, by a worker or by the watchdog.
    Extend { worker: Option<usize>, hold: usize, extension: Extension },
    /// Extensions of many leases by one script.
    ExtendMany { leases: Vec<(usize, Extension)> },
    /// A question for a token.
    Fence { worker: usize, hold: usize, until: Mono },
    /// The write-back of a token that was asked for.
    FenceBack { worker: usize, hold: usize, token: u64, until: Mono },
    /// A question whether the lock is still held.
    Verify { worker: usize, hold: usize },
    /// A release.
    Release { worker: usize },
    /// Settling new masters.
    Init,
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Terms {
    pub(super) ttl: Duration,
    pub(super) renew: bool,
    pub(super) fenced: bool,
    pub(super) lock_delay: Duration,
    pub(super) max_hold: Option<Duration>,
}

impl Terms {
    /// The life of the key for a lease of `ttl`.
    pub(super) fn px_ms(&self, ttl: Duration) -> u64 {
        millis_up(ttl.saturating_add(self.lock_delay))
    }

    pub(super) fn lease(&self, plan: &super::plan::Plan) -> lease::Terms {
        lease::Terms { ttl: self.ttl, drift: plan.drift, renew: self.renew, max_hold: self.max_hold }
    }
}

/// A lock on its way to another process.
#[derive(Clone, Debug)]
pub(super) struct Handle {
    pub(super) name: usize,
    pub(super) owner: Arc<Owner>,
    pub(super) until: Mono,
    pub(super) line: u64,
    pub(super) terms: Terms,
}

/// What a worker does next.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Go on with a call that acquires.
    Resume,
    /// Contend, with the place in the local queue that was given.
    Contend,
    /// Contend beside others.
    ContendBeside,
    /// Go on as a waiter: the subscription is there, or was waited for.
    Listens,
    /// Ask for a fencing token.
    Fence,
    /// Extend by hand.
    Extend(Duration),
    /// Ask a quorum.
    Verify,
    /// Release and wait.
    Release,
    /// Release and do not wait.
    LetGo,
    /// Never release.
    Forget,
    /// Give it to another process.
    HandOut,
    /// Take over from another process.
    Adopt(Handle),
}

/// One thread of a user.
#[derive(Debug, Default)]
pub(super) struct Worker {
    pub(super) name: usize,
    pub(super) terms: Terms,
    pub(super) machine: Option<Acquire>,
    pub(super) wait: Option<acquire::Wait>,
    pub(super) plan: Option<acquire::Plan>,
    /// The number of its call.
    pub(super) call: u64,
    /// It has the place in the local queue, or waits for it.
    pub(super) place: bool,
    pub(super) queued: bool,
    /// What it has heard since its last attempt.
    pub(super) heard: acquire::Heard,
    /// The event that ends its pause.
    pub(super) parked_until: Option<Time>,
    /// When its poll is due, how many polls there were, and how many attempts notifications have caused.
    pub(super) poll: Mono,
    pub(super) polls: u32,
    pub(super) prompted: u32,
    pub(super) begun: Mono,
    pub(super) begun_true: Time,
    pub(super) hold: Option<usize>,
    /// What it does with the lock, last first.
    pub(super) actions: Vec<Action>,
    pub(super) next: Option<Action>,
    /// It waits for a round.
    pub(super) busy: bool,
    /// It has had its lock in the last phase.
    pub(super) content: bool,
}

impl Worker {
    /// A worker that begins with this.
    pub(super) fn with(action: Action) -> Worker {
        Worker { next: Some(action), ..Worker::default() }
    }

    pub(super) fn busy_now(&mut self) {
        self.busy = true;
    }

    pub(super) fn busy_no_more(&mut self) {
        self.busy = false;
    }

    /// It still wants its lock in the last phase.
    pub(super) fn wants(&self) -> bool {
        !self.content
    }
}

/// What an ambush does when its moment has come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trap {
    /// A process is paused until then.
    Nap(usize, Time),
    /// A server loses its data.
    Forget(usize),
    /// A holder needs the masters again: it asks for a token, or extends.
    Provoke(usize),
    /// Who has just been granted a lock is cut off from one master and asks for a token.
    Ask(usize, usize),
}

/// How often things happened.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// One grant.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Grant {
    pub(super) number: u64,
    /// When its round began, and when it was granted.
    pub(super) began: Time,
    pub(super) granted: Time,
}

/// The bookkeeping of one history.
#[derive(Debug)]
pub(super) struct Checks {
    pub(super) violation: Option<String>,
    pub(super) trace: Option<Vec<String>>,
    pub(super) counts: Counts,
    pub(super) grants: u64,
    /// The last grant of each lock; adoptions belong to the grant that they continue.
    pub(super) last_grant: Vec<Grant>,
    /// Locks that somebody has deleted by force: nothing is claimed for them any more.
    pub(super) forced: Vec<bool>,
    /// Since when each lock is free while somebody waits for it, as far as was looked.
    pub(super) free_since: Vec<Option<Time>>,
    /// When a server last forgot its keys by FLUSHALL.
    pub(super) flushed_at: Time,
    /// The tokens of each lock, by grant.
    pub(super) tokens: Vec<BTreeMap<u64, u64>>,
    /// How long the keys of a token may live, in milliseconds.
    pub(super) lives: BTreeMap<String, u64>,
    /// The lease of a token.
    pub(super) owners: BTreeMap<String, usize>,
}
