//! Fencing tokens: every holder's is above all earlier ones, whatever becomes of single masters.

use crate::support::{
    self, builder, client, eventually, fence_key, lock_keys, masters, no_keys_left, secs, settle, settled,
};
use redleash::{Error, Lease, Options, ReleaseOutcome};
use redleash_testkit::{Fault, Proxy};
use std::time::{SystemTime, UNIX_EPOCH};

#[test]
fn one_master_that_lost_its_counter_goes_on_by_its_clock() {
    let Some(masters) = masters(1) else { return };
    let client = client(&masters);
    let mut last = 0;
    for round in 0..20 {
        let token =
            client.lock("x").options(Options::new().fenced(round % 2 == 0)).acquire().unwrap().fencing_token().unwrap();
        assert!(token > last, "{round}: {token} after {last}");
        last = token;
        if round % 5 == 4 { masters[0].restart_empty().unwrap() } else { masters[0].flush().unwrap() }
    }
}

#[test]
fn they_rise_over_three_hundred_grants() {
    let Some(masters) = masters(3) else { return };
    let clients = [settled(&masters), client(&masters)];
    let (mut last, mut asked) = (0, 0);
    let mut paused = None;
    for i in 0..300 {
        // One master at a time stands still for a while, each in turn.
        if i % 10 == 0 {
            if let Some(p) = paused.take() {
                let master: &redleash_testkit::Server = &masters[p];
                master.resume().unwrap();
            }
            if i % 20 == 10 {
                masters[(i / 20) % 3].pause().unwrap();
                paused = Some((i / 20) % 3);
            }
        }
        // And their counters are pulled apart: now this one is far ahead, now that one.
        if i % 5 == 3 {
            let ahead = (0..3).map(|m| (i + m) % 3).find(|m| Some(*m) != paused).unwrap();
            assert!(masters[ahead].command(&["INCRBY", &fence_key("x"), "1000000"]).unwrap().int().is_some());
        }
        let client = &clients[i % 2];
        let fenced = i % 3 == 0;
        let guard = client.lock("x").options(Options::new().fenced(fenced)).acquire().unwrap();
        // Not every holder asks.
        if fenced || i % 3 == 1 {
            let token = guard.fencing_token().unwrap_or_else(|e| panic!("grant {i}: {e}"));
            assert!(token > last, "grant {i} has {token}, after {last}");
            assert!(token < 1 << 53);
            assert_eq!(guard.fencing_token().unwrap(), token, "remembered");
            last = token;
            asked += 1;
        }
        guard.check().unwrap();
        drop(guard);
    }
    assert_eq!(asked, 200);
}

#[test]
fn they_rise_when_all_masters_forget() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).max_lease(secs(2)).ttl(secs(2)));
    let mut last = 0;
    for round in 0..3 {
        for fenced in [true, false] {
            let guard = client.lock("x").options(Options::new().fenced(fenced)).acquire().unwrap();
            let token = guard.fencing_token().unwrap();
            assert!(token > last, "round {round}: {token} after {last}");
            last = token;
        }
        if round < 2 {
            for master in &*masters {
                master.flush().unwrap();
            }
        }
    }
}

#[test]
fn a_token_outlives_extensions_and_renewals() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().lease(Lease::Watchdog { ttl: secs(2) })).acquire().unwrap();
    let token = guard.fencing_token().unwrap();
    guard.extend(secs(3)).unwrap();
    support::always(secs(3), "the same token", || guard.fencing_token().unwrap() == token);
    assert_eq!(guard.release(), ReleaseOutcome::Released);
}

#[test]
fn asked_for_in_the_acquire_it_costs_no_round_more() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().fenced(true)).acquire().unwrap();
    // Nobody answers any more, and it is known all the same.
    masters.iter().for_each(|m| m.pause().unwrap());
    assert!(guard.fencing_token().unwrap() > 0);
    masters.iter().for_each(|m| m.resume().unwrap());
    drop(guard);
    no_keys_left(&masters);
}

#[test]
fn without_a_quorum_there_is_no_token_but_still_a_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    masters[0].pause().unwrap();
    masters[1].pause().unwrap();
    assert!(matches!(guard.fencing_token(), Err(Error::NoQuorum(_))));
    guard.check().unwrap();
    masters[0].resume().unwrap();
    masters[1].resume().unwrap();
    eventually("ask again", || guard.fencing_token().is_ok());
}

