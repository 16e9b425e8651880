//! What can go wrong, and what each master had to do with it.

use crate::protocol::generation::{INIT_MARK, difference};
use crate::protocol::init::Ground;
use crate::protocol::round::Judgement;
use crate::protocol::{Answer, Cause, LossReason, Mono, Round};
use std::fmt;
use std::time::Duration;

/// A duration as people read it: `61.2s`, `4.5ms`, `30s`. Shorter digits are noise in an error.
pub(crate) struct Rounded(pub(crate) Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{:.1?}", self.0).replacen(".0", "", 1))
    }
}

/// What one master contributed to a failed round. `Debug` is the sentence of `Display`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MasterReport {
    /// Host and port or the path of the socket, without credentials.
    pub master: String,
    /// How long it took to answer; `None` if it did not.
    pub elapsed: Option<Duration>,
    /// What it answered, or why nothing was heard.
    pub answer: MasterAnswer,
}

impl fmt::Display for MasterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.master, self.answer)?;
        match (self.elapsed, &self.answer) {
            // The time at which a failure was noticed says nothing.
            (Some(elapsed), given) if !matches!(given, MasterAnswer::Failed(_)) => write!(f, " ({})", Rounded(elapsed)),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for MasterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What a master answered, as a tally reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MasterAnswer {
    /// It voted for us, or did what it was asked.
    Yes,
    /// Another owner holds the key there.
    HeldByOther,
    /// The key is absent there.
    Absent,
    /// It lost its memory not long ago and casts no votes for this time.
    Quarantined(Duration),
    /// The key is of another type there.
    Conflict(String),
    /// It belongs to another deployment: `max_lease_ms:deployment:masters:quorum`.
    Mismatch(String),
    /// It is settled by the same or other settings, and votes.
    Settled,
    /// It is not new and empty.
    #[non_exhaustive]
    NotEmpty {
        /// Whether it has a generation, so that locks may have been held on it.
        has_generation: bool,
        /// The number of keys on it.
        keys: u64,
    },
    /// It is empty, beside others that are not: it is new, or has forgotten everything.
    Empty,
    /// Another init is under way there.
    Marked,
    /// It did not vote, for a reason that the next round finds out.
    NoVote,
    /// No answer that counts; why.
    Failed(String),
}

impl fmt::Display for MasterAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MasterAnswer::Yes => write!(f, "yes"),
            MasterAnswer::HeldByOther => write!(f, "held by another owner"),
            MasterAnswer::Absent => write!(f, "does not have the lock's key"),
            MasterAnswer::Quarantined(d) => write!(f, "in quarantine for {} more", Rounded(*d)),
            MasterAnswer::Conflict(kind) => write!(f, "the key is a {kind}, not a lock"),
            MasterAnswer::Mismatch(theirs) => {
                write!(f, "belongs to another deployment (max_lease_ms:deployment:masters:quorum is {theirs} there)")
            }
            MasterAnswer::NotEmpty { has_generation: true, .. } => {
                write!(f, "has a generation already, so locks may have been held on it")
            }
            MasterAnswer::NotEmpty { keys: 1, .. } => write!(f, "is not empty: 1 key"),
            MasterAnswer::NotEmpty { keys, .. } => write!(f, "is not empty: {keys} keys"),
            MasterAnswer::Settled => write!(f, "is settled already"),
            MasterAnswer::Empty => write!(f, "is empty, and may have forgotten a lease"),
            MasterAnswer::Marked => write!(f, "is being settled by another init"),
            MasterAnswer::NoVote => write!(f, "no vote: the key or the master's memory changed meanwhile"),
            MasterAnswer::Failed(why) => write!(f, "{why}"),
        }
    }
}

impl MasterAnswer {
    pub(crate) fn of(answer: &Answer) -> MasterAnswer {
        match answer {
            Answer::Yes(_) | Answer::View(_) => MasterAnswer::Yes,
            Answer::HeldByOther(_) => MasterAnswer::HeldByOther,
            Answer::Absent => MasterAnswer::Absent,
            Answer::Unclear | Answer::Stale | Answer::Many(_) => MasterAnswer::NoVote,
            Answer::Quarantined(d) => MasterAnswer::Quarantined(*d),
            Answer::Conflict(kind) => MasterAnswer::Conflict(kind.clone()),
            Answer::Mismatch(theirs) => MasterAnswer::Mismatch(theirs.clone()),
            Answer::Ground(Ground { text, others, votes }) => match text.as_deref() {
                _ if *votes => MasterAnswer::Settled,
                None if *others == 0 => MasterAnswer::Empty,
                Some(mark) if mark.starts_with(INIT_MARK) && *others == 0 => MasterAnswer::Marked,
                found => MasterAnswer::NotEmpty {
                    has_generation: found.is_some_and(|g| !g.starts_with(INIT_MARK)),
                    keys: *others,
                },
            },
            Answer::Failed(cause) => MasterAnswer::Failed(cause.to_string()),
        }
    }
}

