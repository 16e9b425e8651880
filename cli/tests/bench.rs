//! The verb bench.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::{Masters, wait_until};
use serde_json::Value;
use support::pty::Terminal;
use support::{Bench, Done, bench, done, eventually, ms, redleash, start};

/// Waits until one key is left on each master: its generation. That takes less than the ttl of 15 s.
#[track_caller]
fn nothing_is_left(bench: &Bench) {
    for master in bench.masters.iter().filter(|master| master.is_alive()) {
        let keys = || master.command(&["DBSIZE"]).unwrap().int();
        let clean = wait_until(ms(5_000), || keys() == Some(1));
        assert!(clean, "{:?} keys are left on {}", keys(), master.port());
    }
}

#[track_caller]
fn json(done: &Done) -> Value {
    serde_json::from_str(&done.out).unwrap_or_else(|e| panic!("{e}: {done:?}"))
}

/// Checks that percentiles were measured and rise.
#[track_caller]
fn plausible(spread: &Value) {
    let value = |name: &str| spread[name].as_f64().unwrap_or_else(|| panic!("no {name} in {spread}"));
    let all = ["p50", "p90", "p99", "max"].map(value);
    assert!(value("count") >= 1.0 && all[0] > 0.0 && all.is_sorted() && all[3] < 60e6, "{spread}");
}

#[test]
fn everything_is_measured_and_nothing_is_left() {
    let Some(bench) = bench(3) else { return };
    let done = done(&mut bench.redleash(&["bench", "--seconds", "5", "--threads", "1,3", "--json"]));
    done.expect(0, &["3 masters", "up to 3 threads", "as fast as they can", "redleash-bench/"]);
    let json = json(&done);
    let masters = json["masters"].as_array().unwrap();
    let labels: Vec<&str> = masters.iter().map(|m| m["master"].as_str().unwrap()).collect();
    assert_eq!(labels, bench.masters.iter().map(|m| format!("127.0.0.1:{}", m.port())).collect::<Vec<_>>());
    masters.iter().for_each(|m| plausible(&m["round_trip_us"]));
    for name in ["acquire_us", "release_us", "drop_us"] {
        plausible(&json["free_lock"][name]);
    }
    plausible(&json["hand_over"]["threads_us"]);
    plausible(&json["hand_over"]["clients_us"]);
    let throughput = json["throughput"].as_array().unwrap();
    let threads: Vec<u64> = throughput.iter().map(|t| t["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 3]);
    for t in throughput {
        let (locks, seconds) = (t["locks"].as_f64().unwrap(), t["seconds"].as_f64().unwrap());
        assert!(locks >= 1.0 && (t["per_second"].as_f64().unwrap() - locks / seconds).abs() <= 1.0, "{t}");
    }
    let seconds = json["seconds"].as_f64().unwrap();
    assert!((1.5..60.0).contains(&seconds) && json["ended_by"].is_null() && json["quorum"] == 2, "{json}");
    nothing_is_left(&bench);
}

#[test]
fn a_master_that_is_down_is_named_and_the_others_are_measured() {
    let Some(bench) = bench(3) else { return };
    bench.masters[1].kill();
    let done = done(&mut bench.redleash(&["bench", "--seconds", "1", "--threads", "2", "--json"]));
    assert_eq!(done.code(), 0, "{done:?}");
    let json = json(&done);
    plausible(&json["masters"][0]["round_trip_us"]);
    plausible(&json["masters"][2]["round_trip_us"]);
    plausible(&json["free_lock"]["acquire_us"]);
    let down = &json["masters"][1];
    assert!(down["round_trip_us"].is_null() && down["failure"].as_str().is_some_and(|f| !f.is_empty()), "{down}");
    nothing_is_left(&bench);
}

#[test]
fn without_a_quorum_nothing_is_measured() {
    let Some(bench) = bench(3) else { return };
    bench.masters[0].kill();
    bench.masters[1].kill();
    let done = done(&mut bench.redleash(&["bench", "--seconds", "1"]));
    done.expect(69, &["redleash-bench/", &bench.masters[0].port().to_string()]);
    assert_eq!(done.out, "");
}

#[test]
fn masters_that_are_not_settled_are_explained() {
    if redleash_testkit::skipped() {
        return;
    }
    let masters = Masters::start(3).unwrap();
    let done = done(redleash(&["bench", "--seconds", "1"]).env("REDLEASH_NODES", masters.urls().join(",")));
    done.expect(69, &["quarantine", "init"]);
}

#[test]
fn nonsense_is_refused() {
    for args in [
        &["--seconds", "0"][..],
        &["--seconds", "2h"],
        &["--seconds", "soon"],
        &["--threads", "0"],
        &["--threads", "1,x"],
        &["--threads", "257"],
        &["--threads", ""],
        &["a-name"],
    ] {
        let done = done(&mut redleash(&[&["bench"], args].concat()));
        assert!(done.code() == 64 && !done.err.is_empty() && done.out.is_empty(), "{args:?}: {done:?}");
    }
}

#[test]
fn a_signal_ends_it_with_what_was_measured() {
    let Some(bench) = bench(3) else { return };
    let before = commands(&bench);
    let running = start(&mut bench.redleash(&["bench", "--seconds", "1h", "--json"]));
    eventually("it measures", || commands(&bench) > before + 100);
    running.signal("INT");
    let done = running.end();
    done.expect(130, &["SIGINT", "so far"]);
    let json = json(&done);
    assert_eq!(json["ended_by"], "SIGINT");
    plausible(&json["masters"][0]["round_trip_us"]);
    assert!(json["hand_over"]["clients_us"].is_null() && json["throughput"].as_array().unwrap().is_empty(), "{json}");
    nothing_is_left(&bench);
}

fn commands(bench: &Bench) -> u64 {
    let info = bench.masters[0].command(&["INFO", "stats"]).unwrap().text().unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().trim().parse().unwrap()
}

#[test]
fn on_a_terminal_it_shows_progress_and_blocks() {
    let Some(bench) = bench(1) else { return };
    let shown = |locale: &str| {
        let mut terminal = Terminal::start(&bench.nodes(), &["env", locale, "redleash", "bench", "--seconds", "1"]);
        terminal.expect("acquire of a free lock");
        assert_eq!(terminal.end().code(), Some(0));
        terminal.screen()
    };
    let screen = shown("LC_ALL=C.UTF-8");
    assert!(screen.contains("%: round trips") && screen.contains("%: a free lock"), "{screen}");
    assert!(screen.contains('█') && !screen.contains('#'), "{screen}");
    let screen = shown("LC_ALL=C");
    assert!(screen.contains('#') && !screen.contains('█'), "{screen}");
    let plain = done(bench.redleash(&["bench", "--seconds", "1"]).env("LC_ALL", "C.UTF-8"));
    assert!(plain.out.is_ascii() && plain.out.contains("between two clients") && plain.out.contains("##"), "{plain:?}");
    assert_eq!(plain.err.lines().count(), 1, "{plain:?}");
    nothing_is_left(&bench);
}
