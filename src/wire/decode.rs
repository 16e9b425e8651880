//! Replies to answers.

use super::encode::ABSENT;
use crate::protocol::generation::{Generation, INIT_MARK};
use crate::protocol::init::Ground;
use crate::protocol::owner::Holder;
use crate::protocol::{Answer, Cause, Command, MasterView, Operation};
use redis::{ServerErrorKind, Value};
use std::sync::Arc;
use std::time::Duration;

/// A reply made sense of.
pub(crate) struct Decoded {
    pub(crate) answer: Answer,
    /// What becomes of the settled generation that the connection has cached.
    pub(crate) cache: Cache,
}

/// A change of a connection's cached generation.
pub(crate) enum Cache {
    Keep,
    Drop,
    Settle(Arc<[u8]>),
    /// The master has no generation and may vote without one.
    Absent,
    /// The master belongs to another deployment: scripts only, which write nothing there, until it does not any more.
    Foreign,
    /// This user may not run the plain commands: scripts only, on this connection.
    ScriptsOnly,
}

/// What the first reply of a pair was.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    Yes,
    No,
    /// This user may not run the command.
    Forbidden,
    Error(Cause),
}

impl From<Answer> for Decoded {
    fn from(answer: Answer) -> Decoded {
        Decoded { answer, cache: Cache::Keep }
    }
}

const NONSENSE: Answer = Answer::Failed(Cause::Nonsense);

/// Whether the reply says that the server does not know the script.
pub(crate) fn is_noscript(value: &Value) -> bool {
    matches!(value, Value::ServerError(e) if e.kind() == Some(ServerErrorKind::NoScript))
}

/// The cause in an error reply.
fn cause(error: &redis::ServerError) -> Cause {
    let details = error.details().unwrap_or_default();
    // Before Redis 7, what was said to a command of a script stands inside of an error of another kind.
    let says = |code: &str| error.code() == code || details.contains(&format!(": -{code} "));
    if says("READONLY") {
        return Cause::ReadOnly;
    }
    let words = format!("{} {}", error.code(), masked(details)).trim_end().into();
    if ["LOADING", "MASTERDOWN", "MOVED", "ASK", "CLUSTERDOWN"].iter().any(|code| says(code)) {
        Cause::NoMaster(words)
    } else {
        Cause::Refused(words)
    }
}

