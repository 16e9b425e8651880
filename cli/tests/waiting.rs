//! A lock that another client holds: redleash waits, or says who holds it.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::wait_until;
use std::fs;
use std::process::Stdio;
use std::time::Duration;
use support::{bench, done, eventually, ms, start};

#[test]
fn busy_is_75_or_the_callers_code_and_names_the_holder() {
    let Some(bench) = bench(3) else { return };
    let _held = bench.hold("x");
    let port = bench.masters[2].port().to_string();
    let words = ["\"x\"", "test bench", " UTC", &port];
    done(&mut bench.redleash(&["run", "-n", "x", "--", "true"])).expect(75, &words);
    done(&mut bench.redleash(&["run", "-n", "-E", "0", "x", "--", "false"])).expect(0, &words);
    let quiet = done(&mut bench.redleash(&["run", "-qn", "x", "--", "true"]));
    assert_eq!((quiet.code(), &*quiet.err, &*quiet.out), (75, "", ""));
    done(&mut bench.redleash(&["run", "-w", "0", "-E", "255", "x", "--", "true"])).expect(255, &words);
    done(&mut bench.redleash(&["run", "-w", "0.3", "x", "--", "true"])).expect(75, &words);
}

#[test]
fn the_label_is_host_process_and_command_without_its_arguments() {
    let Some(bench) = bench(1) else { return };
    let mut holder = start(&mut bench.script(&[], "x", r#"echo up > "$F"; exec sleep 60"#));
    bench.eventually_written("up");
    let status = bench.client.status("x").unwrap();
    let label = status.holder().and_then(redleash::Holder::label).unwrap();
    assert!(label.ends_with(&format!(" pid {} sh", holder.pid())), "{label}");
    assert!(holder.is_running());
    holder.signal("TERM");
    assert_eq!(holder.end().code(), 143);
}

#[test]
fn it_waits_until_the_lock_is_free() {
    let Some(bench) = bench(3) else { return };
    let held = bench.hold("x");
    let file = bench.file("said");
    let said = || fs::read_to_string(&file).unwrap();
    let mut command = bench.redleash(&["run", "-v", "-w", "60", "x", "--", "echo", "mine"]);
    let waiting = command.stdout(Stdio::piped()).stderr(fs::File::create(&file).unwrap()).spawn().unwrap();
    eventually("it says who holds the lock", || said().contains("waiting") && said().contains("test bench"));
    assert!(!said().contains("granted"), "it does not run beside the holder");
    drop(held);
    let done = waiting.wait_with_output().unwrap();
    assert_eq!((done.status.code(), done.stdout.as_slice()), (Some(0), &b"mine\n"[..]), "{}", said());
    assert!(said().contains("granted"), "{}", said());
}

#[test]
fn overlapping_runs_run_one_after_the_other() {
    let Some(bench) = bench(3) else { return };
    // Not atomic on purpose: two at a time lose counts, or find the directory.
    let script =
        r#"mkdir "$F.d" || exit 99; n=$(cat "$F" 2>/dev/null || echo 0); echo $((n + 1)) > "$F"; rmdir "$F.d""#;
    let runs: Vec<_> = (0..12).map(|_| start(&mut bench.script(&[], "count", script))).collect();
    for run in runs {
        let done = run.end();
        assert_eq!(done.code(), 0, "{done:?}");
    }
    assert_eq!(bench.written(), "12\n");
}

#[test]
fn overlapping_cron_jobs_that_do_not_wait_run_once() {
    let Some(bench) = bench(3) else { return };
    // All see the same minute; the hold is longer than the clocks differ.
    let script = r#"echo ran >> "$F""#;
    let jobs: Vec<_> =
        (0..4).map(|_| start(&mut bench.script(&["-n", "-E", "0", "--min-hold", "30s"], "minute", script))).collect();
    for job in jobs {
        assert_eq!(job.end().code(), 0);
    }
    assert_eq!(bench.written(), "ran\n");
    assert!(!bench.is_free("minute"), "the lock stays taken for --min-hold");
}

#[test]
fn a_signal_ends_the_wait() {
    let Some(bench) = bench(3) else { return };
    let held = bench.hold("x");
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("USR1", 138)] {
        let waiting = start(&mut bench.redleash(&["run", "-v", "x", "--", "echo", "started"]));
        eventually("it catches signals", || catches_signals(waiting.pid()));
        waiting.signal(name);
        let done = waiting.end();
        done.expect(code, &["\"x\"", &format!("SIG{name}")]);
        assert_eq!(done.out, "");
    }
    drop(held);
    assert!(bench.is_free("x"), "waiters leave nothing behind");
}

fn catches_signals(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0").trim();
    u64::from_str_radix(caught, 16).unwrap() & (1 << 14) != 0 // SIGTERM is 15
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let Some(bench) = bench(1) else { return };
    let script = format!(
        "trap '' HUP; exec {} run x -- sh -c 'kill -HUP $$; kill -HUP $(ps -o ppid= -p $PPID); echo alive'",
        support::REDLEASH
    );
    let done = done(std::process::Command::new("sh").args(["-c", &script]).env("REDLEASH_NODES", bench.nodes()));
    assert_eq!((done.code(), done.out.as_str()), (0, "alive\n"), "{done:?}");
}

#[test]
fn masters_that_come_back_in_time_are_waited_for() {
    let Some(bench) = bench(3) else { return };
    bench.masters[0].pause().unwrap();
    bench.masters[1].pause().unwrap();
    let mut waiting = start(&mut bench.redleash(&["run", "-w", "60", "x", "--", "echo", "mine"]));
    assert!(!wait_until(Duration::from_secs(1), || !waiting.is_running()), "it endures an outage");
    bench.masters[0].resume().unwrap();
    bench.masters[1].resume().unwrap();
    let done = waiting.end();
    assert_eq!((done.code(), done.out.as_str()), (0, "mine\n"), "{done:?}");
}

#[test]
fn no_wait_for_masters_that_lost_their_memory() {
    let Some(bench) = bench(3) else { return };
    for master in &bench.masters[..2] {
        master.restart_empty().unwrap();
    }
    let done = done(&mut bench.redleash(&["run", "-w", "5", "x", "--", "true"]));
    done.expect(69, &["quarantine", "init", "\"x\""]);
}

#[test]
fn without_a_terminal_it_waits_in_silence() {
    let Some(bench) = bench(1) else { return };
    let held = bench.hold("x");
    let mut waiting = start(&mut bench.redleash(&["run", "x", "--", "true"]));
    assert!(!wait_until(ms(500), || !waiting.is_running()));
    drop(held);
    let done = waiting.end();
    assert_eq!((done.code(), done.err.as_str()), (0, ""));
}
