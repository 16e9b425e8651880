//! The life of one lease: Held, Jeopardy, Lost, Released.
//!
//! ```text
//!            renewal failed                deadline, taken, max-hold, fork, panic
//!   Held ───────────────────▶ Jeopardy ───────────────┐
//!    ▲ ◀───────────────────────  │                    ▼
//!    │    renewal succeeded      └──────────────────▶ Lost      (never back)
//!    └──── release ────▶ Released ◀── release ── Jeopardy
//! ```

use super::retry;
use super::time::Mono;
use super::validity::{self, Drift};
use std::fmt;
use std::time::Duration;

/// Why a lease ended before it was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Its time was over: it was a fixed lease, or no renewal reached a quorum in time.
    Expired,
    /// A majority of masters holds somebody else's value: another client, or a forced release.
    Taken,
    /// A majority of masters has no key of ours, and nothing shows whether another client held it in between.
    KeyAbsent,
    /// The longest time that the lock may be held is over.
    MaxHold,
    /// This is a forked child: the lease belongs to the parent.
    Forked,
    /// The watchdog of this lease panicked.
    WatchdogPanic,
    /// The client was closed while the lock was held; nobody renews it any more.
    Closed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Expired => "its lease ended and was not renewed in time",
            LossReason::Taken => {
                "a majority of masters holds another owner's value (another client's, or a forced release's)"
            }
            LossReason::KeyAbsent => {
                "a majority of masters lost its key, and another client may have held it meanwhile"
            }
            LossReason::MaxHold => "the longest time that it may be held for (max_hold) is over",
            LossReason::Forked => "this process is a fork of the one that holds the lock",
            LossReason::WatchdogPanic => "the watchdog thread panicked",
            LossReason::Closed => "the client was closed while the lock was held",
        })
    }
}

/// After this time a renewal is due again that could not begin.
pub const DEFERRAL: Duration = Duration::from_millis(10);

/// Where a lease stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseState {
    /// Held; the last renewal was good.
    Held,
    /// Still held, but the last renewal failed.
    Jeopardy,
    /// Lost, for good.
    Lost(LossReason),
    /// Given back by its holder.
    Released,
}

/// What is due for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Renew now.
    Renew,
    /// Announce to the holder that the lease is ending; it is not renewed any more.
    Announce(LossReason),
    /// Nothing before this moment.
    Wait(Mono),
    /// Nothing any more.
    Nothing,
}

/// An extension under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// When its round began, read before the first byte was sent.
    pub start: Mono,
    /// The ttl that the round asks for.
    pub ttl: Duration,
    until: Mono,
}

impl Extension {
    /// When the lease would end if the round were granted.
    pub fn until(&self) -> Mono {
        self.until
    }
}

/// What the round of an extension came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extended {
    /// The lease goes on.
    Yes,
    /// No quorum; it is tried again before the lease ends.
    Failed,
    /// The lease is lost.
    Lost(LossReason),
    /// The lease was over, or its end announced, before the round was.
    Over,
}

/// The settings of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The ttl of each round.
    pub ttl: Duration,
    /// The drift bound.
    pub drift: Drift,
    /// Whether a watchdog renews.
    pub renew: bool,
    /// The longest time that the lock may be held.
    pub max_hold: Option<Duration>,
}

/// The state machine of one lease. Every method takes the time; none blocks.
#[derive(Clone, Debug)]
pub struct Lease {
    terms: Terms,
    granted: Mono,
    until: Mono,
    renew_at: Mono,
    failures: u32,
    state: LeaseState,
    announced: bool,
    /// When the last good round began.
    renewed: Mono,
}

impl Lease {
    /// A lease granted by a round that began at `start`.
    pub fn new(terms: Terms, start: Mono) -> Lease {
        let mut lease = Lease {
            terms,
            granted: start,
            until: Mono::ZERO,
            renew_at: Mono::ZERO,
            failures: 0,
            state: LeaseState::Held,
            announced: false,
            renewed: start,
        };
        lease.until = lease.capped(validity::until(start, terms.ttl, terms.drift));
        lease.plan_renewal();
        lease
    }

