//! One lane's end of the connection to one master: who owes an answer to whom.

use super::Pooled;
use super::conn::Conn;
use super::decode::{self, Cache, Decoded, Written};
use super::op::Op;
use crate::protocol::health::Link as Condition;
use crate::protocol::{Answer, Cause, Mono};
use crate::sys::sync::Mutex;
use redis::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the next reply belongs to.
#[derive(Debug)]
pub(crate) enum Expect {
    /// The reply to `SET NX PX` alone.
    Plain,
    /// Two replies, and the generation that this connection had cached when the pair was queued. Kept with the request:
    /// a later one must not be compared in its place.
    Pair { settled: Arc<[u8]>, written: Option<Written> },
    /// The reply of a script sent by its digest (`true`) or in full.
    Script(bool),
}

/// An unanswered request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) op: Arc<Op>,
    pub(crate) expect: Expect,
    pub(crate) sent: Mono,
}

#[derive(Default)]
struct Inner {
    conn: Option<Arc<Conn>>,
    /// Keeps the connection checked out.
    pooled: Option<Pooled>,
    fifo: VecDeque<Entry>,
    settled: Option<Arc<[u8]>>,
    scripts_only: bool,
}

/// What a reply led to.
pub(crate) enum Replied {
    /// The first half of a pair.
    Half,
    /// An answer to a round.
    Answer(Arc<Op>, Answer),
    /// The server does not know the script; the round wants it sent in full.
    NoScript(Arc<Op>),
    /// Nobody asked.
    Unasked,
}

/// One master as a lane sees it.
#[derive(Default)]
pub(crate) struct Link {
    inner: Mutex<Inner>,
    /// The writer has bytes that the socket did not take.
    pub(crate) backlog: AtomicBool,
}

/// What the writer needs to know before it encodes.
pub(crate) struct Outlook {
    pub(crate) conn: Option<Arc<Conn>>,
    pub(crate) settled: Option<Arc<[u8]>>,
    pub(crate) scripts_only: bool,
    pub(crate) condition: Condition,
}

impl Link {
    pub(crate) fn outlook(&self) -> Outlook {
        let inner = self.inner.lock();
        let condition = match inner.conn {
            None => Condition::Down,
            Some(_) => Condition::Up(inner.fifo.front().map(|e| e.sent)),
        };
        Outlook {
            conn: inner.conn.clone(),
            settled: inner.settled.clone(),
            scripts_only: inner.scripts_only,
            condition,
        }
    }

    pub(crate) fn conn(&self) -> Option<Arc<Conn>> {
        self.inner.lock().conn.clone()
    }

    /// When the oldest unanswered request was sent.
    pub(crate) fn oldest(&self) -> Option<Mono> {
        self.inner.lock().fifo.front().map(|e| e.sent)
    }

    pub(crate) fn is_owed(&self) -> bool {
        !self.inner.lock().fifo.is_empty()
    }

    /// Notes requests that are about to be written to connection `conn_id`; gives them back if it is gone.
    pub(crate) fn expect(&self, conn_id: u64, entries: &mut Vec<Entry>) -> bool {
        let mut inner = self.inner.lock();
        let same = inner.conn.as_ref().is_some_and(|c| c.id() == conn_id);
        if same {
            inner.fifo.extend(entries.drain(..));
        }
        same
    }

    /// Puts a new connection in place. Its cache of the generation is empty: it never inherits one.
    pub(crate) fn install(&self, pooled: Pooled) {
        let mut inner = self.inner.lock();
        inner.conn = Some(Arc::clone(&pooled));
        inner.pooled = Some(pooled);
        inner.settled = None;
        inner.scripts_only = false;
        debug_assert!(inner.fifo.is_empty(), "requests of a former connection");
        self.backlog.store(false, Ordering::Release);
    }

    /// Gives up connection `conn_id`; its unanswered requests, unless somebody else did it before.
    pub(crate) fn give_up(&self, conn_id: u64) -> Option<VecDeque<Entry>> {
        let mut inner = self.inner.lock();
        let conn = inner.conn.take_if(|c| c.id() == conn_id)?;
        conn.break_off();
        inner.settled = None;
        let (pooled, fifo) = (inner.pooled.take(), std::mem::take(&mut inner.fifo));
        drop(inner);
        drop(pooled);
        Some(fifo)
    }

    /// Matches a reply of connection `conn_id` with the oldest unanswered request.
    pub(crate) fn reply(&self, i: usize, conn_id: u64, value: &Value) -> Replied {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        if inner.conn.as_ref().is_none_or(|c| c.id() != conn_id) {
            return Replied::Unasked;
        }
        let Some(front) = inner.fifo.front_mut() else { return Replied::Unasked };
        if let Expect::Pair { written: written @ None, .. } = &mut front.expect {
            return match decode::written(value) {
                Some(first) => {
                    *written = Some(first);
                    Replied::Half
                }
                None => Replied::Unasked,
            };
        }
        let Some(Entry { op, expect, .. }) = inner.fifo.pop_front() else { return Replied::Unasked };
        let decoded = match &expect {
            Expect::Plain => decode::plain(value),
            Expect::Pair { settled, written: Some(w) } => decode::pair(&op.command, i, settled, w, value),
            Expect::Pair { written: None, .. } => Answer::Failed(Cause::Nonsense).into(),
            Expect::Script(true) if decode::is_noscript(value) => return Replied::NoScript(op),
            Expect::Script(_) => decode::script(&op.command.operation, value),
        };
        let Decoded { answer, cache } = decoded;
        match cache {
            Cache::Keep => {}
            Cache::Drop => inner.settled = None,
            Cache::Settle(generation) => inner.settled = Some(generation),
            Cache::ScriptsOnly => (inner.settled, inner.scripts_only) = (None, true),
        }
        Replied::Answer(op, answer)
    }
}
