//! A lane: one shared connection per master, on which the rounds of many threads travel.
//!
//! Submitting is queueing, by **flat combining**: the thread that gets the write side writes all that is queued, also
//! by others, one write per master. Waiting is parking, by **leader and followers**: one waiting thread, the leader,
//! reads for all and wakes the followers (`leader`, `reader`).

use super::Pooled;
use super::conversation::{Entry, Outgoing};
use super::decode::{RELEASED_AND_NOTIFIED, RELEASED_NOT_NOTIFIED};
use super::encode::{Encoder, Peer};
use super::leader::{Awaited, Leader, Woken};
use super::link::Link;
use super::request::Request;
use super::sources::Sources;
use crate::protocol::generation::Deployment;
use crate::protocol::health::{Treatment, treat};
use crate::protocol::{Answer, Cause, Mono, Quorum};
use crate::sys::clock;
use crate::sys::journal;
use crate::sys::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering, Rank};
use crate::sys::thread::Thread;
use crate::sys::wake::Wake;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What a lane calls of its owner.
pub(crate) trait Hooks: Send + Sync {
    /// The connection to master `i` was given up and is to be replaced.
    fn connection_lost(&self, i: usize);
    /// These releases may not have reached master `i`.
    fn undelivered(&self, i: usize, releases: Vec<Arc<Request>>);
    /// Master `i`, which was hung, has answered.
    fn recovered(&self, i: usize);
    /// The release in `request` found waiters of other processes; whether it notified one.
    fn waiters_elsewhere(&self, request: &Arc<Request>, notified: bool);
    /// Replies may come that no thread waits for: see to it that they are read.
    fn drain_wanted(&self, lane: usize);
    /// The state of master `i` changed in a way that is logged.
    fn noticed(&self, _i: usize, _what: Noticed) {}
    /// Why master `i` cannot be reached.
    fn down_reason(&self, i: usize) -> String;
}

/// A change of a master's state, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noticed {
    /// It left commands unanswered for so long that its connection was closed.
    Hung,
    /// It casts no votes for this time.
    Quarantined(Duration),
    /// It votes again after a quarantine.
    Votes,
}

/// The settings of a lane.
pub(crate) struct LaneConfig {
    pub(crate) index: usize,
    pub(crate) quorum: Quorum,
    pub(crate) deployment: Deployment,
    pub(crate) quarantine: bool,
    /// After this time without an answer a master is hung, and no request waits for it.
    pub(crate) master_timeout: Duration,
    /// After this time without an answer its connection is closed.
    pub(crate) hang_timeout: Duration,
}

enum Job {
    New(Arc<Request>),
    /// The script in full, to one master that did not know its digest.
    Resend(Arc<Request>, usize),
}

struct Writer {
    encoder: Encoder,
    outgoing: Vec<Outgoing>,
    spare: Vec<Job>,
    entries: Vec<Entry>,
}

/// See the module.
pub(crate) struct Lane {
    pub(crate) config: LaneConfig,
    pub(crate) links: Vec<Link>,
    inbox: Mutex<Vec<Job>>,
    writer: Mutex<Writer>,
    pub(super) sources: Mutex<Sources>,
    pub(super) leader: Leader<Request>,
    pub(super) wake: Wake,
    /// Rises whenever what must be polled changes.
    pub(super) epoch: AtomicU64,
    /// A caretaker has been asked for and has not finished.
    pub(crate) drain_requested: AtomicBool,
    /// When something was last written, in nanoseconds.
    last_write: AtomicU64,
    /// How often a thread has begun to lead.
    pub(crate) leads: AtomicU64,
    /// Every answer that had come by this moment has been read, in nanoseconds.
    pub(super) read_up_to: AtomicU64,
    /// Whether its connections have been given up because it was idle.
    rest: AtomicU8,
    /// When a thread was last about to send something after a pause, in nanoseconds.
    awake_since: AtomicU64,
    /// The masters in quarantine, by their last answers.
    quarantined: AtomicU64,
    pub(super) hooks: Box<dyn Hooks>,
}

/// The first size at which a backlog is thought to be a dead master's: nothing more is queued for it.
const BACKLOG_LIMIT_BYTES: usize = 1024 * 1024;

/// Below the least time after which a server closes idle connections (`timeout 1`).
const IDLE_DELAY: Duration = Duration::from_millis(500);

// Whether a lane has been idle for so long that it has given up its connections.
const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
/// Its connections are being made, for a caller.
const WAKING: u8 = 2;

