//! The state: masters with their keys and generations, clients with their leases, commands under way.
//!
//! Everything about a master stands in one column, including what each client knows of it and has sent to it. So
//! sorting the three columns removes the symmetry of the masters.

use super::rules::Promise;
use std::hash::{Hash, Hasher};

/// The number of masters.
pub const MASTERS: usize = 3;
/// The number of clients, A and B.
pub const CLIENTS: usize = 2;
/// The largest number of holds (grants and hand-overs) in one history.
pub const HOLDS: usize = 6;
/// The largest number of commands in a queue.
const QUEUE: usize = 8;
/// The owner of a revoked key.
pub const NOBODY: u8 = CLIENTS as u8;

/// The state of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The time; all clocks run alike.
    pub now: u8,
    /// The masters, sorted.
    pub masters: [Master; MASTERS],
    /// The clients.
    pub clients: [Client; CLIENTS],
    /// What the adversary has used up.
    pub spent: Spent,
    /// What has happened so far, as far as the promises need it.
    pub history: History,
}

/// A master, and the links of the clients to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Master {
    /// The server behind the name.
    pub server: Server,
    /// The clients' links.
    pub links: [Link; CLIENTS],
}

/// A server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    /// The value of the lock key.
    pub key: Option<Value>,
    /// When the key expires.
    pub expires: u8,
    /// The generation string, by number; 0 is none.
    pub generation: u8,
    /// Whether the generation has the run id of this process.
    pub own_run: bool,
    /// When the generation's quarantine ends.
    pub ready: u8,
    /// The last number given to a generation.
    pub generations: u8,
    /// The fencing counter.
    pub counter: u8,
}

/// A value of the lock key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value {
    /// The client, or [`NOBODY`].
    pub owner: u8,
    /// The attempt.
    pub attempt: u8,
    /// The index of the master.
    pub index: u8,
}

/// A client's connection to a master, and what the answers of the present attempt were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// Commands on the connection.
    pub queue: Queue,
    /// Commands in the sockets of former connections. They are executed at some time or never, and the answers are
    /// lost.
    pub stragglers: Queue,
    /// The settled generation cached by this connection; 0 is none.
    pub cached: u8,
    /// Whether the first half of a plain vote was a yes.
    pub half: bool,
    /// Whether the master voted for the attempt.
    pub voted: bool,
    /// Whether it voted for the extension under way.
    pub extended: bool,
    /// The fencing counter that it answered; 0 is none.
    pub counter: u8,
    /// Whether it holds the token that is written back.
    pub holds_token: bool,
    /// The number of attempts whose release was executed here.
    pub released: u8,
}

/// What a client is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing.
    #[default]
    Idle,
    /// It has asked for the lock.
    Acquiring,
    /// It has the votes, and writes back the token that came with the acquire.
    Settling,
    /// It has a guard; held until the deadline.
    Holding,
}

/// Where the question for a fencing token stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// Not asked.
    #[default]
    None,
    /// Asked.
    Asked,
    /// The token is known and is written back.
    WritingBack,
    /// Answered.
    Answered,
}

/// An extension under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Extension {
    /// When it began.
    pub start: u8,
    /// Which extension of the attempt it is, from 1.
    pub number: u8,
}

/// A client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// What it is doing.
    pub phase: Phase,
    /// The number of its attempt.
    pub attempt: u8,
    /// When the attempt began.
    pub start: u8,
    /// The deadline of the lease.
    pub until: u8,
    /// The extension under way.
    pub extension: Option<Extension>,
    /// How many extensions of this attempt were begun.
    pub extensions: u8,
    /// Whether the last extension was given up.
    pub jeopardy: bool,
    /// The question for a token.
    pub question: Question,
    /// Which hold asked it.
    pub asker: u8,
    /// The token of the lease, or the one that is written back.
    pub token: u8,
    /// Which hold of the history this is.
    pub hold: u8,
    /// How often the lease was handed over with a known token.
    pub shift: u8,
    /// How often the lease was handed over.
    pub hand_overs: u8,
    /// Whether two guards believe that they have the lease (only without [`super::rules::Rule::HandOverMarksFirst`]).
    pub two_guards: bool,
    /// Whether the release was queued and the lease kept (only without [`super::rules::Rule::HandOverBeforeRelease`]).
    pub releasing: bool,
}

/// What the adversary has used up of its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spent {
    /// Faults of masters.
    pub faults: u8,
    /// Broken connections.
    pub breaks: u8,
    /// Lost answers.
    pub losses: u8,
    /// Masters whose key was revoked.
    pub revokes: u8,
}

/// What has happened so far, as far as the promises need it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The number of holds so far.
    pub holds: u8,
    /// The token of each hold; 0 is none.
    pub tokens: [u8; HOLDS],
    /// Whether a lease was ever extended.
    pub extended: bool,
    /// The first promise that was broken.
    pub broken: Option<Promise>,
}

/// What a command does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The empty place of a queue.
    #[default]
    None,
    /// `SET NX PX`, the first half of a plain vote.
    Set,
    /// `MGET generation key`, the second half; the argument is the generation that the connection had cached.
    Read,
    /// The acquire script; the argument is 0 if no token is asked for.
    Acquire,
    /// The extend script; the argument is the number of the extension.
    Extend,
    /// The fence script; the argument is not 0.
    Fence,
    /// The write-back script; the argument is the token.
    WriteBack,
    /// The release script.
    Release,
}

/// A command under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Command {
    /// What it does.
    pub kind: Kind,
    /// The attempt that it belongs to.
    pub attempt: u8,
    /// See [`Kind`].
    pub argument: u8,
}

impl Command {
    /// A command.
    pub fn new(kind: Kind, attempt: u8, argument: u8) -> Command {
        Command { kind, attempt, argument }
    }

    /// Whether it can write the lock key.
    pub fn writes_key(self) -> bool {
        matches!(self.kind, Kind::Set | Kind::Acquire | Kind::Extend)
    }
}

/// Commands in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Queue {
    length: u8,
    commands: [Command; QUEUE],
}

impl Hash for Queue {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u8(self.length);
        for command in self.iter() {
            let [kind, attempt] = [command.kind as u8, command.attempt].map(u32::from);
            hasher.write_u32(kind << 16 | attempt << 8 | u32::from(command.argument));
        }
    }
}

impl Queue {
    /// The number of commands.
    pub fn len(&self) -> usize {
        self.length.into()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The commands.
    pub fn iter(&self) -> impl Iterator<Item = Command> + '_ {
        self.commands[..self.len()].iter().copied()
    }

    /// Appends a command. Panics if the bounds of the configuration are too large for the queue.
    pub fn push(&mut self, command: Command) {
        assert!(self.len() < QUEUE, "the bounds of this configuration need longer queues");
        self.commands[self.len()] = command;
        self.length += 1;
    }

    /// Adds a command to a set: the order of its insertion is forgotten.
    pub fn add(&mut self, command: Command) {
        self.push(command);
        let length = self.len();
        self.commands[..length].sort_unstable();
    }

    /// Takes a command out.
    pub fn take(&mut self, place: usize) -> Command {
        let length = self.len();
        let command = self.commands[place];
        self.commands.copy_within(place + 1..length, place);
        self.commands[length - 1] = Command::default();
        self.length -= 1;
        command
    }

    /// Keeps what satisfies `keep`.
    pub fn retain(&mut self, keep: impl Fn(Command) -> bool) {
        if self.iter().all(&keep) {
            return;
        }
        let before = *self;
        *self = Queue::default();
        before.iter().filter(|command| keep(*command)).for_each(|command| self.push(command));
    }
}
