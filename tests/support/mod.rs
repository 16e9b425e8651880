//! What the integration tests share: real masters, clients for them, and ways to wait for a state.
#![allow(dead_code, unreachable_pub, reason = "every test binary includes this and uses a part")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test may stop at the first surprise, and reads the clock that its user reads"
)]

pub mod child;
pub mod proc;

use redleash::{Client, ClientBuilder, Error, LockGuard, LossReason, Lost};
use redleash_testkit::{Masters, Reply, Server, wait_until};
use std::collections::BTreeSet;
use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for a state at most. States come at once; this is for a machine that is small and busy.
pub const DEADLINE: Duration = Duration::from_secs(20);

pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// The connections that clients have to this master, by their number there.
pub fn connections(master: &Server) -> BTreeSet<u64> {
    let list = master.command(&["CLIENT", "LIST"]).unwrap().text().unwrap();
    let others = list.lines().filter(|line| !line.contains("cmd=client"));
    let id = |line: &str| line.split_whitespace().find_map(|word| word.strip_prefix("id=")?.parse().ok());
    others.filter_map(id).collect()
}

/// `n` fresh masters; `None`, and said loudly, where there is no redis-server.
pub fn masters(n: usize) -> Option<Masters> {
    masters_with(n, &[])
}

pub fn masters_with(n: usize, args: &[&str]) -> Option<Masters> {
    (!redleash_testkit::skipped()).then(|| Masters::start_with(n, args).unwrap())
}

/// Writes past the harness's capture: a test that could not run must not look like one that passed.
pub fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// A builder whose limits leave room for a machine that is busy. Tests about the limits set their own.
pub fn builder<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> ClientBuilder {
    Client::builder()
        .nodes(urls)
        .connect_timeout(secs(2))
        .master_timeout(secs(1))
        .round_timeout(secs(1))
        .hang_timeout(secs(2))
}

/// A client of masters that are settled already.
pub fn client(masters: &Masters) -> Client {
    builder(masters.urls()).build().unwrap()
}

/// A client of fresh masters, which it settles: the whole protocol, quarantine included, is in force.
pub fn settled(masters: &Masters) -> Client {
    settle(builder(masters.urls()))
}

pub fn settle(builder: ClientBuilder) -> Client {
    let client = builder.build().unwrap();
    client.init().unwrap();
    client
}

/// Lets `span` pass while something is held or watched. This waits for no state (for that there is `eventually`): the
/// time itself is what is tested, such as a lease that must survive it.
pub fn let_pass(span: Duration) {
    thread::sleep(span);
}

/// Looks at `holds` every few milliseconds for `span`; it must be true every time.
#[track_caller]
pub fn always(span: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < span {
        assert!(holds(), "not any more after {:?}: {what}", start.elapsed());
        thread::sleep(ms(5));
    }
}

/// Waits for a state; fails the test if it does not come.
#[track_caller]
pub fn eventually(what: &str, state: impl FnMut() -> bool) {
    assert!(wait_until(DEADLINE, state), "it did not come to this within {DEADLINE:?}: {what}");
}

pub fn lock_key(name: &str) -> String {
    format!("rl:L:{{{name}}}")
}

pub fn fence_key(name: &str) -> String {
    format!("rl:F:{{{name}}}")
}

/// The key of a master's generation.
pub const GENERATION: &str = "rl:N";

/// The value of the lock's key on one master.
pub fn value(master: &Server, name: &str) -> Option<String> {
    master.command(&["GET", &lock_key(name)]).unwrap().text()
}

/// What is left of the key's life on one master; `None` if it is not there.
pub fn pttl(master: &Server, name: &str) -> Option<Duration> {
    let left = master.command(&["PTTL", &lock_key(name)]).unwrap().int().unwrap();
    u64::try_from(left).ok().map(Duration::from_millis)
}

/// The number of lock keys on one master.
pub fn lock_keys(master: &Server) -> usize {
    match master.command(&["KEYS", "rl:L:*"]).unwrap() {
        Reply::Array(keys) => keys.len(),
        other => panic!("KEYS answered {other:?}"),
    }
}

/// Waits until no master has the key of any lock.
#[track_caller]
pub fn no_keys_left(masters: &[Server]) {
    let gone = wait_until(DEADLINE, || masters.iter().all(|m| lock_keys(m) == 0));
    let left = masters.iter().map(|m| m.command(&["KEYS", "rl:L:*"]).unwrap());
    assert!(gone, "there are keys left: {:?}", left.map(|keys| keys.items().to_vec()).collect::<Vec<_>>());
}

/// Puts a key of somebody else's in the way, which no client may touch.
pub fn occupy(master: &Server, name: &str) {
    assert!(master.command(&["SET", &lock_key(name), "somebody else", "PX", "120000"]).unwrap().is_ok());
}

pub fn vacate(master: &Server, name: &str) {
    assert_eq!(master.command(&["DEL", &lock_key(name)]).unwrap().int(), Some(1));
}

/// Why the guard is lost; fails if it is not.
#[track_caller]
pub fn reason(result: Result<(), Error>) -> LossReason {
    match result {
        Err(Error::Lost(Lost { reason, .. })) => reason,
        other => panic!("expected Lost, got {other:?}"),
    }
}

/// Releases that are tried again, and those that were left to their ttl.
pub fn undelivered(client: &Client) -> (usize, u64) {
    let undelivered = client.undelivered();
    (undelivered.pending, undelivered.left_to_ttl)
}

/// The instant at which the guard's lease ends if nobody renews it.
pub fn deadline(guard: &LockGuard) -> Instant {
    Instant::now() + guard.remaining()
}
