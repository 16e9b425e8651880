//! A synchronous, blocking distributed-lock client: Redlock over N independent Redis masters, a lease watchdog per held
//! lock, RAII guards, no async runtime.
//!
//! # What this is not
//!
//! A lock with a lease is not a mutex. Its holder has it until a deadline, and no lock stops a process that is paused
//! beyond that deadline and then works on. [`LockGuard::check`] says without I/O whether the lease is still held, and a
//! [fencing token](LockGuard::fencing_token) lets the resource itself refuse a late writer. [`Client::guarantees`] says
//! in words what a configuration protects against, and what not.
//!
//! # Use
//!
//! ```no_run
//! # fn main() -> Result<(), redleash::Error> {
//! let client = redleash::Client::builder()
//!     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
//!     .build()?;
//! let guard = client.lock("orders/42").acquire()?; // renewed until it is dropped
//! guard.check()?;                                  // still ours?
//! # Ok(())
//! # }
//! ```
//!
//! [`Client::from_env`] builds a client from the variables that the program `redleash` reads, see [`env`](mod@env).
//!
//! New masters cast no votes for a little more than `max_lease`, unless [`Client::init`] settles them.
//!
//! # Features
//!
//! - `serde`, off by default: `Serialize` for [`Status`], [`MasterStatus`], [`Holder`], [`Stats`] and [`Guarantees`];
//!   `Serialize` and `Deserialize` for [`Options`] and what it contains; `Deserialize` alone for [`ClientBuilder`],
//!   whose URLs may have passwords in them. Durations of settings are text such as `90s` or `1m30s`; those of reports
//!   are numbers, with the unit in the field's name.
//!
//! # Logs
//!
//! Through the `log` crate, one line per change of state:
//!
//! - `error`: a lock was lost; a callback panicked.
//! - `warn`: a lock is in jeopardy, because a renewal failed; a master is down, hangs, or is in quarantine; a setting
//!   costs safety.
//! - `info`: a lock in jeopardy is renewed again; a master is back, or votes again after its quarantine.
//! - `debug`: everything in between, such as further failures of the same renewal or connection.
//! - `trace`: every round that was not granted, every renewal.
//!
//! Passwords and tokens appear at no level.
//!
//! One thread of the process, `redleash-log`, calls the logger, so that a logger that blocks or panics delays no
//! renewal and no announcement of a loss. A line is logged a moment after what it reports. Up to 2 048 lines wait for a
//! slow logger, half of them for warnings and errors alone; the number of those that were left out is logged later.
//! [`Client::close`] and the drop of the last clone of a client wait up to 250 ms for the logger; a process that exits
//! in another way can lose the last lines.
//!
//! # Forks
//!
//! In a forked child every guard of the parent is lost, releases nothing, and the client refuses to work: build a new
//! one.

#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(missing_debug_implementations)]

#[cfg(not(unix))]
compile_error!("redleash runs on Unix only: it polls file descriptors");

mod builder;
mod client;
mod detached;
mod duration;
mod engine;
pub mod env;
mod guarantees;
mod guard;
mod holder;
mod lock;
mod options;
mod reentrant;
#[cfg(feature = "serde")]
mod serialize;
mod stats;
mod status;
mod sys;
#[cfg(feature = "unversioned")]
#[doc(hidden)]
pub mod unversioned;
mod wire;

pub(crate) use redleash_protocol as protocol;

pub use builder::{ClientBuilder, WatchdogMode};
pub use client::{Client, CloseReport, InitReport};
pub use crossbeam_channel;
pub use detached::DetachedLease;
pub use engine::error::{
    ConfigError, Error, Lost, MasterAnswer, MasterReport, ReleaseOutcome, Tally, Unconfirmed, Undelivered,
};
pub use guarantees::Guarantees;
pub use guard::LockGuard;
pub use holder::Holder;
pub use lock::Lock;
pub use options::{Lease, MIN_TTL, Options, Retry};
#[doc(inline)]
pub use redleash_protocol::{LeaseState, LossReason};
pub use reentrant::{ReentrantGuard, ReentrantLock};
pub use stats::{ConnectionStats, Stats};
pub use status::{MasterStatus, Revoked, Status};

/// The compiler warns of what is lost at once if nobody keeps it.
///
/// ```
/// #![deny(unused_must_use)]
/// fn work(client: &redleash::Client) -> Result<(), redleash::Error> {
///     let lock = client.lock("x");
///     let guard = lock.try_acquire_for(std::time::Duration::from_secs(1))?;
///     let _another = client.reentrant_lock("y").options(redleash::Options::new().tries(3)).acquire()?;
///     drop(guard);
///     Ok(())
/// }
/// ```
///
/// A lock that nobody acquires:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn work(client: &redleash::Client) {
///     client.lock("x");
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn work(client: &redleash::Client) {
///     client.reentrant_lock("x");
/// }
/// ```
///
/// A guard that nobody keeps:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn work(client: &redleash::Client) -> Result<(), redleash::Error> {
///     client.lock("x").acquire()?;
///     Ok(())
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn work(client: &redleash::Client) {
///     client.lock("x").try_acquire();
/// }
/// ```
///
/// Options and settings that nobody uses:
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn work(options: redleash::Options) {
///     options.tries(3);
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn work(builder: redleash::ClientBuilder) {
///     builder.node("redis://10.0.0.1");
/// }
/// ```
#[cfg(doctest)]
struct MustUse;

/// The examples of the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
