//! with(): the lock around a closure.

use crate::support::{client, eventually, masters, ms, no_keys_left, secs, settled};
use redleash::{Error, Lease, LossReason, Options};

#[derive(Debug)]
enum Mine {
    Lock(Error),
    Work(&'static str),
}

impl From<Error> for Mine {
    fn from(error: Error) -> Mine {
        Mine::Lock(error)
    }
}

#[test]
fn the_result_comes_out_and_the_lock_is_released() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let lock = a.lock("x");
    let answer = lock.with(|guard| {
        guard.check()?;
        assert!(b.lock("x").try_acquire().unwrap().is_none());
        Ok::<_, Error>(42)
    });
    assert_eq!(answer.unwrap(), 42);
    no_keys_left(&masters);
    drop(b.lock("x").try_acquire().unwrap().expect("free"));
}

#[test]
fn an_error_of_the_work_comes_out_and_the_lock_is_released() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let result = client.lock("x").with(|_| Err::<(), _>(Mine::Work("no paper")));
    assert!(matches!(result, Err(Mine::Work("no paper"))), "{result:?}");
    no_keys_left(&masters);
    let result = client.reentrant_lock("x").with(|_| Err::<(), _>(Mine::Work("no paper")));
    assert!(matches!(result, Err(Mine::Work("no paper"))), "{result:?}");
    no_keys_left(&masters);
}

fn short() -> Options {
    Options::new().lease(Lease::Fixed { ttl: ms(300) })
}

#[test]
fn work_that_outlasts_the_lease_is_lost_though_it_succeeded() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let result = client.lock("x").options(short()).with(|guard| {
        eventually("the lease is over", || guard.remaining().is_zero());
        Ok::<_, Mine>("done")
    });
    assert!(
        matches!(&result, Err(Mine::Lock(Error::Lost(l))) if l.reason == LossReason::Expired && l.name == "x"),
        "{result:?}"
    );
    let result = client.reentrant_lock("y").options(short()).with(|guard| {
        eventually("the lease is over", || guard.remaining().is_zero());
        Ok::<_, Mine>("done")
    });
    assert!(matches!(&result, Err(Mine::Lock(Error::Lost(l))) if l.name == "y"), "{result:?}");
}

#[test]
fn the_works_own_error_comes_before_the_loss() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let result = client.lock("x").options(short()).with(|guard| {
        eventually("the lease is over", || guard.remaining().is_zero());
        Err::<(), _>(Mine::Work("first"))
    });
    assert!(matches!(result, Err(Mine::Work("first"))), "{result:?}");
}

#[test]
fn a_lock_that_cannot_be_had_never_runs_the_work() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    let result = b.lock("x").options(Options::new().tries(2)).with(|_| -> Result<(), Mine> { panic!("it ran") });
    assert!(matches!(result, Err(Mine::Lock(Error::TriesUsedUp { tries: 2, .. }))), "{result:?}");
    drop(guard);
    assert!(
        b.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(1) })).with(|_| Ok::<_, Mine>(())).is_ok()
    );
}
