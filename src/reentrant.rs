//! `ReentrantLock`: a lock that its thread may acquire again.

use crate::engine::error::{Error, ReleaseOutcome};
use crate::guard::LockGuard;
use crate::lock::Lock;
use crate::options::Options;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A lock that the thread which holds it may acquire again, as Redisson's `RLock`: nested functions that guard the same
/// name do not wait for each other.
///
/// # What it promises
///
/// As [`Lock`], with which it shares keys: a `Lock` and a `ReentrantLock` of one name exclude each other. Ownership is
/// per thread and client: guards are not `Send`, and another thread of this process waits like any other client.
///
/// # Fairness
///
/// As [`Lock`].
///
/// # Cost
///
/// The first acquire of a thread costs what [`Lock`] costs. Re-entry is a local count: no round trip.
///
/// # Errors
///
/// As [`Lock`]. Re-entry into a lease that was lost is [`Error::Lost`]: the outer guard must be dropped first.
#[derive(Clone)]
#[must_use = "a lock handle holds nothing: call `acquire`, and keep the guard that it returns"]
pub struct ReentrantLock {
    lock: Lock,
}

/// What a thread holds, by client and name.
type Holds = HashMap<(usize, Arc<str>), Rc<LockGuard>>;

thread_local! {
    static HOLDS: RefCell<Holds> = RefCell::new(HashMap::new());
}

impl ReentrantLock {
    pub(crate) fn new(lock: Lock) -> ReentrantLock {
        ReentrantLock { lock }
    }

    /// Replaces the options. They count when the thread first acquires; re-entry keeps what it holds.
    pub fn options(self, options: Options) -> ReentrantLock {
        ReentrantLock { lock: self.lock.options(options) }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        self.lock.name()
    }

    /// Waits until the lock is this thread's; at once if it is already.
    #[must_use = "the lock is left as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn acquire(&self) -> Result<ReentrantGuard, Error> {
        match self.enter()? {
            Some(guard) => Ok(guard),
            None => self.first(self.lock.acquire()?),
        }
    }

    /// Takes the lock if it is free or this thread's; `None` if another holds it.
    #[must_use = "the lock is left as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn try_acquire(&self) -> Result<Option<ReentrantGuard>, Error> {
        self.enter_or(|| self.lock.try_acquire())
    }

    /// Waits for at most `limit`; `None` if others held the lock all that time.
    #[must_use = "the lock is left as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn try_acquire_for(&self, limit: Duration) -> Result<Option<ReentrantGuard>, Error> {
        self.enter_or(|| self.lock.try_acquire_for(limit))
    }

    /// Waits until `deadline` at the latest; `None` if others held the lock all that time.
    #[must_use = "the lock is left as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn try_acquire_until(&self, deadline: Instant) -> Result<Option<ReentrantGuard>, Error> {
        self.enter_or(|| self.lock.try_acquire_until(deadline))
    }

    /// Waits until the lock is this thread's, `limit` is over, or `go_on` says no; see [`Lock::acquire_while`].
    /// Re-entry does not wait, and does not ask `go_on`.
    #[must_use = "the lock is left as soon as the guard is dropped, at once with `let _ =`: keep it in a variable"]
    pub fn acquire_while(
        &self,
        limit: Option<Duration>,
        go_on: impl FnMut() -> bool,
    ) -> Result<Option<ReentrantGuard>, Error> {
        self.enter_or(|| self.lock.acquire_while(limit, go_on))
    }

    /// Acquires the lock, runs `work`, and leaves it; see [`Lock::with`].
    pub fn with<T, E: From<Error>>(&self, work: impl FnOnce(&ReentrantGuard) -> Result<T, E>) -> Result<T, E> {
        let guard = self.acquire()?;
        let result = work(&guard)?;
        guard.check()?;
        Ok(result)
    }

    fn key(&self) -> Result<(usize, Arc<str>), Error> {
        Ok((Arc::as_ptr(self.lock.engine()) as usize, self.lock.keys()?.name.clone()))
    }

    /// Enters again, if this thread holds the lock.
    fn enter(&self) -> Result<Option<ReentrantGuard>, Error> {
        let key = self.key()?;
        let held = HOLDS.with_borrow(|holds| holds.get(&key).cloned());
        let Some(inner) = held else { return Ok(None) };
        inner.check()?;
        Ok(Some(ReentrantGuard { key, inner: Some(inner), not_send: PhantomData }))
    }

    fn enter_or(
        &self,
        acquire: impl FnOnce() -> Result<Option<LockGuard>, Error>,
    ) -> Result<Option<ReentrantGuard>, Error> {
        match self.enter()? {
            Some(guard) => Ok(Some(guard)),
            None => acquire()?.map(|guard| self.first(guard)).transpose(),
        }
    }

    fn first(&self, guard: LockGuard) -> Result<ReentrantGuard, Error> {
        let (key, inner) = (self.key()?, Rc::new(guard));
        HOLDS.with_borrow_mut(|holds| holds.insert(key.clone(), inner.clone()));
        Ok(ReentrantGuard { key, inner: Some(inner), not_send: PhantomData })
    }
}

impl fmt::Debug for ReentrantLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantLock").field("name", &self.name()).finish_non_exhaustive()
    }
}

/// One entry into a [`ReentrantLock`]; the lock is released when the thread's last one is dropped, in any order.
///
/// It has all methods of a [`LockGuard`] that take it by reference.
#[must_use = "the lock is left as soon as the guard is dropped"]
pub struct ReentrantGuard {
    key: (usize, Arc<str>),
    inner: Option<Rc<LockGuard>>,
    not_send: PhantomData<*const ()>,
}

impl ReentrantGuard {
    /// How many guards of this thread hold the lock, this one included.
    pub fn depth(&self) -> usize {
        // One more is the thread's own note.
        self.inner.as_ref().map_or(0, Rc::strong_count).saturating_sub(1)
    }

    /// Leaves the lock. If this is the thread's last guard of it, the lock is released as by [`LockGuard::release`],
    /// which waits for a quorum to confirm it; `None` if the thread still holds it by another guard.
    #[must_use = "a release can find that the lock was lost, or stay unconfirmed"]
    pub fn release(mut self) -> Option<ReleaseOutcome> {
        let inner = self.leave();
        // What is dropped here is a guard without a lease.
        Rc::into_inner(inner?).map(LockGuard::release)
    }

    /// Takes this entry out, and the thread's own note with the last one.
    fn leave(&mut self) -> Option<Rc<LockGuard>> {
        let last = self.depth() == 1;
        let inner = self.inner.take();
        if last {
            // At the end of a thread its notes may have been freed already.
            let noted = HOLDS.try_with(|holds| holds.try_borrow_mut().ok().and_then(|mut h| h.remove(&self.key)));
            drop(noted);
        }
        inner
    }
}

impl Deref for ReentrantGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        match &self.inner {
            Some(inner) => inner,
            None => unreachable!("a guard without a lease"),
        }
    }
}

impl Drop for ReentrantGuard {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl fmt::Debug for ReentrantGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantGuard")
            .field("name", &self.name())
            .field("depth", &self.depth())
            .finish_non_exhaustive()
    }
}
