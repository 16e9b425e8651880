//! `init` settles new, empty masters at once, and no others.

use crate::support::{self, GENERATION, builder, client, eventually, masters, secs, settled};
use redleash::unversioned::scripts;
use redleash::{Client, Error};
use redleash_testkit::{Reply, Server};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

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
    masters[1].flush().unwrap();
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
    assert!(error.to_string().contains(&masters[2].port().to_string()), "{error}");
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
    master.flush().unwrap();
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
    master.flush().unwrap();
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
            master.flush().unwrap();
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
        master.flush().unwrap();
    }
    masters[1]
        .command(&["SET", GENERATION, &format!("init:{}:01{:016x}", identity(&masters[1]), 8), "PX", "1500"])
        .unwrap();
    assert!(!client(&masters).init().unwrap().already);
}
