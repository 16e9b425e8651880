//! The verbs status, init and unlock.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash::Client;
use redleash_testkit::Masters;
use serde_json::Value;
use support::pty::Terminal;
use support::{bench, done, ms, redleash};

#[test]
fn status_in_words_and_in_json() {
    let Some(bench) = bench(3) else { return };
    let status = |json: bool| {
        let args: &[&str] = if json { &["status", "--json", "x"] } else { &["status", "x"] };
        let done = done(&mut bench.redleash(args));
        assert_eq!((done.code(), done.err.as_str()), (0, ""));
        done.out
    };
    assert!(status(false).starts_with("\"x\" is free\n"));
    let json: Value = serde_json::from_str(&status(true)).unwrap();
    assert_eq!((&json["state"], &json["holder"]), (&"free".into(), &Value::Null));
    let held = bench.hold("x");
    let text = status(false);
    assert!(text.starts_with("\"x\" is held by test bench since 20"), "{text}");
    assert_eq!(text.lines().count(), 4, "one line for each master: {text}");
    let json: Value = serde_json::from_str(&status(true)).unwrap();
    assert_eq!((&json["state"], &json["holder"], &json["name"]), (&"held".into(), &"test bench".into(), &"x".into()));
    assert_eq!((json["masters"].as_array().unwrap().len(), json["quorum"].as_u64()), (3, Some(2)));
    assert!(json["masters"][0]["ttl_ms"].as_u64().unwrap() > 0);
    drop(held);
}

#[test]
fn a_lock_is_not_reported_free_because_masters_forgot_it() {
    let Some(bench) = bench(3) else { return };
    let held = bench.hold("x");
    for (forgot, master) in bench.masters.iter().enumerate() {
        master.command(&["FLUSHALL"]).unwrap();
        let text = done(&mut bench.redleash(&["status", "x"])).out;
        let json: Value = serde_json::from_str(&done(&mut bench.redleash(&["status", "--json", "x"])).out).unwrap();
        assert_eq!(json["state"], if forgot == 0 { "held" } else { "unclear" }, "{text}");
        assert!(!text.starts_with("\"x\" is free"), "{text}");
    }
    drop(held);
}

#[test]
fn status_without_a_quorum_is_69() {
    let Some(bench) = bench(3) else { return };
    bench.masters[0].kill();
    assert_eq!(done(&mut bench.redleash(&["status", "x"])).code(), 0);
    bench.masters[1].kill();
    let port = bench.masters[1].port().to_string();
    let done = done(&mut bench.redleash(&["status", "--json", "x"]));
    done.expect(69, &["\"x\"", &port]);
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["state"], "unclear");
}

#[test]
fn init_settles_new_masters_once() {
    if redleash_testkit::skipped() {
        return;
    }
    let masters = Masters::start(3).unwrap();
    let with = |args: &[&str]| done(redleash(args).env("REDLEASH_NODES", masters.urls().join(",")));
    with(&["run", "-n", "x", "--", "true"]).expect(69, &["quarantine", "init"]);
    for master in masters.iter() {
        master.command(&["FLUSHALL"]).unwrap();
    }
    masters[2].kill();
    with(&["init"]).expect(69, &["every master", &masters[2].port().to_string()]);
    masters[2].restart_empty().unwrap();
    let done = with(&["init"]);
    assert_eq!(done.code(), 0, "{done:?}");
    assert!(done.out.contains("3 masters settled") && done.out.contains("60s"), "{done:?}");
    with(&["run", "-n", "x", "--", "true"]).expect(0, &[]);
    let again = with(&["init"]);
    again.expect(0, &[]);
    assert!(again.out.contains("settled already"), "{}", again.out);
    with(&["--max-lease", "30s", "run", "-n", "x", "--", "true"]).expect(78, &["max_lease"]);
}

#[test]
fn unlock_revokes_and_nobody_is_granted_before_the_lease_has_ended() {
    let Some(bench) = bench(3) else { return };
    let client = Client::builder().nodes(bench.masters.urls()).ttl(ms(3000)).label("the other").build().unwrap();
    let held = client.lock("x").try_acquire().unwrap().unwrap();
    let done = done(&mut bench.redleash(&["unlock", "--force", "x"]));
    done.expect(0, &[]);
    assert!(done.out.contains("the other") && done.out.contains("free in at most"), "{done:?}");
    let status = support::done(&mut bench.redleash(&["status", "--json", "x"])).out;
    assert_eq!(serde_json::from_str::<Value>(&status).unwrap()["state"], "revoked");
    assert!(!bench.is_free("x") || held.check().is_err(), "nobody is granted while the holder may rely on it");
    bench.next_holder("x").join().unwrap();
    assert!(held.check().is_err());
}

