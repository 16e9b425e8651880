//! Plain commands, packed once by the thread that asks; the writer copies them and sets the master's index.

use super::scripts::SCRIPTS;
use crate::protocol::command::Form;
use crate::protocol::owner::index_digit;
use crate::protocol::time::millis_up;
use crate::protocol::wakeup::MARK_MS;
use crate::protocol::{Command, Operation};
use redis::Cmd;

/// The bytes of a command that differ from master to master in the index of the value only.
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// Where `SET` ends and the read behind it begins.
    plain: usize,
    /// Where the index of the master stands.
    index: usize,
}

impl Packed {
    /// Packs `command`, if its bytes do not depend on the connection.
    pub(crate) fn of(command: &Command) -> Option<Packed> {
        let (keys, value) = (&command.keys, command.owner.value(0));
        let mut bytes = Vec::with_capacity(320);
        let mut cmd = Cmd::with_capacity(8, 256);
        let plain = match &command.operation {
            Operation::Acquire { px_ms, full: false, fence: None, .. } => {
                cmd.arg("SET").arg(&keys.lock).arg(&value).arg("NX").arg("PX").arg(px_ms);
                cmd.write_packed_command(&mut bytes);
                let plain = bytes.len();
                // Proof obligation: the read is behind the write on the same connection, so an unchanged generation
                // means that nothing was lost before the write (protocol-changes.md 1.2).
                cmd.clear();
                cmd.arg("MGET").arg(&keys.generation).arg(&keys.lock);
                cmd.write_packed_command(&mut bytes);
                plain
            }
            Operation::Release { keep, tell } => {
                let script = SCRIPTS.of(&command.operation);
                cmd.arg("EVALSHA").arg(&script.sha).arg(2).arg(&keys.lock).arg(&keys.waiters).arg(&value);
                cmd.arg(millis_up(*keep)).arg(tell.map_or("", |_| &*keys.channel));
                cmd.arg(u8::from(tell.is_some_and(|t| t.at_once))).arg(tell.map_or(0, |t| t.waiter));
                cmd.arg(MARK_MS);
                cmd.write_packed_command(&mut bytes);
                bytes.len()
            }
            _ => return None,
        };
        let token = command.owner.secret_hex().as_bytes();
        let index = bytes.windows(token.len()).position(|w| w == token)? + token.len() + 1;
        Some(Packed { bytes, plain, index })
    }

    /// Appends the bytes for master `i`.
    pub(crate) fn append(&self, form: Form, i: usize, out: &mut Vec<u8>) {
        let at = out.len() + self.index;
        let end = if form == Form::Plain { self.plain } else { self.bytes.len() };
        out.extend_from_slice(&self.bytes[..end]);
        out[at] = index_digit(i);
    }
}
