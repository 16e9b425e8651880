//! The data of one simulated Redis, and the commands that redleash uses.

use super::resp::Reply;
use std::collections::BTreeMap;

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// A string.
    Text(Vec<u8>),
    /// A list; what it holds is of no interest here.
    List(i64),
}

#[derive(Clone, Debug)]
struct Key {
    data: Data,
    /// In milliseconds of the server's wall clock; the key is absent when the clock is *after* it.
    expires: Option<i64>,
}

/// A change of a key, for the checks.
#[derive(Clone, Debug)]
pub enum Change {
    /// A string was written, or its life changed; when it expires.
    Written(Vec<u8>, Vec<u8>, Option<i64>),
    /// A string was deleted by a command.
    Deleted(Vec<u8>, Vec<u8>),
}

/// The keys of one server.
#[derive(Clone, Debug, Default)]
pub struct Keyspace {
    keys: BTreeMap<Vec<u8>, Key>,
    /// What has been changed since somebody looked.
    pub changes: Vec<Change>,
    /// What has been published since somebody looked: channels and payloads.
    pub published: Vec<(Vec<u8>, Vec<u8>)>,
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_A_NUMBER: &str = "ERR value is not an integer or out of range";

fn number(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let plain = text == "0" || !text.trim_start_matches('-').starts_with(['0', '+']);
    text.parse().ok().filter(|_| plain && text != "-0")
}

fn wrong_arguments(name: &str) -> Reply {
    Reply::error(format!("ERR wrong number of arguments for '{name}' command"))
}

impl Keyspace {
    /// The keys that are there, expired ones included.
    pub fn names(&self) -> Vec<Vec<u8>> {
        self.keys.keys().cloned().collect()
    }

    /// Drops a key as an eviction does: without notice.
    pub fn evict(&mut self, name: &[u8]) {
        self.keys.remove(name);
    }

    /// The string at a key and when it expires.
    pub fn text(&self, name: &[u8], now_ms: i64) -> Option<(&[u8], Option<i64>)> {
        match self.keys.get(name).filter(|k| k.expires.is_none_or(|at| now_ms <= at)) {
            Some(Key { data: Data::Text(text), expires }) => Some((text, *expires)),
            _ => None,
        }
    }

    fn live(&mut self, name: &[u8], now_ms: i64) -> Option<&mut Key> {
        if self.keys.get(name)?.expires.is_some_and(|at| now_ms > at) {
            self.keys.remove(name);
        }
        self.keys.get_mut(name)
    }

