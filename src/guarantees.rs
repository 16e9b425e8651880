//! What a configuration protects against, in words.

use crate::engine::settings::Settings;
use crate::sys::clock;
use std::fmt;

/// What a client's configuration protects against and what not; one sentence per line, meant to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarantees {
    /// What mutual exclusion survives.
    pub protects: Vec<String>,
    /// What it does not survive.
    pub does_not_protect: Vec<String>,
}

impl Guarantees {
    pub(crate) fn of(s: &Settings, nameless: bool) -> Guarantees {
        let (n, q, f) = (s.quorum.masters(), s.quorum.votes(), s.quorum.margin());
        let mut yes = vec![
            "messages that are lost, delayed or reordered, and clients that crash".to_string(),
            "a client that is paused, up to its deadline, which check() knows without asking anybody".to_string(),
            format!(
                "clocks that run at most {} % faster or slower than each other",
                f64::from(s.drift.ppm()) / 10_000.0
            ),
            match s.quorum.tolerates() {
                0 => format!("the outage of none of the {n} master(s): every one is needed"),
                down => format!("the outage of {down} of {n} masters (a quorum is {q})"),
            },
        ];
        let mut no = vec![
            "a client that works on beyond its deadline without asking check(): only a fencing token, checked by the resource, \
             stops it"
                .to_string(),
        ];
        if s.quarantine {
            yes.push(format!(
                "masters that restart empty or with old data, are flushed, or are replaced, any number of them: each casts no \
                 votes for {:?}",
                s.max_lease
            ));
            no.push("a master that is made a replica of its own replica and a master again, or a virtual machine rolled back to a \
                 snapshot: the generation comes back with the old data"
                .to_string());
        } else {
            no.push("a master that restarts without its keys or is flushed: the quarantine is off, so it may give a held lock to a \
                 second holder"
                .to_string());
            no.push(match n {
                1 => "(fencing tokens) a restart without the counters while the master's clock is stepped back, or of a lock that is \
                      granted more than 15 000 times a second: tokens may repeat"
                    .to_string(),
                _ => "(fencing tokens) masters that lose their counters: the quarantine is off, so tokens may go back".to_string(),
            });
        }
        if s.quarantine {
            no.push(format!(
                "(fencing tokens) masters that lose their counters while their clocks are further apart than {:?}: tokens may go back",
                s.max_lease
            ));
        }
        if s.quarantine && nameless {
            no.push(
                "a master that restarts with old data: this user may not run INFO, so only an empty memory is noticed"
                    .into(),
            );
        }
        let faults = "evict keys (set maxmemory-policy noeviction), step their clocks, or are changed by hand";
        match f {
            0 => no.push(format!("masters that {faults}: the fault margin is 0")),
            f => yes.push(format!("up to {f} master(s) that {faults}")),
        }
        if clock::COUNTS_SUSPEND {
            yes.push("a machine that is suspended: the clock counts the time asleep".to_string());
        } else {
            no.push(
                "a machine that is suspended: the clock stands still meanwhile, so a lease looks valid after it"
                    .to_string(),
            );
        }
        Guarantees { protects: yes, does_not_protect: no }
    }
}

impl fmt::Display for Guarantees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Mutual exclusion survives:")?;
        for line in &self.protects {
            writeln!(f, "  - {line}")?;
        }
        write!(f, "It does not survive:")?;
        for line in &self.does_not_protect {
            write!(f, "\n  - {line}")?;
        }
        Ok(())
    }
}
