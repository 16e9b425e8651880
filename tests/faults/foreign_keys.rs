//! The lock's key is another kind of thing.

use crate::support::{self, lock_key, masters, occupy, secs, settled};
use redleash::{Error, Holder, ReleaseOutcome};
use redleash_testkit::Server;

fn list(master: &Server) {
    assert_eq!(master.command(&["LPUSH", &lock_key("x"), "an item"]).unwrap().int(), Some(1));
}

fn untouched(master: &Server) -> bool {
    master.command(&["LRANGE", &lock_key("x"), "0", "-1"]).unwrap().items().len() == 1
}

#[test]
fn on_all_masters() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters.iter().for_each(list);
    let lock = client.lock("x");
    // Also after the connections have become used to plain commands.
    for round in 0..3 {
        for result in [lock.acquire().map(Some), lock.try_acquire_for(secs(10)), lock.try_acquire()] {
            match result {
                Err(Error::Conflict { name, master, kind, .. }) => {
                    assert_eq!((name.as_str(), kind.as_str()), ("x", "list"));
                    assert!(masters.iter().any(|m| master.ends_with(&format!(":{}", m.port()))), "{master}");
                }
                other => panic!("round {round}: {other:?}"),
            }
        }
        drop(client.lock("another").acquire().unwrap());
    }
    let text = lock.acquire().unwrap_err().to_string();
    assert!(text.contains("list") && text.contains("\"x\""), "{text}");
    assert!(masters.iter().all(untouched));
}

#[test]
fn on_one_master_the_others_decide() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    list(&masters[1]);
    for _ in 0..3 {
        let guard = client.lock("x").acquire().unwrap();
        guard.extend(secs(40)).unwrap();
        guard.verify().unwrap();
        assert_eq!(guard.release(), ReleaseOutcome::Released);
    }
    assert!(untouched(&masters[1]));
}

#[test]
fn force_release_and_status_say_so_too() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters.iter().for_each(list);
    assert!(matches!(client.force_release("x"), Err(Error::Conflict { kind, .. }) if kind == "list"));
    let status = client.status("x").unwrap();
    assert!(
        status.masters.iter().all(|m| matches!(&m.holder, Some(Holder::WrongType { kind, .. }) if kind == "list")),
        "{status}"
    );
    assert!(masters.iter().all(untouched));
}

#[test]
fn a_string_of_others_counts_as_held_by_another() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    masters.iter().for_each(|m| occupy(m, "x"));
    assert!(client.lock("x").try_acquire().unwrap().is_none());
    assert!(client.lock("x").try_acquire_for(secs(1)).unwrap().is_none());
    assert!(masters.iter().all(|m| support::value(m, "x").as_deref() == Some("somebody else")));
}

#[test]
fn a_counter_that_is_not_a_number_costs_a_token_and_no_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    for master in &*masters {
        assert!(master.command(&["SET", &support::fence_key("x"), "not a number"]).unwrap().is_ok());
    }
    let guard = client.lock("x").acquire().unwrap();
    let error = guard.fencing_token().unwrap_err();
    assert!(matches!(error, Error::NoQuorum(_) | Error::Conflict { .. }), "{error:?}");
    guard.check().unwrap();
    guard.verify().unwrap();
    assert_eq!(guard.release(), ReleaseOutcome::Released);
}
