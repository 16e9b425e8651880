//! A master is who it was: replicas that are promoted, masters that come back, addresses that lead elsewhere.

use crate::support::{DEADLINE, GENERATION, builder, eventually, lock_key, masters, secs, settle, settled, value};
use redleash::{Client, Error, Lease, LockGuard, Options};
use redleash_testkit::{Fault, Proxy, Server, skipped};

/// A field of a server's INFO.
fn info(server: &Server, section: &str, field: &str) -> String {
    let text = server.command(&["INFO", section]).unwrap().text().unwrap();
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).unwrap_or_default().trim().to_string()
}

fn generation(server: &Server) -> String {
    server.command(&["GET", GENERATION]).unwrap().text().unwrap_or_default()
}

/// Makes `replica` a replica of `master`, and waits until it has its data.
fn replicate(replica: &Server, master: &Server) {
    assert!(replica.command(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]).unwrap().is_ok());
    eventually("synchronised", || info(replica, "replication", "master_link_status") == "up");
}

fn promote(replica: &Server) {
    assert!(replica.command(&["REPLICAOF", "NO", "ONE"]).unwrap().is_ok());
}

/// A server that sends its data to a new replica at once.
fn server() -> Server {
    Server::start_with(&["--repl-diskless-sync", "no", "--repl-diskless-sync-delay", "0"]).unwrap()
}

/// A client of one master with the quarantine, and with leases longer than any test.
fn one(url: impl Into<String>) -> redleash::ClientBuilder {
    builder([url]).quarantine(true).max_lease(secs(60)).outage_patience(secs(1))
}

fn fixed() -> Options {
    Options::new().lease(Lease::Fixed { ttl: secs(50) })
}

/// A primary and its replica. The replica is promoted and does not know of the lock that is then taken at the primary;
/// the primary becomes a replica of it, and is made a primary again: it is the same process, with the data from before
/// the lock.
fn fail_over_and_back(holder: &Client, primary: &Server, replica: &Server) -> LockGuard {
    eventually("the replica has the generation", || generation(replica) == generation(primary));
    promote(replica);
    let guard = holder.lock("x").options(fixed()).acquire().unwrap();
    let before = info(primary, "server", "run_id");
    replicate(primary, replica);
    eventually("the lock is forgotten", || value(primary, "x").is_none());
    promote(primary);
    assert_eq!(info(primary, "server", "run_id"), before);
    guard
}

#[test]
fn a_primary_that_comes_back_from_being_a_replica_casts_no_votes() {
    if skipped() {
        return;
    }
    let (primary, replica) = (server(), server());
    replicate(&replica, &primary);
    let holder = settle(one(primary.url()));
    let guard = fail_over_and_back(&holder, &primary, &replica);
    let contender = one(primary.url()).build().unwrap();
    let second = contender.lock("x").try_acquire();
    assert!(guard.check().is_ok());
    assert!(matches!(second, Err(Error::Quarantined { .. })), "two holders: {second:?}");
}