impl Lane {
    pub(crate) fn new(config: LaneConfig, hooks: Box<dyn Hooks>) -> io::Result<Lane> {
        let n = config.quorum.masters();
        Ok(Lane {
            links: (0..n).map(|_| Link::default()).collect(),
            inbox: Mutex::new(Rank::Inbox, Vec::new()),
            writer: Mutex::new(
                Rank::Writer,
                Writer {
                    encoder: Encoder::new(config.deployment.clone(), config.quarantine),
                    outgoing: (0..n).map(|_| Outgoing::default()).collect(),
                    spare: Vec::new(),
                    entries: Vec::new(),
                },
            ),
            sources: Mutex::new(Rank::Sources, Sources::new(n)),
            leader: Leader::new(),
            wake: Wake::new()?,
            epoch: AtomicU64::new(1),
            drain_requested: AtomicBool::new(false),
            last_write: AtomicU64::new(0),
            rest: AtomicU8::new(AWAKE),
            awake_since: AtomicU64::new(clock::now().nanos()),
            leads: AtomicU64::new(0),
            read_up_to: AtomicU64::new(0),
            quarantined: AtomicU64::new(0),
            hooks,
            config,
        })
    }

    /// Whether nothing has been written for so long that servers may have closed the connections.
    pub(crate) fn is_idle(&self, now: Mono) -> bool {
        now.since(Mono::from_nanos(self.last_write.load(Ordering::Relaxed))) > IDLE_DELAY
    }

    /// Whether it has no connections because it was idle, and needs none.
    pub(crate) fn is_asleep(&self) -> bool {
        self.rest.load(Ordering::SeqCst) == ASLEEP
    }

    /// The caller is about to send something, so that the lane does not fall asleep now. Whether it has been asleep and
    /// its connections are to be waited for.
    ///
    /// The time is stored before the state is looked at, and [`fall_asleep`](Lane::fall_asleep) does it the other way
    /// round: one of the two sees the other.
    pub(crate) fn wake_up(&self, now: Mono) -> bool {
        self.awake_since.swap(now.nanos(), Ordering::SeqCst);
        let state = self.rest.compare_exchange(ASLEEP, WAKING, Ordering::SeqCst, Ordering::SeqCst);
        let wakes = state != Err(AWAKE);
        if wakes {
            // The thread that gives up the connections has finished then.
            drop(self.writer.lock());
        }
        wakes
    }

