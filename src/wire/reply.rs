//! Replies cut out of a stream of bytes, under limits: a master that talks nonsense costs neither memory nor a wrong
//! vote.
//!
//! A reply that is not there as a whole is measured, and read when it is. `redis::Parser` builds what it reads on the
//! way, for as many values as the bytes announce, so a short reply could take much memory.

pub(crate) use redis::Value;
use redis::parse_redis_value;

/// The most bytes that one reply may have.
pub(crate) const CAP: usize = 64 * 1024;
/// The most bytes that are read at once.
pub(crate) const READ: usize = 16 * 1024;
/// The longest line in a reply: an error, or a number.
const LINE: usize = 4 * 1024;
/// The most values in a reply, arrays counted. The largest reply of ours is that of `extend_many`.
pub(crate) const VALUES: usize = 256;
/// The most arrays in a reply, which also limits how deep they are nested; two are the most that a script of ours
/// gives.
const ARRAYS: usize = 16;

/// Why no more replies come out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// More bytes are needed.
    Hungry,
    /// The bytes are not RESP, or a reply is above a limit. Nothing is read from then on: where the next reply begins
    /// is anybody's guess.
    Nonsense,
}

/// Bytes in, replies out.
#[derive(Default)]
pub(crate) struct Replies {
    /// The beginning of a reply that is not complete.
    rest: Vec<u8>,
    frame: Frame,
    lost: bool,
}

impl Replies {
    pub(crate) fn new() -> Replies {
        Replies::default()
    }

    /// Whether everything that came has been read.
    pub(crate) fn is_done(&self) -> bool {
        self.rest.is_empty() && !self.lost
    }

    /// Feeds `bytes` and hands each complete reply to `each`, which answers whether it was owed.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: impl FnMut(Value) -> bool) -> Stop {
        if self.lost {
            return Stop::Nonsense;
        }
        let mut kept = std::mem::take(&mut self.rest);
        let stop = if kept.is_empty() {
            let (used, stop) = self.cut(bytes, each);
            append(&mut kept, &bytes[used..]);
            stop
        } else {
            append(&mut kept, bytes);
            let (used, stop) = self.cut(&kept, each);
            kept.drain(..used);
            stop
        };
        self.lost = stop == Stop::Nonsense;
        // A buffer is kept only while there is something in it.
        if !self.lost && !kept.is_empty() {
            self.rest = kept;
        }
        stop
    }

    /// The reply at the beginning of `bytes` and what follows it, if it is whole and nothing of it was measured before:
    /// the usual case, without looking twice.
    fn glance<'a>(&self, bytes: &'a [u8]) -> Option<(Value, &'a [u8])> {
        if self.frame.at > 0 {
            return None;
        }
        read(bytes, &mut Frame::default()).filter(|(_, rest)| bytes.len() - rest.len() <= CAP)
    }

    /// Reads what is complete in `bytes`, which begin with a reply; how many bytes that was.
    fn cut(&mut self, bytes: &[u8], mut each: impl FnMut(Value) -> bool) -> (usize, Stop) {
        let mut used = 0;
        loop {
            let left = &bytes[used..];
            if left.is_empty() {
                return (used, Stop::Hungry);
            }
            let (value, rest) = match self.glance(left) {
                Some(reply) => reply,
                None => match self.frame.measure(left) {
                    Ok(None) => return (used, Stop::Hungry),
                    Ok(Some(len)) => match read(&left[..len], &mut Frame::default()) {
                        Some((value, [])) => (value, &left[len..]),
                        _ => return (used, Stop::Nonsense),
                    },
                    Err(Nonsense) => return (used, Stop::Nonsense),
                },
            };
            self.frame = Frame::default();
            if !each(value) {
                return (used, Stop::Nonsense);
            }
            used = bytes.len() - rest.len();
        }
    }
}

/// Appends in one of two sizes of buffer, so that it neither doubles nor grows with each byte.
fn append(kept: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let need = kept.len() + bytes.len();
    if need > kept.capacity() {
        let size = if need <= LINE { LINE } else { need.max(CAP + READ) };
        kept.reserve_exact(size - kept.len());
    }
    kept.extend_from_slice(bytes);
}

