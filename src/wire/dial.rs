//! How a connection to a master is made: dialled, then judged by the handshake.

use super::conn::{Conn, Stream};
use super::handshake::greet;
use super::master::{ConnectError, Connector, describe};
use crate::protocol::Mono;
use crate::sys::clock;
use redis::ConnectionAddr;
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

impl Connector {
    /// A connection to a server that is fit for locks, within the connect limit; looking up the host's name can take
    /// longer.
    pub(crate) fn connect(&self) -> Result<Conn, ConnectError> {
        let deadline = clock::now().plus(self.connect_timeout);
        let io = |e: io::Error| ConnectError::Io(describe(&e));
        let stream = self.dial(deadline).map_err(io)?;
        let server = greet(self, &stream, deadline)?;
        stream.set_nonblocking().map_err(io)?;
        Ok(Conn::new(stream, server))
    }

    fn dial(&self, deadline: Mono) -> io::Result<Stream> {
        match self.address.info.addr() {
            ConnectionAddr::Unix(path) => patiently(deadline, || UnixStream::connect(path)).map(Stream::Unix),
            ConnectionAddr::Tcp(host, port) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
                let found: Vec<SocketAddr> =
                    patiently(deadline, || (host.as_str(), *port).to_socket_addrs())?.collect();
                for address in &found {
                    let left = || deadline.since(clock::now()).max(Duration::from_millis(1));
                    match patiently(deadline, || TcpStream::connect_timeout(address, left())) {
                        Ok(s) => return s.set_nodelay(true).map(|()| Stream::Tcp(s)),
                        Err(e) => last = e,
                    }
                }
                Err(last)
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Does it again when a signal came in between, until `deadline`.
fn patiently<T>(deadline: Mono, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match act() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted && clock::now() < deadline => {}
            done => return done,
        }
    }
}
