//! Bytes: connections to the masters, and the lanes on which rounds travel. No decisions: those are in `protocol`.
//!
//! ```text
//!   callers ──submit──▶ inbox ──▶ writer (whoever is there) ──▶ one write per master ──▶ masters
//!      ▲                                                                                    │
//!      └── woken when decided ◀── answers ◀── FIFO per connection ◀── leader polls for all ◀┘
//! ```

pub(crate) mod conn;
pub(crate) mod conversation;
pub(crate) mod decode;
pub(crate) mod encode;
mod handshake;
pub(crate) mod lane;
pub(crate) mod link;
pub(crate) mod master;
pub(crate) mod op;
pub(crate) mod packed;
mod poll;
pub(crate) mod pool;
mod reader;
pub(crate) mod reply;
pub(crate) mod scripts;
pub(crate) mod seat;
pub(crate) mod topics;

/// A connection checked out of its master's pool.
pub(crate) type Pooled = r2d2::PooledConnection<pool::Threshold>;