/// What every master answered to one round. `Debug` is the sentence of `Display`.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of votes that decide.
    pub quorum: usize,
    /// How long the round took.
    pub elapsed: Duration,
    /// How long the call had been trying when it gave up, this round included.
    pub tried_for: Duration,
    /// One report per master, in the order in which the client names them.
    pub masters: Vec<MasterReport>,
}

impl Tally {
    pub(crate) fn new(round: &Round, quorum: usize, labels: &[String], start: Mono, end: Mono) -> Tally {
        let silent = |i| match (round.awaits(i), round.is_decided()) {
            (true, true) => MasterAnswer::Failed("had not answered yet when the round was decided without it".into()),
            (true, false) => MasterAnswer::Failed(Cause::TimedOut.to_string()),
            (false, _) => MasterAnswer::Failed(Cause::Hung.to_string()),
        };
        let masters = labels.iter().zip(round.answers()).enumerate().map(|(i, (label, answer))| MasterReport {
            master: label.clone(),
            elapsed: answer.as_ref().map(|(_, at)| at.since(start)),
            answer: answer.as_ref().map_or_else(|| silent(i), |(a, _)| MasterAnswer::of(a)),
        });
        let elapsed = end.since(start);
        Tally { quorum, elapsed, tried_for: elapsed, masters: masters.collect() }
    }

    /// How many masters answered yes.
    pub fn yes(&self) -> usize {
        self.masters.iter().filter(|m| m.answer == MasterAnswer::Yes).count()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tried_for > self.elapsed {
            write!(f, "after {} of trying; the last round: ", Rounded(self.tried_for))?;
        }
        write!(f, "{} of {} needed votes in {}", self.yes(), self.quorum, Rounded(self.elapsed))?;
        for (i, master) in self.masters.iter().enumerate() {
            write!(f, "{} {master}", if i == 0 { ":" } else { ";" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A lock that ended before it was released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The lock's name.
    pub name: String,
    /// Why.
    pub reason: LossReason,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?} is lost: {}; stop the work that it guards", self.name, self.reason)
    }
}

/// What an explicit release came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a release can find that the lock was lost, or stay unconfirmed"]
#[non_exhaustive]
pub enum ReleaseOutcome {
    /// A quorum of masters confirmed it: the lock was held to the end, and is free.
    Released,
    /// The lock had been lost before.
    AlreadyLost(Lost),
    /// Too few masters confirmed it in time. It is tried again; at the latest the key ends with its ttl.
    Unconfirmed(Unconfirmed),
}

/// A release that too few masters confirmed in time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unconfirmed {
    /// The lock's name.
    pub name: String,
    /// The masters of which it is not known whether they have it. It is on its way to them, and is tried again.
    pub masters: Vec<MasterReport>,
}

impl fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "lock {:?}: too few masters confirmed the release, which is tried again (", self.name)?;
        for (i, master) in self.masters.iter().enumerate() {
            write!(f, "{}{master}", if i == 0 { "" } else { "; " })?;
        }
        write!(f, "); at the latest the lock ends with its ttl")
    }
}

/// Releases that a client could not deliver so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Undelivered {
    /// Those that are tried again, counted once per master that does not have them.
    pub pending: usize,
    /// Those that were given up since the client was built: their keys ended with their ttl, or too many were waiting.
    pub left_to_ttl: u64,
}

/// A setting that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The setting.
    pub field: &'static str,
    /// What is wrong with it, and the limit.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// Everything that can go wrong. Contention is not in here, but for [`Error::TriesUsedUp`], which the caller asked for.
