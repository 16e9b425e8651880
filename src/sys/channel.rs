//! Channels between threads.

pub(crate) use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use crossbeam_channel::{never, select};

/// The next of `jobs`; `None` when nobody can send one any more, or once `stopped` is disconnected.
pub(crate) fn next_unless_stopped<T>(jobs: &Receiver<T>, stopped: Option<&Receiver<()>>) -> Option<T> {
    let never = never();
    select! {
        recv(jobs) -> job => job.ok(),
        recv(stopped.unwrap_or(&never)) -> _ => None,
    }
}
