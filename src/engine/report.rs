//! What the log says of the masters: one line per master and change of its state, all else at level debug.

use super::error::Rounded;
use crate::sys::journal;
use crate::wire::lane::Noticed;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the log reported last of one master.
#[derive(Default)]
pub(crate) struct Reported {
    /// That it is down, or hangs.
    away: AtomicBool,
    /// That it is in quarantine.
    quarantined: AtomicBool,
}

impl Reported {
    /// No connection to the master could be made.
    pub(crate) fn down(&self, master: &str, why: &dyn Display) {
        if self.away.swap(true, Ordering::AcqRel) {
            journal::debug!("{master} is still down: {why}");
        } else {
            journal::warn!("{master} is down: {why}; it is connected to again as soon as possible");
        }
    }

    /// A connection to the master was made.
    pub(crate) fn connected(&self, master: &str) {
        if self.away.swap(false, Ordering::AcqRel) {
            journal::info!("{master} is back");
        } else {
            journal::debug!("{master} is connected");
        }
    }

    /// A lane noticed a change of the master's state.
    pub(crate) fn noticed(&self, master: &str, what: Noticed) {
        match what {
            Noticed::Hung if !self.away.swap(true, Ordering::AcqRel) => {
                journal::warn!(
                    "{master} hangs: it leaves commands unanswered; it is connected to again as soon as possible"
                );
            }
            Noticed::Hung => journal::debug!("{master} hangs again"),
            Noticed::Quarantined(left) if !self.quarantined.swap(true, Ordering::AcqRel) => journal::warn!(
                "{master} is in quarantine, because it is new or lost its memory: for {} more it casts no votes, so \
                 that every lease that it may have forgotten ends before",
                Rounded(left)
            ),
            Noticed::Votes if self.quarantined.swap(false, Ordering::AcqRel) => {
                journal::info!("{master} votes again: its quarantine is over");
            }
            Noticed::Quarantined(_) | Noticed::Votes => {}
        }
    }
}
