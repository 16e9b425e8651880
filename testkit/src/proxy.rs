//! A stand-in for a bad network and for a broken server.

use parking_lot::Mutex;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// What a [`Proxy`] does to what passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: requests and replies pass.
    None,
    /// These bytes come in place of each reply.
    Say(&'static [u8]),
    /// These bytes come before the next reply, once.
    Before(&'static [u8]),
    /// These bytes come right behind the next reply, once.
    Behind(&'static [u8]),
    /// The first half of a reply comes, and then nothing for good.
    Half,
    /// The first half of a reply comes, and the connection ends.
    HalfAndClose,
    /// A string of so many bytes comes in place of a reply.
    Flood(u64),
    /// One byte of the replies comes each second.
    Drip,
    /// No reply comes, but the connection stays.
    Mute,
    /// New connections are accepted and closed, old ones too.
    Cut,
    /// Replies pass. Requests wait here until the fault is another, also those of connections that end meanwhile.
    Hold,
    /// Everything passes but a request with these bytes in it: the connection ends in its place.
    CutAt(&'static [u8]),
}

struct Shared {
    /// The port that new connections are passed to.
    to: AtomicU16,
    fault: Mutex<Fault>,
    sockets: Mutex<Vec<TcpStream>>,
    stop: AtomicBool,
    accepted: AtomicU64,
    flooded: AtomicU64,
    misbehaved: AtomicU64,
}

impl Shared {
    fn fault(&self) -> Fault {
        *self.fault.lock()
    }

    /// Writes the pieces together, and is well from then on.
    fn once(&self, fault: Fault, into: &mut TcpStream, pieces: &[&[u8]]) -> io::Result<()> {
        let mut now = self.fault.lock();
        if *now == fault {
            *now = Fault::None;
        }
        into.write_all(&pieces.concat())
    }

    fn close_all(&self) {
        for socket in self.sockets.lock().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Passes bytes between a client and a server until it is set to a [`Fault`]. Dropping it closes all of its
/// connections.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts one to the server at this port of loopback, with a fault from the first byte on.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    pub fn start(to: u16, fault: Fault) -> io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            to: AtomicU16::new(to),
            fault: Mutex::new(fault),
            sockets: Mutex::new(Vec::new()),
            stop: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            flooded: AtomicU64::new(0),
            misbehaved: AtomicU64::new(0),
        });
        let inner = shared.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if inner.stop.load(Ordering::SeqCst) {
                    return;
                }
                inner.accepted.fetch_add(1, Ordering::SeqCst);
                if inner.fault() == Fault::Cut {
                    inner.misbehaved.fetch_add(1, Ordering::SeqCst);
                    continue; // which closes it
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", inner.to.load(Ordering::SeqCst))) else { continue };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                let copies = [client.try_clone(), server.try_clone(), client.try_clone(), server.try_clone()];
                let [Ok(one), Ok(other), Ok(from), Ok(into)] = copies else { continue };
                inner.sockets.lock().extend([one, other]);
                let (inner, shared) = (inner.clone(), inner.clone());
                thread::spawn(move || pass(from, into, &shared));
                thread::spawn(move || reply(server, client, &inner));
            }
        });
        Ok(Proxy { port, shared })
    }

    /// Its address, as a client names it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its host and port, which is how a client names it.
    #[must_use]
    pub fn label(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Sets the fault that is in force from now on.
    pub fn set(&self, fault: Fault) {
        *self.shared.fault.lock() = fault;
        if fault == Fault::Cut {
            self.shared.close_all();
        }
    }

    /// Passes new connections to another port, as a changed DNS entry does. Open connections are not affected.
    pub fn point(&self, to: u16) {
        self.shared.to.store(to, Ordering::SeqCst);
    }

    /// Ends the fault, and closes all connections, as a restart would: a fault may have spoilt them.
    pub fn mend(&self) {
        self.set(Fault::None);
        self.shared.close_all();
    }

    /// The number of connections accepted so far.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How often a fault has changed what passed: a test of a fault shows with it that the fault took place.
    #[must_use]
    pub fn misbehaved(&self) -> u64 {
        self.shared.misbehaved.load(Ordering::SeqCst)
    }

    /// The number of bytes of floods that clients took.
    #[must_use]
    pub fn flooded(&self) -> u64 {
        self.shared.flooded.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.close_all();
        let _ = TcpStream::connect(("127.0.0.1", self.port)); // wakes the acceptor
    }
}

fn pass(mut from: TcpStream, mut into: TcpStream, shared: &Shared) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let request = &buffer[..n];
        if let Fault::CutAt(bytes) = shared.fault()
            && request.windows(bytes.len()).any(|part| part == bytes)
        {
            shared.misbehaved.fetch_add(1, Ordering::SeqCst);
            let _ = from.shutdown(Shutdown::Both);
            break;
        }
        if shared.fault() == Fault::Hold {
            shared.misbehaved.fetch_add(1, Ordering::SeqCst);
            while shared.fault() == Fault::Hold && !shared.stop.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5)); // until the fault is over
            }
        }
        if into.write_all(request).is_err() {
            break;
        }
    }
    let _ = into.shutdown(Shutdown::Write);
}

fn reply(mut from: TcpStream, mut into: TcpStream, shared: &Shared) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let reply = &buffer[..n];
        let fault = shared.fault();
        if !matches!(fault, Fault::None | Fault::CutAt(_) | Fault::Hold) {
            shared.misbehaved.fetch_add(1, Ordering::SeqCst);
        }
        let done = match fault {
            Fault::None | Fault::CutAt(_) | Fault::Hold => into.write_all(reply),
            Fault::Say(bytes) => into.write_all(bytes),
            Fault::Before(bytes) => shared.once(fault, &mut into, &[bytes, reply]),
            Fault::Behind(bytes) => shared.once(fault, &mut into, &[reply, bytes]),
            Fault::Half => into.write_all(&reply[..n / 2]).and_then(|()| swallow(&mut from)),
            Fault::HalfAndClose => into.write_all(&reply[..n / 2]).and_then(|()| Err(io::ErrorKind::BrokenPipe.into())),
            Fault::Flood(size) => flood(&mut into, size, shared),
            Fault::Drip => drip(&mut into, reply, shared),
            Fault::Mute => Ok(()),
            Fault::Cut => from.shutdown(Shutdown::Both),
        };
        if done.is_err() {
            break;
        }
    }
    // The client may have ended, but what it wrote last is still on its way: `pass` ends that half.
    let _ = into.shutdown(Shutdown::Both);
}

fn swallow(from: &mut TcpStream) -> io::Result<()> {
    io::copy(from, &mut io::sink()).map(|_| ())
}

fn flood(into: &mut TcpStream, size: u64, shared: &Shared) -> io::Result<()> {
    let block = [b'x'; 64 * 1024];
    into.write_all(format!("${size}\r\n").as_bytes())?;
    let mut left = size;
    while left > 0 {
        let n = into.write(&block[..block.len().min(left as usize)])?;
        shared.flooded.fetch_add(n as u64, Ordering::SeqCst);
        left -= n as u64;
    }
    into.write_all(b"\r\n")
}

/// Sends a byte per second: the pause is the fault.
fn drip(into: &mut TcpStream, reply: &[u8], shared: &Shared) -> io::Result<()> {
    for byte in reply {
        if shared.stop.load(Ordering::SeqCst) || shared.fault() != Fault::Drip {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        into.write_all(std::slice::from_ref(byte))?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}
