//! Waiting for a lock, until it is ours, the time is over, or a signal comes.

use crate::clock::Moment;
use crate::duration::rough;
use crate::holder;
use crate::line::Line;
use crate::say;
use crate::signals;
use redleash::crossbeam_channel::Receiver;
use redleash::{Client, Error, Lock, LockGuard};
use std::time::Duration;

/// How often the holder is asked for, for the line on the terminal.
const ASK: Duration = Duration::from_secs(2);

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Once,
    Until(Moment),
    Forever,
}

/// How the wait ended.
pub(crate) enum Waited {
    Granted(LockGuard),
    /// Others hold it.
    Busy,
    /// This signal asked us to end.
    Signal(i32),
}

/// See the module.
pub(crate) struct Waiting<'a> {
    pub(crate) client: &'a Client,
    pub(crate) lock: &'a Lock,
    pub(crate) patience: Patience,
    pub(crate) signals: &'a Receiver<i32>,
    pub(crate) verbose: bool,
}

impl Waiting<'_> {
    pub(crate) fn run(&self, line: &mut Line) -> Result<Waited, Error> {
        let start = Moment::now();
        let limit = match self.patience {
            Patience::Once => Some(Duration::ZERO),
            Patience::Until(end) => Some(end.since(start)),
            Patience::Forever => None,
        };
        let mut signal = None;
        let mut asked: Option<(Moment, String)> = None;
        let guard = self.lock.acquire_while(limit, || {
            signal = pending(self.signals);
            if signal.is_none() {
                self.show(line, start, &mut asked);
            }
            signal.is_none()
        })?;
        Ok(match (guard, signal) {
            (Some(guard), _) => Waited::Granted(guard),
            (None, Some(signal)) => Waited::Signal(signal),
            (None, None) => Waited::Busy,
        })
    }

    /// Says whom we wait for: on the terminal's line, or once.
    fn show(&self, line: &mut Line, start: Moment, asked: &mut Option<(Moment, String)>) {
        let now = Moment::now();
        if asked.as_ref().is_none_or(|(at, _)| now.since(*at) >= ASK) && (line.is_enabled() || self.verbose) {
            let text = self.whom();
            if asked.is_none() && !line.is_enabled() {
                say::sentence(&format!("lock {:?}: waiting: {text}", self.lock.name()));
            }
            *asked = Some((now, text));
        }
        if let Some((_, text)) = asked {
            let waited = rough(now.since(start));
            line.show(&format!("redleash: waiting for {:?} ({waited}): {text}", self.lock.name()));
        }
    }

    fn whom(&self) -> String {
        match self.client.status(self.lock.name()) {
            Ok(status) => match holder::found(&status) {
                Some(holder) => format!("held by {}", holder::words(holder)),
                None => "held by nobody any more".into(),
            },
            Err(error) => error.to_string(),
        }
    }
}

/// The signal that came before there was a command to hand it to.
pub(crate) fn pending(signals: &Receiver<i32>) -> Option<i32> {
    signals.try_iter().find(|signal| signals::ends(*signal))
}
