//! One command to every master, and what their answers decide.

use super::generation::Generation;
use super::init::Ground;
use super::lease::LossReason;
use super::owner::Holder;
use super::quorum::Quorum;
use super::retry::MAY_BE_FREE_WITHIN;
use super::time::Mono;
use std::fmt;
use std::time::Duration;

/// Why a master gave no answer that counts. No variant carries a password or a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No answer within the limit.
    TimedOut,
    /// It owes an older answer for longer than the limit, so nobody waits for it.
    Hung,
    /// There is no connection; the reason of the last failure to connect.
    Down(String),
    /// The connection broke before the answer came.
    Broken(String),
    /// The server refused the command.
    Refused(String),
    /// The server is a replica now.
    ReadOnly,
    /// The server does not serve as a master now, in its own words: it loads its data, waits for its master, or is part
    /// of a Redis Cluster.
    NoMaster(String),
    /// The server has been a replica since this connection was made, or has begun another history.
    Changed,
    /// The answer had an unexpected shape; the connection was closed.
    Nonsense,
    /// The fencing counter has reached its limit.
    FenceRange,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::TimedOut => write!(f, "no answer in time"),
            Cause::Hung => write!(f, "hung: it has not answered an earlier command yet"),
            Cause::Down(why) => write!(f, "not connected: {why}"),
            Cause::Broken(why) => write!(f, "connection lost: {why}"),
            Cause::Refused(why) => write!(f, "refused the command: {why}"),
            Cause::ReadOnly => write!(f, "is a read-only replica: name its master instead"),
            Cause::NoMaster(why) => write!(f, "does not serve as a master: {why}"),
            Cause::Changed => write!(f, "was a replica meanwhile or has got its first one; connecting again"),
            Cause::Nonsense => {
                write!(f, "gave an answer that no Redis gives to this command; the connection was closed")
            }
            Cause::FenceRange => write!(f, "its fencing counter for this lock has reached its limit (2^53)"),
        }
    }
}

impl Cause {
    /// Whether the connection is of no use any more: the address is looked up and connected to again, because the
    /// master is somewhere else now, or is not the one that it was.
    pub fn ends_the_connection(&self) -> bool {
        matches!(self, Cause::ReadOnly | Cause::NoMaster(_) | Cause::Changed | Cause::Nonsense)
    }
}

/// What one master said to one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It did what was asked. For a vote: it wrote our value in this round and is not in quarantine. Carries the
    /// fencing counter where one was asked for.
    Yes(Option<u64>),
    /// The key holds somebody else's value, with this remaining ttl where the master reports it.
    HeldByOther(Option<Duration>),
    /// The key is absent.
    Absent,
    /// `SET NX` said no, yet the key reads as nothing: it has another type, or has just expired.
    Unclear,
    /// The key was written, but the generation is not the one that this connection knew: no vote.
    Stale,
    /// The master lost its memory not long ago; it votes again after this time.
    Quarantined(Duration),
    /// The key is of another kind; its type.
    Conflict(String),
    /// Other clients of this master use another deployment (`max_lease_ms:deployment:N:q`); theirs.
    Mismatch(String),
    /// What was found for each of many leases.
    Many(Vec<Answer>),
    /// What a status query found.
    View(Box<MasterView>),
    /// What an init has found.
    Ground(Ground),
    /// Nothing that counts.
    Failed(Cause),
}

impl Answer {
    /// Why the connection that it came by is to be closed, if it is.
    pub fn ends_the_connection(&self) -> Option<&Cause> {
        match self {
            Answer::Failed(cause) if cause.ends_the_connection() => Some(cause),
            _ => None,
        }
    }

    /// Whether the master did what was asked, all of it.
    fn is_yes(&self) -> bool {
        match self {
            Answer::Yes(_) => true,
            Answer::Many(each) => each.iter().all(Answer::is_yes),
            _ => false,
        }
    }
}

/// What one master knows of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterView {
    /// Who holds the key there; `None` if it is free.
    pub holder: Option<Holder>,
    /// The type of the key where it is not a string.
    pub foreign_type: Option<String>,
    /// The key's remaining life; `None` if it has none or there is no key.
    pub ttl: Option<Duration>,
    /// The fencing counter.
    pub fence: Option<u64>,
    /// The master's generation.
    pub generation: Option<Generation>,
    /// The master's clock, microseconds since 1970.
    pub time_us: u64,
}

