//! Directories that go with their owner.

use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of its own that is removed with its owner, however the owner ends: dropped, by a panic, or killed.
pub struct Scratch {
    path: PathBuf,
    keeper: Child,
}

/// A shell that outlives an owner that was killed: when the pipe from it closes, it kills the process that was named
/// last and removes the directory.
const KEEPER: &str = r#"pid=0
while read -r next; do pid=$next; done
[ "$pid" = 0 ] || kill -9 "$pid"
rm -rf "$1""#;

impl Scratch {
    /// Makes one below the system's directory for temporary files.
    ///
    /// # Errors
    ///
    /// If the directory cannot be made, or the shell beside it cannot be started.
    pub fn new() -> io::Result<Scratch> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("redleash-{}-{count}", std::process::id()));
        fs::create_dir(&path)?;
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&path)
            .process_group(0) // Ctrl-C is not for the keeper
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .inspect_err(|_| drop(fs::remove_dir_all(&path)))?;
        Ok(Scratch { path, keeper })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Names the process that must not outlive the owner; 0 for none.
    pub(crate) fn keep(&mut self, pid: u32) -> io::Result<()> {
        match &mut self.keeper.stdin {
            Some(pipe) => writeln!(pipe, "{pid}"),
            None => Ok(()),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
