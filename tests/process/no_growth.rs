//! Ten thousand locks later the process has the threads, descriptors and memory that it had.

use crate::support::child::{Child, Task, entry, say};
use crate::support::{self, DEADLINE, builder, eventually, masters, ms, proc, secs, settled};
use redleash::{Client, Lease, Options};

/// Each measurement has a process of its own: the other tests' servers and clients would be counted too.
fn measured(body: impl FnOnce(Task)) {
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let mut child = Child::start(body, &masters.urls(), "");
    assert!(child.end(secs(120)).success());
    child.expect("measured");
    support::no_keys_left(&masters);
}

#[derive(Debug)]
struct Size {
    threads: usize,
    /// The names of those that the library started.
    ours: Vec<String>,
    descriptors: usize,
    kib: u64,
}

fn size() -> Size {
    Size {
        threads: proc::threads(),
        ours: proc::our_threads(),
        descriptors: proc::descriptors(),
        kib: proc::kib("VmRSS"),
    }
}

#[track_caller]
fn no_larger(before: &Size) {
    // A client has a few threads for life that begin when they are first needed, such as its caretaker, which is when
    // the machine is slow enough: one of a name is no growth. Nor is it when one watchdog of twenty is late and one
    // more begins. A thread that has ended is listed for a moment more.
    let count = |names: &[String], name: &String| names.iter().filter(|n| *n == name).count();
    let same = redleash_testkit::wait_until(DEADLINE, || {
        let now = size();
        now.ours.iter().all(|name| count(&now.ours, name) <= (5 * count(&before.ours, name) / 4).max(1))
            && now.threads - now.ours.len() <= before.threads - before.ours.len()
    });
    assert!(same, "{:?}, and now {:?}", before, size());
    eventually("the descriptors of before", || proc::descriptors() <= before.descriptors);
    let after = size();
    // Ten thousand leaks of a hundred bytes are a megabyte; allocators keep a little, tests of a megabyte would be
    // flaky.
    assert!(after.kib < before.kib + 4 * 1024, "{before:?} grew to {after:?}");
}

/// A lock's life in every way.
fn cycle(client: &Client, i: usize) {
    let lock = client.lock("x").options(Options::new().fenced(i.is_multiple_of(7)));
    match i % 5 {
        0 => assert_eq!(lock.acquire().unwrap().release(), redleash::ReleaseOutcome::Released),
        1 => lock.with(|guard| guard.check()).unwrap(),
        2 => {
            let guard = lock.acquire().unwrap();
            guard.on_lost(|_| ());
            let _ = guard.lost().clone();
            guard.extend(secs(40)).unwrap();
        }
        3 => {
            let outer = client.reentrant_lock("x").acquire().unwrap();
            let inner = client.reentrant_lock("x").acquire().unwrap();
            drop((outer, inner));
        }
        // Names that never come again must leave nothing in the process.
        _ => drop(client.lock(&format!("once/{i}")).acquire().unwrap()),
    }
}

#[test]
fn ten_thousand_cycles() {
    entry(cycles_child);
    measured(cycles_child);
}

fn cycles_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    // As long as it grows into its working size.
    for i in 0..3_000 {
        cycle(&client, i);
    }
    let before = size();
    for i in 0..10_000 {
        cycle(&client, i);
    }
    no_larger(&before);
    client.close(secs(10));
    say("measured");
}

#[test]
fn clients_come_and_go() {
    entry(clients_child);
    measured(clients_child);
}

fn clients_child(task: Task) {
    let life = |i: usize| {
        let client = builder(task.urls.clone()).build().unwrap();
        drop(client.lock("x").acquire().unwrap());
        if i.is_multiple_of(2) {
            assert_eq!(client.close(DEADLINE).threads_left, 0);
        }
    };
    (0..20).for_each(life);
    eventually("all threads of the first clients have ended", || proc::our_threads().is_empty());
    let before = size();
    (0..150).for_each(life);
    no_larger(&before);
    eventually("none of the library's threads", || proc::our_threads().is_empty());
    say("measured");
}

#[test]
fn watchdogs_and_losses_come_and_go() {
    entry(losses_child);
    measured(losses_child);
}

fn losses_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    let wave = || {
        // Renewed at least once each, so each has had its watchdog; and as many that are lost.
        let renewed = Options::new().lease(Lease::Watchdog { ttl: secs(2) });
        let lost = Options::new().lease(Lease::Fixed { ttl: ms(500) });
        let guards: Vec<_> = (0..20)
            .flat_map(|i| [(i, renewed.clone()), (i + 100, lost.clone())])
            .map(|(i, options)| client.lock(&format!("{i}")).options(options).acquire().unwrap())
            .collect();
        for guard in guards.iter().skip(1).step_by(2) {
            guard.lost().recv_timeout(DEADLINE).unwrap();
        }
        eventually("renewed by a thread each", || proc::watchdogs() >= 20);
        drop(guards);
    };
    wave();
    wave();
    let before = size();
    (0..6).for_each(|_| wave());
    no_larger(&before);
    client.close(secs(10));
    say("measured");
}
