//! The reading half of a lane: its leader polls all sockets and gives each reply to the request it belongs to.

use super::conversation::Replied;
use super::lane::Lane;
use super::leader::{Awaited, WaitEnd, Woken};
use super::poll::poll;
use super::reply::Stop;
use super::request::Request;
use super::sources::{Source, Sources};
use crate::protocol::health::{Treatment, give_up, treat};
use crate::protocol::{Cause, Mono};
use crate::sys::clock;
use crate::sys::sync::Ordering;
use crate::sys::thread::park_timeout;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Ends a lead, also if the leader panics.
struct Lead<'a>(&'a Lane);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.resign();
    }
}

impl Lane {
    /// Waits until `request` is decided or `deadline` has come; takes the lead if no other thread has it.
    pub(crate) fn wait(&self, request: &Arc<Request>, deadline: Mono) {
        let park = || {
            let left = deadline.since(clock::now());
            if !left.is_zero() {
                park_timeout(left);
            }
            !left.is_zero()
        };
        match self.leader.wait(request, park) {
            WaitEnd::Lead => self.lead(Some(request), deadline),
            // The caller may have written for others, after they had left and after the last leader looked.
            WaitEnd::Already if !self.leader.is_led() && self.is_owed() => self.request_drain(),
            WaitEnd::Already | WaitEnd::Done | WaitEnd::GaveUp => {}
        }
    }

    /// Reads until no answer is owed, or another thread leads; for the caretaker.
    pub(crate) fn drain(&self) {
        if self.leader.try_lead() {
            self.lead(None, Mono::NEVER);
        }
    }

    /// Gives connections up that the server closed while nothing was asked on them, so that they are replaced before
    /// the next caller finds out. Does nothing while some thread leads: then they are polled anyway.
    pub(crate) fn sweep(&self) {
        if !self.leader.try_lead() {
            return;
        }
        let _lead = Lead(self);
        let mut woken = Woken::default();
        for (i, link) in self.links.iter().enumerate() {
            // Asked in this order: a request sent in between owes an answer that only this thread could read now.
            if let Some(conn) = link.conn()
                && conn.has_news()
                && !link.is_owed()
            {
                self.fail(i, conn.id(), Cause::Broken("closed by the server while idle".into()), &mut woken);
            }
        }
        woken.unpark();
    }

    /// Gives up all connections if nothing has been sent for `limit` and no answer is owed; whether it did. They are
    /// closed, since they have been idle for so long.
    ///
    /// Proof obligation: no lease is held on this lane then. `limit` is at least as long as the longest lease, and a
    /// lease lasts as long from the last time that something was sent for it.
    pub(crate) fn rest(&self, limit: Duration) -> bool {
        if self.is_asleep() || !self.has_rested(limit) || !self.leader.try_lead() {
            return false;
        }
        let _lead = Lead(self);
        self.fall_asleep(limit)
    }

    /// Reads for all until `mine` is decided or `deadline` has come; without `mine`, until nothing is owed.
    fn lead(&self, mine: Option<&Arc<Request>>, deadline: Mono) {
        let _lead = Lead(self);
        self.leads.fetch_add(1, Ordering::Relaxed);
        let mut sources = self.sources.lock();
        let mut now = clock::now();
        loop {
            let over = match mine {
                Some(request) => request.ticket().is_done(),
                None => !self.is_owed(),
            };
            if over || now >= deadline {
                return;
            }
            now = self.poll_once(&mut sources, mine, deadline, now);
        }
    }

    /// One poll, and what it brings.
    fn poll_once(&self, sources: &mut Sources, mine: Option<&Arc<Request>>, deadline: Mono, now: Mono) -> Mono {
        sources.refresh(self.epoch.load(Ordering::Acquire), &self.links);
        let limit = deadline.min(sources.next_check).since(now);
        let watched = sources.open.iter().map(|s| {
            let backlog = self.links[s.master].backlog.load(Ordering::Acquire);
            (&*s.conn, backlog)
        });
        let (ready, writable) = poll(watched, &self.wake, limit);
        let (before, now) = (now, clock::now());
        let mut flush = writable;
        for k in 0..sources.open.len() {
            if ready >> k & 1 == 1 {
                flush |= self.read(sources, k, mine, now);
            }
        }
        // What had come before the poll has been read: a master is called hung by this time, not by the clock, which
        // goes on while this thread does not run.
        self.read_up_to.store(before.nanos(), Ordering::Release);
        if before >= sources.next_check {
            sources.next_check = before.plus(self.config.hang_timeout / 8);
            self.close_overdue(before, &mut sources.woken);
        }
        if flush {
            self.flush();
        }
        sources.woken.unpark();
        now
    }

    /// Reads what source `k` has; true if something is to be sent again.
    fn read(&self, sources: &mut Sources, k: usize, mine: Option<&Arc<Request>>, now: Mono) -> bool {
        let resend = self.read_all(sources, k, mine, now);
        let i = sources.open[k].master;
        let link = &self.links[i];
        if link.hung.load(Ordering::Relaxed)
            && treat(link.snapshot().condition, now, self.config.master_timeout) == Treatment::Ask
        {
            link.hung.store(false, Ordering::Release);
            self.hooks.recovered(i);
        }
        resend
    }

    fn read_all(&self, sources: &mut Sources, k: usize, mine: Option<&Arc<Request>>, now: Mono) -> bool {
        let Sources { open, buffer, woken, .. } = sources;
        let Source { master, conn, replies } = &mut open[k];
        let (i, mut resend, mut end) = (*master, false, None);
        loop {
            let broken = match conn.receive(buffer) {
                Ok(0) => Cause::Broken("closed by the server".into()),
                Ok(n) => {
                    let stop = replies.feed(&buffer[..n], |value| match self.links[i].reply(i, conn.id(), &value) {
                        Replied::Half => true,
                        Replied::Answer(request, answer) => {
                            end = answer.ends_the_connection().cloned();
                            woken.threads.extend(self.deliver(i, &request, answer, now, mine));
                            end.is_none()
                        }
                        Replied::NoScript(request) => {
                            self.resend(request, i);
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