/// A call that asks for a token with the lock gets both or neither.
#[test]
fn a_fenced_lock_whose_token_no_quorum_takes_is_given_back() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let proxies = [1, 2].map(|i| Proxy::start(masters[i].port(), Fault::CutAt(b"-- write_back:")).unwrap());
    let urls = [masters[0].url(), proxies[0].url(), proxies[1].url()];
    let client = builder(urls).build().unwrap();
    // One counter is ahead, so the token has to be written back to others.
    let ahead = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + secs(10);
    assert!(masters[0].command(&["SET", &fence_key("x"), &ahead.as_micros().to_string()]).unwrap().is_ok());
    let lock = client.lock("x").options(Options::new().fenced(true));
    // Unless the two that agree were the first to vote.
    eventually("no quorum takes it", || matches!(lock.try_acquire(), Err(Error::NoQuorum(_))));
    assert!(proxies.iter().map(Proxy::misbehaved).sum::<u64>() > 0, "no token was written back");
    eventually("the lock is given back", || masters.iter().all(|m| lock_keys(m) == 0));
    proxies.iter().for_each(Proxy::mend);
    lock.acquire().unwrap().fencing_token().unwrap();
}

#[test]
fn a_lost_lock_gives_no_token() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard =
        client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: support::ms(200) })).acquire().unwrap();
    eventually("over", || guard.check().is_err());
    assert!(matches!(guard.fencing_token(), Err(Error::Lost(_))));
    // One that was drawn in time is remembered, and the resource refuses it when a later one was there.
    let first = client.lock("y").options(Options::new().fenced(true)).acquire().unwrap();
    let token = first.fencing_token().unwrap();
    drop(first);
    let second = client.lock("y").acquire().unwrap();
    assert!(second.fencing_token().unwrap() > token);
}

#[test]
fn on_one_master_and_on_five() {
    for n in [1, 5] {
        let Some(masters) = masters(n) else { return };
        let client = if n == 1 { client(&masters) } else { settled(&masters) };
        let mut last = 0;
        for i in 0..60 {
            let guard = client.lock("x").options(Options::new().fenced(i % 2 == 0)).acquire().unwrap();
            let token = guard.fencing_token().unwrap();
            assert!(token > last, "{n} masters: {token} after {last}");
            last = token;
        }
    }
}

#[test]
fn tokens_of_contending_threads_follow_the_order_of_the_grants() {
    let Some(masters) = masters(3) else { return };
    let clients = [settled(&masters), client(&masters)];
    let seen = std::sync::Mutex::new(Vec::new());
    let eager = redleash::Retry::Backoff { min: support::ms(1), max: support::ms(4), cap: support::ms(10) };
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (client, seen, eager) = (&clients[t % 2], &seen, eager.clone());
            scope.spawn(move || {
                let lock = client.lock("x").options(Options::new().fenced(t < 2).retry(eager));
                for _ in 0..25 {
                    let guard = lock.acquire().unwrap();
                    let token = guard.fencing_token().unwrap();
                    seen.lock().unwrap().push(token); // while it is held: the order of the grants
                    drop(guard);
                }
            });
        }
    });
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), 100);
    assert!(seen.windows(2).all(|w| w[0] < w[1]), "{seen:?}");
}

/// Else a counter is raised by somebody who holds nothing, or a lost one is raised from the master's clock while a
/// token of before the loss may still be ahead of that.
#[test]
fn a_counter_is_raised_for_the_holder_only_and_by_a_settled_master_only() {
    let Some(masters) = masters(1) else { return };
    let master = &masters[0];
    let field = |section: &str, name: &str| {
        let info = master.command(&["INFO", section]).unwrap().text().unwrap();
        info.lines().find_map(|l| l.strip_prefix(name)).unwrap()[..24].to_string()
    };
    let identity = field("server", "run_id:") + &field("replication", "master_replid:");
    let text = redleash::unversioned::scripts().into_iter().find(|s| s.name == "fence").unwrap().text;
    let (lock, counter) = (support::lock_key("x"), fence_key("x"));
    let ask = || {
        let keys = [lock.as_str(), &counter, support::GENERATION, "rl:R:{x}"];
        let args = ["ours", "", &identity, "60000:default:1:1", "00000000000000aaaa", "60000000"];
        master.command(&[&["EVAL", text, "4"], &keys[..], &args[..]].concat()).unwrap().items()[0].int().unwrap()
    };
    let raised = || master.command(&["GET", &counter]).unwrap().text().is_some();
    let hold = |value: &str| assert!(master.command(&["SET", &lock, value]).unwrap().is_ok());
    hold("ours");
    assert_eq!((ask(), raised()), (-1, false), "its memory is new");
    let settled = format!("{identity}:1:60000:default:1:1:00000000000000aaaa");
    assert!(master.command(&["SET", support::GENERATION, &settled]).unwrap().is_ok());
    hold("another's");
    assert_eq!((ask(), raised()), (0, false), "another holds the lock");
    assert!(master.command(&["DEL", &lock]).unwrap().int().is_some());
    assert_eq!((ask(), raised()), (2, false), "nobody holds the lock");
    hold("ours");
    assert_eq!((ask(), raised()), (1, true));
}
