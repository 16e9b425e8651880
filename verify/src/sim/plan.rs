//! What a seed makes of the world: sizes, clocks, settings, and the faults that its claim covers.

use super::clock::Time;
use super::rng::Rng;
use redleash_protocol::retry::Backoff;
use redleash_protocol::{Drift, Quorum};
use std::time::Duration;

/// One millisecond of true time.
pub(crate) const MS: Time = 1_000_000;

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// What is sent on a connection does not arrive any more.
    LostRequests,
    /// What is answered on a connection does not arrive any more.
    LostReplies,
    /// A connection breaks; what is under way is executed later, or never.
    Break,
    /// The network is slow for a while.
    Delay,
    /// A client and a master cannot reach each other for a while.
    Partition,
    /// A master is stopped for a while.
    Stop,
    /// A master restarts without its data.
    RestartEmpty,
    /// A master restarts from an old snapshot.
    RestartOld,
    /// A master restarts with all of its data.
    RestartAll,
    /// FLUSHALL.
    Flush,
    /// SCRIPT FLUSH.
    ScriptFlush,
    /// A master takes over the data of a replica of another master.
    ResyncForeign,
    /// A process of a client is paused.
    Pause,
    /// A process of a client ends.
    Crash,
    /// A master's clock runs at another rate, within the drift.
    Slew,
    /// A master's clock is stepped.
    ClockStep,
    /// A master evicts a key.
    Evict,
    /// A master takes over the data of an old replica of its own.
    ResyncOwn,
    /// A master becomes a replica of an old replica of its own, and a master again.
    FailBack,
    /// A master's clock runs at a rate beyond the drift.
    SlewBeyond,
    /// Somebody releases the lock by force; the key stays to the end of the lease.
    ForceRelease,
    /// Somebody deletes the lock by force.
    ForceReleaseNow,
    /// Somebody settles the masters once more.
    Init,
}

impl Fault {
    /// All kinds.
    pub(crate) const ALL: [Fault; 23] = [
        Fault::LostRequests,
        Fault::LostReplies,
        Fault::Break,
        Fault::Delay,
        Fault::Partition,
        Fault::Stop,
        Fault::RestartEmpty,
        Fault::RestartOld,
        Fault::RestartAll,
        Fault::Flush,
        Fault::ScriptFlush,
        Fault::ResyncForeign,
        Fault::Pause,
        Fault::Crash,
        Fault::Slew,
        Fault::ClockStep,
        Fault::Evict,
        Fault::ResyncOwn,
        Fault::FailBack,
        Fault::SlewBeyond,
        Fault::ForceRelease,
        Fault::ForceReleaseNow,
        Fault::Init,
    ];
}

