//! What redleash itself says, on standard error, and the child's output stays the child's.
//!
//! Nobody may listen any more (a broken pipe, a terminal that went away): then it is not said. `eprintln!` would panic.

use std::io::{self, Write};

/// One sentence for the user.
pub(crate) fn sentence(text: &str) {
    let _ = writeln!(io::stderr().lock(), "redleash: {text}");
}

/// A result, on standard output; false if nobody reads it.
pub(crate) fn result(text: &str) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}
