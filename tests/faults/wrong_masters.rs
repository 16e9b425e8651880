//! Masters that can never serve together are refused, by name.

use crate::support;
use crate::support::child::ran_alone;
use crate::support::servers::{Reply, Server};
use crate::support::{GENERATION, builder, client, eventually, masters, secs, settle, settled};
use redleash::unversioned::scripts;
use redleash::{Client, Error};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Instant;

fn name(server: &Server) -> String {
    server.port().to_string()
}

/// What `build` says to these nodes.
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
fn a_cluster_node() {
    let Some(masters) = masters(2) else { return };
    let node = Server::start_with(&["--cluster-enabled", "yes"]).unwrap();
    let text = refused(&[masters[0].url(), node.url(), masters[1].url()]);
    assert!(text.to_lowercase().contains("cluster") && text.contains(&name(&node)), "{text}");
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
fn another_number_of_nodes() {
    let Some(masters) = masters(5) else { return };
    drop(settle(builder(masters.urls()[..3].to_vec())));
    let two = mismatch(builder(masters.urls()[..2].to_vec()).build());
    assert!(two.contains("nodes"), "{two}");
    // Three of five belong to another deployment, and two to none.
    let five = builder(masters.urls()).build();
    let error = match five {
        Ok(client) => client.lock("x").try_acquire_for(secs(5)).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, Error::DeploymentMismatch { .. } | Error::Quarantined { .. }), "{error:?}");
    assert!(error.to_string().contains("60000:default:3:2") || error.to_string().contains("nodes"), "{error}");
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

#[test]
fn init_refuses_what_is_not_new() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let again = client.init().unwrap();
    assert!(again.already && again.tally.masters.len() == 3, "{again:?}");
    assert!(again.to_string().contains("settled already"), "{again}");
    let error = builder(masters.urls()).max_lease(secs(70)).build().unwrap_err();
    assert!(matches!(error, Error::DeploymentMismatch { .. }), "{error:?}");
    // One of them forgot: a lease may rest on what it had said.
    masters[1].command(&["FLUSHALL"]).unwrap();
    let error = client.init().unwrap_err();
    assert!(matches!(&error, Error::NotBlank(_)), "{error:?}");
    assert!(error.to_string().contains("is empty, and may have forgotten"), "{error}");
    eventually("no mark is left there", || masters[1].command(&["GET", GENERATION]).unwrap().is_nil());
    drop(masters);

    let Some(masters) = support::masters(3) else { return };
    masters[1].command(&["SET", "a key", "of somebody"]).unwrap();
    let client = support::client(&masters);
    let error = client.init().unwrap_err();
    assert!(matches!(error, Error::NotBlank(_)), "{error:?}");
    assert!(error.to_string().contains("not empty: 1 key"), "{error}");
    let generation = |m: &Server| m.command(&["GET", GENERATION]).unwrap().text();
    assert!(masters.iter().all(|m| generation(m).is_none_or(|g| g.starts_with("init:"))), "it settled none");
    masters[1].command(&["DEL", "a key"]).unwrap();
    // Not all answer.
    masters[2].kill();
    let error = client.init().unwrap_err();
    assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
    assert!(error.to_string().contains(&name(&masters[2])), "{error}");
    masters[2].restart_empty().unwrap();
    eventually("settled when all are there", || client.init().is_ok());
    drop(client.lock("x").acquire().unwrap());
}

