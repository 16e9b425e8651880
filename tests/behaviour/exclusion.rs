//! Mutual exclusion under contention: of threads, of processes, and while masters fail in turn.

use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{self, builder, client, masters, ms, no_keys_left, secs, settle, settled};
use redleash::{Client, Options, Retry};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// A file with a number in it, which only a lock makes safe to count up.
struct Counter {
    file: PathBuf,
}

impl Counter {
    fn create(scratch: &redleash_testkit::Scratch) -> Counter {
        let file = scratch.path().join("counter");
        fs::write(&file, "0").unwrap();
        Counter { file }
    }

    fn at(file: &Path) -> Counter {
        Counter { file: file.to_path_buf() }
    }

    fn read(&self) -> u64 {
        fs::read_to_string(&self.file).unwrap().parse().unwrap()
    }

    /// Read, be interrupted, write: it loses an update whenever two are at it. A second file shows the intruder at
    /// once.
    fn count_up(&self) {
        let here = self.file.with_extension("here");
        OpenOptions::new().write(true).create_new(true).open(&here).expect("somebody else is in the critical section");
        let n = self.read();
        thread::yield_now();
        fs::write(&self.file, (n + 1).to_string()).unwrap();
        fs::remove_file(&here).unwrap();
    }
}

/// Short pauses, so that the contenders meet as often as possible.
fn eager() -> Options {
    Options::new().retry(Retry::Backoff { min: ms(1), max: ms(5), cap: ms(20) })
}

fn count_up(client: &Client, counter: &Counter, times: usize) {
    let lock = client.lock("counter").options(eager());
    for _ in 0..times {
        let guard = lock.acquire().unwrap();
        counter.count_up();
        guard.check().unwrap();
    }
}

#[test]
fn threads_of_one_client_and_of_several() {
    let Some(masters) = masters(3) else { return };
    let scratch = redleash_testkit::Scratch::new().unwrap();
    let counter = Counter::create(&scratch);
    let clients = [settled(&masters), client(&masters), client(&masters)];
    thread::scope(|scope| {
        for client in &clients {
            for _ in 0..3 {
                scope.spawn(|| count_up(client, &counter, 25));
            }
        }
    });
    assert_eq!(counter.read(), 9 * 25);
    no_keys_left(&masters);
}

#[test]
fn processes() {
    entry(counting_child);
    let Some(masters) = masters(3) else { return };
    let scratch = redleash_testkit::Scratch::new().unwrap();
    let counter = Counter::create(&scratch);
    drop(settled(&masters));
    let file = counter.file.display().to_string();
    let mut children: Vec<_> = (0..3).map(|_| Child::start(counting_child, &masters.urls(), &file)).collect();
    // All are ready before any begins.
    for child in &children {
        child.expect("ready");
    }
    for child in &mut children {
        child.tell("go");
    }
    for child in &mut children {
        child.expect("counted");
        assert!(child.end(secs(60)).success());
    }
    assert_eq!(counter.read(), 3 * 2 * 20);
    no_keys_left(&masters);
}

fn counting_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    let counter = Counter::at(Path::new(&task.arg));
    say("ready");
    hear();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| count_up(&client, &counter, 20));
        }
    });
    say("counted");
    client.close(secs(5));
}

#[test]
fn while_masters_hang_and_forget_in_turn() {
    let Some(masters) = masters(3) else { return };
    let scratch = redleash_testkit::Scratch::new().unwrap();
    let counter = Counter::create(&scratch);
    let short = || builder(masters.urls()).max_lease(secs(2)).ttl(secs(2)).master_timeout(ms(100));
    let clients = [settle(short()), short().build().unwrap()];
    let over = AtomicBool::new(false);
    let granted = thread::scope(|scope| {
        let workers: Vec<_> = clients
            .iter()
            .flat_map(|client| [client, client])
            .map(|client| {
                let (counter, over) = (&counter, &over);
                scope.spawn(move || {
                    let lock = client.lock("counter").options(eager());
                    let mut granted = 0;
                    while !over.load(Ordering::SeqCst) {
                        // Too few masters at times: an error is right then, a second holder never.
                        if let Ok(Some(guard)) = lock.try_acquire_for(ms(200))
                            && guard.ensure(secs(1)).is_ok()
                        {
                            counter.count_up();
                            granted += 1;
                        }
                    }
                    granted
                })
            })
            .collect();
        for round in 0..9 {
            let master = &masters[round % 3];
            match round / 3 {
                0 => {
                    master.pause().unwrap();
                    support::let_pass(ms(200));
                    master.resume().unwrap();
                }
                1 => master.flush().unwrap(),
                _ => master.restart_empty().unwrap(),
            }
            support::let_pass(ms(600));
        }
        over.store(true, Ordering::SeqCst);
        workers.into_iter().map(|w| w.join().unwrap()).sum::<u64>()
    });
    assert_eq!(counter.read(), granted);
    assert!(granted > 20, "{granted} grants");
}

/// A job that several hosts start in the same second, and that only the first is to run.
#[test]
fn of_callers_that_do_not_wait_one_gets_the_lock() {
    let Some(masters) = masters(3) else { return };
    settled(&masters);
    const CALLERS: usize = 6;
    const NAMES: usize = 300;
    let together = Barrier::new(CALLERS);
    let taken: Vec<AtomicUsize> = (0..NAMES).map(|_| AtomicUsize::new(0)).collect();
    thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                let client = client(&masters);
                for (name, taken) in taken.iter().enumerate() {
                    together.wait();
                    let guard = client.lock(&format!("job {name}")).try_acquire().unwrap();
                    taken.fetch_add(usize::from(guard.is_some()), Ordering::Relaxed);
                    together.wait();
                }
            });
        }
    });
    let often = |n| taken.iter().filter(|taken| taken.load(Ordering::Relaxed) == n).count();
    assert_eq!(often(0) + often(1), NAMES, "two at a time");
    // Without the further questions it was 2 to 3 of 100; with them it is chance, but a small one.
    assert!(often(0) <= 1, "nobody got {} of them", often(0));
}
