//! `verify scale` finds what it checks for, and the page shows its results.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use redleash_testkit::{Scratch, skipped};
use redleash_verify::scale::holder::{Order, Seen};
use redleash_verify::scale::measure::masters;
use redleash_verify::scale::{plots_of, rate};
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const VERIFY: &str = env!("CARGO_BIN_EXE_verify");

fn docs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"))
}

#[test]
fn held_locks_are_renewed_and_the_page_is_refreshed() {
    if skipped() {
        return;
    }
    let scratch = Scratch::new().unwrap();
    let page = scratch.path().join("PERFORMANCE.md");
    fs::copy(docs().join("PERFORMANCE.md"), &page).unwrap();
    let out = scratch.path().join("scale");
    let done =
        Command::new(VERIFY).args(["scale", "--quick", "--only", "held,masters", "--out"]).arg(&out).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("HELD: ") && said.contains("none was lost"), "{done:?}");
    for name in ["held.csv", "held-memory.svg", "held-cpu.svg", "masters.csv", "masters.svg"] {
        assert!(fs::metadata(out.join(name)).unwrap().len() > 100, "{name}");
    }
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("A quick run") && text.contains("| 300 | Shared | one hangs |"), "{text}");
}

/// A process that holds locks, and the lines that it prints.
fn holder(args: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(VERIFY);
    command.arg("scale").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "holding");
    (process, lines)
}

#[test]
fn a_lock_that_is_lost_is_seen() {
    if skipped() {
        return;
    }
    let masters = masters(3).unwrap();
    let order = Order { shared: true, count: 20, ttl_ms: 1_500, renewals: 1_000 };
    let (mut holder, mut lines) = holder(&["--hold", &order.to_string(), "--nodes", &masters.urls().join(",")]);
    masters[0].kill();
    masters[1].kill();
    holder.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    let seen: Seen = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    // Without its stdin it ends.
    drop(holder.stdin.take());
    assert!(!holder.wait().unwrap().success());
    assert!(seen.lost > 0, "{seen:?}");
}

#[test]
fn a_lock_that_is_lost_beside_threads_at_full_rate_is_seen_with_its_announcement() {
    if skipped() {
        return;
    }
    let masters = masters(3).unwrap();
    let order = rate::Order { held: 20, threads: 1, seconds: 8 };
    let (mut holder, mut lines) = holder(&["--rate", &order.to_string(), "--nodes", &masters.urls().join(",")]);
    holder.stdin.as_mut().unwrap().write_all(b"go on\n").unwrap();
    masters[0].kill();
    masters[1].kill();
    let seen: rate::Seen = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    drop(holder.stdin.take());
    assert!(!holder.wait().unwrap().success());
    assert!(seen.lost == 20 && seen.reasons.values().sum::<usize>() == 20 && seen.unannounced == 0, "{seen:?}");
}

#[test]
fn the_page_has_every_plot_and_a_place_for_every_table() {
    let page = fs::read_to_string(docs().join("PERFORMANCE.md")).unwrap();
    let plots = plots_of(&page);
    for name in ["masters", "threads", "names", "held-memory", "held-cpu", "distance"] {
        let file = format!("{name}.svg");
        assert!(plots.iter().any(|plot| plot.as_os_str() == file.as_str()), "{file} is not on the page");
    }
    for plot in plots {
        let svg = fs::read_to_string(docs().join("scale").join(plot)).unwrap();
        assert!(svg.contains("</svg>"), "{}", plot.display());
    }
    for name in ["machine", "masters", "threads", "names", "held", "hung-rate", "distance"] {
        for mark in [format!("<!-- {name}: measured -->"), format!("<!-- {name}: end -->")] {
            assert_eq!(page.matches(&mark).count(), 1, "{mark}");
        }
    }
}