/// When a round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// At the quorum-th yes, or when a quorum is out of reach and it is clear whether by contention or by an outage.
    Quorum,
    /// When every master that is waited for has answered.
    All,
    /// At the quorum-th master that did all that was asked, or when every master that is waited for has answered.
    QuorumOrAll,
}

/// What the answers of an acquiring or extending round amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// A quorum of votes in time.
    Granted,
    /// A quorum of votes, but the validity was over.
    TooSlow,
    /// So many masters hold somebody else's key that there is no quorum for us; when a quorum will be free, by the
    /// ttls that the masters report.
    HeldByOther(Option<Duration>),
    /// Votes are split among clients: nobody has a quorum.
    Split,
    /// So many masters have no key of ours (nor of anybody) that there is no quorum for us.
    Absent,
    /// Plain commands do not show why; ask again with the full script, at once.
    Unclear,
    /// Too many masters are in quarantine; when enough of them vote again.
    Quarantined(Duration),
    /// The key is of another kind on master `.0`; its type.
    Conflict(usize, String),
    /// Master `.0` belongs to another deployment; theirs.
    Mismatch(usize, String),
    /// Too few masters answered.
    NoQuorum,
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Judgement::Granted => write!(f, "granted"),
            Judgement::TooSlow => write!(f, "a quorum, but too late"),
            Judgement::HeldByOther(None) => write!(f, "held by another owner"),
            Judgement::HeldByOther(Some(ttl)) => write!(f, "held by another owner for at most {ttl:.1?}"),
            Judgement::Split => write!(f, "the votes are split"),
            Judgement::Absent => write!(f, "the key is absent"),
            Judgement::Unclear => write!(f, "refused without a reason"),
            Judgement::Quarantined(left) => write!(f, "too many masters in quarantine, for {left:.1?}"),
            Judgement::Conflict(i, kind) => write!(f, "the key is a {kind} on master {}", i + 1),
            Judgement::Mismatch(i, theirs) => write!(f, "master {} belongs to deployment {theirs}", i + 1),
            Judgement::NoQuorum => write!(f, "too few masters answered"),
        }
    }
}

impl Judgement {
    /// Whether the masters, not other clients, are the reason.
    pub fn is_outage(&self) -> bool {
        matches!(self, Judgement::TooSlow | Judgement::NoQuorum | Judgement::Quarantined(_))
    }
}

/// The answers to one command, and whether they have decided it. At most one answer per master counts.
#[derive(Clone, Debug)]
pub struct Round {
    quorum: Quorum,
    rule: Rule,
    awaited: u32,
    yes: u32,
    answers: Vec<Option<(Answer, Mono)>>,
    decided: bool,
    open: bool,
}

impl Round {
    /// A round to all masters of `quorum` that ends by `rule`.
    pub fn new(quorum: Quorum, rule: Rule) -> Round {
        Round {
            quorum,
            rule,
            awaited: quorum.all(),
            yes: 0,
            answers: vec![None; quorum.masters()],
            decided: false,
            open: true,
        }
    }

    /// Notes that nobody waits for master `i`; true if this decides the round.
    pub fn do_not_await(&mut self, i: usize) -> bool {
        self.awaited &= !(1 << i);
        self.decide()
    }

    /// Takes the answer of master `i`; true if it decides the round. A second answer of the same master is dropped; a
    /// late one is a wider margin.
    pub fn on_answer(&mut self, i: usize, answer: Answer, now: Mono) -> bool {
        let Some(slot) = self.answers.get_mut(i) else { return false };
        if slot.is_some() {
            return false;
        }
        if answer.is_yes() {
            self.yes |= 1 << i;
        }
        self.awaited &= !(1 << i);
        *slot = Some((answer, now));
        self.decide()
    }

    fn decide(&mut self) -> bool {
        let waiting = self.awaited.count_ones() as usize;
        let over = match self.rule {
            Rule::Quorum => self.reached() || (!self.quorum.reached(self.yes() + waiting) && self.is_clear(waiting)),
            Rule::All => waiting == 0,
            Rule::QuorumOrAll => self.reached() || waiting == 0,
        };
        let now_decided = over && !self.decided;
        self.decided |= over;
        now_decided
    }

    /// Whether it is clear why there is no quorum: everybody has answered, others hold the key, or too few masters are
    /// there to vote at all. While a minority is away, the first refusal makes a quorum impossible; only the answers
    /// that are still due distinguish contention from an outage.
    fn is_clear(&self, waiting: usize) -> bool {
        let alive = self.count(|a| matches!(a, Answer::Yes(_)) || may_change(a));
        waiting == 0 || self.taken_or_absent() || !self.quorum.reached(alive + waiting)
    }

