//! Threads and loops that carry out what `protocol` decides, over the lanes of `wire`.
//!
//! Each file knows only files on the floors below it. What a part causes above it goes through a hook.
//!
//! ```text
//!   acquire, admin                       what a caller asks for
//!   root                                 the parts of a client, the hooks between them, their end
//!   hold, notify                         a guard's part of a lock; waiters in other processes
//!   queue, watchdog                      the local queue; who renews
//!   connect, fence, shared, waiting      connections; fencing tokens; renewals together; one wait
//!   lease, listener, reaper, drain       one lease; news of releases; undelivered releases; unread replies
//!   masters, chores, signal, report      lanes and rounds; what may be late; a loss; the log
//!   rounds, timer, worker, settings, error
//! ```

pub(crate) mod acquire;
pub(crate) mod admin;
pub(crate) mod chores;
pub(crate) mod connect;
pub(crate) mod drain;
pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod hold;
pub(crate) mod lease;
pub(crate) mod listener;
pub(crate) mod masters;
pub(crate) mod notify;
pub(crate) mod queue;
pub(crate) mod reaper;
pub(crate) mod report;
pub(crate) mod root;
pub(crate) mod rounds;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod signal;
pub(crate) mod timer;
pub(crate) mod waiting;
pub(crate) mod watchdog;
pub(crate) mod worker;
