//! How one lock behaves: lease, fencing, holds and retries.

use crate::engine::error::Error;
use crate::engine::settings::{Settings, Terms};
use crate::engine::waiting::Pause;
use crate::protocol::owner::MAX_LABEL;
use crate::protocol::retry::{Backoff, SHORTEST};
use crate::protocol::time::millis_up;
use crate::protocol::validity;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The shortest ttl: below it the round trips and the 2 ms of slack leave nothing to work in.
pub const MIN_TTL: Duration = Duration::from_millis(100);

/// How long a lock is held for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Lease {
    /// A watchdog renews the lease, a third of `ttl` after each good round, until the guard is dropped. If the process
    /// dies the lock is free again after at most `ttl` (and the lock-delay). A guard that is forgotten (`mem::forget`)
    /// is held, and renewed, until the process ends.
    Watchdog {
        /// The life of each renewal.
        #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
        ttl: Duration,
    },
    /// The lease ends after `ttl`; only [`LockGuard::extend`](crate::LockGuard::extend) prolongs it.
    Fixed {
        /// The life of the lease.
        #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
        ttl: Duration,
    },
}

/// The pauses between attempts at a lock that others hold. The shortest is 1 ms: a shorter [`Backoff`](Retry::Backoff)
/// or [`Fixed`](Retry::Fixed) pause is refused, a shorter [`Custom`](Retry::Custom) one is lengthened.
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Retry {
    /// A random pause in `min..=max` at first; `max` grows by half per attempt, up to `cap`. The default: 50 to 250 ms,
    /// growing to 1 s.
    Backoff {
        /// The shortest pause.
        #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
        min: Duration,
        /// The longest pause at first.
        #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
        max: Duration,
        /// The longest pause.
        #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
        cap: Duration,
    },
    /// The same pause every time. Clients that share it tend to collide; prefer some jitter.
    Fixed(#[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))] Duration),
    /// A pause of your own: the number of pauses so far in, the pause out. Below 1 ms it counts as 1 ms.
    #[cfg_attr(feature = "serde", serde(skip))]
    Custom(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Retry::Backoff { min, max, cap } => write!(f, "Backoff({min:?}..{max:?}, at most {cap:?})"),
            Retry::Fixed(pause) => write!(f, "Fixed({pause:?})"),
            Retry::Custom(_) => write!(f, "Custom"),
        }
    }
}

/// Options of a lock; what is not set is the client's. Checked when the lock is acquired, before anything is sent.
///
/// ```
/// use redleash::{Lease, Options};
/// use std::time::Duration;
///
/// let options = Options::new()
///     .lease(Lease::Fixed { ttl: Duration::from_secs(10) })
///     .fenced(true)
///     .tries(3);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[must_use = "options change nothing before they are given to `Lock::options`"]
pub struct Options {
    lease: Option<Lease>,
    fenced: bool,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    lock_delay: Duration,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::duration"))]
    min_hold: Duration,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::maybe"))]
    max_hold: Option<Duration>,
    #[cfg_attr(feature = "serde", serde(with = "crate::serialize::maybe"))]
    hand_over: Option<Duration>,
    tries: Option<u32>,
    fail_fast: bool,
    retry: Option<Retry>,
    label: Option<String>,
}

impl Options {
    /// The client's defaults.
    pub fn new() -> Options {
        Options::default()
    }

    /// How long the lock is held for. Default: a watchdog lease with the client's ttl (30 s).
    pub fn lease(mut self, lease: Lease) -> Options {
        self.lease = Some(lease);
        self
    }

    /// Whether the fencing token is drawn in the round that acquires, instead of when it is first asked for. Default:
    /// no.
    pub fn fenced(mut self, fenced: bool) -> Options {
        self.fenced = fenced;
        self
    }

