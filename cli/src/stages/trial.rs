//! Whether `--contain` is possible on this machine, for this user: takes each of its steps before `run` waits for the
//! lock, so that a refusal comes at once and with its reason.

use super::stage::Stage;
use crate::exit::{Failure, SYSTEM};
use crate::system::fuse::Fuse;
use crate::system::{namespace, signals};
use crate::text::say;
use std::io;
use std::process::Stdio;

/// Fails with the reason if the command cannot be contained.
pub(crate) fn attempt(name: &str) -> Result<(), Failure> {
    let refused =
        |why: &str| Failure::new(SYSTEM, format!("lock {name:?}: --contain: {}; nothing was started", why.trim_end()));
    let trial = Stage::Trial.command().and_then(|mut me| me.stdin(Stdio::null()).stderr(Stdio::null()).output());
    match trial {
        Ok(done) if done.status.success() => Ok(()),
        Ok(done) => Err(refused(&String::from_utf8_lossy(&done.stdout))),
        Err(e) => Err(refused(&e.to_string())),
    }
}

/// The stage outside of the namespace; the exit code.
pub(super) fn main() -> u8 {
    code(outside())
}

/// The stage inside; the exit code.
pub(super) fn main_inside() -> u8 {
    code(namespace::settle())
}

fn outside() -> io::Result<()> {
    signals::hear_of_children()?;
    namespace::enter()?;
    Fuse::new()?;
    let status = Stage::TrialInside.command()?.status()?;
    // The stage inside has given its reason.
    if status.success() { Ok(()) } else { Err(io::Error::other("")) }
}

/// The reason of a refusal goes to the standard output, where `attempt` reads it.
fn code(result: io::Result<()>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(e) => {
            say::result(&e.to_string());
            SYSTEM
        }
    }
}
