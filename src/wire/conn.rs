//! One connection: a non-blocking stream, and what is known of the server behind it.
//!
//! The seam for TLS is `send` and `receive`: both take plain bytes and neither blocks; a sealed stream keeps its
//! cipher state behind a short mutex with no I/O inside and answers `wants_write` after a handshake message.

use super::reply::{Replies, Stop, Value};
use crate::protocol::generation::Found;
use crate::sys::clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A TCP or Unix socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_nonblocking(true),
            Stream::Unix(s) => s.set_nonblocking(true),
        }
    }

    pub(crate) fn set_timeout(&self, limit: Duration) -> io::Result<()> {
        let limit = Some(limit.max(Duration::from_millis(1)));
        match self {
            Stream::Tcp(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
            Stream::Unix(s) => s.set_read_timeout(limit).and_then(|()| s.set_write_timeout(limit)),
        }
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).write(bytes),
            Stream::Unix(s) => (&mut &*s).write(bytes),
        }
    }

    fn shut_down(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.shutdown(Shutdown::Both),
            Stream::Unix(s) => s.shutdown(Shutdown::Both),
        }
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).read(buffer),
            Stream::Unix(s) => (&mut &*s).read(buffer),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(s) => s.as_fd(),
            Stream::Unix(s) => s.as_fd(),
        }
    }
}

/// Who a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// 24 digits of its run id and 24 of its replication id.
    pub(crate) text: String,
    /// It has or had replicas: its history may change while the process lives, and come back with old data.
    pub(crate) watched: bool,
    /// Its generation.
    pub(crate) found: Found,
}

/// A connection that has passed the handshake. Shared by the writer and the reader of a lane.
#[derive(Debug)]
pub(crate) struct Conn {
    stream: Stream,
    id: u64,
    server: Identity,
    broken: AtomicBool,
    /// Nobody has used it yet.
    new: AtomicBool,
}

impl Conn {
    /// Wraps a stream to this server.
    pub(crate) fn new(stream: Stream, server: Identity) -> Conn {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Conn { stream, id, server, broken: AtomicBool::new(false), new: AtomicBool::new(true) }
    }

    /// Whether it comes from its handshake.
    pub(crate) fn is_new(&self) -> bool {
        self.new.load(Ordering::Relaxed)
    }

    /// It is in use from now on.
    pub(crate) fn begin_use(&self) {
        self.new.store(false, Ordering::Relaxed);
    }

    /// A number that no other connection of this process has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Who the server was at the handshake. The process stays: a connection ends with it. Its history may not.
    pub(crate) fn identity(&self) -> &str {
        &self.server.text
    }

    /// What stood for the generation of the server at the handshake.
    pub(crate) fn found(&self) -> Found {
        self.server.found
    }

    /// Whether the server's history is to be asked for in every vote.
    pub(crate) fn is_watched(&self) -> bool {
        self.server.watched
    }

    /// Writes what the socket takes now.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.send(bytes)
    }

    /// Reads what the socket has now.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.receive(buffer)
    }

    /// Whether there is something to read, or the other end has closed. On a connection that owes nothing either means
    /// that it is of no use any more.
    pub(crate) fn has_news(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(n) if n > 0)
    }

    /// Asks the server for a sign of life, on a connection that owes nothing.
    pub(crate) fn ping(&self, limit: Duration) -> io::Result<()> {
        let deadline = clock::now().plus(limit);
        if self.has_news() {
            return Err(io::Error::other("closed by the server while idle"));
        }
        let question = b"*1\r\n$4\r\nPING\r\n";
        if self.send(question)? != question.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let (mut replies, mut buffer, mut answer) = (Replies::new(), [0; 256], None);
        loop {
            let left = deadline.since(clock::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let _ = poll(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&left));
            let n = match self.receive(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => continue,
                Err(e) => return Err(e),
            };
            let stop = replies.feed(&buffer[..n], |value| answer.replace(value).is_none());
            match (stop, answer.take()) {
                (Stop::Hungry, None) => {}
                (Stop::Hungry, Some(_)) if !replies.is_done() => {
                    return Err(io::Error::other("more than it was asked"));
                }
                // Who may not ask has been answered as well.
                (Stop::Hungry, Some(Value::ServerError(e))) if e.code() == "NOPERM" => return Ok(()),
                (Stop::Hungry, Some(Value::SimpleString(text))) if text == "PONG" => return Ok(()),
                _ => return Err(io::Error::other("an answer that makes no sense")),
            }
        }
    }

    /// Ends the connection at both ends, also while the descriptor is still there.
    pub(crate) fn shut_down(&self) {
        let _ = self.stream.shut_down();
    }

    /// Marks the connection unusable. A connection with an unknown number of replies under way is not used again: it
    /// could answer a grant for a key that somebody else holds (`docs/SAFETY.md#unread-replies`).
    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }
}

impl AsFd for Conn {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::{Conn, Identity, Stream};
    use crate::protocol::generation::Found;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn pair() -> (Conn, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stream = Stream::Unix(ours);
        stream.set_nonblocking().unwrap();
        (Conn::new(stream, Identity { text: String::new(), watched: false, found: Found::Blank }), theirs)
    }

    /// What a server says once it is asked.
    fn answered(with: &'static [u8]) -> bool {
        let (conn, mut theirs) = pair();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                theirs.read_exact(&mut [0; 14]).unwrap();
                theirs.write_all(with).unwrap();
            });
            conn.ping(Duration::from_secs(20)).is_ok()
        })
    }

    #[test]
    fn a_sign_of_life_is_one_answer_and_nothing_else() {
        assert!(answered(b"+PONG\r\n"));
        assert!(answered(b"-NOPERM this user has no permissions to run the 'ping' command\r\n"));
        assert!(!answered(b"-LOADING Redis is loading the dataset in memory\r\n"));
        assert!(!answered(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"), "it still subscribes");
        assert!(!answered(b"+OK\r\n"));
        assert!(!answered(b"+PONG\r\n+PONG\r\n"));
        assert!(!answered(b"+PONG\r\n+P"));
    }

    #[test]
    fn silence_the_end_and_an_answer_that_is_too_early_are_no_sign_of_life() {
        let (silent, _theirs) = pair();
        assert!(silent.ping(Duration::from_millis(1)).is_err());
        let (ended, theirs) = pair();
        drop(theirs);
        assert!(ended.ping(Duration::from_secs(20)).is_err());
        let (early, mut theirs) = pair();
        theirs.write_all(b"+PONG\r\n").unwrap();
        assert!(early.ping(Duration::from_secs(20)).is_err());
    }
}
