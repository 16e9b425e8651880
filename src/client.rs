//! The client: masters in, lock handles out.

use crate::detached::DetachedLease;
use crate::engine::error::{Error, Tally, Undelivered};
use crate::engine::root::Engine;
use crate::engine::settings::Terms;
use crate::engine::waiting::Pause;
use crate::guarantees::Guarantees;
use crate::guard::LockGuard;
use crate::lock::Lock;
use crate::protocol::Operation;
use crate::reentrant::ReentrantLock;
use crate::stats::Stats;
use crate::status::{Revoked, Status};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A client of N independent Redis masters. Cheap to clone; clones share connections and threads.
///
/// The threads end with [`close`](Client::close), or by themselves when the last handle and the last guard are dropped.
#[derive(Clone)]
pub struct Client {
    engine: Arc<Engine>,
    terms: Arc<Terms>,
    pause: Option<Pause>,
}

impl Client {
    pub(crate) fn new(engine: Arc<Engine>, terms: Arc<Terms>, pause: Option<Pause>) -> Client {
        Client { engine, terms, pause }
    }

    #[cfg(feature = "unversioned")]
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The lock `name`, 1 to 512 bytes without braces and control characters. This asks no master: [`Lock::acquire`]
    /// acquires. A wrong name is an error of the first call that acquires.
    pub fn lock(&self, name: &str) -> Lock {
        Lock::new(&self.engine, name, &self.terms, self.pause.as_ref())
    }

    /// The lock `name`, for a thread that may acquire it again while it holds it. This asks no master, as
    /// [`lock`](Client::lock).
    pub fn reentrant_lock(&self, name: &str) -> ReentrantLock {
        ReentrantLock::new(self.lock(name))
    }

    /// Settles a new deployment, so that its masters vote at once instead of after a quarantine. Run it once, when the
    /// masters are new.
    ///
    /// It rests on one assumption that no program can check: **no lease has been held on these masters for the last
    /// `max_lease`**. So it fails unless all masters answer, none has a generation, and all are empty. It marks each
    /// master when it asks, and settles it only if nothing has happened to it since.
    ///
    /// Several processes may run it at once: one settles the masters, and the others wait for that, or finish it if
    /// that one dies, for at most 15 s. If all masters are settled by the same settings already, it changes nothing and
    /// says so ([`InitReport::already`]).
    ///
    /// # Errors
    ///
    /// [`Error::NotBlank`] if a master has been used before, or is empty beside others that are settled (it may have
    /// forgotten a lease), [`Error::NoQuorum`] if not all of them answer.
    pub fn init(&self) -> Result<InitReport, Error> {
        let (tally, already) = self.engine.init()?;
        Ok(InitReport { tally, already, max_lease: self.engine.settings.max_lease })
    }

    /// Takes over a lock that another process of this machine gave up with
    /// [`LockGuard::detach`](crate::LockGuard::detach). The guard renews it from now on, with this client's ttl and
    /// settings.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if it was adopted or lost meanwhile, or too few masters answer; [`Error::TooSlow`] if the
    /// old lease has ended.
    #[must_use = "the lock is released as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn adopt(&self, lease: DetachedLease) -> Result<LockGuard, Error> {
        let keys = self.engine.settings.namespace.keys(&lease.name);
        let keys = Arc::new(keys.map_err(|e| Error::config("name", e.to_string()))?);
        let held = self.engine.adopt(&keys, &self.terms, lease.owner, lease.until)?;
        Ok(LockGuard::new(held))
    }

    /// What every master knows of the lock `name`; see [`Lock::status`].
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a wrong name. Masters that do not answer are part of the report.
    pub fn status(&self, name: &str) -> Result<Status, Error> {
        self.lock(name).status()
    }

    /// Takes the lock `name` away from its holder, which learns so at its next renewal or
    /// [`verify`](crate::LockGuard::verify). Nobody else gets the lock before that lease would have ended, so a holder
    /// that asks `check` is alone to the end. Raises the fencing counter.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if too few masters answer.
    pub fn force_release(&self, name: &str) -> Result<Revoked, Error> {
        self.revoke(name, false)
    }

    /// Deletes the lock `name` on all masters. **The next client gets it at once, while the former holder may still
    /// rely on its lease**: use it only for a holder that is known to be dead. One that lives after all learns so at
    /// its next renewal, and its key is not written again. Raises the fencing counter.
    ///
    /// # Errors
    ///
    /// [`Error::NoQuorum`] if too few masters answer.
    pub fn force_release_now(&self, name: &str) -> Result<Revoked, Error> {
        self.revoke(name, true)
    }

    fn revoke(&self, name: &str, now: bool) -> Result<Revoked, Error> {
        let lock = self.lock(name);
        let round = self.engine.ask_all(lock.keys()?.clone(), Operation::Revoke { now })?;
        Revoked::of(&self.engine, name, &round, now)
    }

    /// What this configuration protects against, and what not, in words.
    pub fn guarantees(&self) -> Guarantees {
        Guarantees::of(&self.engine.settings)
    }

    /// Ends the client. Locks that are still held are reported lost to their holders, and end on the masters with their
    /// ttl; every other call fails from here on; all threads end, and are waited for, for at most `limit`.
    pub fn close(&self, limit: Duration) -> CloseReport {
        if self.engine.masters.is_forked() {
            return CloseReport { unreleased: Vec::new(), threads_left: 0 };
        }
        let (unreleased, threads_left) = self.engine.close(limit);
        CloseReport { unreleased, threads_left }
    }

    /// The releases that could not be delivered so far; none in a forked child, whose parent has them.
    pub fn undelivered(&self) -> Undelivered {
        // In a forked child a mutex of the reaper may be locked for ever.
        if self.engine.masters.is_forked() { Undelivered::default() } else { self.engine.reaper.counts() }
    }

    /// How this client has fared so far: whether its timers kept up, and what it could not deliver. It is cheap, and
    /// takes no mutex that an acquire or a release waits for.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.engine, self.undelivered())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("masters", &self.engine.labels).finish_non_exhaustive()
    }
}

/// What [`Client::init`] did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InitReport {
    /// What every master answered.
    pub tally: Tally,
    /// The masters were settled by the same settings already, and nothing was changed.
    pub already: bool,
    /// For how long no lease may have been held on these masters before.
    pub max_lease: Duration,
}

impl fmt::Display for InitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masters = self.tally.masters.len();
        if self.already {
            return write!(f, "{masters} masters are settled already, by the same settings; nothing was changed");
        }
        write!(
            f,
            "{} masters settled; this assumes that no lease has been held on them for the last {:?}",
            masters, self.max_lease
        )
    }
}

/// What [`Client::close`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloseReport {
    /// The names of the locks that were still held.
    pub unreleased: Vec<String>,
    /// Threads that had not ended in time.
    pub threads_left: usize,
}
