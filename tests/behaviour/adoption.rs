//! A held lock goes from one guard to another, also in another process, once.

use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{
    self, DEADLINE, always, builder, client, eventually, masters, ms, no_keys_left, secs, settle, settled, value,
};
use redleash::{DetachedLease, Error, Lease, LossReason, Options, WatchdogMode};
use redleash_testkit::{Fault, Proxy};
use std::str::FromStr;

#[test]
fn within_one_process() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let guard = a.lock("x").acquire().unwrap();
    let token = guard.fencing_token().unwrap();
    let handle = guard.detach().unwrap();
    assert_eq!(handle.name(), "x");
    assert!(handle.remaining() > secs(5) && handle.remaining() <= secs(30));
    assert!(b.lock("x").try_acquire().unwrap().is_none(), "handed over is not released");
    let adopted = b.adopt(handle).unwrap();
    adopted.check().unwrap();
    adopted.verify().unwrap();
    assert_eq!(adopted.name(), "x");
    assert!(adopted.fencing_token().unwrap() > token, "a write of the former holder that comes late is refused");
    assert!(a.lock("x").try_acquire().unwrap().is_none());
    drop(adopted);
    no_keys_left(&masters);
}

#[test]
fn between_two_processes_through_a_pipe() {
    entry(adopting_child);
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let mut child = Child::start(adopting_child, &masters.urls(), "");
    child.expect("ready");
    let short = Options::new().lease(Lease::Watchdog { ttl: secs(3) });
    let handle = client.lock("x").options(short).acquire().unwrap().detach().unwrap();
    for line in handle.to_string().lines() {
        child.tell(line);
    }
    child.tell("end");
    child.expect("adopted");
    always(secs(4), "renewed by the child", || client.lock("x").try_acquire().unwrap().is_none());
    assert!(client.status("x").unwrap().is_held());
    child.tell("release");
    assert!(child.end(DEADLINE).success());
    no_keys_left(&masters);
    // It was taken once; what we still have is worth nothing.
    assert!(client.adopt(handle).is_err());
}

fn adopting_child(task: Task) {
    let client = without_settling(task.urls);
    say("ready");
    let lines: Vec<String> = std::iter::repeat_with(hear).take_while(|line| line != "end").collect();
    let handle = DetachedLease::from_str(&lines.join("\n")).unwrap();
    let guard = client.adopt(handle).unwrap();
    guard.check().unwrap();
    say("adopted");
    assert_eq!(hear(), "release");
    guard.check().unwrap();
    assert_eq!(guard.release(), redleash::ReleaseOutcome::Released);
}

/// With the ttl of the lease that it is going to adopt.
fn without_settling(urls: Vec<String>) -> redleash::Client {
    builder(urls).ttl(secs(3)).build().unwrap()
}

#[test]
fn a_second_adoption_is_refused() {
    let Some(masters) = masters(3) else { return };
    let (a, b) = (settled(&masters), client(&masters));
    let handle = a.lock("x").acquire().unwrap().detach().unwrap();
    let copy = DetachedLease::from_str(&handle.to_string()).unwrap();
    let again = DetachedLease::from_str(&handle.to_string()).unwrap();
    let adopted = b.adopt(handle).unwrap();
    assert!(matches!(a.adopt(copy), Err(Error::NoQuorum(_) | Error::Lost(_))));
    assert!(matches!(b.adopt(again), Err(Error::NoQuorum(_) | Error::Lost(_))));
    adopted.check().unwrap();
    adopted.verify().unwrap();
}

#[test]
fn a_handle_that_nobody_adopts_ends_with_its_ttl() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(2)));
    let handle = client.lock("x").acquire().unwrap().detach().unwrap();
    let next = client.lock("x").try_acquire_for(DEADLINE).unwrap().expect("nobody renews it");
    assert!(handle.remaining().is_zero());
    assert!(matches!(client.adopt(handle), Err(Error::TooSlow { .. } | Error::NoQuorum(_))));
    next.verify().unwrap();
}

#[test]
fn an_adoption_is_renewed_and_healed() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(3)).max_lease(secs(3)));
    let handle = client.lock("x").acquire().unwrap().detach().unwrap();
    masters[0].flush().unwrap();
    let guard = client.adopt(handle).unwrap();
    always(secs(4), "held beyond the ttl", || guard.check().is_ok());
    eventually("the key is there again when the quarantine is over", || value(&masters[0], "x").is_some());
}

#[test]
fn a_lost_lock_gives_no_handle() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let short = Options::new().lease(Lease::Fixed { ttl: support::ms(200) });
    let guard = client.lock("x").options(short).acquire().unwrap();
    eventually("lost", || guard.check().is_err());
    assert!(matches!(guard.detach(), Err(Error::Lost(lost)) if lost.reason == LossReason::Expired));
}

