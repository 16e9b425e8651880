//! The conversation on one connection: which answers are owed, and what the connection has learnt of its master. No
//! I/O.

use super::decode::{self, Cache, Decoded, Written};
use super::encode::{Encoder, Peer};
use super::request::Request;
use crate::protocol::command::{Form, form};
use crate::protocol::{Answer, Cause, Mono};
use redis::Value;
use std::collections::VecDeque;
use std::sync::Arc;

/// What the next reply belongs to.
#[derive(Debug)]
pub(crate) enum Expect {
    /// Two replies, and the generation that this connection had cached when the pair was queued (without quarantine: if
    /// it had seen one). Kept with the request: a later one must not be compared in its place.
    Pair { settled: Option<Arc<[u8]>>, written: Option<Written> },
    /// The reply of a script sent by its digest (`true`) or in full.
    Script(bool),
}

/// An unanswered request.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) request: Arc<Request>,
    pub(crate) expect: Expect,
    pub(crate) sent: Mono,
}

/// What a reply led to.
pub(crate) enum Replied {
    /// The first half of a pair.
    Half,
    /// An answer to a round.
    Answer(Arc<Request>, Answer),
    /// The server does not know the script; the round wants it sent in full.
    NoScript(Arc<Request>),
    /// No request is unanswered.
    Unasked,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Conversation {
    pub(crate) fifo: VecDeque<Entry>,
    pub(crate) settled: Option<Arc<[u8]>>,
    /// No generation is cached, so that each vote is a script that asks the server for its history: this server has or
    /// had replicas, and may become one of them and a master again, with the data and the generation from before.
    pub(crate) watched: bool,
    /// This user may not run the plain commands.
    restricted: bool,
    /// The master has said that it belongs to another deployment: nothing is written there to find out whether it still
    /// does.
    foreign: bool,
    /// A generation was seen there. From then on it binds this connection, also where the client has no quarantine: a
    /// master where it is absent has forgotten.
    pub(crate) bound: bool,
}

impl Conversation {
    /// Whether everything goes by script.
    pub(crate) fn scripts_only(&self) -> bool {
        self.restricted || self.foreign
    }

    /// When the oldest unanswered request was sent.
    pub(crate) fn oldest(&self) -> Option<Mono> {
        self.fifo.front().map(|e| e.sent)
    }

    /// The connection is given up: its unanswered requests. The next connection inherits nothing: the next server
    /// process may not have this generation settled.
    pub(crate) fn end(&mut self) -> VecDeque<Entry> {
        self.settled = None;
        (self.restricted, self.foreign, self.bound) = (false, false, false);
        std::mem::take(&mut self.fifo)
    }

    /// Matches a reply with the oldest unanswered request to master `i`.
    pub(crate) fn reply(&mut self, i: usize, value: &Value) -> Replied {
        let Some(front) = self.fifo.front_mut() else { return Replied::Unasked };
        if let Expect::Pair { written: written @ None, .. } = &mut front.expect {
            return match decode::written(value) {
                Some(first) => {
                    *written = Some(first);
                    Replied::Half
                }
                None => Replied::Unasked,
            };
        }
        let Some(Entry { request, expect, .. }) = self.fifo.pop_front() else { return Replied::Unasked };
        let decoded = match &expect {
            Expect::Pair { settled, written: Some(w) } => {
                decode::pair(&request.command, i, settled.as_deref(), w, value)
            }
            Expect::Pair { written: None, .. } => Answer::Failed(Cause::Nonsense).into(),
            Expect::Script(true) if decode::is_noscript(value) => return Replied::NoScript(request),
            Expect::Script(_) => decode::script(&request.command.operation, value),
        };
        let Decoded { answer, cache } = decoded;
        // Whatever becomes of the cache: an error drops it, and where the history is watched nothing is cached at all.
        self.bound |= matches!(cache, Cache::Settle(_))
            || matches!(answer, Answer::Quarantined(_))
            || matches!(expect, Expect::Pair { .. }) && decode::has_generation(value);
        match cache {
            Cache::Keep => {}
            Cache::Settle(_) if self.watched => {}
            Cache::Drop => self.settled = None,
            Cache::Settle(generation) => (self.settled, self.foreign) = (Some(generation), false),
            Cache::Absent => (self.settled, self.foreign) = (None, false),
            Cache::Foreign => (self.settled, self.foreign) = (None, true),
            Cache::ScriptsOnly => (self.settled, self.restricted) = (None, true),
        }
        Replied::Answer(request, answer)
    }
}

/// Bytes for one connection that its socket has not taken yet.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) conn_id: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: usize,
    /// The scripts that were sent in full on this connection: the server knows them, unless they are flushed.
    known: u32,
}

impl Outgoing {
    /// Nothing, for connection `conn_id`; the buffer of the former one is used again.
    pub(crate) fn restart(&mut self, conn_id: u64) {
        *self = Outgoing { conn_id, bytes: std::mem::take(&mut self.bytes), at: 0, known: 0 };
        self.bytes.clear();
    }

    /// Appends `request` in the form that this connection calls for; what its reply belongs to, or `None` if it may not
    /// be sent.
    ///
    /// A script goes in full the first time on a connection, so that the release of a process that exits at once does
    /// not depend on an answer that the process would have to read.
    pub(crate) fn append(
        &mut self,
        encoder: &mut Encoder,
        request: &Request,
        peer: &Peer<'_>,
        resent: bool,
    ) -> Option<Expect> {
        if resent && !request.may_be_sent_again() {
            return None;
        }
        let operation = &request.command.operation;
        let script = 1 << operation.number();
        // What cannot be sent again goes in full always: the server may have forgotten its scripts on command.
        let by_digest = !resent && operation.is_repeatable() && self.known & script != 0;
        if let (Some(packed), false) = (&request.packed, resent) {
            if operation.is_release() {
                if by_digest {
                    packed.append(peer.index, &mut self.bytes);
                    return Some(Expect::Script(true));
                }
            } else if form(encoder.quarantine() || peer.bound, peer.scripts_only, false, peer.settled.is_some())
                == Form::Pair
            {
                packed.append(peer.index, &mut self.bytes);
                return Some(Expect::Pair { settled: peer.settled.cloned(), written: None });
            }
        }
        self.known |= script;
        encoder.script(&request.command, peer, by_digest, &mut self.bytes);
        Some(Expect::Script(by_digest))
    }
}
