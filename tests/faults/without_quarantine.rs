//! Clients without quarantine beside clients with it: they are kept out of a deployment that is not theirs.

use crate::support::{self, builder, masters, ms, secs, settle, settled};
use redleash::{Client, Error, Lease, Options};

/// A client of one of the three masters got the lock that a client of all three got too: its plain votes do not ask for
/// the deployment.
#[test]
fn a_client_without_quarantine_is_kept_out_of_another_deployment() {
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let one = Client::builder().node(masters[0].url()).build().unwrap_err().to_string();
    assert!(one.contains(&format!("127.0.0.1:{}", masters[0].port())) && one.contains("60000:default:3:2"), "{one}");
    let other = builder(masters.urls()).deployment("other").quarantine(false).build().unwrap_err().to_string();
    assert!(other.contains("60000:other:3:2"), "{other}");
    // The same deployment, by somebody who knows what he does.
    let same = builder(masters.urls()).quarantine(false).build().unwrap();
    assert!(same.lock("x").try_acquire().unwrap().is_some());
}

/// What both of them lock: a client of the first master, and one of all three.
fn one_beside_three(masters: &redleash_testkit::Masters) -> (Client, Client) {
    let one = builder([masters[0].url()]).build().unwrap();
    drop(one.lock("warm").acquire().unwrap());
    support::no_keys_left(masters);
    (one, settled(masters))
}

/// Its votes did not ask for the deployment, so it was compared when the client connected, and never again.
#[test]
fn a_client_of_one_master_is_kept_out_by_an_init_that_comes_later() {
    let Some(masters) = masters(3) else { return };
    let (one, three) = one_beside_three(&masters);
    for name in ["x", "y"] {
        let error = one.lock(name).try_acquire().unwrap_err();
        assert!(error.to_string().contains("60000:default:3:2"), "{error:?}");
    }
    support::no_keys_left(&masters);
    drop(three.lock("x").try_acquire().unwrap().expect("nothing is in the way"));
}

/// Right after a FLUSHALL nothing on the master tells that it belongs to others: until they come by. Then it is theirs.
#[test]
fn a_client_of_one_master_that_came_in_by_a_flush_is_put_out_when_the_others_come_by() {
    let Some(masters) = masters(3) else { return };
    let (one, three) = one_beside_three(&masters);
    let theirs = three.lock("x").acquire().unwrap();
    masters[0].flush().unwrap();
    let lease = Options::new().lease(Lease::Watchdog { ttl: ms(1_500) });
    let stray = one.lock("x").options(lease).try_acquire().unwrap();
    // They come by.
    theirs.extend(secs(30)).unwrap();
    if let Some(stray) = stray {
        stray.lost().recv_timeout(secs(20)).unwrap();
    }
    for name in ["x", "y"] {
        let error = one.lock(name).try_acquire().unwrap_err();
        assert!(error.to_string().contains("60000:default:3:2"), "{error:?}");
    }
    theirs.verify().unwrap();
}

/// It was let in at once, beside a holder.
#[test]
fn a_client_without_quarantine_that_has_seen_a_generation_notices_its_loss() {
    let Some(masters) = masters(3) else { return };
    let three = settle(builder(masters.urls()).max_lease(secs(3)).ttl(secs(3)));
    let loose = builder(masters.urls()).max_lease(secs(3)).ttl(secs(3)).quarantine(false).build().unwrap();
    drop(loose.lock("y").acquire().unwrap());
    let guard = three.lock("x").options(Options::new().lease(Lease::Fixed { ttl: secs(3) })).acquire().unwrap();
    // Also the second time: what it was answered in between must not make it forget that there had been a generation.
    for flush in 1..=2 {
        for master in &*masters {
            master.flush().unwrap();
        }
        let refused = loose.lock("x").try_acquire();
        assert!(matches!(refused, Err(Error::Quarantined { .. })), "{flush}: {refused:?}");
    }
    let after = loose.lock("x").acquire().unwrap();
    assert!(guard.check().is_err(), "the lease was over before");
    drop(after);
}