/// The settings of a history.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Masters and margin.
    pub(crate) quorum: Quorum,
    /// The server behind each name.
    pub(crate) servers: Vec<usize>,
    /// Whether votes are checked against the generation.
    pub(crate) quarantine: bool,
    /// The longest lease.
    pub(crate) max_lease: Duration,
    /// The ttl of most leases.
    pub(crate) ttl: Duration,
    /// The lock-delay of all leases.
    pub(crate) lock_delay: Duration,
    /// The drift bound.
    pub(crate) drift: Drift,
    /// The largest rate error of any clock, in ppm: that of a client and that of a master make up the drift.
    pub(crate) rate: u64,
    /// The pauses on contention.
    pub(crate) backoff: Backoff,
    /// How many clients.
    pub(crate) clients: usize,
    /// How many workers per client.
    pub(crate) workers: usize,
    /// How many locks.
    pub(crate) names: usize,
    /// After this time workers begin nothing new.
    pub(crate) activity: Time,
    /// How many attempts all workers make.
    pub(crate) attempts: u32,
    /// The least and the greatest time of a message on its way.
    pub(crate) latency: (Time, Time),
    /// How many of 100 messages take much longer.
    pub(crate) slow: u64,
    /// How many of 100 waking threads are late.
    pub(crate) late: u64,
    /// How far wall clocks of clients are off, in microseconds.
    pub(crate) client_offset: u64,
    /// How far wall clocks of masters are off, in microseconds.
    pub(crate) server_offset: u64,
    /// The connection limit.
    pub(crate) hang_timeout: Duration,
    /// A client with a shorter longest lease, if there is one.
    pub(crate) misfit: Option<usize>,
    /// The faults and when they happen.
    pub(crate) faults: Vec<(Time, Fault)>,
    /// The master whose faults are beyond f = 0.
    pub(crate) liar: usize,
    /// Whether the masters' data may be lost where no quarantine notices it: exclusion is not claimed then.
    pub(crate) unnoticed_loss: bool,
    /// Whether the order of tokens is claimed: not where counters may be lost and the masters' clocks are further apart
    /// than a quarantine.
    pub(crate) ordered_tokens: bool,
    /// Whether tails of broken connections may be executed later.
    pub(crate) stragglers: bool,
    /// Whether masters are settled again and again. One init rests on an assumption: that no lease is held on masters
    /// that are all empty. So a quorum loses no data then.
    pub(crate) inits: bool,
    /// Whether rounds take long.
    pub(crate) storm: bool,
    /// Whether faults wait for their moment.
    pub(crate) ambushes: bool,
    /// Whether one script renews many leases.
    pub(crate) shared_watchdog: bool,
    /// How many of 100 notifications are lost, besides those that a fault loses.
    pub(crate) lost_messages: u64,
    /// Whether somebody forges notifications.
    pub(crate) forged: bool,
    /// How long a lock may be free while somebody waits for it, and how long somebody may wait for it, if that is
    /// claimed.
    pub(crate) promises: Option<(Time, Time)>,
    /// Whether the processes fight for one lock at full speed; whether they rest now and then, and whether they drop
    /// their guards.
    pub(crate) fight: Option<(bool, bool)>,
    /// How many of 100 attempts fold the fencing token in, and how many of 100 holds ask for one.
    pub(crate) fenced: (u64, u64),
}

/// Faults that lose no data; covered by every claim.
const MILD: [Fault; 11] = [
    Fault::LostRequests,
    Fault::LostReplies,
    Fault::Break,
    Fault::Delay,
    Fault::Partition,
    Fault::Stop,
    Fault::ScriptFlush,
    Fault::Pause,
    Fault::Crash,
    Fault::Slew,
    Fault::ForceRelease,
];
/// Faults that lose data where the quarantine notices it.
const LOSSES: [Fault; 6] =
    [Fault::RestartEmpty, Fault::RestartOld, Fault::RestartAll, Fault::Flush, Fault::ResyncForeign, Fault::FailBack];
/// The faults of a storm, besides losses.
const STORM: [Fault; 5] = [Fault::Partition, Fault::Break, Fault::Break, Fault::LostRequests, Fault::Pause];
/// Faults that only a margin covers, on as many masters as it has.
const LIES: [Fault; 4] = [Fault::ClockStep, Fault::Evict, Fault::ResyncOwn, Fault::SlewBeyond];

