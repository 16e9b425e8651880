//! Who holds a lock, as every master sees it.

use crate::engine::error::{Error, MasterAnswer, Rounded};
use crate::engine::root::Engine;
use crate::engine::rounds::RoundResult;
use crate::engine::settings::Settings;
use crate::holder::Holder;
use crate::protocol::generation::Generation;
use crate::protocol::{Answer, Cause, MasterView};
use std::fmt;
use std::time::Duration;

/// What every master knows of a lock, at about the same moment.
///
/// With the feature `serde` it is serialized to the object that `redleash status --json` prints.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// The lock's name.
    pub name: String,
    /// The number of masters that must agree for a lock to be held.
    pub quorum: usize,
    /// One entry per master, in the order in which the client names them.
    pub masters: Vec<MasterStatus>,
    /// Masters vote with a generation only.
    quarantine: bool,
}

/// What one master knows of a lock.
///
/// If the master did not answer, `failure` says why, and all that follows it is `None`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MasterStatus {
    /// Host and port or the path of the socket, without credentials.
    pub master: String,
    /// Why the master did not answer; `None` if it did.
    pub failure: Option<String>,
    /// Who holds the lock on this master.
    pub holder: Option<Holder>,
    /// The remaining life of the key on this master, by its clock; `None` if the key is absent.
    pub ttl: Option<Duration>,
    /// The fencing counter; `None` if no token was drawn yet.
    pub fence: Option<u64>,
    /// The identity in the master's generation, if it has one: 24 digits of its run id and 24 of its replication id.
    pub generation: Option<String>,
    /// How much longer the master is in quarantine; `None` if it is not.
    pub quarantined_for: Option<Duration>,
    /// How long the master took to answer this question, from the moment it was queued here.
    pub round_trip: Option<Duration>,
}

impl Status {
    pub(crate) fn of(name: &str, settings: &Settings, labels: &[String], finished: &RoundResult) -> Status {
        let round = finished.request.round.lock();
        let masters = labels.iter().zip(round.answers()).map(|(label, answer)| match answer {
            Some((Answer::View(view), at)) => {
                MasterStatus { round_trip: Some(at.since(finished.start)), ..MasterStatus::of(label, view) }
            }
            Some((other, _)) => MasterStatus::silent(label, MasterAnswer::of(other).to_string()),
            None => MasterStatus::silent(label, Cause::TimedOut.to_string()),
        });
        let (quorum, quarantine) = (settings.quorum.votes(), settings.quarantine);
        Status { name: name.to_string(), quorum, masters: masters.collect(), quarantine }
    }

    fn is_quorum(&self, says: impl Fn(&MasterStatus) -> bool) -> bool {
        self.masters.iter().filter(|m| m.failure.is_none() && says(m)).count() >= self.quorum
    }

    /// Who holds the lock, as a quorum of masters agrees. It is [`Holder::Nobody`] if the lock is
    /// [free](Status::is_free).
    ///
    /// `None` if no quorum agrees: too few masters answer, too few may vote (see [`is_free`](Status::is_free)), or, for
    /// a moment, two clients that acquire the lock at the same time share the votes.
    pub fn holder(&self) -> Option<&Holder> {
        let mut named = self.masters.iter().filter_map(|m| m.holder.as_ref()).filter(|h| **h != Holder::Nobody);
        let agreed = named.find(|holder| self.is_quorum(|m| m.holder.as_ref() == Some(*holder)));
        agreed.or_else(|| self.is_free().then_some(&Holder::Nobody))
    }

    /// Whether a quorum of masters has the same value: an owner's, or a foreign one, which keeps all others out as
    /// well.
    pub fn is_held(&self) -> bool {
        matches!(self.holder(), Some(Holder::Owner { .. } | Holder::Foreign { .. }))
    }

    /// Whether nobody holds the lock, as a quorum of masters says that may vote: a master that lost its memory not long
    /// ago has no key, and cannot tell whether somebody still relies on the lock.
    pub fn is_free(&self) -> bool {
        self.is_quorum(|m| m.holder == Some(Holder::Nobody) && (m.votes() || !self.quarantine))
    }

    /// Whether the lock was taken from its holder by force, whose lease has not ended yet.
    pub fn is_revoked(&self) -> bool {
        self.holder() == Some(&Holder::Revoked)
    }
}

