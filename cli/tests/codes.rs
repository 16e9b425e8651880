//! The command has its own streams, environment and exit code. What redleash itself reports has codes of its own.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::wait_until;
use rustix::fd::OwnedFd;
use rustix::process::geteuid;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use support::{bench, bench_with, done, eventually, ms, redleash, start};

#[test]
fn the_command_has_its_own_streams_and_exit_code() {
    let Some(bench) = bench(3) else { return };
    let mut cat = start(bench.script(&[], "x", "cat; echo oops >&2; exit 3").stdin(Stdio::piped()));
    cat.tell("through\n");
    drop(cat.take_stdin());
    let done = cat.end();
    assert_eq!((done.code(), done.out.as_str(), done.err.as_str()), (3, "through\n", "oops\n"));
    assert!(bench.is_free("x"), "a clean end leaves no pause");
}

#[test]
fn what_the_operating_system_refuses_is_71() {
    // The loader of the program needs one descriptor, and the caller may have left some open: bash closes them all.
    let script = r#"for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -le 2 ] || eval "exec $fd>&-"; done
        ulimit -n $1; shift; exec "$@""#;
    for descriptors in ["4", "5", "6"] {
        let mut shell = Command::new("bash");
        shell.args(["-c", script, "bash", descriptors, support::REDLEASH, "run", "-n", "x", "--", "true"]);
        done(shell.env("REDLEASH_NODES", "redis://127.0.0.1:1")).expect(71, &["Too many open files"]);
    }
}

