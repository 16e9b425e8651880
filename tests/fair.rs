//! Processes that want the same lock take turns, and the fencing tokens rise over all of them.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

mod support;

use rustix::time::{ClockId, clock_gettime};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use support::child::{Child, hear, say, task};
use support::servers::Cluster;
use support::{alone, builder, masters, ms, no_keys_left, secs, settled};

const THREADS: usize = 8;

/// One hold: its fencing token (zero if it was not asked for), and when it began and ended by the clock of all processes.
#[derive(Clone, Copy, Debug)]
struct Hold {
    token: u64,
    from: i64,
    to: i64,
}

/// Nanoseconds of the clock that all processes of this machine read.
fn now() -> i64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Two processes contend for one lock with eight threads each for `span`; their holds, in the order in which each held.
fn contend(masters: &Cluster, entry: &str, span: Duration) -> [Vec<Hold>; 2] {
    drop(settled(masters));
    let mut children = [(); 2].map(|()| Child::start(entry, &masters.urls(), &span.as_millis().to_string()));
    children.iter().for_each(|child| drop(child.expect("ready")));
    children.iter_mut().for_each(|child| child.tell("go"));
    children.map(|mut child| {
        let count: usize = child.expect("holds").parse().unwrap();
        let holds = (0..count).map(|_| {
            let line = child.expect("hold");
            let mut words = line.split(' ');
            let mut next = || words.next().unwrap();
            Hold {
                token: next().parse().unwrap(),
                from: next().parse().unwrap(),
                to: next().parse().unwrap(),
            }
        });
        let holds = holds.collect();
        assert!(child.end(support::SOON).success());
        holds
    })
}

/// What a child does; with `tokens` it asks for the fencing token of each hold.
fn contender(entry: &str, tokens: bool) {
    let Some(task) = task(entry) else { return };
    let span = ms(task.arg.parse().unwrap());
    let client = builder(task.nodes).build().unwrap();
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
    for Hold { token, from, to } in holds {
        say(&format!("hold {token} {from} {to}"));
    }
}

/// All holds in the order of time, each with the number of its process.
fn in_order(holds: &[Vec<Hold>; 2]) -> Vec<(usize, Hold)> {
    let mut all: Vec<_> = (0..2).flat_map(|p| holds[p].iter().map(move |hold| (p, *hold))).collect();
    all.sort_by_key(|(_, hold)| hold.from);
    all
}

/// Each process had a third at least, of all holds and of the time.
#[track_caller]
fn fair(holds: &[Vec<Hold>; 2]) {
    let all = in_order(holds);
    let turns = all.chunk_by(|a, b| a.0 == b.0);
    let turns: Vec<_> = turns.map(|turn| (turn[0].0, turn.len(), turn[turn.len() - 1].1.to - turn[0].1.from)).collect();
    let longest = turns.iter().max_by_key(|turn| turn.2).unwrap();
    let what = format!(
        "{} and {} holds in {} turns, the longest {longest:?}",
        holds[0].len(),
        holds[1].len(),
        turns.len()
    );
    eprintln!("{what}");
    for process in holds {
        assert!(process.len() * 3 >= all.len(), "less than a third: {what}");
    }
}

#[test]
fn neither_of_two_processes_gets_less_than_a_third() {
    let Some(masters) = masters(3) else { return };
    let _alone = alone();
    let holds = contend(&masters, "contender_child", secs(10));
    fair(&holds);
    no_keys_left(&masters);
}

#[test]
#[ignore = "the entry of a child process"]
fn contender_child() {
    contender("contender_child", false);
}

#[test]
fn fencing_tokens_rise_over_the_hand_overs_of_two_processes() {
    let Some(masters) = masters(3) else { return };
    let _alone = alone();
    let holds = contend(&masters, "fenced_contender_child", secs(2));
    fair(&holds);
    let all = in_order(&holds);
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

#[test]
#[ignore = "the entry of a child process"]
fn fenced_contender_child() {
    contender("fenced_contender_child", true);
}
