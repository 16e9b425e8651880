//! Waiting for the stand-ins of sockets.

use super::conn::Conn;
use crate::sys::wake::Wake;
use crate::world;
use std::time::Duration;

pub(super) fn poll<'a>(conns: impl Iterator<Item = (&'a Conn, bool)>, wake: &Wake, limit: Duration) -> (u64, bool) {
    let pipes: Vec<_> = conns.map(|(conn, _)| conn.pipe.clone()).collect();
    let (watched, signal, until) = (pipes.clone(), wake.clone(), world::now().plus(limit));
    world::wait_until(move || {
        watched.iter().any(|p| p.is_readable()) || signal.is_signalled() || world::now() >= until
    });
    if wake.is_signalled() {
        wake.drain();
    }
    let ready = pipes.iter().enumerate().map(|(k, p)| u64::from(p.is_readable()) << k);
    (ready.fold(0, |mask, bit| mask | bit), false)
}
