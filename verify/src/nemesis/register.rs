//! The resource that the locks guard: registers that workers read, and write after a pause.
//!
//! Each lock has two. The *fenced* register remembers the highest fencing token that it has seen, in reads too, and
//! refuses lower ones. The *free* (unfenced) register takes every write, so a worker that was paused and writes too
//! late destroys what was written meanwhile.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// One register's account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Its value: the number of updates in it.
    pub value: u64,
    /// The highest token seen.
    pub token: u64,
    /// Updates that were acknowledged.
    pub accepted: u64,
    /// Acknowledged updates that a later write overwrote without having read them.
    pub lost: u64,
    /// Writes that came after a later holder had begun, by workers that use the library and by commands. Only the free
    /// register takes them.
    pub late_writes: [u64; 2],
    /// Reads and writes that were refused.
    pub refused: u64,
}

impl Account {
    /// A write of `base + 1`.
    fn write(&mut self, base: u64) {
        self.lost += self.value.saturating_sub(base);
        self.accepted += 1;
        self.value = base + 1;
    }

    fn knows(&mut self, token: u64) -> bool {
        let fresh = token >= self.token;
        self.token = self.token.max(token);
        self.refused += u64::from(!fresh);
        fresh
    }
}

/// The fenced and the free register of each lock.
pub type Accounts = BTreeMap<usize, (Account, Account)>;

type Shared = Arc<Mutex<Accounts>>;

/// Serves registers on loopback until the process ends.
pub struct Registers {
    port: u16,
    accounts: Shared,
}

impl Registers {
    /// Starts to serve.
    ///
    /// # Errors
    ///
    /// If no port is free.
    pub fn start() -> io::Result<Registers> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let accounts = Shared::default();
        let shared = accounts.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Ok(Registers { port, accounts })
    }

    /// The port on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What is in them.
    pub fn accounts(&self) -> Accounts {
        self.accounts.lock().clone()
    }

    /// Updates of free registers that were lost so far.
    pub fn lost_free(&self) -> u64 {
        self.accounts.lock().values().map(|(_, free)| free.lost).sum()
    }
}

fn serve(stream: &TcpStream, accounts: &Shared) {
    let _ = stream.set_nodelay(true);
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let reply = answer(&line, accounts).unwrap_or_else(|| "wrong".into());
        let mut out = stream;
        if out.write_all(format!("{reply}\n").as_bytes()).is_err() {
            return;
        }
    }
}

/// `read NAME TOKEN` -> `FENCED FREE`; `fenced NAME TOKEN BASE` and `free NAME TOKEN BASE COMMAND` -> `ok`; or `stale`.
fn answer(line: &str, accounts: &Shared) -> Option<String> {
    let mut words = line.split(' ');
    let what = words.next()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (name, token) = (number()? as usize, number()?);
    let mut accounts = accounts.lock();
    let (fenced, free) = accounts.entry(name).or_default();
    if what != "free" && !fenced.knows(token) {
        return Some("stale".into());
    }
    match what {
        "read" => return Some(format!("{} {}", fenced.value, free.value)),
        "fenced" => fenced.write(number()?),
        "free" => {
            free.write(number()?);
            free.late_writes[usize::from(number()? == 1)] += u64::from(token < fenced.token);
        }
        _ => return None,
    }
    Some("ok".into())
}

/// A worker's connection to them.
pub struct Session {
    stream: BufReader<TcpStream>,
    by_command: bool,
}

impl Session {
    /// Connects.
    ///
    /// # Errors
    ///
    /// If the registers are not served.
    pub fn open(port: u16, by_command: bool) -> io::Result<Session> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Session { stream: BufReader::new(stream), by_command })
    }

    /// The values of both registers; `None` if the token is stale.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn read(&mut self, name: usize, token: u64) -> io::Result<Option<(u64, u64)>> {
        let reply = self.ask(&format!("read {name} {token}"))?;
        let values = reply.split_once(' ').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        if values.is_none() && reply != "stale" {
            return Err(io::Error::new(io::ErrorKind::InvalidData, reply));
        }
        Ok(values)
    }

    /// Writes `base + 1` to the fenced register; `false` if it refused.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn write_fenced(&mut self, name: usize, token: u64, base: u64) -> io::Result<bool> {
        Ok(self.ask(&format!("fenced {name} {token} {base}"))? == "ok")
    }

    /// Writes `base + 1` to the free register.
    ///
    /// # Errors
    ///
    /// If the server has ended.
    pub fn write_free(&mut self, name: usize, token: u64, base: u64) -> io::Result<()> {
        let command = u8::from(self.by_command);
        self.ask(&format!("free {name} {token} {base} {command}")).map(drop)
    }

    fn ask(&mut self, line: &str) -> io::Result<String> {
        self.stream.get_mut().write_all(format!("{line}\n").as_bytes())?;
        let mut reply = String::new();
        if self.stream.read_line(&mut reply)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(reply.trim_end().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fenced_register_loses_nothing_and_a_free_one_counts_what_it_lost() {
        let registers = Registers::start().expect("a port");
        let open = || Session::open(registers.port(), false).expect("served");
        let (mut early, mut late) = (open(), open());
        let seen = early.read(0, 10).expect("served").expect("fresh");
        // A later holder reads before the earlier one writes: already then the earlier one is refused.
        assert_eq!(late.read(0, 11).expect("served"), Some((0, 0)));
        assert!(!early.write_fenced(0, 10, seen.0).expect("served"));
        assert!(late.write_fenced(0, 11, 0).expect("served"));
        late.write_free(0, 11, 0).expect("served");
        late.write_free(0, 11, 1).expect("served");
        early.write_free(0, 10, seen.1).expect("served");
        assert_eq!(early.read(0, 10).expect("served"), None);
        let (fenced, free) = registers.accounts()[&0];
        assert_eq!((fenced.value, fenced.accepted, fenced.lost, fenced.refused), (1, 1, 0, 2));
        assert_eq!((free.value, free.accepted, free.lost, free.late_writes), (1, 3, 2, [1, 0]));
    }
}
