//! Requests and replies as Redis has them on the wire.

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status, such as `OK`.
    Status(String),
    /// An integer.
    Int(i64),
    /// A string.
    Bulk(Vec<u8>),
    /// Nothing.
    Nil,
    /// Several.
    Array(Vec<Reply>),
    /// An error with its code.
    Error(String),
}

impl Reply {
    /// `OK`.
    pub fn ok() -> Reply {
        Reply::Status("OK".into())
    }

    /// An error.
    pub fn error(text: impl Into<String>) -> Reply {
        Reply::Error(text.into())
    }

    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Status(text) => line(out, b'+', text),
            Reply::Error(text) => line(out, b'-', text),
            Reply::Int(n) => line(out, b':', &n.to_string()),
            Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
            Reply::Bulk(bytes) => {
                line(out, b'$', &bytes.len().to_string());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Reply::Array(items) => {
                line(out, b'*', &items.len().to_string());
                items.iter().for_each(|item| item.write(out));
            }
        }
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &str) {
    out.push(kind);
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The first request in `bytes` and its length, if it is whole.
pub fn request(bytes: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let (count, mut at) = number(bytes, 0, b'*')?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let (length, start) = number(bytes, at, b'$')?;
        words.push(bytes.get(start..start + length)?);
        at = start + length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn number(bytes: &[u8], at: usize, kind: u8) -> Option<(usize, usize)> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|b| *b == b'\r')?;
    let digits = std::str::from_utf8(rest[..end].strip_prefix(&[kind])?).ok()?;
    (rest.get(end + 1) == Some(&b'\n')).then_some((digits.parse().ok()?, at + end + 2))
}

/// The first reply in `bytes` and its length, if it is whole.
pub fn reply(bytes: &[u8]) -> Option<(Reply, usize)> {
    let end = bytes.windows(2).position(|w| w == b"\r\n")?;
    let text = std::str::from_utf8(&bytes[1..end]).ok()?;
    let at = end + 2;
    let reply = match bytes[0] {
        b'+' => Reply::Status(text.into()),
        b'-' => Reply::Error(text.into()),
        b':' => Reply::Int(text.parse().ok()?),
        b'$' if text == "-1" => Reply::Nil,
        b'$' => {
            let length: usize = text.parse().ok()?;
            bytes.get(at + length + 1)?;
            return Some((Reply::Bulk(bytes[at..at + length].to_vec()), at + length + 2));
        }
        b'*' if text == "-1" => Reply::Nil,
        b'*' => {
            let (mut items, mut at) = (Vec::new(), at);
            for _ in 0..text.parse::<usize>().ok()? {
                let (item, length) = reply_at(bytes, at)?;
                items.push(item);
                at += length;
            }
            return Some((Reply::Array(items), at));
        }
        _ => return None,
    };
    Some((reply, at))
}

fn reply_at(bytes: &[u8], at: usize) -> Option<(Reply, usize)> {
    reply(bytes.get(at..).filter(|rest| !rest.is_empty())?)
}

/// The bytes of a request.
pub fn encode(words: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    line(&mut out, b'*', &words.len().to_string());
    for word in words {
        line(&mut out, b'$', &word.len().to_string());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_when_it_is_whole_and_not_before() {
        let words: [&[u8]; 3] = [b"SET", b"", b"a\r\nb"];
        let bytes = encode(&words);
        for cut in 0..bytes.len() {
            assert_eq!(request(&bytes[..cut]), None, "at {cut}");
        }
        let mut two = bytes.clone();
        two.extend_from_slice(b"*1\r\n");
        assert_eq!(request(&two), Some((words.to_vec(), bytes.len())));
    }

    #[test]
    fn a_reply_is_read_as_it_was_written() {
        let items = vec![Reply::Int(-3), Reply::Nil, Reply::Bulk(b"a\r\nb".to_vec()), Reply::ok()];
        let written = Reply::Array(vec![Reply::Array(items), Reply::error("ERR no")]);
        let mut bytes = Vec::new();
        written.write(&mut bytes);
        for cut in 1..bytes.len() {
            assert_eq!(reply(&bytes[..cut]), None, "at {cut}");
        }
        assert_eq!(reply(&bytes), Some((written, bytes.len())));
    }
}
