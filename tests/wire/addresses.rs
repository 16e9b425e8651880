//! Every way to name a master: TCP, Unix socket, another database, a user with a password.

use crate::support::{self, builder, client, eventually, lock_key, masters, secs, settle};
use redleash::{Client, ReleaseOutcome};
use redleash_testkit::Server;

fn a_whole_life(client: &Client) {
    for _ in 0..3 {
        let guard = client.lock("x").acquire().unwrap();
        guard.extend(secs(40)).unwrap();
        guard.verify().unwrap();
        assert!(guard.fencing_token().unwrap() > 0);
        assert_eq!(guard.release(), ReleaseOutcome::Released);
    }
}

#[test]
fn unix_sockets() {
    if redleash_testkit::skipped() {
        return;
    }
    let servers: Vec<Server> = (0..3).map(|_| Server::start_with_socket().unwrap()).collect();
    let paths: Vec<String> =
        servers.iter().map(|s| s.unix_url().unwrap().split_once("://").unwrap().1.to_string()).collect();
    let client = settle(builder(paths.iter().map(|path| format!("unix://{path}"))));
    a_whole_life(&client);
    let status = client.status("x").unwrap();
    for (seen, path) in status.masters.iter().zip(&paths) {
        assert!(seen.master.contains(path.as_str()) && seen.failure.is_none(), "{}", seen.master);
    }
    // One goes, and comes back at the same path.
    servers[0].restart_empty().unwrap();
    a_whole_life(&client);
    // Both ways of writing it, and both ways of reaching the same masters.
    let mixed = [format!("redis+unix://{}", paths[0]), servers[1].url(), format!("unix://{}", paths[2])];
    a_whole_life(&builder(mixed).build().unwrap());
    let double = builder([format!("unix://{}", paths[0]), servers[0].url(), servers[1].url()]).build();
    assert!(matches!(double, Err(redleash::Error::Config(_))), "one server, by its socket and by its port");
}

#[test]
fn another_database() {
    let Some(masters) = masters(3) else { return };
    let seventh = settle(builder(masters.iter().map(|m| format!("{}/7", m.url()))));
    a_whole_life(&seventh);
    let guard = seventh.lock("x").acquire().unwrap();
    eventually("all voted", || guard.margin() == 1);
    for master in &*masters {
        assert!(master.command(&["GET", &lock_key("x")]).unwrap().is_nil(), "nothing in database 0");
        let keyspace = master.command(&["INFO", "keyspace"]).unwrap().text().unwrap();
        assert!(keyspace.contains("db7:") && !keyspace.contains("db0:"), "{keyspace}");
    }
    drop(guard);
    // Connections made later are in that database too.
    masters[0].restart_empty().unwrap();
    a_whole_life(&seventh);
    assert!(masters[0].command(&["GET", support::GENERATION]).unwrap().is_nil());
    drop(masters);
}

#[test]
fn users_with_passwords() {
    let Some(masters) = masters(3) else { return };
    for master in &*masters {
        // A password with characters that a URL must escape.
        master.set_user("worker", "p@ss/w:rd%", &["allkeys", "allchannels", "+@all"]).unwrap();
        master.set_user("plain", "secret", &["allkeys", "allchannels", "+@all"]).unwrap();
    }
    let as_user =
        |user: &str| masters.iter().map(|m| format!("redis://{user}@127.0.0.1:{}", m.port())).collect::<Vec<_>>();
    a_whole_life(&settle(builder(as_user("plain:secret"))));
    a_whole_life(&builder(as_user("worker:p%40ss%2Fw%3Ard%25")).build().unwrap());
    let status = builder(as_user("plain:secret")).build().unwrap().status("x").unwrap();
    for (seen, master) in status.masters.iter().zip(&*masters) {
        assert_eq!(seen.master, format!("127.0.0.1:{}", master.port()), "without the user and the password");
    }
}

#[test]
fn a_name_instead_of_an_address() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls().iter().map(|url| url.replace("127.0.0.1", "localhost"))));
    a_whole_life(&client);
}

#[test]
fn an_address_that_does_not_resolve_is_only_one_vote() {
    let Some(masters) = masters(3) else { return };
    drop(support::settled(&masters));
    let mut urls = masters.urls();
    urls[2] = "redis://no-such-host.invalid:6379".into();
    let lame = builder(urls).build().unwrap();
    a_whole_life(&lame);
    let status = lame.status("x").unwrap();
    assert!(status.masters[2].failure.is_some(), "{status}");
    a_whole_life(&client(&masters));
}

#[test]
fn several_lanes() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).lanes(4));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for i in 0..50 {
                    drop(client.lock(&format!("{:?}/{i}", std::thread::current().id())).acquire().unwrap());
                }
            });
        }
    });
    a_whole_life(&client);
    support::no_keys_left(&masters);
}
