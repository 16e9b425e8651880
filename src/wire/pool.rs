//! The r2d2 pools of a client, one per master.
//!
//! r2d2 makes its connections on a thread of its own, which waits for work in parking_lot's table of waiting threads.
//! There is one such table in a process, and its entries lie on the threads' stacks. A forked child has the table but
//! not the threads: its own threads are given the old stacks, and what they write there are entries of the table
//! (the forks' tests hung by it). So connections are made elsewhere and only handed in here, and r2d2's thread is
//! parked in a job of ours meanwhile: the table is empty but for the microseconds in which a connection goes in.

use super::Pooled;
use super::conn::Conn;
use crate::sys::channel::{Sender, bounded};
use crate::sys::sync::{Mutex, Rank};
use scheduled_thread_pool::ScheduledThreadPool;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Hands a finished connection to r2d2, which takes this for the maker of connections.
#[derive(Clone)]
pub(crate) struct Parked(Arc<Mutex<Option<Arc<Conn>>>>);

impl r2d2::ManageConnection for Parked {
    type Connection = Arc<Conn>;
    type Error = io::Error;

    fn connect(&self) -> io::Result<Arc<Conn>> {
        self.0.lock().take().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Not called: a check-out ping would be a round trip per check-out.
    fn is_valid(&self, _: &mut Arc<Conn>) -> io::Result<()> {
        Ok(())
    }

    fn has_broken(&self, conn: &mut Arc<Conn>) -> bool {
        conn.is_broken()
    }
}

/// How long r2d2's thread may take to pass a connection on. It does nothing else, so this is for a machine that stands
/// still.
const CHECK_OUT_TIMEOUT: Duration = Duration::from_secs(1);

/// See the module. Empty once it is closed.
pub(crate) struct Pools(Mutex<Option<Open>>);

struct Open {
    masters: Vec<(r2d2::Pool<Parked>, Parked)>,
    thread: Arc<ScheduledThreadPool>,
    /// r2d2's thread is parked until this is dropped.
    pause: Option<Sender<Infallible>>,
}

impl Pools {
    /// For `n` masters, each with at most `size` connections.
    pub(crate) fn new(n: usize, size: u32) -> Pools {
        let thread = ScheduledThreadPool::builder().num_threads(1).thread_name_pattern("redleash-pool").build();
        let thread = Arc::new(thread);
        let pool = |_| {
            let parked = Parked(Arc::new(Mutex::new(Rank::Parked, None)));
            let pool = r2d2::Pool::builder()
                .max_size(size)
                .min_idle(Some(0))
                .test_on_check_out(false)
                .idle_timeout(None)
                .max_lifetime(None)
                .connection_timeout(CHECK_OUT_TIMEOUT)
                .error_handler(Box::new(r2d2::NopErrorHandler))
                .thread_pool(thread.clone())
                .build_unchecked(parked.clone());
            (pool, parked)
        };
        let masters = (0..n).map(pool).collect();
        let pause = Some(park(&thread));
        Pools(Mutex::new(Rank::Pools, Some(Open { masters, thread, pause })))
    }

    /// Puts a new connection to master `i` into its pool and checks it out; `None` once closed, or if r2d2 has no room
    /// for it.
    pub(crate) fn enter(&self, i: usize, conn: Conn) -> Option<Pooled> {
        let mut open = self.0.lock();
        let open = open.as_mut()?;
        let (pool, parked) = &open.masters[i];
        *parked.0.lock() = Some(Arc::new(conn));
        open.pause = None;
        let pooled = pool.get().ok();
        parked.0.lock().take();
        open.pause = Some(park(&open.thread));
        pooled
    }

    /// Closes all connections that are not in use, and ends the thread.
    pub(crate) fn close(&self) {
        drop(self.0.lock().take());
    }
}

/// Parks r2d2's thread until what this returns is dropped.
fn park(thread: &ScheduledThreadPool) -> Sender<Infallible> {
    let (awake, asleep) = bounded(0);
    thread.execute(move || {
        let _ = asleep.recv();
    });
    awake
}
