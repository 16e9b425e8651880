//! `redleash status`: who holds a lock, as every master sees it.

use crate::args::{MasterArgs, StatusArgs};
use crate::exit::{Failure, NO_QUORUM};
use crate::masters;
use crate::text::{holder, say};
use redleash::{Holder, Status};

pub(crate) fn status(masters: &MasterArgs, args: &StatusArgs) -> Result<u8, Failure> {
    let client = masters::client(masters)?;
    let status = client.status(&args.name).map_err(|e| Failure::of(&args.name, &e))?;
    if args.json {
        // The library's own shape, so that a program that asks by itself writes the same.
        say::json(&serde_json::to_value(&status).unwrap_or_default())
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

/// It is unclear who holds the lock if too few masters agree, as for a moment while two clients try to acquire it, or
/// if too few remember.
fn text(status: &Status) -> String {
    let head = match (status.holder(), holder::found(status)) {
        (Some(Holder::Owner { .. } | Holder::Foreign { .. }), Some(holder)) => {
            format!("{:?} is held by {}", status.name, holder::words(holder))
        }
        (Some(Holder::Nobody), _) => format!("{:?} is free", status.name),
        (Some(Holder::Revoked), _) => format!(
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