    /// How much longer than the lease the key lives, so that a holder that died leaves a pause before the next one gets
    /// the lock. A release leaves none. Default: zero. Together with the ttl at most `max_lease`.
    pub fn lock_delay(mut self, delay: Duration) -> Options {
        self.lock_delay = delay;
        self
    }

    /// The lock stays taken for at least this long after it was granted, even if it is released before. For cron jobs
    /// on hosts whose clocks differ. Default: zero. At most `max_lease`.
    pub fn min_hold(mut self, hold: Duration) -> Options {
        self.min_hold = hold;
        self
    }

    /// The lock is held for no longer than this after the grant, whatever the watchdog or
    /// [`extend`](crate::LockGuard::extend) asks for; then it is lost, as announced. Default: none.
    pub fn max_hold(mut self, hold: Duration) -> Options {
        self.max_hold = Some(hold);
        self
    }

    /// How long threads of one client may pass the lock to one another without asking the masters, counted from the
    /// first such hand-over; then it is released, so that other processes get it too. Zero: never. Default: 10 ms.
    ///
    /// Only a lease that is renewed, was renewed well the last time and has half of its ttl left is passed on, to a
    /// caller with the same options. The fencing token rises by one with each hand-over.
    pub fn hand_over(mut self, budget: Duration) -> Options {
        self.hand_over = Some(budget);
        self
    }

    /// The largest number of attempts of one call (redsync's `WithTries`). An `acquire` that has used them up returns
    /// [`Error::TriesUsedUp`], a timed `try_acquire_*` `None`. Such a call waits behind no other thread, is not woken
    /// by releases and takes no place among the waiters: it tries, and pauses by [`Options::retry`]. Default: no limit.
    pub fn tries(mut self, tries: u32) -> Options {
        self.tries = Some(tries);
        self
    }

    /// Whether an outage (no quorum, a quarantine) ends the call at once, instead of being tried again. Default: no. (A
    /// round always ends as soon as it is decided, which is what redsync's `WithFailFast` asks for.)
    pub fn fail_fast(mut self, fail_fast: bool) -> Options {
        self.fail_fast = fail_fast;
        self
    }

    /// The pauses between attempts. Default: the client's ([`ClientBuilder::retry`](crate::ClientBuilder::retry)),
    /// which is a random pause of 50 to 250 ms at first, growing to 1 s.
    pub fn retry(mut self, retry: Retry) -> Options {
        self.retry = Some(retry);
        self
    }

    /// What others read about the holder, at most 128 bytes. Default: the client's label (host and process id).
    pub fn label(mut self, label: impl Into<String>) -> Options {
        self.label = Some(label.into());
        self
    }

    /// Checks the options against the client's settings.
    pub(crate) fn terms(&self, settings: &Settings) -> Result<Terms, Error> {
        let (ttl, renew) = match self.lease {
            None => (settings.ttl, true),
            Some(Lease::Watchdog { ttl }) => (ttl, true),
            Some(Lease::Fixed { ttl }) => (ttl, false),
        };
        check_ttl(ttl, settings.max_lease)?;
        if ttl.saturating_add(self.lock_delay) > settings.max_lease {
            let problem = format!(
                "{:?} and the ttl of {ttl:?} are together above max_lease ({:?}); lower one of them",
                self.lock_delay, settings.max_lease
            );
            return Err(Error::config("lock_delay", problem));
        }
        if self.min_hold > settings.max_lease {
            let problem = format!("{:?} is above max_lease ({:?})", self.min_hold, settings.max_lease);
            return Err(Error::config("min_hold", problem));
        }
        if self.max_hold.is_some_and(|hold| hold < MIN_TTL || hold < self.min_hold) {
            return Err(Error::config("max_hold", format!("it is below {MIN_TTL:?} or below min_hold")));
        }
        if self.tries == Some(0) {
            return Err(Error::config("tries", "0 tries cannot acquire anything; give at least 1"));
        }
        let backoff = self.retry.as_ref().map_or(Ok(settings.backoff), backoff)?;
        let label = match &self.label {
            Some(label) => check_label(label)?,
            None => settings.label.clone(),
        };
        Ok(Terms {
            ttl,
            renew,
            fenced: self.fenced,
            lock_delay: self.lock_delay,
            min_hold: self.min_hold,
            max_hold: self.max_hold,
            hand_over: self.hand_over.unwrap_or(settings.hand_over),
            tries: self.tries,
            fail_fast: self.fail_fast,
            backoff,
            label,
        })
    }