    /// Whether the round is decided.
    pub fn is_decided(&self) -> bool {
        self.decided
    }

    /// Whether the attempt behind this round still goes on.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a command of this round may be sent again: not once it is decided, for then its value may be released or
    /// undone, and what is sent again would come behind that.
    pub fn may_be_sent_again(&self) -> bool {
        self.open && !self.decided
    }

    /// Whether master `i` is still waited for.
    pub fn awaits(&self, i: usize) -> bool {
        self.awaited >> i & 1 == 1
    }

    /// Ends the attempt behind this round: nothing of it is sent again.
    pub fn close(&mut self) {
        self.open = false;
    }

    /// The rounds of the `n` leases that this round was about: what a master said of all counts for each.
    pub fn parts(&self, n: usize) -> Vec<Round> {
        let mut parts = vec![Round::new(self.quorum, Rule::Quorum); n];
        for (i, answer) in self.answers.iter().enumerate() {
            for (k, part) in parts.iter_mut().enumerate() {
                match answer {
                    Some((Answer::Many(each), at)) => {
                        let said = each.get(k).cloned().unwrap_or(Answer::Failed(Cause::Nonsense));
                        part.on_answer(i, said, *at);
                    }
                    Some((other, at)) => {
                        part.on_answer(i, other.clone(), *at);
                    }
                    None => {
                        part.do_not_await(i);
                    }
                }
            }
        }
        parts
    }

    /// The number of masters that said yes, late ones included; of many leases, those that said it of all.
    pub fn yes(&self) -> usize {
        self.yes.count_ones() as usize
    }

    /// The masters that said yes.
    pub fn yes_mask(&self) -> u32 {
        self.yes
    }

    /// Whether a quorum said yes.
    pub fn reached(&self) -> bool {
        self.quorum.reached(self.yes())
    }

    /// The answers so far, by master.
    pub fn answers(&self) -> &[Option<(Answer, Mono)>] {
        &self.answers
    }

    /// The fencing counters that came with the yes answers, by master.
    pub fn counters(&self) -> Vec<Option<u64>> {
        let counter = |a: &Option<(Answer, Mono)>| match a {
            Some((Answer::Yes(c), _)) => *c,
            _ => None,
        };
        self.answers.iter().map(counter).collect()
    }

    fn count(&self, pred: impl Fn(&Answer) -> bool) -> usize {
        self.answers.iter().flatten().filter(|(a, _)| pred(a)).count()
    }

    /// Whether so many masters hold somebody else's key that our value can have no quorum any more.
    pub fn taken(&self) -> bool {
        self.quorum.out_of_reach(self.count(|a| matches!(a, Answer::HeldByOther(_))))
    }

    /// Whether so many masters have somebody else's key or none that our value can have no quorum any more.
    pub fn taken_or_absent(&self) -> bool {
        self.quorum.out_of_reach(self.count(|a| matches!(a, Answer::HeldByOther(_) | Answer::Absent)))
    }

    /// Why a lease whose round this is, is over: a majority has another value, or none and no quarantine vouches for
    /// the time in which the key was absent (another may have held the lock in between). With a quarantine an extension
    /// writes the key again.
    pub fn against(&self, quarantine: bool) -> Option<LossReason> {
        if self.taken() {
            return Some(LossReason::Taken);
        }
        (self.taken_or_absent() && !quarantine).then_some(LossReason::KeyAbsent)
    }

    /// The masters on which an attempt that was given up may have left its key: all but those that said otherwise.
    ///
    /// Proof obligation: call it once the attempt is closed, so that nothing of it is sent or counted afterwards; only
    /// an attempt that was given up is undone, as a whole (`docs/SAFETY.md#undo`).
    pub fn undo_targets(&self) -> u32 {
        let untouched = |answer: &Answer| match answer {
            Answer::Failed(cause) => {
                matches!(cause, Cause::Down(_) | Cause::ReadOnly | Cause::Refused(_) | Cause::FenceRange)
            }
            Answer::Yes(_) | Answer::Stale => false,
            _ => true,
        };
        let reached = |(i, a): (usize, &Option<(Answer, Mono)>)| match a {
            Some((answer, _)) if untouched(answer) => 0,
            _ => 1u32 << i,
        };
        self.answers.iter().enumerate().map(reached).fold(0, |mask, bit| mask | bit)
    }

