//! Waiting: waiters are woken by releases, queue within a process, and hand over without the masters.

use crate::support::{
    self, builder, client, eventually, lock_keys, masters, ms, no_keys_left, secs, settle, settled, value,
};
use redleash::unversioned::queued;
use redleash::{Client, Error, Lease, Options, ReleaseOutcome, Retry};
use redleash_testkit::{Fault, Masters, Proxy, Server};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

fn waiters_key(name: &str) -> String {
    format!("rl:W:{{{name}}}")
}

/// The channels on which waiters of a lock listen at a master, one for each client.
fn channels(master: &Server, name: &str) -> Vec<String> {
    let channels = master.command(&["PUBSUB", "CHANNELS", &format!("rl:C:{{{name}}}:*")]);
    channels.map_or(Vec::new(), |reply| reply.items().iter().map(|channel| channel.text().unwrap()).collect())
}

/// How often a master was asked for something, by its own statistics.
fn calls(master: &Server, command: &str) -> u64 {
    let text = master.command(&["INFO", "commandstats"]).unwrap().text().unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

/// The line of those who wait at a master: since when each does, its number, and until when.
pub(crate) fn wait_list(master: &Server, name: &str) -> Vec<[u64; 3]> {
    let text = master.command(&["GET", &waiters_key(name)]).ok().and_then(|line| line.text()).unwrap_or_default();
    let entry = |entry: &str| {
        let numbers: Vec<u64> = entry.split(':').map(|n| n.parse().unwrap()).collect();
        numbers.try_into().unwrap()
    };
    text.split(',').skip(1).map(entry).collect()
}

/// Polls so rarely that only a message can have woken it.
pub(crate) fn lazy() -> Options {
    Options::new().retry(Retry::Backoff { min: secs(50), max: secs(50), cap: secs(50) })
}

/// A waiter in a thread; it tells when it has the lock, and releases it.
pub(crate) fn waiter(client: &Client, name: &str, options: Options) -> thread::JoinHandle<Result<Duration, Error>> {
    let lock = client.lock(name).options(options);
    thread::spawn(move || {
        let start = Instant::now();
        let guard = lock.acquire()?;
        let took = start.elapsed();
        assert!(matches!(guard.release(), ReleaseOutcome::Released));
        Ok(took)
    })
}

fn all_wait_for(masters: &Masters, name: &str, at_least: usize) {
    let heard = || masters.iter().filter(|m| !channels(m, name).is_empty()).count() >= at_least;
    eventually("the waiter is subscribed", heard);
    eventually("the waiter is in the wait lists", || {
        masters.iter().filter(|m| !wait_list(m, name).is_empty()).count() >= at_least
    });
}

#[test]
fn a_release_wakes_a_waiter_of_another_client() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("wake").acquire().unwrap();
    let waiting = waiter(&other, "wake", lazy());
    all_wait_for(&masters, "wake", 3);
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    eventually("the waiter has had it", || waiting.is_finished());
    assert!(waiting.join().unwrap().unwrap() < secs(45), "the poll, not the message, woke it");
    no_keys_left(&masters);
}

#[test]
fn a_new_waiter_is_notified_although_the_releaser_may_want_the_lock_again() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    for _ in 0..20 {
        let guard = holder.lock("young").acquire().unwrap();
        let waiting = waiter(&other, "young", lazy());
        all_wait_for(&masters, "young", 2);
        drop(guard);
        eventually("the waiter has had it", || waiting.is_finished());
        waiting.join().unwrap().unwrap();
    }
}

/// So many are in the wait lists of a quorum: at the other masters an attempt may just have found the lock free.
fn so_many_wait(masters: &Masters, name: &str, count: usize) {
    let known = || masters.iter().filter(|m| wait_list(m, name).len() >= count).count() >= 2;
    eventually("so many are in the wait lists", known);
}

