//! The warden of `--contain`: the process that makes the pid namespace and stays outside of it. The supervisor is the
//! first process inside, and dies with the warden; all others inside die with the supervisor.
//!
//! A timer of the kernel kills the warden shortly before the lease ends. So the command is dead before the lease ends
//! even if every process of redleash is stopped or killed.

use super::stage::{self, Stage};
use super::task;
use crate::args::OnLost;
use crate::exit::SYSTEM;
use crate::link::{Link, Order, Report};
use crate::system::alarm::{self, Alarm};
use crate::system::children::Children;
use crate::system::clock::Moment;
use crate::system::fuse::Fuse;
use crate::system::{namespace, signals, stdio};
use rustix::fd::{AsFd, OwnedFd};
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// The share of the margin that is left when the timer kills the warden. The supervisor has the other three quarters to
/// end the command itself.
const LAST: u32 = 4;

/// Runs this stage; the exit code.
pub(super) fn main(args: &[OsString]) -> u8 {
    let [on_lost, margin, supervisor @ ..] = args else { return stage::refuse() };
    let margin = margin.to_str().and_then(|margin| margin.parse().ok()).map(Duration::from_nanos);
    let (Some(on_lost), Some(margin), Some(link)) = (task::parse_on_lost(on_lost), margin, stage::link()) else {
        return stage::refuse();
    };
    guard(on_lost, margin, link, supervisor).map_or(SYSTEM, |()| 0)
}

fn guard(on_lost: OnLost, margin: Duration, link: UnixStream, supervisor: &[OsString]) -> io::Result<()> {
    signals::swallow()?;
    let mut children = Children::new()?;
    let Some((supervisors_link, mut link)) = Link::receive(link)? else { return Ok(()) };
    let mut alarm = Alarm::new()?;
    // The other policies let the command run beyond its lease.
    let mut fuse = (on_lost == OnLost::Kill).then(Fuse::new).transpose()?;
    let mut obey = |orders: Vec<Order>| -> io::Result<()> {
        for order in orders {
            if let (Order::Until(until), Some(fuse)) = (order, &mut fuse) {
                fuse.set(until.minus(margin / LAST))?;
            }
        }
        Ok(())
    };
    obey(link.received())?;
    let mut child = match start(&supervisors_link, supervisor) {
        Ok(child) => child,
        Err(e) => {
            return UnixStream::from(supervisors_link).write_all(Report::Failed(e.to_string()).line().as_bytes());
        }
    };
    drop(supervisors_link);
    stdio::let_go_of_output();
    while child.try_wait()?.is_none() {
        // If redleash has ended, the timer stays as it is; the supervisor has noticed it too.
        let both = [children.as_fd(), link.as_fd()];
        let readers = if link.is_open() { &both[..] } else { &both[..1] };
        alarm::wait(&mut alarm, readers, Moment::NEVER, None)?;
        children.drain();
        obey(link.read())?;
    }
    Ok(())
}

/// The supervisor, as the first process of a new namespace.
fn start(link: &OwnedFd, supervisor: &[OsString]) -> io::Result<Child> {
    namespace::enter()?;
    Stage::Supervisor.command()?.args(supervisor).stdin(Stdio::from(link.try_clone()?)).spawn()
}