/// The contender has seen the generation settled, and its connection lives through all of it: nothing was sent on it.
#[test]
fn a_connection_that_lives_through_a_failover_and_back_gets_no_vote() {
    if skipped() {
        return;
    }
    let (primary, replica) = (server(), server());
    replicate(&replica, &primary);
    let holder = settle(one(primary.url()));
    let contender = one(primary.url()).build().unwrap();
    drop(contender.lock("warm").acquire().unwrap());
    drop(contender.lock("warm").acquire().unwrap());
    eventually("released", || value(&primary, "warm").is_none() && value(&replica, "warm").is_none());
    let connections =
        || primary.command(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap().text().unwrap().lines().count();
    let before = connections();
    let guard = fail_over_and_back(&holder, &primary, &replica);
    assert!(connections() >= before, "they live on");
    let second = contender.lock("x").try_acquire();
    assert!(guard.check().is_ok());
    assert!(!matches!(second, Ok(Some(_))), "two holders");
    eventually("it notices", || matches!(contender.lock("x").try_acquire(), Err(Error::Quarantined { .. })));
}

/// A promoted replica has its primary's data, the generation included.
#[test]
fn a_promoted_replica_casts_no_votes() {
    if skipped() {
        return;
    }
    let (primary, replica) = (server(), server());
    replicate(&replica, &primary);
    let address = Proxy::start(primary.port(), Fault::None).unwrap();
    let holder = settle(one(address.url()));
    eventually("the replica has the generation", || generation(&replica) == generation(&primary));
    promote(&replica);
    let guard = holder.lock("x").options(fixed()).acquire().unwrap();
    address.point(replica.port());
    let second = one(address.url()).build().unwrap().lock("x").try_acquire();
    assert!(guard.check().is_ok());
    assert!(matches!(second, Err(Error::Quarantined { .. })), "two holders: {second:?}");
}

/// Without INFO nobody knows which server it is: the promoted replica was taken for its primary, and gave a held lock
/// to a second holder.
#[test]
fn a_user_without_info_is_refused() {
    if skipped() {
        return;
    }
    let (primary, replica) = (server(), server());
    replicate(&replica, &primary);
    for server in [&primary, &replica] {
        server.set_user("lock", "S3cret", &["allkeys", "allchannels", "+@all", "-info"]).unwrap();
    }
    let address = Proxy::start(primary.port(), Fault::None).unwrap();
    drop(settle(one(address.url())));
    eventually("the replica has the generation", || generation(&replica) == generation(&primary));
    let url = address.url().replace("://", "://lock:S3cret@");
    let error = match one(url.clone()).build() {
        Err(error) => error,
        Ok(holder) => {
            promote(&replica);
            let guard = holder.lock("x").options(fixed()).acquire().unwrap();
            address.point(replica.port());
            let second = one(url).build().unwrap().lock("x").try_acquire();
            panic!("{:?} and {second:?}", guard.check());
        }
    };
    let text = error.to_string();
    assert!(matches!(error, Error::Config(_)) && !error.is_retryable(), "{error:?}");
    assert!(text.contains("+info") && text.contains(&address.label()) && !text.contains("S3cret"), "{text}");
}

#[test]
fn a_server_whose_info_is_renamed_is_refused() {
    if skipped() {
        return;
    }
    let server = Server::start_with(&["--rename-command", "INFO", "xyz"]).unwrap();
    let error = one(server.url()).build().unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    assert!(error.to_string().contains("INFO"), "{error}");
}

/// The history of a server begins anew when it gets its first replica; a connection from before finds out by itself.
#[test]
fn a_first_replica_is_noticed_by_connections_that_were_there() {
    if skipped() {
        return;
    }
    let (primary, replica) = (server(), server());
    let client = settle(builder([primary.url()]).quarantine(true).max_lease(secs(1)).ttl(secs(1)));
    drop(client.lock("x").acquire().unwrap());
    let before = generation(&primary);
    replicate(&replica, &primary);
    eventually("a new generation", || {
        drop(client.lock("x").try_acquire());
        let now = generation(&primary);
        let replid = info(&primary, "replication", "master_replid");
        now != before && now.contains(&replid[..24])
    });
    eventually("it votes again", || matches!(client.lock("x").try_acquire(), Ok(Some(_))));
}

#[test]
fn a_generation_of_an_older_format_is_another_deployment() {
    let Some(masters) = masters(3) else { return };
    let run_id = info(&masters[0], "server", "run_id");
    let old = format!("{run_id}:1:60000:default:3:2:00ff00ff00ff00ff");
    masters.iter().for_each(|m| assert!(m.command(&["SET", GENERATION, &old]).unwrap().is_ok()));
    let error = builder(masters.urls()).build().and_then(|client| client.lock("x").acquire().map(drop)).unwrap_err();
    assert!(matches!(error, Error::DeploymentMismatch { .. }), "{error:?}");
    assert!(masters.iter().all(|m| generation(m) == old), "it was replaced");
}

/// Each was taken for the other for good: a name of a server was never given back.
#[test]
fn two_servers_that_swap_their_addresses() {
    let Some(masters) = masters(3) else { return };
    let addresses = [0, 1].map(|i| Proxy::start(masters[i].port(), Fault::None).unwrap());
    let short = |b: redleash::ClientBuilder| b.max_lease(secs(2)).ttl(secs(2));
    let urls = [addresses[0].url(), addresses[1].url(), masters[2].url()];
    let client = settle(short(builder(urls)));
    drop(client.lock("x").acquire().unwrap());
    let swap = |to: [usize; 2]| {
        for (address, master) in addresses.iter().zip(to) {
            address.point(masters[master].port());
        }
    };
    let usable = || client.status("x").unwrap().masters.iter().all(|m| m.failure.is_none());
    // The connections break with the swap.
    swap([1, 0]);
    addresses.iter().for_each(|a| a.mend());
    eventually("both usable again", usable);
    // They live on, and the client finds out by itself.
    let seen = || addresses.iter().map(|a| a.accepted()).sum::<u64>();
    let before = seen();
    swap([0, 1]);
    eventually("it has looked", || seen() > before + 2);
    eventually("both usable again", usable);
    drop(client.lock("x").acquire().unwrap());
    // And they may be named in any order.
    let urls = [masters[2].url(), masters[0].url(), masters[1].url()];
    drop(short(builder(urls)).build().unwrap().lock("x").acquire().unwrap());
}

/// Addresses that lead to new servers while the old ones live on: the holder goes on renewing at the old ones, and the
/// new ones give the lock to a second holder when their quarantine ends.
#[test]
fn a_client_leaves_servers_that_are_no_longer_at_their_addresses() {
    let (Some(old), Some(new)) = (masters(3), masters(3)) else { return };
    let addresses: Vec<Proxy> = old.iter().map(|m| Proxy::start(m.port(), Fault::None).unwrap()).collect();
    let client = || builder(addresses.iter().map(Proxy::url)).max_lease(secs(3)).ttl(secs(3));
    let guard = settle(client()).lock("x").acquire().unwrap();
    for (address, master) in addresses.iter().zip(&*new) {
        address.point(master.port());
    }
    let second = client().build().unwrap().lock("x").try_acquire_for(DEADLINE).unwrap().expect("granted in the end");
    assert!(guard.check().is_err(), "two holders");
    second.check().unwrap();
}

/// Of a lock on a demoted master nobody got anything but READONLY until the process ended.
#[test]
fn a_demoted_master_is_left_and_its_address_looked_up_again() {
    if skipped() {
        return;
    }
    let (first, second) = (server(), server());
    let address = Proxy::start(first.port(), Fault::None).unwrap();
    let client = builder([address.url()]).quarantine(false).outage_patience(secs(1)).build().unwrap();
    drop(client.lock("x").acquire().unwrap());
    eventually("released", || value(&first, "x").is_none());
    replicate(&first, &second);
    address.point(second.port());
    eventually("the new master", || matches!(client.lock("x").try_acquire(), Ok(Some(_))));
    // While nothing but questions are asked, too.
    promote(&first);
    replicate(&second, &first);
    address.point(first.port());
    eventually("asked", || client.status("x").unwrap().masters[0].failure.is_none());
    assert_eq!(info(&first, "replication", "role"), "master");
}

#[test]
fn a_replica_never_says_that_a_lock_is_free() {
    if skipped() {
        return;
    }
    let (master, other) = (server(), server());
    let client = builder([master.url()]).quarantine(false).build().unwrap();
    let guard = client.lock("x").options(fixed()).acquire().unwrap();
    assert_eq!(client.status("x").unwrap().holder(), client.status("x").unwrap().masters[0].holder.as_ref());
    replicate(&master, &other);
    eventually("its data are the other's", || value(&master, "x").is_none());
    let status = client.status("x").unwrap();
    assert!(!status.is_free() && status.masters[0].failure.is_some(), "{status}");
    assert!(status.to_string().contains("unknown"), "{status}");
    drop(guard);
}

/// Two sets that share a master, with one name: each has a quorum without it.
#[test]
fn clients_of_another_set_with_the_same_name_are_refused() {
    let Some(masters) = masters(5) else { return };
    let urls = masters.urls();
    let first = settle(builder(urls[..3].to_vec()));
    let guard = first.lock("x").acquire().unwrap();
    let error = match builder(urls[2..].to_vec()).build() {
        Err(error) => error,
        Ok(other) => panic!("it can hold by the two others: {:?}", other.lock("x").try_acquire()),
    };
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&masters[2].port().to_string()) && text.contains("another set"), "{text}");
    guard.check().unwrap();
    assert!(masters[3].command(&["GET", &lock_key("x")]).unwrap().is_nil());
}

#[test]
fn a_master_that_is_loading_is_connected_to_again() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let proxy = Proxy::start(masters[0].port(), Fault::None).unwrap();
    let client = builder([proxy.url(), masters[1].url(), masters[2].url()]).build().unwrap();
    for answer in [
        &b"-LOADING Redis is loading the dataset in memory\r\n"[..],
        b"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
        b"-CLUSTERDOWN Hash slot not served\r\n",
        b"-MOVED 3999 127.0.0.1:6381\r\n",
    ] {
        let before = proxy.accepted();
        proxy.set(Fault::Say(answer));
        eventually("it is left", || {
            drop(client.status("x").unwrap());
            proxy.accepted() > before
        });
        proxy.mend();
        eventually("it is back", || client.status("x").unwrap().masters[0].failure.is_none());
    }
}
