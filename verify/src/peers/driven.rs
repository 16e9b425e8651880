//! redleash itself, driven like its peers: see "The duel" in `bench/peers/README.md`.

use super::duel::Answer;
use redleash::{Client, Error, Lease, LockGuard, Options, ReleaseOutcome};
use redleash_testkit::wait_until;
use std::collections::HashMap;
use std::io::{self, BufRead, Write};
use std::time::Duration;

/// How long the masters may take until all are connected.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Answers the questions on stdin until it ends. The first answer says whether the masters were accepted.
///
/// # Errors
///
/// If stdin or stdout fails.
pub fn serve(addresses: &str, ttl: Duration, fault_margin: usize) -> io::Result<()> {
    let urls = addresses.split(',').map(|address| format!("redis://{address}"));
    let client = match Client::builder().nodes(urls).fault_margin(fault_margin).build() {
        Ok(client) => client,
        Err(error) => return say(&no(&error)),
    };
    match settle(&client) {
        Ok(()) => say(&Answer { ok: true, ..Answer::default() })?,
        Err(error) => return say(&no(&error)),
    }
    let mut held = HashMap::new();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (question, name) = line.split_once(' ').unwrap_or((&line, ""));
        say(&answer(&client, &mut held, question, name, ttl))?;
    }
    Ok(())
}

/// Settles new masters. The second client of the same masters finds that this was done. On a busy machine not all
/// masters are connected at once, so this tries again for a while.
fn settle(client: &Client) -> Result<(), Error> {
    let mut settled = Ok(());
    wait_until(CONNECT_TIMEOUT, || {
        settled = match client.init() {
            Ok(_) | Err(Error::NotBlank(_)) => Ok(()),
            Err(error) => Err(error),
        };
        !matches!(settled, Err(Error::NoQuorum(_)))
    });
    settled
}

fn answer(client: &Client, held: &mut HashMap<String, LockGuard>, question: &str, name: &str, ttl: Duration) -> Answer {
    if question == "acquire" || question == "try" {
        let lock = client.lock(name).options(Options::new().lease(Lease::Watchdog { ttl }));
        let guard = if question == "try" { lock.try_acquire() } else { lock.acquire().map(Some) };
        return match guard {
            Ok(guard) => {
                let ok = guard.is_some();
                held.extend(guard.map(|guard| (name.to_string(), guard)));
                Answer { ok, ..Answer::default() }
            }
            Err(error) => no(&error),
        };
    }
    if question == "release" {
        let released = held.remove(name).map(LockGuard::release);
        return Answer { ok: matches!(released, Some(ReleaseOutcome::Released)), ..Answer::default() };
    }
    let Some(guard) = held.get(name) else {
        return Answer { why: Some("not acquired".into()), ..Answer::default() };
    };
    let result = match question {
        "valid" => guard.check(),
        "ask" => guard.verify(),
        "extend" => guard.extend(ttl),
        _ => return Answer { none: true, ..Answer::default() },
    };
    result.map_or_else(|error| no(&error), |()| Answer { ok: true, ..Answer::default() })
}

fn no(error: &Error) -> Answer {
    Answer { why: Some(error.to_string()), ..Answer::default() }
}

fn say(answer: &Answer) -> io::Result<()> {
    let line = serde_json::to_string(answer).map_err(io::Error::other)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
