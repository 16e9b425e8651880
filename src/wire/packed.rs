//! Plain commands, packed once by the thread that asks; the writer copies them and sets the master's index.

use super::scripts::SCRIPTS;
use crate::protocol::owner::index_digit;
use crate::protocol::time::millis_up;
use crate::protocol::wakeup::MARK_MS;
use crate::protocol::{Command, Operation};
use itoa::Buffer as Number;

/// The bytes of a command that differ from master to master in the index of the value only.
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// Where the index of the master stands.
    index: usize,
}

impl Packed {
    /// Packs `command`, if its bytes do not depend on the connection.
    pub(crate) fn of(command: &Command) -> Option<Packed> {
        let (keys, value) = (&command.keys, command.owner.value(0));
        let mut bytes = Vec::with_capacity(384);
        let value_end = match &command.operation {
            Operation::Acquire { px_ms, full: false, fence: false, .. } => {
                begin(&mut bytes, 6);
                arguments(&mut bytes, &["SET", &keys.lock, &value]);
                let value_end = bytes.len();
                arguments(&mut bytes, &["NX", "PX", Number::new().format(*px_ms)]);
                // Proof obligation: the read is behind the write on the same connection, so an unchanged generation
                // means that nothing was lost before the write (`docs/SAFETY.md#plain-vote`).
                begin(&mut bytes, 3);
                arguments(&mut bytes, &["MGET", &keys.generation, &keys.lock]);
                value_end
            }
            Operation::Release { keep, tell } => {
                let sha = &SCRIPTS.of(&command.operation).sha;
                begin(&mut bytes, 11);
                arguments(&mut bytes, &["EVALSHA", sha, "2", &keys.lock, &keys.waiters, &value]);
                let value_end = bytes.len();
                let at_once = tell.is_some_and(|t| t.at_once);
                arguments(
                    &mut bytes,
                    &[
                        Number::new().format(millis_up(*keep)),
                        tell.map_or("", |_| &*keys.channel),
                        if at_once { "1" } else { "0" },
                        Number::new().format(tell.map_or(0, |t| t.waiter)),
                        Number::new().format(MARK_MS),
                    ],
                );
                value_end
            }
            _ => return None,
        };
        let value_at = value_end - "\r\n".len() - value.len();
        Some(Packed { bytes, index: value_at + command.owner.secret_hex().len() + "|".len() })
    }

    /// Appends the bytes for master `i`.
    pub(crate) fn append(&self, i: usize, out: &mut Vec<u8>) {
        let at = out.len() + self.index;
        out.extend_from_slice(&self.bytes);
        out[at] = index_digit(i);
    }
}

/// Appends the head of a command of `count` arguments, its name among them.
fn begin(out: &mut Vec<u8>, count: usize) {
    header(out, b'*', count);
}

fn arguments(out: &mut Vec<u8>, arguments: &[&str]) {
    for argument in arguments {
        header(out, b'$', argument.len());
        out.extend_from_slice(argument.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn header(out: &mut Vec<u8>, kind: u8, number: usize) {
    out.push(kind);
    out.extend_from_slice(Number::new().format(number).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::command::Tell;
    use crate::protocol::layout::Namespace;
    use crate::protocol::owner::{Owner, Token};
    use redis::{Cmd, cmd};
    use std::sync::Arc;
    use std::time::Duration;

    fn command(operation: Operation) -> Command {
        let owner = Owner::new(Token::from_bytes([0xab; 16]), &"somebody".into(), 1_700_000_000_000);
        let keys = Namespace::new("ns").unwrap().keys("a näme").unwrap();
        Command { keys: Arc::new(keys), owner: Arc::new(owner), operation, nonce: 0 }
    }

    /// Master 11's bytes, behind others.
    fn packed(command: &Command) -> String {
        let mut out = b"before".to_vec();
        Packed::of(command).unwrap().append(11, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// What the library makes of the same.
    fn by_the_library(commands: &[&Cmd]) -> String {
        let packed = commands.iter().flat_map(|cmd| cmd.get_packed_command());
        String::from_utf8(b"before".iter().copied().chain(packed).collect()).unwrap()
    }

    #[test]
    fn an_acquire_is_packed_as_the_library_packs_it() {
        let acquire = command(Operation::Acquire { px_ms: 30_000, full: false, fence: false, word: None });
        let keys = &acquire.keys;
        let mut set = cmd("SET");
        set.arg(&keys.lock).arg(acquire.owner.value(11)).arg("NX").arg("PX").arg(30_000);
        let mut read = cmd("MGET");
        read.arg(&keys.generation).arg(&keys.lock);
        assert_eq!(packed(&acquire), by_the_library(&[&set, &read]));
    }

    #[test]
    fn a_release_is_packed_as_the_library_packs_it() {
        for (keep, tell) in [
            (Duration::ZERO, None),
            (Duration::from_micros(1500), Some(Tell::AT_ONCE)),
            (Duration::ZERO, Some(Tell { waiter: u64::MAX, at_once: false })),
        ] {
            let release = command(Operation::Release { keep, tell });
            let keys = &release.keys;
            let mut script = cmd("EVALSHA");
            script.arg(&SCRIPTS.of(&release.operation).sha).arg(2).arg(&keys.lock).arg(&keys.waiters);
            script.arg(release.owner.value(11)).arg(keep.as_micros().div_ceil(1000) as u64);
            script.arg(tell.map_or("", |_| &keys.channel)).arg(u8::from(tell.is_some_and(|t| t.at_once)));
            script.arg(tell.map_or(0, |t| t.waiter)).arg(MARK_MS);
            assert_eq!(packed(&release), by_the_library(&[&script]));
        }
    }

    #[test]
    fn what_depends_on_the_connection_is_not_packed() {
        assert!(Packed::of(&command(Operation::Verify)).is_none());
        let full = Operation::Acquire { px_ms: 1, full: true, fence: false, word: None };
        assert!(Packed::of(&command(full)).is_none());
    }
}
