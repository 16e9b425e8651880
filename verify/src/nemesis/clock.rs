//! Wall clocks that step: a preloaded shim for redis-server, compiled with `cc` when it is needed.

use parking_lot::Mutex;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCE: &str = include_str!("clock_shim.c");

/// The compiled shim.
#[derive(Clone, Debug)]
pub struct Shim {
    library: PathBuf,
}

impl Shim {
    /// Compiles it into `dir`.
    ///
    /// # Errors
    ///
    /// If there is no `cc`, or it cannot compile the source. Then no clock can be stepped, and the caller says so.
    pub fn compile(dir: &Path) -> io::Result<Shim> {
        let (source, library) = (dir.join("clock_shim.c"), dir.join("clock_shim.so"));
        fs::write(&source, SOURCE)?;
        let cc = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).args([&library, &source]).output();
        let cc = cc.map_err(|error| io::Error::new(error.kind(), format!("cc, the C compiler: {error}")))?;
        if !cc.status.success() {
            return Err(io::Error::other(format!("cc: {}", String::from_utf8_lossy(&cc.stderr))));
        }
        Ok(Shim { library })
    }

    /// A clock of its own for one process, whose offset lives in `dir` under `name`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn clock(&self, dir: &Path, name: &str) -> io::Result<Clock> {
        let path = dir.join(name);
        fs::write(&path, 0_i64.to_ne_bytes())?;
        let file = File::options().write(true).open(&path)?;
        Ok(Clock { library: self.library.clone(), path, file, offset_us: Mutex::new(0) })
    }
}

/// The wall clock of one process.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    path: PathBuf,
    file: File,
    offset_us: Mutex<i64>,
}

impl Clock {
    /// What the process needs in its environment, for [`Server::start_under`](redleash_testkit::Server::start_under).
    pub fn env(&self) -> [(String, String); 2] {
        let text = |path: &Path| path.display().to_string();
        [("LD_PRELOAD".into(), text(&self.library)), ("CLOCK_SHIM_FILE".into(), text(&self.path))]
    }

    /// Steps the clock from where it is now.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn step(&self, by: Duration, forward: bool) -> io::Result<()> {
        let mut offset = self.offset_us.lock();
        let by = i64::try_from(by.as_micros()).map_err(io::Error::other)?;
        let next = if forward { *offset + by } else { *offset - by };
        self.file.write_all_at(&next.to_ne_bytes(), 0)?;
        *offset = next;
        Ok(())
    }

    /// How far the clock is ahead of the machine's, in microseconds.
    pub fn offset_us(&self) -> i64 {
        *self.offset_us.lock()
    }
}
