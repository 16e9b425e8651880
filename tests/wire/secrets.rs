//! Passwords and tokens: they work, and they are shown nowhere.

use crate::support::child::ran_alone;
use crate::support::{self, DEADLINE, builder, masters, masters_with, secs, settle, settled, value};
use redleash::{Client, Error, ReleaseOutcome};
use std::sync::Mutex;

const PASSWORD: &str = "c0rrect-horse";
const WRONG: &str = "wr0ng-battery";

/// Everything the library logs, at every level.
struct Log(Mutex<String>);

static LOG: Log = Log(Mutex::new(String::new()));

impl log::Log for Log {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        *self.0.lock().unwrap() += &format!("{} {}: {}\n", record.level(), record.target(), record.args());
    }

    fn flush(&self) {}
}

fn listen() {
    if log::set_logger(&LOG).is_ok() {
        log::set_max_level(log::LevelFilter::Trace);
    }
}

#[track_caller]
fn silent(what: &str, text: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!text.contains(secret), "{what} tells {secret:?}: {text}");
    }
}

#[test]
fn the_right_password_works_and_the_wrong_one_says_so() {
    if ran_alone() {
        return;
    }
    listen();
    let Some(masters) = masters_with(3, &["--requirepass", PASSWORD]) else { return };
    let secrets = [PASSWORD, WRONG];
    let right = builder(masters.urls());
    silent("Debug of the builder", &format!("{right:?} {right:#?}"), &secrets);
    let client = settle(right);
    let lock = client.lock("x");
    let guard = lock.acquire().unwrap();
    silent("Debug of what works", &format!("{client:?} {lock:?} {guard:?} {:?}", client.reentrant_lock("x")), &secrets);
    silent("status", &format!("{0} {0:?}", client.status("x").unwrap()), &secrets);
    silent("guarantees", &format!("{0} {0:?}", client.guarantees()), &secrets);
    assert_eq!(guard.release(), ReleaseOutcome::Released);

    let wrong: Vec<String> = masters.iter().map(|m| m.url().replace(PASSWORD, WRONG)).collect();
    let none: Vec<String> = masters.iter().map(|m| format!("redis://127.0.0.1:{}", m.port())).collect();
    for urls in [wrong, none] {
        let builder = builder(urls).outage_patience(secs(1));
        silent("Debug of the builder", &format!("{builder:?}"), &secrets);
        let error = match builder.build() {
            Ok(client) => {
                silent("Debug of the client", &format!("{client:?}"), &secrets);
                silent("status", &format!("{0} {0:?}", client.status("x").unwrap()), &secrets);
                client.lock("x").acquire().unwrap_err()
            }
            Err(error) => error,
        };
        let text = format!("{error} {error:?}");
        silent("the error", &text, &secrets);
        assert!(["AUTH", "password", "uthenticat"].iter().any(|w| text.contains(w)), "it says what is wrong: {text}");
        assert!(masters.iter().all(|m| text.contains(&m.port().to_string())), "{text}");
    }
    // Connections that are lost and made again are logged too.
    client.lock("y").acquire().unwrap().check().unwrap();
    masters[0].restart_empty().unwrap();
    drop(client.lock("y").acquire().unwrap());
    client.close(DEADLINE);
    let logged = LOG.0.lock().unwrap().clone();
    silent("the log", &logged, &secrets);
    assert!(!logged.is_empty(), "there is something to look at");
}

#[test]
fn a_wrong_password_on_one_master_is_an_error_of_the_configuration() {
    let Some(masters) = masters_with(3, &["--requirepass", PASSWORD]) else { return };
    drop(settle(builder(masters.urls())));
    let mut urls = masters.urls();
    urls[1] = urls[1].replace(PASSWORD, WRONG);
    let error = builder(urls).build().unwrap_err();
    assert!(matches!(error, Error::Config(_)) && !error.is_retryable(), "{error:?}");
    silent("the error", &format!("{error} {error:?}"), &[PASSWORD, WRONG]);
    assert!(error.to_string().contains(&masters[1].port().to_string()), "{error}");
}

#[test]
fn malformed_urls_are_not_repeated_with_their_password() {
    for url in [
        format!("redis://:{PASSWORD}@"),
        format!("redis://user:{PASSWORD}@host:notaport"),
        format!("http://user:{PASSWORD}@host"),
        format!("redis://user:{PASSWORD}@host/notadb"),
        format!("rediss://user:{PASSWORD}@host"),
        format!("redis-cluster://user:{PASSWORD}@host"),
        format!("redis://user:{PASSWORD}@[::1"),
        format!("user:{PASSWORD}@host"),
    ] {
        let builder = Client::builder().node(url.clone());
        silent("Debug of the builder", &format!("{builder:?}"), &[PASSWORD]);
        match builder.build() {
            Err(error @ Error::Config(_)) => silent("the error", &format!("{error} {error:?}"), &[PASSWORD]),
            Err(other) => panic!("{url}: {other:?}"),
            // Some of these may be read as a host that does not answer.
            Ok(client) => {
                silent("the client", &format!("{client:?} {:?}", client.lock("x").try_acquire()), &[PASSWORD])
            }
        }
    }
}

#[test]
fn the_token_is_shown_nowhere() {
    if ran_alone() {
        return;
    }
    listen();
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.lock("x");
    let guard = lock.acquire().unwrap();
    let held = masters.iter().find_map(|m| value(m, "x")).unwrap();
    let token = held.split('|').next().unwrap();
    assert_eq!(token.len(), 32, "128 bits: {held}");
    silent("guard", &format!("{guard:?} {lock:?} {client:?}"), &[token]);
    silent("status", &format!("{0} {0:?}", client.status("x").unwrap()), &[token]);
    silent("refusal", &format!("{:?}", client.lock("x").try_acquire()), &[token]);
    let tries = redleash::Options::new().tries(2);
    let error = client.lock("x").options(tries).acquire().unwrap_err();
    silent("error", &format!("{error} {error:?}"), &[token]);
    // Each master has a value of its own, and each attempt a token of its own.
    let values: Vec<_> = masters.iter().filter_map(|m| value(m, "x")).collect();
    assert!(values.iter().all(|v| v.starts_with(token)));
    assert_ne!(values[0], values[1]);
    drop(guard);
    support::no_keys_left(&masters);
    let again = lock.acquire().unwrap();
    let next = masters.iter().find_map(|m| value(m, "x")).unwrap();
    assert_ne!(next.split('|').next().unwrap(), token);
    let handle = again.detach().unwrap();
    let next = next.split('|').next().unwrap();
    silent("handle", &format!("{handle:?} {handle:#?}"), &[next]);
    assert!(handle.to_string().contains(next), "this is the one place that tells");
    client.close(DEADLINE); // which waits for the log
    silent("the log", &LOG.0.lock().unwrap(), &[token, next]);
}
