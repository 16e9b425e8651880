//! A histogram in text.

use super::spread::Spread;
use rustix::termios::isatty;
use std::io;

const ROWS: usize = 16;
const WIDTH: usize = 40;
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// What bars are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Blocks,
    Ascii,
}

impl Ink {
    /// Blocks on a terminal that says that it shows UTF-8.
    pub(crate) fn of_stdout() -> Ink {
        // The first of them that is set and not empty is in force.
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
        let utf8 = locale.contains("utf-8") || locale.contains("utf8");
        if utf8 && isatty(io::stdout()) { Ink::Blocks } else { Ink::Ascii }
    }

    /// A bar that takes this share of the width, and is never empty.
    fn bar(self, share: f64) -> String {
        let eighths = ((share * (WIDTH * 8) as f64).round() as usize).max(1);
        match self {
            Ink::Ascii if eighths < 8 => ".".into(),
            Ink::Ascii => "#".repeat(eighths / 8),
            Ink::Blocks => {
                let rest = Some(EIGHTHS[eighths % 8]).filter(|part| *part != ' ');
                "█".repeat(eighths / 8).chars().chain(rest).collect()
            }
        }
    }
}

/// One line per bin; none if nothing was counted.
pub(crate) fn bars(spread: &Spread, ink: Ink) -> Vec<String> {
    let bins = spread.bins(ROWS);
    let most = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    let ms = |nanos: u64| nanos as f64 / 1e6;
    let line = |bin: &super::spread::Bin| {
        let head = format!("{:>10.4} to {:>10.4} ms", ms(bin.from), ms(bin.to));
        if bin.count == 0 {
            return head;
        }
        let percent = bin.count as f64 * 100.0 / spread.count() as f64;
        format!("{head}  {} {percent:.1} %", ink.bar(bin.count as f64 / most as f64))
    };
    bins.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Ink, Spread, WIDTH, bars};
    use std::time::Duration;

    #[test]
    fn bars_are_as_long_as_their_share() {
        let mut spread = Spread::default();
        (0..900).for_each(|_| spread.record(Duration::from_micros(100)));
        (0..450).for_each(|_| spread.record(Duration::from_micros(200)));
        spread.record(Duration::from_micros(400));
        let lines = bars(&spread, Ink::Ascii);
        assert!(lines[0].contains(&format!("  {} 66.", "#".repeat(WIDTH))), "{lines:?}");
        assert!(lines.iter().any(|l| l.contains(&format!("  {} 33.", "#".repeat(WIDTH / 2)))), "{lines:?}");
        assert!(lines.last().unwrap().ends_with("  . 0.1 %"), "{lines:?}");
        assert!(lines.iter().all(|l| l.is_ascii()));
        let blocks = bars(&spread, Ink::Blocks);
        assert!(blocks[0].contains(&"█".repeat(WIDTH)) && blocks.last().unwrap().contains('▏'), "{blocks:?}");
        assert!(bars(&Spread::default(), Ink::Blocks).is_empty());
    }
}