impl MasterStatus {
    /// Whether it remembers for long enough to vote.
    fn votes(&self) -> bool {
        self.generation.is_some() && self.quarantined_for.is_none()
    }

    fn silent(label: &str, failure: String) -> MasterStatus {
        MasterStatus {
            master: label.to_string(),
            failure: Some(failure),
            holder: None,
            ttl: None,
            fence: None,
            generation: None,
            quarantined_for: None,
            round_trip: None,
        }
    }

    fn of(label: &str, view: &MasterView) -> MasterStatus {
        let wait = |g: &Generation| g.ready_at_us.checked_sub(view.time_us).filter(|us| *us > 0);
        MasterStatus {
            master: label.to_string(),
            failure: None,
            holder: Some(Holder::of(view)),
            ttl: view.ttl,
            fence: view.fence,
            generation: view.generation.as_ref().map(|g| g.identity.clone()),
            quarantined_for: view.generation.as_ref().and_then(wait).map(Duration::from_micros),
            round_trip: None,
        }
    }
}

/// One line for the lock and one per master. Labels are shown with their control characters escaped.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answered = self.masters.iter().filter(|m| m.failure.is_none()).count();
        match self.holder() {
            Some(Holder::Nobody) => writeln!(f, "{:?} is free", self.name)?,
            Some(Holder::Revoked) => {
                writeln!(f, "{:?} was revoked and is free when the former lease has ended", self.name)?;
            }
            Some(holder) => writeln!(f, "{:?} is held by {holder}", self.name)?,
            None if answered < self.quorum => {
                writeln!(f, "{:?}: unknown, {answered} of {} masters answered", self.name, self.masters.len())?;
            }
            None if self.quarantine && !self.is_quorum(MasterStatus::votes) => {
                writeln!(f, "{:?}: unknown, too few masters remember who held it", self.name)?;
            }
            None => writeln!(f, "{:?} is held by nobody with a quorum", self.name)?,
        }
        for (i, m) in self.masters.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "  {}: {m}", m.master)?;
        }
        Ok(())
    }
}

impl fmt::Display for MasterStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(failure) = &self.failure {
            return write!(f, "{failure}");
        }
        match &self.holder {
            None | Some(Holder::Nobody) => write!(f, "free")?,
            Some(holder) => write!(f, "{holder}")?,
        }
        if let Some(fingerprint) = self.holder.as_ref().and_then(Holder::fingerprint) {
            write!(f, " #{fingerprint}")?;
        }
        if let Some(ttl) = self.ttl {
            write!(f, ", ttl {}", Rounded(ttl))?;
        }
        if let Some(fence) = self.fence {
            write!(f, ", fence {fence}")?;
        }
        match (&self.quarantined_for, &self.generation) {
            (Some(d), _) => write!(f, ", in quarantine for {} more", Rounded(*d)),
            (None, Some(identity)) => write!(f, ", generation {}", identity.get(..8).unwrap_or(identity)),
            (None, None) => write!(f, ", no generation"),
        }
    }
}

/// What a forced release came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Revoked {
    /// How many masters had a holder to take the lock from.
    pub masters: usize,
    /// When the lock is free at the latest: the longest remaining ttl, or zero if the key was deleted. `None` if it was
    /// free on every master.
    pub free_in: Option<Duration>,
}

impl Revoked {
    pub(crate) fn of(engine: &Engine, name: &str, finished: &RoundResult, now: bool) -> Result<Revoked, Error> {
        let round = finished.request.round.lock();
        let said = || round.answers().iter().flatten().map(|(a, _)| a);
        for (label, answer) in engine.labels.iter().zip(round.answers()) {
            if let Some((Answer::Conflict(kind), _)) = answer {
                return Err(Error::Conflict { name: name.into(), master: label.clone(), kind: kind.clone() });
            }
        }
        let answered = said().filter(|a| matches!(a, Answer::Yes(_) | Answer::Absent)).count();
        if answered < engine.settings.quorum.votes() {
            return Err(Error::NoQuorum(engine.masters.tally_of(finished, &round)));
        }
        let ttl =
            |a: &Answer| if let Answer::Yes(ms) = a { Some(Duration::from_millis(ms.unwrap_or(0))) } else { None };
        Ok(Revoked {
            masters: said().filter_map(ttl).count(),
            free_in: said().filter_map(ttl).max().map(|d| if now { Duration::ZERO } else { d }),
        })
    }
}
