//! Threads and loops that carry out what `protocol` decides, over the lanes of `wire`.

pub(crate) mod acquire;
pub(crate) mod care;
pub(crate) mod chores;
pub(crate) mod connect;
pub(crate) mod core;
pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod gate;
pub(crate) mod held;
pub(crate) mod listener;
pub(crate) mod query;
pub(crate) mod queue;
pub(crate) mod reaper;
pub(crate) mod report;
pub(crate) mod rounds;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod signal;
pub(crate) mod timer;
pub(crate) mod waiting;
pub(crate) mod watchdog;
