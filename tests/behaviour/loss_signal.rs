//! A loss is announced: through a channel that can be selected on, and to callbacks, even ones that panic.

use crate::support::{self, DEADLINE, client, eventually, masters, ms, secs, settled};
use redleash::crossbeam_channel::{RecvTimeoutError, TryRecvError, bounded, select};
use redleash::{Lease, LossReason, Options};
use std::sync::mpsc;

fn fixed(ttl: std::time::Duration) -> Options {
    Options::new().lease(Lease::Fixed { ttl })
}

#[test]
fn select_beside_other_work() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(fixed(secs(1))).acquire().unwrap();
    let (work, jobs) = bounded::<u32>(0);
    let worker = std::thread::spawn(move || {
        let mut sent = 0;
        while work.send(sent).is_ok() {
            sent += 1;
        }
        sent
    });
    let mut done = 0;
    let lost = loop {
        select! {
            recv(guard.lost()) -> lost => break lost.unwrap(),
            recv(jobs) -> job => {
                job.unwrap();
                done += 1;
            }
            default(DEADLINE) => panic!("neither work nor a loss"),
        }
    };
    drop(jobs);
    assert_eq!((lost.reason, lost.name.as_str()), (LossReason::Expired, "x"));
    assert!(done > 0, "there was time for work");
    assert!(worker.join().unwrap() >= done);
    assert!(lost.to_string().contains("\"x\""));
}

#[test]
fn a_release_disconnects_and_says_nothing() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    let lost = guard.lost().clone();
    assert_eq!(lost.try_recv(), Err(TryRecvError::Empty));
    let (tell, told) = mpsc::channel();
    guard.on_lost(move |lost| tell.send(lost.reason).unwrap());
    drop(guard);
    assert_eq!(lost.recv_timeout(DEADLINE), Err(RecvTimeoutError::Disconnected));
    // The callback is dropped without a call: its channel ends.
    assert_eq!(told.recv_timeout(DEADLINE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn one_message_and_no_more() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(fixed(ms(500))).acquire().unwrap();
    assert_eq!(guard.lost().recv_timeout(DEADLINE).unwrap().reason, LossReason::Expired);
    eventually("over", || guard.check().is_err());
    assert!(guard.lost().try_recv().is_err());
    let lost = guard.lost().clone();
    drop(guard);
    assert!(lost.recv_timeout(DEADLINE).is_err());
}

#[test]
fn callbacks_are_called_also_beside_one_that_panics() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(fixed(ms(500))).acquire().unwrap();
    let (tell, told) = mpsc::channel();
    let first = tell.clone();
    guard.on_lost(move |lost| first.send(("before", lost)).unwrap());
    guard.on_lost(|_| panic!("in a callback, on purpose"));
    let second = tell.clone();
    guard.on_lost(move |lost| second.send(("after", lost)).unwrap());
    let mut names = Vec::new();
    for _ in 0..2 {
        let (name, lost) = told.recv_timeout(DEADLINE).expect("both are called");
        assert_eq!((lost.reason, lost.name.as_str()), (LossReason::Expired, "x"));
        names.push(name);
    }
    names.sort_unstable();
    assert_eq!(names, ["after", "before"]);
    // The threads that call are still there for the next lock.
    let guard = client.lock("y").options(fixed(ms(500))).acquire().unwrap();
    guard.on_lost(move |lost| tell.send(("another lock", lost)).unwrap());
    assert_eq!(told.recv_timeout(DEADLINE).unwrap().0, "another lock");
}

#[test]
fn a_late_callback_is_called_at_once() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(fixed(ms(300))).acquire().unwrap();
    guard.lost().recv_timeout(DEADLINE).unwrap();
    eventually("over", || guard.check().is_err());
    let (tell, told) = mpsc::channel();
    let here = std::thread::current().id();
    guard.on_lost(move |lost| tell.send((lost.reason, std::thread::current().id())).unwrap());
    let (reason, there) = told.recv_timeout(DEADLINE).unwrap();
    assert_eq!(reason, LossReason::Expired);
    assert_ne!(here, there, "on a thread of the client");
}

#[test]
fn a_callback_that_takes_long_delays_no_signal_and_no_renewal() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let (end, ended) = mpsc::channel::<()>();
    let slow = client.lock("slow").options(fixed(ms(300))).acquire().unwrap();
    slow.on_lost(move |_| {
        let _ = ended.recv_timeout(DEADLINE);
    });
    slow.lost().recv_timeout(DEADLINE).unwrap();
    let renewed =
        client.lock("renewed").options(Options::new().lease(Lease::Watchdog { ttl: secs(2) })).acquire().unwrap();
    let quick = client.lock("quick").options(fixed(ms(300))).acquire().unwrap();
    assert_eq!(quick.lost().recv_timeout(secs(10)).unwrap().reason, LossReason::Expired);
    support::always(secs(3), "still renewed", || renewed.check().is_ok());
    drop(end);
}

#[test]
fn a_callback_that_takes_long_delays_no_other_callback() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let (end, ended) = mpsc::channel::<()>();
    let slow = client.lock("slow").options(fixed(ms(300))).acquire().unwrap();
    slow.on_lost(move |_| {
        let _ = ended.recv_timeout(DEADLINE);
    });
    slow.lost().recv_timeout(DEADLINE).unwrap();
    let quick = client.lock("quick").options(fixed(ms(300))).acquire().unwrap();
    let (tell, told) = mpsc::channel();
    quick.on_lost(move |lost| {
        let _ = tell.send(lost.reason);
    });
    assert_eq!(told.recv_timeout(secs(10)), Ok(LossReason::Expired));
    drop(end);
}

#[test]
fn a_callback_may_use_the_client() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(fixed(ms(500))).acquire().unwrap();
    let (inner, (tell, told)) = (client.clone(), mpsc::channel());
    guard.on_lost(move |_| {
        let again = inner.lock("report").try_acquire_for(DEADLINE).unwrap().map(|g| g.check().is_ok());
        tell.send(again).unwrap();
    });
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), Some(true));
}

#[test]
fn dropping_a_guard_in_its_own_callback_is_no_dead_end() {
    let Some(masters) = masters(3) else { return };
    let client = client_of(&masters);
    let guard = std::sync::Arc::new(std::sync::Mutex::new(None));
    let (inner, (tell, told)) = (guard.clone(), mpsc::channel());
    *guard.lock().unwrap() = Some(client.lock("x").options(fixed(ms(500))).acquire().unwrap());
    guard.lock().unwrap().as_ref().unwrap().on_lost(move |_| {
        drop(inner.lock().unwrap().take());
        tell.send(()).unwrap();
    });
    told.recv_timeout(DEADLINE).unwrap();
    assert!(guard.lock().unwrap().is_none());
    drop(client.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free"));
}

fn client_of(masters: &redleash_testkit::Masters) -> redleash::Client {
    drop(settled(masters));
    client(masters)
}