    fn capped(&self, until: Mono) -> Mono {
        self.terms.max_hold.map_or(until, |d| until.min(self.granted.plus(d)))
    }

    /// After a third of the ttl, or half of the validity where the drift is great; never if it could not move the
    /// deadline.
    fn plan_renewal(&mut self) {
        let pause = (self.terms.ttl / 3).min(self.terms.drift.shorten(self.terms.ttl) / 2);
        self.renew_at = if self.is_renewable() { self.renewed.plus(pause) } else { Mono::NEVER };
    }

    fn is_renewable(&self) -> bool {
        self.terms.renew && self.terms.max_hold.is_none_or(|d| self.until < self.granted.plus(d))
    }

    /// The renewal that was due could not begin, because another extension of this lease had not quite ended: it is due
    /// again soon. Not if that extension has planned the next renewal meanwhile.
    ///
    /// Without this nobody would renew any more: what was due is not due again by itself, and the extension may have
    /// planned just that renewal before it ended.
    pub fn defer_renewal(&mut self, now: Mono) {
        let alive = matches!(self.state, LeaseState::Held | LeaseState::Jeopardy);
        if alive && self.is_renewable() && self.renew_at == Mono::NEVER {
            self.renew_at = now.plus(DEFERRAL);
        }
    }

    /// When the lease ends unless it is extended; [`Mono::ZERO`] once it is lost or released.
    pub fn until(&self) -> Mono {
        match self.state {
            LeaseState::Held | LeaseState::Jeopardy => self.until,
            LeaseState::Lost(_) | LeaseState::Released => Mono::ZERO,
        }
    }

    /// The state at `now`. A lease whose deadline has passed is lost, whether or not anybody noticed.
    pub fn state(&self, now: Mono) -> LeaseState {
        match self.state {
            LeaseState::Held | LeaseState::Jeopardy if now >= self.until => LeaseState::Lost(self.end_reason()),
            state => state,
        }
    }

    /// The ttl that the next renewal asks for.
    pub fn ttl(&self) -> Duration {
        self.terms.ttl
    }

    /// Whether a watchdog renews the lease for as long as its holder wants.
    pub fn is_renewed_without_end(&self) -> bool {
        self.terms.renew && self.terms.max_hold.is_none()
    }

    /// When the lease was granted.
    pub fn granted(&self) -> Mono {
        self.granted
    }

    fn end_reason(&self) -> LossReason {
        match self.terms.max_hold {
            Some(d) if self.until >= self.granted.plus(d) => LossReason::MaxHold,
            _ => LossReason::Expired,
        }
    }

    /// How long before its deadline the end of a lease is announced: `max(20 ms, ttl / 100)`, at most a quarter of the
    /// validity.
    pub fn notice(&self) -> Duration {
        let ttl = self.terms.ttl;
        (ttl / 100).max(Duration::from_millis(20)).min(self.terms.drift.shorten(ttl) / 4)
    }

    /// When [`Lease::poll`] has something to say next; `None` if it has nothing any more.
    pub fn next_due(&self) -> Option<Mono> {
        let alive = matches!(self.state, LeaseState::Held | LeaseState::Jeopardy) && !self.announced;
        alive.then(|| self.until.minus(self.notice()).min(self.renew_at))
    }

    /// Whether the holder has given the lease back.
    pub fn is_released(&self) -> bool {
        self.state == LeaseState::Released
    }

    /// What is due at `now`.
    pub fn poll(&mut self, now: Mono) -> Todo {
        if !matches!(self.state, LeaseState::Held | LeaseState::Jeopardy) || self.announced {
            return Todo::Nothing;
        }
        let announce_at = self.until.minus(self.notice());
        if now >= announce_at {
            self.announced = true;
            return Todo::Announce(self.end_reason());
        }
        if now >= self.renew_at {
            // Until the round ends, only the deadline is due.
            self.renew_at = Mono::NEVER;
            return Todo::Renew;
        }
        Todo::Wait(announce_at.min(self.renew_at))
    }