    /// Its connections have been waited for.
    pub(crate) fn is_awake(&self) {
        let _ = self.rest.compare_exchange(WAKING, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether nothing has been sent, or was about to be, for so long.
    pub(super) fn has_rested(&self, limit: Duration) -> bool {
        let last = self.last_write.load(Ordering::SeqCst).max(self.awake_since.load(Ordering::SeqCst));
        clock::now().since(Mono::from_nanos(last)) > limit
    }

    /// Gives up all connections if nothing has been sent for `limit` and no answer is owed; whether it did. For the
    /// leader.
    pub(super) fn fall_asleep(&self, limit: Duration) -> bool {
        let Some(writer) = self.writer.try_lock() else { return false };
        if self.rest.compare_exchange(AWAKE, ASLEEP, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return false;
        }
        let falls = self.has_rested(limit) && self.inbox.lock().is_empty() && !self.is_owed();
        let mut given = Vec::new();
        if falls {
            given.extend(self.links.iter().filter_map(Link::take));
        } else {
            let _ = self.rest.compare_exchange(ASLEEP, AWAKE, Ordering::SeqCst, Ordering::SeqCst);
        }
        drop(writer);
        drop(given);
        if falls {
            self.changed();
        }
        // What was queued meanwhile was left to this thread.
        self.flush();
        falls
    }

    /// Queues a round behind everything that is queued on this lane. Follow with [`Lane::flush`].
    pub(crate) fn enqueue(&self, request: Arc<Request>) {
        self.inbox.lock().push(Job::New(request));
    }

    /// Queues and writes a request that no thread waits for. Never blocks on a socket.
    pub(crate) fn post(&self, request: Arc<Request>) {
        self.enqueue(request);
        self.flush();
        self.request_drain();
    }

    /// Asks for a caretaker, once until it has finished.
    pub(crate) fn request_drain(&self) {
        if !self.drain_requested.load(Ordering::Relaxed) && !self.drain_requested.swap(true, Ordering::AcqRel) {
            self.hooks.drain_wanted(self.config.index);
        }
    }

    /// Whether any master owes an answer.
    pub(crate) fn is_owed(&self) -> bool {
        self.links.iter().any(Link::is_owed)
    }

    /// Writes what is queued, unless another thread is writing: that one writes this too (flat combining).
    pub(crate) fn flush(&self) {
        let mut woken = Woken::default();
        loop {
            let Some(mut writer) = self.writer.try_lock() else { break };
            loop {
                let spare = std::mem::take(&mut writer.spare);
                let mut batch = std::mem::replace(&mut *self.inbox.lock(), spare);
                self.write_batch(&mut writer, &batch, &mut woken);
                batch.clear();
                writer.spare = batch;
                if self.inbox.lock().is_empty() {
                    break;
                }
            }
            drop(writer);
            if self.inbox.lock().is_empty() {
                break;
            }
        }
        if woken.decided {
            // The thread that waited for that will not read, and the other masters' answers are still to come.
            self.request_drain();
        }
        woken.unpark();
    }

    fn write_batch(&self, writer: &mut Writer, batch: &[Job], woken: &mut Woken) {
        let now = clock::now();
        let read_up_to = Mono::from_nanos(self.read_up_to.load(Ordering::Acquire));
        self.last_write.store(now.nanos(), Ordering::Relaxed);
        let Writer { encoder, outgoing, entries, .. } = writer;
        for (i, (link, out)) in self.links.iter().zip(outgoing).enumerate() {
            let snapshot = link.snapshot();
            let Some(conn) = snapshot.conn else {
                out.bytes.clear();
                out.at = 0;
                self.refuse(i, batch, now, woken);
                continue;
            };
            if out.conn_id != conn.id() {
                out.restart(conn.id());
            }
            let awaited = treat(snapshot.condition, read_up_to, self.config.master_timeout) == Treatment::Ask;
            if !awaited && !link.hung.load(Ordering::Relaxed) {
                link.hung.store(true, Ordering::Release);
            }
            let (settled, scripts_only, bound) = (snapshot.settled.as_ref(), snapshot.scripts_only, snapshot.bound);
            let peer = Peer { index: i, identity: conn.identity(), settled, scripts_only, bound };
            for job in batch {
                let (request, resent) = match job {
                    Job::New(request) if request.targets >> i & 1 == 1 => (request, false),
                    Job::Resend(request, to) if *to == i => (request, true),
                    _ => continue,
                };
                let Some(expect) = out.append(encoder, request, &peer, resent) else { continue };
                if !awaited && request.do_not_await(i) {
                    self.finish(request, woken);
                }
                entries.push(Entry { request: request.clone(), expect, sent: now });
            }
            let known = entries.is_empty() || link.expect(conn.id(), entries);
            if !known {
                // The connection broke in between: nothing of this was sent.
                entries.clear();
                out.bytes.clear();
                out.at = 0;
                self.refuse(i, batch, now, woken);
                continue;
            }
            self.push_out(i, link, out, &conn, woken);
        }
    }

    /// Writes what the socket takes; the rest waits until the leader sees it writable.
    fn push_out(&self, i: usize, link: &Link, out: &mut Outgoing, conn: &super::conn::Conn, woken: &mut Woken) {
        while out.at < out.bytes.len() {
            match conn.send(&out.bytes[out.at..]) {
                Ok(0) => return self.fail(i, conn.id(), Cause::Broken("it takes no more bytes".into()), woken),
                Ok(n) => out.at += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if out.bytes.len() - out.at > BACKLOG_LIMIT_BYTES {
                        return self.fail(i, conn.id(), Cause::Hung, woken);
                    }
                    if !link.backlog.swap(true, Ordering::AcqRel) {
                        self.changed();
                    }
                    return;
                }
                Err(e) => return self.fail(i, conn.id(), Cause::Broken(e.kind().to_string()), woken),
            }
        }
        out.bytes.clear();
        out.at = 0;
        if link.backlog.load(Ordering::Relaxed) {
            link.backlog.store(false, Ordering::Release);
        }
    }

    /// Answers for a master that is down.
    fn refuse(&self, i: usize, batch: &[Job], now: Mono, woken: &mut Woken) {
        let mut requests = batch.iter().filter_map(|job| match job {
            Job::New(request) if request.targets >> i & 1 == 1 => Some(request),
            Job::Resend(request, to) if *to == i => Some(request),
            _ => None,
        });
        if let Some(first) = requests.next() {
            let cause = Cause::Down(self.hooks.down_reason(i));
            self.deliver_failures(i, std::iter::once(first).chain(requests), &cause, now, woken);
        }
    }

    /// Answers for master `i`, which cannot.
    fn deliver_failures<'a>(
        &self,
        i: usize,
        requests: impl Iterator<Item = &'a Arc<Request>>,
        cause: &Cause,
        now: Mono,
        woken: &mut Woken,
    ) {
        let mut releases = Vec::new();
        for request in requests {
            if request.command.operation.is_release() {
                releases.push(request.clone());
            }
            if request.answer(i, Answer::Failed(cause.clone()), now) {
                self.finish(request, woken);
            }
        }
        if !releases.is_empty() {
            self.hooks.undelivered(i, releases);
        }
    }

