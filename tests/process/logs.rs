//! What the log says: one line per lock and change of its state, one per master and change of its state; the rest is
//! debug.

use crate::support::child::ran_alone;
use crate::support::{self, builder, eventually, masters, ms, secs, settle};
use log::{Level, LevelFilter, Log, Metadata, Record};
use redleash::{Client, LeaseState, LockGuard, ReleaseOutcome, WatchdogMode};
use redleash_testkit::Server;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Keeps every line. The tests of this file run side by side, so each looks for its own locks and masters.
struct Keep(Mutex<Vec<(Level, String)>>);

static KEEP: Keep = Keep(Mutex::new(Vec::new()));

impl Keep {
    fn kept(&self) -> MutexGuard<'_, Vec<(Level, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log for Keep {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        self.kept().push((record.level(), record.args().to_string()));
    }

    fn flush(&self) {}
}

fn keep_the_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&KEEP).unwrap();
        log::set_max_level(LevelFilter::Debug);
    });
}

/// The lines of `level` that begin with `start`.
fn lines(level: Level, start: &str) -> Vec<String> {
    let kept = KEEP.kept();
    kept.iter().filter(|(l, text)| *l == level && text.starts_with(start)).map(|(_, text)| text.clone()).collect()
}

fn of_lock(level: Level, name: &str) -> Vec<String> {
    lines(level, &format!("lock {name:?}"))
}

fn of_master(level: Level, master: &Server) -> Vec<String> {
    lines(level, &format!("127.0.0.1:{} ", master.port()))
}

#[test]
fn a_release_that_meets_a_renewal_logs_no_loss() {
    if ran_alone() {
        return;
    }
    keep_the_log();
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(ms(900)));
    let shared = builder(masters.urls()).ttl(ms(900)).watchdog(WatchdogMode::Shared).build().unwrap();
    let race = |client: &Client, name: String, offset: Duration| -> Option<String> {
        let guard = client.lock(&name).acquire().unwrap();
        // A renewal is due a third of the ttl after the grant: the release comes at that time, not at a state.
        let due = Instant::now() + ms(299) + offset;
        thread::sleep(due - Instant::now());
        (guard.release() == ReleaseOutcome::Released).then_some(name)
    };
    let released: Vec<String> = thread::scope(|scope| {
        let racer = |t: u64| {
            let client = if t.is_multiple_of(2) { &client } else { &shared };
            let offset = move |i: u64| Duration::from_micros((t * 10 + i) * 23 % 3_000);
            move || (0..10).filter_map(|i| race(client, format!("race/{t}/{i}"), offset(i))).collect::<Vec<_>>()
        };
        let racers: Vec<_> = (0..30).map(|t| scope.spawn(racer(t))).collect();
        racers.into_iter().flat_map(|r| r.join().unwrap()).collect()
    });
    // The threads that renew have ended, so nothing is logged any more.
    assert_eq!((client.close(support::DEADLINE).threads_left, shared.close(support::DEADLINE).threads_left), (0, 0));
    assert!(released.len() > 150, "{} of 300 were released in time", released.len());
    let kept = KEEP.kept().clone();
    let about = |text: &str| released.iter().any(|name| text.contains(&format!("{name:?}")));
    let wrong = |text: &str| ["lost", "failed", "not renewed", "ends in"].iter().any(|w| text.contains(w));
    let wrong: Vec<_> = kept.iter().filter(|(_, text)| about(text) && wrong(text)).collect();
    assert!(wrong.is_empty(), "{} lines about locks that were released well, such as {:?}", wrong.len(), wrong[0]);
}

