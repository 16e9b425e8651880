//! The r2d2 pools of a client, one per master.
//!
//! r2d2 makes its connections on a thread of its own, which waits for work in parking_lot's table of waiting threads. There is
//! one such table in a process, and its entries lie on the threads' stacks. A forked child has the table but not the threads: its
//! own threads are given the old stacks, and what they write there are entries of the table (`tests/forks.rs` hung by
//! it). So connections are made elsewhere and only handed in here, and r2d2's thread rests in a job of ours meanwhile: the table is
//! empty but for the microseconds in which a connection goes in.

use super::Pooled;
use super::conn::Conn;
use crate::sys::channel::{Sender, bounded};
use crate::sys::sync::Mutex;
use scheduled_thread_pool::ScheduledThreadPool;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Where a connection lies that is about to go into its pool. What r2d2 takes for the maker of connections.
#[derive(Clone, Default)]
pub(crate) struct Threshold(Arc<Mutex<Option<Arc<Conn>>>>);

impl r2d2::ManageConnection for Threshold {
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

/// How long r2d2's thread may take to pass a connection on. It does nothing else, so this is for a machine that stands still.
const LIMIT: Duration = Duration::from_secs(1);

/// See the module. Empty once it is closed.
pub(crate) struct Pools(Mutex<Option<Open>>);

struct Open {
    masters: Vec<(r2d2::Pool<Threshold>, Threshold)>,
    thread: Arc<ScheduledThreadPool>,
    /// r2d2's thread rests until this is dropped.
    rest: Option<Sender<Infallible>>,
}

impl Pools {
    /// For `n` masters, each with at most `size` connections.
    pub(crate) fn new(n: usize, size: u32) -> Pools {
        let thread = ScheduledThreadPool::builder().num_threads(1).thread_name_pattern("redleash-pool").build();
        let thread = Arc::new(thread);
        let pool = |_| {
            let threshold = Threshold::default();
            let pool = r2d2::Pool::builder()
                .max_size(size)
                .min_idle(Some(0))
                .test_on_check_out(false)
                .idle_timeout(None)
                .max_lifetime(None)
                .connection_timeout(LIMIT)
                .error_handler(Box::new(r2d2::NopErrorHandler))
                .thread_pool(thread.clone())
                .build_unchecked(threshold.clone());
            (pool, threshold)
        };
        let masters = (0..n).map(pool).collect();
        let rest = Some(rest(&thread));
        Pools(Mutex::new(Some(Open { masters, thread, rest })))
    }

    /// Puts a new connection to master `i` into its pool and checks it out; `None` once closed, or if r2d2 has no room for it.
    pub(crate) fn enter(&self, i: usize, conn: Conn) -> Option<Pooled> {
        let mut open = self.0.lock();
        let open = open.as_mut()?;
        let (pool, threshold) = &open.masters[i];
        *threshold.0.lock() = Some(Arc::new(conn));
        open.rest = None;
        let pooled = pool.get().ok();
        threshold.0.lock().take();
        open.rest = Some(rest(&open.thread));
        pooled
    }

    /// Closes all connections that are not in use, and ends the thread.
    pub(crate) fn close(&self) {
        drop(self.0.lock().take());
    }
}

/// Sends r2d2's thread to rest, until what this returns is dropped.
fn rest(thread: &ScheduledThreadPool) -> Sender<Infallible> {
    let (awake, asleep) = bounded(0);
    thread.execute(move || {
        let _ = asleep.recv();
    });
    awake
}
