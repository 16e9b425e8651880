//! The faults, and two clients A and B that are exposed to one of them.
//!
//! A violation is counted only if, in this order: B was granted, A says that it still holds, B says that it still
//! holds. Both rely on their own library, without asking the masters.

use super::duel::{Answer, Duel};
use super::link::Link;
use super::masters::Masters;
use super::roster::Peer;
use super::seed::Seed;
use crate::nemesis::clock::Shim;
use clap::ValueEnum;
use redleash_testkit::wait_until;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Scene {
    /// A master that voted for A restarts empty.
    RestartEmpty,
    /// The clock of a master that voted for A jumps ahead by more than the lease.
    ClockStep,
    /// An attempt of A fails, its release is late, and reaches a master that has voted for A's next attempt.
    ReusedToken,
    /// One server is named twice in the list of three.
    AliasMaster,
    /// A is stopped beyond its lease, B acquires and in half of the cases releases, A goes on and extends.
    LateExtend,
}

/// What one peer and one scene are run with.
pub struct Cell<'a> {
    /// The library.
    pub peer: &'a Peer,
    /// The fault.
    pub scene: Scene,
    /// The number of masters.
    pub masters: usize,
    /// How many acquisitions of A are wanted.
    pub acquisitions: usize,
    /// Where the timings come from.
    pub seed: Seed,
    /// The program that drives redleash.
    pub here: &'a Path,
    /// The clock shim.
    pub shim: &'a Shim,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Locks that were granted to A and then met the fault; in `AliasMaster` those that A asked for.
    pub acquisitions: usize,
    /// Violations.
    pub violations: usize,
    /// Violations that A would have noticed if it had asked the masters.
    pub noticed: usize,
    /// Locks that A was not granted.
    pub refused: usize,
    /// In `ReusedToken`: attempts of which a release was late.
    pub late: usize,
    /// Why there is nothing to count: a verdict, a colon, the reason.
    pub note: Option<String>,
}

/// The lease of scenes that do not wait for its end.
const TTL: Duration = Duration::from_secs(10);
/// The lease of scenes that wait for its end.
const SHORT_TTL: Duration = Duration::from_secs(2);
/// Locks of one round, that is of one fault.
const NAMES: usize = 50;
/// How often B tries before it gives up.
const TRIES: usize = 3;
/// How long B waits between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// How late a message is whose packet was lost one to six times, in ms: TCP sends it again after 200 ms, and then each
/// time after twice as long.
const DELAYS_MS: [u64; 6] = [200, 600, 1_400, 3_000, 6_200, 12_600];

