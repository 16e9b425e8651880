//! Processes that a command leaves behind when it ends.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::wait_until;
use rustix::process::geteuid;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use support::{Bench, REDLEASH, WORK, bench, done, eventually, is_alive, ms, signal, start, wall};

#[test]
fn a_daemon_runs_on_and_does_not_keep_the_lock() {
    let Some(bench) = bench(3) else { return };
    let script =
        r#"setsid sh -c 'echo $$ > "$F"; exec sleep 600' <&- >&- 2>&- & until [ -s "$F" ]; do sleep 0.01; done"#;
    let done = done(&mut bench.script(&[], "x", script));
    let daemon = bench.written().trim().parse().unwrap();
    done.expect(0, &["\"x\"", &format!("pid {daemon} (sleep)"), "run on without the lock"]);
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
    assert!(bench.is_free("x"));
    assert!(is_alive(daemon));
    signal(daemon, "KILL");
}

#[test]
fn a_daemon_runs_on_when_the_lock_is_lost() {
    let Some(bench) = bench(3) else { return };
    // The shell in between ends, so the daemon is an orphan. It has a child itself.
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
            running.end().expect(76, &[&format!("pid {daemon} (sh)"), "run on without the lock"]);
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
    let script = r#"timeout 60 sh -c 'echo $$ > "$F"; while :; do sleep 0.01; done' &
        until [ -s "$F" ]; do sleep 0.01; done; exit 4"#;
    let done = done(&mut bench.script(&["--kill-after", "500ms"], "x", script));
    done.expect(4, &["\"x\"", "left processes", "(timeout)"]);
    assert!(!is_alive(bench.written().trim().parse().unwrap()));
    assert!(bench.is_free("x"));
}

#[test]
fn the_rest_of_the_group_is_ended_before_the_lock_is_released() {
    let Some(bench) = bench(3) else { return };
    let script = r#"sh -c 'trap "" TERM; echo $$ > "$F"; while :; do sleep 0.01; done' &
        until [ -s "$F" ]; do sleep 0.01; done; exit 4"#;
    let done = done(&mut bench.script(&["--kill-after", "500ms"], "x", script));
    done.expect(4, &["\"x\"", "left processes", "setsid"]);
    assert!(!is_alive(bench.written().trim().parse().unwrap()));
    assert!(bench.is_free("x"));
}

/// `redleash OPTIONS run x -- sh -c SCRIPT` where /proc hides processes that this user may not look into. The shell at
/// `$F.sh` is such a process, since its file cannot be read.
fn where_processes_are_hidden(bench: &Bench, options: &[&str], script: &str) -> Option<Command> {
    // Without the rights of root and of its group, who see all processes. Other users may mount in a user namespace
    // only.
    let (user, group): (&[&str], _) =
        if geteuid().is_root() { (&[], "--regid=12345 --clear-groups") } else { (&["--user", "--map-root-user"], "") };
    let ready = |script: &str| {
        let mut command = Command::new("unshare");
        let enter =
            format!("mount -t proc -o hidepid=2 proc /proc && exec setpriv {group} --bounding-set=-all {script}");
        command.args(user).args(["--mount", "--pid", "--fork", "sh", "-c", &enter, "sh"]);
        command.stdin(Stdio::null());
        command
    };
    let trial = ready("true").output().unwrap();
    if !trial.status.success() {
        let why = String::from_utf8_lossy(&trial.stderr).into_owned();
        let _ = writeln!(std::io::stderr(), "SKIPPED: a /proc that hides processes is not possible here: {why}");
        return None;
    }
    let hidden = bench.file("out.sh");
    fs::copy("/bin/sh", &hidden).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o111)).unwrap();
    let mut command = ready(r#""$@""#);
    command.args([REDLEASH, "run"]).args(options).args(["x", "--", "sh", "-c", script]);
    command.env("REDLEASH_NODES", bench.nodes()).env("F", bench.file("out"));
    Some(command)
}

#[test]
fn what_proc_hides_is_ended_before_the_lock_is_released() {
    let Some(bench) = bench(3) else { return };
    let script = format!(r#""$F.sh" -c '{WORK}' >&- 2>&- & until [ -s "$F" ]; do sleep 0.01; done; exit 4"#);
    let Some(mut command) = where_processes_are_hidden(&bench, &["--kill-after", "500ms"], &script) else { return };
    let done = done(&mut command);
    let at = wall();
    let last = bench.last_sign_of_life();
    done.expect(4, &["\"x\"", "left processes", "(hidden)"]);
    assert!(last < at && bench.is_free("x"));
    let all = bench.written();
    assert!(!wait_until(ms(200), || bench.written() != all), "it goes on");
}

#[test]
fn a_process_that_ends_soon_by_itself_gets_no_signal() {
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
    eventually("the supervisor has ended", || !is_alive(supervisor));
}
