//! The command is dead before the lease ends, whatever happens to redleash, to the command, or to the masters.
//!
//! The evidence: the command writes the time again and again, and the next holder is granted the lock after the last
//! entry. There is no lock-delay, so the only pause in between is the library's own.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::wait_until;
use redleash_testkit::{Fault, Proxy};
use std::fs;
use std::process::{Command, Stdio};
use support::{Bench, REDLEASH, Running, WORK, bench, done, eventually, is_alive, ms, signal, start, state};

const SHORT: [&str; 4] = ["--ttl", "3s", "--lock-delay", "0"];

/// A command at work under "x".
fn at_work(bench: &Bench, options: &[&str], script: &str) -> Running {
    let running = start(&mut bench.script(&[&SHORT, options].concat(), "x", script));
    eventually("the command is at work", || bench.written().contains('\n'));
    running
}

/// Waits for the next holder, and compares.
#[track_caller]
fn assert_dead_before_the_next_holder(bench: &Bench) {
    let granted = bench.next_holder("x").join().unwrap();
    let last = bench.last_sign_of_life();
    assert!(last < granted, "the command was at work {} us beside the next holder", (last - granted) / 1000);
    let all = bench.written();
    assert!(!wait_until(ms(100), || bench.written() != all), "it goes on");
}

/// Through proxies, so that the network of one holder can fail.
fn behind_proxies(bench: &Bench) -> Vec<Proxy> {
    bench.masters.iter().map(|master| Proxy::start(master.port(), Fault::None).unwrap()).collect()
}

fn urls(proxies: &[Proxy]) -> String {
    proxies.iter().map(Proxy::url).collect::<Vec<_>>().join(",")
}

#[test]
fn a_network_that_fails() {
    let Some(bench) = bench(3) else { return };
    let proxies = behind_proxies(&bench);
    let mut command = bench.script(&SHORT, "x", WORK);
    let running = start(command.env("REDLEASH_NODES", urls(&proxies)));
    eventually("the command is at work", || bench.written().contains('\n'));
    for proxy in &proxies {
        proxy.set(Fault::Mute);
    }
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "lost", "SIGKILL", &proxies[0].label(), &proxies[1].label()]);
}

#[test]
fn a_network_that_fails_for_less_than_the_lease() {
    let Some(bench) = bench(3) else { return };
    let proxies = behind_proxies(&bench);
    let mut command = bench.script(&["--ttl", "6s"], "x", r#"echo up > "$F"; sleep 5; echo done"#);
    let running = start(command.env("REDLEASH_NODES", urls(&proxies)));
    bench.eventually_written("up");
    for proxy in &proxies {
        proxy.set(Fault::Cut);
    }
    // The first renewal is due after two seconds, SIGTERM after 3.9.
    eventually("renewals fail", || proxies.iter().all(|proxy| proxy.misbehaved() > 0));
    for proxy in &proxies {
        proxy.mend();
    }
    let done = running.end();
    assert_eq!((done.code(), done.out.as_str()), (0, "done\n"), "{done:?}");
}

#[test]
fn masters_that_hang_and_come_back() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], WORK);
    for master in bench.masters.iter() {
        master.pause().unwrap();
    }
    let command = running.command();
    eventually("the command is ended", || !is_alive(command));
    for master in bench.masters.iter() {
        master.resume().unwrap();
    }
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "lost"]);
}

#[test]
fn redleash_is_killed() {
    let Some(bench) = bench(3) else { return };
    // A grandchild works, in the same group.
    let running = at_work(&bench, &[], &format!("sh -c '{WORK}' & wait"));
    running.signal("KILL");
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn redleash_is_killed_and_the_command_asked_to_end() {
    let Some(bench) = bench(3) else { return };
    let running =
        at_work(&bench, &[], r#"trap 'echo asked >> "$F"; exit' TERM; echo up >> "$F"; while :; do sleep 0.01; done"#);
    let (supervisor, command) = (running.supervisor(), running.command());
    running.signal("KILL");
    bench.eventually_written("asked");
    eventually("both have ended", || !is_alive(supervisor) && !is_alive(command));
}

#[test]
fn redleash_and_its_supervisor_are_killed() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], WORK);
    let (supervisor, command) = (running.supervisor(), running.command());
    running.signal("KILL");
    signal(supervisor, "KILL");
    eventually("the command goes with them", || !is_alive(command));
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn the_supervisor_is_killed() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], &format!("sh -c '{WORK}' & wait"));
    signal(running.supervisor(), "KILL");
    let done = running.end();
    done.expect(137, &["\"x\"", "supervisor"]);
    assert_eq!(done.err.lines().count(), 1, "nothing remains: {done:?}");
    // The lock was released, so there is no lease to wait for.
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn the_supervisor_is_stopped_and_the_lease_is_lost() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], WORK);
    signal(running.supervisor(), "STOP");
    bench.client.force_release("x").unwrap();
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "lost"]);
}

