//! A network path to one master on which a release can be late: the message with the release is held back, together
//! with what follows on the same connection, but not on other connections. As with TCP, what was sent is delivered even
//! if the sender has closed the connection meanwhile.

use parking_lot::Mutex;
use redleash_testkit::wait_until;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What happens to the next release.
#[derive(Debug)]
enum Fate {
    /// Nothing.
    Clear,
    /// It will be held back for this long.
    Armed(Duration),
    /// It is being held back.
    Holding,
    /// It has been delivered.
    Delivered,
}

/// A path to one master.
pub struct Link {
    port: u16,
    fate: Arc<Mutex<Fate>>,
}

impl Link {
    /// A path to the server at `target` on loopback, whose releases contain `release`.
    ///
    /// # Errors
    ///
    /// If no port can be had.
    pub fn to(target: u16, release: &str) -> io::Result<Link> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let fate = Arc::new(Mutex::new(Fate::Clear));
        let (shared, release) = (fate.clone(), release.as_bytes().to_vec());
        // This thread ends with the program, because a blocked accept has no other end. It keeps a port and nothing
        // else.
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Err(error) = connect(client, target, &release, &shared) {
                    eprintln!("link: {error}");
                }
            }
        });
        Ok(Link { port, fate })
    }

    /// Its near end.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next release is held back for `delay`.
    pub fn arm(&self, delay: Duration) {
        *self.fate.lock() = Fate::Armed(delay);
    }

    /// If no release has come, the next one is not held back any more.
    pub fn disarm(&self) {
        let mut fate = self.fate.lock();
        if matches!(*fate, Fate::Armed(_)) {
            *fate = Fate::Clear;
        }
    }

    /// Whether a release came and was held back, and may have been delivered since.
    pub fn caught(&self) -> bool {
        matches!(*self.fate.lock(), Fate::Holding | Fate::Delivered)
    }

    /// Waits until no release is held back.
    pub fn wait(&self, limit: Duration) -> bool {
        wait_until(limit, || !matches!(*self.fate.lock(), Fate::Holding))
    }
}

fn connect(client: TcpStream, target: u16, release: &[u8], fate: &Arc<Mutex<Fate>>) -> io::Result<()> {
    let server = TcpStream::connect(("127.0.0.1", target))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from, to, fate) = (client.try_clone()?, server.try_clone()?, fate.clone());
    let release = release.to_vec();
    thread::spawn(move || requests(from, to, &release, &fate));
    thread::spawn(move || replies(server, client));
    Ok(())
}

fn requests(mut from: TcpStream, mut to: TcpStream, release: &[u8], fate: &Mutex<Fate>) {
    let mut buffer = vec![0; 65_536];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        let message = &buffer[..length];
        let held = message.windows(release.len()).any(|part| part == release) && hold(fate);
        let sent = to.write_all(message);
        if held {
            *fate.lock() = Fate::Delivered;
        }
        if sent.is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Holds a release back, if one is to be.
fn hold(fate: &Mutex<Fate>) -> bool {
    let delay = {
        let mut fate = fate.lock();
        let Fate::Armed(delay) = *fate else { return false };
        *fate = Fate::Holding;
        delay
    };
    thread::sleep(delay);
    true
}

fn replies(mut from: TcpStream, mut to: TcpStream) {
    // Ends when the server closes the connection. It does not end with the client, whose messages must still arrive.
    let mut buffer = vec![0; 65_536];
    let mut gone = false;
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        gone = gone || to.write_all(&buffer[..length]).is_err();
    }
    let _ = to.shutdown(Shutdown::Both);
}
