//! What the leader of a lane keeps between two polls: a parser per connection, and the buffer that all share. Passed on
//! with the lead.

use super::conn::Conn;
use super::leader::Woken;
use super::link::Link;
use super::reply::{READ, Replies};
use crate::protocol::Mono;
use std::sync::Arc;

/// The state of reading from one connection.
pub(super) struct Source {
    pub(super) master: usize,
    pub(super) conn: Arc<Conn>,
    pub(super) replies: Replies,
}

/// See the module.
pub(crate) struct Sources {
    pub(super) open: Vec<Source>,
    epoch: u64,
    pub(super) buffer: Vec<u8>,
    pub(super) woken: Woken,
    pub(super) next_check: Mono,
}

impl Sources {
    pub(super) fn new(masters: usize) -> Sources {
        Sources {
            open: Vec::with_capacity(masters),
            epoch: 0,
            buffer: vec![0; READ],
            woken: Woken::default(),
            next_check: Mono::ZERO,
        }
    }

    /// Takes over new connections and forgets broken ones, if the lane's `epoch` says that they changed; a parser lives
    /// as long as its connection.
    pub(super) fn refresh(&mut self, epoch: u64, links: &[Link]) {
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        let mut old = std::mem::take(&mut self.open);
        for (master, link) in links.iter().enumerate() {
            let Some(conn) = link.conn() else { continue };
            match old.iter().position(|s| s.conn.id() == conn.id()) {
                Some(k) => self.open.push(old.swap_remove(k)),
                None => self.open.push(Source { master, conn, replies: Replies::new() }),
            }
        }
    }
}
