//! Names of keys and channels, and which lock names are allowed.

use std::fmt;
use std::sync::Arc;

/// The longest lock name in bytes.
pub const MAX_NAME: usize = 512;
/// The longest namespace in bytes.
pub const MAX_NAMESPACE: usize = 64;

/// The prefix of every key and channel: kinds differ by a letter before the name, so that no name can collide
/// with the key of another kind (`docs/SAFETY.md#key-names`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(Arc<str>);

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty.
    Empty,
    /// The name is longer than the limit; its length and the limit in bytes.
    TooLong(usize, usize),
    /// The name has a brace: `{name}` is the hash tag of the keys.
    Brace,
    /// The name has a control character.
    Control,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NameError::Empty => write!(f, "it is empty; give 1 to {MAX_NAME} bytes"),
            NameError::TooLong(have, limit) => write!(f, "it has {have} bytes; the limit is {limit}"),
            NameError::Brace => write!(f, "it has a brace; '{{' and '}}' are reserved for the hash tag of the keys"),
            NameError::Control => write!(f, "it has a control character"),
        }
    }
}

fn check(text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        Err(NameError::Empty)
    } else if text.len() > limit {
        Err(NameError::TooLong(text.len(), limit))
    } else if text.contains(['{', '}']) {
        Err(NameError::Brace)
    } else if text.chars().any(char::is_control) {
        Err(NameError::Control)
    } else {
        Ok(())
    }
}

impl Namespace {
    /// A namespace of 1 to 64 bytes without braces and control characters.
    pub fn new(text: &str) -> Result<Namespace, NameError> {
        check(text, MAX_NAMESPACE)?;
        Ok(Namespace(text.into()))
    }

    /// The key of the generation on every master.
    pub fn generation(&self) -> String {
        format!("{}:N", self.0)
    }

    /// A key that nothing uses: no lock has an empty name.
    pub fn unused(&self) -> String {
        format!("{}:L:{{}}", self.0)
    }

    /// The pattern of all keys, as an ACL has it.
    pub fn pattern(&self) -> String {
        format!("~{}:*", self.0)
    }

    /// The keys of the lock `name`, or why the name is refused.
    pub fn keys(&self, name: &str) -> Result<Keys, NameError> {
        check(name, MAX_NAME)?;
        let ns = &self.0;
        Ok(Keys {
            lock: format!("{ns}:L:{{{name}}}"),
            fence: format!("{ns}:F:{{{name}}}"),
            revoked: format!("{ns}:R:{{{name}}}"),
            waiters: format!("{ns}:W:{{{name}}}"),
            channel: format!("{ns}:C:{{{name}}}"),
            generation: self.generation(),
            name: name.into(),
        })
    }
}

/// The keys and the channel of one lock name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The name as the user gave it.
    pub name: Arc<str>,
    /// The key that holds the owner's value.
    pub lock: String,
    /// The key of the fencing counter.
    pub fence: String,
    /// The key that keeps the value of a holder whose key was deleted by force, until its lease has ended: what it
    /// sends is refused, and its key is not written again.
    pub revoked: String,
    /// The line of those who wait.
    pub waiters: String,
    /// The beginning of the channels on which a release notifies waiters; each client has its own.
    pub channel: String,
    /// The key of the master's generation.
    pub generation: String,
}
