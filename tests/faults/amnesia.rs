//! The case that breaks plain Redlock: a master forgets a lock that is held, and gives it to another.

use crate::support::{self, GENERATION, builder, masters, occupy, pttl, secs, settled, vacate, value};
use redleash::{Client, ClientBuilder, Error, Lease, Lock, LockGuard, Options};
use redleash_testkit::Masters;
use std::time::{Duration, Instant};

fn fixed(client: &Client, ttl: Duration) -> Lock {
    client.lock("job").options(Options::new().lease(Lease::Fixed { ttl }))
}

/// A holds on masters 1 and 2; then 2 forgets.
fn held_on_two_of_which_one_forgets(masters: &Masters, a: &Client, ttl: Duration) -> LockGuard {
    occupy(&masters[2], "job");
    let guard = fixed(a, ttl).acquire().unwrap();
    assert!(value(&masters[0], "job").is_some() && value(&masters[1], "job").is_some());
    vacate(&masters[2], "job");
    masters[1].restart_empty().unwrap();
    guard.check().unwrap();
    guard
}

fn another(masters: &Masters, with: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Client {
    with(builder(masters.urls())).build().unwrap()
}

#[test]
fn a_second_holder_is_refused() {
    let Some(masters) = masters(3) else { return };
    let a = settled(&masters);
    let held = held_on_two_of_which_one_forgets(&masters, &a, secs(60));
    let b = another(&masters, |b| b);
    for _ in 0..20 {
        match b.lock("job").try_acquire() {
            Ok(None) | Err(Error::Quarantined { .. }) => {}
            other => panic!("expected a refusal, got {other:?}"),
        }
    }
    held.check().unwrap();
}

#[test]
fn a_second_holder_is_refused_also_where_the_master_that_remembers_is_silent() {
    let Some(masters) = masters(3) else { return };
    let a = settled(&masters);
    let held = held_on_two_of_which_one_forgets(&masters, &a, secs(60));
    masters[0].pause().unwrap();
    let b = another(&masters, |b| b);
    // Only 2 and 3 answer, and neither knows of A: this is where plain Redlock gives the lock away.
    for _ in 0..3 {
        match b.lock("job").try_acquire() {
            Err(error @ (Error::Quarantined { .. } | Error::NoQuorum(_))) => {
                assert!(error.is_retryable());
                let said = error.to_string();
                assert!(masters.iter().all(|m| said.contains(&m.port().to_string())), "{said}");
            }
            other => panic!("expected a refusal, got {other:?}"),
        }
    }
    held.check().unwrap();
    masters[0].resume().unwrap();
}

#[test]
fn without_the_quarantine_there_are_two_holders() {
    // The control: it shows that the tests above can fail.
    let Some(masters) = masters(3) else { return };
    let a = another(&masters, |b| b.quarantine(false));
    let held = held_on_two_of_which_one_forgets(&masters, &a, secs(60));
    let b = another(&masters, |b| b.quarantine(false));
    let second = b.lock("job").try_acquire().unwrap().expect("plain Redlock gives the lock away here");
    held.check().unwrap();
    second.check().unwrap();
    assert!(a.guarantees().to_string().contains("second holder"));
}

#[test]
fn after_the_quarantine_the_lock_is_given_when_the_first_lease_is_over() {
    let Some(masters) = masters(3) else { return };
    let a = support::settle(builder(masters.urls()).max_lease(secs(3)).ttl(secs(3)));
    let held = held_on_two_of_which_one_forgets(&masters, &a, secs(3));
    masters[0].kill();
    let b = another(&masters, |b| b.max_lease(secs(3)).ttl(secs(3)));
    let restarted = Instant::now();
    let second = b.lock("job").try_acquire_for(secs(20)).unwrap().expect("2 and 3 vote when the quarantine is over");
    assert!(held.check().is_err(), "two holders {:?} after the restart", restarted.elapsed());
    second.check().unwrap();
}

#[test]
fn a_watchdog_lease_holds_on_through_the_third_master() {
    let Some(masters) = masters(3) else { return };
    let a = support::settle(builder(masters.urls()).max_lease(secs(3)).ttl(secs(3)));
    occupy(&masters[2], "job");
    let held = a.lock("job").acquire().unwrap();
    vacate(&masters[2], "job");
    masters[1].restart_empty().unwrap();
    let b = another(&masters, |b| b.max_lease(secs(3)).ttl(secs(3)));
    let start = Instant::now();
    while start.elapsed() < secs(8) {
        match b.lock("job").try_acquire() {
            Ok(None) | Err(Error::Quarantined { .. } | Error::NoQuorum(_)) => {}
            other => panic!("expected a refusal, got {other:?}"),
        }
        held.check().unwrap();
        support::let_pass(support::ms(20));
    }
    assert!(pttl(&masters[2], "job").is_some(), "the renewal wrote the key where it had been missing");
}

#[test]
fn all_masters_restarted_wait_for_max_lease() {
    let Some(masters) = masters(3) else { return };
    let client = support::settle(builder(masters.urls()).max_lease(secs(2)).ttl(secs(2)));
    let guard = client.lock("job").options(Options::new().lease(Lease::Fixed { ttl: secs(2) })).acquire().unwrap();
    for master in &*masters {
        master.flush().unwrap();
    }
    let flushed = Instant::now();
    let again = client.lock("job").acquire().unwrap();
    // The quarantine is counted from the first vote that was asked for after the loss.
    assert!(flushed.elapsed() >= support::ms(1_990), "{:?}", flushed.elapsed());
    assert!(guard.check().is_err(), "two holders");
    again.check().unwrap();
}

#[test]
fn a_quarantine_longer_than_the_patience_is_an_error_at_once() {
    let Some(masters) = masters(3) else { return };
    let client = another(&masters, |b| b.outage_patience(secs(15)));
    let start = Instant::now();
    let error = client.lock("job").acquire().unwrap_err();
    assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
    match &error {
        Error::Quarantined { ready_in, tally, .. } => {
            assert!(*ready_in > secs(15) && *ready_in <= secs(80), "{ready_in:?}");
            assert_eq!(tally.masters.len(), 3);
        }
        other => panic!("{other:?}"),
    }
    assert!(error.to_string().contains("init"), "{error}");
}

/// A clock that was stepped back by an hour made a quarantine of an hour.
#[test]
fn a_quarantine_lasts_no_longer_than_a_whole_one_from_now() {
    let Some(masters) = masters(3) else { return };
    let short = |b: ClientBuilder| b.max_lease(secs(2)).ttl(secs(2));
    drop(support::settle(short(builder(masters.urls()))));
    for master in &*masters {
        let generation = master.command(&["GET", GENERATION]).unwrap().text().unwrap();
        let an_hour_later = |field: &str| match field.parse::<u64>() {
            Ok(ready) if field.len() == 16 && ready > 0 => (ready + 3_600_000_000).to_string(),
            _ => field.to_string(),
        };
        // The last field is the nonce.
        let (fields, nonce) = generation.rsplit_once(':').unwrap();
        let fields: Vec<String> = fields.split(':').map(an_hour_later).collect();
        master.command(&["SET", GENERATION, &format!("{}:{nonce}", fields.join(":"))]).unwrap();
    }
    let client = another(&masters, short);
    let refused = client.lock("job").try_acquire();
    assert!(matches!(&refused, Err(Error::Quarantined { ready_in, .. }) if *ready_in < secs(3)), "{refused:?}");
    drop(client.lock("job").try_acquire_for(support::DEADLINE).unwrap().expect("it is over"));
}
