//! Real redis-servers for tests: on free loopback ports, with nothing on disk, stopped when they are dropped.
//!
//! A lock client is only as good as what it does when its masters fail, and a mock of a master shows what its author
//! thought of. With these servers a test kills a master, stops it as a hung one, flushes it or brings it back, and sees
//! what its own code does.
//!
//! ```
//! use redleash::Client;
//! use redleash_testkit::{Masters, skipped};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! if skipped() {
//!     return Ok(()); // no redis-server on this machine: `skipped` has said so on stderr
//! }
//! let masters = Masters::start(3)?;
//! let client = Client::builder().nodes(masters.urls()).build()?;
//! client.init()?;
//!
//! let guard = client.lock("orders/42").acquire()?;
//! masters[0].kill();
//! guard.verify()?; // the other two vouch for it
//! # Ok(())
//! # }
//! ```
//!
//! The servers end with their owner: when it is dropped, also by a panic, and when its process is killed, because a
//! small shell beside each server waits for that. Only processes that were started here are ever killed, by their
//! process id.
//!
//! [`Proxy`] stands between a client and a master and spoils what passes: silence, cuts, nonsense, delays.
//!
//! Unix only.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "the kit waits for other processes, not for the library's clock")]

mod masters;
mod proxy;
mod reply;
mod scratch;
mod server;

pub use masters::Masters;
pub use proxy::{Fault, Proxy};
pub use reply::Reply;
pub use scratch::Scratch;
pub use server::{Server, free_port};

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Whether redis-server can be started on this machine.
#[must_use]
pub fn available() -> bool {
    let version = Command::new("redis-server").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// `true` if there is no redis-server: the test returns. Says so on stderr past the capture of the test harness, so
/// that a test that could not run does not look like one that passed.
#[must_use]
pub fn skipped() -> bool {
    let skip = !available();
    if skip {
        let _ = writeln!(io::stderr(), "SKIPPED: redis-server is not installed");
    }
    skip
}

/// Looks at `state` every two milliseconds until it holds; `false` if it does not within `limit`.
pub fn wait_until(limit: Duration, mut state: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        if state() {
            return true;
        }
        if start.elapsed() >= limit {
            return false;
        }
        thread::sleep(Duration::from_millis(2));
    }
}
