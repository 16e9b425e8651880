//! Wrong input is an error that names the field and the limit, before anything is sent: no server runs here.

use crate::support::{self, masters, ms, secs};
use redleash::{Client, ClientBuilder, Error, Lease, MIN_TTL, Options, ReleaseOutcome, Retry};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Addresses at which nobody listens.
fn nobody(n: usize) -> Vec<String> {
    let listeners: Vec<_> = (0..n).map(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap()).collect();
    listeners.iter().map(|l| format!("redis://127.0.0.1:{}", l.local_addr().unwrap().port())).collect()
}

#[track_caller]
fn config<T: std::fmt::Debug>(result: Result<T, Error>, field: &str, limit: &str) {
    match result {
        Err(error @ Error::Config(_)) => {
            let Error::Config(ref config) = error else { unreachable!() };
            assert_eq!(config.field, field, "{error}");
            let text = error.to_string();
            assert!(text.contains(field) && text.contains(limit), "{text:?} lacks {field:?} or {limit:?}");
            assert!(!error.is_retryable() && error.tally().is_none());
        }
        other => panic!("{field}: expected a configuration error, got {other:?}"),
    }
}

/// The same where the text of the limit is tested elsewhere.
#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, Error>, field: &str) {
    config(result, field, field);
}

/// What `build` says to a change of otherwise good settings.
#[track_caller]
fn build(field: &str, limit: &str, change: impl FnOnce(ClientBuilder) -> ClientBuilder) {
    config(change(Client::builder().nodes(nobody(3))).build(), field, limit);
}

#[test]
fn nodes() {
    config(Client::builder().build(), "nodes", "none");
    config(Client::builder().nodes((0..200).map(|i| format!("redis://10.0.0.{i}"))).build(), "nodes", "limit");
    let same = nobody(1).remove(0);
    config(Client::builder().node(same.clone()).node(same).build(), "nodes", "twice");
    config(Client::builder().node("redis://h:6379").node("redis://h").build(), "nodes", "twice");
    for malformed in
        ["", "nonsense", "redis://", "http://h", "redis://h:notaport", "redis://h:99999", "redis://h/notadb", "unix://"]
    {
        config(Client::builder().nodes(nobody(1)).node(malformed).build(), "nodes", "master 2");
    }
}

#[test]
fn cluster_sentinel_and_tls_say_why() {
    for (url, why) in [
        ("redis-cluster://h", "luster"),
        ("redis+cluster://h", "luster"),
        ("redis-sentinel://h/mymaster", "entinel"),
        ("redis+sentinel://h/mymaster", "entinel"),
        ("rediss://h", "TLS"),
    ] {
        config(Client::builder().node(url).build(), "nodes", why);
    }
}

#[test]
fn settings_of_the_client() {
    build("ttl", "100ms", |b| b.ttl(ms(99)));
    build("ttl", "100ms", |b| b.ttl(Duration::ZERO));
    build("ttl", "max_lease (60s)", |b| b.ttl(secs(61)));
    build("ttl", "milliseconds", |b| b.ttl(Duration::from_micros(500_500)));
    build("max_lease", "100 ms to 24 h", |b| b.max_lease(ms(99)));
    build("max_lease", "100 ms to 24 h", |b| b.max_lease(secs(86_401)));
    build("drift", "0 to 0.5", |b| b.drift(-0.01));
    build("drift", "0 to 0.5", |b| b.drift(0.51));
    build("drift", "0 to 0.5", |b| b.drift(f64::NAN));
    build("drift", "0 to 0.5", |b| b.drift(f64::INFINITY));
    build("fault_margin", "3", |b| b.fault_margin(3));
    build("namespace", "64", |b| b.namespace("n".repeat(65)));
    build("namespace", "empty", |b| b.namespace(""));
    build("namespace", "brace", |b| b.namespace("a{b}"));
    build("deployment", "64", |b| b.deployment(""));
    build("deployment", "64", |b| b.deployment("a:b"));
    build("deployment", "64", |b| b.deployment("d".repeat(65)));
    build("label", "128", |b| b.label("l".repeat(129)));
    build("label", "control", |b| b.label("a\nb"));
    build("lanes", "1 to 64", |b| b.lanes(0));
    build("lanes", "1 to 64", |b| b.lanes(65));
    build("master_timeout", "1 ms", |b| b.master_timeout(Duration::ZERO));
    build("round_timeout", "1 ms", |b| b.round_timeout(Duration::ZERO));
    build("hang_timeout", "1 ms", |b| b.hang_timeout(Duration::ZERO));
    build("connect_timeout", "1 ms", |b| b.connect_timeout(Duration::ZERO));
    build("connect_timeout", "1 h", |b| b.connect_timeout(Duration::MAX));
    build("retry", "min <= max <= cap", |b| b.retry(Retry::Backoff { min: ms(2), max: ms(1), cap: ms(1) }));
}

