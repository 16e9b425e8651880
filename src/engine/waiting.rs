//! Waiting for a lock that others hold: woken by a release, or by the poll.

use super::error::Error;
use super::listener::{Listener, Listening};
use super::masters::Masters;
use super::settings::Terms;
use crate::protocol::command::Word;
use crate::protocol::{Judgement, Keys, Mono, Wait};
use crate::sys::clock;
use crate::sys::sync::none_held;
use std::sync::Arc;
use std::time::Duration;

/// The longest park: its clock may stand still during a suspend.
const LOOK: Duration = Duration::from_secs(1);

/// A pause between two polls, of those after which a waiter still has its place in the masters' lines.
const LONGEST: Duration = Duration::from_secs(300);

/// How often a caller is asked whether to go on.
const ASK: Duration = Duration::from_millis(50);

/// A pause chosen by the user: the number of pauses so far in, the pause out.
pub(crate) type Pause = Arc<dyn Fn(u32) -> Duration + Send + Sync>;

/// How long a call waits, and whether it still wants to. What the user gave for that runs on the calling thread, with no
/// mutex locked.
pub(crate) struct Patience<'a> {
    pub(crate) wait: Wait,
    /// The pauses between attempts, if the user chose them.
    pub(crate) pause: Option<&'a Pause>,
    go_on: Option<&'a mut dyn FnMut() -> bool>,
}

impl<'a> Patience<'a> {
    pub(crate) fn new(wait: Wait, pause: Option<&'a Pause>) -> Patience<'a> {
        Patience { wait, pause, go_on: None }
    }

    pub(crate) fn asking(wait: Wait, pause: Option<&'a Pause>, go_on: &'a mut dyn FnMut() -> bool) -> Patience<'a> {
        Patience { wait, pause, go_on: Some(go_on) }
    }

    /// The moment after which there is nothing to wait for.
    pub(crate) fn limit(&self) -> Mono {
        if let Wait::Until(limit) = self.wait { limit } else { Mono::NEVER }
    }

    /// Whether the caller wants to go on; it is asked.
    pub(crate) fn goes_on(&mut self) -> bool {
        none_held();
        self.go_on.as_mut().is_none_or(|go_on| go_on())
    }

    /// The longest park at a time.
    pub(crate) fn look(&self) -> Duration {
        if self.go_on.is_some() { ASK } else { LOOK }
    }
}

/// How a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// It is over.
    Through,
    /// Early: the lock may be free.
    Woken,
    /// The caller does not want to go on.
    GivenUp,
}

/// The waiting of one call.
pub(crate) struct Waiting<'a> {
    masters: &'a Masters,
    listener: &'a Arc<Listener>,
    keys: &'a Keys,
    terms: &'a Terms,
    listening: Option<Listening>,
    /// The last attempt found that others hold the lock.
    refused: bool,
    /// How often a master had recovered before the last attempt.
    recoveries: u64,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(
        masters: &'a Masters,
        listener: &'a Arc<Listener>,
        keys: &'a Keys,
        terms: &'a Terms,
    ) -> Waiting<'a> {
        Waiting { masters, listener, keys, terms, listening: None, refused: false, recoveries: 0 }
    }

    /// Before an attempt: what it should say of this waiter. It stays in the masters' lines until its time is over, or its
    /// poll has been due twice and it has not come.
    pub(crate) fn word(&mut self, patience: &Patience<'_>) -> Option<Word> {
        self.recoveries = self.masters.recoveries();
        let listening = self.listening.as_ref()?;
        let now = clock::now();
        let longest = if patience.pause.is_some() { LONGEST } else { self.terms.backoff.cap.min(LONGEST) };
        let life = (longest.max(Duration::from_secs(1)) * 2).min(patience.limit().since(now));
        Some(listening.ear.wakeup(|w| w.attempt(now, life)))
    }

    /// The number under which this call waits; zero if it has not waited.
    pub(crate) fn number(&self) -> u64 {
        self.listening.as_ref().map_or(0, |listening| listening.ear.wakeup(|w| w.number()))
    }

    /// An attempt failed after `took`: from the first refusal on, this thread listens.
    pub(crate) fn failed(&mut self, judgement: &Judgement, took: Duration, patience: &Patience<'_>) {
        self.refused = matches!(judgement, Judgement::HeldByOther(_));
        if self.refused {
            self.listen(patience);
            if let Some(listening) = self.listening.as_ref().filter(|listening| listening.has_asked()) {
                listening.ear.wakeup(|w| w.refused(took));
            }
        }
    }

    /// Listens from here on, if this call is one that waits.
    pub(crate) fn listen(&mut self, patience: &Patience<'_>) {
        // Whoever counts its tries wants its own pauses between them.
        let listens = patience.wait != Wait::Once && self.terms.tries.is_none();
        if self.listening.is_none() && listens {
            self.listening = Some(self.listener.listen(self.keys, patience.limit()));
        }
    }

    /// Pauses until `at`, or until a release is heard of.
    pub(crate) fn pause(&mut self, at: Mono, patience: &mut Patience<'_>) -> Result<Paused, Error> {
        let listening = self.listening.as_ref().filter(|_| self.refused);
        let ear = listening.map(|listening| &listening.ear);
        // A release before the subscription was heard by nobody: subscribe, try again, then wait.
        if listening.is_some_and(|listening| !listening.has_asked()) {
            self.masters.usable()?;
            return Ok(if patience.goes_on() { Paused::Woken } else { Paused::GivenUp });
        }
        loop {
            self.masters.usable()?;
            if !patience.goes_on() {
                return Ok(Paused::GivenUp);
            }
            // The outage may be over: a master has recovered since the attempt began.
            if !self.refused && self.masters.recoveries() != self.recoveries {
                return Ok(Paused::Woken);
            }
            let now = clock::now();
            let due = ear.map_or(Mono::NEVER, |ear| ear.wakeup(|w| w.due())).min(at);
            if now >= due {
                return Ok(if now >= at { Paused::Through } else { Paused::Woken });
            }
            let longest = due.since(now).min(patience.look());
            match ear {
                Some(_) => std::thread::park_timeout(longest),
                None => self.masters.pause_of_outage(now.plus(longest), self.recoveries)?,
            }
        }
    }
}
