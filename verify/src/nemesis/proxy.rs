//! A network between clients and one master, which passes bytes until a fault is set.
//!
//! It does what networks do, not more: bytes of one connection are delayed, held back until it heals (as TCP's
//! retransmission does), or lost together with all later bytes of that connection. It makes no hole in a stream, which
//! no network does.

use super::pipe::Pipe;
pub use super::pipe::{Done, Way};
use parking_lot::Mutex;
use redleash_testkit::free_port;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The state of the network between the clients and the master.
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
    /// A network without faults.
    pub const CLEAR: Link = Link { requests: Way::Pass, replies: Way::Pass, refused: false };
    /// Connections are refused.
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
    /// Starts a proxy in front of the master at this port of loopback.
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
        let mut pump =
            Pump { port, to, listener: Some(listener), orders: orders.clone(), woken, connections: Vec::new() };
        let thread = thread::Builder::new().name(format!("proxy-{port}")).spawn(move || while pump.step() {})?;
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
        self.orders.lock().link = link;
        self.wake();
    }

    /// The network now.
    pub fn link(&self) -> Link {
        self.orders.lock().link
    }

    /// Resets all connections once; new ones are accepted.
    pub fn cut(&self) {
        self.orders.lock().cut = true;
        self.wake();
    }

    /// What it has done so far. A fault that touched no bytes was none.
    pub fn done(&self) -> Done {
        self.orders.lock().done
    }

    fn wake(&self) {
        let _ = (&self.wake).write(&[1]);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.orders.lock().stop = true;
        self.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// While the master's port is open, connecting to it on loopback takes less than this, even if the master is stopped.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);
/// How often a port that was given up is tried again.
const LISTEN_INTERVAL: Duration = Duration::from_millis(5);

struct Pump {
    port: u16,
    to: u16,
    listener: Option<TcpListener>,
    orders: Arc<Mutex<Orders>>,
    woken: UnixStream,
    connections: Vec<Connection>,
}

impl Pump {
    /// Waits for something to do and does it; `false` when it is over.
    fn step(&mut self) -> bool {
        let now = Instant::now();
        let mut orders = self.orders.lock();
        if orders.stop {
            return false;
        }
        let link = orders.link;
        if std::mem::take(&mut orders.cut) || link.refused {
            orders.done.cut += self.connections.len() as u64;
            self.connections.drain(..).for_each(Connection::reset);
        }
        self.connections.retain_mut(|connection| connection.write(link, now));
        drop(orders);
        if link.refused {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = listen(self.port).ok();
        }
        self.wait(link, now);
        while (&self.woken).read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
        let accepted = self.accept();
        // Under the mutex, so that what is sent after `set` has returned meets the new network.
        let mut orders = self.orders.lock();
        let (link, done) = (orders.link, &mut orders.done);
        done.accepted += accepted;
        if !link.refused {
            let now = Instant::now();
            for connection in &mut self.connections {
                let Connection { client, server, up, down } = connection;
                up.read(client, link.requests, now, done);
                down.read(server, link.replies, now, done);
            }
        }
        true
    }

    /// Accepts all that have come; how many they are.
    fn accept(&mut self) -> u64 {
        let mut accepted = 0;
        let Some(listener) = &self.listener else { return accepted };
        while let Ok((client, _)) = listener.accept() {
            accepted += 1;
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.to));
            // If the master is down, the client's connection ends.
            let Ok(server) = TcpStream::connect_timeout(&to, CONNECT_TIMEOUT) else { continue };
            for socket in [&client, &server] {
                let _ = socket.set_nodelay(true);
                let _ = socket.set_nonblocking(true);
            }
            self.connections.push(Connection { client, server, up: Pipe::default(), down: Pipe::default() });
        }
        accepted
    }

    fn wait(&self, link: Link, now: Instant) {
        let mut fds = vec![PollFd::new(&self.woken, PollFlags::IN)];
        fds.extend(self.listener.iter().map(|listener| PollFd::new(listener, PollFlags::IN)));
        for connection in &self.connections {
            let Connection { client, server, up, down } = connection;
            for (socket, reads, writes) in [(client, up, down), (server, down, up)] {
                let mut events = PollFlags::empty();
                events.set(PollFlags::IN, reads.wants_more());
                events.set(PollFlags::OUT, writes.blocked);
                // A socket that is polled for nothing would still report its end, over and over.
                if !events.is_empty() {
                    fds.push(PollFd::new(socket, events));
                }
            }
        }
        let again = (self.listener.is_none() && !link.refused).then_some(LISTEN_INTERVAL);
        let due = self.connections.iter().flat_map(|c| [c.up.due(link.requests, now), c.down.due(link.replies, now)]);
        let timeout = due.flatten().chain(again).min().and_then(|left| Timespec::try_from(left).ok());
        let _ = poll(&mut fds, timeout.as_ref());
    }
}

struct Connection {
    client: TcpStream,
    server: TcpStream,
    up: Pipe,
    down: Pipe,
}

impl Connection {
    /// `false` when it has ended.
    fn write(&mut self, link: Link, now: Instant) -> bool {
        self.up.write(&self.server, link.requests, now);
        self.down.write(&self.client, link.replies, now);
        // The other side of a connection that lost bytes learns of its end when the way is open again.
        let over = |pipe: &Pipe, way| pipe.deaf && pipe.ended && way != Way::Swallow;
        !(self.up.finished && self.down.finished || over(&self.up, link.requests) || over(&self.down, link.replies))
    }

    fn reset(self) {
        for socket in [&self.client, &self.server] {
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}