    /// Wakes the thread whose request was decided by something else than a reply.
    fn finish(&self, request: &Arc<Request>, woken: &mut Woken) {
        woken.decided = true;
        match self.leader.finish(request) {
            Some(thread) => woken.threads.push(thread),
            // It may be the leader, in its poll.
            None => self.wake.signal(),
        }
    }

    /// Closes connection `conn_id` to master `i` and answers for it.
    pub(super) fn fail(&self, i: usize, conn_id: u64, cause: Cause, woken: &mut Woken) {
        let Some(entries) = self.links[i].give_up(conn_id) else { return };
        journal::debug!("master {i}: connection closed: {cause}");
        if cause == Cause::Hung {
            self.hooks.noticed(i, Noticed::Hung);
        }
        let now = clock::now();
        self.deliver_failures(i, entries.iter().map(|entry| &entry.request), &cause, now, woken);
        self.changed();
        self.hooks.connection_lost(i);
    }

    /// Puts a connection to master `i` in place.
    pub(crate) fn install(&self, i: usize, pooled: Pooled) {
        self.links[i].install(pooled);
        self.changed();
    }

    /// Gives up the connection to master `i` if it leads to another server than the one with `identity`; whether it
    /// did.
    pub(crate) fn leave_all_but(&self, i: usize, identity: Option<&str>, why: &str) -> bool {
        let other = |conn: &super::conn::Conn| Some(conn.identity()) != identity;
        let Some(conn) = self.links[i].conn().filter(|conn| other(conn)) else { return false };
        let mut woken = Woken::default();
        self.fail(i, conn.id(), Cause::Broken(why.into()), &mut woken);
        woken.unpark();
        true
    }

    fn changed(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.wake.signal();
    }

    /// Queues the script in full for master `i`.
    pub(super) fn resend(&self, request: Arc<Request>, i: usize) {
        self.inbox.lock().push(Job::Resend(request, i));
    }

    /// Whether some thread leads.
    pub(crate) fn is_led(&self) -> bool {
        self.leader.is_led()
    }

    /// Gives up every connection; for the end of a client.
    pub(crate) fn close(&self) {
        let mut woken = Woken::default();
        for (i, link) in self.links.iter().enumerate() {
            if let Some(conn) = link.conn() {
                self.fail(i, conn.id(), Cause::Down("the client is closed".into()), &mut woken);
            }
        }
        woken.unpark();
    }

    /// Promotes a follower, or leaves the lane without a leader.
    pub(super) fn resign(&self) {
        match self.leader.promote() {
            Some(next) => next.unpark(),
            None => {
                if self.is_owed() {
                    self.request_drain();
                }
            }
        }
    }

    /// Hands an answer to its round; `mine` is the leader's own.
    pub(super) fn deliver(
        &self,
        i: usize,
        request: &Arc<Request>,
        answer: Answer,
        now: Mono,
        mine: Option<&Arc<Request>>,
    ) -> Option<Thread> {
        self.notice_quarantine(i, request, &answer);
        if request.command.operation.is_release() {
            match answer {
                Answer::Failed(_) => self.hooks.undelivered(i, vec![request.clone()]),
                Answer::Yes(Some(RELEASED_AND_NOTIFIED)) => self.hooks.waiters_elsewhere(request, true),
                Answer::Yes(Some(RELEASED_NOT_NOTIFIED)) => self.hooks.waiters_elsewhere(request, false),
                _ => {}
            }
        }
        if !request.answer(i, answer, now) {
            return None;
        }
        if mine.is_some_and(|m| Arc::ptr_eq(m, request)) {
            request.ticket().mark_done();
            return None;
        }
        self.leader.finish(request)
    }

    /// Calls the owner when a master turns out to be in quarantine, and when it votes again. Costs a load while none
    /// is.
    fn notice_quarantine(&self, i: usize, request: &Request, answer: &Answer) {
        let bit = 1_u64 << i;
        let quarantined = self.quarantined.load(Ordering::Relaxed) & bit != 0;
        match answer {
            Answer::Quarantined(left) if !quarantined => {
                self.quarantined.fetch_or(bit, Ordering::Relaxed);
                self.hooks.noticed(i, Noticed::Quarantined(*left));
            }
            Answer::Yes(_) if quarantined && request.command.operation.is_vote() => {
                self.quarantined.fetch_and(!bit, Ordering::Relaxed);
                self.hooks.noticed(i, Noticed::Votes);
            }
            _ => {}
        }
    }
}
