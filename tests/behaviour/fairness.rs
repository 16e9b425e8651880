//! Processes that want the same lock get it one after the other, and the fencing tokens rise over all of them.

use crate::support::child::{Child, Task, entry, hear, say};
use crate::support::{DEADLINE, builder, masters, ms, no_keys_left, secs, settled};
use redleash_testkit::Masters;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const THREADS: usize = 8;

/// One hold: its fencing token (zero if it was not asked for), and when it began and ended by the clock that all
/// processes share.
#[derive(Clone, Copy, Debug)]
struct Hold {
    token: u64,
    from: i64,
    to: i64,
}

impl Hold {
    fn write(&self) -> String {
        format!("{} {} {}", self.token, self.from, self.to)
    }

    fn read(text: &str) -> Hold {
        let words: Vec<&str> = text.split(' ').collect();
        Hold { token: words[0].parse().unwrap(), from: words[1].parse().unwrap(), to: words[2].parse().unwrap() }
    }
}

/// Nanoseconds of the clock that all processes of this machine read.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Two processes contend for one lock with eight threads each for `span`; each has said how many holds it had.
fn contend(masters: &Masters, body: impl FnOnce(Task) + Copy, span: Duration) -> [(Child, usize); 2] {
    drop(settled(masters));
    let mut children = [(); 2].map(|()| Child::start(body, &masters.urls(), &span.as_millis().to_string()));
    children.iter().for_each(|child| drop(child.expect("ready")));
    children.iter_mut().for_each(|child| child.tell("go"));
    children.map(|child| {
        let holds = child.expect("holds").parse().unwrap();
        (child, holds)
    })
}

/// The holds of a child, in the order in which it held.
fn holds((child, count): &(Child, usize)) -> Vec<Hold> {
    let line = child.expect("these");
    let holds: Vec<Hold> = line.split(',').map(Hold::read).collect();
    assert_eq!(holds.len(), *count);
    holds
}

/// What a child does; with `tokens` it asks for the fencing token of each hold.
fn contender(task: Task, tokens: bool) {
    let span = ms(task.arg.parse().unwrap());
    let client = builder(task.urls).build().unwrap();
    drop(client.lock("warm up").acquire().unwrap());
    say("ready");
    hear();
    let (holds, end) = (Mutex::new(Vec::new()), Instant::now() + span);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while Instant::now() < end {
                    let guard = client.lock("fair").acquire().unwrap();
                    let from = now();
                    let token = if tokens { guard.fencing_token().unwrap() } else { 0 };
                    guard.check().unwrap();
                    // Before the guard goes, so that this is the order of holding.
                    holds.lock().unwrap().push(Hold { token, from, to: now() });
                    drop(guard);
                }
            });
        }
    });
    let holds = holds.into_inner().unwrap();
    say(&format!("holds {}", holds.len()));
    if tokens {
        say(&format!("these {}", holds.iter().map(Hold::write).collect::<Vec<_>>().join(",")));
    }
}

/// Each process had a third at least of all holds.
#[track_caller]
fn fair(children: &[(Child, usize); 2]) {
    let [one, other] = [children[0].1, children[1].1];
    assert!(one.min(other) * 3 >= one + other, "less than a third: {one} and {other} holds");
}

#[test]
fn neither_of_two_processes_gets_less_than_a_third() {
    entry(contender_child);
    let Some(masters) = masters(3) else { return };
    let mut children = contend(&masters, contender_child, secs(10));
    fair(&children);
    children.iter_mut().for_each(|(child, _)| assert!(child.end(DEADLINE).success()));
    no_keys_left(&masters);
}

fn contender_child(task: Task) {
    contender(task, false);
}

/// Counts the attempts that the library logs as failed, though a master or two gave their votes.
struct Splits(AtomicUsize);

static SPLITS: Splits = Splits(AtomicUsize::new(0));

impl log::Log for Splits {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }
    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        let votes = line.split_once(" votes in ").and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok());
        if votes.is_some_and(|votes: usize| votes > 0) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    fn flush(&self) {}
}

/// Eight processes try a free lock at the same moment, again and again: the votes may be split for a moment, but never
/// for long. Clients that try again after the same pause can split them for ever.
#[test]
fn eight_processes_that_split_the_vote_get_the_lock_all_the_same() {
    entry(rushing_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let mut children: Vec<_> = (0..8).map(|_| Child::start(rushing_child, &masters.urls(), "")).collect();
    children.iter().for_each(|child| drop(child.expect("ready")));
    let (rounds, mut splits) = (50, 0);
    for _ in 0..rounds {
        children.iter_mut().for_each(|child| child.tell("go"));
        splits += children.iter().map(|child| child.expect("split").parse::<usize>().unwrap()).sum::<usize>();
    }
    eprintln!("{splits} split votes for {} locks", rounds * children.len());
    assert!(splits > 0, "no vote was split, so nothing was tested");
    assert!(splits < rounds * children.len() * 4, "{splits} split votes");
    for child in &mut children {
        child.tell("end");
        assert!(child.end(DEADLINE).success());
    }
    no_keys_left(&masters);
}

fn rushing_child(task: Task) {
    log::set_logger(&SPLITS).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let client = builder(task.urls).build().unwrap();
    drop(client.lock("warm up").acquire().unwrap());
    say("ready");
    while hear() == "go" {
        drop(client.lock("rush").acquire().unwrap());
        // The library logs on a thread of its own: what comes late is counted in the next round.
        say(&format!("split {}", SPLITS.0.swap(0, Ordering::SeqCst)));
    }
}

#[test]
fn fencing_tokens_rise_over_the_hand_overs_of_two_processes() {
    entry(fenced_contender_child);
    let Some(masters) = masters(3) else { return };
    let mut children = contend(&masters, fenced_contender_child, secs(2));
    fair(&children);
    let mut all = Vec::new();
    for (process, child) in children.iter().enumerate() {
        let holds = holds(child);
        assert!(holds.is_sorted_by(|one, next| one.token < next.token), "by the order of process {process}");
        all.extend(holds.into_iter().map(|hold| (process, hold)));
    }
    children.iter_mut().for_each(|(child, _)| assert!(child.end(DEADLINE).success()));
    // By the clock that both read.
    all.sort_by_key(|(_, hold)| hold.from);
    for pair in all.windows(2) {
        let [(_, one), (_, next)] = pair else { unreachable!("windows of two") };
        assert!(one.to <= next.from, "two held it at once: {pair:?}");
        assert!(one.token < next.token, "a token did not rise: {pair:?}");
    }
    // Both processes handed the lock over, within and between them.
    let passed = all.windows(2).filter(|w| w[0].1.token + 1 == w[1].1.token).count();
    let changed = all.windows(2).filter(|w| w[0].0 != w[1].0).count();
    assert!(passed > 0 && changed > 1, "{passed} hand-overs, {changed} changes of the process, {} holds", all.len());
    no_keys_left(&masters);
}

fn fenced_contender_child(task: Task) {
    contender(task, true);
}
