//! Doors into the wire for the benchmarks, the fuzzers and the tests of this repository, behind the feature
//! `unversioned`. Not covered by semantic versioning.

mod talk;

pub use talk::{Heard, Request, ScriptText, Talk, scripts};

use crate::Client;
use crate::protocol::{Answer, Command, Keys, Operation, Owner};
use crate::wire::address::Address;
use crate::wire::decode;
use crate::wire::packed::Packed;
use crate::wire::reply::{self, Stop};
use std::sync::Arc;

/// Appends the plain commands of an acquire for each of `masters` masters.
pub fn encode_acquire(keys: &Arc<Keys>, owner: &Arc<Owner>, px_ms: u64, masters: usize, out: &mut Vec<u8>) {
    let operation = Operation::Acquire { px_ms, full: false, fence: false, entry: None };
    let command = Command { keys: keys.clone(), owner: owner.clone(), operation, nonce: 0 };
    if let Some(packed) = Packed::of(&command) {
        for i in 0..masters {
            packed.append(i, out);
        }
    }
}

/// Decodes the two replies to the plain commands of an acquire on master 0.
pub struct PairDecoder {
    command: Command,
    settled: Vec<u8>,
    replies: reply::Replies,
}

impl std::fmt::Debug for PairDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PairDecoder").finish_non_exhaustive()
    }
}

impl PairDecoder {
    /// A decoder for `owner`'s attempt on a connection that has cached `settled`.
    pub fn new(keys: Arc<Keys>, owner: Arc<Owner>, settled: &[u8]) -> PairDecoder {
        let operation = Operation::Acquire { px_ms: 0, full: false, fence: false, entry: None };
        let command = Command { keys, owner, operation, nonce: 0 };
        PairDecoder { command, settled: settled.to_vec(), replies: reply::Replies::new() }
    }

    /// The answer, once both replies are complete; any bytes may come.
    pub fn decode(&mut self, bytes: &[u8]) -> Option<Answer> {
        let (mut written, mut answer) = (None, None);
        let (command, settled) = (&self.command, &self.settled);
        self.replies.feed(bytes, |value| match &written {
            None => {
                written = decode::written(&value);
                written.is_some()
            }
            Some(written) => {
                answer = Some(decode::pair(command, 0, Some(settled.as_slice()), written, &value).answer);
                true
            }
        });
        answer
    }
}

/// How many threads of this process wait in the local queue of a lock, behind the one that contends for it or holds it.
pub fn queued(client: &Client, name: &str) -> usize {
    client.engine().queues.queued(name)
}

/// The most bytes that a reply may have, and the most that are read at once.
pub const LIMITS: (usize, usize) = (reply::CAP, reply::READ);

/// Cuts replies out of bytes, as each connection does.
pub struct Replies(reply::Replies);

impl std::fmt::Debug for Replies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replies").finish_non_exhaustive()
    }
}

impl Default for Replies {
    fn default() -> Replies {
        Replies(reply::Replies::new())
    }
}

impl Replies {
    /// Feeds `bytes` and hands out the replies that are complete; false once the connection is to be closed.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Reply)) -> bool {
        let owed = |value| {
            each(Reply(value));
            true
        };
        self.0.feed(bytes, owed) == Stop::Hungry
    }
}

/// One reply; `Debug` shows it as the `redis` crate's value does.
#[derive(Clone, PartialEq)]
pub struct Reply(reply::Value);

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Reply {
    /// What it answers as the reply of `operation`'s script.
    pub fn of_script(&self, operation: &Operation) -> Answer {
        decode::script(operation, &self.0).answer
    }
}

/// Whether a master's URL is accepted, and if not, why not.
pub fn check_url(url: &str) -> Result<String, String> {
    Address::parse(url).map(|address| address.label)
}
