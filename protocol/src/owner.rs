//! Who holds: a token per attempt, and the value that each master stores.

use std::fmt;
use std::sync::Arc;

/// 128 bits from the operating system, drawn anew for every attempt. `Debug` shows a fingerprint only.
///
/// Proof obligation: a token is used for one attempt only. A token kept over retries lets a late release delete a later
/// vote (`docs/SAFETY.md#token-per-attempt`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; 16]);

impl Token {
    /// A token of these bytes, which must come from the operating system.
    pub fn from_bytes(bytes: [u8; 16]) -> Token {
        Token(bytes)
    }

    /// Reads 32 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Token> {
        if text.len() != 32 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        Some(Token(u128::from_str_radix(text, 16).ok()?.to_be_bytes()))
    }

    fn hex(self) -> String {
        let mut hex = String::with_capacity(32);
        for nibble in self.0.iter().flat_map(|b| [b >> 4, b & 15]) {
            hex.push(char::from(index_digit(usize::from(nibble))));
        }
        hex
    }

    /// Eight hexadecimal digits of a hash of the token (FNV-1a): enough to distinguish holders, too few to guess it.
    pub fn fingerprint(self) -> String {
        fingerprint(&self.0)
    }
}

/// Eight hexadecimal digits of the FNV-1a hash of `bytes`.
fn fingerprint(bytes: &[u8]) -> String {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    format!("{:08x}", (hash >> 32) as u32)
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(#{})", self.fingerprint())
    }
}

/// The longest owner label in bytes.
pub const MAX_LABEL: usize = 128;

/// One attempt's identity: the token and what others may read beside it.
///
/// The value on master `i` is `token|i|label|since_ms`, with `i` in one character. The index makes two names of one
/// server harmless: the second `SET NX` finds another value
/// (`docs/SAFETY.md#index-in-the-value`).
#[derive(Clone)]
pub struct Owner {
    token: Token,
    head: String,
    tail: String,
    label: Arc<str>,
    since_ms: u64,
}

impl Owner {
    /// An owner with the label `label` (already checked) that began at `since_ms`, milliseconds since 1970.
    pub fn new(token: Token, label: &Arc<str>, since_ms: u64) -> Owner {
        let tail = ["|", label, "|", &since_ms.to_string()].concat();
        Owner { token, head: token.hex(), tail, label: label.clone(), since_ms }
    }

    /// The token of this attempt.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The label.
    pub fn label(&self) -> &Arc<str> {
        &self.label
    }

    /// Milliseconds since 1970 at the start of the attempt.
    pub fn since_ms(&self) -> u64 {
        self.since_ms
    }

    /// The token in hexadecimal, for the hand-over of a lock between processes.
    pub fn secret_hex(&self) -> &str {
        &self.head
    }

    /// Writes the value for master `i` into `out`, replacing what was there.
    pub fn write_value(&self, i: usize, out: &mut String) {
        out.clear();
        out.push_str(&self.head);
        out.push('|');
        out.push(index_digit(i) as char);
        out.push_str(&self.tail);
    }

    /// The value for master `i`.
    pub fn value(&self, i: usize) -> String {
        let mut out = String::with_capacity(self.head.len() + self.tail.len() + 2);
        self.write_value(i, &mut out);
        out
    }

    /// Whether `bytes` is this owner's value on master `i`, byte for byte.
    pub fn owns(&self, i: usize, bytes: &[u8]) -> bool {
        let rest = bytes.strip_prefix(self.head.as_bytes()).and_then(|rest| rest.strip_prefix(b"|"));
        let rest = rest.and_then(|rest| rest.strip_prefix(&[index_digit(i)]));
        rest == Some(self.tail.as_bytes())
    }
}

/// The one character that stands for master `i` in a value, so that the values of an attempt differ in one byte.
pub fn index_digit(i: usize) -> u8 {
    b"0123456789abcdefghijklmnopqrstuvwxyz".get(i).copied().unwrap_or(b'?')
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:?}, {:?}, since {})", self.token, self.label, self.since_ms)
    }
}

/// What a value found on a master says about its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A redleash owner.
    Owner {
        /// The owner's label.
        label: String,
        /// Eight hexadecimal digits of the token's hash.
        fingerprint: String,
        /// Milliseconds since 1970 when the attempt began, by the holder's clock.
        since_ms: u64,
    },
    /// The lock was revoked; its key stays until the lease of the former holder has ended.
    Revoked,
    /// Something that no redleash client wrote; the fingerprint of the value.
    Foreign(String),
}

/// The prefix of the value that a forced release leaves.
pub const REVOKED: &str = "revoked|";

impl Holder {
    /// Reads a stored value.
    pub fn parse(value: &[u8]) -> Holder {
        Self::parse_owner(value).unwrap_or_else(|| {
            if value.starts_with(REVOKED.as_bytes()) { Holder::Revoked } else { Holder::Foreign(fingerprint(value)) }
        })
    }

    fn parse_owner(value: &[u8]) -> Option<Holder> {
        let text = std::str::from_utf8(value).ok()?;
        let (token, rest) = text.split_once('|')?;
        let (_index, rest) = rest.split_once('|')?;
        let (label, since) = rest.rsplit_once('|')?;
        let token = Token::from_hex(token)?;
        Some(Holder::Owner { label: label.into(), fingerprint: token.fingerprint(), since_ms: since.parse().ok()? })
    }
}
