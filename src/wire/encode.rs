//! Commands to bytes.

use super::scripts::SCRIPTS;
use crate::protocol::generation::{Deployment, nonce};
use crate::protocol::owner::REVOKED;
use crate::protocol::time::millis_up;
use crate::protocol::wait_list::{EMPTY_LIST_MEMORY, YIELD_WINDOW};
use crate::protocol::{Command, Operation};
use redis::Cmd;
use std::sync::Arc;

/// What the scripts must know of the connection that they are sent on.
pub(crate) struct Peer<'a> {
    /// The master's index.
    pub(crate) index: usize,
    /// Who the server was at the handshake.
    pub(crate) identity: &'a str,
    /// The settled generation that this connection has seen.
    pub(crate) settled: Option<&'a Arc<[u8]>>,
    /// The user may not run the plain commands.
    pub(crate) scripts_only: bool,
    /// A generation was seen there.
    pub(crate) bound: bool,
}

/// Buffers that are used again for every command.
pub(crate) struct Encoder {
    deployment: Deployment,
    quarantine: bool,
    quarantine_us: String,
    cmd: Cmd,
    value: String,
    other: String,
}

impl Encoder {
    pub(crate) fn new(deployment: Deployment, quarantine: bool) -> Encoder {
        Encoder {
            quarantine_us: deployment.quarantine_us().to_string(),
            deployment,
            quarantine,
            cmd: Cmd::new(),
            value: String::new(),
            other: String::new(),
        }
    }

    /// Whether a master without a generation begins one, with a quarantine, before it votes.
    pub(crate) fn quarantine(&self) -> bool {
        self.quarantine
    }

    /// Appends the script of `command`, by digest or in full.
    pub(crate) fn script(&mut self, command: &Command, peer: &Peer<'_>, by_digest: bool, out: &mut Vec<u8>) {
        let Encoder { cmd, value, other, deployment, quarantine_us, quarantine } = self;
        let (keys, script) = (&command.keys, SCRIPTS.of(&command.operation));
        cmd.clear();
        if by_digest {
            cmd.arg("EVALSHA").arg(&script.sha);
        } else {
            cmd.arg("EVAL").arg(script.text);
        }
        match &command.operation {
            Operation::Release { keep, notify } => {
                command.owner.write_value(peer.index, value);
                cmd.arg(2).arg(&keys.lock).arg(&keys.waiters).arg(&*value).arg(millis_up(*keep));
                cmd.arg(notify.map_or("", |_| &*keys.channel))
                    .arg(u8::from(notify.is_some_and(|n| n.at_once)))
                    .arg(notify.map_or(0, |n| n.waiter))
                    .arg(millis_up(EMPTY_LIST_MEMORY));
            }
            Operation::Notify(waiter) => {
                cmd.arg(2).arg(&keys.lock).arg(&keys.waiters).arg(&keys.channel);
                cmd.arg(waiter).arg(millis_up(EMPTY_LIST_MEMORY));
            }
            Operation::Status => {
                cmd.arg(3).arg(&keys.lock).arg(&keys.fence).arg(&keys.generation);
            }
            Operation::Revoke { now } => {
                cmd.arg(3).arg(&keys.lock).arg(&keys.fence).arg(&keys.revoked);
                cmd.arg(format!("{REVOKED}{:016x}", command.nonce));
                cmd.arg(u8::from(*now));
            }
            Operation::Blank { mark: with } => {
                cmd.arg(1).arg(&keys.generation).arg(peer.identity);
                // Another mark for each master, so that one server under two names is not taken for two.
                cmd.arg(if *with { nonce(peer.index, command.nonce) } else { String::new() });
            }
            Operation::Init { settle } => {
                cmd.arg(1).arg(&keys.generation).arg(peer.identity).arg(nonce(peer.index, command.nonce));
                cmd.arg(deployment.block()).arg(u8::from(*settle));
            }
            voting => {
                command.owner.write_value(peer.index, value);
                let more: Vec<&str> = match voting {
                    Operation::Acquire { .. } => vec![&keys.waiters],
                    Operation::ExtendMany { leases, .. } => {
                        leases.iter().flat_map(|l| [&*l.keys.lock, &*l.keys.revoked]).collect()
                    }
                    _ => Vec::new(),
                };
                cmd.arg(4 + more.len());
                cmd.arg(&keys.lock).arg(&keys.fence).arg(&keys.generation).arg(&keys.revoked).arg(more);
                let none: &[u8] = if *quarantine || peer.bound { b"" } else { ABSENT };
                cmd.arg(&*value).arg(peer.settled.map_or(none, |g| g));
                cmd.arg(peer.identity)
                    .arg(deployment.block())
                    .arg(nonce(peer.index, command.nonce))
                    .arg(&*quarantine_us);
                match voting {
                    Operation::Acquire { px_ms, fence, entry, .. } => {
                        cmd.arg(px_ms).arg(u8::from(*fence));
                        cmd.arg(entry.map_or(0, |e| e.life_ms)).arg(entry.map_or(0, |e| e.waited_us));
                        let window = if entry.is_some_and(|e| e.yields) { YIELD_WINDOW.as_micros() as u64 } else { 0 };
                        cmd.arg(window).arg(entry.map_or(0, |e| e.waiter));
                    }
                    Operation::Extend { px_ms, recreate } => {
                        cmd.arg(px_ms).arg(u8::from(*recreate));
                    }
                    Operation::ExtendMany { leases, recreate } => {
                        cmd.arg(u8::from(*recreate));
                        for lease in &**leases {
                            lease.owner.write_value(peer.index, value);
                            cmd.arg(&*value).arg(lease.px_ms);
                        }
                    }
                    Operation::Adopt { from, px_ms } => {
                        from.write_value(peer.index, other);
                        cmd.arg(px_ms).arg(&*other);
                    }
                    Operation::WriteBack(number) => {
                        cmd.arg(number);
                    }
                    _ => {}
                }
            }
        }
        cmd.write_packed_command(out);
    }
}

/// What stands for the generation of a master that has none and may vote without one.
pub(super) const ABSENT: &[u8] = b"-";