#[test]
fn several_clients_share_a_lock_evenly() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let clients: Vec<Client> = (0..5).map(|_| client(&masters)).collect();
    let holds: Vec<AtomicUsize> = clients.iter().map(|_| AtomicUsize::new(0)).collect();
    let sum = || holds.iter().map(|h| h.load(Ordering::SeqCst)).sum::<usize>();
    thread::scope(|scope| {
        for (client, mine) in clients.iter().zip(&holds) {
            scope.spawn(|| {
                while sum() < 2_000 {
                    let guard = client.lock("shared").acquire().unwrap();
                    mine.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(guard.release(), ReleaseOutcome::Released);
                }
            });
        }
    });
    let least = holds.iter().map(|h| h.load(Ordering::SeqCst)).min().unwrap();
    assert!(least >= 2_000 / 5 / 3, "less than a third of its share: {holds:?}");
    no_keys_left(&masters);
}

/// A process that dropped its guard and took the lock again had sent its next attempt before a notified waiter could
/// come.
#[test]
fn a_client_that_acquires_again_right_after_its_drop_lets_others_in() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    for hold in [Duration::ZERO, ms(2), ms(4), ms(8)] {
        let clients: Vec<Client> = (0..2).map(|_| client(&masters)).collect();
        let [one, other] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let rounds = if hold.is_zero() { 1_000 } else { 150 };
        thread::scope(|scope| {
            for (client, mine) in clients.iter().zip([&one, &other]) {
                scope.spawn(|| {
                    while one.load(Ordering::SeqCst) + other.load(Ordering::SeqCst) < rounds {
                        let guard = client.lock("drops").acquire().unwrap();
                        mine.fetch_add(1, Ordering::SeqCst);
                        support::let_pass(hold);
                        drop(guard);
                    }
                });
            }
        });
        let least = one.load(Ordering::SeqCst).min(other.load(Ordering::SeqCst));
        assert!(least * 5 >= rounds, "{least} of {rounds} holds of {hold:?}");
    }
}

#[test]
fn a_short_hold_wakes_the_next_waiter_too() {
    let Some(masters) = masters(3) else { return };
    let holder = settled(&masters);
    let clients: Vec<Client> = (0..5).map(|_| client(&masters)).collect();
    for _ in 0..5 {
        let guard = holder.lock("chain").acquire().unwrap();
        let waiters: Vec<_> = clients.iter().map(|c| waiter(c, "chain", lazy())).collect();
        so_many_wait(&masters, "chain", clients.len());
        assert_eq!(guard.release(), ReleaseOutcome::Released);
        eventually("all have had it", || waiters.iter().all(|w| w.is_finished()));
        for waiter in waiters {
            assert!(waiter.join().unwrap().unwrap() < secs(45), "the poll, not a message, woke it");
        }
    }
    no_keys_left(&masters);
}

/// A waiter that is in the wait lists before it is subscribed is notified, and hears nothing.
#[test]
fn a_release_before_the_subscription_is_found_when_the_subscription_comes() {
    let Some(masters) = masters(3) else { return };
    let holder = settled(&masters);
    let guard = holder.lock("early").acquire().unwrap();
    let proxies: Vec<Proxy> =
        masters.iter().map(|m| Proxy::start(m.port(), Fault::CutAt(b"SUBSCRIBE")).unwrap()).collect();
    let deaf = builder(proxies.iter().map(Proxy::url)).build().unwrap();
    let waiting = waiter(&deaf, "early", lazy());
    eventually("it is in the wait lists", || masters.iter().all(|m| !wait_list(m, "early").is_empty()));
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    eventually("it was notified", || masters.iter().all(|m| wait_list(m, "early").is_empty()));
    assert!(!waiting.is_finished() && masters.iter().all(|m| channels(m, "early").is_empty()));
    proxies.iter().for_each(|proxy| proxy.set(Fault::None));
    eventually("it has had the lock", || waiting.is_finished());
    assert!(waiting.join().unwrap().unwrap() < secs(45), "the poll, not the subscription, woke it");
}

