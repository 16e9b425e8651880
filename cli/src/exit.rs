//! Exit codes: the command's own, or one of these.

use redleash::Error;

/// The command line is wrong.
pub(crate) const USAGE: u8 = 64;
/// Too few masters answered to decide.
pub(crate) const NO_QUORUM: u8 = 69;
/// A mistake in this program.
pub(crate) const SOFTWARE: u8 = 70;
/// The operating system refused something.
pub(crate) const SYSTEM: u8 = 71;
/// Another client holds the lock, or the waiting time is over; `-E` chooses another code.
pub(crate) const BUSY: u8 = 75;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 76;
/// A setting or the deployment is wrong.
pub(crate) const CONFIG: u8 = 78;
/// The command was found and cannot be executed.
pub(crate) const CANNOT_EXECUTE: u8 = 126;
/// There is no such command.
pub(crate) const NOT_FOUND: u8 = 127;

/// The code for a command that a signal ended: 128 and its number, as in shells.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The code for an error of the library.
pub(crate) fn code(error: &Error) -> u8 {
    match error {
        Error::NoQuorum(_) | Error::TooSlow { .. } | Error::Quarantined { .. } => NO_QUORUM,
        Error::Lost(_) => LOST,
        Error::Config(e) if e.field == "name" => USAGE,
        Error::Config(_) | Error::DeploymentMismatch { .. } | Error::Conflict { .. } | Error::NotBlank(_) => CONFIG,
        Error::System(_) => SYSTEM,
        _ => SOFTWARE,
    }
}

/// Why redleash ends without the command's code: one sentence, and the code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(code: u8, sentence: impl Into<String>) -> Failure {
        Failure { code, sentence: sentence.into() }
    }

    /// An error of the library about the lock `name`.
    pub(crate) fn of(name: &str, error: &Error) -> Failure {
        let code = code(error);
        let next = match error {
            Error::NoQuorum(_) => "; nothing was started: look at these masters, then run it again",
            _ => "",
        };
        let sentence = match error {
            // These name the lock themselves.
            Error::Lost(_) | Error::Conflict { .. } => error.to_string(),
            _ => format!("lock {name:?}: {error}{next}"),
        };
        Failure { code, sentence }
    }
}