impl Cell<'_> {
    /// Runs it.
    ///
    /// # Errors
    ///
    /// If a server or a client fails in a way that is not the library's answer.
    pub fn run(mut self) -> io::Result<Tally> {
        let mut tally = Tally::default();
        if self.scene == Scene::LateExtend
            && let Some(why) = self.peer.no_extension
        {
            tally.note = Some(format!("not applicable: {why}"));
            return Ok(tally);
        }
        let mut in_vain = 0;
        while tally.acquisitions < self.acquisitions && tally.note.is_none() {
            let names = NAMES.min(self.acquisitions - tally.acquisitions);
            let before = tally.acquisitions;
            match self.scene {
                Scene::RestartEmpty | Scene::ClockStep => self.lose_a_vote(names, &mut tally)?,
                Scene::ReusedToken => self.reused_token(names, &mut tally)?,
                Scene::AliasMaster => self.alias(names, &mut tally)?,
                Scene::LateExtend => self.late_extend(names, &mut tally)?,
            }
            in_vain = if tally.acquisitions > before { 0 } else { in_vain + 1 };
            if in_vain > 5 {
                break;
            }
        }
        Ok(tally)
    }

    fn client(&self, addresses: &[String], ttl: Duration) -> io::Result<Duel> {
        match Duel::start(self.peer, self.here, addresses, ttl)? {
            (duel, Answer { ok: true, .. }) => Ok(duel),
            (_, answer) => Err(io::Error::other(format!("refused at the start: {:?}", answer.why))),
        }
    }

    /// A random choice of all masters but `quorum`; never `but`.
    fn missed(&mut self, but: usize, quorum: usize) -> Vec<usize> {
        let mut others: Vec<usize> = (0..self.masters).filter(|master| *master != but).collect();
        (0..self.masters - quorum).map(|_| others.swap_remove(self.seed.below(others.len()))).collect()
    }

    fn pause(&mut self, longest: Duration) {
        thread::sleep(longest.mul_f64(self.seed.fraction()));
    }

    /// A holds on a quorum and no more, one of these masters forgets, B asks.
    fn lose_a_vote(&mut self, names: usize, tally: &mut Tally) -> io::Result<()> {
        let masters = Masters::start(self.masters, self.shim)?;
        let mut a = self.client(&masters.addresses(), TTL)?;
        let mut b = self.client(&masters.addresses(), TTL)?;
        let victim = self.seed.below(self.masters);
        let mut held = Vec::new();
        for i in 0..names {
            let name = format!("job-{i}");
            // With a fault margin A must not be granted on a bare majority: try that too, and count it if it is.
            let bare = self.peer.fault_margin > 0 && self.seed.below(2) == 0;
            let quorum = if bare { self.masters / 2 + 1 } else { self.peer.quorum(self.masters) };
            let missed = self.missed(victim, quorum);
            for master in &missed {
                masters.leave_vote(self.peer, *master, &name)?;
            }
            match a.ask(if bare { "try" } else { "acquire" }, &name)? {
                Answer { ok: true, .. } => held.push(name.clone()),
                _ => tally.refused += 1,
            }
            for master in missed {
                masters.end_vote(self.peer, master, &name)?;
            }
        }
        self.pause(TTL / 4);
        match self.scene {
            Scene::ClockStep => masters.step(victim, TTL + TTL.mul_f64(3.0 * self.seed.fraction()))?,
            _ => masters.restart_empty(victim)?,
        }
        self.pause(TTL / 4);
        tally.acquisitions += held.len();
        contest(&mut a, &mut b, held, tally)
    }

    /// A's attempt fails, its release to one master is late, A's next attempt succeeds, the release arrives.
    fn reused_token(&mut self, names: usize, tally: &mut Tally) -> io::Result<()> {
        let masters = Masters::start(self.masters, self.shim)?;
        let slow = self.masters / 2;
        let link = Link::to(masters.port(slow), &self.peer.release)?;
        let mut addresses = masters.addresses();
        addresses[slow] = format!("127.0.0.1:{}", link.port());
        let mut a = self.client(&addresses, TTL)?;
        let mut b = self.client(&masters.addresses(), TTL)?;
        // Every script is loaded before it matters.
        for client in [&mut a, &mut b] {
            client.ask("acquire", "warm-up")?;
            client.ask("release", "warm-up")?;
        }
        for i in 0..names {
            let name = format!("job-{i}");
            let missed = self.missed(slow, self.peer.quorum(self.masters));
            let split = self.seed.below(2) == 0;
            let taken: Vec<usize> = (0..self.masters).filter(|master| !split || *master != slow).collect();
            for master in &taken {
                masters.leave_vote(self.peer, *master, &name)?;
            }
            link.arm(Duration::from_millis(DELAYS_MS[self.seed.below(DELAYS_MS.len())]));
            a.begin("acquire", &name)?;
            let mut said = None;
            let start = Instant::now();
            while said.is_none() && !link.caught() && start.elapsed() < Duration::from_secs(3) {
                said = a.answer_within(Duration::from_millis(2))?;
            }
            for master in taken.iter().filter(|master| !missed.contains(master)) {
                masters.end_vote(self.peer, *master, &name)?;
            }
            let mut said = said.map_or_else(|| a.answer(), Ok)?;
            for _ in 1..TRIES {
                if said.ok {
                    break;
                }
                said = a.ask("acquire", &name)?;
            }
            link.disarm();
            tally.late += usize::from(link.caught());
            if !link.wait(Duration::from_secs(20)) {
                return Err(io::Error::other("a release that was held back was not delivered"));
            }
            for master in missed {
                masters.end_vote(self.peer, master, &name)?;
            }
            if said.ok {
                tally.acquisitions += 1;
                contest(&mut a, &mut b, vec![name.clone()], tally)?;
            } else {
                tally.refused += 1;
            }
            for client in [&mut a, &mut b] {
                client.ask("release", &name)?;
            }
        }
        Ok(())
    }

    /// Three names for two servers, of which one cannot be locked: the majority of the names is one server.
    fn alias(&mut self, names: usize, tally: &mut Tally) -> io::Result<()> {
        let masters = Masters::start(2, self.shim)?;
        let addresses = [
            format!("127.0.0.1:{}", masters.port(0)),
            format!("localhost:{}", masters.port(0)),
            format!("127.0.0.1:{}", masters.port(1)),
        ];
        let (mut a, first) = Duel::start(self.peer, self.here, &addresses, TTL)?;
        if !first.ok {
            tally.refused += names;
            tally.note = Some(format!("refused at the start: {}", first.why.unwrap_or_default()));
            return Ok(());
        }
        for i in 0..names {
            let name = format!("job-{i}");
            masters.leave_vote(self.peer, 1, &name)?;
            tally.violations += usize::from(a.ask("try", &name)?.ok);
        }
        tally.acquisitions += names;
        Ok(())
    }

    /// A is stopped past its lease, B acquires and in half of the cases releases, A wakes and extends.
    fn late_extend(&mut self, names: usize, tally: &mut Tally) -> io::Result<()> {
        let masters = Masters::start(self.masters, self.shim)?;
        let mut a = self.client(&masters.addresses(), SHORT_TTL)?;
        let mut b = self.client(&masters.addresses(), SHORT_TTL)?;
        let mut held = Vec::new();
        for i in 0..names {
            let name = format!("job-{i}");
            match a.ask("acquire", &name)? {
                Answer { ok: true, .. } => held.push(name),
                _ => tally.refused += 1,
            }
        }
        a.pause()?;
        self.pause(SHORT_TTL);
        for name in &held {
            if !wait_until(SHORT_TTL * 3, || matches!(masters.any_key(self.peer, name), Ok(false))) {
                return Err(io::Error::other("the lease of a stopped client did not end"));
            }
        }
        let mut since = Vec::new();
        for name in held {
            if b.ask("try", &name)?.ok {
                since.push(name.clone());
                if self.seed.below(2) == 0 {
                    b.ask("release", &name)?;
                }
            }
        }
        a.resume()?;
        for name in since {
            tally.acquisitions += 1;
            tally.violations += usize::from(a.ask("extend", &name)?.ok);
        }
        Ok(())
    }
}

/// B tries to acquire what A holds.
fn contest(a: &mut Duel, b: &mut Duel, mut names: Vec<String>, tally: &mut Tally) -> io::Result<()> {
    for pass in 0..TRIES {
        if pass > 0 && !names.is_empty() {
            thread::sleep(PAUSE);
        }
        let mut left = Vec::new();
        for name in names {
            if !b.ask("try", &name)?.ok {
                left.push(name);
            } else if a.ask("valid", &name)?.ok && b.ask("valid", &name)?.ok {
                tally.violations += 1;
                let asked = a.ask("ask", &name)?;
                tally.noticed += usize::from(!asked.ok && !asked.none);
            }
        }
        names = left;
    }
    Ok(())
}
