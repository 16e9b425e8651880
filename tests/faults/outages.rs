//! Too few masters: while a lock is held, its loss is announced in time; while one is asked for, the error names
//! everyone.

use crate::support::{
    self, builder, client, deadline, eventually, let_pass, masters, ms, no_keys_left, reason, secs, settle, settled,
};
use redleash::{Error, Lease, LeaseState, LossReason, MasterAnswer, Options, Retry};
use redleash_testkit::Masters;
use std::thread;
use std::time::Instant;

fn pause(masters: &Masters, which: &[usize]) {
    for i in which {
        masters[*i].pause().unwrap();
    }
}

fn resume(masters: &Masters) {
    for master in &**masters {
        master.resume().unwrap();
    }
}

/// Every master is in the tally, by host and port.
fn names_all(error: &Error, masters: &Masters) {
    let tally = error.tally().unwrap();
    assert_eq!(tally.masters.len(), masters.len());
    let text = error.to_string();
    for (report, master) in tally.masters.iter().zip(&**masters) {
        assert!(report.master.ends_with(&format!(":{}", master.port())), "{report:?}");
        assert!(text.contains(&report.master), "{text}");
    }
}

#[test]
fn two_of_three_hang_while_locks_are_held() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(4)));
    let guards: Vec<_> = (0..5).map(|i| client.lock(&format!("x/{i}")).acquire().unwrap()).collect();
    pause(&masters, &[0, 2]);
    let mut in_time = 0;
    for guard in &guards {
        let lost = guard.lost().recv_timeout(secs(15)).expect("a loss is announced although the masters hang");
        let left = guard.remaining();
        assert_eq!((lost.reason, lost.name.as_str()), (LossReason::Expired, guard.name()));
        // The announcement comes before the deadline, so something may be left; what is left is less than the head
        // start.
        assert!(left <= ms(60), "{left:?}");
        in_time += usize::from(!left.is_zero() || guard.check().is_ok());
    }
    // Nobody can promise a thread to be scheduled; five deadlines missed would be no accident.
    assert!(in_time > 0, "every announcement came after its deadline");
    for guard in &guards {
        eventually("over", || guard.remaining().is_zero());
        assert_eq!(reason(guard.check()), LossReason::Expired);
        assert_eq!(guard.state(), LeaseState::Lost(LossReason::Expired));
    }
    resume(&masters);
    for guard in &guards {
        assert!(guard.check().is_err(), "never back from Lost");
    }
    drop(guards);
    no_keys_left(&masters);
}

#[test]
fn a_fixed_lease_is_announced_too() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(2) })).acquire().unwrap();
    let end = deadline(&guard);
    pause(&masters, &[0, 1, 2]);
    let lost = guard.lost().recv_timeout(secs(15)).unwrap();
    assert_eq!(lost.reason, LossReason::Expired);
    assert!(Instant::now() + ms(60) >= end, "not long before the end");
    eventually("over", || guard.check().is_err());
    assert!(Instant::now() + ms(5) >= end, "and `check` held to the end");
}

#[test]
fn all_down_within_the_limit_asked_for() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters.iter().for_each(|m| m.kill());
    let start = Instant::now();
    let error = client.lock("x").try_acquire_for(secs(2)).unwrap_err();
    let took = start.elapsed();
    assert!(took < secs(8), "{took:?}");
    assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
    assert!(error.is_retryable());
    names_all(&error, &masters);
    let tally = error.tally().unwrap();
    assert_eq!((tally.quorum, tally.yes()), (2, 0));
    assert!(tally.masters.iter().all(|m| matches!(m.answer, MasterAnswer::Failed(_))), "{tally}");
}

#[test]
fn all_down_by_the_patience_otherwise() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).outage_patience(secs(2)));
    masters.iter().for_each(|m| m.kill());
    let start = Instant::now();
    let error = client.lock("x").acquire().unwrap_err();
    let took = start.elapsed();
    assert!(took > secs(1), "the outage is endured for a while: {took:?}");
    assert!(took < secs(10), "{took:?}");
    assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
    names_all(&error, &masters);
}

