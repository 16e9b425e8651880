//! Masters that can never serve together are refused, by name.

use crate::support::child::ran_alone;
use crate::support::{builder, client, eventually, masters, secs, settle, settled};
use redleash::{Client, Error};
use redleash_testkit::Server;
use std::sync::Mutex;

fn name(server: &Server) -> String {
    server.port().to_string()
}

/// What `build` says to these masters.
#[track_caller]
fn refused(urls: &[String]) -> String {
    match builder(urls.to_vec()).build() {
        Err(error @ Error::Config(_)) => error.to_string(),
        Err(other) => panic!("expected a configuration error, got {other:?}"),
        Ok(_) => panic!("{urls:?} were accepted"),
    }
}

#[test]
fn one_server_under_two_names() {
    let Some(masters) = masters(2) else { return };
    let urls = [masters[0].url(), masters[1].url(), masters[0].url().replace("127.0.0.1", "localhost")];
    let text = refused(&urls);
    assert!(text.contains(&format!("localhost:{}", masters[0].port())), "{text}");
    assert!(text.contains(&format!("127.0.0.1:{}", masters[0].port())), "{text}");
    // The same text twice is found without asking anybody.
    let text = refused(&[masters[0].url(), masters[1].url(), masters[0].url()]);
    assert!(text.contains("twice") && text.contains(&name(&masters[0])), "{text}");
}

#[test]
fn one_server_with_two_databases() {
    let Some(masters) = masters(2) else { return };
    // They fail together, so they are no two masters.
    let urls = [format!("{}/0", masters[0].url()), masters[1].url(), format!("{}/1", masters[0].url())];
    let text = refused(&urls);
    assert!(text.contains(&name(&masters[0])), "{text}");
}

#[test]
fn a_replica() {
    let Some(masters) = masters(2) else { return };
    let port = masters[0].port().to_string();
    let replica = Server::start_with(&["--replicaof", "127.0.0.1", &port]).unwrap();
    let text = refused(&[masters[0].url(), masters[1].url(), replica.url()]);
    assert!(text.contains("replica") && text.contains(&name(&replica)), "{text}");
}

#[test]
fn a_master_that_becomes_a_replica_gives_no_vote() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    drop(client.lock("warm").acquire().unwrap());
    for demoted in [1, 2] {
        let port = masters[0].port().to_string();
        assert!(masters[demoted].command(&["REPLICAOF", "127.0.0.1", &port]).unwrap().is_ok());
        if demoted == 1 {
            // One of three: the other two decide.
            for _ in 0..5 {
                drop(client.lock("x").acquire().unwrap());
            }
        }
    }
    let error = client.lock("y").try_acquire_for(secs(2)).unwrap_err();
    assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.to_lowercase().contains("readonly") || text.to_lowercase().contains("replica"), "{text}");
}

#[test]
fn a_server_of_a_redis_cluster() {
    let Some(masters) = masters(2) else { return };
    let member = Server::start_with(&["--cluster-enabled", "yes"]).unwrap();
    let text = refused(&[masters[0].url(), member.url(), masters[1].url()]);
    assert!(text.contains("Redis Cluster") && text.contains(&name(&member)), "{text}");
}

#[test]
fn another_max_lease() {
    let Some(masters) = masters(3) else { return };
    drop(settle(builder(masters.urls()).max_lease(secs(60))));
    let other = builder(masters.urls()).max_lease(secs(120)).build();
    let text = mismatch(other);
    assert!(text.contains("max_lease") && text.contains("60000") && text.contains("120000"), "{text}");
    assert!(masters.iter().any(|m| text.contains(&name(m))), "{text}");
    // Nothing was written, nobody is in the way.
    drop(client(&masters).lock("x").try_acquire().unwrap().expect("free"));
}

/// The error of a client that the masters do not accept, found when it is built or when it asks for a lock.
#[track_caller]
fn mismatch(client: Result<Client, Error>) -> String {
    let error = match client {
        Ok(client) => client.lock("x").try_acquire_for(secs(5)).unwrap_err(),
        Err(error) => error,
    };
    let Error::DeploymentMismatch { master, ours, theirs, .. } = &error else { panic!("{error:?}") };
    let text = error.to_string();
    assert!([master, ours, theirs].iter().all(|part| text.contains(part.as_str())), "{text}");
    assert!(ours != theirs && !error.is_retryable(), "{text}");
    text
}

#[test]
fn another_number_of_masters() {
    let Some(masters) = masters(5) else { return };
    drop(settle(builder(masters.urls()[..3].to_vec())));
    let two = mismatch(builder(masters.urls()[..2].to_vec()).build());
    assert!(two.contains("masters") && two.contains("default:2:2"), "{two}");
    // Three of five belong to another deployment, and two to none.
    let five = builder(masters.urls()).build();
    let error = match five {
        Ok(client) => client.lock("x").try_acquire_for(secs(5)).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::DeploymentMismatch { .. } | Error::Quarantined { .. }), "{error:?}");
    assert!(error.to_string().contains("60000:default:3:2") || error.to_string().contains("masters"), "{error}");
    drop(builder(masters.urls()[..3].to_vec()).build().unwrap().lock("x").acquire().unwrap());
}

#[test]
fn another_deployment() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let text = mismatch(builder(masters.urls()).deployment("staging").build());
    assert!(text.contains("staging"), "{text}");
    let text = mismatch(builder(masters.urls()).fault_margin(1).build());
    assert!(text.contains("quorum"), "{text}");
    // Another namespace is another world, and needs its own settling.
    let elsewhere = builder(masters.urls()).namespace("other").outage_patience(secs(1)).build().unwrap();
    assert!(matches!(elsewhere.lock("x").acquire(), Err(Error::Quarantined { .. })));
    assert!(masters[0].command(&["GET", "other:N"]).unwrap().text().is_some());
}

struct Warnings(Mutex<Vec<String>>);

static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            self.0.lock().unwrap().push(record.args().to_string());
        }
    }

    fn flush(&self) {}
}

#[test]
fn an_even_number_is_warned_of_and_works() {
    if ran_alone() {
        return;
    }
    log::set_logger(&WARNINGS).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    let Some(masters) = masters(4) else { return };
    let client = settled(&masters);
    let warned = |text: &str| WARNINGS.0.lock().unwrap().iter().any(|w| w.contains(text));
    eventually("a warning", || warned("4 masters"));
    let guard = client.lock("x").acquire().unwrap();
    assert_eq!(client.status("x").unwrap().quorum, 3);
    masters[0].kill();
    guard.extend(secs(40)).unwrap();
    drop(guard);
    let tests = builder(masters.urls()).quarantine(false).build().unwrap();
    eventually("a warning", || warned("quarantine is off"));
    assert!(tests.guarantees().to_string().contains("quarantine is off"));
}
