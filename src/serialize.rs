//! Reports written and settings read by serde, with the feature `serde`.
//!
//! Durations of settings are text, as in the environment: `90s`, `1m30s`. Those of reports are numbers, with the unit
//! in the field's name.

use crate::holder::Holder;
use crate::stats::Stats;
use crate::status::{MasterStatus, Status};
use serde::{Serialize, Serializer};
use std::time::Duration;

/// A duration of a setting.
pub(crate) mod duration {
    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};
    use std::borrow::Cow;
    use std::time::Duration;

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&humantime::format_duration(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = Cow::<'de, str>::deserialize(from)?;
        let wrong = || Error::invalid_value(Unexpected::Str(&text), &"a duration such as 90s or 1m30s");
        crate::duration::duration(&text).ok_or_else(wrong)
    }
}

/// One that may be left out.
pub(crate) mod maybe {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    #[derive(Serialize, Deserialize)]
    struct Text(#[serde(with = "super::duration")] Duration);

    pub(crate) fn serialize<S: Serializer>(value: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
        value.map(Text).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Text>::deserialize(from)?.map(|Text(value)| value))
    }
}

fn millis(value: Option<Duration>) -> Option<u64> {
    value.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

fn micros(value: Duration) -> u64 {
    u64::try_from(value.as_micros()).unwrap_or(u64::MAX)
}

/// A label as it is; what is no owner, in parentheses.
fn named(holder: &Holder) -> Option<String> {
    match holder {
        Holder::Nobody => None,
        Holder::Owner { label, .. } => Some(label.clone()),
        other => Some(other.to_string()),
    }
}

/// `held`, `free`, `revoked`, or `unclear`: too few masters agree, or remember.
fn state(status: &Status) -> &'static str {
    match status.holder() {
        Some(Holder::Owner { .. } | Holder::Foreign { .. }) => "held",
        Some(Holder::Revoked) => "revoked",
        Some(Holder::Nobody) => "free",
        _ => "unclear",
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            name: &'a str,
            state: &'a str,
            holder: Option<String>,
            quorum: usize,
            masters: &'a [MasterStatus],
        }
        let holder = self.holder().filter(|_| self.is_held()).and_then(named);
        let Status { name, quorum, masters, .. } = self;
        Shape { name, state: state(self), holder, quorum: *quorum, masters }.serialize(to)
    }
}

impl Serialize for MasterStatus {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape<'a> {
            master: &'a str,
            failure: Option<&'a str>,
            holder: Option<String>,
            token_hash: Option<&'a str>,
            since_ms: Option<u64>,
            ttl_ms: Option<u64>,
            fence: Option<u64>,
            generation: Option<&'a str>,
            quarantined_for_ms: Option<u64>,
        }
        let holder = self.holder.as_ref();
        Shape {
            master: &self.master,
            failure: self.failure.as_deref(),
            holder: holder.and_then(named),
            token_hash: holder.and_then(Holder::fingerprint),
            since_ms: holder.and_then(Holder::since_ms),
            ttl_ms: millis(self.ttl),
            fence: self.fence,
            generation: self.generation.as_deref(),
            quarantined_for_ms: millis(self.quarantined_for),
        }
        .serialize(to)
    }
}

