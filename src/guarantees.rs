//! What a configuration protects against, in words.

use crate::engine::settings::Settings;
use crate::sys::clock;
use std::fmt;
use std::time::Duration;

/// What a client's configuration protects against and what not; one sentence per line, meant to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Guarantees {
    /// What mutual exclusion survives.
    pub protects: Vec<String>,
    /// What it does not survive.
    pub does_not_protect: Vec<String>,
}

impl Guarantees {
    pub(crate) fn of(s: &Settings) -> Guarantees {
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
            "a client that works on beyond its deadline without asking check(): only a fencing token, checked by the \
             resource, stops it"
                .to_string(),
        ];
        if s.quarantine {
            let quarantine = Duration::from_micros(s.deployment.quarantine_us());
            yes.push(format!(
                "masters that restart empty or with old data, are flushed, become replicas, or are replaced after the \
                 old server was stopped, any number of them: each casts no votes for {:.1} s",
                quarantine.as_secs_f64()
            ));
            no.push(
                "a server that lives on after its address was given to another one, for clients that cannot look the \
                 address up; and two sets of masters that share one which has the same place in both"
                    .to_string(),
            );
            no.push(
                "a virtual machine or a data set that is rolled back while the server process goes on: the \
                 generation comes back with the old data"
                    .to_string(),
            );
        } else {
            no.push(
                "a master that restarts without its keys or is flushed: the quarantine is off, so it may \
                 give a held lock to a second holder"
                    .to_string(),
            );
            no.push(match n {
                1 => "(fencing tokens) a restart without the counters while the master's clock is stepped back, \
                      or of a lock that is granted more than 15 000 times a second: tokens may repeat"
                    .to_string(),
                _ => "(fencing tokens) masters that lose their counters: the quarantine is off, so tokens may go back"
                    .to_string(),
            });
        }
        if s.quarantine {
            no.push(format!(
                "(fencing tokens) masters that lose their counters while their clocks are further apart than {:?}: \
                 tokens may go back",
                s.max_lease
            ));
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