#[test]
fn unlock_now_deletes_and_warns() {
    let Some(bench) = bench(3) else { return };
    let _held = bench.hold("x");
    let done = done(&mut bench.redleash(&["unlock", "--force", "--now", "x"]));
    done.expect(0, &["\"x\"", "test bench", "may still be at work"]);
    // Asked by another client: the bench's own believes in its guard until the next renewal.
    let other = Client::builder().nodes(bench.masters.urls()).build().unwrap();
    assert!(other.lock("x").try_acquire().unwrap().is_some());
}

#[test]
fn unlock_of_a_free_lock() {
    let Some(bench) = bench(1) else { return };
    let done = done(&mut bench.redleash(&["unlock", "--force", "x"]));
    assert!(done.code() == 0 && done.out.contains("free already"), "{done:?}");
}

/// Clears the screen, sets the window's title, begins a line, and reverses the direction of writing.
const HOSTILE: &str = "a\x1b[2J\x1b]0;t\x07\nredleash: fine\r\u{9b}3m\u{202e}gpj\u{2066}\u{7f}z";
const HARMLESS: &str = "a\\u{1b}[2J\\u{1b}]0;t\\u{7}\\nredleash: fine\\r\\u{9b}3m\\u{202e}gpj\\u{2066}\\u{7f}z";

#[track_caller]
fn assert_harmless(text: &str) {
    let harmful =
        |c: &char| (c.is_control() && *c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    assert_eq!(text.chars().find(harmful), None, "{text:?}");
    assert!(!text.contains("\nredleash: fine"), "{text:?}");
}

#[test]
fn what_others_wrote_to_the_masters_is_shown_escaped() {
    let Some(bench) = bench(3) else { return };
    let _held = bench.hold("x");
    let write = |label: &str| {
        for master in bench.masters.iter() {
            let value = master.command(&["GET", "rl:L:{x}"]).unwrap().text().unwrap();
            let parts: Vec<&str> = value.splitn(3, '|').collect();
            let since = value.rsplit_once('|').unwrap().1;
            let value = format!("{}|{}|{label}|{since}", parts[0], parts[1]);
            assert!(master.command(&["SET", "rl:L:{x}", &value, "KEEPTTL"]).unwrap().is_ok());
        }
    };
    write(HOSTILE);
    let runs: [(&[&str], i32); 4] = [
        (&["status", "x"], 0),
        (&["-vvv", "run", "-n", "x", "--", "true"], 75),
        (&["run", "-v", "-w", "0.3", "x", "--", "true"], 75),
        (&["unlock", "--force", "x"], 0),
    ];
    for (args, code) in runs {
        let done = done(&mut bench.redleash(args));
        assert_eq!(done.code(), code, "{done:?}");
        assert!(format!("{}{}", done.out, done.err).contains(HARMLESS), "{done:?}");
        assert_harmless(&done.out);
        assert_harmless(&done.err);
        if args[0] == "status" {
            assert_eq!(done.out.lines().count(), 4, "{done:?}");
        }
    }
    // The lock was taken away, so it is acquired and written anew.
    for master in bench.masters.iter() {
        master.command(&["DEL", "rl:L:{x}"]).unwrap();
    }
    let client = Client::builder().nodes(bench.masters.urls()).label("the other").build().unwrap();
    let _other = client.lock("x").try_acquire().unwrap().unwrap();
    write(HOSTILE);
    let json = done(&mut bench.redleash(&["status", "--json", "x"]));
    assert_harmless(&json.out);
    let parsed: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&parsed["holder"], &parsed["masters"][2]["holder"]), (&HOSTILE.into(), &HOSTILE.into()));
    let mut terminal = Terminal::start(&bench.nodes(), &["redleash", "run", "-w", "1", "x", "--", "true"]);
    terminal.expect(&format!("held by {HARMLESS}"));
    terminal.end();
    // What redleash itself writes to the terminal: it wipes its line out.
    assert_harmless(&terminal.screen().replace("\r\x1b[K", "").replace("\r\n", "\n"));
    let mut terminal = Terminal::start(&bench.nodes(), &["redleash", "unlock", "--force", "x"]);
    terminal.expect("[y/N]");
    terminal.typed("\n");
    terminal.end();
    assert!(terminal.screen().contains(HARMLESS), "{:?}", terminal.screen());
    assert_harmless(&terminal.screen().replace("\r\n", "\n"));
}

#[test]
fn unlock_asks_on_a_terminal() {
    let Some(bench) = bench(1) else { return };
    let held = bench.hold("x");
    let urls = bench.nodes();
    let ask = |answer: &str| {
        let mut terminal = Terminal::start(&urls, &["redleash", "unlock", "--force", "x"]);
        terminal.expect("[y/N]");
        terminal.expect("test bench");
        terminal.typed(answer);
        terminal.end().code()
    };
    assert_eq!(ask("\n"), Some(64));
    assert!(held.verify().is_ok());
    assert_eq!(ask("y\n"), Some(0));
    assert!(held.verify().is_err());
    let mut terminal = Terminal::start(&urls, &["redleash", "unlock", "--force", "--yes", "x"]);
    assert_eq!(terminal.end().code(), Some(0));
}
