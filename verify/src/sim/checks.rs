//! What must hold in every history, and what must happen in some.

use super::clock::Time;
use super::keyspace::Change;
use super::state::{Checks, Client, Counts, Grant, Worker, World};
use redleash_protocol::{Answer, Judgement, LeaseState, Mono};
use std::collections::BTreeMap;

impl Checks {
    /// Nothing has happened yet.
    pub(crate) fn new(names: usize, traced: bool) -> Checks {
        Checks {
            violation: None,
            trace: traced.then(Vec::new),
            counts: Counts::new(),
            grants: 0,
            last_grant: vec![Grant::default(); names],
            forced: vec![false; names],
            free_since: vec![None; names],
            flushed_at: Time::MIN,
            tokens: vec![BTreeMap::new(); names],
            lives: BTreeMap::new(),
            owners: BTreeMap::new(),
        }
    }

    /// Something happened.
    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// The number of the next grant.
    pub(crate) fn next_grant(&mut self) -> u64 {
        self.grants += 1;
        self.grants
    }

    /// The keys of this token may live for so long.
    pub(crate) fn life(&mut self, token: &str, ms: u64) {
        let life = self.lives.entry(token.into()).or_default();
        *life = (*life).max(ms);
    }

    pub(crate) fn judgement(&mut self, judgement: &Judgement) {
        self.count(match judgement {
            Judgement::Granted => "grants",
            Judgement::TooSlow => "rounds too slow",
            Judgement::HeldByOther(_) => "rounds refused",
            Judgement::Split => "rounds split",
            Judgement::Absent => "rounds without a key",
            Judgement::Unclear => "rounds unclear",
            Judgement::Quarantined(_) => "rounds in a quarantine",
            Judgement::Conflict(..) => "rounds in a conflict",
            Judgement::Mismatch(..) => "rounds of another deployment",
            Judgement::NoQuorum => "rounds without a quorum",
        });
    }

    pub(crate) fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Stale => self.count("keys written that did not count"),
            Answer::Quarantined(_) => self.count("votes refused in a quarantine"),
            Answer::Mismatch(_) => self.count("votes refused to another deployment"),
            Answer::Failed(_) => self.count("answers that failed"),
            _ => {}
        }
    }
}

