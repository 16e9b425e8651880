//! One thread that hears notifications: a subscription connection per master, and the waiters of each channel.

use super::masters::Masters;
use crate::protocol::acquire::Heard;
use crate::protocol::wait_list::{channel_of, client_number, waiter_number};
use crate::protocol::{Keys, Mono, Quorum};
use crate::sys::sync::{Mutex, Rank};
use crate::sys::thread::survives;
use crate::sys::wake::Wake;
use crate::sys::{clock, entropy, journal};
use crate::wire::Pooled;
use crate::wire::subscription::{PubSubEvent, Subscription};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How long a subscription outlives its last waiter: a process that waits once often waits again.
const LINGER_DELAY: Duration = Duration::from_secs(2);
/// How long a connection without a subscription is kept before it goes back to its pool, and how long the master has
/// then to confirm that there is none.
const KEEP_DELAY: Duration = Duration::from_secs(5);
/// How long a waiter lets its subscription settle before it goes on without.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(20);

/// What a waiting thread has heard since its last attempt; shared with the listener's thread.
struct Waiter {
    thread: Thread,
    number: u64,
    /// A bit for each master that has notified it, and [`SUBSCRIBED`].
    heard: AtomicU64,
    settled: AtomicBool,
}

/// A quorum of masters is subscribed to; above the bits of the masters.
const SUBSCRIBED: u64 = 1 << 32;

impl Waiter {
    /// Wakes the thread, if this is new: however many messages come, it is woken a few times for each attempt.
    fn hear(&self, bit: u64) {
        if self.heard.fetch_or(bit, Ordering::AcqRel) & bit == 0 {
            self.thread.unpark();
        }
    }
}

#[derive(Default)]
struct Channel {
    waiters: Vec<Arc<Waiter>>,
    /// The masters that have confirmed the subscription.
    confirmed: u32,
    idle_since: Mono,
}

#[derive(Default)]
struct Inner {
    channels: HashMap<String, Channel>,
    /// Channels that were asked for since the thread last looked.
    wanted: Vec<String>,
    /// Connections that were made since the thread last looked.
    fresh: Vec<(usize, Pooled)>,
    /// Connections that are not to be relied on any more.
    doubtful: u32,
    connected: u32,
    forbidden: u32,
    /// When the last subscription ended, while there is none.
    silent_since: Option<Mono>,
    started: bool,
    stopped: bool,
}

impl Inner {
    /// Whether a connection to master `i` is wanted.
    fn wants(&self, i: usize) -> bool {
        let needed = self.started && !self.stopped && !self.channels.is_empty();
        needed && (self.connected | self.forbidden) >> i & 1 == 0
    }
}

/// What the listener asks of its client.
pub(crate) trait Replaces: Send + Sync {
    /// A connection to master `i` is wanted; `broken` if one that was there has broken.
    fn replace(&self, i: usize, broken: bool);
}

/// The listener of a client; its thread starts with the first waiter.
pub(crate) struct Listener {
    masters: Arc<Masters>,
    replaces: Box<dyn Replaces>,
    inner: Mutex<Inner>,
    wake: Wake,
    quorum: Quorum,
    /// The number of this client among those that wait.
    client: u64,
}

/// A waiting thread that is listening.
pub(crate) struct Listening {
    listener: Arc<Listener>,
    channel: String,
    waiter: Arc<Waiter>,
}

impl Listener {
    pub(crate) fn new(masters: Arc<Masters>, replaces: Box<dyn Replaces>) -> io::Result<Arc<Listener>> {
        let client = client_number(entropy::bits());
        let quorum = masters.settings.quorum;
        let wake = Wake::new()?;
        Ok(Arc::new(Listener {
            masters,
            replaces,
            inner: Mutex::new(Rank::Listener, Inner::default()),
            wake,
            quorum,
            client,
        }))
    }

    /// Has the calling thread hear notifications for a lock: from about now on, or from when a quorum of masters is
    /// subscribed to. Until then its poll has to do.
    pub(crate) fn listen(self: &Arc<Self>, keys: &Keys, limit: Mono) -> Listening {
        let channel = channel_of(&keys.channel, self.client);
        let waiter = Arc::new(Waiter {
            thread: std::thread::current(),
            number: waiter_number(self.client, entropy::bits()),
            heard: AtomicU64::new(0),
            settled: AtomicBool::new(false),
        });
        let (mut begin, mut stir) = (false, false);
        {
            let mut inner = self.inner.lock();
            if !inner.started && !inner.stopped {
                (inner.started, begin) = (true, true);
            }
            let Inner { channels, wanted, .. } = &mut *inner;
            let known = channels.entry(channel.clone()).or_insert_with(|| {
                wanted.push(channel.clone());
                stir = true;
                Channel::default()
            });
            waiter.settled.store(self.is_settled(known), Ordering::Release);
            known.waiters.push(waiter.clone());
        }
        let listening = Listening { listener: self.clone(), channel, waiter };
        if begin {
            self.begin();
        } else if stir {
            self.wake.signal();
        }
        // What is left of the caller's time is for another attempt, too.
        let now = clock::now();
        let deadline = now.plus(SETTLE_TIMEOUT.min(limit.since(now) / 2));
        while !listening.waiter.settled.load(Ordering::Acquire) {
            let left = deadline.since(clock::now());
            if left.is_zero() {
                break;
            }
            std::thread::park_timeout(left);
        }
        listening
    }

