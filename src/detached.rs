//! A lock on its way from one process to another.

use crate::engine::error::Error;
use crate::engine::hold::Hold;
use crate::options::check_label;
use crate::protocol::{Mono, Owner, Token};
use crate::sys::{self, clock};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// A held lock without a guard, on its way from one process to another: [`LockGuard::detach`](crate::LockGuard::detach)
/// makes it, and [`Client::adopt`](crate::Client::adopt) takes it, once, on the same machine, before the lease ends.
///
/// Nobody renews the lease meanwhile; if nobody adopts it, the lock is free when its ttl ends. A fencing token does not
/// come with it: the adopter that asks for one gets a higher one than all holders before.
///
/// # Its text is a secret
///
/// `to_string` writes the lease down for a pipe, or for a file that others cannot read, and `parse` reads it in the
/// other process. **Any process on this machine that has the text can take the lock**: keep it out of logs and command
/// lines. `Debug` shows the name and the remaining time alone.
///
/// ```no_run
/// use redleash::{Client, DetachedLease, LockGuard};
///
/// # fn send(_: String) {}
/// # fn receive() -> String { String::new() }
/// # fn main() -> Result<(), redleash::Error> {
/// # let client = Client::builder().node("redis://127.0.0.1").build()?;
/// # let guard = client.lock("orders/42").acquire()?;
/// send(guard.detach()?.to_string());
/// // ... and in the other process:
/// let lease: DetachedLease = receive().parse()?;
/// let guard: LockGuard = client.adopt(lease)?;
/// # drop(guard); Ok(())
/// # }
/// ```
pub struct DetachedLease {
    pub(crate) name: String,
    pub(crate) owner: Arc<Owner>,
    pub(crate) until: Mono,
    boot: String,
}

const VERSION: &str = "redleash2";
/// What an error names.
const FIELD: &str = "detached lease";

impl DetachedLease {
    /// Takes the lease out of its guard's hands. The guard lets go of the rest.
    pub(crate) fn of(hold: &Hold) -> Result<DetachedLease, Error> {
        let until = hold.detach()?;
        let lease = &hold.lease;
        Ok(DetachedLease { name: lease.keys.name.to_string(), owner: lease.owner.clone(), until, boot: sys::boot_id() })
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How long there is left to adopt it; zero when the lease has ended.
    pub fn remaining(&self) -> Duration {
        self.until.since(clock::now())
    }
}

/// The lease as text, with its secret: see [above](DetachedLease#its-text-is-a-secret). It has several lines, and ends
/// without a line break.
impl fmt::Display for DetachedLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DetachedLease { name, owner, until, boot } = self;
        let (token, since, label) = (owner.secret_hex(), owner.since_ms(), owner.label());
        write!(f, "{VERSION}\n{boot}\n{}\n{token}\n{since}\n{label}\n{name}", until.nanos())
    }
}

/// Reads what `to_string` wrote.
///
/// # Errors
///
/// [`Error::Config`] for the field `detached lease`, if the text is something else, or comes from another machine or
/// from before a restart of this one, where its deadline means nothing. Always where the system does not tell one boot
/// from another (all but Linux). The text is not repeated in the error.
impl FromStr for DetachedLease {
    type Err = Error;

    fn from_str(text: &str) -> Result<DetachedLease, Error> {
        let malformed = || Error::config(FIELD, "it is not the text of a DetachedLease");
        let parts: Vec<&str> = text.splitn(7, '\n').collect();
        let [VERSION, boot, until, token, since, label, name] = parts.as_slice() else {
            return Err(malformed());
        };
        if boot.is_empty() || *boot != sys::boot_id() {
            return Err(Error::config(FIELD, "it comes from another machine, or from before a restart of this one"));
        }
        let number = |s: &str| s.parse::<u64>().map_err(|_| malformed());
        let token = Token::from_hex(token).ok_or_else(malformed)?;
        let label = check_label(label).map_err(|_| malformed())?;
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

#[cfg(test)]
#[cfg(all(target_os = "linux", not(redleash_portable)))]
#[allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
mod tests {
    use super::DetachedLease;
    use crate::engine::error::Error;
    use crate::protocol::{Mono, Owner, Token};
    use crate::sys;
    use proptest::prelude::{any, proptest};
    use std::sync::Arc;

    fn lease(name: &str, token: [u8; 16], label: &str, since_ms: u64, until: u64) -> DetachedLease {
        let owner = Arc::new(Owner::new(Token::from_bytes(token), &Arc::from(label), since_ms));
        DetachedLease { name: name.into(), owner, until: Mono::from_nanos(until), boot: sys::boot_id() }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in "\\PC{1,40}", label in "[ -~]{0,128}", token: [u8; 16], since_ms: u64, until: u64,
            cut in any::<u16>()
        ) {
            let text = lease(&name, token, &label, since_ms, until).to_string();
            let read: DetachedLease = text.parse().unwrap();
            assert_eq!((read.name(), read.owner.label().as_ref(), read.owner.since_ms()), (&*name, &*label, since_ms));
            assert_eq!((read.owner.secret_hex().len(), read.owner.token() == Token::from_bytes(token)), (32, true));
            assert_eq!((read.until.nanos(), read.to_string()), (until, text.clone()));
            let secret = read.owner.secret_hex();
            assert!(!format!("{read:?} {read:#?}").contains(secret));
            // What is cut off before the name is refused, and not repeated.
            let cut = usize::from(cut) % (text.len() - name.len() - 1);
            match text.get(..cut).map(str::parse::<DetachedLease>) {
                Some(Err(Error::Config(error))) => assert!(!error.to_string().contains(secret), "{error}"),
                None => {}
                other => panic!("{other:?}"),
            }
        }
    }
}