#[test]
fn processes_from_before_redleash_are_not_the_commands() {
    let Some(bench) = bench(3) else { return };
    // The shell starts one that has a child of its own, and becomes redleash.
    let shell = r#"(sleep 600 & echo $! > "$F.child"; wait) & echo $! > "$F.parent"
        until [ -s "$F.child" ]; do sleep 0.01; done; exec "$@""#;
    let number = |name: &str| -> u32 { fs::read_to_string(bench.file(name)).unwrap().trim().parse().unwrap() };
    for (way, code) in [("KILL", 137), ("STOP", 76)] {
        let _ = fs::remove_file(bench.file("out"));
        // timeout(1) makes a group of its own, so the tree is looked at.
        let work = format!(r#"echo $PPID > "$F.supervisor"; {}"#, below_timeout());
        let mut command = Command::new("sh");
        command.args(["-c", shell, "sh", REDLEASH, "run"]).args(SHORT).args(["x", "--", "sh", "-c", &work]);
        let out = fs::File::create(bench.file("said")).unwrap();
        command.env("REDLEASH_NODES", bench.nodes()).env("F", bench.file("out")).stdin(Stdio::null());
        support::hear_signals();
        // The strangers keep the output open, so it goes to a file.
        let mut running = command.stdout(Stdio::null()).stderr(out).spawn().unwrap();
        eventually("the command is at work", || bench.written().contains('\n'));
        let (parent, child) = (number("out.parent"), number("out.child"));
        signal(number("out.supervisor"), way);
        if way == "STOP" {
            bench.client.force_release("x").unwrap();
        }
        let mut status = None;
        eventually("redleash ends", || {
            status = running.try_wait().unwrap();
            status.is_some()
        });
        let said = fs::read_to_string(bench.file("said")).unwrap();
        assert!(is_alive(parent) && is_alive(child), "{way}: they run on: {said:?}");
        assert_eq!(status.unwrap().code(), Some(code), "{way}: {said:?}");
        assert_eq!(said.lines().count(), 1, "nothing remains: {said:?}");
        signal(child, "KILL");
        assert_dead_before_the_next_holder(&bench);
        let _ = fs::remove_file(bench.file("out.child"));
    }
}

#[test]
fn redleash_is_stopped() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], WORK);
    running.signal("STOP");
    assert_dead_before_the_next_holder(&bench);
    running.signal("CONT");
    running.end().expect(76, &["\"x\"", "lost", "SIGKILL"]);
}

#[test]
fn the_command_is_stopped() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(
        &bench,
        &[],
        r#"trap 'echo asked >> "$F"; exit 1' TERM; echo up >> "$F"; while :; do sleep 0.01; done"#,
    );
    let command = running.command();
    signal(command, "STOP");
    eventually("it stands still", || state(command) == Some('T'));
    assert!(!wait_until(ms(4000), || bench.is_free("x")), "a command that stands still keeps the lock");
    bench.client.force_release("x").unwrap();
    // It is continued, so that it can see SIGTERM.
    running.end().expect(76, &["\"x\"", "another owner", "exit code 1"]);
    assert!(bench.written().ends_with("asked\n"));
}

#[test]
fn the_lock_is_taken_away() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], WORK);
    done(&mut bench.redleash(&["unlock", "--force", "--yes", "x"])).expect(0, &[]);
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "another owner", "(revoked)", "SIGKILL"]);
}

/// timeout(1) makes a process group of its own, and the worker in it cannot be asked to end.
fn below_timeout() -> String {
    format!("timeout 60 sh -c '{WORK}'; true")
}

#[test]
fn a_worker_in_a_group_of_its_own_ends_with_sigterm() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &["--kill-after", "500ms"], &below_timeout());
    running.signal("TERM");
    running.end().expect(143, &["\"x\"", "left processes", "(timeout)"]);
    // The lock was released, so there is no lease to wait for.
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn a_worker_in_a_group_of_its_own_ends_with_redleash() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], &below_timeout());
    running.signal("KILL");
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn a_worker_in_a_group_of_its_own_ends_with_a_lock_that_is_taken_away() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], &below_timeout());
    done(&mut bench.redleash(&["unlock", "--force", "--yes", "x"])).expect(0, &[]);
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "another owner"]);
}

#[test]
fn a_worker_in_a_group_of_its_own_ends_with_the_supervisor() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], &below_timeout());
    signal(running.supervisor(), "KILL");
    running.end().expect(137, &["\"x\"", "supervisor"]);
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn a_worker_in_a_group_of_its_own_ends_though_the_supervisor_is_stopped() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], &below_timeout());
    signal(running.supervisor(), "STOP");
    bench.client.force_release("x").unwrap();
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "lost"]);
}

