//! What a lane says on its connection to one master, without sockets: the encoder, the conversation, the cache of the
//! settled generation and the decoder as they ship. For the simulator.

use crate::protocol::generation::Deployment;
use crate::protocol::health::{Link, Treatment, give_up, treat};
use crate::protocol::{Answer, Command, Mono, Quorum, Round};
use crate::wire::conversation::{Conversation, Entry, Outgoing, Replied};
use crate::wire::encode::{Encoder, Peer};
use crate::wire::reply::{Replies, Stop};
use crate::wire::request;
use crate::wire::scripts::SCRIPTS;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A round on its way, as the engine makes it.
#[derive(Clone, Debug)]
pub struct Request(Arc<request::Request>);

impl Request {
    /// A round to the masters `targets` of `quorum`.
    pub fn new(command: Command, quorum: Quorum, targets: u32, awaited: bool) -> Request {
        Request(Arc::new(request::Request::new(command, quorum, targets, awaited)))
    }

    /// What it asks.
    pub fn command(&self) -> &Command {
        &self.0.command
    }

    /// The masters that it goes to.
    pub fn targets(&self) -> u32 {
        self.0.targets
    }

    /// Looks at its answers.
    pub fn look<T>(&self, look: impl FnOnce(&mut Round) -> T) -> T {
        look(&mut self.0.round.lock())
    }

    /// Takes an answer; true if it decides a round that somebody waits for.
    pub fn answer(&self, i: usize, answer: Answer, now: Mono) -> bool {
        self.0.answer(i, answer, now)
    }

    /// Whether both are the same round.
    pub fn is(&self, other: &Request) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What the bytes of a master meant.
#[derive(Clone, Debug)]
pub enum Heard {
    /// An answer to a round.
    Answer(Request, Answer),
    /// The master does not know the script: the round is to be sent again, in full.
    NoScript(Request),
}

/// A lane's end of the connections to one master, one after the other.
pub struct Talk {
    index: usize,
    identity: String,
    encoder: Encoder,
    said: Conversation,
    outgoing: Outgoing,
    replies: Replies,
    conns: u64,
}

impl fmt::Debug for Talk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Talk").field("index", &self.index).finish_non_exhaustive()
    }
}

impl Talk {
    /// The end for master `index`, not connected.
    pub fn new(index: usize, deployment: &Deployment, quarantine: bool) -> Talk {
        Talk {
            index,
            identity: String::new(),
            encoder: Encoder::new(deployment.clone(), quarantine),
            said: Conversation::default(),
            outgoing: Outgoing::default(),
            replies: Replies::new(),
            conns: 0,
        }
    }

    /// A new connection, to a server with this identity, which has or had replicas if it is `watched`.
    pub fn connected(&mut self, identity: &str, watched: bool) {
        self.conns += 1;
        self.identity = identity.into();
        self.said.watched = watched;
        self.outgoing.restart(self.conns);
        self.replies = Replies::new();
    }

    /// Writes rounds, new or sent again, in this order; the bytes, and those that are decided because nobody waits for
    /// this master.
    pub fn write(&mut self, jobs: &[(Request, bool)], now: Mono, master_timeout: Duration) -> (Vec<u8>, Vec<Request>) {
        let awaited = treat(Link::Up(self.said.oldest()), now, master_timeout) == Treatment::Ask;
        let Talk { index, identity, encoder, said, outgoing, .. } = self;
        let settled = said.settled.clone();
        let (scripts_only, bound) = (said.scripts_only(), said.bound);
        let peer = Peer { index: *index, identity, settled: settled.as_ref(), scripts_only, bound };
        let mut decided = Vec::new();
        for (Request(op), resent) in jobs {
            let Some(expect) = outgoing.append(encoder, op, &peer, *resent) else { continue };
            if !awaited && op.do_not_await(*index) {
                decided.push(Request(op.clone()));
            }
            said.fifo.push_back(Entry { request: op.clone(), expect, sent: now });
        }
        (std::mem::take(&mut outgoing.bytes), decided)
    }

    /// Reads bytes; false if the connection must be closed: they make no sense, or it is no master any more.
    pub fn read(&mut self, bytes: &[u8], mut each: impl FnMut(Heard)) -> bool {
        let Talk { index, said, replies, .. } = self;
        let stop = replies.feed(bytes, |value| match said.reply(*index, &value) {
            Replied::Half => true,
            Replied::Answer(op, answer) => {
                let sane = answer.ends_the_connection().is_none();
                each(Heard::Answer(Request(op), answer));
                sane
            }
            Replied::NoScript(op) => {
                each(Heard::NoScript(Request(op)));
                true
            }
            Replied::Unasked => false,
        });
        matches!(stop, Stop::Hungry)
    }

    /// Whether the connection is to be closed, because it owes an answer for longer than its limit.
    pub fn is_overdue(&self, now: Mono, hang_timeout: Duration) -> bool {
        give_up(self.said.oldest(), now, hang_timeout)
    }

    /// Whether an answer is owed.
    pub fn is_owed(&self) -> bool {
        !self.said.fifo.is_empty()
    }

    /// Whether the connection has seen a settled generation.
    pub fn is_settled(&self) -> bool {
        self.said.settled.is_some()
    }

    /// Ends the connection; the rounds that were not answered.
    pub fn give_up(&mut self) -> Vec<Request> {
        self.said.end().into_iter().map(|entry| Request(entry.request)).collect()
    }
}

/// A script as the masters get it.
#[derive(Clone, Debug)]
pub struct ScriptText {
    /// The name of its operation.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Its SHA-1 in hexadecimal.
    pub sha: String,
}

/// All scripts.
pub fn scripts() -> Vec<ScriptText> {
    SCRIPTS.all().map(|(name, s)| ScriptText { name, text: s.text, sha: s.sha.clone() }).into()
}
