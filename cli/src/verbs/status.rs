//! `redleash status`: who holds a lock, as every master sees it.

use crate::args::{MasterArgs, StatusArgs};
use crate::exit::{Failure, NO_QUORUM};
use crate::masters;
use crate::text::{holder, say};
use redleash::{MasterStatus, Status};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) fn status(masters: &MasterArgs, args: &StatusArgs) -> Result<u8, Failure> {
    let client = masters::client(masters)?;
    let status = client.status(&args.name).map_err(|e| Failure::of(&args.name, &e))?;
    if args.json {
        say::json(&json(&status))
    } else {
        say::result(&text(&status))
    };
    if answered(&status) >= status.quorum {
        return Ok(0);
    }
    let (name, masters) = (&args.name, holder::all_masters(&status));
    Err(Failure::new(
        NO_QUORUM,
        format!("lock {name:?}: too few masters answer, so it is unknown who holds it ({masters})"),
    ))
}

fn answered(status: &Status) -> usize {
    status.masters.iter().filter(|m| m.failure.is_none()).count()
}

/// `held`, `free`, `revoked`, or `unclear`. It is unclear if too few masters agree, as for a moment while two clients
/// try to acquire the lock, or if too few remember.
fn state(status: &Status) -> &'static str {
    if status.holder().is_some() {
        "held"
    } else if status.is_revoked() {
        "revoked"
    } else if status.is_free() {
        "free"
    } else {
        "unclear"
    }
}

fn text(status: &Status) -> String {
    let head = match (state(status), holder::found(status)) {
        ("held", Some(master)) => format!("{:?} is held by {}", status.name, holder::words(master)),
        ("free", _) => format!("{:?} is free", status.name),
        ("revoked", _) => format!(
            "{:?} was taken away by force, and becomes free when the lease of its former holder has ended",
            status.name
        ),
        _ if answered(status) >= status.quorum && holder::found(status).is_none() => {
            format!(
                "{:?}: too few masters remember who held it (they have no generation, or are in quarantine)",
                status.name
            )
        }
        _ => format!("{:?}: unclear, fewer than {} masters agree on a holder", status.name, status.quorum),
    };
    let lines = status.masters.iter().map(|m| format!("\n  {}: {}", m.master, say::shown(&m.to_string())));
    std::iter::once(head).chain(lines).collect()
}

fn json(status: &Status) -> Value {
    json!({
        "name": status.name,
        "state": state(status),
        "holder": status.holder(),
        "quorum": status.quorum,
        "masters": status.masters.iter().map(master).collect::<Vec<_>>(),
    })
}

fn master(m: &MasterStatus) -> Value {
    let ms = |d: Option<Duration>| d.map(|d| d.as_millis() as u64);
    json!({
        "master": m.master,
        "failure": m.failure,
        "holder": m.holder,
        "token_hash": m.fingerprint,
        "since_ms": m.since_ms,
        "ttl_ms": ms(m.ttl),
        "fence": m.fence,
        "generation": m.generation,
        "quarantined_for_ms": ms(m.quarantined_for),
    })
}
