//! One direction of a connection through a proxy: bytes arrive at once, late, later, or never.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// What becomes of the bytes that go one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They arrive.
    Pass,
    /// They arrive so much later, in order.
    Late(Duration),
    /// They arrive when the way passes again, even those of connections that were closed meanwhile.
    Hold,
    /// They are lost, and so are all later ones of that connection, which stays open.
    Swallow,
}

/// What a proxy has done so far, in bytes and connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections ended by a cut or a refusal.
    pub cut: u64,
    /// Bytes that were lost.
    pub swallowed: u64,
    /// Bytes that were held back.
    pub held: u64,
    /// Bytes that were delayed.
    pub late: u64,
}

/// At most so many bytes are read ahead of the other side.
const READ_AHEAD: usize = 1 << 20;
/// See the module.
#[derive(Default)]
pub(super) struct Pipe {
    chunks: VecDeque<(Instant, Vec<u8>)>,
    queued: usize,
    /// The source has ended.
    pub(super) ended: bool,
    /// Bytes were lost, so no later ones arrive.
    pub(super) deaf: bool,
    /// The destination knows the end, or has ended.
    pub(super) finished: bool,
    /// The destination takes no more for now.
    pub(super) blocked: bool,
}

impl Pipe {
    pub(super) fn wants_more(&self) -> bool {
        !self.ended && self.queued < READ_AHEAD
    }

    /// How long until there is something to write.
    pub(super) fn due(&self, way: Way, now: Instant) -> Option<Duration> {
        let flows = !self.finished && !self.blocked && matches!(way, Way::Pass | Way::Late(_));
        let (due, _) = self.chunks.front().filter(|_| flows)?;
        Some(due.saturating_duration_since(now))
    }

    pub(super) fn read(&mut self, mut from: &TcpStream, way: Way, now: Instant, done: &mut Done) {
        let mut buffer = [0; 16 * 1024];
        while self.wants_more() {
            match from.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(n) => self.take(&buffer[..n], way, now, done),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.ended = true,
            }
        }
    }

    fn take(&mut self, bytes: &[u8], way: Way, now: Instant, done: &mut Done) {
        self.deaf |= way == Way::Swallow;
        let n = bytes.len() as u64;
        if self.deaf || self.finished {
            done.swallowed += n;
            return;
        }
        let due = match way {
            Way::Late(by) => {
                done.late += n;
                now + by
            }
            Way::Hold => {
                done.held += n;
                now
            }
            Way::Pass | Way::Swallow => now,
        };
        self.chunks.push_back((due, bytes.to_vec()));
        self.queued += bytes.len();
    }

    pub(super) fn write(&mut self, mut into: &TcpStream, way: Way, now: Instant) {
        self.blocked = false;
        if self.finished || matches!(way, Way::Hold | Way::Swallow) {
            return;
        }
        while let Some((due, chunk)) = self.chunks.front_mut() {
            if *due > now {
                return;
            }
            match into.write(chunk) {
                Ok(n) => {
                    self.queued -= n;
                    chunk.drain(..n);
                    if chunk.is_empty() {
                        self.chunks.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return;
                }
                Err(_) => {
                    self.chunks.clear();
                    (self.queued, self.finished) = (0, true);
                    return;
                }
            }
        }
        if self.ended && !self.deaf {
            let _ = into.shutdown(Shutdown::Write);
            self.finished = true;
        }
    }
}