    /// What the answers amount to, at `end`, for a grant that would be valid until `until`.
    ///
    /// Proof obligation (`docs/SAFETY.md#vote-rule`): a vote is a `Yes` of *this* round, at most one per master, none
    /// from quarantine (`refusal` in `src/scripts/generation.lua` and `pair` in `src/wire/decode.rs` see to that), and
    /// the quorum was complete before `until`, by `end` and by the times of the votes: a vote can come in between the
    /// reading of `end` and this call.
    pub fn judge(&self, end: Mono, until: Mono) -> Judgement {
        if let Some(complete) = self.complete_at() {
            return if end.max(complete) < until { Judgement::Granted } else { Judgement::TooSlow };
        }
        if self.taken() {
            return Judgement::HeldByOther(self.free_after());
        }
        if let Some(misfit) = self.misfit() {
            return misfit;
        }
        if self.count(|a| matches!(a, Answer::Stale | Answer::Unclear)) > 0 {
            return Judgement::Unclear;
        }
        if let Some(wait) = self.quarantine_wait() {
            return Judgement::Quarantined(wait);
        }
        if self.taken_or_absent() {
            return Judgement::Absent;
        }
        // Yes alone is no quorum here, so others hold some.
        if self.quorum.reached(self.yes() + self.count(|a| matches!(a, Answer::HeldByOther(_)))) {
            return Judgement::Split;
        }
        Judgement::NoQuorum
    }

    /// When the quorum was complete.
    pub fn complete_at(&self) -> Option<Mono> {
        let times = || self.answers.iter().flatten().filter(|(a, _)| matches!(a, Answer::Yes(_))).map(|(_, at)| *at);
        times().filter(|t| self.quorum.reached(times().filter(|other| other <= t).count())).min()
    }

    /// If keys of another kind or other deployments alone prevent a quorum: the first of them. A minority of such
    /// masters is no worse than a minority that is down.
    fn misfit(&self) -> Option<Judgement> {
        let misfit = |(i, a): (usize, &Option<(Answer, Mono)>)| match a {
            Some((Answer::Conflict(kind), _)) => Some(Judgement::Conflict(i, kind.clone())),
            Some((Answer::Mismatch(theirs), _)) => Some(Judgement::Mismatch(i, theirs.clone())),
            _ => None,
        };
        let mut misfits = self.answers.iter().enumerate().filter_map(misfit);
        self.quorum.out_of_reach(misfits.clone().count()).then(|| misfits.next())?
    }

    /// When a quorum will be free, by the ttls that masters reported; if too few did, when the first will be. Soon, if
    /// one vote was ours: three waiters with a vote each look like holders to one another.
    fn free_after(&self) -> Option<Duration> {
        let ttl = |(a, _): &(Answer, Mono)| match a {
            Answer::HeldByOther(ttl) => *ttl,
            Answer::Yes(_) => Some(Duration::ZERO),
            _ => None,
        };
        let mut ttls: Vec<Duration> = self.answers.iter().flatten().filter_map(ttl).collect();
        ttls.sort_unstable();
        let first = ttls.iter().find(|ttl| !ttl.is_zero());
        let after = ttls.get(self.quorum.votes() - 1).or(first).copied();
        if self.yes() > 0 {
            Some(after.map_or(MAY_BE_FREE_WITHIN, |after| after.min(MAY_BE_FREE_WITHIN)))
        } else {
            after
        }
    }

    /// If the masters in quarantine alone prevent a quorum, whatever the others say: when enough of them vote again.
    fn quarantine_wait(&self) -> Option<Duration> {
        let wait = |(a, _): &(Answer, Mono)| if let Answer::Quarantined(d) = a { Some(*d) } else { None };
        let mut waits: Vec<Duration> = self.answers.iter().flatten().filter_map(wait).collect();
        waits.sort_unstable();
        let others = self.quorum.masters() - waits.len();
        let needed = self.quorum.votes().checked_sub(others).filter(|k| *k > 0)?;
        waits.get(needed - 1).copied()
    }
}

/// Whether the master has no vote for us now, and is there: who holds the key, or that nobody does, may change.
fn may_change(answer: &Answer) -> bool {
    matches!(answer, Answer::HeldByOther(_) | Answer::Absent | Answer::Stale | Answer::Unclear)
}
