//! `Lock`: plain Redlock, one holder at a time.

use crate::engine::acquire::acquire;
use crate::engine::error::Error;
use crate::engine::hold::Hold;
use crate::engine::root::Engine;
use crate::engine::settings::Terms;
use crate::engine::waiting::{Patience, Pause};
use crate::guard::LockGuard;
use crate::options::Options;
use crate::protocol::{Keys, NameError, Operation, Wait};
use crate::status::Status;
use crate::sys::clock;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lock by name: one holder at a time among all clients of the same masters.
///
/// It is cheap to make and to clone, and may be shared by threads. Ownership is the guard, not the thread: a thread
/// that acquires the same `Lock` twice waits for itself. Use [`ReentrantLock`](crate::ReentrantLock) for that.
///
/// The guard is dropped, and the lock released, at the end of the block of the variable that holds it: write
/// `let _guard = lock.acquire()?;`. With `let _ = lock.acquire()?;` that is at once.
///
/// # What it promises
///
/// While [`LockGuard::check`] says yes, no other guard of this name says yes, under the assumptions of
/// [`Client::guarantees`](crate::Client::guarantees). It is a lease: a holder that is paused beyond its deadline learns
/// so from `check`, but only a [fencing token](LockGuard::fencing_token) stops what it does without asking.
///
/// # Fairness
///
/// Among the threads of one client the lock is fair: they get it in the order in which they asked. One of them contends
/// at the masters, the others wait in the local queue, and the lease passes from thread to thread within
/// [`Options::hand_over`].
///
/// Between clients it is *eventually fair*, as parking_lot's mutexes are. A client may take the lock again within a
/// quantum of about 7 ms, which is what makes an unfair lock fast; when the quantum is over, its next release notifies
/// the client that has waited longest, and it yields for about a millisecond. So no waiter is passed over for long, and
/// the order is nearly that in which the clients came. It is not promised: notifications are hints that may be lost,
/// and a client that asks for the first time may find the lock free.
///
/// Calls with [`Options::tries`] wait in no queue and are not notified: they try at their own pauses.
///
/// # Cost
///
/// A free lock costs one round trip to the quorum-th fastest master to acquire and one to release; dropping the guard
/// waits for none. A held lock costs one round trip per third of its ttl.
///
/// # Errors
///
/// Contention is not an error. An outage is one when the time that the caller gave, or
/// [`outage_patience`](crate::ClientBuilder::outage_patience), is over: [`Error::NoQuorum`], [`Error::Quarantined`] or
/// [`Error::TooSlow`]. A wrong name or option is [`Error::Config`], before anything is sent.
///
/// ```no_run
/// # fn main() -> Result<(), redleash::Error> {
/// let client = redleash::Client::from_env()?;
/// let guard = client.lock("orders/42").acquire()?;
/// // ... the work that only one may do; ask guard.check()? before what cannot be undone ...
/// drop(guard);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a lock handle holds nothing: call `acquire`, and keep the guard that it returns"]
pub struct Lock {
    engine: Arc<Engine>,
    name: Result<Arc<Keys>, (NameError, String)>,
    options: Options,
    /// Checked once, when the options are set.
    terms: Option<Arc<Terms>>,
    /// The client's own pauses, and those of these options.
    default_pause: Option<Pause>,
    pause: Option<Pause>,
}

impl Lock {
    pub(crate) fn new(engine: &Arc<Engine>, name: &str, default: &Arc<Terms>, pause: Option<&Pause>) -> Lock {
        let keys = engine.settings.namespace.keys(name).map(Arc::new).map_err(|e| (e, shortened(name)));
        Lock {
            engine: engine.clone(),
            name: keys,
            options: Options::new(),
            terms: Some(default.clone()),
            default_pause: pause.cloned(),
            pause: pause.cloned(),
        }
    }

    /// Replaces all options. They are checked by the call that acquires.
    pub fn options(mut self, options: Options) -> Lock {
        self.terms = options.terms(&self.engine.settings).ok().map(Arc::new);
        self.pause = options.pause(self.default_pause.as_ref());
        self.options = options;
        self
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        match &self.name {
            Ok(keys) => &keys.name,
            Err((_, shown)) => shown,
        }
    }