/// A client of masters that do not run. Its calls end at once if they are refused before anything is sent.
fn lonely() -> Client {
    Client::builder().nodes(nobody(3)).build().unwrap()
}

#[test]
fn names() {
    let client = lonely();
    let start = Instant::now();
    let long = "n".repeat(513);
    for (name, limit) in [
        ("", "1 to 512"),
        (long.as_str(), "512"),
        ("a{b", "brace"),
        ("a}b", "brace"),
        ("a\nb", "control"),
        ("a\0b", "control"),
    ] {
        let lock = client.lock(name);
        config(lock.acquire(), "name", limit);
        config(lock.try_acquire(), "name", limit);
        config(lock.try_acquire_for(secs(60)), "name", limit);
        config(lock.with(|_| Ok::<_, Error>(())), "name", limit);
        config(client.reentrant_lock(name).acquire(), "name", limit);
        config(client.status(name), "name", limit);
        config(client.force_release(name), "name", limit);
        let _ = (lock.name().len(), format!("{lock:?}"));
    }
    assert!(start.elapsed() < secs(5), "{:?}", start.elapsed());
}

#[test]
fn options() {
    let client = lonely();
    let start = Instant::now();
    let ask = |options: Options| client.lock("x").options(options).acquire();
    let o = Options::new;
    let no_pause = || Retry::Backoff { min: ms(0), max: ms(0), cap: ms(0) };
    for lease in [|ttl| Lease::Watchdog { ttl }, |ttl| Lease::Fixed { ttl }] {
        config(ask(o().lease(lease(MIN_TTL - ms(1)))), "ttl", "100ms");
        config(ask(o().lease(lease(secs(60) + ms(1)))), "ttl", "max_lease (60s)");
        config(ask(o().lease(lease(Duration::from_nanos(100_000_001)))), "ttl", "milliseconds");
        config(ask(o().lease(lease(Duration::MAX))), "ttl", "max_lease");
    }
    config(ask(o().lock_delay(secs(31))), "lock_delay", "max_lease (60s)");
    config(ask(o().min_hold(secs(61))), "min_hold", "max_lease (60s)");
    config(ask(o().max_hold(ms(99))), "max_hold", "100ms");
    config(ask(o().max_hold(secs(1)).min_hold(secs(2))), "max_hold", "min_hold");
    config(ask(o().tries(0)), "tries", "at least 1");
    config(ask(o().label("l".repeat(129))), "label", "128");
    let backoff = |min, max, cap| Retry::Backoff { min, max, cap };
    for too_short in [
        no_pause(),
        backoff(ms(0), ms(10), ms(10)),
        backoff(Duration::from_micros(999), ms(10), ms(10)),
        Retry::Fixed(ms(0)),
        Retry::Fixed(Duration::from_micros(999)),
    ] {
        config(ask(o().retry(too_short.clone())), "retry", "1 ms");
        build("retry", "1 ms", |b| b.retry(too_short));
    }
    config(client.reentrant_lock("x").options(o().tries(0)).acquire(), "tries", "at least 1");
    config(client.lock("x").options(o().tries(0).fenced(true)).try_acquire(), "tries", "at least 1");
    assert!(start.elapsed() < secs(5), "{:?}", start.elapsed());
}