/// The bytes are not RESP, or above a limit.
#[derive(Debug)]
struct Nonsense;

/// How far a reply has been measured.
struct Frame {
    /// Where its next value begins.
    at: usize,
    /// Values that are still to come.
    owed: usize,
    /// Values in all.
    values: usize,
    /// Arrays among them.
    arrays: usize,
}

impl Default for Frame {
    fn default() -> Frame {
        Frame { at: 0, owed: 1, values: 1, arrays: 0 }
    }
}

impl Frame {
    /// Counts an array; how many items it has.
    fn array(&mut self, line: &[u8]) -> Result<Option<usize>, Nonsense> {
        let items = count(line, VALUES)?;
        self.values += items.unwrap_or(0);
        self.arrays += 1;
        if self.values > VALUES || self.arrays > ARRAYS { Err(Nonsense) } else { Ok(items) }
    }

    /// The length of the reply at the beginning of `bytes`, which begin as they did in the call before; `None` if it is
    /// not there as a whole.
    fn measure(&mut self, bytes: &[u8]) -> Result<Option<usize>, Nonsense> {
        while self.owed > 0 {
            let Some((kind, line, rest)) = line(&bytes[self.at..])? else { return incomplete(bytes) };
            let mut end = bytes.len() - rest.len();
            match kind {
                b'+' | b'-' | b':' => {}
                b'$' => {
                    if let Some(len) = count(line, CAP)? {
                        end += len + 2;
                        if end > CAP {
                            return Err(Nonsense);
                        }
                        match bytes.get(end - 2..end) {
                            Some(b"\r\n") => {}
                            Some(_) => return Err(Nonsense),
                            None => return incomplete(bytes),
                        }
                    }
                }
                b'*' => {
                    self.owed += self.array(line)?.unwrap_or(0);
                }
                _ => return Err(Nonsense),
            }
            self.owed -= 1;
            self.at = end;
        }
        if self.at > CAP { Err(Nonsense) } else { Ok(Some(self.at)) }
    }
}

/// A reply that is not there as a whole, and already too long or not.
fn incomplete(bytes: &[u8]) -> Result<Option<usize>, Nonsense> {
    if bytes.len() > CAP { Err(Nonsense) } else { Ok(None) }
}

/// The kind of a value, the rest of its first line, and what follows the line.
type Line<'a> = (u8, &'a [u8], &'a [u8]);

/// The line at the beginning of `bytes`; `None` if it is not complete.
fn line(bytes: &[u8]) -> Result<Option<Line<'_>>, Nonsense> {
    let Some(end) = line_end(&bytes[..bytes.len().min(LINE + 2)]) else {
        return if bytes.len() > LINE + 1 { Err(Nonsense) } else { Ok(None) };
    };
    let (kind, line) = bytes[..end].split_first().ok_or(Nonsense)?;
    Ok(Some((*kind, line, &bytes[end + 2..])))
}

fn line_end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + bytes[from..].iter().position(|b| *b == b'\r')?;
        match bytes.get(at + 1)? {
            b'\n' => return Some(at),
            _ => from = at + 1,
        }
    }
}

/// A length of at most `limit`; `None` for -1, which stands for nil.
fn count(line: &[u8], limit: usize) -> Result<Option<usize>, Nonsense> {
    match number(line).ok_or(Nonsense)? {
        -1 => Ok(None),
        n => usize::try_from(n).ok().filter(|n| *n <= limit).map(Some).ok_or(Nonsense),
    }
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// The reply at the beginning of `bytes` and what follows it, if it is whole and within the limits of `frame`'s counts.
fn read<'a>(bytes: &'a [u8], frame: &mut Frame) -> Option<(Value, &'a [u8])> {
    let (kind, text, rest) = line(bytes).ok()??;
    let value = match kind {
        b'+' if text == b"OK" => Value::Okay,
        b'+' => Value::SimpleString(std::str::from_utf8(text).ok()?.into()),
        // The kinds of errors are known there.
        b'-' => parse_redis_value(&bytes[..bytes.len() - rest.len()]).ok()?,
        b':' => Value::Int(number(text)?),
        b'$' => match count(text, CAP).ok()? {
            None => Value::Nil,
            Some(len) => {
                let (text, rest) = rest.split_at_checked(len)?;
                return Some((Value::BulkString(text.to_vec()), rest.strip_prefix(b"\r\n")?));
            }
        },
        b'*' => match frame.array(text).ok()? {
            None => Value::Nil,
            Some(items) => return read_items(items, rest, frame),
        },
        _ => return None,
    };
    Some((value, rest))
}

