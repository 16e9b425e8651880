//! The r2d2 pools of a client, one per master.
//!
//! A pool counts the connections of its master and keeps those that nobody uses. It never makes one by itself:
//! connections are made by the connectors' threads and handed in.
//!
//! The reason is that r2d2 makes connections on a thread of its own, which waits for work in parking_lot's table of
//! waiting threads. There is one such table in a process, and its entries lie on the threads' stacks. A forked child
//! has the table but not the threads: its own threads are given the old stacks, and what they write there are entries
//! of the table (the forks' tests hung by it). So r2d2's thread is parked in a job of ours, but for the microseconds in
//! which a connection goes in or r2d2 looks for those that have been idle for too long.

use super::Pooled;
use super::conn::Conn;
use super::poolstats::{Counts, Events};
use crate::sys::channel::{Sender, bounded};
use crate::sys::sync::{Mutex, Rank};
use scheduled_thread_pool::ScheduledThreadPool;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Hands a finished connection to r2d2, which takes this for the maker of connections.
#[derive(Clone)]
pub(crate) struct Parked {
    conn: Arc<Mutex<Option<Arc<Conn>>>>,
    /// How long a connection that is checked out may take to answer.
    test_timeout: Duration,
}

impl r2d2::ManageConnection for Parked {
    type Connection = Arc<Conn>;
    type Error = io::Error;

    fn connect(&self) -> io::Result<Arc<Conn>> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "no connection is handed in");
        self.conn.lock().take().ok_or_else(none)
    }

    /// Called on a connector's thread, never on a caller's. One that comes from its handshake need not answer again.
    fn is_valid(&self, conn: &mut Arc<Conn>) -> io::Result<()> {
        if conn.is_new() { Ok(()) } else { conn.ping(self.test_timeout) }
    }

    fn has_broken(&self, conn: &mut Arc<Conn>) -> bool {
        conn.is_broken()
    }
}

/// Closes what leaves a pool at once, although the reader of a lane may keep the descriptor until it looks again.
#[derive(Debug)]
struct Closes;

impl r2d2::CustomizeConnection<Arc<Conn>, io::Error> for Closes {
    fn on_release(&self, conn: Arc<Conn>) {
        conn.shut_down();
    }
}

/// How long r2d2's thread may take to pass a connection on. It does nothing else, so this is for a machine that stands
/// still.
const CHECK_OUT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the user has set for the pools.
#[derive(Clone, Copy)]
pub(crate) struct PoolConfig {
    /// The most connections to one master.
    pub(crate) size: u32,
    /// After this time without use r2d2 closes a connection.
    pub(crate) idle_timeout: Option<Duration>,
    /// Whether a connection must answer a `PING` before it is used again, and how long that may take.
    pub(crate) test_on_check_out: bool,
    pub(crate) test_timeout: Duration,
}

/// The pool of one master.
pub(crate) struct MasterPool {
    pool: r2d2::Pool<Parked>,
    parked: Parked,
    counts: Arc<Counts>,
}

impl MasterPool {
    /// Checks out an idle connection to the server with this identity that is fit for use; closes those that are not.
    /// Waits for the answer to a test at most.
    pub(crate) fn check_out(&self, identity: &str) -> Option<Pooled> {
        loop {
            let pooled = self.take_idle()?;
            if is_fit(&pooled, identity) {
                return Some(pooled);
            }
            pooled.break_off();
        }
    }

    /// Whether one more connection may be made; closes an idle one where there is no room otherwise.
    pub(crate) fn has_room(&self) -> bool {
        while self.pool.state().connections >= self.pool.max_size() {
            match self.take_idle() {
                Some(idle) => idle.break_off(),
                None => return self.pool.state().connections < self.pool.max_size(),
            }
        }
        true
    }

    fn take_idle(&self) -> Option<Pooled> {
        // r2d2 reports no event for this.
        self.pool.try_get().inspect(|_| self.counts.checked_out())
    }
}

