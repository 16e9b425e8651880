//! Durations on the command line: `15s`, `500ms`, `1.5m`, `2h`; a bare number is seconds, as with flock and timeout.

use std::time::Duration;

const UNITS: [(&str, f64); 5] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86_400.0)];

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let hint = || "give a number and a unit, such as 15s, 500ms or 2m".to_string();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let seconds = match UNITS.iter().find(|(name, _)| *name == unit) {
        Some((_, seconds)) => *seconds,
        None if unit.is_empty() => 1.0,
        None => return Err(hint()),
    };
    // `parse` takes "inf", "1e9" and signs as well.
    if !digits.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(hint());
    }
    let number: f64 = digits.parse().map_err(|_| hint())?;
    let ms = (number * seconds * 1000.0).round();
    if ms > 1e15 { Err("it is too long".into()) } else { Ok(Duration::from_millis(ms as u64)) }
}

/// The shortest way to write it that `parse` reads.
pub(crate) fn show(d: Duration) -> String {
    if d.subsec_millis() == 0 { format!("{}s", d.as_secs()) } else { format!("{}ms", d.as_millis()) }
}

/// A span for people: `12 s`, `3 min`, `5 h`.
pub(crate) fn rough(d: Duration) -> String {
    match d.as_secs() {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, show};
    use std::time::Duration;

    #[test]
    fn units() {
        let all = [
            ("15s", 15_000),
            ("500ms", 500),
            ("1.5", 1500),
            ("0", 0),
            ("2m", 120_000),
            ("1h", 3_600_000),
            (".5s", 500),
        ];
        for (text, ms) in all {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "-1", "1e3", "5 s", "inf", "5x", "1.2.3", "99999999999999999999d"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(show(Duration::from_millis(3750)), "3750ms");
        assert_eq!(show(Duration::from_secs(90)), "90s");
    }
}
