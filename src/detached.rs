//! A lock on its way from one process to another.

use crate::engine::core::Engine;
use crate::engine::error::Error;
use crate::engine::held::Held;
use crate::guard::leave;
use crate::protocol::{Mono, Owner, Token};
use crate::sys;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A held lock without a guard: what [`LockGuard::detach`](crate::LockGuard::detach) gives and
/// [`Client::adopt`](crate::Client::adopt) takes, once, on the same machine, before the lease ends. Nobody renews it
/// meanwhile. A fencing token does not come with it: whoever adopts the lock and asks for one gets a higher one than all holders before. If nobody adopts it the lock is free when its ttl ends.
pub struct DetachedLease {
    pub(crate) name: String,
    pub(crate) owner: Arc<Owner>,
    pub(crate) until: Mono,
    boot: String,
}

const VERSION: &str = "redleash2";

impl DetachedLease {
    pub(crate) fn of(held: Arc<Held>) -> Result<DetachedLease, Error> {
        let until = match held.hand_out() {
            Ok(given) => given,
            Err(e) => {
                leave(held);
                return Err(e);
            }
        };
        Ok(DetachedLease { name: held.keys.name.to_string(), owner: held.owner.clone(), until, boot: sys::boot_id() })
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long there is left to adopt it.
    pub fn remaining(&self) -> Duration {
        Engine::left(self.until)
    }

    /// The handle as text, to be sent through a pipe or a file that others cannot read. **Whoever has this text can take
    /// the lock**: keep it out of logs and command lines.
    pub fn reveal(&self) -> String {
        let (token, since) = (self.owner.secret_hex(), self.owner.since_ms());
        [
            VERSION,
            &self.boot,
            &self.until.nanos().to_string(),
            token,
            &since.to_string(),
            self.owner.label(),
            &self.name,
        ]
        .join("\n")
    }

    /// Reads what [`reveal`](DetachedLease::reveal) wrote.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if the text is something else, or from another machine or before a reboot: a deadline means
    /// nothing there. Always where the system does not tell one boot from another (all but Linux).
    pub fn parse(text: &str) -> Result<DetachedLease, Error> {
        let malformed = || Error::config("handle", "it is not what DetachedLease::reveal wrote");
        let parts: Vec<&str> = text.splitn(7, '\n').collect();
        let [VERSION, boot, until, token, since, label, name] = parts.as_slice() else {
            return Err(malformed());
        };
        if boot.is_empty() || *boot != sys::boot_id() {
            return Err(Error::config("handle", "it comes from another machine, or from before a restart of this one"));
        }
        let number = |s: &str| s.parse::<u64>().map_err(|_| malformed());
        let token = Token::from_hex(token).ok_or_else(malformed)?;
        let label = crate::options::check_label(label)?;
        Ok(DetachedLease {
            name: (*name).to_string(),
            owner: Arc::new(Owner::new(token, &label, number(since)?)),
            until: Mono::from_nanos(number(until)?),
            boot: (*boot).to_string(),
        })
    }
}

impl fmt::Debug for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedLease")
            .field("name", &self.name)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