/// Whether an idle connection may be used: it leads to the server with this identity, and nothing has come on it.
fn is_fit(conn: &Conn, identity: &str) -> bool {
    !conn.is_broken() && conn.identity() == identity && !conn.has_news()
}

/// See the module. Empty once it is closed.
pub(crate) struct Pools {
    open: Mutex<Option<Open>>,
    counts: Arc<Counts>,
}

struct Open {
    masters: Vec<Arc<MasterPool>>,
    thread: Arc<ScheduledThreadPool>,
    /// How many connectors need r2d2's thread now.
    needed: usize,
    /// r2d2's thread is parked until this is dropped.
    pause: Option<Sender<Infallible>>,
}

impl Pools {
    /// One for each of the masters with these labels.
    pub(crate) fn new(labels: &[String], config: PoolConfig) -> Pools {
        let thread = ScheduledThreadPool::builder().num_threads(1).thread_name_pattern("redleash-pool").build();
        let thread = Arc::new(thread);
        let counts = Arc::new(Counts::default());
        let pool = |label: &String| {
            let conn = Arc::new(Mutex::new(Rank::Parked, None));
            let parked = Parked { conn, test_timeout: config.test_timeout };
            let events = Events::new(label, &counts);
            let pool = r2d2::Pool::builder()
                .max_size(config.size)
                .min_idle(Some(0))
                .test_on_check_out(config.test_on_check_out)
                .idle_timeout(config.idle_timeout)
                .max_lifetime(None)
                .connection_timeout(CHECK_OUT_TIMEOUT)
                .connection_customizer(Box::new(Closes))
                .event_handler(Box::new(events.clone()))
                .error_handler(Box::new(events))
                .thread_pool(thread.clone())
                .build_unchecked(parked.clone());
            Arc::new(MasterPool { pool, parked, counts: counts.clone() })
        };
        let masters = labels.iter().map(pool).collect();
        let pause = Some(park(&thread));
        Pools { open: Mutex::new(Rank::Pools, Some(Open { masters, thread, needed: 0, pause })), counts }
    }

    /// The pool of master `i`; `None` once closed.
    pub(crate) fn of(&self, i: usize) -> Option<Arc<MasterPool>> {
        self.open.lock().as_ref().map(|open| open.masters[i].clone())
    }

    /// Puts a new connection to master `i` into its pool and checks it out, or another one to the same server that came
    /// back meanwhile; `None` once closed, or if r2d2 has no room for it.
    pub(crate) fn enter(&self, i: usize, conn: Conn) -> Option<Pooled> {
        let master = self.of(i)?;
        let conn = Arc::new(conn);
        *master.parked.conn.lock() = Some(conn.clone());
        self.unpark();
        let pooled = loop {
            match master.pool.get() {
                Ok(pooled) if pooled.id() == conn.id() || is_fit(&pooled, conn.identity()) => break Some(pooled),
                Ok(pooled) => pooled.break_off(),
                Err(_) => break None,
            }
        };
        self.park_again();
        drop(master.parked.conn.lock().take());
        pooled.inspect(|pooled| pooled.begin_use())
    }

    /// Has r2d2 close the connections that have been idle for too long: it looks for them on its thread.
    pub(crate) fn reap(&self) {
        self.unpark();
        self.park_again();
    }

    /// What the pools have counted.
    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Closes all connections that are not in use, and ends the thread.
    pub(crate) fn close(&self) {
        let open = self.open.lock().take();
        drop(open);
    }

    fn unpark(&self) {
        if let Some(open) = &mut *self.open.lock() {
            open.needed += 1;
            open.pause = None;
        }
    }

    fn park_again(&self) {
        if let Some(open) = &mut *self.open.lock() {
            open.needed -= 1;
            if open.needed == 0 {
                open.pause = Some(park(&open.thread));
            }
        }
    }
}

/// Parks r2d2's thread, behind what is due there, until what this returns is dropped.
fn park(thread: &ScheduledThreadPool) -> Sender<Infallible> {
    let (awake, asleep) = bounded(0);
    thread.execute(move || {
        let _ = asleep.recv();
    });
    awake
}