#[test]
fn a_handle_shows_no_secret_and_text_that_is_none_is_refused() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let handle = client.lock("x").acquire().unwrap().detach().unwrap();
    let text = handle.to_string();
    let secret = masters.iter().find_map(|m| value(m, "x")).unwrap().split('|').next().unwrap().to_string();
    assert!(text.contains(&secret));
    let shown = format!("{handle:?} {handle:#?}");
    assert!(shown.contains("\"x\"") && !shown.contains(&secret), "{shown}");
    let not_hex = text.replace(&secret, "zz");
    for bad in ["", "nonsense", "redleash2\n1\n2", not_hex.as_str(), text.replace("redleash2", "redleash9").as_str()] {
        match DetachedLease::from_str(bad) {
            Err(Error::Config(error)) => {
                assert_eq!(error.field, "detached lease");
                assert!(!error.problem.contains(&secret));
            }
            other => panic!("{bad:?}: {other:?}"),
        }
    }
    drop(client.adopt(handle).unwrap());
    no_keys_left(&masters);
}

#[test]
fn a_deadline_is_a_moment_of_the_boot_clock() {
    if !cfg!(target_os = "linux") || cfg!(redleash_portable) {
        return support::skip("another clock than CLOCK_BOOTTIME is in use here");
    }
    let Some(masters) = masters(1) else { return };
    let boot = || {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    };
    let fixed = Options::new().lease(Lease::Fixed { ttl: secs(10) });
    let before = boot();
    let guard = client(&masters).lock("x").options(fixed).acquire().unwrap();
    let after = boot();
    let text = guard.detach().unwrap().to_string();
    let until: u64 = text.lines().nth(2).unwrap().parse().unwrap();
    // 10 s less 1 % and 2 ms.
    let validity = 9_898_000_000;
    assert!((before + validity..=after + validity).contains(&until), "{before} {until} {after}");
}

/// A renewal that was under way when the lock was handed out reaches the masters when another process has adopted the
/// lock and released it: it must not write the old key again, which would keep everybody out for a ttl.
#[test]
fn a_renewal_that_comes_after_the_adoption_writes_nothing() {
    for mode in [WatchdogMode::PerLock, WatchdogMode::Shared] {
        late_renewal(mode);
    }
}

fn late_renewal(mode: WatchdogMode) {
    let Some(masters) = masters(3) else { return };
    let ttl = secs(6);
    let direct = settled(&masters);
    let proxies: Vec<Proxy> = masters.iter().map(|m| Proxy::start(m.port(), Fault::None).unwrap()).collect();
    let through = builder(proxies.iter().map(Proxy::url)).ttl(ttl).watchdog(mode).build().unwrap();
    let guard = through.lock("x").acquire().unwrap();
    // Else the attempt itself may be what is held on the third.
    eventually("all three have voted", || masters.iter().all(|m| value(m, "x").is_some()));
    proxies.iter().for_each(|proxy| proxy.set(Fault::Hold));
    eventually("its renewal is under way", || proxies.iter().all(|proxy| proxy.misbehaved() > 0));
    let handle = guard.detach().unwrap();
    let adopted = direct.adopt(handle).unwrap();
    assert_eq!(adopted.release(), redleash::ReleaseOutcome::Released);
    no_keys_left(&masters);
    let before: Vec<u64> = masters.iter().map(scripts_run).collect();
    proxies.iter().for_each(|proxy| proxy.set(Fault::None));
    eventually("the renewal has come", || masters.iter().zip(&before).all(|(m, before)| scripts_run(m) > *before));
    assert_eq!(masters.iter().map(|m| value(m, "x")).collect::<Vec<_>>(), [None, None, None], "{mode:?}");
    drop(direct.lock("x").try_acquire_for(DEADLINE).unwrap().expect("free"));
}

/// How many scripts a master has run.
fn scripts_run(master: &redleash_testkit::Server) -> u64 {
    let info = master.command(&["INFO", "commandstats"]).unwrap().text().unwrap();
    let calls = |name: &str| -> u64 {
        let line = info.lines().find_map(|l| l.strip_prefix(&format!("cmdstat_{name}:calls=")));
        line.and_then(|l| l.split(',').next()?.parse().ok()).unwrap_or(0)
    };
    calls("eval") + calls("evalsha")
}

/// A lost lock that was to be handed over was neither released nor cleaned up.
#[test]
fn a_lost_lock_that_gives_no_handle_is_released() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().max_hold(ms(300))).acquire().unwrap();
    eventually("over", || guard.check().is_err());
    assert!(matches!(guard.detach(), Err(Error::Lost(lost)) if lost.reason == LossReason::MaxHold));
    // Long before the ttl of 30 s.
    no_keys_left(&masters);
    drop(client.lock("x").try_acquire().unwrap().expect("free"));
    assert!(client.close(DEADLINE).unreleased.is_empty());
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
        let error = DetachedLease::from_str(&lines.join("\n")).unwrap_err();
        assert!(matches!(&error, Error::Config(e) if e.field == "detached lease"), "{error:?}");
    }
    drop(client.adopt(handle).unwrap());
    no_keys_left(&masters);
}