/// The first 200 characters, without long runs of hexadecimal digits: servers quote arguments in errors, and an
/// argument may be a token.
pub(super) fn masked(text: &str) -> String {
    let hex_run = |rest: &str| rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let (mut out, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next().filter(|_| out.len() < 200) {
        match hex_run(rest) {
            run if run >= 16 => {
                out.push('…');
                rest = &rest[run..];
            }
            run => {
                let step = run.max(c.len_utf8());
                out.push_str(&rest[..step]);
                rest = &rest[step..];
            }
        }
    }
    out
}

fn is_forbidden(value: &Value) -> bool {
    matches!(value, Value::ServerError(e) if e.kind() == Some(ServerErrorKind::NoPerm))
}

/// An error drops the cached generation: the server may not be what it was.
fn refused(error: &redis::ServerError) -> Decoded {
    Decoded { answer: Answer::Failed(cause(error)), cache: Cache::Drop }
}

/// The reply to `SET NX PX`; `None` if it has the wrong shape.
pub(crate) fn written(value: &Value) -> Option<Written> {
    match value {
        Value::Okay => Some(Written::Yes),
        Value::Nil => Some(Written::No),
        _ if is_forbidden(value) => Some(Written::Forbidden),
        Value::ServerError(e) => Some(Written::Error(cause(e))),
        _ => None,
    }
}

/// Whether the second reply of a pair has read a generation; the mark of an init is none.
pub(crate) fn has_generation(value: &Value) -> bool {
    let Value::Array(items) = value else { return false };
    matches!(items.first(), Some(Value::BulkString(text)) if !text.starts_with(INIT_MARK.as_bytes()))
}

/// The vote of a pair on master `i`, whose connection had cached `settled` when the pair was queued; `None` without
/// quarantine, where no generation had been seen.
///
/// Proof obligation (`docs/SAFETY.md#plain-vote`): a vote only if the write was done *and* the generation read behind
/// it equals `settled` byte for byte (or there is none, where none was seen) *and* the key is ours. Anything else is no
/// vote, and is not read again to rescue it.
pub(crate) fn pair(command: &Command, i: usize, settled: Option<&[u8]>, written: &Written, value: &Value) -> Decoded {
    let Value::Array(items) = value else {
        let cache = if is_forbidden(value) { Cache::ScriptsOnly } else { Cache::Drop };
        return match (value, written) {
            // Written, but by a master that may have forgotten: no vote, and a key to undo.
            (Value::ServerError(_), Written::Yes) => Decoded { answer: Answer::Stale, cache },
            (Value::ServerError(_), Written::Forbidden) => {
                Decoded { answer: Answer::Unclear, cache: Cache::ScriptsOnly }
            }
            (Value::ServerError(_), _) if is_forbidden(value) => Decoded { answer: Answer::Unclear, cache },
            (Value::ServerError(e), _) => refused(e),
            _ => NONSENSE.into(),
        };
    };
    let [generation, key] = items.as_slice() else { return NONSENSE.into() };
    let same = match (generation, settled) {
        (Value::BulkString(g), Some(settled)) => g.as_slice() == settled,
        (Value::Nil, None) => true,
        _ => false,
    };
    // A generation that is absent now is remembered: the script takes its absence for a loss of memory, also without
    // quarantine.
    let cache = if same || *generation == Value::Nil { Cache::Keep } else { Cache::Drop };
    let ours = matches!(key, Value::BulkString(v) if command.owner.owns(i, v));
    let answer = match (written, key) {
        (Written::Forbidden, _) => return Decoded { answer: Answer::Unclear, cache: Cache::ScriptsOnly },
        (Written::Error(cause), _) => return Decoded { answer: Answer::Failed(cause.clone()), cache: Cache::Drop },
        (Written::Yes, _) if same && ours => Answer::Yes(None),
        (Written::Yes, _) => Answer::Stale,
        (Written::No, Value::BulkString(_)) => Answer::HeldByOther(None),
        (Written::No, _) => Answer::Unclear,
    };
    Decoded { answer, cache }
}

fn int(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Int(n) => Some(*n),
        _ => None,
    }
}

fn text(value: Option<&Value>) -> Option<&str> {
    match value? {
        Value::BulkString(b) => std::str::from_utf8(b).ok(),
        Value::SimpleString(s) => Some(s),
        Value::Okay => Some("OK"),
        _ => None,
    }
}

fn millis(value: Option<&Value>) -> Option<Duration> {
    int(value).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis)
}

/// The answer of a script; nonsense if the shape is not what `operation` expects.
pub(crate) fn script(operation: &Operation, value: &Value) -> Decoded {
    if let Value::ServerError(e) = value {
        return refused(e);
    }
    let decoded = match (operation, value) {
        (Operation::Notify(_), Value::Int(_)) => Some(Answer::Yes(None).into()),
        (Operation::Release { .. }, Value::Int(n)) => Some(released(*n).into()),
        (Operation::Status, Value::Array(items)) => view(items).map(|v| Answer::View(Box::new(v)).into()),
        (Operation::Blank { .. } | Operation::Init { .. }, Value::Array(items)) => {
            ground(items).map(|g| Answer::Ground(g).into())
        }
        (Operation::Release { .. } | Operation::Notify(_) | Operation::Status, _) => None,
        (_, Value::Array(items)) => vote(operation, items),
        _ => None,
    };
    decoded.unwrap_or_else(|| NONSENSE.into())
}

/// What a release answers that notified a waiter.
pub(super) const RELEASED_AND_NOTIFIED: u64 = 2;
/// What a release answers that found waiters, and notified none.
pub(super) const RELEASED_NOT_NOTIFIED: u64 = 3;

fn released(n: i64) -> Answer {
    match n {
        -1 => Answer::Absent,
        n if n < 0 => Answer::HeldByOther(None),
        n => Answer::Yes(Some(n.unsigned_abs())),
    }
}

