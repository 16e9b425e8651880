//! A connection to a server that runs as a thread, notes what it is sent, and grants everything.

use super::scripts::SCRIPTS;
use crate::protocol::Operation;
use crate::world;
use shuttle::rand::{Rng, thread_rng};
use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The two directions of a connection. The mutexes are never held over a step.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    requests: Mutex<Vec<u8>>,
    replies: Mutex<Vec<u8>>,
    closed: AtomicBool,
}

impl Pipe {
    pub(super) fn is_readable(&self) -> bool {
        self.closed.load(Ordering::SeqCst) || !self.replies.lock().unwrap().is_empty()
    }

    fn has_work(&self) -> bool {
        self.closed.load(Ordering::SeqCst) || !self.requests.lock().unwrap().is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(super) pipe: Arc<Pipe>,
    id: u64,
    broken: AtomicBool,
}

impl Conn {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn identity(&self) -> &str {
        ""
    }

    pub(crate) fn is_watched(&self) -> bool {
        false
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        world::step();
        self.pipe.requests.lock().unwrap().extend_from_slice(bytes);
        world::changed();
        Ok(bytes.len())
    }

    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        world::step();
        let mut replies = self.pipe.replies.lock().unwrap();
        let n = replies.len().min(buffer.len());
        buffer[..n].copy_from_slice(&replies[..n]);
        replies.drain(..n);
        drop(replies);
        match n {
            0 if self.pipe.closed.load(Ordering::SeqCst) => {
                // Until the connection is given up by another thread, a leader finds it at its end again and again.
                shuttle::thread::yield_now();
                Ok(0)
            }
            0 => Err(io::ErrorKind::WouldBlock.into()),
            n => Ok(n),
        }
    }

    pub(crate) fn has_news(&self) -> bool {
        self.pipe.is_readable()
    }

    pub(crate) fn break_off(&self) {
        self.broken.store(true, Ordering::SeqCst);
        self.pipe.closed.store(true, Ordering::SeqCst);
        world::changed();
    }
}

/// A connection as the pool gives it.
pub(crate) struct Pooled(Arc<Conn>);

impl Deref for Pooled {
    type Target = Arc<Conn>;

    fn deref(&self) -> &Arc<Conn> {
        &self.0
    }
}

/// What a server was sent, in its order: the operation's number and the lock's key.
pub(crate) type Heard = Arc<Mutex<Vec<(u32, String)>>>;

/// A server, and a connection to it. If `forgetful`, it may have forgotten a script that it is asked to run by its
/// digest.
pub(crate) fn serve(forgetful: bool) -> (Pooled, Heard) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let (pipe, heard) = (Arc::<Pipe>::default(), Heard::default());
    let conn = Conn { pipe: pipe.clone(), id: NEXT.fetch_add(1, Ordering::SeqCst), broken: AtomicBool::new(false) };
    let notes = heard.clone();
    world::start("server", move || run(&pipe, &notes, forgetful));
    (Pooled(Arc::new(conn)), heard)
}

fn run(pipe: &Arc<Pipe>, heard: &Heard, forgetful: bool) {
    loop {
        let work = pipe.clone();
        world::wait_until(move || work.has_work());
        if pipe.closed.load(Ordering::SeqCst) {
            return;
        }
        let command = next_command(&mut pipe.requests.lock().unwrap());
        // The numbers of the operations are below 32; these two are all that is asked here.
        let asked =
            [Operation::Release { keep: Duration::ZERO, tell: None }, Operation::Extend { px_ms: 0, recreate: true }];
        let which = asked.iter().find(|o| {
            let script = SCRIPTS.of(o);
            command[1] == script.text || command[1] == script.sha
        });
        let operation = which.unwrap_or_else(|| panic!("unexpected: {command:?}"));
        let reply: &[u8] = if forgetful && command[0] == "EVALSHA" && thread_rng().gen_bool(0.5) {
            b"-NOSCRIPT No matching script.\r\n"
        } else {
            heard.lock().unwrap().push((operation.number(), command[3].clone()));
            if operation.is_release() { b":1\r\n" } else { b"*2\r\n:1\r\n$0\r\n\r\n" }
        };
        world::step();
        pipe.replies.lock().unwrap().extend_from_slice(reply);
        world::changed();
    }
}

/// Takes one command, which is there as a whole.
fn next_command(bytes: &mut Vec<u8>) -> Vec<String> {
    fn line(bytes: &[u8], at: &mut usize) -> usize {
        let end = *at + bytes[*at..].windows(2).position(|w| w == b"\r\n").unwrap();
        let number = std::str::from_utf8(&bytes[*at + 1..end]).unwrap().parse().unwrap();
        *at = end + 2;
        number
    }
    let mut at = 0;
    let count = line(bytes, &mut at);
    let arguments = (0..count).map(|_| {
        let length = line(bytes, &mut at);
        let argument = String::from_utf8(bytes[at..at + length].to_vec()).unwrap();
        at += length + 2;
        argument
    });
    let command = arguments.collect();
    bytes.drain(..at);
    command
}