#[test]
fn a_client_that_ends_right_after_its_release_has_notified() {
    let Some(masters) = masters(3) else { return };
    let other = settled(&masters);
    for _ in 0..10 {
        let short = client(&masters);
        let guard = short.lock("end").acquire().unwrap();
        let waiting = waiter(&other, "end", lazy());
        all_wait_for(&masters, "end", 2);
        assert_eq!(guard.release(), ReleaseOutcome::Released);
        drop(short);
        eventually("the waiter has had it", || waiting.is_finished());
        assert!(waiting.join().unwrap().unwrap() < secs(45), "the poll, not the message, woke it");
    }
}

#[test]
fn a_waiter_keeps_its_place_for_as_long_as_it_may_pause_and_no_longer_than_it_waits() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("place").acquire().unwrap();
    let place = |master: &Server| wait_list(master, "place").first().map(|[since, _, until]| until - since);
    let custom = Options::new().retry(Retry::Custom(Arc::new(|_| secs(50))));
    for options in [lazy(), custom] {
        let (client, waiting) = (client(&masters), Arc::new(AtomicBool::new(true)));
        let (lock, on) = (client.lock("place").options(options), waiting.clone());
        let waiter = thread::spawn(move || lock.acquire_while(None, || on.load(Ordering::SeqCst)));
        eventually("it has its place", || masters.iter().all(|m| place(m).is_some_and(|us| us > 50_000_000)));
        waiting.store(false, Ordering::SeqCst);
        assert!(waiter.join().unwrap().unwrap().is_none());
        for master in &masters[..] {
            master.command(&["DEL", &waiters_key("place")]).unwrap();
        }
    }
    let short = other.lock("place");
    let on = Arc::new(AtomicBool::new(true));
    let goes_on = on.clone();
    // Again and again, because a look may miss a wait of one second.
    let waiter = thread::spawn(move || {
        while goes_on.load(Ordering::SeqCst) {
            assert!(short.try_acquire_for(secs(1)).unwrap().is_none());
        }
    });
    // Behind what an attempt of the others that was still on its way may have left.
    let short_place = |m: &Server| wait_list(m, "place").iter().any(|[since, _, until]| until - since <= 1_000_000);
    eventually("it has its place", || masters.iter().all(short_place));
    on.store(false, Ordering::SeqCst);
    waiter.join().unwrap();
    guard.check().unwrap();
}

/// Waiters that were killed are notified in vain: each costs the release that notified it, and the next waiter comes at
/// its poll.
#[test]
fn dead_waiters_cost_the_others_one_poll_at_most_and_the_list_forgets_them() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    for dead in [1, 5] {
        let guard = holder.lock("dead").acquire().unwrap();
        let poll = Retry::Backoff { min: secs(2), max: secs(2), cap: secs(2) };
        let waiting = waiter(&other, "dead", Options::new().retry(poll));
        all_wait_for(&masters, "dead", 3);
        for master in &masters[..] {
            // They came first, and nobody answers to their numbers.
            let places: String = (1..=dead).map(|n| format!(",{n}:{n}:9000000000000000")).collect();
            let text = master.command(&["GET", &waiters_key("dead")]).unwrap().text().unwrap();
            let (begun, rest) = text.split_once(',').unwrap();
            master.command(&["SET", &waiters_key("dead"), &format!("{begun}{places},{rest}"), "PX", "60000"]).unwrap();
        }
        assert_eq!(guard.release(), ReleaseOutcome::Released);
        assert!(waiting.join().unwrap().unwrap() < secs(20), "it came at its poll");
        let left = masters.iter().map(|m| wait_list(m, "dead").len()).max().unwrap();
        assert!(left < dead, "{left} of {dead} dead waiters are still in the list");
        // A process that wants the lock again yields to the dead waiter for a moment, and no longer.
        for _ in 0..dead {
            drop(holder.lock("dead").try_acquire_for(secs(20)).unwrap().unwrap());
        }
        for master in &masters[..] {
            master.command(&["DEL", &waiters_key("dead")]).unwrap();
        }
    }
}

#[test]
fn a_dropped_guard_wakes_a_waiter_too() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("wake").acquire().unwrap();
    let waiting = waiter(&other, "wake", lazy());
    all_wait_for(&masters, "wake", 3);
    drop(guard);
    eventually("the waiter has had it", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
}