fn vote(operation: &Operation, items: &[Value]) -> Option<Decoded> {
    let answer = match (int(items.first())?, &items[1..]) {
        (1, rest) => return granted(operation, rest),
        (0, [ttl]) => Answer::HeldByOther(millis(Some(ttl))),
        (2, []) => Answer::Absent,
        (-1, [wait]) => return Some(Decoded { answer: Answer::Quarantined(millis(Some(wait))?), cache: Cache::Drop }),
        (-2, [kind]) => Answer::Conflict(text(Some(kind))?.to_string()),
        (-4, [theirs]) => {
            let answer = Answer::Mismatch(text(Some(theirs))?.to_string());
            return Some(Decoded { answer, cache: Cache::Foreign });
        }
        (-5, []) => Answer::Failed(Cause::FenceRange),
        (-6, []) => Answer::Failed(Cause::Changed),
        _ => return None,
    };
    Some(answer.into())
}

/// A yes, in the one shape that the operation's script gives it.
fn granted(operation: &Operation, rest: &[Value]) -> Option<Decoded> {
    let (settled, counter) = match (operation, rest) {
        (Operation::Revoke { .. }, [ttl]) => {
            return Some(Answer::Yes(Some(u64::try_from(int(Some(ttl))?).ok()?)).into());
        }
        (Operation::ExtendMany { leases, .. }, [settled, Value::Array(codes)]) if codes.len() == leases.len() => {
            let each = codes.iter().map(|code| renewed(int(Some(code))?)).collect::<Option<Vec<_>>>()?;
            return Some(Decoded { answer: Answer::Many(each), cache: settle(settled)? });
        }
        (Operation::Acquire { fence: false, .. }, [settled, none]) if text(Some(none)) == Some("") => (settled, None),
        (Operation::Acquire { .. } | Operation::Fence | Operation::WriteBack(_), [settled, counter]) => {
            (settled, Some(text(Some(counter))?.parse().ok()?))
        }
        (Operation::Extend { .. } | Operation::Adopt { .. } | Operation::Verify, [settled]) => (settled, None),
        _ => return None,
    };
    Some(Decoded { answer: Answer::Yes(counter), cache: settle(settled)? })
}

/// The generation that a yes comes with; empty if the one sent was it, [`ABSENT`] if there is none.
fn settle(value: &Value) -> Option<Cache> {
    let Value::BulkString(settled) = value else { return None };
    Some(match settled.as_slice() {
        [] => Cache::Keep,
        ABSENT => Cache::Absent,
        generation => Cache::Settle(generation.into()),
    })
}

/// What was found for one of many leases.
fn renewed(code: i64) -> Option<Answer> {
    match code {
        1 => Some(Answer::Yes(None)),
        0 => Some(Answer::HeldByOther(None)),
        2 => Some(Answer::Absent),
        -2 => Some(Answer::Conflict("another type".into())),
        _ => None,
    }
}

/// What an init has found on a master.
fn ground(items: &[Value]) -> Option<Ground> {
    let [found, others, votes] = items else { return None };
    let found = Some(text(Some(found))?).filter(|g| !g.is_empty()).map(String::from);
    let others = u64::try_from(int(Some(others))?).ok()?;
    Some(Ground { text: found, others, votes: int(Some(votes))? == 1 })
}

fn view(items: &[Value]) -> Option<MasterView> {
    let [kind, value, ttl, fence, generation, time] = items else { return None };
    let kind = text(Some(kind))?;
    let holder = match value {
        Value::BulkString(v) if kind == "string" => Some(Holder::parse(v)),
        _ => None,
    };
    Some(MasterView {
        holder,
        foreign_type: (!matches!(kind, "string" | "none")).then(|| kind.to_string()),
        ttl: millis(Some(ttl)),
        fence: text(Some(fence)).and_then(|c| c.parse().ok()),
        generation: text(Some(generation)).and_then(Generation::parse),
        time_us: text(Some(time))?.parse().ok()?,
    })
}
