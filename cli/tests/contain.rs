//! `--contain`: nothing that the command started outlives its lock, whatever happens to redleash.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::wait_until;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;
use support::pty::Terminal;
use support::{Bench, REDLEASH, Running, WORK, bench, child_of, done, eventually, is_alive, ms, signal, start};

/// Masters, if the kernel allows namespaces; else `None`, and a line that says so.
fn bench_if_allowed(n: usize) -> Option<Bench> {
    let trial = Command::new(REDLEASH).arg("contain-probe").output().unwrap();
    if trial.status.success() {
        return bench(n);
    }
    let why = String::from_utf8_lossy(&trial.stdout).into_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED: --contain is not possible here: {why}");
    None
}

#[test]
fn a_caller_that_ignores_sigchld_changes_nothing() {
    let Some(bench) = bench_if_allowed(1) else { return };
    for (args, code) in [(&["contain-probe"][..], 0), (&["run", "--contain", "x", "--", "sh", "-c", "exit 3"], 3)] {
        let mut command = Command::new("perl");
        command.args(["-e", r#"$SIG{CHLD} = "IGNORE"; exec @ARGV"#, REDLEASH]).args(args);
        let done = done(command.env("REDLEASH_NODES", bench.nodes()));
        assert_eq!((done.code(), done.err.as_str()), (code, ""), "{args:?}: {done:?}");
    }
}

/// Starts two workers that ignore SIGTERM: one in a group of its own, and a daemon.
fn at_work(bench: &Bench, options: &[&str]) -> Running {
    let script = format!("(setsid sh -c '{WORK}' <&- >&- 2>&- &); timeout 600 sh -c '{WORK}'; true");
    let options = [&["--contain", "--ttl", "3s", "--lock-delay", "0"], options].concat();
    let running = start(&mut bench.script(&options, "x", &script));
    eventually("the command is at work", || bench.written().contains('\n'));
    running
}

/// The process that makes the namespace, and the supervisor in it.
fn warden_and_supervisor(running: &Running) -> (u32, u32) {
    let warden = child_of(running.pid());
    (warden, child_of(warden))
}

#[track_caller]
fn assert_dead_before_the_next_holder(bench: &Bench) {
    let granted = bench.next_holder("x").join().unwrap();
    let last = bench.last_sign_of_life();
    assert!(last < granted, "the command was at work {} us beside the next holder", (last - granted) / 1000);
    let all = bench.written();
    assert!(!wait_until(ms(200), || bench.written() != all), "it goes on");
}

#[test]
fn the_supervisor_and_then_redleash_are_killed() {
    let Some(bench) = bench_if_allowed(3) else { return };
    let running = at_work(&bench, &[]);
    let (_, supervisor) = warden_and_supervisor(&running);
    signal(supervisor, "KILL");
    running.signal("KILL");
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn all_of_redleash_is_killed_beginning_outside() {
    let Some(bench) = bench_if_allowed(3) else { return };
    let running = at_work(&bench, &[]);
    let (warden, supervisor) = warden_and_supervisor(&running);
    running.signal("KILL");
    signal(warden, "KILL");
    eventually("the supervisor goes with the warden", || !is_alive(supervisor));
    assert_dead_before_the_next_holder(&bench);
}

#[test]
fn all_of_redleash_is_stopped() {
    let Some(bench) = bench_if_allowed(3) else { return };
    let running = at_work(&bench, &[]);
    let (warden, supervisor) = warden_and_supervisor(&running);
    for pid in [running.pid(), warden, supervisor] {
        signal(pid, "STOP");
    }
    assert_dead_before_the_next_holder(&bench);
    running.signal("CONT");
    running.end().expect(76, &["\"x\"", "lost"]);
}

#[test]
fn the_supervisor_is_stopped_and_the_lock_is_taken_away() {
    let Some(bench) = bench_if_allowed(3) else { return };
    let running = at_work(&bench, &[]);
    let (_, supervisor) = warden_and_supervisor(&running);
    signal(supervisor, "STOP");
    bench.client.force_release("x").unwrap();
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "another owner"]);
}

#[test]
fn redleash_is_killed_and_the_supervisor_ends_the_command() {
    let Some(bench) = bench_if_allowed(3) else { return };
    let running = at_work(&bench, &[]);
    let (warden, _) = warden_and_supervisor(&running);
    running.signal("KILL");
    assert_dead_before_the_next_holder(&bench);
    eventually("the warden has ended", || !is_alive(warden));
}

#[test]
fn the_lock_is_taken_away() {
    let Some(bench) = bench_if_allowed(3) else { return };
    let running = at_work(&bench, &[]);
    bench.client.force_release("x").unwrap();
    assert_dead_before_the_next_holder(&bench);
    running.end().expect(76, &["\"x\"", "another owner"]);
}

#[test]
fn on_lost_warn_lets_it_run_on() {
    let Some(bench) = bench_if_allowed(3) else { return };
    let script = r#"echo up > "$F"; until [ -e "$F.end" ]; do sleep 0.01; done; exit 5"#;
    let options = ["--contain", "--ttl", "3s", "--lock-delay", "0", "--on-lost", "warn"];
    let running = start(&mut bench.script(&options, "x", script));
    bench.eventually_written("up");
    bench.client.force_release("x").unwrap();
    bench.next_holder("x").join().unwrap();
    std::fs::write(bench.file("out.end"), "").unwrap();
    running.end().expect(76, &["\"x\"", "goes on without", "exit code 5"]);
}

#[test]
fn a_daemon_ends_with_the_command() {
    let Some(bench) = bench_if_allowed(1) else { return };
    let script = r#"(setsid sh -c 'echo up > "$F"; exec sleep 600' <&- >&- 2>&- &)
        until [ -s "$F" ]; do sleep 0.01; done; exit 4"#;
    let done = done(&mut bench.script(&["--contain"], "x", script));
    done.expect(4, &["\"x\"", "left processes", "(sleep)"]);
    assert!(bench.is_free("x"));
}

#[test]
fn a_signal_reaches_the_command_and_its_code_comes_back() {
    let Some(bench) = bench_if_allowed(1) else { return };
    let script = r#"trap 'echo got; exit 7' USR1; echo up > "$F"; while :; do sleep 0.01; done"#;
    let running = start(&mut bench.script(&["--contain"], "x", script));
    bench.eventually_written("up");
    running.signal("USR1");
    let done = running.end();
    assert_eq!((done.code(), done.out.as_str()), (7, "got\n"), "{done:?}");
    assert!(bench.is_free("x"));
}

#[test]
fn the_command_sees_its_namespace_and_has_the_rights_of_its_user() {
    let Some(bench) = bench_if_allowed(1) else { return };
    // The supervisor is 1, the command 2.
    let script = "echo $PPID $$ $(cut -d' ' -f1 < /proc/self/stat) $(id -u); \
                  grep -E 'Sig(Blk|Ign)|Cap|NoNewPrivs|NSpid' /proc/$$/status | tr '\\n\\t' '  '";
    let out = done(&mut bench.script(&["--contain"], "x", script));
    assert_eq!(out.code(), 0, "{out:?}");
    let plain = done(Command::new("sh").args(["-c", script]));
    let (plain, inside) = (plain.out.split_once('\n').unwrap(), out.out.split_once('\n').unwrap());
    let words: Vec<&str> = inside.0.split(' ').collect();
    assert!(words[0] == "1" && words[1] == "2" && words[2].parse::<u32>().unwrap() < 10, "{out:?}");
    assert_eq!(words[3], plain.0.rsplit_once(' ').unwrap().1);
    // As root the rights stay; as another user there are none in the user namespace either.
    let rights = |line: &str| line[..line.find("CapBnd").unwrap()].replace(char::is_whitespace, "");
    assert_eq!(rights(&plain.1[plain.1.find("Sig").unwrap()..]), rights(&inside.1[inside.1.find("Sig").unwrap()..]));
}

/// Root makes the namespaces without a user namespace, other users need one. As root, this tries both.
#[test]
fn a_user_who_is_not_root_can_contain() {
    let Some(bench) = bench_if_allowed(1) else { return };
    let copy = bench.file("redleash");
    std::fs::copy(REDLEASH, &copy).unwrap();
    let nobody = |args: &[&str]| {
        let mut command = Command::new(&copy);
        command.args(args).env("REDLEASH_NODES", bench.nodes()).uid(65534).gid(65534).current_dir("/");
        command
    };
    match nobody(&["contain-probe"]).output() {
        Ok(trial) if trial.status.success() => {}
        other => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: --contain as another user: {other:?}");
            return;
        }
    }
    let script = "id -u; echo $$; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status; \
                  (setsid sleep 600 <&- >&- 2>&- &); exit 3";
    let done = done(&mut nobody(&["run", "--contain", "x", "--", "sh", "-c", script]));
    assert_eq!(done.code(), 3, "{done:?}");
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!((lines[0], lines[1], lines.len()), ("65534", "2", 6));
    assert!(lines[2..].iter().all(|line| line.ends_with("\t0000000000000000")), "no right is left: {done:?}");
    assert!(bench.is_free("x"));
}