    /// Begins an extension at `start` with `ttl`; `None` if the lease is over or its end was announced.
    pub fn begin_extension(&mut self, start: Mono, ttl: Duration) -> Option<Extension> {
        let until = self.capped(validity::until(start, ttl, self.terms.drift));
        self.may_write(start).then_some(Extension { start, ttl, until })
    }

    /// Ends an extension whose round reached a quorum or not, and found reasons `against` the lease or not. `now` is
    /// read after the answers were looked at; `random` is asked for 64 uniform bits if a pause is to be drawn.
    pub fn conclude(
        &mut self,
        extension: Extension,
        reached: bool,
        against: Option<LossReason>,
        now: Mono,
        random: impl FnOnce() -> u64,
    ) -> Extended {
        // Whatever the masters said: its holder was done with it.
        if self.is_released() {
            return Extended::Over;
        }
        if reached {
            return if self.extended(extension, now) { Extended::Yes } else { Extended::Over };
        }
        if let Some(reason) = against {
            return Extended::Lost(reason);
        }
        match self.state(now) {
            LeaseState::Lost(reason) => Extended::Lost(reason),
            LeaseState::Released => Extended::Over,
            LeaseState::Held | LeaseState::Jeopardy => {
                self.extension_failed(now, random());
                Extended::Failed
            }
        }
    }

    /// Ends an extension whose quorum was complete at `end`, which is read after its last answer; true if the lease
    /// goes on, at least until the extension's deadline.
    ///
    /// Proof obligation: `end < until_old`. Then the intervals of the rounds overlap and nobody else was granted in
    /// between (`docs/SAFETY.md#continuity`). Missed once, the lease is lost for good: even a key that still reads as
    /// ours may have been written again by a straggler after another's hold. No script shortens a key's life, so a
    /// round that reached fewer masters, or reaches them late, leaves what a quorum has granted (`extend.lua`).
    pub fn extended(&mut self, extension: Extension, end: Mono) -> bool {
        if !self.may_write(end) {
            return false;
        }
        self.until = self.until.max(extension.until);
        self.renewed = self.renewed.max(extension.start);
        self.state = LeaseState::Held;
        self.failures = 0;
        self.plan_renewal();
        true
    }

    /// Ends an extension without a quorum; the next try is after a pause drawn from `random`.
    pub fn extension_failed(&mut self, now: Mono, random: u64) {
        if matches!(self.state, LeaseState::Held | LeaseState::Jeopardy) {
            self.state = LeaseState::Jeopardy;
            if self.terms.renew {
                // Half of the time that is left at most, so that no try is left out because a pause was drawn too long.
                let left = self.until.minus(self.notice()).since(now);
                let pause = retry::after_failed_renewal(self.terms.ttl, self.failures, random);
                self.renew_at = now.plus(pause.min((left / 2).max(Duration::from_millis(1))));
            }
            self.failures += 1;
        }
    }

    /// Loses the lease at once; true if it was not over yet.
    pub fn lose(&mut self, reason: LossReason) -> bool {
        let alive = matches!(self.state, LeaseState::Held | LeaseState::Jeopardy);
        if alive {
            self.state = LeaseState::Lost(reason);
        }
        alive
    }

    /// Whether a renewal command may still be written: the lease is neither over nor announced to be.
    pub fn may_write(&self, now: Mono) -> bool {
        matches!(self.state(now), LeaseState::Held | LeaseState::Jeopardy) && !self.announced
    }

    /// Gives the lease back; the state it was in at `now`.
    pub fn release(&mut self, now: Mono) -> LeaseState {
        let before = self.state(now);
        if !matches!(self.state, LeaseState::Released) {
            self.state = if let LeaseState::Lost(_) = before { before } else { LeaseState::Released };
        }
        before
    }
}
