//! What the public types promise to the compiler: which may be cloned, sent and shared, and which must not.

use redleash::{
    Client, ClientBuilder, CloseReport, ConfigError, DetachedLease, Error, Guarantees, InitReport, Lease, LeaseState,
    Lock, LockGuard, LossReason, Lost, MasterAnswer, MasterReport, MasterStatus, Options, ReentrantGuard,
    ReentrantLock, ReleaseOutcome, Retry, Revoked, Status, Tally,
};
use std::fmt::{Debug, Display};

const fn handle<T: Clone + Send + Sync + Debug + 'static>() {}
const fn sendable<T: Send + Debug + 'static>() {}
const fn value<T: Clone + Send + Sync + Debug + 'static>() {}
const fn shown<T: Display>() {}

const _: () = {
    // Cheap handles, passed around freely.
    handle::<Client>();
    handle::<Lock>();
    handle::<ReentrantLock>();
    // A guard may go to another thread and be dropped there; a handed-over lock as well.
    sendable::<LockGuard>();
    sendable::<DetachedLease>();
    // Settings and reports are values.
    value::<ClientBuilder>();
    value::<Options>();
    value::<Lease>();
    value::<Retry>();
    value::<Status>();
    value::<MasterStatus>();
    value::<Tally>();
    value::<MasterReport>();
    value::<MasterAnswer>();
    value::<Lost>();
    value::<LossReason>();
    value::<LeaseState>();
    value::<ReleaseOutcome>();
    value::<Revoked>();
    value::<Guarantees>();
    value::<InitReport>();
    value::<CloseReport>();
    value::<ConfigError>();
    sendable::<Error>();
    shown::<Error>();
    shown::<Lost>();
    shown::<LossReason>();
    shown::<Tally>();
    shown::<MasterAnswer>();
    shown::<Status>();
    shown::<MasterStatus>();
    shown::<Guarantees>();
    shown::<InitReport>();
    shown::<ConfigError>();
};

/// `$type: !$bound`, at compile time: where the bound holds, two implementations fit and the compiler cannot choose.
macro_rules! is_not {
    ($type:ty: $bound:path) => {
        const _: fn() = || {
            trait Either<A> {
                fn choose() {}
            }
            struct Both;
            impl<T: ?Sized> Either<()> for T {}
            impl<T: ?Sized + $bound> Either<Both> for T {}
            let _ = <$type as Either<_>>::choose;
        };
    };
}

// Ownership of a reentrant lock is the thread: its guard must not leave it.
is_not!(ReentrantGuard: Send);
is_not!(ReentrantGuard: Sync);
// One lease, one guard.
is_not!(LockGuard: Clone);
is_not!(ReentrantGuard: Clone);
is_not!(DetachedLease: Clone);

fn boxed(error: Error) -> Box<dyn std::error::Error + Send + Sync> {
    Box::new(error)
}

#[test]
fn errors_go_where_errors_go() {
    let error = Client::builder().build().err().map(boxed);
    let text = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(text.contains("nodes"), "{text}");
    assert!(std::error::Error::source(&Error::Closed).is_none());
}

#[test]
fn a_guard_is_small() {
    // It is moved about; what it stands for is behind a pointer.
    assert!(size_of::<LockGuard>() <= 2 * size_of::<usize>(), "{}", size_of::<LockGuard>());
    assert!(size_of::<Option<LockGuard>>() <= 2 * size_of::<usize>());
}