///
/// `Debug` is the sentence of `Display` and the name of the variant, in one line: `main` prints it for the error that
/// it returns.
#[non_exhaustive]
pub enum Error {
    /// Too few masters answered to decide: an outage. The tally says which and why. Nothing is held.
    NoQuorum(Tally),
    /// A quorum said yes, but so late that the lease was over. Raise the ttl or look at the network. Nothing is held.
    #[non_exhaustive]
    TooSlow {
        /// The ttl that was asked for.
        ttl: Duration,
        /// What every master answered, and when.
        tally: Tally,
    },
    /// The lock was held and is lost. Stop the work that it guards.
    Lost(Lost),
    /// The lock is held, but for less time than was asked for. Wait for a renewal, or extend it.
    #[non_exhaustive]
    EndsSoon {
        /// The lock's name.
        name: String,
        /// What is left.
        left: Duration,
        /// What was asked for.
        wanted: Duration,
    },
    /// Too many masters lost their memory not long ago and cast no votes, because a lease that they forgot may still be
    /// relied on. Wait, or settle a *new* deployment with [`init`](crate::Client::init).
    #[non_exhaustive]
    Quarantined {
        /// When enough masters vote again.
        ready_in: Duration,
        /// What every master answered.
        tally: Tally,
    },
    /// The key of this lock is another kind of thing.
    #[non_exhaustive]
    Conflict {
        /// The lock's name.
        name: String,
        /// The master that says so.
        master: String,
        /// The type of the key there.
        kind: String,
    },
    /// Every attempt found the lock held, and the number of tries is used up.
    #[non_exhaustive]
    TriesUsedUp {
        /// The number of attempts.
        tries: u32,
        /// The last one.
        tally: Tally,
    },
    /// A master belongs to a deployment with other settings than this client's, which must be the same for all clients:
    /// the `max_lease`, the deployment's name, the number of masters and the quorum. Nothing is held.
    #[non_exhaustive]
    DeploymentMismatch {
        /// The first master that says so.
        master: String,
        /// This client's settings: `max_lease_ms:deployment:masters:quorum`.
        ours: String,
        /// Those of the master's deployment. If they are the same, an older version wrote them in another format.
        theirs: String,
    },
    /// The masters refused to be settled as a new deployment.
    NotBlank(Tally),
    /// A setting is wrong; found before anything is sent.
    Config(ConfigError),
    /// The client was closed.
    Closed,
    /// This process is a fork of the one that built the client. Build a client of its own here.
    Forked,
    /// The operating system refused something that is needed: random bits, a thread, a descriptor.
    System(std::io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoQuorum(tally) => write!(f, "no quorum of masters: {tally}"),
            Error::TooSlow { ttl, tally } => {
                write!(
                    f,
                    "the masters answered too late for a ttl of {ttl:?} (raise the ttl, or look at the network and at \
                     the load of the masters): {tally}"
                )
            }
            Error::Lost(lost) => write!(f, "{lost}"),
            Error::EndsSoon { name, left, wanted } => {
                write!(
                    f,
                    "lock {name:?} is held for {} more only, and {wanted:?} are wanted: extend it, or \
                     wait for its next renewal (nothing lengthens it beyond max_hold, if that is set)",
                    Rounded(*left)
                )
            }
            Error::Quarantined { ready_in, tally } => write!(
                f,
                "too many masters are in quarantine, because they are new or lost their memory; they vote again in {}: \
                 wait (init settles new masters at once, but only before their first lock): {tally}",
                Rounded(*ready_in)
            ),
            Error::Conflict { name, master, kind } => {
                write!(f, "lock {name:?}: on {master} the key is a {kind}, not a lock; use another name or namespace")
            }
            Error::DeploymentMismatch { master, ours, theirs } => write!(f, "{master}: {}", difference(theirs, ours)),
            Error::TriesUsedUp { tries, tally } => write!(f, "others held the lock in all of {tries} tries: {tally}"),
            Error::NotBlank(tally) => write!(
                f,
                "init settles new and empty masters only, because a lease that they forgot could still be relied on: \
                 {tally}"
            ),
            Error::Config(e) => write!(f, "configuration: {e}"),
            Error::Closed => write!(f, "the client is closed; build a new one"),
            Error::Forked => {
                write!(f, "this process is a fork of the one that built the client; build a new client here")
            }
            Error::System(e) => {
                write!(f, "the operating system refused a thread, a descriptor or random bits that are needed: {e}")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            Error::NoQuorum(_) => "NoQuorum",
            Error::TooSlow { .. } => "TooSlow",
            Error::Lost(_) => "Lost",
            Error::EndsSoon { .. } => "EndsSoon",
            Error::Quarantined { .. } => "Quarantined",
            Error::Conflict { .. } => "Conflict",
            Error::TriesUsedUp { .. } => "TriesUsedUp",
            Error::DeploymentMismatch { .. } => "DeploymentMismatch",
            Error::NotBlank(_) => "NotBlank",
            Error::Config(_) => "Config",
            Error::Closed => "Closed",
            Error::Forked => "Forked",
            Error::System(_) => "System",
        };
        write!(f, "{self} [{variant}]")
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::System(e) => Some(e),
            _ => None,
        }
    }
}

impl Error {
    /// Whether the same call may succeed later without any change: an outage, a quarantine, a slow network.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::NoQuorum(_) | Error::TooSlow { .. } | Error::Quarantined { .. } | Error::TriesUsedUp { .. }
        )
    }

    /// What the masters answered, where masters were asked.
    pub fn tally(&self) -> Option<&Tally> {
        match self {
            Error::NoQuorum(tally)
            | Error::TooSlow { tally, .. }
            | Error::Quarantined { tally, .. }
            | Error::TriesUsedUp { tally, .. }
            | Error::NotBlank(tally) => Some(tally),
            _ => None,
        }
    }

    pub(crate) fn config(field: &'static str, problem: impl Into<String>) -> Error {
        Error::Config(ConfigError { field, problem: problem.into() })
    }

    /// The error for a round that was judged so.
    pub(crate) fn of_judgement(judgement: Judgement, name: &str, ttl: Duration, ours: &str, tally: Tally) -> Error {
        match judgement {
            Judgement::TooSlow => Error::TooSlow { ttl, tally },
            Judgement::Quarantined(ready_in) => Error::Quarantined { ready_in, tally },
            Judgement::Conflict(i, kind) => {
                Error::Conflict { name: name.into(), master: tally.masters[i].master.clone(), kind }
            }
            Judgement::Mismatch(i, theirs) => {
                Error::DeploymentMismatch { master: tally.masters[i].master.clone(), ours: ours.into(), theirs }
            }
            _ => Error::NoQuorum(tally),
        }
    }
}