#[test]
fn without_the_right_it_is_71_before_the_lock_is_acquired() {
    let Some(bench) = bench(1) else { return };
    let script = "echo 0 > /proc/sys/user/max_pid_namespaces || exit 99; exec \"$0\" run --contain x -- echo started";
    let args = ["--user", "--map-root-user", "sh", "-c", script, REDLEASH];
    let held = bench.hold("x");
    let done = match Command::new("unshare").args(args).env("REDLEASH_NODES", bench.nodes()).output() {
        Ok(done) if done.status.code() == Some(71) => done,
        other if matches!(&other, Ok(done) if matches!(done.status.code(), Some(1 | 99))) || other.is_err() => {
            let _ = writeln!(std::io::stderr(), "SKIPPED: pid namespaces cannot be forbidden here: {other:?}");
            return;
        }
        other => panic!("{other:?}"),
    };
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(out.is_empty() && err.contains("--contain: the kernel refuses") && err.contains("\"x\""), "{out} {err}");
    drop(held);
}

#[test]
fn on_a_terminal_the_command_has_the_foreground() {
    let Some(bench) = bench_if_allowed(1) else { return };
    let terminal = Terminal::bash(&bench.nodes());
    terminal.typed(
        "redleash run --contain --ttl 30s x -- sh -c 'echo u''p; read line; echo \"got $line\"; trap \"exit 9\" INT; \
         echo two; while :; do sleep 0.01; done'\n",
    );
    terminal.expect("up");
    terminal.typed("\x1a");
    terminal.expect("not renewed while suspended");
    terminal.typed("echo prompt $((20 + 1))\n");
    terminal.expect("prompt 21");
    terminal.typed("fg; echo code $((0 + $?))\n");
    let command_line = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    eventually("the command has the foreground again", || {
        terminal.foreground().is_some_and(|group| command_line(group).starts_with("sh"))
    });
    terminal.typed("hello\n");
    terminal.expect("got hello");
    terminal.expect("two\r");
    terminal.typed("\x03");
    terminal.expect("code 9");
    terminal.typed("echo prompt $((20 + 2))\n");
    terminal.expect("prompt 22");
}