    fn is_settled(&self, channel: &Channel) -> bool {
        self.quorum.reached(channel.confirmed.count_ones() as usize)
    }

    fn begin(self: &Arc<Self>) {
        let listener = self.clone();
        if let Err(e) = self.masters.threads.spawn("listener", move || listener.run()) {
            journal::warn!("no thread to hear notifications with, so waiting is by polling: {e}");
            self.inner.lock().started = false;
        }
    }

    /// Whether a connection to master `i` is wanted.
    pub(crate) fn wants(&self, i: usize) -> bool {
        self.inner.lock().wants(i)
    }

    /// Takes a connection to master `i`.
    pub(crate) fn install(&self, i: usize, pooled: Pooled) {
        let mut inner = self.inner.lock();
        if inner.stopped {
            return;
        }
        inner.connected |= 1 << i;
        inner.fresh.push((i, pooled));
        drop(inner);
        self.wake.signal();
    }

    /// Another connection to master `i` broke: this one may be dead without a word.
    pub(crate) fn doubt(&self, i: usize) {
        let mut inner = self.inner.lock();
        if inner.connected >> i & 1 == 1 {
            inner.doubtful |= 1 << i;
            drop(inner);
            self.wake.signal();
        }
    }

    /// Ends the thread, and wakes who listens.
    pub(crate) fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.stopped = true;
        let channels = std::mem::take(&mut inner.channels);
        // A connection left here would keep its pool, and r2d2's thread, for as long as the client's handles live.
        let fresh = std::mem::take(&mut inner.fresh);
        drop(inner);
        drop(fresh);
        self.wake.signal();
        for waiter in channels.values().flat_map(|channel| &channel.waiters) {
            waiter.thread.unpark();
        }
    }

    fn run(&self) {
        let mut subscribers: Vec<Option<Subscription>> = self.masters.labels.iter().map(|_| None).collect();
        let mut buffer = vec![0; 16 * 1024];
        let mut goes_on = true;
        while goes_on {
            if survives(|| goes_on = self.listen_once(&mut subscribers, &mut buffer)) {
                continue;
            }
            journal::error!("the listener panicked; it subscribes again, and waiting is by polling meanwhile");
            for (i, slot) in subscribers.iter_mut().enumerate() {
                *slot = None;
                self.replace(i);
            }
        }
    }

    /// Waits for what comes and hands it out; false at the end.
    fn listen_once(&self, subscribers: &mut [Option<Subscription>], buffer: &mut [u8]) -> bool {
        if !self.take_over(subscribers) {
            return false;
        }
        let ready = self.poll(subscribers);
        for (i, slot) in subscribers.iter_mut().enumerate() {
            let Some(subscriber) = slot else { continue };
            let mut fine = subscriber.flush();
            if fine.is_ok() && ready >> i & 1 == 1 {
                fine = subscriber.read(buffer, |event| self.hear(i, event));
            }
            let doubtful = self.inner.lock().doubtful >> i & 1 == 1;
            if fine.is_err() || doubtful {
                *slot = None;
                self.replace(i);
            }
        }
        self.give_back(subscribers, clock::now());
        true
    }

    /// Asks for the connections that are wanted. A connector that is at it already is not disturbed.
    fn ask(&self) {
        for i in 0..self.masters.labels.len() {
            if self.wants(i) {
                self.replaces.replace(i, false);
            }
        }
    }

    /// Gives the connections back when nobody has waited for some time. One on which a confirmation is owed for long is
    /// closed.
    fn give_back(&self, subscribers: &mut [Option<Subscription>], now: Mono) {
        let mut given = Vec::new();
        {
            let mut inner = self.inner.lock();
            let Some(silent) = inner.silent_since.filter(|_| inner.channels.is_empty()).map(|at| now.since(at)) else {
                return;
            };
            for (i, slot) in subscribers.iter_mut().enumerate() {
                let over = |s: &mut Subscription| silent > if s.is_quiet() { KEEP_DELAY } else { 2 * KEEP_DELAY };
                if let Some(subscriber) = slot.take_if(over) {
                    inner.connected &= !(1 << i);
                    inner.doubtful &= !(1 << i);
                    given.push(subscriber);
                }
            }
        }
        given.into_iter().for_each(Subscription::give_back);
    }

    /// The connection to master `i` has ended: another one is asked for.
    fn replace(&self, i: usize) {
        self.lost(i);
        self.replaces.replace(i, true);
    }

    /// Takes over what has changed since the last look; false at the end.
    fn take_over(&self, subscribers: &mut [Option<Subscription>]) -> bool {
        let mut inner = self.inner.lock();
        if inner.stopped {
            return false;
        }
        for (i, pooled) in std::mem::take(&mut inner.fresh) {
            let mut subscriber = Subscription::new(pooled);
            inner.channels.keys().for_each(|channel| subscriber.request(channel, true));
            inner.doubtful &= !(1 << i);
            subscribers[i] = Some(subscriber);
        }
        let now = clock::now();
        let wanted = std::mem::take(&mut inner.wanted);
        let is_over = |c: &mut Channel| c.waiters.is_empty() && now.since(c.idle_since) > LINGER_DELAY;
        let over: Vec<String> = inner.channels.extract_if(|_, c| is_over(c)).map(|(name, _)| name).collect();
        for subscriber in subscribers.iter_mut().flatten() {
            wanted.iter().for_each(|channel| subscriber.request(channel, true));
            over.iter().for_each(|channel| subscriber.request(channel, false));
        }
        if inner.channels.is_empty() {
            inner.silent_since.get_or_insert(now);
        } else {
            inner.silent_since = None;
        }
        drop(inner);
        self.ask();
        // What cannot be written shows itself at the next flush.
        subscribers.iter_mut().flatten().for_each(|subscriber| drop(subscriber.flush()));
        true
    }

    fn poll(&self, subscribers: &[Option<Subscription>]) -> u32 {
        let masters: Vec<usize> = (0..subscribers.len()).filter(|i| subscribers[*i].is_some()).collect();
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(masters.len() + 1);
        for subscriber in subscribers.iter().flatten() {
            let flags = if subscriber.has_backlog() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::new(&**subscriber.conn(), flags));
        }
        fds.push(PollFd::from_borrowed_fd(self.wake.fd(), PollFlags::IN));
        let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
        if !matches!(poll(&mut fds, Some(&limit)), Ok(n) if n > 0) {
            return 0;
        }
        if fds.last().is_some_and(|fd| !fd.revents().is_empty()) {
            self.wake.drain();
        }
        let readable = |k: usize| fds[k].revents().intersects(!PollFlags::OUT);
        masters.iter().enumerate().filter(|(k, _)| readable(*k)).fold(0, |mask, (_, i)| mask | 1 << i)
    }

    fn hear(&self, i: usize, event: PubSubEvent) {
        let mut inner = self.inner.lock();
        match event {
            PubSubEvent::Subscribed(channel) => {
                let Some(channel) = inner.channels.get_mut(&channel) else { return };
                let before = self.is_settled(channel);
                channel.confirmed |= 1 << i;
                if !before && self.is_settled(channel) {
                    for waiter in &channel.waiters {
                        waiter.settled.store(true, Ordering::Release);
                        waiter.hear(SUBSCRIBED);
                    }
                }
            }
            PubSubEvent::Notified(channel, number) => {
                let Some(channel) = inner.channels.get(&channel) else { return };
                channel.waiters.iter().filter(|w| w.number == number).for_each(|waiter| waiter.hear(1 << i));
            }
            PubSubEvent::Unsubscribed(_) => {}
            PubSubEvent::Forbidden => {
                journal::debug!("master {i} does not permit to subscribe: waiting is by polling there");
                inner.forbidden |= 1 << i;
                inner.doubtful |= 1 << i;
            }
        }
    }

    fn lost(&self, i: usize) {
        let mut inner = self.inner.lock();
        inner.connected &= !(1 << i);
        inner.doubtful &= !(1 << i);
        inner.channels.values_mut().for_each(|channel| channel.confirmed &= !(1 << i));
    }
}

impl Listening {
    /// The number under which the thread waits.
    pub(crate) fn number(&self) -> u64 {
        self.waiter.number
    }

    /// An attempt is about to be sent: what was heard before it is about the past.
    pub(crate) fn forget(&self) {
        self.waiter.heard.store(0, Ordering::Release);
    }

    /// What was heard since.
    pub(crate) fn heard(&self) -> Heard {
        let heard = self.waiter.heard.load(Ordering::Acquire);
        Heard { notified: heard as u32, subscribed: heard & SUBSCRIBED != 0 }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let mut inner = self.listener.inner.lock();
        if let Some(channel) = inner.channels.get_mut(&self.channel) {
            channel.waiters.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
            channel.idle_since = clock::now();
        }
    }
}
