//! One lane's end of the connection to one master: the connection that is in place, and the conversation on it.

use super::Pooled;
use super::conn::Conn;
use super::conversation::{Conversation, Entry, Replied};
use crate::protocol::Mono;
use crate::protocol::health::Link as Condition;
use crate::sys::sync::{AtomicBool, Mutex, Ordering, Rank};
use redis::Value;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Default)]
struct Inner {
    conn: Option<Arc<Conn>>,
    /// Keeps the connection checked out.
    pooled: Option<Pooled>,
    conversation: Conversation,
}

/// One master as a lane sees it.
pub(crate) struct Link {
    inner: Mutex<Inner>,
    /// The writer has bytes that the socket did not take.
    pub(crate) backlog: AtomicBool,
    /// A round was sent that does not wait for this master, because it owes an older answer for too long.
    pub(crate) hung: AtomicBool,
}

/// What the writer needs to know before it encodes.
pub(crate) struct Snapshot {
    pub(crate) conn: Option<Arc<Conn>>,
    pub(crate) settled: Option<Arc<[u8]>>,
    pub(crate) scripts_only: bool,
    pub(crate) bound: bool,
    pub(crate) condition: Condition,
}

impl Default for Link {
    fn default() -> Link {
        let inner = Mutex::new(Rank::Link, Inner::default());
        Link { inner, backlog: AtomicBool::new(false), hung: AtomicBool::new(false) }
    }
}

impl Link {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let inner = self.inner.lock();
        let condition = match inner.conn {
            None => Condition::Down,
            Some(_) => Condition::Up(inner.conversation.oldest()),
        };
        Snapshot {
            conn: inner.conn.clone(),
            settled: inner.conversation.settled.clone(),
            scripts_only: inner.conversation.scripts_only(),
            bound: inner.conversation.bound,
            condition,
        }
    }

    pub(crate) fn conn(&self) -> Option<Arc<Conn>> {
        self.inner.lock().conn.clone()
    }

    /// When the oldest unanswered request was sent.
    pub(crate) fn oldest(&self) -> Option<Mono> {
        self.inner.lock().conversation.oldest()
    }

    pub(crate) fn is_owed(&self) -> bool {
        !self.inner.lock().conversation.fifo.is_empty()
    }

    /// Notes requests that are about to be written to connection `conn_id`; leaves them there if it was given up.
    pub(crate) fn expect(&self, conn_id: u64, entries: &mut Vec<Entry>) -> bool {
        let mut inner = self.inner.lock();
        let same = inner.conn.as_ref().is_some_and(|c| c.id() == conn_id);
        if same {
            inner.conversation.fifo.extend(entries.drain(..));
        }
        same
    }

    /// Puts a new connection in place; the former one's conversation has ended with it.
    pub(crate) fn install(&self, pooled: Pooled) {
        let mut inner = self.inner.lock();
        inner.conversation.watched = pooled.is_watched();
        inner.conn = Some(Arc::clone(&pooled));
        inner.pooled = Some(pooled);
        debug_assert!(inner.conversation.fifo.is_empty(), "requests of a former connection");
        self.backlog.store(false, Ordering::Release);
        self.hung.store(false, Ordering::Release);
    }

    /// Takes the connection away, on which nothing is owed, to be closed.
    pub(crate) fn take(&self) -> Option<Pooled> {
        let mut inner = self.inner.lock();
        debug_assert!(inner.conversation.fifo.is_empty(), "requests of a connection that is taken away");
        inner.conn.take()?.break_off();
        inner.conversation.end();
        inner.pooled.take()
    }

    /// Gives up connection `conn_id`; its unanswered requests, unless another thread did it before.
    pub(crate) fn give_up(&self, conn_id: u64) -> Option<VecDeque<Entry>> {
        let mut inner = self.inner.lock();
        let conn = inner.conn.take_if(|c| c.id() == conn_id)?;
        conn.break_off();
        let (pooled, unanswered) = (inner.pooled.take(), inner.conversation.end());
        drop(inner);
        drop(pooled);
        Some(unanswered)
    }

    /// Matches a reply of connection `conn_id` with the oldest unanswered request.
    pub(crate) fn reply(&self, i: usize, conn_id: u64, value: &Value) -> Replied {
        let mut inner = self.inner.lock();
        if inner.conn.as_ref().is_none_or(|c| c.id() != conn_id) {
            return Replied::Unasked;
        }
        inner.conversation.reply(i, value)
    }
}
