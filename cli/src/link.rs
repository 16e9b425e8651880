//! What `run` and its supervisor say to each other, in lines on a pair of sockets. Its end of file is how each learns that
//! the other is gone.

use crate::clock::Moment;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;

/// From `run` to the supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The lease ends here, unless it is renewed. The first order of all.
    Until(Moment),
    /// A signal for the group.
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
    /// These processes have left the command as daemons, and run on.
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

/// Receives what `send_first` sent: the descriptor, and bytes that begin with the order. `None` at the end of file.
pub(crate) fn receive_first(link: &UnixStream) -> io::Result<Option<(OwnedFd, Vec<u8>)>> {
    let mut bytes = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(link, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty())?;
    let rights = |message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    };
    let stdin = control.drain().find_map(rights);
    if let Some(stdin) = &stdin {
        rustix::io::fcntl_setfd(stdin, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok(stdin.map(|stdin| (stdin, bytes[..got.bytes].to_vec())))
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
        send_first(&ours, &Order::Until(Moment(5)), rustix::fd::AsFd::as_fd(&reader)).unwrap();
        drop(reader);
        let (stdin, line) = receive_first(&theirs).unwrap().unwrap();
        assert_eq!(line, b"until 5\n");
        rustix::io::write(&writer, b"x").unwrap();
        let mut byte = [0];
        assert_eq!((rustix::io::read(&stdin, &mut byte).unwrap(), byte[0]), (1, b'x'));
        drop(ours);
        assert!(receive_first(&theirs).unwrap().is_none());
    }
}
