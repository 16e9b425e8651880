//! The result of one sweep: rows, plots, and sentences whose numbers come from the rows.

use super::plot::Plot;
use std::path::Path;
use std::{fs, io};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Sheet {
    /// The name of its files, and of its place in the page.
    pub name: &'static str,
    /// What the columns are, with units.
    pub columns: Vec<&'static str>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
    /// The pictures.
    pub plots: Vec<Plot>,
    /// What follows from the numbers.
    pub says: Vec<String>,
    /// What did not hold.
    pub problems: Vec<String>,
}

impl Sheet {
    /// The rows for other programs.
    pub fn csv(&self) -> String {
        let quoted = |cell: &str| if cell.contains([',', '"']) { format!("{cell:?}") } else { cell.to_string() };
        let head = self.columns.iter().map(|c| quoted(c)).collect::<Vec<_>>().join(",");
        let row = |row: &Vec<String>| row.iter().map(|c| quoted(&c.replace(' ', ""))).collect::<Vec<_>>().join(",");
        std::iter::once(head).chain(self.rows.iter().map(row)).map(|line| line + "\n").collect()
    }

    /// The rows and the sentences for people.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.clone());
        text += &format!("|{}\n", "---:|".repeat(self.columns.len()));
        self.rows.iter().for_each(|row| text += &line(row.iter().map(String::as_str).collect()));
        if !self.says.is_empty() {
            text += "\n";
        }
        self.says.iter().for_each(|says| text += &wrapped("- ", says));
        text
    }

    /// Writes its files into `directory`, and its part of the page beside it, if there is one.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, or the page has no place for it.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        fs::write(directory.join(format!("{}.csv", self.name)), self.csv())?;
        for plot in &self.plots {
            fs::write(directory.join(format!("{}.svg", plot.name)), plot.svg())?;
        }
        refresh(directory, self.name, &self.markdown())
    }
}

/// `text` in lines of at most 118 columns; `first` begins the first of them, and as many spaces the others.
pub fn wrapped(first: &str, text: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_string();
    for word in text.split_whitespace() {
        if line.len() > first.len() && line.chars().count() + 1 + word.chars().count() > 118 {
            lines += &format!("{line}\n");
            line = " ".repeat(first.len());
        } else if line.len() > first.len() {
            line.push(' ');
        }
        line += word;
    }
    lines + &line + "\n"
}

/// Puts `text` between the marks of `name` in PERFORMANCE.md, which is beside `directory`. Does nothing if the page is
/// absent.
///
/// # Errors
///
/// If the page has no such marks.
pub fn refresh(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let page = directory.join("..").join("PERFORMANCE.md");
    match fs::read_to_string(&page) {
        Ok(before) => match replaced(&before, name, text) {
            Some(after) => fs::write(page, after),
            None => Err(io::Error::other(format!("PERFORMANCE.md has no marks for {name}"))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn replaced(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: measured -->\n"), format!("<!-- {name}: end -->"));
    let from = page.find(&begin)? + begin.len();
    let to = from + page[from..].find(&end)?;
    Some(format!("{}{text}{}", &page[..from], &page[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use redleash_testkit::Scratch;

    fn sheet() -> Sheet {
        Sheet {
            name: "x",
            columns: vec!["masters", "locks/s"],
            rows: vec![vec!["1".into(), "20 000".into()]],
            says: vec!["so many".into()],
            ..Sheet::default()
        }
    }

    #[test]
    fn the_page_is_refreshed_between_its_marks() {
        let scratch = Scratch::new().unwrap();
        let directory = scratch.path().join("scale");
        sheet().write(&directory).unwrap();
        assert_eq!(fs::read_to_string(directory.join("x.csv")).unwrap(), "masters,locks/s\n1,20000\n");
        let page = scratch.path().join("PERFORMANCE.md");
        fs::write(&page, "a\n<!-- x: measured -->\nold\n<!-- x: end -->\nb\n").unwrap();
        for _ in 0..2 {
            sheet().write(&directory).unwrap();
            let text = fs::read_to_string(&page).unwrap();
            let table = "| masters | locks/s |\n|---:|---:|\n| 1 | 20 000 |\n\n- so many\n";
            assert_eq!(text, format!("a\n<!-- x: measured -->\n{table}<!-- x: end -->\nb\n"));
        }
        fs::write(&page, "nothing").unwrap();
        assert!(sheet().write(&directory).is_err());
    }

    #[test]
    fn sentences_are_wrapped() {
        assert_eq!(wrapped("- ", "a b"), "- a b\n");
        let long = wrapped("- ", &"word ".repeat(40));
        assert_eq!(long.split_whitespace().count(), 41, "{long}");
        assert!(long.lines().all(|line| line.len() <= 118) && long.contains("\n  word"), "{long}");
    }
}
