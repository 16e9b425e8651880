//! An operator takes a lock away: the holder finds out, and nobody else comes in early.

use crate::support::{DEADLINE, builder, client, deadline, masters, ms, pttl, reason, secs, settle, settled};
use redleash::{Error, Lease, LossReason, Lost, Options, ReleaseOutcome, Revoked};
use std::time::{Duration, Instant};

#[test]
fn the_holder_finds_out_when_it_verifies() {
    let Some(masters) = masters(3) else { return };
    let (holder, operator) = (settled(&masters), client(&masters));
    let guard = holder.lock("x").acquire().unwrap();
    let revoked = operator.force_release("x").unwrap();
    assert!(revoked.masters >= 2, "{revoked:?}");
    assert!(revoked.free_in.is_some_and(|d| d > secs(5) && d <= secs(30)), "{revoked:?}");
    assert_eq!(reason(guard.verify()), LossReason::Taken);
    assert_eq!(reason(guard.check()), LossReason::Taken);
    assert_eq!(guard.lost().recv_timeout(DEADLINE).unwrap().reason, LossReason::Taken);
    assert!(matches!(guard.release(), ReleaseOutcome::AlreadyLost(_)));
    // What was revoked stays until the lease would have ended.
    assert!(operator.lock("x").try_acquire().unwrap().is_none());
    let status = operator.status("x").unwrap();
    assert!(status.to_string().contains("revoked"), "{status}");
}

#[test]
fn the_holder_finds_out_when_it_renews() {
    let Some(masters) = masters(3) else { return };
    let (holder, operator) = (settle(builder(masters.urls()).ttl(secs(6))), client(&masters));
    let guard = holder.lock("x").acquire().unwrap();
    let end = deadline(&guard);
    operator.force_release("x").unwrap();
    let lost = guard.lost().recv_timeout(DEADLINE).unwrap();
    assert_eq!(lost.reason, LossReason::Taken);
    assert!(Instant::now() < end, "the first renewal after it tells, not the end of the lease");
    assert_eq!(reason(guard.check()), LossReason::Taken);
}

#[test]
fn nobody_is_granted_before_the_lease_would_have_ended() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(3) })).acquire().unwrap();
    let end = deadline(&guard);
    other.force_release("x").unwrap();
    // A holder that asks nobody but its clock is alone until then.
    guard.check().unwrap();
    let second = other.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free when the lease is over");
    assert!(Instant::now() >= end, "granted {:?} too early", end - Instant::now());
    assert!(guard.check().is_err());
    drop(guard);
    second.verify().unwrap();
}

#[test]
fn a_free_lock_has_nobody_to_take_it_from() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let revoked = client.force_release("x").unwrap();
    assert!(matches!(revoked, Revoked { masters: 0, free_in: None, .. }), "{revoked:?}");
    drop(client.lock("x").try_acquire().unwrap().expect("still free"));
}

#[test]
fn the_token_of_the_next_holder_is_above() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let short = Options::new().lease(Lease::Fixed { ttl: secs(1) });
    let guard = client.lock("x").options(short).acquire().unwrap();
    let first = guard.fencing_token().unwrap();
    client.force_release("x").unwrap();
    let second = client.lock("x").try_acquire_for(DEADLINE).unwrap().unwrap();
    assert!(second.fencing_token().unwrap() > first);
}

#[test]
fn too_few_masters_is_an_error() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    masters[0].kill();
    assert!(client.force_release("x").unwrap().masters >= 1);
    masters[1].kill();
    let start = Instant::now();
    assert!(matches!(client.force_release("x"), Err(Error::NoQuorum(_))));
    assert!(start.elapsed() < secs(10));
    drop(guard);
}

/// The renewal of a holder that was thought dead wrote the deleted key again.
#[test]
fn a_lock_deleted_by_force_is_not_written_again_by_its_holder() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lease = Lease::Watchdog { ttl: ms(1_500) };
    let guard = client.lock("x").options(Options::new().lease(lease)).acquire().unwrap();
    let gone = client.force_release_now("x").unwrap();
    assert_eq!((gone.masters, gone.free_in), (3, Some(Duration::ZERO)));
    let lost = guard.lost().recv_timeout(secs(5)).unwrap();
    assert_eq!((lost.name.as_str(), lost.reason), ("x", LossReason::Taken));
    assert!(masters.iter().all(|m| pttl(m, "x").is_none()), "no master has the key");
    // The next holder is not hindered, and is not taken for the former one.
    let next = client.lock("x").try_acquire().unwrap().expect("free");
    next.verify().unwrap();
    next.extend(secs(5)).unwrap();
}

/// `verify` said that too few masters had answered, although all had said no.
#[test]
fn a_holder_whose_lock_was_deleted_by_force_learns_of_it_by_verify() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    client.force_release_now("x").unwrap();
    let error = guard.verify().unwrap_err();
    assert!(matches!(error, Error::Lost(Lost { reason: LossReason::Taken, .. })), "{error}");
    assert!(guard.check().is_err());
}
