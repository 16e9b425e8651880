//! The threads of the library under a scheduler that tries thousands of orders of their steps (shuttle).
//!
//! What runs is the code as it ships: the files of `src/wire` and `src/engine` that threads meet in are included here,
//! and find in `sys` mutexes, atomics, channels, threads and a clock that the scheduler controls. Stand-ins are the
//! socket with its server (`wire/conn.rs`, `wire/poll.rs`) and the engine that holds the parts together
//! (`engine/root.rs`). A lost wake-up is a deadlock, which shuttle reports with the schedule that leads there.
//!
//! Optimised, each model runs through 10 000 schedules; else through 200. One file per piece: a new one is named below.
#![allow(dead_code, unused_imports, unreachable_pub, reason = "the included files are used in part")]
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic and start plain threads")]

mod engine;
mod sys;
mod wire;
mod world;

use redleash_protocol as protocol;

mod caretaker;
mod gate;
mod handover;
mod queue;
mod signal;
mod timer;
mod watchdogs;
