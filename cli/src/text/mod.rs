//! What redleash says, and how.

pub(crate) mod duration;
pub(crate) mod holder;
pub(crate) mod messages;
pub(crate) mod progress;
pub(crate) mod say;