    /// The pauses of the user's own; `default` where these options say nothing of pauses.
    pub(crate) fn pause(&self, default: Option<&Pause>) -> Option<Pause> {
        self.retry.as_ref().map_or_else(|| default.cloned(), pause)
    }
}

pub(crate) fn check_ttl(ttl: Duration, max_lease: Duration) -> Result<(), Error> {
    if ttl < MIN_TTL {
        Err(Error::config("ttl", format!("{ttl:?} is below the least, {MIN_TTL:?}")))
    } else if ttl > max_lease {
        Err(Error::config("ttl", format!("{ttl:?} is above max_lease ({max_lease:?}), which all clients share")))
    } else if millis_up(ttl) * 1_000_000 != crate::protocol::time::nanos(ttl) {
        Err(Error::config("ttl", format!("{ttl:?} is not a whole number of milliseconds")))
    } else {
        Ok(())
    }
}

/// Checks the ttl of an extension; what to ask the masters for, so that the lease lasts for that long.
pub(crate) fn check_extension(ttl: Duration, settings: &Settings, terms: &Terms) -> Result<Duration, Error> {
    let most = settings.max_lease.saturating_sub(terms.lock_delay);
    let asked = validity::ttl_for(ttl, settings.drift);
    if asked > most {
        let problem = format!(
            "an extension for {ttl:?} is above the longest, {:?}: max_lease ({:?}), less the lock_delay ({:?}) \
             and the margin for clocks that differ",
            validity::longest_for(most, settings.drift),
            settings.max_lease,
            terms.lock_delay
        );
        return Err(Error::config("ttl", problem));
    }
    check_ttl(ttl, settings.max_lease)?;
    Ok(asked)
}

pub(crate) fn check_label(label: &str) -> Result<Arc<str>, Error> {
    if label.len() > MAX_LABEL {
        return Err(Error::config("label", format!("it has {} bytes; the limit is {MAX_LABEL}", label.len())));
    }
    if label.chars().any(char::is_control) {
        return Err(Error::config("label", "it has a control character"));
    }
    Ok(label.into())
}

fn too_short(pause: Duration) -> Error {
    let problem =
        format!("a pause of {pause:?} is below 1 ms: the masters would be asked without end; a usual one is 50 ms");
    Error::config("retry", problem)
}

/// The pauses between attempts that are drawn at random, checked.
pub(crate) fn backoff(retry: &Retry) -> Result<Backoff, Error> {
    match retry {
        Retry::Backoff { min, max, cap } => {
            if *min < SHORTEST {
                return Err(too_short(*min));
            }
            if min > max || max > cap {
                let problem = format!("it takes min <= max <= cap, and has {min:?}, {max:?} and {cap:?}");
                return Err(Error::config("retry", problem));
            }
            Ok(Backoff { min: *min, max: *max, cap: *cap })
        }
        Retry::Fixed(pause) if *pause < SHORTEST => Err(too_short(*pause)),
        Retry::Fixed(_) | Retry::Custom(_) => Ok(Backoff::DEFAULT),
    }
}

/// The pauses that are not drawn at random.
pub(crate) fn pause(retry: &Retry) -> Option<Pause> {
    match retry {
        Retry::Backoff { .. } => None,
        Retry::Fixed(pause) => {
            let pause = *pause;
            Some(Arc::new(move |_| pause))
        }
        Retry::Custom(pause) => Some(pause.clone()),
    }
}