fn read_items<'a>(count: usize, mut rest: &'a [u8], frame: &mut Frame) -> Option<(Value, &'a [u8])> {
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        let (item, after) = read(rest, frame)?;
        items.push(item);
        rest = after;
    }
    Some((Value::Array(items), rest))
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

    fn by_the_parser(mut bytes: &[u8]) -> Vec<Value> {
        let (mut parser, mut values) = (redis::Parser::new(), Vec::new());
        while let Ok(value) = parser.parse_value(&mut bytes) {
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
        let nested = "*1\r\n".repeat(ARRAYS + 1);
        for bytes in
            ["hello\r\n", "$x\r\n", "*2\r\nx\r\n", "$3\r\nabcd\r\n", "\r\n", "$-2\r\n", "_\r\n", ":\r\n", &nested]
        {
            assert!(!in_pieces(&[bytes.as_bytes()]).1, "{bytes:?}");
        }
    }

    /// Whether the bytes are one reply, whether they come at once or in pieces.
    fn is_a_reply(bytes: &str) -> bool {
        let whole = in_pieces(&[bytes.as_bytes()]);
        let pieces: Vec<_> = bytes.as_bytes().chunks(61).collect();
        assert_eq!(whole, in_pieces(&pieces), "{}", bytes.len());
        whole.1 && whole.0.len() == 1
    }

    #[test]
    fn each_limit_is_where_it_says() {
        let bulk = |len: usize| format!("${len}\r\n{}\r\n", "x".repeat(len));
        let head = "$65000\r\n\r\n".len();
        assert!(is_a_reply(&bulk(CAP - head)) && !is_a_reply(&bulk(CAP - head + 1)));
        let line = |len: usize| format!("+{}\r\n", "x".repeat(len - 1));
        assert!(is_a_reply(&line(LINE)) && !is_a_reply(&line(LINE + 1)));
        let items = |n: usize| format!("*{n}\r\n{}", ":1\r\n".repeat(n));
        assert!(is_a_reply(&items(VALUES - 1)) && !is_a_reply(&items(VALUES)));
        let deep = |n: usize| format!("{}:1\r\n", "*1\r\n".repeat(n));
        assert!(is_a_reply(&deep(ARRAYS)) && !is_a_reply(&deep(ARRAYS + 1)));
        let lines = |n: usize, last: usize| format!("*{n}\r\n{}{}", line(LINE).repeat(n - 1), line(last));
        let last = CAP - lines(16, 1).len() + 1;
        assert!(is_a_reply(&lines(16, last)) && !is_a_reply(&lines(16, last + 1)));
    }

    #[test]
    fn what_is_too_long_is_refused_as_soon_as_it_says_so() {
        for head in ["$65536\r\n", "*256\r\n", "$9223372036854775807\r\n", "*2147483647\r\n"] {
            assert!(!in_pieces(&[head.as_bytes()]).1, "{head:?}");
        }
        let endless = vec![b'x'; LINE + 1];
        assert!(!in_pieces(&[b"+", &endless]).1);
    }

    #[test]
    fn nothing_is_read_after_nonsense() {
        let (values, sane) = in_pieces(&[b":1\r\n?\r\n:2\r\n", b":3\r\n"]);
        assert_eq!((values, sane), (vec![Value::Int(1)], false));
    }

    #[test]
    fn a_reply_that_nobody_asked_for_stops_the_reading() {
        let mut replies = Replies::new();
        assert!(matches!(replies.feed(b"+OK\r\n:1\r\n", |v| v == Value::Okay), Stop::Nonsense));
    }
}
