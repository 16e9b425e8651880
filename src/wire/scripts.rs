//! The Lua scripts, their digests, and how many keys each takes.

use crate::protocol::Operation;
use std::sync::LazyLock;

/// A script as the masters know it.
pub(crate) struct Script {
    /// Its text, for `EVAL`.
    pub(crate) text: &'static str,
    /// Its SHA-1 in hexadecimal, for `EVALSHA`.
    pub(crate) sha: String,
}

impl Script {
    fn new(text: &'static str) -> Script {
        Script { text, sha: redis::Script::new(text).get_hash().to_string() }
    }
}

/// All scripts by operation.
pub(crate) struct Scripts {
    acquire: Script,
    extend: Script,
    extend_many: Script,
    adopt: Script,
    release: Script,
    fence: Script,
    write_back: Script,
    verify: Script,
    notify: Script,
    status: Script,
    revoke: Script,
    blank: Script,
    init: Script,
}

/// The scripts, digested once per process.
pub(crate) static SCRIPTS: LazyLock<Scripts> = LazyLock::new(|| Scripts {
    acquire: Script::new(concat!(include_str!("../scripts/generation.lua"), include_str!("../scripts/acquire.lua"))),
    extend: Script::new(concat!(include_str!("../scripts/generation.lua"), include_str!("../scripts/extend.lua"))),
    extend_many: Script::new(concat!(
        include_str!("../scripts/generation.lua"),
        include_str!("../scripts/extend_many.lua")
    )),
    adopt: Script::new(concat!(include_str!("../scripts/generation.lua"), include_str!("../scripts/adopt.lua"))),
    fence: Script::new(concat!(include_str!("../scripts/generation.lua"), include_str!("../scripts/fence.lua"))),
    write_back: Script::new(concat!(
        include_str!("../scripts/generation.lua"),
        include_str!("../scripts/write_back.lua")
    )),
    verify: Script::new(concat!(include_str!("../scripts/generation.lua"), include_str!("../scripts/verify.lua"))),
    release: Script::new(concat!(include_str!("../scripts/release.lua"), include_str!("../scripts/notify_first.lua"))),
    notify: Script::new(concat!(include_str!("../scripts/notify.lua"), include_str!("../scripts/notify_first.lua"))),
    status: Script::new(include_str!("../scripts/status.lua")),
    revoke: Script::new(include_str!("../scripts/revoke.lua")),
    blank: Script::new(concat!(include_str!("../scripts/blank.lua"), include_str!("../scripts/ground.lua"))),
    init: Script::new(concat!(include_str!("../scripts/init.lua"), include_str!("../scripts/ground.lua"))),
});

impl Scripts {
    /// The script of an operation.
    pub(crate) fn of(&self, operation: &Operation) -> &Script {
        match operation {
            Operation::Acquire { .. } => &self.acquire,
            Operation::Extend { .. } => &self.extend,
            Operation::ExtendMany { .. } => &self.extend_many,
            Operation::Adopt { .. } => &self.adopt,
            Operation::Release { .. } => &self.release,
            Operation::Fence => &self.fence,
            Operation::WriteBack(_) => &self.write_back,
            Operation::Verify => &self.verify,
            Operation::Notify(_) => &self.notify,
            Operation::Status => &self.status,
            Operation::Revoke { .. } => &self.revoke,
            Operation::Blank { .. } => &self.blank,
            Operation::Init { .. } => &self.init,
        }
    }

    /// All of them, with the names of their operations.
    #[cfg(feature = "unversioned")]
    pub(crate) fn all(&self) -> [(&'static str, &Script); 13] {
        [
            ("acquire", &self.acquire),
            ("extend", &self.extend),
            ("extend_many", &self.extend_many),
            ("adopt", &self.adopt),
            ("release", &self.release),
            ("fence", &self.fence),
            ("write_back", &self.write_back),
            ("verify", &self.verify),
            ("notify", &self.notify),
            ("status", &self.status),
            ("revoke", &self.revoke),
            ("blank", &self.blank),
            ("init", &self.init),
        ]
    }
}
