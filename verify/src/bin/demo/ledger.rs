//! The file that all workers write: how often each word was seen, and every update that was written, in order.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::Path;

pub(crate) type Counts = BTreeMap<String, u64>;

#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) counts: Counts,
    pub(crate) updates: Vec<Update>,
}

pub(crate) struct Update {
    pub(crate) token: u64,
    pub(crate) who: String,
}

impl Ledger {
    pub(crate) fn read(path: &Path) -> Result<Ledger, Box<dyn Error>> {
        let mut ledger = Ledger::default();
        for line in fs::read_to_string(path)?.lines() {
            let (kind, rest) = line.split_once('\t').ok_or("a broken line in the ledger")?;
            let (name, number) = rest.split_once('\t').ok_or("a broken line in the ledger")?;
            let (name, number) = (name.to_string(), number.parse()?);
            match kind {
                "update" => ledger.updates.push(Update { token: number, who: name }),
                _ => drop(ledger.counts.insert(name, number)),
            }
        }
        Ok(ledger)
    }

    pub(crate) fn add(&mut self, batch: &Counts, update: Update) {
        for (word, count) in batch {
            *self.counts.entry(word.clone()).or_default() += count;
        }
        self.updates.push(update);
    }

    /// Replaces the whole file by rename, so that no worker reads half of it: only lost updates can go wrong.
    pub(crate) fn write(&self, path: &Path, who: &str) -> Result<(), Box<dyn Error>> {
        let mut text = Vec::new();
        for update in &self.updates {
            writeln!(text, "update\t{}\t{}", update.who, update.token)?;
        }
        for (word, count) in &self.counts {
            writeln!(text, "word\t{word}\t{count}")?;
        }
        let new = path.with_extension(who);
        fs::write(&new, text)?;
        Ok(fs::rename(&new, path)?)
    }

    pub(crate) fn words(&self) -> u64 {
        total(&self.counts)
    }

    /// The newest fencing token that wrote here. An older one must not write any more.
    pub(crate) fn last_token(&self) -> u64 {
        self.updates.last().map_or(0, |update| update.token)
    }
}

pub(crate) fn total(counts: &Counts) -> u64 {
    counts.values().sum()
}

pub(crate) fn count(text: &str) -> Counts {
    let mut counts = Counts::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        *counts.entry(word.to_lowercase()).or_default() += 1;
    }
    counts
}

/// The text in `n` pieces of about as many lines each.
pub(crate) fn batches(text: &str, n: usize) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    (0..n).map(|i| lines[lines.len() * i / n..lines.len() * (i + 1) / n].join("\n")).collect()
}

/// The text files below a directory, in one string, and their number.
pub(crate) fn gather(root: &Path) -> Result<(String, usize), Box<dyn Error>> {
    let (mut text, mut files, mut todo) = (String::new(), 0, vec![root.to_path_buf()]);
    while let Some(folder) = todo.pop() {
        let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let (path, kind) = (entry.path(), entry.file_type()?);
            let name = entry.file_name().to_string_lossy().into_owned();
            let known = [".md", ".rs", ".toml", ".lua"].iter().any(|end| name.ends_with(end));
            if kind.is_dir()
                && !name.starts_with('.')
                && !["target", "node_modules", "results"].contains(&name.as_str())
            {
                todo.push(path);
            } else if kind.is_file() && known {
                text += &fs::read_to_string(path)?;
                text.push('\n');
                files += 1;
            }
        }
    }
    Ok((text, files))
}
