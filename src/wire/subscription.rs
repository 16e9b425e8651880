//! One subscription connection: what is to be sent, and the messages that come.

use super::Pooled;
use super::conn::Conn;
use super::reply::{Replies, Stop};
use redis::{Value, cmd};
use std::io;
use std::sync::Arc;

/// What comes in on a subscription connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PubSubEvent {
    /// The channel is subscribed to.
    Subscribed(String),
    /// A channel is not subscribed to any more; how many are left.
    Unsubscribed(i64),
    /// The waiter with this number is notified on a channel.
    Notified(String, u64),
    /// The server does not let this user subscribe.
    Forbidden,
}

/// A subscription connection to one master. It goes back to its pool only by [`give_back`](Subscription::give_back).
pub(crate) struct Subscription {
    pooled: Pooled,
    replies: Replies,
    outgoing: Vec<u8>,
    /// How many confirmations are owed.
    owed: usize,
    /// How many channels are subscribed to, by the last confirmation.
    channels: i64,
    /// It is broken off, unless it was given back.
    ends: bool,
}

impl Subscription {
    pub(crate) fn new(pooled: Pooled) -> Subscription {
        Subscription { pooled, replies: Replies::new(), outgoing: Vec::new(), owed: 0, channels: 0, ends: true }
    }

    /// The connection, to poll it.
    pub(crate) fn conn(&self) -> &Arc<Conn> {
        &self.pooled
    }

    /// Queues a subscription, or the end of one.
    pub(crate) fn request(&mut self, channel: &str, subscribe: bool) {
        let verb = if subscribe { "SUBSCRIBE" } else { "UNSUBSCRIBE" };
        self.owed += 1;
        cmd(verb).arg(channel).write_packed_command(&mut self.outgoing);
    }

    /// Whether the socket has not taken everything yet.
    pub(crate) fn has_backlog(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether it may be used for something else: it is subscribed to nothing, and everything has been answered.
    pub(crate) fn is_quiet(&self) -> bool {
        self.owed == 0 && self.channels == 0 && self.outgoing.is_empty() && self.replies.is_done()
    }

    /// Gives a quiet connection back to its pool.
    pub(crate) fn give_back(mut self) {
        self.ends = !self.is_quiet();
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.pooled.send(&self.outgoing) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => drop(self.outgoing.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Reads what has come, at most a few buffers full, so that a flood on one connection does not silence the others.
    pub(crate) fn read(&mut self, buffer: &mut [u8], mut on_event: impl FnMut(PubSubEvent)) -> io::Result<()> {
        for _ in 0..4 {
            let n = match self.pooled.receive(buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let (owed, channels) = (&mut self.owed, &mut self.channels);
            let mut confirmed = |left: i64| {
                // A confirmation that is not owed ends the connection.
                *channels = left;
                owed.checked_sub(1).map(|left| *owed = left).is_some()
            };
            let stop = self.replies.feed(&buffer[..n], |value| match event(value) {
                Ok(Some(PubSubEvent::Unsubscribed(left))) => confirmed(left),
                Ok(Some(event @ PubSubEvent::Subscribed(_))) => {
                    on_event(event);
                    confirmed(1)
                }
                Ok(event) => {
                    event.into_iter().for_each(&mut on_event);
                    true
                }
                Err(()) => false,
            });
            if let Stop::Nonsense = stop {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if n < buffer.len() {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.ends {
            self.pooled.break_off();
        }
    }
}

/// What a reply on a subscription connection says; `Err` if it makes no sense there.
fn event(value: Value) -> Result<Option<PubSubEvent>, ()> {
    let items = match value {
        Value::Array(items) => items,
        Value::ServerError(_) => return Ok(Some(PubSubEvent::Forbidden)),
        _ => return Err(()),
    };
    let text = |v: &Value| match v {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    };
    let [kind, channel, payload] = items.as_slice() else { return Err(()) };
    match (text(kind).as_deref(), text(channel), payload) {
        (Some("subscribe"), Some(channel), _) => Ok(Some(PubSubEvent::Subscribed(channel))),
        (Some("unsubscribe"), _, Value::Int(left)) => Ok(Some(PubSubEvent::Unsubscribed(*left))),
        // Whatever the payload is: it is a hint.
        (Some("message"), Some(channel), payload) => {
            let waiter = text(payload).and_then(|payload| payload.parse().ok());
            Ok(waiter.map(|waiter| PubSubEvent::Notified(channel, waiter)))
        }
        _ => Err(()),
    }
}
