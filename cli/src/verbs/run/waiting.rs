//! Waiting for the lock, until it is granted, the time is over, or a signal comes.

use crate::args::RunArgs;
use crate::exit::{self, Failure};
use crate::system::clock::Moment;
use crate::system::signals;
use crate::system::terminal::Terminal;
use crate::text::duration::rough;
use crate::text::progress::ProgressLine;
use crate::text::{holder, say};
use redleash::crossbeam_channel::Receiver;
use redleash::{Client, Error, Lease, Lock, LockGuard, Options};
use std::time::Duration;

/// How often the progress line asks who holds the lock.
const STATUS_INTERVAL: Duration = Duration::from_secs(2);

/// How long to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Once,
    Until(Moment),
    Forever,
}

impl Patience {
    fn of(args: &RunArgs, start: Moment) -> Patience {
        match args.wait {
            Some(limit) if !limit.is_zero() => Patience::Until(start.plus(limit)),
            Some(_) => Patience::Once,
            None if args.nonblock => Patience::Once,
            None => Patience::Forever,
        }
    }

    fn left(self) -> Option<Duration> {
        match self {
            Patience::Once => Some(Duration::ZERO),
            Patience::Until(end) => Some(end.since(Moment::now())),
            Patience::Forever => None,
        }
    }
}

/// How the wait ended.
pub(super) enum Acquired {
    Granted(LockGuard),
    /// The exit code to end with; what there is to say has been said.
    Ended(u8),
}

/// See the module.
pub(super) struct Waiting<'a> {
    pub(super) client: &'a Client,
    pub(super) args: &'a RunArgs,
    /// When redleash was started; `--wait` counts from here.
    pub(super) start: Moment,
    pub(super) signals: &'a Receiver<i32>,
    pub(super) terminal: Option<&'a Terminal>,
    pub(super) verbose: bool,
}

impl Waiting<'_> {
    pub(super) fn acquire(&self) -> Result<Acquired, Failure> {
        let name = &self.args.name;
        let patience = Patience::of(self.args, self.start);
        let lock = self.client.lock(name).options(self.options());
        let mut line = ProgressLine::new(self.terminal);
        let waited = self.wait(&lock, patience, &mut line);
        drop(line);
        let (guard, signal) = waited.map_err(|e| Failure::of(name, &e))?;
        // A signal may also have come just before the lock was granted. There is no command yet to forward it to.
        let late = || guard.as_ref().and_then(|_| pending(self.signals));
        let Some(signal) = signal.or_else(late) else {
            return Ok(guard.map_or_else(|| self.busy(patience), Acquired::Granted));
        };
        if let Some(guard) = guard {
            let _ = guard.release();
        }
        let signal_name = signals::name(signal);
        say::sentence(&format!("lock {name:?}: {signal_name} ended the wait; nothing was started"));
        Ok(Acquired::Ended(exit::by_signal(signal)))
    }

    fn options(&self) -> Options {
        let args = self.args;
        let mut options = Options::new()
            .lease(Lease::Watchdog { ttl: args.ttl })
            .fenced(true)
            .lock_delay(args.lock_delay)
            .label(holder::own_label(&args.command));
        if let Some(hold) = args.min_hold {
            options = options.min_hold(hold);
        }
        if let Some(hold) = args.max_hold {
            options = options.max_hold(hold);
        }
        options
    }

    /// The guard, if the lock was granted, and the signal that ended the wait, if one did.
    fn wait(
        &self,
        lock: &Lock,
        patience: Patience,
        line: &mut ProgressLine,
    ) -> Result<(Option<LockGuard>, Option<i32>), Error> {
        let start = Moment::now();
        let mut signal = None;
        let mut shown: Option<(Moment, String)> = None;
        let guard = lock.acquire_while(patience.left(), || {
            signal = pending(self.signals);
            if signal.is_none() {
                self.show(lock, line, start, &mut shown);
            }
            signal.is_none()
        })?;
        Ok((guard, signal))
    }

    /// Shows who holds the lock: on the progress line again and again, elsewhere once and only with `-v`.
    fn show(&self, lock: &Lock, line: &mut ProgressLine, start: Moment, shown: &mut Option<(Moment, String)>) {
        let now = Moment::now();
        let due = shown.as_ref().is_none_or(|(at, _)| now.since(*at) >= STATUS_INTERVAL);
        if due && (line.is_enabled() || self.verbose) {
            let text = self.holder(lock);
            if shown.is_none() && !line.is_enabled() {
                say::sentence(&format!("lock {:?}: waiting: {text}", lock.name()));
            }
            *shown = Some((now, text));
        }
        if let Some((_, text)) = shown {
            let waited = rough(now.since(start));
            line.show(&format!("redleash: waiting for {:?} ({waited}): {text}", lock.name()));
        }
    }

    fn holder(&self, lock: &Lock) -> String {
        match self.client.status(lock.name()) {
            Ok(status) => match holder::found(&status) {
                Some(holder) => format!("held by {}", holder::words(holder)),
                None => "held by nobody any more".into(),
            },
            Err(error) => error.to_string(),
        }
    }

    fn busy(&self, patience: Patience) -> Acquired {
        if !self.args.quiet {
            let name = &self.args.name;
            let holder = self.client.status(name).ok().as_ref().and_then(holder::with_masters);
            let holder = holder.unwrap_or_else(|| "another client, which has just released it".into());
            let (still, over) =
                if patience == Patience::Once { ("", "") } else { ("still ", ", and the waiting time is over") };
            say::sentence(&format!(
                "lock {name:?} is {still}held by {holder}{over}; nothing was started, try again later or wait longer \
                 (-w)"
            ));
        }
        Acquired::Ended(self.args.conflict_exit_code)
    }
}

/// The first signal that has come and that ends a process.
fn pending(signals: &Receiver<i32>) -> Option<i32> {
    signals.try_iter().find(|signal| signals::ends(*signal))
}
