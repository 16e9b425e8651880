//! Durations as text: `90s`, `1m30s`.

use std::time::Duration;

/// As on the command line: a number without a unit is seconds.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let bare = text.ends_with(|c: char| c.is_ascii_digit()) && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let zero = if text.starts_with('.') { "0" } else { "" };
    humantime::parse_duration(&format!("{zero}{text}{}", if bare { "s" } else { "" })).ok()
}
