//! A network between clients and one master, which passes bytes until it is told to misbehave.
//!
//! It does what networks do, not more: bytes of one connection are delayed, held back until it heals (as TCP's
//! retransmission does), or lost together with all later bytes of that connection. It makes no hole in a stream, which no
//! network does.

use crate::servers::free_port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// What becomes of the bytes that go one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// They arrive.
    Pass,
    /// They arrive so much later, in order.
    Late(Duration),
    /// They arrive when the way passes again; also those of connections that were closed meanwhile.
    Hold,
    /// They are lost, and the connection with them: it stays open, and nothing comes that way any more.
    Swallow,
}

/// The state of the network between clients and the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// From the clients to the master.
    pub requests: Way,
    /// From the master to the clients.
    pub replies: Way,
    /// No connection is accepted, and those that there are end.
    pub refused: bool,
}

impl Link {
    /// As a network should be.
    pub const CLEAR: Link = Link { requests: Way::Pass, replies: Way::Pass, refused: false };
    /// Nobody listens.
    pub const REFUSED: Link = Link { refused: true, ..Link::CLEAR };

    /// A partition of one way or both.
    pub fn parted(requests: bool, replies: bool, how: Way) -> Link {
        let way = |parted| if parted { how } else { Way::Pass };
        Link { requests: way(requests), replies: way(replies), refused: false }
    }

    /// A slow network, both ways.
    pub fn slow(by: Duration) -> Link {
        Link { requests: Way::Late(by), replies: Way::Late(by), refused: false }
    }
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

struct Orders {
    link: Link,
    cut: bool,
    stop: bool,
    done: Done,
}

/// See the module. Its thread ends when it is dropped.
pub struct Proxy {
    port: u16,
    orders: Arc<Mutex<Orders>>,
    wake: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// In front of the master at this port of loopback.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub fn start(to: u16) -> io::Result<Proxy> {
        let port = free_port()?;
        let listener = listen(port)?;
        let orders = Arc::new(Mutex::new(Orders { link: Link::CLEAR, cut: false, stop: false, done: Done::default() }));
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let mut pump = Pump { port, to, listener: Some(listener), orders: orders.clone(), woken, lines: Vec::new() };
        let thread = thread::Builder::new().name(format!("proxy-{port}")).spawn(move || while pump.turn() {})?;
        Ok(Proxy { port, orders, wake, thread: Some(thread) })
    }

    /// Where it listens on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How clients address the master behind it.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The network from now on. Connections that lost bytes stay lost: [`cut`](Proxy::cut) ends them.
    pub fn set(&self, link: Link) {
        lock(&self.orders).link = link;
        self.wake();
    }

    /// The network now.
    pub fn link(&self) -> Link {
        lock(&self.orders).link
    }

    /// Resets all connections once; new ones are accepted.
    pub fn cut(&self) {
        lock(&self.orders).cut = true;
        self.wake();
    }

    /// What it has done so far: a fault that touched nothing was none.
    pub fn done(&self) -> Done {
        lock(&self.orders).done
    }

