//! All decisions of the lock protocol, without I/O.
//!
//! Nothing here opens a socket, reads a clock, starts a thread or draws a random number: time comes in as [`Mono`],
//! randomness as a `u64`, answers of masters as [`Answer`]. So the same code is enumerated in tests, simulated and run.
//!
//! ```text
//!            start                       answers                  quorum before until?
//!  Acquire ────────▶ Round (N masters) ──────────▶ Judgement ──┬─ yes ─▶ Lease: Held ⇄ Jeopardy ─▶ Lost
//!     ▲                                                        │                 │
//!     └───────────── Step::Park(until) ◀── contended, outage ─┘                 └─▶ Released
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![warn(missing_debug_implementations)]

pub mod acquire;
pub mod attempt;
pub mod command;
pub mod fence;
pub mod generation;
pub mod handover;
pub mod health;
pub mod init;
pub mod layout;
pub mod lease;
pub mod local_queue;
pub mod owner;
pub mod quorum;
pub mod reap;
pub mod retry;
pub mod round;
pub mod time;
pub mod validity;
pub mod wait_list;

pub use acquire::{Acquire, End, Step, Wait};
pub use attempt::Attempt;
pub use command::{Command, Operation};
pub use layout::{Keys, NameError, Namespace};
pub use lease::{Lease, LeaseState, LossReason, Todo};
pub use owner::{Owner, Token};
pub use quorum::Quorum;
pub use round::{Answer, Cause, Judgement, MasterView, Round, Rule};
pub use time::Mono;
pub use validity::Drift;

#[cfg(test)]
mod tests;
