//! `cargo bench`: what a lock costs, from the protocol alone to a lock on real servers.
//!
//! Prints medians over rounds; a noisy machine wants ratios within one run, for which `bench/peers` is the tool. The
//! servers are started and stopped here; without redis-server the part that needs them says so.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "a benchmark measures time and stops at the first error"
)]

use redleash::{Client, unversioned};
use redleash_protocol::{Answer, Keys, Mono, Namespace, Owner, Quorum, Round, Rule, Token};
use redleash_testkit::Masters;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() {
    // `cargo test` runs benches with --test: there is nothing to test here but that they start.
    let quick = std::env::args().any(|a| a == "--test");
    let count = if quick { 100 } else { 200_000 };
    protocol_round(count);
    encode_and_decode(count);
    if redleash_testkit::skipped() {
        return;
    }
    let time = Duration::from_millis(if quick { 50 } else { 1_000 });
    reentry(count);
    for masters in [1, 3, 5] {
        for threads in [1, 8] {
            cycle(masters, threads, time);
        }
    }
}

fn report(name: &str, mut nanos: Vec<f64>) {
    nanos.sort_by(f64::total_cmp);
    println!("{name:<48} {:>10.1} ns  (least {:.1}, of {} rounds)", nanos[nanos.len() / 2], nanos[0], nanos.len());
}

/// Times `count` calls of `body`, eleven times over.
fn time_each(name: &str, count: u32, mut body: impl FnMut(u32)) {
    let round = |_| {
        let start = Instant::now();
        (0..count).for_each(&mut body);
        start.elapsed().as_nanos() as f64 / f64::from(count)
    };
    report(name, (0..11).map(round).collect());
}

fn protocol_round(count: u32) {
    let quorum = Quorum::new(3, 0).unwrap();
    let (start, until) = (Mono::from_nanos(1), Mono::from_nanos(1_000));
    time_each("protocol: a round of 3, granted", count, |_| {
        let mut round = Round::new(quorum, Rule::Quorum);
        for i in 0..3 {
            black_box(round.on_answer(i, Answer::Yes(None), start));
        }
        black_box(round.judge(start, until));
    });
}

fn keys_and_owner() -> (Arc<Keys>, Arc<Owner>) {
    let keys = Namespace::new("rl").unwrap().keys("orders/42").unwrap();
    (Arc::new(keys), Arc::new(Owner::new(Token::from_bytes([7; 16]), &Arc::from("host pid 1234"), 1_700_000_000_000)))
}

fn encode_and_decode(count: u32) {
    let (keys, owner) = keys_and_owner();
    let mut out = Vec::new();
    time_each("wire: encode an acquire for 3 masters", count, |_| {
        out.clear();
        unversioned::encode_acquire(&keys, &owner, 30_000, 3, &mut out);
        black_box(&out);
    });
    let settled = b"0123456789012345678901234567890123456789:1:60000:default:3:2:0123456789abcdef";
    let value = owner.value(0);
    let reply = format!(
        "+OK\r\n*2\r\n${}\r\n{}\r\n${}\r\n{value}\r\n",
        settled.len(),
        String::from_utf8_lossy(settled),
        value.len()
    );
    let mut decoder = unversioned::PairDecoder::new(keys, owner, settled);
    time_each("wire: decode the two replies to an acquire", count, |_| {
        assert_eq!(black_box(decoder.decode(reply.as_bytes())), Some(Answer::Yes(None)));
    });
}

fn client(masters: &Masters) -> Client {
    let client = Client::builder().nodes(masters.urls()).build().unwrap();
    client.init().unwrap();
    client
}

fn reentry(count: u32) {
    let masters = Masters::start(3).unwrap();
    let client = client(&masters);
    let lock = client.reentrant_lock("bench/reentry");
    let guard = lock.acquire().unwrap();
    time_each("re-entry, enter and leave", count, |_| drop(black_box(lock.acquire().unwrap())));
    time_each("check of a held guard", count, |_| black_box(guard.check()).unwrap());
}

fn cycle(n: usize, threads: usize, time: Duration) {
    let masters = Masters::start(n).unwrap();
    let client = client(&masters);
    for awaited in [true, false] {
        let run = |thread: usize| {
            let (lock, start) = (client.lock(&format!("bench/{thread}")), Instant::now());
            let mut took = Vec::new();
            while start.elapsed() < time {
                let begin = Instant::now();
                let guard = lock.acquire().unwrap();
                if awaited {
                    let _ = guard.release();
                } else {
                    drop(guard);
                }
                took.push(begin.elapsed().as_nanos() as f64);
            }
            took
        };
        let all: Vec<f64> = std::thread::scope(|scope| {
            let run = &run;
            let threads: Vec<_> = (0..threads).map(|t| scope.spawn(move || run(t))).collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        let how = if awaited { "release awaited" } else { "drop" };
        let rate = all.len() as f64 / time.as_secs_f64();
        report(&format!("cycle, N = {n}, {threads} threads, {how}, {rate:.0}/s"), all);
    }
}
