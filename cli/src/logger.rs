//! The library's log on standard error, for `-v`.

use crate::text::say;
use log::{LevelFilter, Log, Metadata, Record};

struct Logger;

static LOGGER: Logger = Logger;

/// Installs nothing without `-v`: what a user must know, redleash says itself.
pub(crate) fn install(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => LevelFilter::Info,
        2 => LevelFilter::Debug,
        _ => LevelFilter::Trace,
    };
    if log::set_logger(&LOGGER).is_ok() {
        log::set_max_level(level);
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.target().starts_with("redleash")
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            say::sentence(&record.args().to_string());
        }
    }

    fn flush(&self) {}
}
