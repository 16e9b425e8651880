//! What a review of options, guards and the end of a client found, kept.

use crate::support;
use crate::support::{SOON, builder, eventually, masters, ms, no_keys_left, reason, secs, settle, settled};
use redleash::{Client, ClientBuilder, Error, Handle, Lease, Options, Reason, Release, Retry};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

#[track_caller]
fn config<T: std::fmt::Debug>(result: Result<T, Error>, field: &str) {
    match result {
        Err(Error::Config(error)) => assert_eq!(error.field, field, "{error:?}"),
        other => panic!("{field}: expected a configuration error, got {other:?}"),
    }
}

/// The pauses of the client were forgotten by every lock that had options of its own.
#[test]
fn a_lock_with_options_keeps_the_clients_pauses() {
    let Some(masters) = masters(3) else { return };
    let count = Arc::new(AtomicU32::new(0));
    let counting = count.clone();
    let pause = move |_| {
        counting.fetch_add(1, Ordering::SeqCst);
        ms(1)
    };
    let client = settle(builder(masters.urls()).retry(Retry::Custom(Arc::new(pause))));
    let _guard = client.lock("x").acquire().unwrap();
    for options in [Options::new().tries(5), Options::new().tries(5).fenced(true)] {
        count.store(0, Ordering::SeqCst);
        let error = client.lock("x").options(options).acquire().unwrap_err();
        assert!(matches!(error, Error::TriesUsedUp { .. }), "{error:?}");
        assert!(count.load(Ordering::SeqCst) >= 4, "the client's pauses were asked {count:?} times");
    }
    // A lock's own pauses come first.
    count.store(0, Ordering::SeqCst);
    let own = Options::new().tries(3).retry(Retry::Fixed(ms(1)));
    client.lock("x").options(own).acquire().unwrap_err();
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// A user who may not publish deleted the key, and then the release counted as refused: unconfirmed, tried again, and
/// left to the ttl.
#[test]
fn a_user_without_a_channel_releases() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    for master in &*masters {
        let words = ["ACL", "SETUSER", "lock", "on", ">p", "resetkeys", "resetchannels", "~rl:*", "+@all"];
        assert!(master.command(&words).unwrap().is_ok());
    }
    let client = builder(masters.iter().map(|m| format!("redis://lock:p@127.0.0.1:{}", m.port()))).build().unwrap();
    for _ in 0..3 {
        assert_eq!(client.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
        drop(client.lock("x").acquire().unwrap());
    }
    no_keys_left(&masters);
    // All is answered when this is: it goes behind the releases.
    drop(client.lock("x").acquire().unwrap());
    assert_eq!(support::undelivered(&client), (0, 0));
}

/// A limit for connecting without an end made the connector panic, and `build` hang. (Other limits may be without end.)
#[test]
fn limits_without_an_end_are_refused() {
    let refused = |field: &str, change: fn(ClientBuilder) -> ClientBuilder| {
        config(change(Client::builder().node("redis://127.0.0.1:1")).build(), field);
    };
    refused("connect_timeout", |b| b.connect_timeout(Duration::MAX));
    refused("pool_size", |b| b.pool_size(u32::MAX));
    refused("ttl", |b| b.ttl(Duration::MAX));
    refused("max_lease", |b| b.max_lease(Duration::MAX));
}

/// The largest limits that are allowed work; a patience has no limit.
#[test]
fn the_largest_limits_work() {
    let Some(masters) = masters(3) else { return };
    let hour = secs(3_600);
    let slow = Client::builder().nodes(masters.urls()).master_timeout(hour).round_timeout(hour).hang_timeout(hour);
    let client = slow.connect_timeout(hour).pool_size(1_024).outage_patience(Duration::MAX).build().unwrap();
    client.init().unwrap();
    assert_eq!(client.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
    let guard = client.lock("x").try_acquire_for(Duration::MAX).unwrap().expect("free");
    guard.check().unwrap();
    assert!(matches!(guard.ensure(Duration::MAX), Err(Error::EndsSoon { .. })));
}

/// A lock delay without an end panicked in the caller.
#[test]
fn a_lock_delay_without_an_end_is_refused() {
    let Some(masters) = masters(1) else { return };
    let client = support::client(&masters);
    config(client.lock("x").options(Options::new().lock_delay(Duration::MAX)).acquire(), "lock_delay");
    config(client.lock("x").options(Options::new().min_hold(Duration::MAX)).acquire(), "min_hold");
    config(client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: Duration::MAX })).acquire(), "ttl");
    // This one only means that it never ends.
    let guard = client.lock("x").options(Options::new().max_hold(Duration::MAX)).acquire().unwrap();
    config(guard.extend(Duration::MAX), "ttl");
    guard.check().unwrap();
}

/// A lock that was granted while the client was being closed was never renewed, nor was its holder ever told.
#[test]
fn who_is_granted_a_lock_while_the_client_is_closed_is_told() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let mut told = 0;
    for round in 0..25 {
        let client = builder(masters.urls()).ttl(secs(20)).build().unwrap();
        let holders: Vec<_> = (0..4)
            .map(|i| {
                let client = client.clone();
                thread::spawn(move || {
                    // Until the client is closed: `None`, or the last lock, if that was granted before.
                    for k in 0.. {
                        let guard = client.lock(&format!("{round}/{i}/{k}")).try_acquire().ok()??;
                        if client.lock(&format!("probe/{i}")).try_acquire().is_err() {
                            return Some(guard);
                        }
                    }
                    None
                })
            })
            .collect();
        support::let_pass(ms(5 + round % 7)); // somewhere in a round
        let report = client.close(secs(10));
        for holder in holders {
            let Some(guard) = holder.join().unwrap() else { continue };
            let lost = guard.lost().recv_timeout(secs(2)).expect("told that its lock is lost");
            assert_eq!(lost.reason, LossReason::Closed);
            assert_eq!(reason(guard.check()), LossReason::Closed);
            assert!(report.unreleased.contains(&guard.name().to_string()), "{} not in {report:?}", guard.name());
            told += 1;
        }
    }
    assert!(told > 0, "nobody held anything when the client was closed");
}

/// A lost lock that was to be handed over was neither released nor cleaned up.
#[test]
fn what_is_lost_and_cannot_be_handed_over_is_released() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().max_hold(ms(300))).acquire().unwrap();
    eventually("over", || guard.check().is_err());
    assert!(matches!(guard.detach(), Err(Error::Lost(lost)) if lost.reason == LossReason::MaxHold));
    // Long before the ttl of 30 s.
    no_keys_left(&masters);
    drop(client.lock("x").try_acquire().unwrap().expect("free"));
    assert!(client.close(SOON).unreleased.is_empty());
}

/// A system that cannot tell one boot from another writes an empty line, and any such handle was believed.
#[test]
fn a_handle_that_does_not_name_its_boot_is_refused() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let handle = client.lock("x").acquire().unwrap().detach().unwrap();
    let text = handle.to_string();
    let mut lines: Vec<&str> = text.split('\n').collect();
    for boot in ["", "another"] {
        lines[1] = boot;
        config(DetachedLease::from_str(&lines.join("\n")), "detached lease");
    }
    drop(client.adopt(handle).unwrap());
    no_keys_left(&masters);
}
