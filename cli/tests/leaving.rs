//! What a command leaves behind when it ends.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use support::{bench, done, eventually, is_alive, signal};

#[test]
fn a_daemon_runs_on_and_does_not_keep_the_lock() {
    let Some(bench) = bench(3) else { return };
    let script =
        r#"setsid sh -c 'echo $$ > "$F"; exec sleep 600' <&- >&- 2>&- & until [ -s "$F" ]; do sleep 0.01; done"#;
    let done = done(&mut bench.script(&[], "x", script));
    assert_eq!((done.code(), done.err.as_str()), (0, ""));
    assert!(bench.is_free("x"));
    let daemon = bench.written().trim().parse().unwrap();
    assert!(is_alive(daemon));
    signal(daemon, "KILL");
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
