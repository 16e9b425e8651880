//! Whether two replies are the same, as far as the simulation promises.

use crate::sim::resp::Reply;

/// An error without the script and the line: what Redis said, or what Lua did.
fn without_place(text: &str) -> String {
    let text = text.split(" script:").next().unwrap_or_default();
    let line =
        |part: &str| part.rsplit(':').next().is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match text.split_once(": ") {
        Some((place, what)) if line(place) => what.to_string(),
        Some(("ERR runtime error", rest)) => rest.split_once(": ").map_or(rest, |(_, what)| what).to_string(),
        _ => text.to_string(),
    }
}

/// A reply without the place in a script where an error happened.
pub(super) fn normal(reply: &Reply) -> Reply {
    match reply {
        Reply::Error(text) => Reply::Error(without_place(text)),
        Reply::Array(items) => Reply::Array(items.iter().map(normal).collect()),
        other => other.clone(),
    }
}

/// How much times on both sides may differ, because they read the clock one after the other.
const SLACK_MS: i64 = 2_000;

/// Whether both are equal, except for what depends on the microsecond.
pub(super) fn same(a: &Reply, b: &Reply) -> bool {
    match (a, b) {
        (Reply::Int(a), Reply::Int(b)) => a == b || (*a > 3_000 && *b > 3_000 && (a - b).abs() < SLACK_MS),
        (Reply::Array(a), Reply::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Reply::Bulk(a), Reply::Bulk(b)) => a == b || same_text(a, b),
        _ => a == b,
    }
}

/// Numbers of 16 digits are microseconds.
fn same_text(a: &[u8], b: &[u8]) -> bool {
    let (a, b) = (pieces(a), pieces(b));
    let micros = |text: &str| text.parse::<i64>().ok().filter(|_| text.len() == 16);
    let same = |(a, b): (&String, &String)| match (micros(a), micros(b)) {
        (Some(x), Some(y)) => (x - y).abs() < SLACK_MS * 1_000,
        _ => a == b,
    };
    a.len() == b.len() && a.iter().zip(&b).all(same)
}

/// A text cut where digits begin or end.
fn pieces(text: &[u8]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for c in String::from_utf8_lossy(text).chars() {
        match out.last_mut() {
            Some(last) if last.ends_with(|l: char| l.is_ascii_digit()) == c.is_ascii_digit() => last.push(c),
            _ => out.push(c.to_string()),
        }
    }
    out
}