#[test]
fn a_single_try_does_not_wait_for_the_end_of_an_outage() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters.iter().for_each(|m| m.kill());
    let start = Instant::now();
    let error = client.lock("x").try_acquire().unwrap_err();
    assert!(start.elapsed() < secs(8), "{:?}", start.elapsed());
    names_all(&error, &masters);
}

#[test]
fn all_hung_is_an_error_within_the_limit() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    drop(client.lock("warm").acquire().unwrap());
    pause(&masters, &[0, 1, 2]);
    let start = Instant::now();
    let error = client.lock("x").try_acquire_for(secs(3)).unwrap_err();
    assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
    assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
    names_all(&error, &masters);
}

#[test]
fn an_outage_that_ends_in_time_is_only_a_wait() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    pause(&masters, &[0, 1]);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.lock("x").acquire().map(|guard| guard.check().is_ok()));
        support::let_pass(secs(2)); // an outage of this length
        assert!(!waiting.is_finished(), "nobody may be granted by one of three");
        resume(&masters);
        assert!(waiting.join().unwrap().unwrap());
    });
}

#[test]
fn no_masters_at_the_start_is_reported_by_the_first_lock() {
    let Some(masters) = masters(3) else { return };
    masters.iter().for_each(|m| m.kill());
    let start = Instant::now();
    let client = client(&masters);
    assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
    let error = client.lock("x").try_acquire().unwrap_err();
    names_all(&error, &masters);
    let error = client.init().unwrap_err();
    names_all(&error, &masters);
    // Asking who holds it names them too, and is no error.
    let status = client.status("x").unwrap();
    assert!(status.masters.iter().all(|m| m.failure.is_some()));
    // They come back, and the same client works.
    masters.iter().for_each(|m| m.restart_empty().unwrap());
    eventually("settled", || client.init().is_ok());
    drop(client.lock("x").acquire().unwrap());
}

#[test]
fn two_masters_down_and_up_again_while_held() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(2)).max_lease(secs(2)));
    let guard = client.lock("x").acquire().unwrap();
    masters[0].kill();
    masters[1].kill();
    let lost = guard.lost().recv_timeout(secs(15)).unwrap();
    assert_eq!(lost.reason, LossReason::Expired);
    masters[0].restart_empty().unwrap();
    masters[1].restart_empty().unwrap();
    // Two in quarantine, for two seconds.
    let again = client.lock("x").try_acquire_for(secs(20)).unwrap().expect("free again");
    assert!(guard.check().is_err() && again.check().is_ok());
}

#[test]
fn an_outage_that_ends_is_noticed_before_the_pause_does() {
    let Some(masters) = masters(3) else { return };
    let pauses = Retry::Backoff { min: secs(60), max: secs(90), cap: secs(90) };
    let client = settle(builder(masters.urls()).retry(pauses));
    masters[0].pause().unwrap();
    masters[1].pause().unwrap();
    thread::scope(|scope| {
        let waits = scope.spawn(|| client.lock("x").try_acquire_for(secs(300)).unwrap().is_some());
        // Its first round is over by then, and its connections are closed.
        let_pass(secs(3));
        assert!(!waits.is_finished());
        masters[0].resume().unwrap();
        masters[1].resume().unwrap();
        eventually("the lock is granted", || waits.is_finished());
        assert!(waits.join().unwrap());
    });
}

/// The error named only the time of its last round, after ten seconds of trying.
#[test]
fn an_outage_error_says_how_long_it_was_tried() {
    let Some(masters) = masters(3) else { return };
    let client = builder(masters.urls()).outage_patience(ms(700)).build().unwrap();
    for master in &*masters {
        master.kill();
    }
    let error = client.lock("x").acquire().unwrap_err();
    assert!(error.tally().unwrap().tried_for >= ms(300), "{error}");
    assert!(error.to_string().contains("of trying; the last round"), "{error}");
}
