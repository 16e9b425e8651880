//! What a person sees of the demonstration.

use redleash_verify::scale::plot::number;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Of the text of a line.
const WIDTH: usize = 100;

/// One line per event, with the time since the beginning.
pub(crate) struct Screen {
    start: Instant,
    open: bool,
}

impl Screen {
    pub(crate) fn new() -> Screen {
        Screen { start: Instant::now(), open: false }
    }

    fn begin(&mut self, label: &str) {
        if std::mem::take(&mut self.open) {
            println!();
        }
        print!("{:7.2} s  {label:<8}", self.start.elapsed().as_secs_f64());
    }

    pub(crate) fn line(&mut self, label: &str, text: &str) {
        self.begin(label);
        println!("{text}");
    }

    pub(crate) fn block(&mut self, label: &str, text: &str) {
        for (i, line) in text.lines().enumerate() {
            self.line(if i == 0 { label } else { "" }, line);
        }
    }

    /// A long sentence.
    pub(crate) fn wrapped(&mut self, label: &str, text: &str) {
        let mut lines = vec![String::new()];
        for word in text.split_whitespace() {
            match lines.last_mut() {
                Some(line) if line.is_empty() || line.len() + word.len() < WIDTH => {
                    *line += if line.is_empty() { "" } else { " " };
                    *line += word;
                }
                _ => lines.push(format!("  {word}")),
            }
        }
        self.block(label, &lines.join("\n"));
    }

    /// The line is left open: what the update wrote comes on the same line.
    pub(crate) fn holds(&mut self, who: &str, token: u64, lease: Duration) {
        self.begin("lock");
        print!("held by {who}  token {token}  lease {:.1} s", lease.as_secs_f64());
        self.open = true;
        let _ = io::stdout().flush();
    }

    pub(crate) fn wrote(&mut self, added: u64, sum: u64, words: &str) {
        let text = format!("+{added} words, ledger {} of {}", group(sum), words);
        if std::mem::take(&mut self.open) {
            println!("  {text}");
        } else {
            self.line("", &text);
        }
    }
}

/// `20 000`.
pub(crate) fn group(count: u64) -> String {
    number(count as f64)
}
