//! Who holds a lock.

use crate::protocol::{MasterView, owner};
use std::fmt;

/// Who holds a lock, as one master sees it, or as a quorum of masters agrees.
///
/// `Display` shows it in a few words. A label comes from the masters, where any client can write: `Display` escapes the
/// control characters in it, and those that change the direction of writing; the field has it as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Holder {
    /// Nobody: the key is absent.
    Nobody,
    /// An owner, which acquired the lock through a redleash client.
    #[non_exhaustive]
    Owner {
        /// What the owner says of itself: [`Options::label`](crate::Options::label), by default host and process id.
        label: String,
        /// When the owner began its attempt, in milliseconds since 1970, by the owner's clock.
        since_ms: u64,
        /// Eight hexadecimal digits of the hash of the owner's token: equal for two masters if the attempt is the same.
        fingerprint: String,
    },
    /// Nobody any more: the lock was taken away by force, and is free when the lease of its former owner has ended.
    Revoked,
    /// A value that no redleash client wrote.
    #[non_exhaustive]
    Foreign {
        /// Eight hexadecimal digits of the hash of the value, which may be a secret.
        fingerprint: String,
    },
    /// The key is of another type than a lock's.
    #[non_exhaustive]
    WrongType {
        /// The type as Redis names it, such as `list`.
        kind: String,
    },
}

impl Holder {
    pub(crate) fn of(view: &MasterView) -> Holder {
        match (&view.holder, &view.foreign_type) {
            (Some(owner::Holder::Owner { label, fingerprint, since_ms }), _) => {
                Holder::Owner { label: label.clone(), since_ms: *since_ms, fingerprint: fingerprint.clone() }
            }
            (Some(owner::Holder::Revoked), _) => Holder::Revoked,
            (Some(owner::Holder::Foreign(hash)), _) => Holder::Foreign { fingerprint: hash.clone() },
            (None, Some(kind)) => Holder::WrongType { kind: kind.clone() },
            (None, None) => Holder::Nobody,
        }
    }

    /// The owner's label; `None` for all but an [`Owner`](Holder::Owner).
    pub fn label(&self) -> Option<&str> {
        if let Holder::Owner { label, .. } = self { Some(label) } else { None }
    }

    /// The fingerprint of the owner's token or of a foreign value; `None` where there is neither.
    pub fn fingerprint(&self) -> Option<&str> {
        match self {
            Holder::Owner { fingerprint, .. } | Holder::Foreign { fingerprint } => Some(fingerprint),
            _ => None,
        }
    }

    /// When the owner began its attempt, in milliseconds since 1970 by its clock; `None` for all but an
    /// [`Owner`](Holder::Owner).
    pub fn since_ms(&self) -> Option<u64> {
        if let Holder::Owner { since_ms, .. } = self { Some(*since_ms) } else { None }
    }
}

/// Text from a master, with what would act on the reader's terminal escaped.
fn escaped(label: &str) -> String {
    let harmful = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut text = String::with_capacity(label.len());
    for c in label.chars() {
        if harmful(c) { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Nobody => f.write_str("nobody"),
            Holder::Owner { label, .. } => f.write_str(&escaped(label)),
            Holder::Revoked => f.write_str("(revoked)"),
            Holder::Foreign { .. } => f.write_str("(not redleash)"),
            Holder::WrongType { kind } => write!(f, "(a {}, not a lock)", escaped(kind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Holder;

    #[test]
    fn labels_are_shown_escaped() {
        let label = "Zoë\x1b[2J\n\u{9b}m\u{202e}".to_string();
        let holder = Holder::Owner { label: label.clone(), since_ms: 1, fingerprint: "00ff00ff".into() };
        assert_eq!(holder.to_string(), "Zoë\\u{1b}[2J\\n\\u{9b}m\\u{202e}");
        assert_eq!(holder.label(), Some(label.as_str()));
    }

    #[test]
    fn a_label_that_looks_like_a_revoked_lock_is_an_owner() {
        let holder = Holder::Owner { label: "(revoked)".into(), since_ms: 1, fingerprint: "00ff00ff".into() };
        assert_ne!(holder, Holder::Revoked);
        assert_eq!((Holder::Revoked.label(), holder.label()), (None, Some("(revoked)")));
    }
}
