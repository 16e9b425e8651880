//! What `run` and its supervisor say to each other: orders one way, reports the other way, one per line, on a pair of
//! sockets. The end of file tells each of them that the other has ended.

use crate::system::clock::Moment;
use crate::system::signals;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

/// From `run` to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The lease ends here, unless it is renewed. The first order of all.
    Until(Moment),
    /// A signal for the command's group.
    Signal(i32),
    /// The lock is lost.
    Lost,
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

/// `with exit code 3`, `by SIGTERM`.
impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "with exit code {code}"),
            Ended::Signal(signal) => write!(f, "by {}", signals::name(*signal)),
        }
    }
}

/// From the supervisor to `run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command's process, which leads its group.
    Started(i32),
    /// It could not be started.
    Failed(String),
    /// A signal stopped it.
    Stopped(i32),
    /// The command and what it started got SIGTERM, because the lease ends soon or the lock is lost.
    Ending,
    /// The command ended, and these processes, which it left behind, got SIGTERM.
    Left(String),
    /// Not even SIGKILL ended all processes of the command.
    Remains,
    /// These processes have left the command as daemons, and continue to run.
    Daemons(String),
    /// The command ended. The last report of all.
    Ended(Ended),
}

impl Order {
    pub(crate) fn line(&self) -> String {
        match self {
            Order::Until(until) => format!("until {}\n", until.0),
            Order::Signal(signal) => format!("signal {signal}\n"),
            Order::Lost => "lost\n".into(),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Order> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "until" => Some(Order::Until(Moment(rest.parse().ok()?))),
            "signal" => Some(Order::Signal(rest.parse().ok()?)),
            "lost" => Some(Order::Lost),
            _ => None,
        }
    }
}

impl Report {
    pub(crate) fn line(&self) -> String {
        match self {
            Report::Started(pid) => format!("started {pid}\n"),
            Report::Failed(why) => format!("failed {}\n", why.replace('\n', " ")),
            Report::Stopped(signal) => format!("stopped {signal}\n"),
            Report::Ending => "ending\n".into(),
            Report::Left(names) => format!("left {}\n", names.replace('\n', " ")),
            Report::Remains => "remains\n".into(),
            Report::Daemons(names) => format!("daemons {}\n", names.replace('\n', " ")),
            Report::Ended(Ended::Code(code)) => format!("code {code}\n"),
            Report::Ended(Ended::Signal(signal)) => format!("signaled {signal}\n"),
        }
    }

    pub(crate) fn parse(line: &str) -> Option<Report> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "started" => Some(Report::Started(rest.parse().ok()?)),
            "failed" => Some(Report::Failed(rest.into())),
            "stopped" => Some(Report::Stopped(rest.parse().ok()?)),
            "ending" => Some(Report::Ending),
            "left" => Some(Report::Left(rest.into())),
            "remains" => Some(Report::Remains),
            "daemons" => Some(Report::Daemons(rest.into())),
            "code" => Some(Report::Ended(Ended::Code(rest.parse().ok()?))),
            "signaled" => Some(Report::Ended(Ended::Signal(rest.parse().ok()?))),
            _ => None,
        }
    }
}

/// Sends the first order, and a descriptor with it: the standard input that the command is to have. A descriptor that
/// travels like this can be anything that an inherited one can, and is closed in every process that does not need it.
pub(crate) fn send_first(link: &UnixStream, order: &Order, stdin: BorrowedFd<'_>) -> io::Result<()> {
    let line = order.line();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [stdin];
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(link, &[IoSlice::new(line.as_bytes())], &mut control, SendFlags::empty())?;
    // The rest, if a signal came in between.
    let mut link = link;
    link.write_all(&line.as_bytes()[sent..])
}

/// The end of the link at which orders arrive.
pub(crate) struct Link {
    stream: UnixStream,
    /// Bytes that are no whole line yet.
    unread: Vec<u8>,
    open: bool,
}

impl Link {
    /// Waits for what `send_first` sends: the descriptor, and the link behind it, whose first order is received but not
    /// taken. `None` if the other end is closed.
    pub(crate) fn receive(stream: UnixStream) -> io::Result<Option<(OwnedFd, Link)>> {
        let mut bytes = [0; 256];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(&stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty())?;
        let rights = |message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        };
        let Some(descriptor) = control.drain().find_map(rights) else { return Ok(None) };
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC)?;
        stream.set_nonblocking(true)?;
        Ok(Some((descriptor, Link { stream, unread: bytes[..got.bytes].to_vec(), open: true })))
    }

    /// The orders that have come, without waiting for more.
    pub(crate) fn read(&mut self) -> Vec<Order> {
        let mut bytes = [0; 1024];
        while self.open {
            match self.stream.read(&mut bytes) {
                Ok(0) => self.open = false,
                Ok(n) => self.unread.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.open = false,
            }
        }
        self.received()
    }

    /// The orders that were received already. A line that is no order is left out.
    pub(crate) fn received(&mut self) -> Vec<Order> {
        let whole = self.unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.unread.drain(..whole).collect();
        String::from_utf8_lossy(&lines).lines().filter_map(Order::parse).collect()
    }

    /// False when the other end is closed. Then a poll would find it readable at once, and for ever.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Sends a report, if the other end is still there.
    pub(crate) fn report(&self, report: &Report) {
        // Not blocking: a socket takes some hundred lines that nobody reads, and there are not that many.
        let _ = (&self.stream).write_all(report.line().as_bytes());
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        for order in [Order::Until(Moment(17)), Order::Signal(15), Order::Lost] {
            assert_eq!(Order::parse(order.line().trim_end()), Some(order));
        }
        let reports = [
            Report::Started(4),
            Report::Failed("no more processes".into()),
            Report::Stopped(20),
            Report::Ending,
            Report::Left("pid 5 (tee)".into()),
            Report::Remains,
            Report::Daemons("pid 6 (sleep)".into()),
            Report::Ended(Ended::Code(3)),
            Report::Ended(Ended::Signal(9)),
        ];
        for report in reports {
            assert_eq!(Report::parse(report.line().trim_end()), Some(report));
        }
        assert_eq!((Order::parse("until x"), Report::parse("")), (None, None));
    }

    #[test]
    fn a_descriptor_travels_with_the_first_order() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        send_first(&ours, &Order::Until(Moment(5)), reader.as_fd()).unwrap();
        drop(reader);
        let (stdin, mut link) = Link::receive(theirs).unwrap().unwrap();
        assert_eq!(link.received(), [Order::Until(Moment(5))]);
        rustix::io::write(&writer, b"x").unwrap();
        let mut byte = [0];
        assert_eq!((rustix::io::read(&stdin, &mut byte).unwrap(), byte[0]), (1, b'x'));
        (&ours).write_all(b"signal 15\nwhat\nlo").unwrap();
        assert_eq!(link.read(), [Order::Signal(15)]);
        (&ours).write_all(b"st\n").unwrap();
        drop(ours);
        assert_eq!((link.read(), link.is_open()), (vec![Order::Lost], false), "what came before the end is read");
    }

    #[test]
    fn an_end_before_the_first_order_is_an_end() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        assert!(Link::receive(theirs).unwrap().is_none());
    }
}