#[test]
fn two_of_three_masters_are_enough_to_wake_a_waiter() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    masters[2].kill();
    let guard = holder.lock("wake").acquire().unwrap();
    let waiting = waiter(&other, "wake", lazy());
    all_wait_for(&masters, "wake", 2);
    drop(guard);
    eventually("the waiter has had it", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
}

#[test]
fn wake_ups_survive_a_master_that_was_killed_and_came_back() {
    let Some(masters) = masters(3) else { return };
    let holder = settle(builder(masters.urls()).max_lease(secs(2)).ttl(secs(1)));
    let other = builder(masters.urls()).max_lease(secs(2)).ttl(secs(1)).outage_patience(secs(300)).build().unwrap();
    let guard = holder.lock("wake").acquire().unwrap();
    let waiting = waiter(&other, "wake", lazy());
    all_wait_for(&masters, "wake", 3);
    for master in &masters[..2] {
        master.restart_empty().unwrap();
        eventually("the waiter is subscribed again", || !channels(master, "wake").is_empty());
        eventually("the key is back after the quarantine", || value(master, "wake").is_some());
    }
    // Two masters have forgotten that somebody waits; the third alone knows, and one message is enough.
    guard.check().unwrap();
    drop(guard);
    eventually("the waiter has had it", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
}

#[test]
fn without_messages_the_poll_finds_a_free_lock() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("poll").acquire().unwrap();
    let waiting = waiter(&other, "poll", Options::new());
    all_wait_for(&masters, "poll", 3);
    for master in &masters[..] {
        assert_eq!(master.command(&["DEL", &waiters_key("poll")]).unwrap().int(), Some(1));
    }
    let published: Vec<u64> = masters.iter().map(|m| calls(m, "publish")).collect();
    drop(guard);
    eventually("the waiter has had it", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
    // A poll may have registered again before the release, but mostly nobody was notified.
    let more = masters.iter().zip(published).filter(|(m, before)| calls(m, "publish") > *before).count();
    assert!(more <= 3);
}

#[test]
fn a_release_says_nothing_where_nobody_waits() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    for _ in 0..20 {
        assert_eq!(client.lock("quiet").acquire().unwrap().release(), ReleaseOutcome::Released);
    }
    assert!(masters.iter().all(|m| calls(m, "publish") == 0));
}

#[test]
fn a_flood_of_forged_messages_causes_few_attempts() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("flood").acquire().unwrap();
    let waiting = waiter(&other, "flood", lazy());
    all_wait_for(&masters, "flood", 3);
    let before: Vec<u64> = masters.iter().map(|m| calls(m, "eval") + calls(m, "evalsha")).collect();
    let [_, number, _] = wait_list(&masters[0], "flood")[0];
    let forged = ["1", "not a number", "5", &format!("1:{number}"), &number.to_string()];
    let channel = channels(&masters[0], "flood").pop().unwrap();
    for n in 0..4_000 {
        for master in &masters[..] {
            master.command(&["PUBLISH", &channel, forged[n % forged.len()]]).unwrap();
        }
    }
    for (master, before) in masters.iter().zip(before) {
        let attempts = calls(master, "eval") + calls(master, "evalsha") - before;
        // Each attempt is undone: two scripts, and a renewal may come in between.
        assert!((64..=2 * 64 + 8).contains(&attempts), "{attempts} scripts");
    }
    assert!(!waiting.is_finished());
    drop(guard);
    // Its credit is used up and its poll is rare: one more message changes nothing. It waits.
    assert!(holder.lock("flood").try_acquire().unwrap().is_some_and(|g| g.check().is_ok()));
    other.close(secs(5));
    assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
}

