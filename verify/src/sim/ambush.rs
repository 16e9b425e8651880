//! Faults that wait for their moment. Chance alone rarely puts a lost message, a master without memory and a slow round
//! into the order in which a missing rule shows; an adversary who sees everything does. All of it is within the claim:
//! messages are lost or late, processes pause, masters forget.

use super::clock::Time;
use super::plan::MS;
use super::state::{Event, Trap, World};

/// Three masters, by what an ambush makes of them.
struct Places {
    /// It is asked at once, and may forget what it said.
    first: usize,
    /// The one that is cut off.
    second: usize,
    third: usize,
}

impl World<'_> {
    /// The worker that holds a lock and does nothing at the moment.
    fn idle_holder(&self, c: usize, hold: usize) -> Option<usize> {
        self.clients[c].workers.iter().position(|w| w.hold == Some(hold) && !w.busy)
    }

    /// Whether to lie in wait now; so many of 100 times.
    fn lies_in_wait(&mut self, percent: u64) -> bool {
        self.plan.ambushes && !self.calm && self.rng.chance(percent)
    }

    /// A client loses what it sends to one master from now on.
    fn cut_from(&mut self, c: usize, master: usize) {
        if let Some(conn) = self.clients[c].conns[master] {
            self.cut_off(conn, true);
        }
    }

    /// The text at a key of a master.
    pub(crate) fn text_at(&self, master: usize, key: &str) -> Option<Vec<u8>> {
        let server = &self.servers[self.plan.servers[master]];
        let now_ms = server.clock.micros(self.now).div_euclid(1_000);
        server.keys.text(key.as_bytes(), now_ms).map(|(text, _)| text.to_vec())
    }

    /// `first` as chosen; the others in any order.
    fn places(&mut self, first: usize) -> Places {
        let turn = self.rng.between(1, 2) as usize;
        Places { first, second: (first + turn) % 3, third: (first + 3 - turn) % 3 }
    }

    fn lives(&self, hold: usize) -> bool {
        self.is_live(hold) && self.clients[self.holds[hold].client].alive
    }

    /// Whether a client's question to a master would be counted if it came at once: it arrives, and there is no
    /// quarantine.
    fn is_reached(&self, c: usize, master: usize) -> bool {
        let server = &self.servers[self.plan.servers[master]];
        let ready = self
            .text_at(master, &self.keys[0].generation)
            .and_then(|text| String::from_utf8(text).ok()?.split(':').nth(1)?.parse::<i64>().ok());
        let conn = self.clients[c].conns[master].map(|conn| &self.connections[conn]);
        server.up
            && server.stopped_until <= self.now
            && ready.is_some_and(|at| at <= server.clock.micros(self.now))
            && conn.is_some_and(|conn| !conn.is_dead() && conn.process == server.process)
    }

    /// A client is about to begin an attempt.
    pub(crate) fn lie_in_wait(&mut self, c: usize, name: usize) {
        if !self.plan.ambushes || self.calm || !(0..3).all(|m| self.is_reached(c, m)) {
            return;
        }
        let holder = (0..self.holds.len()).find(|h| self.holds[*h].name == name && self.lives(*h));
        match holder {
            Some(victim) if self.holds[victim].client != c => {
                if self.lies_in_wait(50) {
                    self.overtake(c, victim);
                }
            }
            Some(_) => {}
            None if self.lies_in_wait(30) => self.catch_up(c, name),
            None => self.lie_in_wait_for_fence(c),
        }
    }

    /// Somebody asks for a lock that nobody holds, or for a token: a message may be lost.
    pub(crate) fn lie_in_wait_for_fence(&mut self, c: usize) {
        if self.lies_in_wait(40) {
            let master = self.rng.below(3) as usize;
            self.cut_from(c, master);
        }
    }

    /// The client's attempt is granted by a master that lacks the victim's value, and reaches the others when the
    /// victim's lease is over. Meanwhile the victim goes on with that master instead of another, and the master may
    /// have forgotten.
    fn overtake(&mut self, c: usize, victim: usize) {
        let held = &self.holds[victim];
        let (theirs, ttl) = (held.client, self.plan.ttl.as_nanos() as Time);
        let over = self.when(theirs, held.lease.until()) + ttl / 30 + 4 * MS;
        let left = over.saturating_sub(self.now);
        let lock = self.keys[held.name].lock.clone();
        let Some(first) = (0..3).find(|m| self.text_at(*m, &lock).is_none()) else { return };
        if left > ttl * 4 / 5 {
            return;
        }
        self.checks.count("ambushes of a holder");
        let Places { first, second, third } = self.places(first);
        for master in [second, third] {
            if let Some(conn) = self.clients[c].conns[master] {
                self.connections[conn].hold_back(over);
            }
        }
        self.cut_from(theirs, second);
        self.after(MS / 5, Event::Trap(Trap::Nap(c, over + 2 * self.plan.latency.1 + 2 * MS)));
        let said = 2 * self.plan.latency.1 + MS;
        if self.rng.chance(50) {
            self.after(said, Event::Trap(Trap::Forget(self.plan.servers[first])));
        }
        let when = said + self.rng.between(0, left / 2);
        self.after(when, Event::Trap(Trap::Provoke(victim)));
    }

    /// The client is granted the lock by two masters, of which only one knows the last token. The third forgets that it
    /// knew it, and then the attempt reaches it. The client asks for a token and does not get through to the one that
    /// knows.
    fn catch_up(&mut self, c: usize, name: usize) {
        let fence = self.keys[name].fence.clone();
        let counter = |m: usize| self.text_at(m, &fence).and_then(|t| String::from_utf8(t).ok()?.parse::<u64>().ok());
        let counters = [0, 1, 2].map(|m| counter(m).unwrap_or(0));
        let most = counters.iter().max().copied().unwrap_or(0);
        let Some(ignorant) = (0..3).find(|m| counters[*m] < most) else { return };
        self.checks.count("ambushes of a token");
        let Places { second, third, .. } = self.places(ignorant);
        let granted = 2 * self.plan.latency.1 + MS;
        let until = granted + self.rng.between(MS, 10 * MS);
        if let Some(conn) = self.clients[c].conns[third] {
            self.connections[conn].hold_back(self.now + until);
        }
        self.after(granted, Event::Trap(Trap::Ask(c, second)));
        self.after(until - 1, Event::Trap(Trap::Forget(self.plan.servers[third])));
    }

    /// The moment has come.
    pub(crate) fn spring(&mut self, trap: Trap) {
        self.note(|| format!("ambush: {trap:?}"));
        match trap {
            Trap::Nap(c, until) => {
                let paused = &mut self.clients[c].paused_until;
                *paused = until.max(*paused);
            }
            Trap::Forget(server) => self.servers[server].keys = Default::default(),
            Trap::Provoke(hold) if self.lives(hold) => {
                self.checks.count("holders that went on while they were overtaken");
                let (c, ttl) = (self.holds[hold].client, self.holds[hold].terms.ttl);
                match self.idle_holder(c, hold) {
                    _ if self.clients[c].paused_until > self.now => {}
                    Some(w) if self.rng.chance(50) => self.ask_fence(c, w, hold),
                    _ => self.extend(hold, ttl, None),
                }
            }
            Trap::Ask(c, master) => {
                let theirs = |h: &usize| self.holds[*h].client == c && self.lives(*h);
                let Some(hold) = (0..self.holds.len()).rev().find(theirs) else { return };
                if let Some(w) = self.idle_holder(c, hold) {
                    self.checks.count("tokens asked for from a master that forgot");
                    self.cut_from(c, master);
                    self.ask_fence(c, w, hold);
                }
            }
            Trap::Provoke(_) => {}
        }
    }
}