#[test]
fn a_session_of_its_own_below_a_living_parent_ends_with_the_lock() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &[], &format!("setsid sh -c '{WORK}'; true"));
    bench.client.force_release("x").unwrap();
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "another owner"]);
}

#[test]
fn a_command_that_forks_all_the_while_does_not_outrun_its_end() {
    let Some(bench) = bench(3) else { return };
    // Four chains: each process moves to a group of its own, starts the next one, and ends. Some write the time. This
    // goes on for a minute at most.
    let storm = r#"$SIG{TERM} = $SIG{CHLD} = "IGNORE"; my $end = time + 60;
        for (my $i = 0; time < $end; $i++) {
            setpgrp;
            if ($i % 20 == 0) { open my $f, ">>", $ENV{F}; printf $f "%d\n", `date +%s%N`; close $f; }
            exit if fork;
        }"#;
    fs::write(bench.file("storm"), storm).unwrap();
    let script = format!("for i in 1 2 3 4; do perl {} & done; wait; sleep 60", bench.file("storm").display());
    let running = at_work(&bench, &[], &script);
    running.signal("KILL");
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn a_command_has_the_time_to_end_in_good_order() {
    let Some(bench) = bench(3) else { return };
    let script = r#"trap 'sleep 1; echo tidy >> "$F"; exit 3' TERM; echo up >> "$F"; while :; do sleep 0.01; done"#;
    let running = start(&mut bench.script(&["--ttl", "8s", "--kill-after", "2900ms"], "x", script));
    bench.eventually_written("up");
    bench.client.force_release("x").unwrap();
    running.end().expect(76, &["\"x\"", "another owner", "exit code 3"]);
    assert_eq!(bench.written(), "up\ntidy\n");
}

#[test]
fn the_longest_hold_is_over() {
    let Some(bench) = bench(3) else { return };
    let running = at_work(&bench, &["--max-hold", "4s"], WORK);
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "--max-hold"]);
}

#[test]
fn on_lost_term_sends_sigterm_and_no_more() {
    let Some(bench) = bench(3) else { return };
    let script =
        r#"trap 'echo asked >> "$F"' TERM; echo up >> "$F"; until [ -e "$F.end" ]; do sleep 0.01; done; exit 5"#;
    let running = at_work(&bench, &["--on-lost", "term"], script);
    bench.client.force_release("x").unwrap();
    bench.eventually_written("asked");
    bench.next_holder("x").join().unwrap();
    fs::write(bench.file("out.end"), "").unwrap();
    running.end().expect(76, &["\"x\"", "exit code 5"]);
    assert_eq!(bench.written(), "up\nasked\n");
}

#[test]
fn on_lost_warn_only_says_so() {
    let Some(bench) = bench(3) else { return };
    let script =
        r#"trap 'echo asked >> "$F"' TERM; echo up >> "$F"; until [ -e "$F.end" ]; do sleep 0.01; done; exit 5"#;
    let running = at_work(&bench, &["--on-lost", "warn"], script);
    bench.client.force_release("x").unwrap();
    bench.next_holder("x").join().unwrap();
    fs::write(bench.file("out.end"), "").unwrap();
    running.end().expect(76, &["\"x\"", "goes on without", "exit code 5"]);
    assert_eq!(bench.written(), "up\n");
}

#[test]
fn a_holder_that_vanished_leaves_a_pause() {
    let Some(bench) = bench(3) else { return };
    let options = ["--ttl", "2s", "--lock-delay", "3s"];
    let running = start(&mut bench.script(&options, "x", r#"echo up > "$F"; exec sleep 60"#));
    bench.eventually_written("up");
    running.signal("KILL");
    let killed = support::wall();
    let granted = bench.next_holder("x").join().unwrap();
    // The last renewal was at most 0.7 s before, so the key lives for 4.3 s more.
    assert!(granted - killed > 3_000_000_000, "{} ms", (granted - killed) / 1_000_000);
}

#[test]
fn signals_reach_the_command() {
    let Some(bench) = bench(1) else { return };
    for name in ["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "WINCH", "CONT"] {
        fs::write(bench.file("out"), "").unwrap();
        let script =
            format!("trap 'echo got >> \"$F\"; exit 7' {name}; echo up >> \"$F\"; while :; do sleep 0.01; done");
        let running = start(&mut bench.script(&[], "x", &script));
        bench.eventually_written("up");
        running.signal(name);
        assert_eq!(running.end().code(), 7, "{name}");
        assert_eq!(bench.written(), "up\ngot\n", "{name}");
    }
}
