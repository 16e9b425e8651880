//! rslock driven by stdin: see "The duel" in the README of the peers.
use rslock::{Lock, LockManager};
use std::collections::HashMap;
use std::io::{stdin, BufRead};
use std::time::{Duration, Instant};

/// A lock, and when the call that granted it returned: its validity counts from there.
type Held = HashMap<String, (Lock, Instant)>;

pub async fn duel(masters: &str, ttl: Duration) {
    let uris: Vec<String> = masters.split(',').map(|address| format!("redis://{address}/")).collect();
    let patient = LockManager::new(uris);
    let mut once = patient.clone();
    once.set_retry(1, Duration::from_millis(200));
    let mut held = Held::new();
    say(Ok(true));
    for line in stdin().lock().lines().map_while(Result::ok) {
        let (op, name) = line.split_once(' ').unwrap_or((&line, ""));
        let manager = if op == "try" { &once } else { &patient };
        say(answer(manager, &mut held, op, name, ttl).await);
    }
}

async fn answer(manager: &LockManager, held: &mut Held, op: &str, name: &str, ttl: Duration) -> Result<bool, String> {
    let text = |e: rslock::LockError| e.to_string();
    if op == "acquire" || op == "try" {
        let lock = manager.lock(name, ttl).await.map_err(text)?;
        held.insert(name.into(), (lock, Instant::now()));
        return Ok(true);
    }
    let (lock, since) = held.remove(name).ok_or("not acquired")?;
    let kept = match op {
        "release" => {
            lock.release().await;
            return Ok(true);
        }
        "extend" => match manager.extend(&lock, ttl).await {
            Ok(longer) => Ok((longer, Instant::now())),
            Err(error) => Err(((lock, since), text(error))),
        },
        _ => Ok((lock, since)),
    };
    let (entry, error) = match kept {
        Ok(entry) => (entry, None),
        Err((entry, error)) => (entry, Some(error)),
    };
    let valid = entry.1.elapsed().as_millis() < entry.0.validity_time as u128;
    held.insert(name.into(), entry);
    match (op, error) {
        (_, Some(error)) => Err(error),
        ("valid", None) => Ok(valid),
        ("extend", None) => Ok(true),
        _ => Err("none".into()), // rslock cannot ask the masters whether a lock is held
    }
}

fn say(answer: Result<bool, String>) {
    match answer {
        Ok(ok) => println!("{{\"ok\":{ok}}}"),
        Err(why) if why == "none" => println!("{{\"ok\":false,\"none\":true}}"),
        Err(why) => println!("{{\"ok\":false,\"why\":{why:?}}}"),
    }
}