#[test]
fn threads_of_one_client_get_the_lock_in_the_order_in_which_they_came() {
    let Some(masters) = masters(3) else { return };
    for hand_over in [Duration::ZERO, secs(10)] {
        let client = settle_again(&masters, |b| b.hand_over(hand_over));
        let guard = client.lock("fifo").acquire().unwrap();
        let (order, mut threads) = (Arc::new(Mutex::new(Vec::new())), Vec::new());
        for k in 0..8 {
            let (lock, order) = (client.lock("fifo"), order.clone());
            threads.push(thread::spawn(move || {
                let guard = lock.acquire().unwrap();
                order.lock().unwrap().push(k);
                guard.check().unwrap();
            }));
            eventually("the thread is in the local queue", || queued(&client, "fifo") == k + 1);
        }
        drop(guard);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..8).collect::<Vec<_>>(), "hand-over budget {hand_over:?}");
    }
    no_keys_left(&masters);
}

/// A client of masters that may be settled already.
fn settle_again(masters: &Masters, with: impl FnOnce(redleash::ClientBuilder) -> redleash::ClientBuilder) -> Client {
    let client = with(builder(masters.urls())).build().unwrap();
    let _ = client.init();
    client
}

#[test]
fn a_lease_is_handed_over_without_the_masters_and_its_token_rises() {
    let Some(masters) = masters(3) else { return };
    let client = settle_again(&masters, |b| b.hand_over(secs(10)));
    let first = client.lock("hand").acquire().unwrap();
    let token = first.fencing_token().unwrap();
    let stored = value(&masters[0], "hand").unwrap();
    let lock = client.lock("hand");
    let (told, hear) = mpsc::channel();
    let second = thread::spawn(move || {
        let guard = lock.acquire().unwrap();
        told.send((guard.fencing_token().unwrap(), guard.state())).unwrap();
        guard
    });
    eventually("the second is in the local queue", || queued(&client, "hand") == 1);
    let lost = first.lost().clone();
    assert_eq!(first.release(), ReleaseOutcome::Released);
    let (next, state) = hear.recv_timeout(support::DEADLINE).unwrap();
    assert_eq!((next, state), (token + 1, redleash::LeaseState::Held));
    assert_eq!(value(&masters[0], "hand").unwrap(), stored, "the masters know of nothing");
    // The first holder's signal has ended: disconnected, and nothing in it.
    assert!(lost.try_recv().is_err_and(|e| e.is_disconnected()));
    let second = second.join().unwrap();
    assert!(second.lost().try_recv().is_err_and(|e| e.is_empty()));
    second.check().unwrap();
    drop(second);
    no_keys_left(&masters);
    let third = client.lock("hand").acquire().unwrap();
    assert!(third.fencing_token().unwrap() > next);
}

#[test]
fn tokens_rise_over_many_hand_overs_and_releases() {
    let Some(masters) = masters(3) else { return };
    let client = settle_again(&masters, |b| b.hand_over(secs(60)));
    let tokens = Arc::new(Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let guard = client.lock("rise").acquire().unwrap();
                    tokens.lock().unwrap().push(guard.fencing_token().unwrap());
                    drop(guard);
                }
            });
        }
    });
    let tokens = tokens.lock().unwrap();
    assert_eq!(tokens.len(), 400);
    assert!(tokens.windows(2).all(|w| w[0] < w[1]), "{tokens:?}");
}

#[test]
fn a_callback_of_a_former_holder_is_not_called_for_the_next() {
    let Some(masters) = masters(1) else { return };
    let client = settle_again(&masters, |b| b.hand_over(secs(10)));
    let called = Arc::new(AtomicBool::new(false));
    let first = client.lock("cb").acquire().unwrap();
    let flag = called.clone();
    first.on_lost(move |_| flag.store(true, Ordering::SeqCst));
    let lock = client.lock("cb");
    let second = thread::spawn(move || lock.acquire().unwrap());
    eventually("the second is in the local queue", || queued(&client, "cb") == 1);
    drop(first);
    let second = second.join().unwrap();
    client.force_release("cb").unwrap();
    assert!(second.verify().is_err());
    assert!(second.lost().recv_timeout(support::DEADLINE).is_ok());
    assert!(!called.load(Ordering::SeqCst));
}

