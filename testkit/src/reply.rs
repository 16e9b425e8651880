//! One command on a connection of its own, and its reply.

use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// How long a server may take to read a command and to answer it.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the server at this port of loopback.
pub(crate) fn ask(port: u16, password: Option<&str>, words: &[&str]) -> io::Result<Reply> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let mut stream = BufReader::new(stream);
    if let Some(password) = password {
        stream.get_mut().write_all(&encode(&["AUTH", password]))?;
        Reply::read(&mut stream)?;
    }
    stream.get_mut().write_all(&encode(words))?;
    Reply::read(&mut stream)
}

fn encode(words: &[&str]) -> Vec<u8> {
    let words = words.iter().map(|w| format!("${}\r\n{w}\r\n", w.len()));
    format!("*{}\r\n{}", words.len(), words.collect::<String>()).into_bytes()
}

/// A server's reply as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A null: the key is absent.
    Nil,
    /// A number.
    Int(i64),
    /// A status, such as `OK`.
    Status(String),
    /// An error, with its code first.
    Error(String),
    /// A string.
    Bulk(Vec<u8>),
    /// A list.
    Array(Vec<Reply>),
}

impl Reply {
    fn read(from: &mut impl BufRead) -> io::Result<Reply> {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a reply");
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end_matches(['\r', '\n']);
        let (kind, rest) = line.split_at_checked(1).ok_or_else(bad)?;
        let number = || rest.parse::<i64>().map_err(|_| bad());
        Ok(match kind {
            "+" => Reply::Status(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Int(number()?),
            "$" | "*" if number()? < 0 => Reply::Nil,
            "$" => {
                let length = number()? as usize;
                let mut bytes = vec![0; length + 2];
                from.read_exact(&mut bytes)?;
                bytes.truncate(length);
                Reply::Bulk(bytes)
            }
            "*" => Reply::Array((0..number()?).map(|_| Reply::read(from)).collect::<io::Result<_>>()?),
            _ => return Err(bad()),
        })
    }

    /// Whether it is a null.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        *self == Reply::Nil
    }

    /// Whether it is the status `OK`.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        matches!(self, Reply::Status(text) if text == "OK")
    }

    /// The number, if it is one.
    #[must_use]
    pub fn int(&self) -> Option<i64> {
        match self {
            Reply::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The text of a status, an error or a string.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Reply::Status(text) | Reply::Error(text) => Some(text.clone()),
            Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    /// Its `OK`.
    pub(crate) fn done(self) -> io::Result<()> {
        if self.is_ok() { Ok(()) } else { Err(io::Error::other(format!("expected OK, the server answered {self:?}"))) }
    }

    /// The items of a list; none for anything else.
    #[must_use]
    pub fn items(&self) -> &[Reply] {
        match self {
            Reply::Array(items) => items,
            _ => &[],
        }
    }
}
