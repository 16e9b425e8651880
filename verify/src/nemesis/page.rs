//! The page of a run: one file that needs nothing else, with a timeline of holders and faults.

use super::check::{History, overlaps};
use super::conduct::Injected;
use super::faults::Fault;
use super::history::{Hold, Kind};
use super::{arena, report};
use crate::Verdict;
use serde_json::{Value, json};

const TEMPLATE: &str = include_str!("page.html");
const DATA: &str = "/*DATA*/null";

/// The page.
pub fn page(histories: &[History], verdict: &Verdict, command: &str, date: &str) -> String {
    let arenas: Vec<Value> = histories.iter().map(arena_of).collect();
    let data = json!({
        "held": verdict.held,
        "line": verdict.line,
        "command": command,
        "date": date,
        "arenas": arenas,
    });
    // No string of the history may end the script.
    TEMPLATE.replace(DATA, &data.to_string().replace("</", "<\\/"))
}

fn arena_of(history: &History) -> Value {
    let start = history.span.0;
    let row = |(i, kind): (usize, &Kind)| match kind {
        Kind::Library => format!("worker {}", i + 1),
        Kind::Command => format!("redleash run {}", i + 1 - arena::WORKERS),
    };
    let ms = |at: u64| at.saturating_sub(start) as f64 / 1e6;
    let fault = |f: &Injected| {
        json!({
            "what": f.fault.name(), "group": group(f.fault), "masters": f.masters, "row": f.row,
            "from": ms(f.from), "to": ms(f.to), "detail": f.detail,
        })
    };
    let overlap = |o: super::check::Overlap| {
        let from = ms(o.second.from);
        json!({ "name": o.second.name, "from": from, "to": from + o.by.as_secs_f64() * 1e3 })
    };
    json!({
        "title": history.setup.title(),
        "seed": history.setup.seed.to_string(),
        "length": ms(history.span.1),
        "healed": ms(history.healed),
        "masters": history.setup.masters,
        "locks": arena::LOCKS,
        "quarantine": if history.setup.no_quarantine { 0 } else { arena::MAX_LEASE.as_millis() as u64 * 102 / 100 },
        "rows": history.rows.iter().enumerate().map(row).collect::<Vec<_>>(),
        "figures": report::figures(history),
        "tolls": report::tolls(history).iter()
            .map(|(fault, times, median, maximum)| json!([fault.name(), times, median, maximum])).collect::<Vec<_>>(),
        "violations": history.violations().iter().chain(&history.vacuous()).collect::<Vec<_>>(),
        "faults": history.faults.iter().map(fault).collect::<Vec<_>>(),
        "overlaps": overlaps(&history.holds).into_iter().map(overlap).collect::<Vec<_>>(),
        "holds": packed(history),
    })
}

/// The colour of a fault.
fn group(fault: Fault) -> &'static str {
    use Fault::*;
    match fault {
        RequestsParted | RepliesParted | Parted | Refused | Slow | Cut => "network",
        KilledEmpty | KilledAof | Flushed | Evicted => "memory",
        Stopped | Full | ScriptsFlushed => "stopped",
        ClockForward | ClockBack => "clock",
        WorkerStopped | WorkerPaused | WorkerKilled | RunStopped | RunKilled => "worker",
    }
}

/// All holds in the order of their grants, as variable-length numbers in base 64: a long run has tens of thousands.
///
/// Times are in tenths of a millisecond. Each hold has: the time since the last one; lock and row; length; the time
/// from its end to its deadline; 1 if lost, plus 2 if released; its token, as the difference from what it would be if
/// it rose with the clock (0: none).
fn packed(history: &History) -> Value {
    let tenth = |at: u64| at.saturating_sub(history.span.0) / 100_000;
    let mut holds: Vec<&Hold> = history.holds.iter().collect();
    holds.sort_by_key(|hold| hold.from);
    let mut bytes = Vec::new();
    let mut last = 0;
    let mut token = holds.iter().find_map(|hold| hold.token).unwrap_or(0);
    let first = token;
    let mut reasons: Vec<&str> = Vec::new();
    for hold in &holds {
        let from = tenth(hold.from);
        let end = tenth(hold.end()).max(from);
        let lost = hold.lost.as_ref().map(|(at, reason)| {
            let known = reasons.iter().position(|known| known == reason).unwrap_or(reasons.len());
            if known == reasons.len() {
                reasons.push(reason);
            }
            (known as u64, tenth(*at))
        });
        number(&mut bytes, from - last);
        number(&mut bytes, (hold.name + arena::LOCKS * hold.worker) as u64);
        number(&mut bytes, end - from);
        number(&mut bytes, tenth(hold.until).saturating_sub(end));
        number(&mut bytes, u64::from(lost.is_some()) + 2 * u64::from(hold.left.is_some()));
        if let Some((reason, at)) = lost {
            number(&mut bytes, reason);
            number(&mut bytes, at.saturating_sub(from));
        }
        token += (from - last) * 100;
        match hold.token {
            None => number(&mut bytes, 0),
            Some(own) => {
                let difference = own as i64 - token as i64;
                // Zigzag, and 0 is taken.
                number(&mut bytes, ((difference << 1) ^ (difference >> 63)) as u64 + 1);
                token = own;
            }
        }
        last = from;
    }
    json!({ "count": holds.len(), "token": first, "reasons": reasons, "data": base64(&bytes) })
}

fn number(bytes: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let n = chunk.iter().chain([0, 0].iter()).take(3).fold(0_usize, |n, byte| n << 8 | usize::from(*byte));
        let digits = [18, 12, 6, 0].map(|shift| char::from(DIGITS[n >> shift & 63]));
        let kept = chunk.len() + 1;
        digits.into_iter().enumerate().map(move |(i, digit)| if i < kept { digit } else { '=' })
    };
    bytes.chunks(3).flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_64_is_the_common_one() {
        for (text, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")] {
            assert_eq!(base64(text.as_bytes()), coded);
        }
    }

    #[test]
    fn the_template_has_its_place_for_the_data() {
        assert_eq!(TEMPLATE.matches(DATA).count(), 1);
        assert!(!TEMPLATE.contains("http:") && !TEMPLATE.contains("https:"));
    }
}
