//! Printing. What redleash itself says goes to standard error, so that the standard output of `run` is the command's
//! alone.
//!
//! Nothing here fails if the reader has ended (a broken pipe, a closed terminal), where `eprintln!` would panic.
//!
//! Everything is escaped here, because much of it comes from the masters, where any client can write.

use std::fmt::Write as _;
use std::io::{self, Write};

/// One sentence for the user.
pub(crate) fn sentence(text: &str) {
    let _ = writeln!(io::stderr().lock(), "redleash: {}", shown(text));
}

/// A question, before its answer is read on the same line.
pub(crate) fn question(text: &str) {
    let mut err = io::stderr().lock();
    let _ = write!(err, "redleash: {} ", shown(text)).and_then(|()| err.flush());
}

/// A result of several lines, on standard output; false if nobody reads it.
pub(crate) fn result(text: &str) -> bool {
    print(&escaped(text, |c| c != '\n' && is_harmful(c), rust_escape))
}

/// JSON, escaped as JSON is; false if nobody reads it.
pub(crate) fn json(json: &serde_json::Value) -> bool {
    let text = json.to_string();
    // Outside of strings, JSON has no such characters.
    print(&escaped(&text, is_harmful, |to, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(to, "\\u{unit:04x}");
        }
    }))
}

fn print(text: &str) -> bool {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}

/// The text on one line and harmless on a terminal, with `\u{1b}` for an escape character.
pub(crate) fn shown(text: &str) -> String {
    escaped(text, is_harmful, rust_escape)
}

fn rust_escape(to: &mut String, c: char) {
    to.extend(c.escape_default());
}

fn escaped(text: &str, harmful: impl Fn(char) -> bool, escape: impl Fn(&mut String, char)) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        if harmful(c) { escape(&mut result, c) } else { result.push(c) }
    }
    result
}

/// Characters that move the cursor, end the line, change the colour or the direction of writing, or are invisible.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmful_characters_are_escaped() {
        assert_eq!(shown("a\x1b[2Jb\r\nc\u{9b}d"), "a\\u{1b}[2Jb\\r\\nc\\u{9b}d");
        assert_eq!(shown("\u{202e}gpj\u{2066}\u{200b}"), "\\u{202e}gpj\\u{2066}\\u{200b}");
        assert_eq!(shown("Zoë \"日本\" e\u{301} \\n █"), "Zoë \"日本\" e\u{301} \\n █");
    }
}
