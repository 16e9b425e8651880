//! The proof of redleash: programs that anyone can run.
#![forbid(unsafe_code)]

pub mod fidelity;
pub mod models;
pub mod nemesis;
pub mod peers;
pub mod planted;
pub mod scale;
pub mod sim;

/// The result of a program: one plain line, and whether everything held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether everything held.
    pub held: bool,
    /// The line.
    pub line: String,
}

impl Verdict {
    /// Everything held.
    pub fn held(line: impl Into<String>) -> Verdict {
        Verdict { held: true, line: line.into() }
    }

    /// Something did not hold.
    pub fn failed(line: impl Into<String>) -> Verdict {
        Verdict { held: false, line: line.into() }
    }
}
