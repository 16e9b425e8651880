//! Who holds a lock, in words.

use super::duration::rough;
use super::say;
use crate::command;
use crate::system::clock::{date, wall_ms};
use redleash::{MasterStatus, Status};
use std::ffi::OsString;
use std::time::Duration;

/// Longer labels are cut.
const MAX_LABEL: usize = 128;

/// What others read about us while we hold a lock: host, process and command. Not the command's arguments, which may
/// hold a secret, and no control characters, which would break the value.
pub(crate) fn own_label(command: &[OsString]) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let text = format!("{host} pid {} {}", std::process::id(), command::short_name(command));
    let mut label: String = text.chars().filter(|c| !c.is_control()).collect();
    while label.len() > MAX_LABEL {
        label.pop();
    }
    label
}

/// `web1 pid 4242 pg_dump since 2026-11-21 10:31:05 UTC (3m 20s)`; the time is by the holder's clock.
pub(crate) fn words(master: &MasterStatus) -> String {
    let holder = match master.holder.as_deref() {
        None => "nobody",
        Some("(revoked)") => {
            "nobody (it was taken away by force, and becomes free when the lease of its former holder has ended)"
        }
        Some(label) => label,
    };
    let holder = say::shown(holder);
    match master.since_ms {
        Some(since) => {
            let for_ms = wall_ms().saturating_sub(since);
            format!("{holder} since {} ({})", date(since), rough(Duration::from_millis(for_ms)))
        }
        None => holder,
    }
}

/// A master that names a holder: the one that most masters name.
pub(crate) fn found(status: &Status) -> Option<&MasterStatus> {
    let same = |m: &MasterStatus| {
        status.masters.iter().filter(|o| o.holder == m.holder && o.fingerprint == m.fingerprint).count()
    };
    status.masters.iter().filter(|m| m.holder.is_some()).max_by_key(|m| same(m))
}

/// `web1 pid 4242 pg_dump since ... on 10.0.0.1:6379, 10.0.0.2:6379`; `None` if no master names anybody.
pub(crate) fn with_masters(status: &Status) -> Option<String> {
    let holder = found(status)?;
    let masters = status.masters.iter().filter(|m| m.holder == holder.holder && m.fingerprint == holder.fingerprint);
    let masters: Vec<&str> = masters.map(|m| m.master.as_str()).collect();
    Some(format!("{} on {}", words(holder), masters.join(", ")))
}

/// What every master says, on one line: `10.0.0.1:6379: free; 10.0.0.2:6379: timed out`.
pub(crate) fn all_masters(status: &Status) -> String {
    let said = |m: &MasterStatus| {
        let words = m.failure.as_deref().or(m.holder.as_deref()).unwrap_or("free");
        format!("{}: {}", m.master, say::shown(words))
    };
    status.masters.iter().map(said).collect::<Vec<_>>().join("; ")
}
