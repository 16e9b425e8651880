//! Who holds a lock, in words.

use super::duration::rough;
use super::say;
use crate::command;
use crate::system::clock::{date, wall_ms};
use redleash::{Holder, MasterStatus, Status};
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
pub(crate) fn words(holder: &Holder) -> String {
    match holder {
        Holder::Owner { label, since_ms, .. } => {
            let for_ms = wall_ms().saturating_sub(*since_ms);
            let label = say::shown(label);
            format!("{label} since {} ({})", date(*since_ms), rough(Duration::from_millis(for_ms)))
        }
        Holder::Revoked => {
            "nobody (it was taken away by force, and becomes free when the lease of its former holder has ended)".into()
        }
        other => other.to_string(),
    }
}

/// The holder that most masters name.
pub(crate) fn found(status: &Status) -> Option<&Holder> {
    let named = || status.masters.iter().filter_map(|m| m.holder.as_ref()).filter(|h| **h != Holder::Nobody);
    named().max_by_key(|holder| named().filter(|other| other == holder).count())
}

/// `web1 pid 4242 pg_dump since ... on 10.0.0.1:6379, 10.0.0.2:6379`; `None` if no master names anybody.
pub(crate) fn with_masters(status: &Status) -> Option<String> {
    let holder = found(status)?;
    let masters = status.masters.iter().filter(|m| m.holder.as_ref() == Some(holder));
    let masters: Vec<&str> = masters.map(|m| m.master.as_str()).collect();
    Some(format!("{} on {}", words(holder), masters.join(", ")))
}

/// What every master says, on one line: `10.0.0.1:6379: free; 10.0.0.2:6379: timed out`.
pub(crate) fn all_masters(status: &Status) -> String {
    let said = |m: &MasterStatus| {
        let words = match (&m.failure, &m.holder) {
            (Some(failure), _) => say::shown(failure),
            (None, None | Some(Holder::Nobody)) => "free".into(),
            (None, Some(Holder::Owner { label, .. })) => say::shown(label),
            (None, Some(other)) => other.to_string(),
        };
        format!("{}: {words}", m.master)
    };
    status.masters.iter().map(said).collect::<Vec<_>>().join("; ")
}
