//! On a terminal, the command has the foreground while it runs, and then gives it back.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::wait_until;
use std::time::Duration;
use support::pty::Terminal;
use support::{DEADLINE, bench, eventually, is_alive, ms};

#[test]
fn the_command_reads_the_terminal_and_the_foreground_is_given_back() {
    let Some(bench) = bench(1) else { return };
    // A shell without job control does not care for the foreground itself: its own read fails unless it is given back.
    let script =
        "redleash run x -- sh -c 'read line; echo \"got $line\"'; echo code $?; read line; echo \"then $line\"";
    let mut terminal = Terminal::start(&bench.nodes(), &["sh", "-c", script]);
    terminal.typed("one\n");
    terminal.expect("got one");
    terminal.expect("code 0");
    terminal.typed("two\n");
    terminal.expect("then two");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn the_foreground_is_the_commands_group_from_its_first_instruction_on() {
    let Some(bench) = bench(1) else { return };
    let script = "redleash run x -- sh -c 'set -- $(cat /proc/$$/stat); echo group $5 foreground $8 self $$'";
    let mut terminal = Terminal::start(&bench.nodes(), &["sh", "-c", script]);
    terminal.expect("self ");
    terminal.end();
    let screen = terminal.screen();
    let numbers: Vec<&str> = screen.split_whitespace().filter(|word| word.parse::<u32>().is_ok()).collect();
    assert!(numbers.len() == 3 && numbers.iter().all(|n| *n == numbers[0]), "{screen}");
}

#[test]
fn ctrl_c_is_for_the_command() {
    let Some(bench) = bench(1) else { return };
    let script = "redleash run x -- sh -c 'trap \"exit 9\" INT; echo up; while :; do sleep 0.01; done'; echo code $?";
    let terminal = Terminal::bash(&bench.nodes());
    terminal.typed(&format!("{}\n", script.replace("echo up", "echo u''p")));
    terminal.expect("up");
    terminal.typed("\x03");
    terminal.expect("code 9");
    assert!(bench.is_free("x"));
}

#[test]
fn ctrl_c_while_waiting() {
    let Some(bench) = bench(1) else { return };
    let _held = bench.hold("x");
    let terminal = Terminal::bash(&bench.nodes());
    terminal.typed("redleash run x -- true; echo code $((1 + $?))\n");
    terminal.expect("held by test bench");
    terminal.typed("\x03");
    terminal.expect("SIGINT ended the wait");
}

#[test]
fn one_line_shows_who_holds_the_lock() {
    let Some(bench) = bench(3) else { return };
    let held = bench.hold("x");
    let mut terminal = Terminal::start(&bench.nodes(), &["redleash", "run", "x", "--", "echo", "mine"]);
    terminal.expect("waiting for \"x\"");
    terminal.expect("held by test bench since 20");
    terminal.expect("(1s)");
    drop(held);
    terminal.end();
    let screen = terminal.screen();
    assert!(screen.ends_with("\r\x1b[Kmine\r\n"), "the line is wiped out: {screen:?}");
    assert_eq!(screen.matches('\n').count(), 1, "it is one line: {screen:?}");
}

#[test]
fn ctrl_z_suspends_and_fg_continues() {
    let Some(bench) = bench(1) else { return };
    let terminal = Terminal::bash(&bench.nodes());
    terminal.typed("redleash run --ttl 30s x -- sh -c 'echo u''p; read line; echo \"got $line\"'; echo code $?\n");
    terminal.expect("up");
    terminal.typed("\x1a");
    terminal.expect("not renewed while suspended");
    terminal.expect("Stopped");
    terminal.typed("echo prompt $((20 + 1))\n");
    terminal.expect("prompt 21");
    terminal.typed("fg\n");
    eventually("the command has the foreground again", || {
        terminal.foreground().is_some_and(|group| command_line(group).starts_with("sh"))
    });
    terminal.typed("hello\n");
    terminal.expect("got hello");
    terminal.typed("echo prompt $((20 + 2))\n");
    terminal.expect("prompt 22");
}

fn command_line(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

#[test]
fn a_suspended_command_is_dead_before_the_lease_ends() {
    let Some(bench) = bench(3) else { return };
    let terminal = Terminal::bash(&bench.nodes());
    // One process: a shell that is just starting another one (vfork) cannot be stopped, with or without redleash.
    terminal.typed("redleash run --ttl 3s --lock-delay 0 x -- sh -c 'echo u''p $$; exec sleep 600'\n");
    terminal.expect("up ");
    let mut command = 0;
    eventually("it has written its process id", || {
        let screen = terminal.screen();
        let line = screen.rsplit_once("up ").and_then(|(_, rest)| rest.split_once('\r'));
        command = line.and_then(|(pid, _)| pid.parse().ok()).unwrap_or(0);
        command != 0
    });
    terminal.typed("\x1a");
    terminal.expect("Stopped");
    let lock = bench.lock("x");
    let guard = lock.try_acquire_for(DEADLINE).unwrap().expect("the lease of a suspended holder ends");
    assert!(!is_alive(command));
    drop(guard);
    terminal.typed("fg\n");
    terminal.expect("is lost");
    terminal.typed("echo code $?\n");
    terminal.expect("code 76");
}

#[test]
fn ctrl_z_where_no_shell_can_continue_the_job() {
    let Some(bench) = bench(1) else { return };
    // redleash leads the session, as in `ssh -t host redleash run ...`.
    let args = ["redleash", "run", "x", "--", "sh", "-c", "echo up; read line; echo \"got $line\""];
    let mut terminal = Terminal::start(&bench.nodes(), &args);
    terminal.expect("up");
    terminal.typed("\x1a");
    terminal.expect("^Z");
    eventually("the command has the foreground again", || {
        terminal.foreground().is_some_and(|group| command_line(group).starts_with("sh"))
    });
    terminal.typed("hello\n");
    terminal.expect("got hello");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn a_background_job_that_reads_the_terminal_stops_until_fg() {
    let Some(bench) = bench(1) else { return };
    let terminal = Terminal::bash(&bench.nodes());
    terminal.typed("redleash run --ttl 30s x -- sh -c 'read line; echo \"got $line\"' &\n");
    eventually("the job is stopped", || {
        terminal.typed("jobs\n");
        wait_until(ms(200), || terminal.screen().contains("Stopped"))
    });
    terminal.typed("fg\n");
    eventually("the command has the foreground", || {
        terminal.foreground().is_some_and(|group| command_line(group).starts_with("sh"))
    });
    terminal.typed("hello\n");
    terminal.expect("got hello");
}

#[test]
fn the_reader_of_a_pipeline_keeps_the_terminal() {
    let Some(bench) = bench(1) else { return };
    let terminal = Terminal::bash(&bench.nodes());
    let end = bench.file("end");
    let command = format!("redleash run x -- sh -c 'echo data; until [ -e {} ]; do sleep 0.01; done'", end.display());
    terminal.typed(&format!("{command} | {{ read a; echo got $a; read b < /dev/tty; echo \"pager $b\"; }}\n"));
    terminal.expect("got data");
    terminal.typed("key\n");
    terminal.expect("pager key");
    std::fs::write(end, "").unwrap();
    terminal.typed("echo prompt $((20 + 1))\n");
    terminal.expect("prompt 21");
}

#[test]
fn a_command_in_a_pipeline_gets_the_foreground_when_it_reads() {
    let Some(bench) = bench(1) else { return };
    let terminal = Terminal::bash(&bench.nodes());
    terminal.typed("redleash run x -- sh -c 'read line < /dev/tty; echo \"got $line\"' | cat\n");
    eventually("the command has the foreground", || {
        terminal.foreground().is_some_and(|group| command_line(group).starts_with("sh"))
    });
    terminal.typed("key\n");
    terminal.expect("got key");
    terminal.typed("echo prompt $((20 + 1))\n");
    terminal.expect("prompt 21");
}

#[test]
fn a_terminal_that_goes_away() {
    let Some(bench) = bench(3) else { return };
    for args in [
        // As in `tmux new-session 'redleash run ...'`, and below a shell.
        &["redleash", "run", "x", "--", "sh", "-c", "echo up; while :; do sleep 0.01; done"][..],
        &["bash", "-c", "redleash run x -- sh -c 'echo up; while :; do sleep 0.01; done'; :"],
    ] {
        let mut terminal = Terminal::start(&bench.nodes(), args);
        terminal.expect("up");
        let command = terminal.foreground().unwrap();
        terminal.close();
        eventually("the command is ended", || !is_alive(command));
        eventually("the lock is released, before its lease is over", || bench.is_free("x"));
    }
}

#[test]
fn a_command_that_ignores_the_end_of_its_terminal_keeps_the_lock() {
    let Some(bench) = bench(3) else { return };
    let script = "trap '' HUP; echo up; until [ -e \"$0\" ]; do sleep 0.01; done";
    let file = bench.file("end");
    let args = ["redleash", "run", "-v", "--ttl", "9s", "x", "--", "sh", "-c", script, file.to_str().unwrap()];
    let mut terminal = Terminal::start(&bench.nodes(), &args);
    terminal.expect("up");
    let command = terminal.foreground().unwrap();
    terminal.close();
    // The life of the key only grows by a renewal.
    let mut least = Duration::MAX;
    eventually("it is renewed", || {
        let ttl = bench.client.status("x").unwrap().masters[0].ttl.expect("the lock is held");
        least = least.min(ttl);
        ttl > least
    });
    assert!(is_alive(command));
    std::fs::write(file, "").unwrap();
    assert_eq!(terminal.end().code(), Some(0));
    assert!(bench.is_free("x"));
}

#[test]
fn the_modes_of_the_terminal_are_restored_after_a_kill() {
    let Some(bench) = bench(1) else { return };
    let script = "redleash run x -- sh -c 'stty raw -echo; kill -9 $$'; echo code $?; stty -a";
    let mut terminal = Terminal::start(&bench.nodes(), &["sh", "-c", script]);
    terminal.end();
    let screen = terminal.screen();
    assert!(screen.contains("code 137") && screen.contains(" icanon") && screen.contains(" echo "), "{screen}");
}
