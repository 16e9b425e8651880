//! An operator takes a lock away: the holder finds out, and nobody else comes in early.

use crate::support::{SOON, builder, client, deadline, masters, reason, secs, settle, settled};
use redleash::{Error, Lease, Options, Reason, Release, Revoked};
use std::time::Instant;

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
    assert_eq!(guard.lost().recv_timeout(SOON).unwrap().reason, LossReason::Taken);
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
    let lost = guard.lost().recv_timeout(SOON).unwrap();
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
    let second = other.lock("x").try_acquire_for(SOON).unwrap().expect("free when the lease is over");
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
    let second = client.lock("x").try_acquire_for(SOON).unwrap().unwrap();
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