#[test]
fn an_outage_is_a_line_per_lock_and_per_master_and_so_is_its_end() {
    if ran_alone() {
        return;
    }
    const EACH: usize = 25;
    keep_the_log();
    let Some(masters) = masters(3) else { return };
    let of = || builder(masters.urls()).ttl(secs(15)).hang_timeout(secs(1));
    let client = settle(of());
    let shared = of().watchdog(WatchdogMode::Shared).build().unwrap();
    let hold = |client: &Client, kind: &str| -> Vec<LockGuard> {
        (0..EACH).map(|i| client.lock(&format!("outage/{kind}/{i}")).acquire().unwrap()).collect()
    };
    let guards: Vec<_> = hold(&client, "each").into_iter().chain(hold(&shared, "together")).collect();
    masters.iter().for_each(|m| m.pause().unwrap());
    let all = |state: LeaseState| guards.iter().all(|g| g.state() == state);
    eventually("all are in jeopardy", || all(LeaseState::Jeopardy));
    let failed = |g: &LockGuard| of_lock(Level::Debug, g.name()).len();
    eventually("renewals fail again and again", || guards.iter().filter(|g| failed(g) >= 2).count() > EACH);
    let both = |level, m: &Server| of_master(level, m).len() == 2;
    eventually("both clients warn of all masters", || masters.iter().all(|m| both(Level::Warn, m)));
    masters.iter().for_each(|m| m.resume().unwrap());
    eventually("all are held", || all(LeaseState::Held));
    eventually("all masters are back", || masters.iter().all(|m| both(Level::Info, m)));
    for guard in &guards {
        // The log is written on a thread of its own, so the last lines come a moment later.
        eventually("its end is logged", || !of_lock(Level::Info, guard.name()).is_empty());
        let [warned, well, lost] = [Level::Warn, Level::Info, Level::Error].map(|level| of_lock(level, guard.name()));
        assert_eq!((warned.len(), well.len(), lost.len()), (1, 1, 0), "{warned:?} {well:?} {lost:?}");
        assert!(warned[0].contains("ends in") && warned[0].contains("0 of 2"), "{warned:?}");
    }
    for master in &*masters {
        // Two clients, and each says it once.
        let (warned, well) = (of_master(Level::Warn, master), of_master(Level::Info, master));
        assert_eq!((warned.len(), well.len()), (2, 2), "{warned:?} {well:?}");
    }
    drop(guards);
}

#[test]
fn a_lock_that_an_outage_ends_is_warned_of_once_and_lost_once() {
    if ran_alone() {
        return;
    }
    keep_the_log();
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(secs(3)));
    let guards: Vec<_> = (0..20).map(|i| client.lock(&format!("ended/{i}")).acquire().unwrap()).collect();
    masters.iter().for_each(Server::kill);
    eventually("all are lost", || guards.iter().all(|g| g.check().is_err()));
    for guard in &guards {
        let lines = |level| of_lock(level, guard.name());
        eventually("its loss is logged", || lines(Level::Error).len() == 1);
        assert!(lines(Level::Warn).len() <= 1 && lines(Level::Info).is_empty(), "{:?}", lines(Level::Warn));
    }
    drop(guards);
    for master in &*masters {
        let warned = of_master(Level::Warn, master);
        assert!(warned.len() == 1 && warned[0].contains("is down"), "{warned:?}");
    }
}

#[test]
fn a_master_that_comes_back_empty_is_down_then_back_then_in_quarantine_then_votes() {
    if ran_alone() {
        return;
    }
    keep_the_log();
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).ttl(ms(500)).max_lease(secs(2)));
    let guard = client.lock("emptied").acquire().unwrap();
    let master = &masters[0];
    let says = |level, what: &str| of_master(level, master).iter().filter(|text| text.contains(what)).count() == 1;
    master.kill();
    eventually("it is down", || says(Level::Warn, "is down"));
    master.restart_empty().unwrap();
    eventually("it is back", || says(Level::Info, "is back"));
    eventually("it is in quarantine", || says(Level::Warn, "in quarantine"));
    eventually("it votes", || says(Level::Info, "votes again"));
    assert_eq!((of_master(Level::Warn, master).len(), of_master(Level::Info, master).len()), (2, 2));
    drop(guard);
}