    fn wake(&self) {
        let _ = (&self.wake).write(&[1]);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        lock(&self.orders).stop = true;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(orders: &Mutex<Orders>) -> MutexGuard<'_, Orders> {
    orders.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// As long as the master's port is there, connecting to it on loopback does not take longer, even if it stands still.
const CONNECT_LIMIT: Duration = Duration::from_millis(500);
/// More than this is not read ahead of the other side.
const READ_AHEAD: usize = 1 << 20;
/// When a port that was given up is asked for again.
const AGAIN: Duration = Duration::from_millis(5);

struct Pump {
    port: u16,
    to: u16,
    listener: Option<TcpListener>,
    orders: Arc<Mutex<Orders>>,
    woken: UnixStream,
    lines: Vec<Line>,
}

impl Pump {
    /// Waits for something to do and does it; `false` when it is over.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        let mut orders = lock(&self.orders);
        if orders.stop {
            return false;
        }
        let link = orders.link;
        if std::mem::take(&mut orders.cut) || link.refused {
            orders.done.cut += self.lines.len() as u64;
            self.lines.drain(..).for_each(Line::reset);
        }
        self.lines.retain_mut(|line| line.write(link, now));
        drop(orders);
        if link.refused {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = listen(self.port).ok();
        }
        self.wait(link, now);
        while (&self.woken).read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
        let accepted = self.accept();
        // Under the lock: what is sent after `set` has returned meets the new network.
        let mut orders = lock(&self.orders);
        let (link, done) = (orders.link, &mut orders.done);
        done.accepted += accepted;
        if !link.refused {
            let now = Instant::now();
            for line in &mut self.lines {
                line.up.read(&line.client, link.requests, now, done);
                line.down.read(&line.server, link.replies, now, done);
            }
        }
        true
    }

    /// Takes all who have come; how many they are.
    fn accept(&mut self) -> u64 {
        let mut accepted = 0;
        let Some(listener) = &self.listener else { return accepted };
        while let Ok((client, _)) = listener.accept() {
            accepted += 1;
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.to));
            // A master that is down: the client's connection ends.
            let Ok(server) = TcpStream::connect_timeout(&to, CONNECT_LIMIT) else { continue };
            for socket in [&client, &server] {
                let _ = socket.set_nodelay(true);
                let _ = socket.set_nonblocking(true);
            }
            self.lines.push(Line { client, server, up: Pipe::default(), down: Pipe::default() });
        }
        accepted
    }

    fn wait(&self, link: Link, now: Instant) {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        fds.extend(self.listener.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        for line in &self.lines {
            for (socket, reads, writes) in [(&line.client, &line.up, &line.down), (&line.server, &line.down, &line.up)]
            {
                let mut events = PollFlags::empty();
                events.set(PollFlags::IN, reads.wants_more());
                events.set(PollFlags::OUT, writes.blocked);
                // One that nothing is wanted of would still report its end, over and over.
                if !events.is_empty() {
                    fds.push(PollFd::new(socket, events));
                }
            }
        }
        let again = (self.listener.is_none() && !link.refused).then_some(AGAIN);
        let due =
            self.lines.iter().flat_map(|line| [line.up.due(link.requests, now), line.down.due(link.replies, now)]);
        let timeout = due.flatten().chain(again).min().and_then(|left| Timespec::try_from(left).ok());
        let _ = poll(&mut fds, timeout.as_ref());
    }
}

struct Line {
    client: TcpStream,
    server: TcpStream,
    up: Pipe,
    down: Pipe,
}

impl Line {
    /// `false` when it has ended.
    fn write(&mut self, link: Link, now: Instant) -> bool {
        self.up.write(&self.server, link.requests, now);
        self.down.write(&self.client, link.replies, now);
        // The other side of a connection that lost bytes learns of its end when somebody can tell it.
        let over = |pipe: &Pipe, way| pipe.deaf && pipe.ended && way != Way::Swallow;
        !(self.up.finished && self.down.finished || over(&self.up, link.requests) || over(&self.down, link.replies))
    }

    fn reset(self) {
        for socket in [&self.client, &self.server] {
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    chunks: VecDeque<(Instant, Vec<u8>)>,
    queued: usize,
    /// The source has ended.
    ended: bool,
    /// Bytes were lost, so no later ones arrive.
    deaf: bool,
    /// The destination knows the end, or is gone.
    finished: bool,
    /// The destination takes no more for now.
    blocked: bool,
}

impl Pipe {
    fn wants_more(&self) -> bool {
        !self.ended && self.queued < READ_AHEAD
    }

    /// How long until there is something to write.
    fn due(&self, way: Way, now: Instant) -> Option<Duration> {
        let flows = !self.finished && !self.blocked && matches!(way, Way::Pass | Way::Late(_));
        let (due, _) = self.chunks.front().filter(|_| flows)?;
        Some(due.saturating_duration_since(now))
    }

    fn read(&mut self, mut from: &TcpStream, way: Way, now: Instant, done: &mut Done) {
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

    fn write(&mut self, mut into: &TcpStream, way: Way, now: Instant) {
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
