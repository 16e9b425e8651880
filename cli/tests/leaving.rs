//! What a command leaves behind when it ends.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use support::{bench, done, eventually, is_alive, signal, start};

#[test]
fn a_daemon_runs_on_and_does_not_keep_the_lock() {
    let Some(bench) = bench(3) else { return };
    let script =
        r#"setsid sh -c 'echo $$ > "$F"; exec sleep 600' <&- >&- 2>&- & until [ -s "$F" ]; do sleep 0.01; done"#;
    let done = done(&mut bench.script(&[], "x", script));
    let daemon = bench.written().trim().parse().unwrap();
    done.expect(0, &["\"x\"", &format!("pid {daemon} (sleep)"), "runs on without the lock"]);
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    assert!(bench.is_free("x"));
    assert!(is_alive(daemon));
    signal(daemon, "KILL");
}

#[test]
fn a_daemon_runs_on_when_the_lock_is_lost() {
    let Some(bench) = bench(3) else { return };
    // The shell in between ends, so the daemon is nobody's child, and has a child itself.
    let script = r#"(setsid sh -c 'sleep 600 & echo $$ > "$F.daemon"; echo $! > "$F.child"; wait' <&- >&- 2>&- &)
        until [ -s "$F.child" ]; do sleep 0.01; done; echo up > "$F"; exec sleep 600"#;
    let number = |name: &str| -> u32 { std::fs::read_to_string(bench.file(name)).unwrap().trim().parse().unwrap() };
    for taken in [true, false] {
        let _ = std::fs::remove_file(bench.file("out"));
        let running = start(&mut bench.script(&["--ttl", "3s", "--lock-delay", "0"], "x", script));
        bench.eventually_written("up");
        let (daemon, child) = (number("out.daemon"), number("out.child"));
        let command = running.command();
        if taken {
            bench.client.force_release("x").unwrap();
            running.end().expect(76, &[&format!("pid {daemon} (sh)"), "runs on without the lock"]);
        } else {
            running.signal("KILL");
            eventually("the command is ended", || !is_alive(command));
        }
        bench.next_holder("x").join().unwrap();
        assert!(is_alive(daemon) && is_alive(child), "the daemon and its child run on");
        signal(daemon, "KILL");
        signal(child, "KILL");
        let _ = std::fs::remove_file(bench.file("out.child"));
    }
}

#[test]
fn a_worker_in_a_group_of_its_own_is_ended_before_the_lock_is_released() {
    let Some(bench) = bench(3) else { return };
    let script = r#"timeout 60 sh -c 'echo $$ > "$F"; while :; do sleep 0.01; done' & until [ -s "$F" ]; do sleep 0.01; done; exit 4"#;
    let done = done(&mut bench.script(&["--kill-after", "500ms"], "x", script));
    done.expect(4, &["\"x\"", "left processes", "(timeout)"]);
    assert!(!is_alive(bench.written().trim().parse().unwrap()));
    assert!(bench.is_free("x"));
}

#[test]
fn the_rest_of_the_group_is_ended_before_the_lock_is_released() {
    let Some(bench) = bench(3) else { return };
    let script = r#"sh -c 'trap "" TERM; echo $$ > "$F"; while :; do sleep 0.01; done' & until [ -s "$F" ]; do sleep 0.01; done; exit 4"#;
    let done = done(&mut bench.script(&["--kill-after", "500ms"], "x", script));
    done.expect(4, &["\"x\"", "left processes", "setsid"]);
    assert!(!is_alive(bench.written().trim().parse().unwrap()));
    assert!(bench.is_free("x"));
}

#[test]
fn what_ends_soon_by_itself_is_let_be() {
    let Some(bench) = bench(1) else { return };
    let script = r#"sh -c 'trap "echo asked" TERM; sleep 0.2; echo flushed' & exit 0"#;
    let done = done(&mut bench.script(&[], "x", script));
    assert_eq!((done.code(), done.out.as_str(), done.err.as_str()), (0, "flushed\n", ""));
}

#[test]
fn no_process_of_redleash_is_left() {
    let Some(bench) = bench(1) else { return };
    let script = r#"echo $PPID > "$F"; exit 0"#;
    assert_eq!(done(&mut bench.script(&[], "x", script)).code(), 0);
    let supervisor = bench.written().trim().parse().unwrap();
    eventually("the supervisor is gone", || !is_alive(supervisor));
}