#[test]
fn sums_that_are_too_large_do_not_panic() {
    let client = lonely();
    let huge = Duration::MAX;
    config(client.lock("x").options(Options::new().min_hold(huge)).acquire(), "min_hold", "max_lease");
    config(client.lock("x").options(Options::new().lock_delay(huge)).acquire(), "lock_delay", "max_lease");
}

#[test]
fn limits_without_an_end_do_not_panic() {
    let client = lonely();
    let huge = Duration::MAX;
    // A limit without an end is a long limit, not a mistake; here the outage ends it.
    let fast = Options::new().fail_fast(true).max_hold(huge).retry(Retry::Custom(Arc::new(|_| Duration::MAX)));
    let lock = client.lock("x").options(fast);
    assert!(matches!(lock.try_acquire_for(huge), Err(Error::NoQuorum(_))));
    assert!(matches!(lock.acquire(), Err(Error::NoQuorum(_))));
    let endless = Client::builder()
        .nodes(nobody(3))
        .master_timeout(huge)
        .round_timeout(huge)
        .hang_timeout(huge)
        .outage_patience(huge)
        .build()
        .unwrap();
    assert!(matches!(endless.lock("x").try_acquire(), Err(Error::NoQuorum(_))));
    endless.close(huge);
}

#[test]
fn limits_are_inclusive() {
    let client = Client::builder().nodes(nobody(3)).build().unwrap();
    let fast = || Options::new().fail_fast(true);
    for options in [
        fast().lease(Lease::Fixed { ttl: MIN_TTL }),
        fast().lease(Lease::Watchdog { ttl: secs(60) }),
        fast().lock_delay(secs(30)),
        fast().min_hold(secs(60)),
        fast().max_hold(MIN_TTL),
        fast().label("l".repeat(128)),
        fast().tries(1),
    ] {
        let name = "n".repeat(512);
        let error = client.lock(&name).options(options).try_acquire().unwrap_err();
        assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
    }
}

/// A limit for connecting without an end made the connector panic, and `build` hang. (Other limits may be without end.)
#[test]
fn limits_without_an_end_are_refused() {
    let build = |field: &str, change: fn(ClientBuilder) -> ClientBuilder| {
        refused(change(Client::builder().node("redis://127.0.0.1:1")).build(), field);
    };
    build("connect_timeout", |b| b.connect_timeout(Duration::MAX));
    build("pool_size", |b| b.pool_size(u32::MAX));
    build("ttl", |b| b.ttl(Duration::MAX));
    build("max_lease", |b| b.max_lease(Duration::MAX));
}

/// The largest limits that are allowed work; a patience has no limit.
#[test]
fn the_largest_limits_work() {
    let Some(masters) = masters(3) else { return };
    let hour = secs(3_600);
    let slow = Client::builder().nodes(masters.urls()).master_timeout(hour).round_timeout(hour).hang_timeout(hour);
    let client = slow.connect_timeout(hour).pool_size(1_024).outage_patience(Duration::MAX).build().unwrap();
    client.init().unwrap();
    assert_eq!(client.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
    let guard = client.lock("x").try_acquire_for(Duration::MAX).unwrap().expect("free");
    guard.check().unwrap();
    assert!(matches!(guard.ensure(Duration::MAX), Err(Error::EndsSoon { .. })));
}

/// A lock delay without an end panicked in the caller.
#[test]
fn a_lock_delay_without_an_end_is_refused() {
    let Some(masters) = masters(1) else { return };
    let client = support::client(&masters);
    refused(client.lock("x").options(Options::new().lock_delay(Duration::MAX)).acquire(), "lock_delay");
    refused(client.lock("x").options(Options::new().min_hold(Duration::MAX)).acquire(), "min_hold");
    refused(client.lock("x").options(Options::new().lease(Lease::Fixed { ttl: Duration::MAX })).acquire(), "ttl");
    // This one only means that it never ends.
    let guard = client.lock("x").options(Options::new().max_hold(Duration::MAX)).acquire().unwrap();
    refused(guard.extend(Duration::MAX), "ttl");
    guard.check().unwrap();
}