#[test]
fn leases_that_belong_to_one_holder_are_not_handed_over() {
    let Some(masters) = masters(3) else { return };
    let client = settle_again(&masters, |b| b.hand_over(secs(10)));
    let cases = [
        Options::new().lease(Lease::Fixed { ttl: secs(20) }),
        Options::new().max_hold(secs(20)),
        Options::new().min_hold(ms(1)),
        Options::new().hand_over(Duration::ZERO),
    ];
    for (k, options) in cases.into_iter().enumerate() {
        let name = format!("own{k}");
        let lock = client.lock(&name).options(options);
        let first = lock.acquire().unwrap();
        let stored = value(&masters[0], &name).unwrap();
        let second = thread::spawn(move || lock.acquire().unwrap());
        eventually("the second is in the local queue", || queued(&client, &name) == 1);
        drop(first);
        let second = second.join().unwrap();
        assert_ne!(value(&masters[0], &name).unwrap(), stored, "case {k}");
        drop(second);
    }
}

#[test]
fn a_waiter_with_other_options_gets_a_lease_of_its_own() {
    let Some(masters) = masters(3) else { return };
    let client = settle_again(&masters, |b| b.hand_over(secs(10)));
    let first = client.lock("own").acquire().unwrap();
    let lock = client.lock("own").options(Options::new().lease(Lease::Watchdog { ttl: secs(5) }));
    let second = thread::spawn(move || lock.acquire().unwrap());
    eventually("the second is in the local queue", || queued(&client, "own") == 1);
    drop(first);
    assert!(second.join().unwrap().remaining() <= secs(5));
}

#[test]
fn a_wait_that_ends_in_the_local_queue_leaves_no_trace() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("line").acquire().unwrap();
    let before: Vec<u64> = masters.iter().map(|m| calls(m, "set")).collect();
    let start = Instant::now();
    assert!(client.lock("line").try_acquire_for(ms(100)).unwrap().is_none());
    assert!(start.elapsed() >= ms(100));
    assert!(client.lock("line").try_acquire().unwrap().is_none());
    for (master, before) in masters.iter().zip(before) {
        assert_eq!(calls(master, "set"), before, "a thread of this process holds it, so no master was asked");
    }
    drop(guard);
    eventually("it is free at once", || client.lock("line").try_acquire().unwrap().is_some());
    no_keys_left(&masters);
}

#[test]
fn a_lost_lock_lets_the_local_queue_go_on_while_its_guard_lives() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("lost").options(Options::new().lease(Lease::Fixed { ttl: ms(300) })).acquire().unwrap();
    let waiting = waiter(&client, "lost", Options::new());
    eventually("the next one has had it", || waiting.is_finished());
    waiting.join().unwrap().unwrap();
    assert!(guard.check().is_err());
}

#[test]
fn closing_a_client_ends_its_waits() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("close").acquire().unwrap();
    let waiting: Vec<_> = (0..3).map(|_| waiter(&other, "close", lazy())).collect();
    all_wait_for(&masters, "close", 3);
    let report = other.close(secs(10));
    assert_eq!(report.threads_left, 0, "{report:?}");
    for waiter in waiting {
        assert!(matches!(waiter.join().unwrap(), Err(Error::Closed)));
    }
    drop(guard);
}

#[test]
fn in_an_outage_every_waiter_gets_its_error_in_its_own_time() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).outage_patience(secs(1)));
    masters[0].kill();
    masters[1].kill();
    let start = Instant::now();
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let lock = client.lock("outage");
            thread::spawn(move || lock.acquire().map(drop))
        })
        .collect();
    for thread in threads {
        assert!(matches!(thread.join().unwrap(), Err(Error::NoQuorum(_))));
    }
    assert!(start.elapsed() < secs(5), "one after the other: {:?}", start.elapsed());
}

#[test]
fn a_subscription_ends_some_time_after_the_last_waiter() {
    let Some(masters) = masters(3) else { return };
    let (holder, other) = (settled(&masters), client(&masters));
    let guard = holder.lock("linger").acquire().unwrap();
    assert!(other.lock("linger").try_acquire_for(ms(200)).unwrap().is_none());
    eventually("nobody is subscribed", || masters.iter().all(|m| channels(m, "linger").is_empty()));
    drop(guard);
    eventually("no key is left", || masters.iter().all(|m| lock_keys(m) == 0));
}