    /// Waits until the lock is ours: as long as others hold it, and for at most the client's
    /// [`outage_patience`](crate::ClientBuilder::outage_patience) during an outage.
    ///
    /// # Errors
    ///
    /// See [above](Lock#errors); also [`Error::TriesUsedUp`] with [`Options::tries`].
    #[must_use = "the lock is released as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn acquire(&self) -> Result<LockGuard, Error> {
        let wait = Wait::Forever { outage_patience: self.engine.settings.outage_patience };
        match self.held(&mut Patience::new(wait, self.pause.as_ref()))? {
            Some(held) => Ok(LockGuard::new(held)),
            // Without a limit nothing but an error ends the wait.
            None => Err(Error::Closed),
        }
    }

    /// Takes the lock if it is free; `None` if another holds it. While a thread of this client holds it, no master is
    /// asked.
    ///
    /// If several ask at once, each may get a few votes and none enough. On such a split vote it asks up to three times
    /// more, with random pauses of at most 20 ms each, so that one of them gets the lock. It does the same for a lock
    /// that a bare quorum holds, which looks alike.
    ///
    /// # Errors
    ///
    /// See [above](Lock#errors).
    #[must_use = "the lock is released as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn try_acquire(&self) -> Result<Option<LockGuard>, Error> {
        Ok(self.held(&mut Patience::new(Wait::Once, self.pause.as_ref()))?.map(LockGuard::new))
    }

    /// Waits for at most `limit`; `None` if others held the lock all that time. Zero is
    /// [`try_acquire`](Lock::try_acquire).
    #[must_use = "the lock is released as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<LockGuard>, Error> {
        let wait = if limit.is_zero() { Wait::Once } else { Wait::Until(clock::now().plus(limit)) };
        self.finish_timed(self.held(&mut Patience::new(wait, self.pause.as_ref())))
    }

    /// Waits until `deadline` at the latest; `None` if others held the lock all that time. A past deadline is
    /// [`try_acquire`](Lock::try_acquire).
    #[must_use = "the lock is released as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn try_acquire_until(&self, deadline: Instant) -> Result<Option<LockGuard>, Error> {
        self.try_acquire_for(clock::until(deadline))
    }

    /// Waits until the lock is ours; `None` if `limit` is over or `go_on` says no before. Without a limit it waits as
    /// [`acquire`](Lock::acquire) does.
    ///
    /// `go_on` is called on the calling thread about twenty times a second while the call waits: for callers that look
    /// for a signal or a shutdown meanwhile, or show progress.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), redleash::Error> {
    /// # let client = redleash::Client::builder().node("redis://127.0.0.1").build()?;
    /// # let (_stop, stopped) = redleash::crossbeam_channel::bounded::<()>(0);
    /// let guard = client.lock("orders/42").acquire_while(None, || stopped.is_empty())?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the lock is released as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn acquire_while(
        &self,
        limit: Option<Duration>,
        mut go_on: impl FnMut() -> bool,
    ) -> Result<Option<LockGuard>, Error> {
        let wait = match limit {
            Some(limit) if limit.is_zero() => Wait::Once,
            Some(limit) => Wait::Until(clock::now().plus(limit)),
            None => Wait::Forever { outage_patience: self.engine.settings.outage_patience },
        };
        self.finish_timed(self.held(&mut Patience::asking(wait, self.pause.as_ref(), &mut go_on)))
    }

    /// Acquires the lock, runs `work`, and releases it, also if `work` panics.
    ///
    /// # Errors
    ///
    /// What `work` returns, if it is an error; else [`Error::Lost`] if the lease ended inside, in which case somebody
    /// else may have been at work at the same time.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), redleash::Error> {
    /// # let client = redleash::Client::builder().node("redis://127.0.0.1").build()?;
    /// let total = client.lock("counter").with(|guard| {
    ///     guard.check()?;
    ///     Ok::<_, redleash::Error>(41 + 1)
    /// })?;
    /// # let _ = total; Ok(())
    /// # }
    /// ```
    pub fn with<T, E: From<Error>>(&self, work: impl FnOnce(&LockGuard) -> Result<T, E>) -> Result<T, E> {
        let guard = self.acquire()?;
        let result = work(&guard)?;
        let lost = guard.check();
        drop(guard);
        lost?;
        Ok(result)
    }

    /// What every master knows of this lock: one question to all of them, which writes nothing. Waits for each that is
    /// not known to be down, at most the [master timeout](crate::ClientBuilder::master_timeout).
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a wrong name. Masters that do not answer are part of the report.
    pub fn status(&self) -> Result<Status, Error> {
        let finished = self.engine.ask_all(self.keys()?.clone(), Operation::Status)?;
        Ok(Status::of(self.name(), &self.engine.settings, &self.engine.labels, &finished))
    }

    fn finish_timed(&self, result: Result<Option<Arc<Hold>>, Error>) -> Result<Option<LockGuard>, Error> {
        match result {
            Err(Error::TriesUsedUp { .. }) => Ok(None),
            other => Ok(other?.map(LockGuard::new)),
        }
    }

    pub(crate) fn keys(&self) -> Result<&Arc<Keys>, Error> {
        self.name.as_ref().map_err(|(e, shown)| Error::config("name", format!("{shown:?}: {e}")))
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    fn held(&self, patience: &mut Patience<'_>) -> Result<Option<Arc<Hold>>, Error> {
        let keys = self.keys()?;
        match &self.terms {
            Some(terms) => acquire(&self.engine, keys, terms, patience),
            None => acquire(&self.engine, keys, &Arc::new(self.options.terms(&self.engine.settings)?), patience),
        }
    }
}

/// The beginning of a name that is too long or otherwise wrong.
fn shortened(name: &str) -> String {
    let mut shown: String = name.chars().take(64).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    shown
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name()).field("options", &self.options).finish()
    }
}
