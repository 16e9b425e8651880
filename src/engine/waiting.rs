//! Waiting for a lock that others hold: woken by a release, or by the poll.

use super::core::Engine;
use super::error::Error;
use super::listener::Listening;
use super::settings::Terms;
use crate::protocol::time::millis_up;
use crate::protocol::wakeup::Wakeup;
use crate::protocol::{Judgement, Keys, Mono, Wait};
use crate::sys::{clock, entropy};
use std::sync::Arc;
use std::time::Duration;

/// The longest park: its clock may stand still during a suspend.
const LOOK: Duration = Duration::from_secs(1);

/// The waiting of one call.
pub(crate) struct Waiting<'a> {
    engine: &'a Arc<Engine>,
    keys: &'a Keys,
    terms: &'a Terms,
    wait: Wait,
    listening: Option<Listening>,
    /// The last attempt found that others hold the lock.
    refused: Option<Duration>,
    /// An attempt was made since this thread listens.
    asked: bool,
}

impl<'a> Waiting<'a> {
    pub(crate) fn new(engine: &'a Arc<Engine>, keys: &'a Keys, terms: &'a Terms, wait: Wait) -> Waiting<'a> {
        Waiting { engine, keys, terms, wait, listening: None, refused: None, asked: false }
    }

    /// Before an attempt: for how many milliseconds it should leave word that somebody waits.
    pub(crate) fn word_ms(&mut self) -> u64 {
        let Some(listening) = &self.listening else { return 0 };
        self.asked = true;
        let leave = listening.ear.wakeup(Wakeup::attempt);
        let twice = self.terms.backoff.cap.max(Duration::from_secs(1)) * 2;
        if leave { millis_up(twice.min(Duration::from_secs(60))) } else { 0 }
    }

    /// An attempt failed after `took`: from the first refusal on, this thread listens.
    pub(crate) fn failed(&mut self, judgement: &Judgement, took: Duration) {
        self.refused = matches!(judgement, Judgement::Held(_)).then_some(took);
        if self.refused.is_some() && self.listening.is_none() && self.wait != Wait::Once {
            let limit = if let Wait::Until(limit) = self.wait { limit } else { Mono::NEVER };
            let wakeup = Wakeup::new(self.engine.settings.quorum, clock::now());
            self.listening = Some(self.engine.listener.listen(self.engine, self.keys, wakeup, limit));
        }
    }

    /// Pauses until `at`, or until a release is heard of.
    pub(crate) fn pause(&mut self, at: Mono) -> Result<(), Error> {
        let (Some(listening), Some(took)) = (&self.listening, self.refused) else { return self.engine.pause(at) };
        let ear = &listening.ear;
        // A release before the subscription was heard by nobody: subscribe, try again, then wait.
        if !self.asked {
            return self.engine.usable();
        }
        let at = ear.wakeup(|w| w.refused(took, clock::now(), at, entropy::bits()));
        loop {
            self.engine.usable()?;
            let now = clock::now();
            let due = ear.wakeup(|w| w.due()).min(at);
            if now >= due {
                return Ok(());
            }
            std::thread::park_timeout(due.since(now).min(LOOK));
        }
    }
}
