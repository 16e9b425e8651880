//! The faults, as data: where each is put, what stands there, what is written instead, and who must find it.
//!
//! To add one, add an entry to the file of its layer. The right text stands exactly once in its file; a test of this
//! module says which entries no longer apply. Then run `verify planted --only NAME`.

mod engine;
mod protocol;
mod scripts;
mod wire;

/// One fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name, for `--only` and for the report.
    pub name: &'static str,
    /// What is wrong, in a few words.
    pub what: &'static str,
    /// The file, below the root of the workspace.
    pub file: &'static str,
    /// The right text, which stands exactly once in the file, and the wrong text that replaces it. Most faults need one
    /// edit.
    pub edits: &'static [(&'static str, &'static str)],
    /// Who finds it.
    pub found_by: Finder,
}

/// Who finds a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finder {
    /// The simulation.
    Simulation,
    /// A test of the library: its binary below `tests`, and its name in there.
    Test(&'static str, &'static str),
}

impl Fault {
    /// The text of the fault's file with the fault in it, or why the fault does not apply to this text.
    pub fn plant(&self, text: &str) -> Result<String, String> {
        let mut planted = text.to_string();
        for (right, wrong) in self.edits {
            let times = planted.matches(right).count();
            let why = match times {
                1 if right != wrong => {
                    planted = planted.replacen(right, wrong, 1);
                    continue;
                }
                1 => "its right text is its wrong text".to_string(),
                _ => format!("its right text stands there {times} times instead of once"),
            };
            return Err(format!("the planted fault {} no longer applies to {}: {why}:\n{right}", self.name, self.file));
        }
        Ok(planted)
    }
}

/// All of them; those of one file stand together, so that little is built again between one and the next.
pub fn all() -> impl Iterator<Item = &'static Fault> {
    [engine::FAULTS, wire::FAULTS, scripts::FAULTS, protocol::FAULTS].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    #[test]
    fn every_fault_applies_to_its_file() {
        let plant = |fault: &Fault| {
            let text = fs::read_to_string(root().join(fault.file));
            let text = text.map_err(|e| format!("the planted fault {} needs {}: {e}", fault.name, fault.file))?;
            fault.plant(&text)
        };
        let wrong: Vec<String> = all().filter_map(|fault| plant(fault).err()).collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(all().count() > 40 && all().all(|fault| !fault.edits.is_empty()));
    }

    #[test]
    fn a_fault_whose_text_is_not_there_once_does_not_apply() {
        let fault = |edits| Fault { name: "x", what: "", file: "f.rs", edits, found_by: Finder::Simulation };
        assert_eq!(fault(&[("b", "c")]).plant("abd").unwrap(), "acd");
        assert_eq!(fault(&[("a", "c"), ("d", "")]).plant("abd").unwrap(), "cb");
        for (edits, text) in [(&[("b", "c")], "ad"), (&[("b", "c")], "bab"), (&[("b", "b")], "b")] {
            let why = fault(edits).plant(text).unwrap_err();
            assert!(why.contains("fault x ") && why.contains("f.rs"), "{why}");
        }
    }

    #[test]
    fn no_name_stands_twice() {
        let names: BTreeSet<&str> = all().map(|fault| fault.name).collect();
        assert_eq!(names.len(), all().count());
    }

    fn texts(below: &Path, found: &mut String) {
        if below.is_dir() {
            fs::read_dir(below).unwrap().for_each(|entry| texts(&entry.unwrap().path(), found));
        } else {
            found.push_str(&fs::read_to_string(below).unwrap_or_default());
        }
    }

    #[test]
    fn every_test_that_finds_a_fault_is_there() {
        for fault in all() {
            let Finder::Test(file, test) = fault.found_by else { continue };
            let mut text = String::new();
            let single = root().join(format!("tests/{file}.rs"));
            texts(&if single.exists() { single } else { root().join("tests").join(file) }, &mut text);
            let name = test.rsplit("::").next().unwrap_or(test);
            assert!(text.contains(&format!("fn {name}(")), "{}: tests/{file} has no test {test}", fault.name);
        }
    }
}
