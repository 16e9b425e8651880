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
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Value) -> bool) -> Stop {
        // While the parser holds nothing, replies that are there as a whole are read without it: half of the cost of a
        // granted lock was in parsing.
        if self.pending == 0 {
            while let Some((value, rest)) = whole(bytes, ARRAYS) {
                bytes = rest;
                if !each(value) {
                    return Stop::Nonsense;
                }
            }
            if bytes.is_empty() {
                return Stop::Hungry;
            }
        }
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

/// How deep arrays may be nested in a reply that is read at a glance.
const ARRAYS: u8 = 1;

/// The reply at the beginning of `bytes` and what follows it, if it is whole and of a shape that a granted lock has: `+OK`,
/// an integer, a bulk string, or an array of these. Everything else is the parser's.
fn whole(bytes: &[u8], arrays: u8) -> Option<(Value, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let end = rest.iter().take(24).position(|b| *b == b'\r')?;
    let (line, rest) = (&rest[..end], rest[end..].strip_prefix(b"\r\n")?);
    match kind {
        b'+' if line == b"OK" => Some((Value::Okay, rest)),
        b':' => Some((Value::Int(number(line)?), rest)),
        b'$' if line == b"-1" => Some((Value::Nil, rest)),
        b'$' => {
            let (text, rest) = rest.split_at_checked(usize::try_from(number(line)?).ok()?)?;
            Some((Value::BulkString(text.to_vec()), rest.strip_prefix(b"\r\n")?))
        }
        b'*' if arrays > 0 => {
            let count = usize::try_from(number(line)?).ok().filter(|n| *n <= 16)?;
            let (mut items, mut rest) = (Vec::with_capacity(count), rest);
            for _ in 0..count {
                let (item, after) = whole(rest, arrays - 1)?;
                items.push(item);
                rest = after;
            }
            Some((Value::Array(items), rest))
        }
        _ => None,
    }
}

/// A decimal number of at most 18 digits.
fn number(line: &[u8]) -> Option<i64> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let n = digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0'));
    Some(if digits.len() < line.len() { -n } else { n })
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

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: [&str; 14] = [
        "+OK\r\n",
        "+QUEUED\r\n",
        ":0\r\n",
        ":-17\r\n",
        ":1234567890123456789\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$5\r\na\r\nbc\r\n",
        "*0\r\n",
        "*-1\r\n",
        "*2\r\n$3\r\nabc\r\n$-1\r\n",
        "*3\r\n:1\r\n$2\r\nxy\r\n+OK\r\n",
        "*1\r\n*1\r\n:1\r\n",
        "-ERR no\r\n",
    ];

    fn by_the_parser(bytes: &[u8]) -> Vec<Value> {
        let (mut parser, mut feed, mut values) = (Parser::new(), Feed(bytes), Vec::new());
        while let Ok(value) = parser.parse_value(&mut feed) {
            values.push(value);
        }
        values
    }

    /// What comes out when `bytes` come in pieces.
    fn in_pieces(pieces: &[&[u8]]) -> (Vec<Value>, bool) {
        let (mut replies, mut values, mut sane) = (Replies::new(), Vec::new(), true);
        for piece in pieces {
            let stop = replies.feed(piece, |v| {
                values.push(v);
                true
            });
            sane &= matches!(stop, Stop::Hungry);
        }
        (values, sane)
    }

    #[test]
    fn every_pair_of_replies_cut_at_every_byte_reads_as_the_parser_reads_it() {
        for first in REPLIES {
            for second in REPLIES {
                let bytes = [first, second].concat().into_bytes();
                let expected = by_the_parser(&bytes);
                assert_eq!(expected.len(), 2, "{first:?} {second:?}");
                for cut in 0..=bytes.len() {
                    let (values, sane) = in_pieces(&[&bytes[..cut], &bytes[cut..]]);
                    assert_eq!((&values, sane), (&expected, true), "{first:?} {second:?} at {cut}");
                }
            }
        }
    }

    #[test]
    fn bytes_one_by_one_read_as_the_parser_reads_them() {
        let bytes = REPLIES.concat().into_bytes();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(in_pieces(&pieces), (by_the_parser(&bytes), true));
    }

    #[test]
    fn what_is_not_resp_is_nonsense() {
        for bytes in ["hello\r\n", "$x\r\n", ":\r\n", "*2\r\nx\r\n", "$3\r\nabcd\r\n", "\r\n"] {
            assert!(!in_pieces(&[bytes.as_bytes()]).1, "{bytes:?}");
        }
    }

    #[test]
    fn a_reply_above_the_cap_is_nonsense_before_it_is_complete() {
        let head = format!("${}\r\n", 4 * CAP);
        let chunk = vec![b'x'; 16 * 1024];
        let (mut replies, mut fed) = (Replies::new(), 0);
        let mut feed = |bytes: &[u8]| matches!(replies.feed(bytes, |_| true), Stop::Nonsense);
        assert!(!feed(head.as_bytes()));
        while !feed(&chunk) {
            fed += chunk.len();
            assert!(fed <= CAP + chunk.len(), "{fed} bytes were taken");
        }
    }

    #[test]
    fn a_reply_that_nobody_asked_for_stops_the_reading() {
        let mut replies = Replies::new();
        assert!(matches!(replies.feed(b"+OK\r\n:1\r\n", |v| v == Value::Okay), Stop::Nonsense));
    }
}
