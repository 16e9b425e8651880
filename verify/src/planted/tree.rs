//! A copy of the workspace's sources, in which faults are planted.

use super::faults::Fault;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What stands at the root and is not needed to build.
const LEFT_OUT: &[&str] = &["target", "bench", "peers", "fuzz"];

/// The copy.
#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

/// A file of the copy with a fault in it.
#[derive(Debug)]
#[must_use = "take it out again"]
pub(super) struct Planted {
    path: PathBuf,
    right: String,
}

impl Planted {
    /// Takes the fault out again.
    pub(super) fn take_out(self) -> io::Result<()> {
        fs::write(self.path, self.right)
    }
}

impl Tree {
    /// Makes `root` a copy of the sources at `from`. A file that has not changed is not written, so that it is not
    /// built again.
    pub(super) fn copy(from: &Path, root: PathBuf) -> io::Result<Tree> {
        copy(from, &root, &|name| LEFT_OUT.iter().any(|left_out| *left_out == name))?;
        Ok(Tree { root })
    }

    /// Where it is.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Plants a fault.
    pub(super) fn plant(&self, fault: &Fault) -> io::Result<Planted> {
        let path = self.root.join(fault.file);
        let right = fs::read_to_string(&path)?;
        fs::write(&path, fault.plant(&right).map_err(io::Error::other)?)?;
        Ok(Planted { path, right })
    }
}

fn copy(from: &Path, to: &Path, is_left_out: &dyn Fn(&OsStr) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        if is_left_out(&name) || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let (source, copied) = (from.join(&name), to.join(&name));
        if source.is_dir() {
            copy(&source, &copied, &|_| false)?;
        } else {
            let text = fs::read(&source)?;
            if fs::read(&copied).ok().as_ref() != Some(&text) {
                fs::write(&copied, text)?;
            }
        }
        names.insert(name);
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        if !names.contains(&entry.file_name()) {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::faults::Finder;
    use super::*;

    const FAULT: Fault =
        Fault { name: "x", what: "", file: "src/a.rs", edits: &[("right", "wrong")], found_by: Finder::Simulation };

    #[test]
    fn a_fault_is_planted_in_the_copy_alone_and_what_has_not_changed_is_not_written() {
        let place = std::env::temp_dir().join(format!("redleash-planted-{}", std::process::id()));
        let (from, to) = (place.join("from"), place.join("to"));
        for (file, text) in [("src/a.rs", "right"), ("src/b.rs", "b"), ("target/c", "c"), (".git/d", "d")] {
            fs::create_dir_all(from.join(file).parent().unwrap()).unwrap();
            fs::write(from.join(file), text).unwrap();
        }
        let read = |file: &str| fs::read_to_string(to.join(file)).ok();
        let written = || fs::metadata(to.join("src/b.rs")).unwrap().modified().unwrap();
        let tree = Tree::copy(&from, to.clone()).unwrap();
        assert_eq!((read("src/b.rs").as_deref(), read("target/c"), read(".git/d")), (Some("b"), None, None));
        let first = written();

        let planted = tree.plant(&FAULT).unwrap();
        assert_eq!(read("src/a.rs").as_deref(), Some("wrong"));
        assert_eq!(fs::read_to_string(from.join("src/a.rs")).unwrap(), "right");
        planted.take_out().unwrap();
        assert_eq!(read("src/a.rs").as_deref(), Some("right"));

        // As an interrupted run leaves it.
        let _ = tree.plant(&FAULT).unwrap();
        fs::write(to.join("src/old.rs"), "").unwrap();
        Tree::copy(&from, to.clone()).unwrap();
        assert_eq!((read("src/a.rs").as_deref(), read("src/old.rs")), (Some("right"), None));
        assert_eq!(written(), first);
        fs::remove_dir_all(place).unwrap();
    }
}