impl Plan {
    /// The history of a seed.
    pub(crate) fn draw(rng: &mut Rng) -> Plan {
        let (n, f) = rng.pick(&[(1, 0), (3, 0), (3, 0), (3, 0), (3, 0), (3, 0), (3, 1), (3, 1), (5, 0), (5, 1)]);
        let quarantine = rng.chance(if n == 1 { 40 } else { 88 });
        let ttl_ms = rng.pick(&[100, 150, 300, 300, 1_000, 3_000]);
        let max_lease_ms =
            rng.pick(&[ttl_ms, ttl_ms, ttl_ms, ttl_ms + 50, ttl_ms + 50, 2 * ttl_ms, 2 * ttl_ms, 60_000]);
        let (drift_ppm, rate) = rng.pick(&[(10_000, 4_900), (10_000, 4_900), (1_000, 490), (100_000, 47_000)]);
        let quorum = Quorum::new(n, f).unwrap_or_else(|| unreachable!("sizes that there are"));
        let ms = Duration::from_millis;
        let mut plan = Plan {
            quorum,
            servers: (0..n).collect(),
            quarantine,
            max_lease: ms(max_lease_ms),
            ttl: ms(ttl_ms),
            lock_delay: if rng.chance(15) { ms(rng.below((max_lease_ms - ttl_ms).min(ttl_ms) + 1)) } else { ms(0) },
            drift: Drift::from_ppm(drift_ppm).unwrap_or(Drift::DEFAULT),
            rate,
            backoff: rng.pick(&[
                Backoff { min: ms(1), max: ms(4), cap: ms(30) },
                Backoff { min: ms(1), max: ms(20), cap: ms(100) },
                Backoff { min: ms(10), max: ms(50), cap: ms(200) },
                Backoff::DEFAULT,
            ]),
            clients: rng.between(2, 4) as usize,
            workers: rng.pick(&[1, 1, 2]),
            names: rng.pick(&[1, 1, 1, 2]),
            activity: rng.between(4, 14) * ttl_ms * MS,
            attempts: 40,
            latency: rng.pick(&[(20_000, 80_000), (100_000, MS), (MS, 5 * MS), (20_000, 20 * MS)]),
            slow: rng.pick(&[0, 0, 2, 10]),
            late: rng.pick(&[0, 0, 3, 15]),
            client_offset: 0,
            server_offset: 0,
            hang_timeout: ms(rng.pick(&[1_000, 1_000, 200, 60])),
            misfit: None,
            faults: Vec::new(),
            liar: rng.below(n as u64) as usize,
            unnoticed_loss: false,
            ordered_tokens: true,
            stragglers: true,
            inits: false,
            storm: false,
            ambushes: false,
            shared_watchdog: rng.chance(25),
            lost_messages: rng.pick(&[0, 0, 10, 100]),
            forged: rng.chance(10),
            promises: None,
            fight: None,
            fenced: (rng.pick(&[0, 30, 100]), rng.pick(&[0, 40, 100])),
        };
        if n == 3 && f == 0 && quarantine && rng.chance(25) {
            plan.ambush(rng);
        } else if n == 3 && rng.chance(30) {
            plan.storm(rng);
        }
        if n == 3 && f == 0 && rng.chance(8) {
            plan.fight(rng);
            return plan;
        }
        plan.draw_faults(rng, n, f);
        plan.draw_clocks(rng);
        plan
    }

    /// Processes that fight for one lock, and what waiters are promised then. A third of these histories is
    /// undisturbed: nobody waits for his poll. In the others notifications are lost, processes die in the wait lists,
    /// and masters restart.
    fn fight(&mut self, rng: &mut Rng) {
        let ms = Duration::from_millis;
        self.crowd(rng);
        (self.storm, self.ambushes) = (false, false);
        (self.ttl, self.max_lease, self.lock_delay) = (ms(3_000), ms(3_000), ms(0));
        (self.slow, self.late, self.hang_timeout) = (0, 0, ms(1_000));
        self.latency = rng.pick(&[(20_000, 80_000), (100_000, 400_000), (200_000, MS)]);
        self.clients = rng.between(2, 4) as usize;
        self.workers = rng.pick(&[1, 1, 2, 3]);
        self.attempts = 10_000;
        self.activity = rng.between(600, 1_500) * MS;
        self.fenced = (0, 0);
        self.fight = Some((rng.chance(50), rng.chance(60)));
        let poll = ms(400);
        self.backoff = Backoff { min: poll, max: poll, cap: poll };
        let undisturbed = rng.chance(35);
        self.lost_messages = if undisturbed { 0 } else { rng.pick(&[5, 30, 100]) };
        self.forged = !undisturbed && rng.chance(30);
        self.promises = Some(if undisturbed { (80 * MS, 600 * MS) } else { (2_000 * MS, Time::MAX) });
        if !undisturbed {
            let kinds = [Fault::Crash, Fault::Crash, Fault::RestartAll, Fault::Break];
            self.faults = (0..rng.below(4)).map(|_| (rng.below(self.activity), rng.pick(&kinds))).collect();
            self.faults.sort_unstable();
        }
    }

    /// Messages and threads take up to a whole ttl, connections break, masters forget: rounds overlap with everything.
    /// The rare orders of events that some rules are for need this much.
    fn storm(&mut self, rng: &mut Rng) {
        self.slow = rng.pick(&[5, 20, 50]);
        self.late = rng.pick(&[0, 20, 60]);
        self.crowd(rng);
        self.fenced = rng.pick(&[(50, 100), (50, 100), (0, 100), (0, 0)]);
        self.storm = true;
    }

