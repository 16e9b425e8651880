//! `redis::Parser` behind a cap.

use redis::{Parser, Value};
use std::io::{self, Read};

/// The most bytes that one reply may have, about: bytes fed since the last complete reply, and one read.
pub(crate) const CAP: usize = 64 * 1024;

/// Why no more replies come out.
#[derive(Debug)]
pub(crate) enum Stop {
    /// More bytes are needed.
    Hungry,
    /// The bytes are not RESP, or the reply is above the cap.
    Nonsense,
}

/// Bytes in, replies out.
pub(crate) struct Replies {
    parser: Parser,
    since_reply: usize,
    /// Bytes that the parser was given less those that its replies are known to account for; zero when it holds nothing.
    pending: usize,
}

/// Yields what is left of a buffer and then says that it would block; the parser keeps its state over that.
struct Feed<'a>(&'a [u8]);

impl Read for Feed<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() && !out.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = self.0.len().min(out.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

impl Replies {
    pub(crate) fn new() -> Replies {
        Replies { parser: Parser::new(), since_reply: 0, pending: 0 }
    }

    /// Feeds `bytes` and hands each complete reply to `each`, which answers whether it was owed.
    pub(crate) fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Value) -> bool) -> Stop {
        let mut feed = Feed(bytes);
        self.since_reply += bytes.len();
        self.pending += bytes.len();
        loop {
            match self.parser.parse_value(&mut feed) {
                Ok(value) => {
                    self.since_reply = feed.0.len();
                    self.pending = self.pending.saturating_sub(length(&value));
                    if !each(value) {
                        return Stop::Nonsense;
                    }
                    // Asking the parser in vain is dear, so it is not asked when it is known to be empty.
                    if self.pending == 0 {
                        return Stop::Hungry;
                    }
                }
                Err(e) if e.is_timeout() => {
                    return if self.since_reply > CAP { Stop::Nonsense } else { Stop::Hungry };
                }
                Err(_) => return Stop::Nonsense,
            }
        }
    }
}

/// The least number of bytes that this reply took on the wire; the number, for the shapes of a granted lock. Counting too
/// few costs one more look at the parser and nothing else.
fn length(value: &Value) -> usize {
    match value {
        Value::Okay | Value::Nil => 5,
        Value::Int(n) => 3 + digits(n.unsigned_abs()) + usize::from(*n < 0),
        Value::BulkString(b) => 5 + digits(b.len() as u64) + b.len(),
        Value::Array(items) => 3 + digits(items.len() as u64) + items.iter().map(length).sum::<usize>(),
        _ => 0,
    }
}

fn digits(n: u64) -> usize {
    n.checked_ilog10().map_or(1, |d| d as usize + 1)
}
