//! `redleash unlock --force`: takes a lock away from its holder.

use crate::args::{MasterArgs, UnlockArgs};
use crate::exit::{Failure, USAGE};
use crate::masters;
use crate::text::duration::rough;
use crate::text::{holder, say};
use rustix::termios::isatty;
use std::io;

pub(crate) fn unlock(masters: &MasterArgs, args: &UnlockArgs) -> Result<u8, Failure> {
    let name = &args.name;
    let client = masters::client(masters)?;
    let status = client.status(name).map_err(|e| Failure::of(name, &e))?;
    let holder = holder::with_masters(&status).unwrap_or_else(|| "a holder that no master knows".into());
    if !args.yes && isatty(io::stdin()) && isatty(io::stderr()) && !confirmed(name, &holder, args.now) {
        return Err(Failure::new(USAGE, format!("lock {name:?}: nothing was changed, it stays with {holder}")));
    }
    let revoked = if args.now { client.force_release_now(name) } else { client.force_release(name) };
    let revoked = revoked.map_err(|e| Failure::of(name, &e))?;
    let Some(left) = revoked.free_in else {
        say::result(&format!("{name:?} is free already: no master has a holder"));
        return Ok(0);
    };
    if args.now {
        say::sentence(&format!(
            "lock {name:?} is free now, and {holder} may still be at work until it notices: end it yourself"
        ));
    }
    let when = if args.now { "now".into() } else { format!("in at most {}", rough(left)) };
    say::result(&format!("{name:?} is taken from {holder}; it is free {when}"));
    Ok(0)
}

fn confirmed(name: &str, holder: &str, now: bool) -> bool {
    let risk = if now { " AT ONCE, although it may still be at work" } else { "" };
    say::question(&format!("take lock {name:?} from {holder}{risk}? [y/N]"));
    let mut answer = String::new();
    let read = io::stdin().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes")
}
