//! The result of a run, as text.

use super::check::{History, overlaps};
use super::faults::Fault;
use super::history::Kind;
use super::register::Account;
use crate::Verdict;
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// So many violations of one arena are printed.
const SHOWN: usize = 10;

/// One arena's figures: a name, a value.
pub fn figures(history: &History) -> Vec<(&'static str, String)> {
    let of = |kind| history.holds.iter().filter(|hold| hold.kind == kind).count();
    let sum = |pick: fn(&Account) -> u64, fenced: bool| -> u64 {
        history.accounts.values().map(|(f, u)| pick(if fenced { f } else { u })).sum()
    };
    let late: Vec<u64> = history.holds.iter().map(|hold| hold.late).filter(|late| *late > 0).collect();
    let losses = history.losses().iter().map(|(reason, n)| format!("{n} {reason}")).collect::<Vec<_>>().join(", ");
    vec![
        (
            "acquisitions",
            format!("{} (library {}, redleash run {})", history.holds.len(), of(Kind::Library), of(Kind::Command)),
        ),
        ("two holders at once", overlaps(&history.holds).len().to_string()),
        ("fencing tokens that did not rise", super::check::falling_tokens(&history.holds).len().to_string()),
        (
            "fenced register",
            format!(
                "{} updates, {} lost, {} late reads and writes refused",
                sum(|a| a.accepted, true),
                sum(|a| a.lost, true),
                sum(|a| a.refused, true)
            ),
        ),
        (
            "unfenced register (control)",
            format!(
                "{} updates, {} lost by {} late writes",
                sum(|a| a.accepted, false),
                sum(|a| a.lost, false),
                sum(|a| a.late_writes[0] + a.late_writes[1], false)
            ),
        ),
        ("late writes by commands", sum(|a| a.late_writes[1], false).to_string()),
        ("leases lost", if losses.is_empty() { "0".into() } else { losses }),
        (
            "losses announced after deadline",
            match late.iter().max() {
                None => "0".into(),
                Some(most) => format!("{}, at most {} ms awake", late.len(), most * 10),
            },
        ),
        (
            "locks left at the end",
            match history.cleared {
                Some(after) => format!("none after {:.1} s", after.as_secs_f64()),
                None => "some".into(),
            },
        ),
        ("waits that were not granted", history.busy.to_string()),
        ("faults", history.faults.len().to_string()),
    ]
}

fn ms(d: Duration) -> String {
    if d == Duration::MAX { "never".into() } else { format!("{} ms", d.as_millis()) }
}

/// The rows of the table of faults: kind, times, recovery by median and maximum.
pub fn tolls(history: &History) -> Vec<(Fault, u64, String, String)> {
    let tolls = history.tolls();
    tolls.into_iter().map(|(fault, toll)| (fault, toll.times, ms(toll.recovery.0), ms(toll.recovery.1))).collect()
}

/// Everything about one arena.
pub fn text(history: &History) -> String {
    let mut out = String::new();
    let seconds = (history.span.1 - history.span.0) as f64 / 1e9;
    let _ = writeln!(out, "\n{}, {seconds:.0} s, seed {}", history.setup.title(), history.setup.seed);
    for (name, value) in figures(history) {
        let _ = writeln!(out, "  {name:<34} {value}");
    }
    let reported: Vec<String> = history.reported.iter().map(|(what, n)| format!("{what} {n}")).collect();
    let _ = writeln!(out, "  {:<34} {}", "reported", reported.join(", "));
    let _ = writeln!(out, "  {:<34} {:>5}  next grant after its end: median, maximum", "fault", "times");
    for (fault, times, median, maximum) in tolls(history) {
        let _ = writeln!(out, "  {:<34} {times:>5}  {median:>9} {maximum:>9}", fault.name());
    }
    let violations = history.violations();
    for violation in violations.iter().take(SHOWN) {
        let _ = writeln!(out, "  VIOLATION: {violation}");
    }
    if violations.len() > SHOWN {
        let _ = writeln!(out, "  ... and {} more", violations.len() - SHOWN);
    }
    for reason in history.vacuous() {
        let _ = writeln!(out, "  PROVES NOTHING: {reason}");
    }
    out
}

/// The verdict on all arenas.
pub fn verdict(histories: &[History]) -> Verdict {
    let violations: usize = histories.iter().map(|history| history.violations().len()).sum();
    let vacuous: Vec<String> = histories.iter().flat_map(History::vacuous).collect();
    let holds: usize = histories.iter().map(|history| history.holds.len()).sum();
    let faults: usize = histories.iter().map(|history| history.faults.len()).sum();
    let mut kinds: Vec<Fault> = histories.iter().flat_map(|history| history.faults.iter().map(|f| f.fault)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let fenced: u64 = histories.iter().flat_map(|h| h.accounts.values()).map(|(fenced, _)| fenced.accepted).sum();
    let free: u64 = histories.iter().flat_map(|h| h.accounts.values()).map(|(_, free)| free.lost).sum();
    let line = format!(
        "{holds} acquisitions on {} deployments under {faults} faults of {} kinds; {fenced} fenced updates, none lost; \
         the unfenced control lost {free}",
        histories.len(),
        kinds.len()
    );
    match (violations, vacuous.first()) {
        (0, None) => Verdict::held(line),
        (0, Some(reason)) => Verdict::failed(format!("it proves nothing: {reason}")),
        (n, _) => Verdict::failed(format!("{n} violations in {holds} acquisitions under {faults} faults")),
    }
}

/// The date, in UTC.
pub fn today() -> String {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 86_400);
    date(days)
}

/// The date so many days after 1970-01-01, by the Gregorian calendar.
fn date(days: u64) -> String {
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let (mut year, mut day) = (1970, days);
    while day >= 365 + u64::from(leap(year)) {
        day -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while day >= lengths[month] {
        day -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, day + 1)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!([0, 59, 11_016, 20_513].map(date), ["1970-01-01", "1970-03-01", "2000-02-29", "2026-03-01"]);
    }
}