#[test]
fn an_init_settles_only_what_it_has_found_empty_and_nothing_has_happened_to_since() {
    let Some(masters) = masters(3) else { return };
    let master = &masters[0];
    let eval = |name: &str, args: &[&str]| {
        let script = scripts().into_iter().find(|s| s.name == name).unwrap();
        master.command(&[&["EVAL", script.text, "1", GENERATION], args].concat()).unwrap()
    };
    let says =
        |reply: Reply, generation: &str| matches!(&reply.items()[0], Reply::Bulk(g) if g == generation.as_bytes());
    let mark = |nonce: &str| says(eval("blank", &["aa", nonce]), &format!("init:aa:{nonce}"));
    let votes = |reply: Reply| reply.items()[2] == Reply::Int(1);
    let init = |nonce: &str| votes(eval("init", &["aa", nonce, "1000:c:1:1", "1"]));
    assert!(!init("a"), "it bears no mark");
    assert!(says(eval("blank", &["aa", ""]), ""), "a look leaves none");
    // It forgot what it had voted since.
    assert!(mark("a"));
    master.command(&["FLUSHALL"]).unwrap();
    assert!(!init("a") && master.command(&["GET", GENERATION]).unwrap().is_nil());
    // Its process is another one, with data from before.
    assert!(mark("a"));
    assert!(!votes(eval("init", &["bb", "a", "1000:c:1:1", "1"])));
    // Another init is there already; its mark is not taken back by this one.
    assert!(!mark("b") && !init("b"));
    eval("init", &["aa", "b", "1000:c:1:1", "0"]);
    assert!(mark("a"));
    eval("init", &["aa", "a", "1000:c:1:1", "0"]);
    assert!(mark("b") && !init("a") && init("b") && !mark("c"));
    assert!(init("b"), "it says that it is done");
    // A lock came in between, and one whose client asked for the generation.
    master.command(&["FLUSHALL"]).unwrap();
    assert!(mark("a"));
    master.command(&["SET", "rl:L:{x}", "somebody"]).unwrap();
    assert!(!init("a"));
    master.command(&["DEL", "rl:L:{x}"]).unwrap();
    let error = builder(masters.urls()).outage_patience(secs(1)).build().unwrap().lock("x").acquire().unwrap_err();
    assert!(matches!(error, Error::Quarantined { .. }), "{error:?}");
    assert!(!init("a"));
}

/// Six that came at once replaced one another's marks, settled a master each, and then nobody could go on.
#[test]
fn of_many_inits_at_once_one_settles_the_masters_and_all_say_that_it_is_done() {
    let Some(masters) = masters(3) else { return };
    for round in 0..15 {
        for master in &*masters {
            master.command(&["FLUSHALL"]).unwrap();
        }
        let clients: Vec<Client> = (0..6).map(|_| client(&masters)).collect();
        let start = Barrier::new(clients.len());
        let reports: Vec<_> = thread::scope(|scope| {
            let init = |client: &Client| {
                start.wait();
                client.init()
            };
            let threads: Vec<_> = clients.iter().map(|client| scope.spawn(move || init(client))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for report in &reports {
            assert!(report.is_ok(), "round {round}: {report:?}");
        }
        assert!(reports.iter().flatten().any(|report| !report.already), "round {round}: {reports:?}");
        drop(clients[round % 6].lock("x").try_acquire().unwrap().expect("they vote at once"));
    }
}

/// Its marks were in the way for a minute.
#[test]
fn an_init_that_dies_does_not_hinder_the_next_one() {
    let Some(masters) = masters(3) else { return };
    let identity = |m: &Server| {
        let field = |section: &str, name: &str| {
            let info = m.command(&["INFO", section]).unwrap().text().unwrap();
            info.lines().find_map(|l| l.strip_prefix(name)).unwrap()[..24].to_string()
        };
        field("server", "run_id:") + &field("replication", "master_replid:")
    };
    // It had marked all: the next one finishes what it began.
    for (i, master) in masters.iter().enumerate() {
        master
            .command(&["SET", GENERATION, &format!("init:{}:{i:02x}{:016x}", identity(master), 8), "PX", "10000"])
            .unwrap();
    }
    let begun = Instant::now();
    assert!(!client(&masters).init().unwrap().already);
    assert!(begun.elapsed() < secs(9), "it did not wait for the marks to expire");
    let left = masters.iter().map(|m| m.command(&["GET", GENERATION]).unwrap().text().unwrap());
    assert!(left.enumerate().all(|(i, g)| g.ends_with(&format!(":{i:02x}{:016x}", 8))));
    // It had marked one: the next one waits until that is over.
    for master in &*masters {
        master.command(&["FLUSHALL"]).unwrap();
    }
    masters[1]
        .command(&["SET", GENERATION, &format!("init:{}:01{:016x}", identity(&masters[1]), 8), "PX", "1500"])
        .unwrap();
    assert!(!client(&masters).init().unwrap().already);
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
    eventually("a warning", || warned("4 nodes"));
    let guard = client.lock("x").acquire().unwrap();
    assert_eq!(client.status("x").unwrap().quorum, 3);
    masters[0].kill();
    guard.extend(secs(40)).unwrap();
    drop(guard);
    let tests = builder(masters.urls()).quarantine(false).build().unwrap();
    eventually("a warning", || warned("quarantine is off"));
    assert!(tests.guarantees().to_string().contains("quarantine is off"));
}