impl Serialize for Stats {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shape {
            renewal_latest_us: u64,
            chore_latest_us: u64,
            chore_overruns: u64,
            undelivered_pending: usize,
            undelivered_left_to_ttl: u64,
            connections_open: u64,
            connections_idle: u64,
            connections_made: u64,
            connections_closed: u64,
            check_outs: u64,
            failed_tests: u64,
        }
        Shape {
            renewal_latest_us: micros(self.renewal_latest),
            chore_latest_us: micros(self.chore_latest),
            chore_overruns: self.chore_overruns,
            undelivered_pending: self.undelivered.pending,
            undelivered_left_to_ttl: self.undelivered.left_to_ttl,
            connections_open: self.connections.open,
            connections_idle: self.connections.idle,
            connections_made: self.connections.made,
            connections_closed: self.connections.closed,
            check_outs: self.connections.check_outs,
            failed_tests: self.connections.failed_tests,
        }
        .serialize(to)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use crate::{ClientBuilder, ConnectionStats, Guarantees, Holder, Lease, Options, Retry, Stats, Undelivered};
    use serde_json::{from_value, json, to_value};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn options_are_written_and_read_again() {
        let options = Options::new()
            .lease(Lease::Fixed { ttl: Duration::from_millis(1_500) })
            .fenced(true)
            .max_hold(Duration::from_secs(90))
            .retry(Retry::Fixed(Duration::from_millis(5)))
            .tries(3);
        let written = to_value(&options).unwrap();
        assert_eq!(written["lease"], json!({ "fixed": { "ttl": "1s 500ms" } }));
        assert_eq!((&written["max_hold"], &written["retry"]), (&json!("1m 30s"), &json!({ "fixed": "5ms" })));
        let read: Options = from_value(written.clone()).unwrap();
        assert_eq!((to_value(&read).unwrap(), format!("{read:?}")), (written, format!("{options:?}")));
        assert_eq!(format!("{:?}", from_value::<Options>(json!({})).unwrap()), format!("{:?}", Options::new()));
    }

    #[test]
    fn a_closure_cannot_be_written() {
        let error = to_value(Options::new().retry(Retry::Custom(Arc::new(|_| Duration::ZERO)))).unwrap_err();
        assert!(error.to_string().contains("Custom"), "{error}");
    }

    #[test]
    fn settings_are_read_with_their_defaults_and_unknown_ones_are_refused() {
        let settings = json!({
            "nodes": ["redis://:hunter2@a", "redis://b", "redis://c"],
            "max_lease": "2m",
            "hang_timeout": "1.5",
            "pool_size": 8,
            "idle_timeout": "3m",
            "test_on_check_out": false,
            "watchdog": "per_lock",
            "retry": { "backoff": { "min": "1ms", "max": "2ms", "cap": "1s" } },
        });
        let builder: ClientBuilder = from_value(settings).unwrap();
        assert!(!format!("{builder:?}").contains("hunter2"), "{builder:?}");
        let (addresses, settings) = builder.checked().unwrap();
        assert_eq!(
            (addresses.len(), settings.max_lease, settings.ttl),
            (3, Duration::from_secs(120), Duration::from_secs(30))
        );
        assert_eq!((settings.pool_size, settings.test_on_check_out), (8, false));
        assert_eq!(settings.idle_timeout, Some(Duration::from_secs(180)));
        assert_eq!((settings.hang_timeout, settings.watchdog_threads), (Duration::from_millis(1_500), 4_096));
        for (wrong, named) in
            [(json!({ "ttll": "1s" }), "ttll"), (json!({ "ttl": "soon" }), "soon"), (json!({ "ttl": 5 }), "5")]
        {
            let error = from_value::<ClientBuilder>(wrong).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        for wrong in [json!({ "nodes": "redis://:hunter2@a" }), json!({ "nodes": [["redis://:hunter2@a"]] })] {
            let error = from_value::<ClientBuilder>(wrong).unwrap_err().to_string();
            assert!(error.contains("nodes") && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn reports_are_written_with_units() {
        let stats = Stats {
            renewal_latest: Duration::from_micros(1_250),
            chore_latest: Duration::ZERO,
            chore_overruns: 2,
            undelivered: Undelivered { pending: 3, left_to_ttl: 4 },
            connections: ConnectionStats { open: 5, idle: 1, made: 7, closed: 2, check_outs: 9, failed_tests: 1 },
        };
        let expected = json!({
            "renewal_latest_us": 1250, "chore_latest_us": 0, "chore_overruns": 2,
            "undelivered_pending": 3, "undelivered_left_to_ttl": 4,
            "connections_open": 5, "connections_idle": 1, "connections_made": 7, "connections_closed": 2,
            "check_outs": 9, "failed_tests": 1,
        });
        assert_eq!(to_value(stats).unwrap(), expected);
        let guarantees = Guarantees { protects: vec!["a".into()], does_not_protect: vec![] };
        assert_eq!(to_value(guarantees).unwrap(), json!({ "protects": ["a"], "does_not_protect": [] }));
        assert_eq!(to_value(Holder::Revoked).unwrap(), json!("revoked"));
    }
}
