//! What was measured, as text and as JSON.

use super::bars::{Ink, bars};
use super::spread::Spread;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// One master.
#[derive(Debug, Default)]
pub(crate) struct Master {
    pub(crate) label: String,
    pub(crate) asked: u64,
    pub(crate) round_trip: Spread,
    /// Why it did not answer the last question that it did not answer.
    pub(crate) failure: Option<String>,
}

/// One number of threads.
#[derive(Debug)]
pub(crate) struct Throughput {
    pub(crate) threads: u16,
    pub(crate) locks: u64,
    pub(crate) took: Duration,
}

/// A lock for which there is no contention.
#[derive(Debug, Default)]
pub(crate) struct Free {
    pub(crate) acquire: Spread,
    pub(crate) release: Spread,
    pub(crate) drop: Spread,
    /// Releases that too few masters confirmed in time.
    pub(crate) unconfirmed: u64,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) votes: usize,
    pub(crate) masters: Vec<Master>,
    pub(crate) free: Free,
    pub(crate) throughput: Vec<Throughput>,
    /// From thread to thread of one client.
    pub(crate) threads: Spread,
    /// From client to client.
    pub(crate) clients: Spread,
    pub(crate) took: Duration,
    /// The signal that ended the measurement early.
    pub(crate) ended_by: Option<String>,
}

impl Throughput {
    fn per_second(&self) -> f64 {
        self.locks as f64 / self.took.as_secs_f64().max(1e-9)
    }
}

/// `null` for what was not measured.
fn spread_json(spread: &Spread) -> Value {
    let us = |d: Duration| (d.as_nanos() as f64 / 100.0).round() / 10.0;
    if spread.count() == 0 {
        return Value::Null;
    }
    json!({
        "count": spread.count(),
        "p50": us(spread.percentile(0.5)),
        "p90": us(spread.percentile(0.9)),
        "p99": us(spread.percentile(0.99)),
        "max": us(spread.max()),
    })
}

pub(crate) fn json(found: &Found) -> Value {
    let master = |m: &Master| {
        let (label, failure) = (&m.label, &m.failure);
        json!({ "master": label, "asked": m.asked, "failure": failure, "round_trip_us": spread_json(&m.round_trip) })
    };
    let throughput = |t: &Throughput| {
        let (seconds, rate) = (t.took.as_secs_f64(), t.per_second().round());
        json!({ "threads": t.threads, "locks": t.locks, "seconds": seconds, "per_second": rate })
    };
    json!({
        "seconds": found.took.as_secs_f64(),
        "ended_by": found.ended_by,
        "quorum": found.votes,
        "masters": found.masters.iter().map(master).collect::<Vec<_>>(),
        "free_lock": {
            "acquire_us": spread_json(&found.free.acquire),
            "release_us": spread_json(&found.free.release),
            "drop_us": spread_json(&found.free.drop),
            "unconfirmed_releases": found.free.unconfirmed,
        },
        "throughput": found.throughput.iter().map(throughput).collect::<Vec<_>>(),
        "hand_over": {
            "threads_us": spread_json(&found.threads),
            "clients_us": spread_json(&found.clients),
        },
    })
}

fn row(text: &mut String, what: &str, spread: &Spread) {
    let ms = |d: Duration| d.as_nanos() as f64 / 1e6;
    let _ = match spread.count() {
        0 => writeln!(text, "  {what:<34} not measured"),
        count => writeln!(
            text,
            "  {what:<34} {count:>9} {:>9.3} {:>9.3} {:>9.3} {:>9.3}",
            ms(spread.percentile(0.5)),
            ms(spread.percentile(0.9)),
            ms(spread.percentile(0.99)),
            ms(spread.max())
        ),
    };
}

pub(crate) fn text(found: &Found, ink: Ink) -> String {
    let mut text = String::new();
    let (n, votes) = (found.masters.len(), found.votes);
    let head = format!("{n} masters, quorum {votes}; times in ms");
    let _ = writeln!(text, "{head:<36} {:>9} {:>9} {:>9} {:>9} {:>9}", "count", "p50", "p90", "p99", "max");
    let _ = writeln!(text, "round trip");
    for master in &found.masters {
        match &master.failure {
            Some(failure) if master.round_trip.count() == 0 => {
                let _ = writeln!(text, "  {:<34} {failure}", master.label);
            }
            failure => {
                row(&mut text, &master.label, &master.round_trip);
                if let Some(failure) = failure {
                    let silent = master.asked.saturating_sub(master.round_trip.count());
                    let _ = writeln!(text, "    {silent} of {} questions without an answer: {failure}", master.asked);
                }
            }
        }
    }
    let _ = writeln!(text, "a free lock");
    row(&mut text, "acquire", &found.free.acquire);
    row(&mut text, "release, confirmed by a quorum", &found.free.release);
    row(&mut text, "drop of the guard", &found.free.drop);
    if found.free.unconfirmed > 0 {
        let _ = writeln!(text, "    {} releases were not confirmed in time", found.free.unconfirmed);
    }
    let _ = writeln!(text, "hand-over of a lock that others wait for");
    row(&mut text, "between threads of one client", &found.threads);
    row(&mut text, "between two clients", &found.clients);
    let _ = writeln!(text, "throughput, each thread with a lock of its own");
    for t in &found.throughput {
        let threads = format!("{} thread{}", t.threads, if t.threads == 1 { "" } else { "s" });
        let _ = writeln!(text, "  {threads:<34} {:>9.0} locks/s", t.per_second());
    }
    for (title, spread) in
        [("acquire of a free lock", &found.free.acquire), ("hand-over between two clients", &found.clients)]
    {
        if spread.count() > 0 {
            let _ = writeln!(text, "\n{title}\n{}", bars(spread, ink).join("\n"));
        }
    }
    text.truncate(text.trim_end().len());
    text
}
