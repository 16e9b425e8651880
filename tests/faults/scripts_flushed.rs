//! SCRIPT FLUSH at any moment costs nobody a lock.

use crate::support::{self, always, builder, masters, no_keys_left, secs, settle, settled};
use redleash::{Lease, Options, ReleaseOutcome};
use redleash_testkit::Masters;

fn flush(masters: &Masters) {
    for master in &**masters {
        assert!(master.command(&["SCRIPT", "FLUSH"]).unwrap().is_ok());
    }
}

#[test]
fn before_every_step_of_a_locks_life() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    for round in 0..5 {
        flush(&masters);
        let guard = client.lock("x").options(Options::new().fenced(round % 2 == 0)).acquire().unwrap();
        flush(&masters);
        guard.extend(secs(40)).unwrap();
        flush(&masters);
        guard.verify().unwrap();
        flush(&masters);
        assert!(guard.fencing_token().unwrap() > 0);
        flush(&masters);
        assert!(client.lock("x").try_acquire().unwrap().is_none());
        flush(&masters);
        assert!(client.status("x").unwrap().is_held());
        flush(&masters);
        if round == 4 {
            drop(guard);
        } else {
            assert_eq!(guard.release(), ReleaseOutcome::Released);
        }
        no_keys_left(&masters);
    }
    flush(&masters);
    let guard = client.lock("y").acquire().unwrap();
    let handle = guard.detach().unwrap();
    flush(&masters);
    let guard = client.adopt(handle).unwrap();
    flush(&masters);
    assert!(client.force_release("y").unwrap().masters >= 2);
    drop(guard);
}

#[test]
fn while_the_watchdog_renews() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(2)));
    let guard = client.lock("x").acquire().unwrap();
    always(secs(5), "renewed although the scripts are forgotten all the time", || {
        flush(&masters);
        support::let_pass(support::ms(50));
        guard.check().is_ok()
    });
    drop(guard);
    no_keys_left(&masters);
}

#[test]
fn drops_behind_a_flush_are_delivered() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let long = Options::new().lease(Lease::Fixed { ttl: secs(60) });
    for _ in 0..20 {
        let guards: Vec<_> =
            (0..10).map(|i| client.lock(&format!("x/{i}")).options(long.clone()).acquire().unwrap()).collect();
        flush(&masters);
        drop(guards);
    }
    no_keys_left(&masters);
    assert_eq!(support::undelivered(&client).1, 0);
}
