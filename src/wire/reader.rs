//! The reading half of a lane: one leader polls all sockets and gives each reply to the round it belongs to.

use super::conn::Conn;
use super::conversation::Replied;
use super::lane::{Lane, Woken};
use super::op::Op;
use super::poll::poll;
use super::reply::{READ, Replies, Stop};
use super::seat::Awaited;
use crate::protocol::health::{Treatment, give_up, treat};
use crate::protocol::{Cause, Mono};
use crate::sys::clock;
use crate::sys::sync::Ordering;
use std::io;
use std::sync::Arc;

/// The state of reading from one connection.
struct Source {
    master: usize,
    conn: Arc<Conn>,
    replies: Replies,
}

/// What the leader keeps; passed on with the lead.
pub(crate) struct Reader {
    sources: Vec<Source>,
    epoch: u64,
    buffer: Vec<u8>,
    woken: Woken,
    next_check: Mono,
}

impl Reader {
    pub(crate) fn new(n: usize) -> Reader {
        Reader {
            sources: Vec::with_capacity(n),
            epoch: 0,
            buffer: vec![0; READ],
            woken: Woken::default(),
            next_check: Mono::ZERO,
        }
    }

    /// Takes over new connections and forgets broken ones; a parser lives as long as its connection.
    fn refresh(&mut self, lane: &Lane) {
        let epoch = lane.epoch.load(Ordering::Acquire);
        if epoch == self.epoch {
            return;
        }
        self.epoch = epoch;
        let mut old = std::mem::take(&mut self.sources);
        for (master, link) in lane.links.iter().enumerate() {
            let Some(conn) = link.conn() else { continue };
            match old.iter().position(|s| s.conn.id() == conn.id()) {
                Some(k) => self.sources.push(old.swap_remove(k)),
                None => self.sources.push(Source { master, conn, replies: Replies::new() }),
            }
        }
    }
}

/// Passes the lead on, whatever happens to the leader.
struct Lead<'a>(&'a Lane);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.leave_seat();
    }
}

impl Lane {
    /// Reads for all until `mine` is decided or `deadline` has come; without `mine`, until nothing is owed.
    pub(super) fn lead(&self, mine: Option<&Arc<Op>>, deadline: Mono) {
        let _lead = Lead(self);
        self.leads.fetch_add(1, Ordering::Relaxed);
        let mut reader = self.reader.lock();
        let mut now = clock::now();
        loop {
            let over = match mine {
                Some(op) => op.ticket().is_done(),
                None => !self.is_owed(),
            };
            if over || now >= deadline {
                return;
            }
            now = self.turn(&mut reader, mine, deadline, now);
        }
    }

    /// Gives up connections that were closed while nothing was asked on them, so that they are replaced before the next
    /// caller finds out. Does nothing while somebody leads: then they are polled anyway.
    pub(crate) fn sweep(&self) {
        if !self.seat.take() {
            return;
        }
        let _lead = Lead(self);
        let mut woken = Woken::default();
        for (i, link) in self.links.iter().enumerate() {
            // Asked in this order: a request sent in between owes an answer that only we could read now.
            if let Some(conn) = link.conn()
                && conn.has_news()
                && !link.is_owed()
            {
                self.fail(i, conn.id(), Cause::Broken("closed by the server while idle".into()), &mut woken);
            }
        }
        woken.unpark();
    }

    /// One poll, and what it brings.
    fn turn(&self, reader: &mut Reader, mine: Option<&Arc<Op>>, deadline: Mono, now: Mono) -> Mono {
        reader.refresh(self);
        let limit = deadline.min(reader.next_check).since(now);
        let watched = reader.sources.iter().map(|s| {
            let backlog = self.links[s.master].backlog.load(Ordering::Acquire);
            (&*s.conn, backlog)
        });
        let (ready, writable) = poll(watched, &self.wake, limit);
        let (before, now) = (now, clock::now());
        let mut flush = writable;
        for k in 0..reader.sources.len() {
            if ready >> k & 1 == 1 {
                flush |= self.read(reader, k, mine, now);
            }
        }
        // What had come before the poll has been read: a master is called hung by this time, not by the clock, which goes on
        // while this thread does not run.
        self.read_up_to.store(before.nanos(), Ordering::Release);
        if before >= reader.next_check {
            reader.next_check = before.plus(self.config.hang_timeout / 8);
            self.close_overdue(before, &mut reader.woken);
        }
        if flush {
            self.flush();
        }
        reader.woken.unpark();
        now
    }

    /// Reads what source `k` has; true if something is to be sent again.
    fn read(&self, reader: &mut Reader, k: usize, mine: Option<&Arc<Op>>, now: Mono) -> bool {
        let resend = self.read_all(reader, k, mine, now);
        let i = reader.sources[k].master;
        let link = &self.links[i];
        if link.hung.load(Ordering::Relaxed)
            && treat(link.outlook().condition, now, self.config.master_timeout) == Treatment::Ask
        {
            link.hung.store(false, Ordering::Release);
            self.hooks.recovered(i);
        }
        resend
    }

    fn read_all(&self, reader: &mut Reader, k: usize, mine: Option<&Arc<Op>>, now: Mono) -> bool {
        let Reader { sources, buffer, woken, .. } = reader;
        let Source { master, conn, replies } = &mut sources[k];
        let (i, mut resend, mut end) = (*master, false, None);
        loop {
            let broken = match conn.receive(buffer) {
                Ok(0) => Cause::Broken("closed by the server".into()),
                Ok(n) => {
                    let stop = replies.feed(&buffer[..n], |value| match self.links[i].reply(i, conn.id(), &value) {
                        Replied::Half => true,
                        Replied::Answer(op, answer) => {
                            end = answer.ends_the_connection().cloned();
                            woken.threads.extend(self.deliver(i, &op, answer, now, mine));
                            end.is_none()
                        }
                        Replied::NoScript(op) => {
                            self.resend(op, i);
                            resend = true;
                            true
                        }
                        Replied::Unasked => false,
                    });
                    match stop {
                        Stop::Hungry if n < buffer.len() => return resend,
                        Stop::Hungry => continue,
                        Stop::Nonsense => end.unwrap_or(Cause::Nonsense),
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return resend,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Cause::Broken(e.kind().to_string()),
            };
            self.fail(i, conn.id(), broken, woken);
            return resend;
        }
    }

    /// Closes connections that owed an answer for longer than their own limit at `now`, up to which all have been read.
    fn close_overdue(&self, now: Mono, woken: &mut Woken) {
        for (i, link) in self.links.iter().enumerate() {
            if give_up(link.oldest(), now, self.config.hang_timeout)
                && let Some(conn) = link.conn()
            {
                self.fail(i, conn.id(), Cause::Hung, woken);
            }
        }
    }
}
