//! Bytes: connections to the masters, and the lanes on which rounds travel. No decisions: those are in `protocol`.
//!
//! ```text
//!   callers ──submit──▶ inbox ──▶ writer (one of the callers) ──▶ one write per master ──▶ masters
//!      ▲                                                                                    │
//!      └── woken when decided ◀── answers ◀── FIFO per connection ◀── leader polls for all ◀┘
//! ```

pub(crate) mod address;
pub(crate) mod conn;
pub(crate) mod conversation;
pub(crate) mod decode;
mod dial;
pub(crate) mod encode;
mod handshake;
pub(crate) mod lane;
pub(crate) mod leader;
pub(crate) mod link;
pub(crate) mod master;
pub(crate) mod packed;
mod poll;
pub(crate) mod pool;
pub(crate) mod poolstats;
mod reader;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod scripts;
mod sources;
pub(crate) mod subscription;

/// A connection checked out of its master's pool.
pub(crate) type Pooled = r2d2::PooledConnection<pool::Parked>;