    /// Runs one command other than the scripts' at this time of the server's clock.
    pub fn run(&mut self, words: &[&[u8]], now_us: i64) -> Reply {
        let now = now_us.div_euclid(1_000);
        let Some((name, rest)) = words.split_first() else { return Reply::error("ERR empty") };
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        match (name.as_str(), rest) {
            ("get", [key]) => match self.live(key, now) {
                None => Reply::Nil,
                Some(Key { data: Data::Text(text), .. }) => Reply::Bulk(text.clone()),
                Some(_) => Reply::error(WRONG_TYPE),
            },
            ("mget", keys) if !keys.is_empty() => {
                let get = |key: &&[u8]| match self.live(key, now) {
                    Some(Key { data: Data::Text(text), .. }) => Reply::Bulk(text.clone()),
                    _ => Reply::Nil,
                };
                Reply::Array(keys.iter().map(get).collect())
            }
            ("set", [key, value, options @ ..]) => self.set(key, value, options, now),
            ("del", keys) if !keys.is_empty() => {
                Reply::Int(keys.iter().filter(|key| self.delete(key, now)).count() as i64)
            }
            ("exists", keys) if !keys.is_empty() => {
                Reply::Int(keys.iter().filter(|key| self.live(key, now).is_some()).count() as i64)
            }
            ("pttl", [key]) => Reply::Int(match self.live(key, now) {
                None => -2,
                Some(Key { expires: None, .. }) => -1,
                Some(Key { expires: Some(at), .. }) => (*at - now).max(0),
            }),
            ("pexpire", [key, ms]) => match number(ms) {
                Some(ms) => self.expire(key, now.saturating_add(ms), now),
                None => Reply::error(NOT_A_NUMBER),
            },
            ("pexpireat", [key, at]) => match number(at) {
                Some(at) => self.expire(key, at, now),
                None => Reply::error(NOT_A_NUMBER),
            },
            ("persist", [key]) => Reply::Int(match self.live(key, now) {
                Some(key) => i64::from(key.expires.take().is_some()),
                None => 0,
            }),
            ("type", [key]) => Reply::Status(
                match self.live(key, now) {
                    None => "none",
                    Some(Key { data: Data::Text(_), .. }) => "string",
                    Some(_) => "list",
                }
                .into(),
            ),
            ("rpush", [key, _value]) => match self.live(key, now) {
                Some(Key { data: Data::List(n), .. }) => {
                    *n += 1;
                    Reply::Int(*n)
                }
                Some(_) => Reply::error(WRONG_TYPE),
                None => {
                    self.keys.insert(key.to_vec(), Key { data: Data::List(1), expires: None });
                    Reply::Int(1)
                }
            },
            ("time", []) => {
                let part = |n: i64| Reply::Bulk(n.to_string().into_bytes());
                Reply::Array(vec![part(now_us.div_euclid(1_000_000)), part(now_us.rem_euclid(1_000_000))])
            }
            ("dbsize", []) => {
                self.keys.retain(|_, key| key.expires.is_none_or(|at| now <= at));
                Reply::Int(self.keys.len() as i64)
            }
            ("flushall", []) => {
                self.keys.clear();
                Reply::ok()
            }
            ("publish", [channel, payload]) => {
                self.published.push((channel.to_vec(), payload.to_vec()));
                Reply::Int(0)
            }
            ("ping", []) => Reply::Status("PONG".into()),
            (
                "get" | "mget" | "set" | "del" | "exists" | "pttl" | "pexpire" | "pexpireat" | "persist" | "type"
                | "rpush" | "time" | "dbsize" | "publish",
                _,
            ) => wrong_arguments(&name),
            _ => Reply::error(format!("ERR unknown command '{name}'")),
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8], options: &[&[u8]], now: i64) -> Reply {
        let (mut absent, mut present, mut keep, mut life) = (false, false, false, None);
        let mut rest = options;
        while let Some((option, after)) = rest.split_first() {
            rest = after;
            match option.to_ascii_uppercase().as_slice() {
                b"NX" if !present => absent = true,
                b"XX" if !absent => present = true,
                b"KEEPTTL" if life.is_none() => keep = true,
                unit @ (b"PX" | b"EX") if life.is_none() && !keep => {
                    let Some((word, after)) = rest.split_first() else { return Reply::error("ERR syntax error") };
                    rest = after;
                    let factor = if unit == b"EX" { 1_000 } else { 1 };
                    life = Some((*word, factor));
                }
                _ => return Reply::error("ERR syntax error"),
            }
        }
        let mut expires = None;
        if let Some((word, factor)) = life {
            let Some(n) = number(word) else { return Reply::error(NOT_A_NUMBER) };
            if n <= 0 || n > (i64::MAX - now) / factor {
                return Reply::error("ERR invalid expire time in 'set' command");
            }
            expires = Some(now + n * factor);
        }
        let former = self.live(key, now).map(|k| k.expires);
        if (absent && former.is_some()) || (present && former.is_none()) {
            return Reply::Nil;
        }
        if keep {
            expires = former.flatten();
        }
        self.changes.push(Change::Written(key.to_vec(), value.to_vec(), expires));
        self.keys.insert(key.to_vec(), Key { data: Data::Text(value.to_vec()), expires });
        Reply::ok()
    }

    fn delete(&mut self, name: &[u8], now: i64) -> bool {
        if self.live(name, now).is_none() {
            return false;
        }
        let key = self.keys.remove(name);
        if let Some(Key { data: Data::Text(text), .. }) = key {
            self.changes.push(Change::Deleted(name.to_vec(), text));
        }
        true
    }

    fn expire(&mut self, name: &[u8], at: i64, now: i64) -> Reply {
        let Some(key) = self.live(name, now) else { return Reply::Int(0) };
        if at <= now {
            self.delete(name, now);
            return Reply::Int(1);
        }
        key.expires = Some(at);
        if let Data::Text(text) = &key.data {
            let change = Change::Written(name.to_vec(), text.clone(), Some(at));
            self.changes.push(change);
        }
        Reply::Int(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(keys: &mut Keyspace, line: &str, ms: i64) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        keys.run(&words, ms * 1_000)
    }

    #[test]
    fn a_key_is_gone_when_the_clock_is_after_its_expiry() {
        let mut keys = Keyspace::default();
        assert_eq!(run(&mut keys, "SET k v PX 10 NX", 100), Reply::ok());
        assert_eq!(run(&mut keys, "SET k w PX 10 NX", 110), Reply::Nil);
        assert_eq!(run(&mut keys, "PTTL k", 110), Reply::Int(0));
        assert_eq!(run(&mut keys, "GET k", 111), Reply::Nil);
        assert_eq!(run(&mut keys, "PTTL k", 111), Reply::Int(-2));
    }

    #[test]
    fn a_clock_that_steps_back_prolongs_a_life_that_has_not_been_looked_at() {
        let mut keys = Keyspace::default();
        run(&mut keys, "SET k v PX 10", 100);
        assert_eq!(run(&mut keys, "PTTL k", 50), Reply::Int(60));
    }

    #[test]
    fn keepttl_keeps_it() {
        let mut keys = Keyspace::default();
        run(&mut keys, "SET k v PX 10", 100);
        run(&mut keys, "SET k w KEEPTTL", 105);
        assert_eq!(run(&mut keys, "PTTL k", 105), Reply::Int(5));
        run(&mut keys, "SET k w", 105);
        assert_eq!(run(&mut keys, "PTTL k", 105), Reply::Int(-1));
    }
}