#[test]
fn nothing_runs_when_a_thread_or_a_process_is_refused() {
    let Some(bench) = bench(1) else { return };
    fs::set_permissions(bench.scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Root has no limit. The limit of another user counts all its processes, and in a user namespace it starts from
    // zero.
    let (alone, args): (_, &[&str]) = if geteuid().is_root() {
        ("setpriv", &["--reuid=54321", "--regid=54321", "--clear-groups"])
    } else {
        ("unshare", &["--user"])
    };
    let limited = |tasks: u32, program: &[&str]| {
        let mut command = Command::new(alone);
        command.args(args).args(["prlimit", &format!("--nproc={tasks}")]).args(program).stdin(Stdio::null());
        done(command.env("REDLEASH_NODES", bench.nodes()).env("F", bench.file("out")))
    };
    let trial = limited(1000, &[support::REDLEASH, "--version"]);
    if trial.code() != 0 {
        let _ = writeln!(std::io::stderr(), "SKIPPED: a limit of processes is not possible here: {}", trial.err);
        return;
    }
    let run = [support::REDLEASH, "run", "-w", "3s", "x", "--", "sh", "-c", r#"echo up >> "$F"; exec sleep 0.2"#];
    let mut refused = 0;
    for tasks in 1.. {
        let done = limited(tasks, &run);
        if done.code() == 0 {
            break;
        }
        assert!(tasks < 100, "{tasks}: {done:?}");
        if done.code() == 71 && done.err.contains("nothing was started") {
            refused += 1;
            assert!(!wait_until(ms(100), || bench.file("out").exists()), "{tasks}: it was started: {done:?}");
        }
        let _ = fs::remove_file(bench.file("out"));
    }
    assert!(refused > 1, "threads and processes were refused");
}

#[test]
fn a_command_that_a_signal_ended_is_128_and_its_number() {
    let Some(bench) = bench(1) else { return };
    for (name, code) in [("TERM", 143), ("KILL", 137), ("SEGV", 139)] {
        let done = done(&mut bench.script(&[], "x", &format!("kill -{name} $$")));
        assert_eq!(done.code(), code);
    }
}

#[test]
fn a_caller_that_ignores_sigchld_changes_nothing() {
    let Some(bench) = bench(1) else { return };
    let script = r#"$SIG{CHLD} = "IGNORE"; exec @ARGV"#;
    let mut command = Command::new("perl");
    command.args(["-e", script, support::REDLEASH, "run", "x", "--", "sh", "-c", "exit 3"]).stdin(Stdio::null());
    let done = done(command.env("REDLEASH_NODES", bench.nodes()));
    assert_eq!((done.code(), done.err.as_str()), (3, ""));
}

#[test]
fn the_name_and_a_growing_fencing_token_are_in_the_environment() {
    let Some(bench) = bench(3) else { return };
    let token = || {
        let done = done(&mut bench.script(&[], "ä b/c", r#"echo "$REDLEASH_NAME|$REDLEASH_FENCE|$REDLEASH_NODES""#));
        let rest = done.out.trim().strip_prefix("ä b/c|").unwrap().to_string();
        rest.strip_suffix('|').expect("no masters in the environment").parse::<u64>().unwrap()
    };
    let first = token();
    assert!(token() > first);
}

#[test]
fn the_command_starts_as_if_redleash_were_not_there() {
    let Some(bench) = bench(1) else { return };
    let script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd | wc -l; ulimit -n; umask; pwd";
    let plain = done(Command::new("sh").args(["-c", script]).stdin(Stdio::null()));
    let run = done(&mut bench.script(&[], "x", script));
    assert_eq!(plain.out, run.out, "signals, descriptors, limits and directory are the same");
}

#[test]
fn no_other_process_sees_passwords() {
    let Some(bench) = bench_with(3, &["--requirepass", "s3kret"]) else { return };
    let show = r#"pid=$PPID; tr '\0' ' ' < /proc/$pid/cmdline; tr '\0' ' ' < /proc/$pid/environ; env; exit 1"#;
    let hidden = done(&mut bench.script(&["-vvv"], "x", show));
    assert_eq!(hidden.code(), 1);
    assert!(hidden.out.contains("supervise"), "that was the supervisor: {hidden:?}");
    assert!(!hidden.out.contains("s3kret") && !hidden.err.contains("s3kret"), "{hidden:?}");
    let passed = done(&mut bench.script(&["--pass-nodes"], "x", "echo $REDLEASH_NODES"));
    assert_eq!(passed.out.trim(), bench.nodes());
    for args in [&["--help"][..], &["run", "--help"], &["status", "x"], &["run", "--nonsense"]] {
        let done = done(&mut bench.redleash(args));
        assert!(!done.out.contains("s3kret") && !done.err.contains("s3kret"), "{done:?}");
    }
    let wrong = bench.nodes().replace("s3kret", "0ther");
    let done = done(bench.redleash(&["run", "-n", "x", "--", "true"]).env("REDLEASH_NODES", wrong));
    assert!(done.code() == 78 && !done.err.contains("0ther"), "{done:?}");
}

#[test]
fn a_wrong_command_line_is_64() {
    let usages: [(&[&str], &[&str]); 16] = [
        (&[], &["Usage"]),
        (&["run", "x", "--nonsense", "--", "true"], &["--nonsense"]),
        (&["run", "x", "true"], &["`--`", "redleash run NAME -- CMD"]),
        (&["run", "x"], &["CMD", "`--`"]),
        (&["run", "x", "--"], &["CMD"]),
        (&["run", "-n", "-w", "5", "x", "--", "true"], &["-n", "--wait"]),
        (&["run", "-E", "256", "x", "--", "true"], &["256"]),
        (&["run", "--ttl", "soon", "x", "--", "true"], &["soon", "--ttl", "15s"]),
        (&["run", "-w", "1m30", "x", "--", "true"], &["1m30", "--wait", "1m30s"]),
        (
            &["run", "--ttl", "10s", "--kill-after", "4001ms", "x", "--", "true"],
            &["--kill-after 4s1ms", "--ttl 10s", "\"x\""],
        ),
        (&["run", "--ttl", "500ms", "x", "--", "true"], &["--ttl 500ms"]),
        (&["run", "--max-hold", "2s", "x", "--", "true"], &["--max-hold 2s"]),
        (&["unlock", "x"], &["--force"]),
        (&["supervise", "x", "kill", "1", "1", "background", "free", "true"], &["started by `redleash run` only"]),
        (&["contain", "kill", "1", "x", "kill"], &["started by `redleash run` only"]),
        (&["exec-command"], &["started by `redleash run` only"]),
    ];
    for (args, words) in usages {
        done(&mut redleash(args)).expect(64, words);
    }
    let Some(bench) = bench(1) else { return };
    done(&mut bench.redleash(&["run", "a{b}", "--", "true"])).expect(64, &["a{b}", "brace"]);
    let fits = ["run", "--ttl", "10s", "--kill-after", "4s", "x", "--", "true"];
    assert_eq!(done(&mut bench.redleash(&fits)).code(), 0);
}

#[test]
fn a_wrong_configuration_is_78() {
    let nodes = |nodes: &str| done(redleash(&["run", "x", "--", "true"]).env("REDLEASH_NODES", nodes));
    nodes("http://127.0.0.1").expect(78, &["nodes", "redis://"]);
    nodes("redis://127.0.0.1:1,redis://127.0.0.1:1").expect(78, &["127.0.0.1:1", "twice"]);
    nodes("redis+sentinel://127.0.0.1").expect(78, &["Sentinel"]);
    nodes(",").expect(78, &["REDLEASH_NODES", "--nodes"]);
    let Some(bench) = bench(1) else { return };
    done(&mut bench.redleash(&["run", "--ttl", "58s", "x", "--", "true"])).expect(78, &["lock_delay", "max_lease"]);
    bench.masters[0].command(&["LPUSH", "rl:L:{x}", "not a lock"]).unwrap();
    done(&mut bench.redleash(&["run", "x", "--", "true"])).expect(78, &["\"x\"", "list", "127.0.0.1"]);
}

#[test]
fn without_masters_it_is_78_and_says_how_to_name_them() {
    for args in [&["run", "x", "--", "true"][..], &["status", "x"], &["init"], &["unlock", "--force", "x"], &["bench"]]
    {
        let words = ["REDLEASH_NODES", "--nodes", "redis://10.0.0.1,", "same on all hosts"];
        let done = done(&mut redleash(args));
        done.expect(78, &words);
        assert!(!done.err.contains("--pass-nodes"), "{done:?}");
    }
}

#[test]
fn a_nested_run_says_who_removed_the_masters() {
    let Some(bench) = bench(1) else { return };
    let inner = format!("{} run inner -- echo started", support::REDLEASH);
    let nested = done(&mut bench.script(&[], "outer", &inner));
    nested.expect(78, &["\"outer\"", "removes REDLEASH_NODES", "--pass-nodes"]);
    let passed = done(&mut bench.script(&["--pass-nodes"], "outer", &inner));
    assert_eq!((passed.code(), passed.out.as_str(), passed.err.as_str()), (0, "started\n", ""));
}

#[test]
fn no_quorum_is_69_and_names_the_masters() {
    let Some(bench) = bench(3) else { return };
    bench.masters[0].kill();
    assert_eq!(done(&mut bench.redleash(&["run", "x", "--", "true"])).code(), 0, "one of three may be down");
    bench.masters[1].kill();
    let down = [bench.masters[0].port().to_string(), bench.masters[1].port().to_string()];
    let done = done(&mut bench.redleash(&["run", "-n", "x", "--", "echo", "started"]));
    done.expect(69, &["\"x\"", &down[0], &down[1]]);
    assert_eq!(done.out, "");
}

#[test]
fn a_command_that_is_not_there_is_127_and_does_not_wait() {
    let Some(bench) = bench(1) else { return };
    let _held = bench.hold("x");
    done(&mut bench.redleash(&["run", "x", "--", "no-such-command"])).expect(127, &["\"x\"", "no-such-command"]);
    done(&mut bench.redleash(&["run", "x", "--", "/no/such/command"])).expect(127, &["/no/such/command"]);
}

#[test]
fn a_command_that_cannot_be_executed_is_126() {
    let Some(bench) = bench(1) else { return };
    let (file, script) = (bench.file("data"), bench.file("script"));
    fs::write(&file, "data").unwrap();
    fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let run = |path: &str| done(&mut bench.redleash(&["run", "x", "--", path]));
    run(file.to_str().unwrap()).expect(126, &["\"x\"", "data", "executable"]);
    run(script.to_str().unwrap()).expect(126, &["\"x\"", "script", "interpreter"]);
    run("/").expect(126, &["directory"]);
    assert!(bench.is_free("x"));
}

#[test]
fn a_closed_standard_input_is_an_empty_one() {
    let Some(bench) = bench(1) else { return };
    let shell = format!("exec {} run x -- sh -c 'cat; echo end' <&-", support::REDLEASH);
    let done = done(Command::new("sh").args(["-c", &shell]).env("REDLEASH_NODES", bench.nodes()));
    assert_eq!((done.code(), done.out.as_str()), (0, "end\n"), "{done:?}");
}

#[test]
fn a_pipe_that_breaks_ends_the_command_alone() {
    let Some(bench) = bench(1) else { return };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let writer = OwnedFd::from(writer);
    let mut command = bench.script(&["-v"], "x", "while :; do echo y || exit; done");
    // Standard error is broken as well, while redleash has something to say.
    let mut process = command.stdout(writer.try_clone().unwrap()).stderr(writer).spawn().unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(141));
    assert!(bench.is_free("x"));
}

#[test]
fn a_reader_sees_the_end_when_the_command_closes_its_output() {
    let Some(bench) = bench(1) else { return };
    let mut command = bench.script(&[], "x", r#"echo all; exec >&- 2>&-; read go; echo done > "$F""#);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut reader = process.stdout.take().unwrap();
    let all = std::thread::Builder::new().spawn(move || std::io::read_to_string(&mut reader).unwrap()).unwrap();
    eventually("the reader sees the end", || all.is_finished());
    assert_eq!(all.join().unwrap(), "all\n");
    assert_eq!(bench.written(), "", "it is still at work");
    drop(process.stdin.take());
    process.wait().unwrap();
    assert_eq!(bench.written(), "done\n");
}