    /// Few clients want one lock again and again, and a quarantine is as short as it may be.
    fn crowd(&mut self, rng: &mut Rng) {
        self.max_lease = self.ttl;
        self.lock_delay = Duration::ZERO;
        self.clients = rng.between(2, 3) as usize;
        self.names = 1;
        self.attempts = 60;
        self.backoff = Backoff { min: Duration::from_millis(1), max: Duration::from_millis(10), cap: self.ttl / 4 };
    }

    /// Few faults by chance and some by an adversary. All else is quick, so that much comes of what he does.
    fn ambush(&mut self, rng: &mut Rng) {
        (self.slow, self.late) = (0, 0);
        self.latency = rng.pick(&[(20_000, 80_000), (100_000, MS), (MS, 3 * MS)]);
        self.crowd(rng);
        self.hang_timeout = Duration::from_millis(60);
        self.fenced = rng.pick(&[(60, 100), (60, 100), (0, 100)]);
        self.ambushes = true;
    }

    fn draw_faults(&mut self, rng: &mut Rng, n: usize, f: usize) {
        let mut kinds: Vec<Fault> = MILD.iter().copied().filter(|_| rng.chance(30)).collect();
        if self.storm {
            kinds = STORM.iter().copied().filter(|_| rng.chance(60)).collect();
        }
        if self.ambushes {
            kinds = vec![Fault::LostRequests, Fault::Pause];
        } else if n >= 3 && rng.chance(6) {
            // One server behind two names.
            let twice = rng.below(n as u64 - 1) as usize;
            self.servers[n - 1] = twice;
        }
        if self.ambushes {
            kinds.push(Fault::Flush);
        } else if self.storm && self.quarantine {
            kinds.extend([Fault::Flush, Fault::RestartEmpty].iter().filter(|_| rng.chance(60)));
        } else if self.quarantine {
            kinds.extend(LOSSES.iter().copied().filter(|_| rng.chance(35)));
        } else if rng.chance(40) {
            self.unnoticed_loss = true;
            self.stragglers = false;
            kinds.retain(|k| !matches!(k, Fault::LostRequests | Fault::LostReplies | Fault::Break | Fault::Partition));
            kinds.push(Fault::Flush);
        }
        // A server that is wrong counts as one wrong master only while it has one name.
        if f > 0 && self.servers[n - 1] == n - 1 {
            kinds.extend(LIES.iter().copied().filter(|_| rng.chance(50)));
        }
        if rng.chance(3) {
            kinds.push(Fault::ForceReleaseNow);
        }
        self.inits = self.quarantine && !self.ambushes && self.servers[n - 1] == n - 1 && rng.chance(20);
        if self.inits {
            let few = kinds.len().div_ceil(2);
            kinds.extend(std::iter::repeat_n(Fault::Init, few.max(1)));
        }
        if !kinds.is_empty() {
            let count = match (self.storm, self.ambushes) {
                (true, _) => rng.between(6, 24),
                (_, true) => rng.between(1, 3),
                _ => rng.between(1, 10),
            };
            self.faults = (0..count).map(|_| (rng.below(self.activity), rng.pick(&kinds))).collect();
            self.faults.sort_unstable();
        }
        let loses = self.faults.iter().any(|(_, k)| LOSSES.contains(k) || LIES.contains(k));
        if self.clients > 2 && self.quarantine && !loses && rng.chance(10) {
            self.misfit = Some(self.clients - 1);
        }
    }

    /// After a loss of counters the order of tokens rests on the masters' clocks, which must agree within a quarantine;
    /// clients' clocks may be off by any time.
    fn draw_clocks(&mut self, rng: &mut Rng) {
        let loses = self.faults.iter().any(|(_, k)| LOSSES.contains(k) || LIES.contains(k));
        self.client_offset = rng.pick(&[0, 1_000_000, 7_200_000_000]);
        if loses || self.ambushes {
            let quarantine = self.max_lease.as_micros() as u64;
            self.server_offset = rng.pick(&[0, quarantine / 8, quarantine / 3, 4_000_000]);
            // By how much two of them may have come apart when the last fault has struck.
            let apart = 2 * self.server_offset + 2 * self.rate * (self.activity / 1_000) / 1_000_000;
            self.ordered_tokens = apart < quarantine;
        } else {
            self.server_offset = rng.pick(&[0, 1_000_000, 7_200_000_000]);
        }
    }
}