impl World<'_> {
    /// Something does not hold: the history ends here.
    pub(crate) fn violated(&mut self, what: impl FnOnce() -> String) {
        if self.checks.violation.is_none() {
            let what = what();
            self.note(|| format!("VIOLATION: {what}"));
            self.checks.violation = Some(what);
        }
    }

    pub(crate) fn is_live(&self, hold: usize) -> bool {
        let held = &self.holds[hold];
        !held.over && matches!(held.lease.state(self.mono(held.client)), LeaseState::Held | LeaseState::Jeopardy)
    }

    /// Whether exclusion is claimed for a lock.
    fn is_claimed(&self, name: usize) -> bool {
        !self.checks.forced[name] && !self.plan.unnoticed_loss
    }

    /// A lease was granted: nobody else's may be held.
    pub(crate) fn granted(&mut self, hold: usize) {
        let (name, line) = (self.holds[hold].name, self.holds[hold].line);
        let client = self.holds[hold].client;
        self.note(|| format!("hold {hold} of lock{name} GRANTED to client {client} (grant {line})"));
        let began = self.when(client, self.holds[hold].lease.granted());
        self.checks.last_grant[name] = Grant { number: line, began, granted: self.now };
        self.holds[hold].good_at = self.good_since(began);
        self.alone(hold);
    }

    /// A lease was adopted: the same, and nobody else was granted in between.
    pub(crate) fn inherited(&mut self, hold: usize) {
        let (name, line) = (self.holds[hold].name, self.holds[hold].line);
        self.note(|| format!("hold {hold} of lock{name} ADOPTED (grant {line})"));
        let last = self.checks.last_grant[name].number;
        if last != line && self.is_claimed(name) {
            self.violated(|| format!("hold {hold} adopted grant {line}, but grant {last} came in between"));
        }
        self.alone(hold);
    }

    fn alone(&mut self, hold: usize) {
        let name = self.holds[hold].name;
        let secret = self.holds[hold].owner.secret_hex().to_string();
        self.checks.owners.insert(secret, hold);
        self.rests_on_servers(hold);
        if !self.is_claimed(name) || !self.is_live(hold) {
            return;
        }
        for other in (0..self.holds.len()).filter(|o| *o != hold) {
            if self.holds[other].name == name && self.is_live(other) {
                let held = &self.holds[other];
                let left = held.lease.until().since(self.mono(held.client));
                return self
                    .violated(|| format!("hold {hold} was granted while hold {other} is held for {left:?} more"));
            }
        }
    }

    /// The votes of a quorum come from as many servers.
    fn rests_on_servers(&mut self, hold: usize) {
        let yes = self.holds[hold].votes;
        let mut servers: Vec<usize> =
            (0..self.plan.servers.len()).filter(|i| yes >> i & 1 == 1).map(|i| self.plan.servers[i]).collect();
        servers.sort_unstable();
        servers.dedup();
        if servers.len() < self.plan.quorum.votes() && self.is_claimed(self.holds[hold].name) {
            self.violated(|| format!("hold {hold} rests on the servers {servers:?} only, by votes {yes:b}"));
        }
    }

    /// A lease was extended by a round begun at `start`: one guard, one unbroken hold. Where a loss goes unnoticed,
    /// only a grant counts whose whole round came behind the last good round of this lease and before this one.
    pub(crate) fn prolonged(&mut self, hold: usize, start: Mono) {
        let (name, line) = (self.holds[hold].name, self.holds[hold].line);
        let last = self.checks.last_grant[name];
        let start = self.when(self.holds[hold].client, start);
        let within = last.began > self.holds[hold].good_at && last.granted < start;
        let excused = self.checks.forced[name] || (self.plan.unnoticed_loss && !within);
        if last.number != line && !excused && !self.holds[hold].over {
            let other = last.number;
            self.violated(|| format!("hold {hold} (grant {line}) was extended, but grant {other} came in between"));
        }
        self.holds[hold].good_at = self.good_since(start);
        self.rests_on_servers(hold);
    }

    /// From when on a quorum has the key by a round that began at `start`: not at all, if a server forgot in the
    /// meantime what it had voted (seed 45678 of a run of 150 000).
    fn good_since(&self, start: Time) -> Time {
        if self.checks.flushed_at < start { self.now } else { Time::MAX }
    }

    /// Somebody looks at a lease: what was lost stays lost.
    pub(crate) fn look_at(&mut self, hold: usize) {
        let held = &self.holds[hold];
        if held.over {
            return;
        }
        let lost = matches!(held.lease.state(self.mono(held.client)), LeaseState::Lost(_));
        if held.seen_lost && !lost {
            self.violated(|| format!("hold {hold} was lost, and is held again"));
        }
        self.holds[hold].seen_lost |= lost;
    }

    /// The deadline of a lease has passed: it is lost, and the loss was announced.
    pub(crate) fn deadline(&mut self, hold: usize, until: Mono) {
        let held = &self.holds[hold];
        if held.over || held.lease.until() != until || until == Mono::ZERO {
            return;
        }
        self.checks.count("deadlines passed");
        self.look_at(hold);
        let held = &self.holds[hold];
        let client = &self.clients[held.client];
        let notice = held.lease.notice().as_nanos() as u64 * 2;
        let disturbed = !client.alive || client.paused_until.saturating_add(notice) >= self.now;
        if !held.seen_lost {
            self.violated(|| format!("hold {hold} is not lost at its deadline"));
        } else if !held.announced && !disturbed {
            self.violated(|| format!("the end of hold {hold} was not announced before its deadline"));
        }
    }

    /// A lease has a fencing token: above those of all grants before, below those of all grants behind.
    pub(crate) fn fence_known(&mut self, hold: usize, token: u64) {
        let (name, line) = (self.holds[hold].name, self.holds[hold].line);
        self.note(|| format!("hold {hold} has token {token}"));
        self.holds[hold].fence = Some(token);
        if !self.is_live(hold) {
            self.violated(|| format!("hold {hold} got token {token} after its end"));
        }
        if !self.is_claimed(name) || !self.plan.ordered_tokens {
            return;
        }
        let tokens = &mut self.checks.tokens[name];
        let before = tokens.range(..line).map(|(_, t)| *t).max();
        let behind = tokens.range(line + 1..).map(|(_, t)| *t).min();
        // One of the same grant is that of who gave the lease up: an adopter's is higher.
        let before = before.max(tokens.insert(line, token));
        if before.is_some_and(|t| t >= token) || behind.is_some_and(|t| t <= token) {
            self.violated(|| {
                format!("hold {hold} (grant {line}) has token {token}; before it {before:?}, behind it {behind:?}")
            });
        }
    }

    /// Keys of locks have changed on a server.
    pub(crate) fn changed(&mut self, server: usize, changes: &[Change]) {
        for change in changes {
            let (key, value) = match change {
                Change::Written(key, value, _) | Change::Deleted(key, value) => (key, value),
            };
            let Some(name) = self.keys.iter().position(|k| k.lock.as_bytes() == key.as_slice()) else { continue };
            let token =
                value.split(|b| *b == b'|').next().and_then(|t| std::str::from_utf8(t).ok()).unwrap_or_default();
            match change {
                Change::Deleted(..) => {
                    let owner = self.checks.owners.get(token).copied();
                    if let Some(hold) = owner.filter(|h| self.is_live(*h) && !self.checks.forced[name]) {
                        self.violated(|| format!("the key of hold {hold} was deleted on server {server}"));
                    }
                }
                Change::Written(_, _, expires) => {
                    match self.checks.owners.get(token).map(|hold| &mut self.holds[*hold]) {
                        Some(held) if held.extending => self.checks.count("keys renewed or written again"),
                        // A vote that comes behind somebody else's grant, which a loss had made possible: the hold may
                        // rest on it from now on (seed 478549 of a run of a million).
                        Some(held) if held.line != self.checks.last_grant[name].number => held.good_at = Time::MAX,
                        _ => {}
                    }
                    let now = self.servers[server].clock.micros(self.now).div_euclid(1_000);
                    let life = self.checks.lives.get(token).copied();
                    let left = expires.map(|at| at - now);
                    let fits = match (left, life) {
                        (None, _) => false,
                        (Some(left), Some(life)) => left <= life as i64,
                        // A revoked value keeps the ttl of the one before.
                        (Some(_), None) => token == "revoked",
                    };
                    if !fits {
                        self.violated(|| {
                            format!("the key of {token} lives for {left:?} ms on server {server}, not {life:?}")
                        });
                    }
                }
            }
        }
    }

    /// How many clients live.
    pub(crate) fn survivors(&self) -> usize {
        self.clients.iter().filter(|c| c.alive).count()
    }

    /// Whether everybody in the last phase has had the lock.
    pub(crate) fn is_over(&mut self) -> bool {
        if !self.calm {
            return false;
        }
        let misfit = self.plan.misfit;
        let waiting = |(c, client): (usize, &Client)| {
            client.alive && Some(c) != misfit && client.workers.first().is_some_and(Worker::wants)
        };
        !self.clients.iter().enumerate().any(waiting)
    }
}
