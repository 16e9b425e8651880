//! Who holds a lock, as every master sees it.

use crate::support::{builder, client, eventually, masters, occupy, secs, settle, settled, value};
use redleash::{Error, Holder, Options, Status};

fn label(status: &Status) -> Option<&str> {
    status.holder().and_then(Holder::label)
}

#[test]
fn a_held_lock() {
    let Some(masters) = masters(3) else { return };
    let (holder, asker) = (settled(&masters), client(&masters));
    let labelled = Options::new().label("backup of db7 | 03:00");
    let guard = holder.lock("x").options(labelled).acquire().unwrap();
    let token = guard.fencing_token().unwrap();
    eventually("late votes are in", || masters.iter().all(|m| value(m, "x").is_some()));
    let status = asker.status("x").unwrap();
    assert_eq!((status.name.as_str(), status.quorum, status.masters.len()), ("x", 2, 3));
    assert_eq!(label(&status), Some("backup of db7 | 03:00"));
    let secret = value(&masters[0], "x").unwrap().split('|').next().unwrap().to_string();
    for (seen, master) in status.masters.iter().zip(&*masters) {
        assert!(seen.master.ends_with(&format!(":{}", master.port())), "{}", seen.master);
        assert_eq!(seen.failure, None);
        let held_by = seen.holder.as_ref().unwrap();
        assert_eq!(held_by.label(), Some("backup of db7 | 03:00"));
        assert!(seen.ttl.is_some_and(|d| d > secs(5) && d <= secs(30)), "{:?}", seen.ttl);
        let fingerprint = held_by.fingerprint().unwrap();
        assert!(fingerprint.len() == 8 && fingerprint.chars().all(|c| c.is_ascii_hexdigit()));
        assert!(!secret.contains(fingerprint), "of a hash, not of the token");
        assert!(held_by.since_ms().is_some_and(|ms| ms > 1_600_000_000_000));
        let info = master.command(&["INFO", "server"]).unwrap().text().unwrap();
        assert!(info.contains(&format!("run_id:{}", &seen.generation.as_deref().unwrap()[..24])));
        assert_eq!(seen.quarantined_for, None);
    }
    let counters: Vec<u64> = status.masters.iter().filter_map(|m| m.fence).collect();
    assert!(counters.iter().filter(|c| **c >= token).count() >= 2, "{counters:?} and the token {token}");
    for text in [status.to_string(), format!("{status:?}")] {
        assert!(text.contains("backup of db7") && !text.contains(&secret), "{text}");
    }
    drop(guard);
}

#[test]
fn the_default_label_names_the_process() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    let holder = client.status("x").unwrap().holder().unwrap().to_string();
    assert!(holder.contains(&std::process::id().to_string()), "{holder}");
    drop(guard);
    let client = builder(masters.urls()).label("nightly").build().unwrap();
    let guard = client.lock("y").acquire().unwrap();
    assert_eq!(label(&client.status("y").unwrap()), Some("nightly"));
    drop(guard);
}

#[test]
fn a_free_lock() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let status = client.status("x").unwrap();
    assert_eq!((status.holder(), status.is_free(), status.is_held()), (Some(&Holder::Nobody), true, false));
    for seen in &status.masters {
        assert!(
            seen.holder == Some(Holder::Nobody)
                && seen.ttl.is_none()
                && seen.fence.is_none()
                && seen.generation.is_some()
        );
    }
    assert_eq!(status.to_string().lines().next(), Some("\"x\" is free"));
    // It wrote nothing.
    assert!(masters.iter().all(|m| m.command(&["DBSIZE"]).unwrap().int() == Some(1)));
}

#[test]
fn masters_that_say_nothing_are_part_of_the_report() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    masters[2].kill();
    eventually("the dead one is noticed", || client.status("x").unwrap().masters[2].failure.is_some());
    let status = client.status("x").unwrap();
    assert!(status.masters[0].failure.is_none() && status.masters[1].failure.is_none(), "{status}");
    assert!(status.is_held());
    assert_eq!(status.masters[2].holder, None, "it did not say");
    assert!(status.to_string().contains(&masters[2].port().to_string()));
    drop(guard);
}

#[test]
fn what_is_not_ours_and_what_is_in_quarantine() {
    let Some(masters) = masters(3) else { return };
    let client = settle(builder(masters.urls()).max_lease(secs(30)));
    occupy(&masters[0], "x");
    let status = client.status("x").unwrap();
    assert!(matches!(status.masters[0].holder, Some(Holder::Foreign { .. })), "{status}");
    assert!(!status.to_string().contains("somebody else"), "a value may be a secret of its writer: {status}");
    masters[1].restart_empty().unwrap();
    // A vote begins the quarantine; asking for the status writes nothing.
    eventually("in quarantine", || {
        drop(client.lock("another").acquire().unwrap());
        client.status("x").unwrap().masters[1].quarantined_for.is_some_and(|d| d <= secs(39))
    });
    assert!(client.status("x").unwrap().to_string().contains("quarantine"));
}

#[test]
fn a_wrong_name_is_an_error() {
    let Some(masters) = masters(1) else { return };
    let client = client(&masters);
    assert!(matches!(client.status(""), Err(Error::Config(e)) if e.field == "name"));
    assert!(matches!(client.force_release("a{b}"), Err(Error::Config(e)) if e.field == "name"));
}

/// "Held by nobody with a quorum" was said of a free lock, of a revoked one, and when nobody answered.
#[test]
fn a_status_distinguishes_free_revoked_and_unknown() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let says = |text: &str| {
        let status = client.status("x").unwrap().to_string();
        status.lines().next().unwrap().contains(text)
    };
    assert!(says("is free"));
    let guard = client.lock("x").acquire().unwrap();
    assert!(says("is held by"));
    client.force_release("x").unwrap();
    assert!(says("was revoked"));
    drop(guard);
    masters[0].kill();
    masters[1].kill();
    eventually("the outage is seen", || says("unknown, 1 of 3 masters answered"));
}

#[test]
fn one_lock_is_asked_about_itself() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let lock = client.lock("x");
    assert!(lock.status().unwrap().is_free());
    let guard = lock.acquire().unwrap();
    let status = lock.status().unwrap();
    assert_eq!((status.name.as_str(), status.is_held(), status.is_free()), ("x", true, false));
    drop(guard);
    assert!(matches!(client.lock("").status(), Err(Error::Config(e)) if e.field == "name"));
}

#[test]
fn a_revoked_lock_has_no_owner() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").options(Options::new().label("(revoked)")).acquire().unwrap();
    let held = client.status("x").unwrap();
    assert!(held.is_held() && !held.is_revoked(), "a label that looks like it is an owner's: {held}");
    client.force_release("x").unwrap();
    let status = client.status("x").unwrap();
    assert_eq!((status.holder(), status.is_held(), status.is_free()), (Some(&Holder::Revoked), false, false));
    assert!(status.is_revoked() && status.masters.iter().all(|m| m.holder == Some(Holder::Revoked)));
    drop(guard);
}
