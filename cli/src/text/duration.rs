//! Durations on the command line and in messages, by the humantime crate: `500ms`, `15s`, `1m30s`, `2h`.

use humantime::format_duration;
use std::time::Duration;

/// The longest duration that an option takes: some 30 000 years, so that no sum overflows.
const LONGEST: Duration = Duration::from_secs(1_000_000_000_000);
/// More digits than this in one number are refused before they are read.
const MOST_DIGITS: usize = 15;

/// Reads an option's value. A number without a unit is seconds, as with flock and timeout.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let expected = || "expected a duration such as 500ms, 15s or 1m30s (a number alone is seconds)".to_string();
    let too_long = || format!("a duration is at most {} s", LONGEST.as_secs());
    if text.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > MOST_DIGITS) {
        return Err(too_long());
    }
    // humantime wants a digit first and a unit behind each number.
    let zero = if text.starts_with('.') { "0" } else { "" };
    let unit = if text.ends_with(|c: char| c.is_ascii_digit()) && text.bytes().all(is_of_a_number) { "s" } else { "" };
    let parsed = humantime::parse_duration(&format!("{zero}{text}{unit}")).map_err(|_| expected())?;
    if parsed > LONGEST { Err(too_long()) } else { Ok(parsed) }
}

fn is_of_a_number(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'.'
}

/// Exactly, in one word that an option takes: `1m30s`.
pub(crate) fn exact(d: Duration) -> String {
    format_duration(d).to_string().replace(' ', "")
}

/// Rounded down, for people: `12s`, `3m 20s`, `5h 12m`, `3days 4h`.
pub(crate) fn rough(d: Duration) -> String {
    let seconds = d.as_secs();
    let unit = match seconds {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    format_duration(Duration::from_secs(seconds - seconds % unit)).to_string()
}

#[cfg(test)]
mod tests {
    use super::{exact, parse, rough};
    use std::time::Duration;

    #[test]
    fn durations_are_read_with_and_without_a_unit() {
        let all = [
            ("15s", 15_000),
            ("500ms", 500),
            ("1.5", 1_500),
            ("0", 0),
            ("0.3", 300),
            ("60", 60_000),
            ("2m", 120_000),
            ("1.5m", 90_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            (".5s", 500),
            ("10sec", 10_000),
            ("1m30s", 90_000),
            ("1h 30min", 5_400_000),
        ];
        for (text, ms) in all {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", ".", "-1", "1e3", "inf", "5x", "1.2.3", "1m30", "99999999999999999999d", "1000000y"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_shown_can_be_typed() {
        for (ms, text) in [(3_750, "3s750ms"), (90_000, "1m30s"), (4_001, "4s1ms"), (15_000, "15s"), (0, "0s")] {
            assert_eq!(exact(Duration::from_millis(ms)), text);
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)));
        }
    }

    #[test]
    fn people_see_two_units_at_most() {
        for (seconds, text) in [(12, "12s"), (200, "3m 20s"), (18_725, "5h 12m"), (273_700, "3days 4h")] {
            assert_eq!(rough(Duration::from_secs(seconds)), text);
        }
    }
}
