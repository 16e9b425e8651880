//! Errors as a user reads them: `main` prints `Debug`, so it is a sentence in one line, without nanoseconds.

use crate::support::child::{Child, Task, entry, say};
use crate::support::{self, builder, client, eventually, masters, ms, secs, settled};
use redleash::{Client, Error, Lease, Options, ReleaseOutcome, Retry};

/// What every text that shows durations keeps to.
#[track_caller]
fn is_readable(text: &str) {
    assert!(!text.contains('\n') && !text.contains('{'), "one line, no fields: {text}");
    let long = |part: &str| part.bytes().take_while(u8::is_ascii_digit).count() > 3;
    assert!(!text.split('.').skip(1).any(long), "more digits than anybody reads: {text}");
}

#[track_caller]
fn reads(error: &Error, variant: &str, says: &[&str]) {
    let (sentence, shown) = (error.to_string(), format!("{error:?}"));
    is_readable(&sentence);
    assert_eq!(shown, format!("{sentence} [{variant}]"));
    for part in says {
        assert!(sentence.contains(part), "{sentence:?} lacks {part:?}");
    }
    if let Some(tally) = error.tally() {
        is_readable(&format!("{tally:?}"));
        is_readable(&format!("{:?}", tally.masters));
    }
}

#[test]
fn a_main_that_returns_an_error_prints_a_sentence() {
    entry(main_child);
    let Some(masters) = masters(3) else { return };
    let mut child = Child::start(main_child, &masters.urls(), "");
    let printed = child.expect("Error: ");
    assert!(
        printed.starts_with("too many masters are in quarantine") && printed.ends_with("[Quarantined]"),
        "{printed}"
    );
    assert!(child.end(support::DEADLINE).success());
}

fn main_child(task: Task) {
    // As the standard library prints what main returns.
    let main = || -> Result<(), Error> {
        let client = builder(task.urls).build()?;
        let _guard = client.lock("x").options(Options::new().fail_fast(true)).acquire()?;
        Ok(())
    };
    if let Err(error) = main() {
        say(&format!("Error: {error:?}"));
    }
}

#[test]
fn a_locks_errors() {
    let Some(masters) = masters(3) else { return };
    let b = builder(masters.urls()).build().unwrap();
    let fresh = b.lock("x").options(Options::new().fail_fast(true)).acquire().unwrap_err();
    reads(&fresh, "Quarantined", &["they vote again in 7", "init", "127.0.0.1:", "more (", "s)"]);
    masters.iter().for_each(|m| m.flush().unwrap());
    let a = settled(&masters);
    let fixed = Options::new().lease(Lease::Fixed { ttl: secs(20) });
    let guard = a.lock("x").options(fixed).acquire().unwrap();
    reads(&guard.ensure(secs(30)).unwrap_err(), "EndsSoon", &["\"x\"", "19.", "30s are wanted"]);
    let twice = Options::new().tries(2).retry(Retry::Fixed(ms(3)));
    let used_up = b.lock("x").options(twice).acquire().unwrap_err();
    reads(&used_up, "TriesUsedUp", &["all of 2 tries", "held by another owner (", "of trying"]);
    reads(&guard.extend(secs(60)).unwrap_err(), "Config", &["ttl", "60s", "59.398s"]);
    assert_eq!(guard.release(), ReleaseOutcome::Released);
    let short = Options::new().lease(Lease::Fixed { ttl: ms(100) });
    let ended = a.lock("y").options(short).acquire().unwrap();
    eventually("its lease is over", || ended.check().is_err());
    reads(&ended.check().unwrap_err(), "Lost", &["\"y\"", "its lease ended", "stop the work"]);
    for master in &*masters {
        assert!(master.command(&["LPUSH", &support::lock_key("list"), "1"]).unwrap().int().is_some());
    }
    reads(&a.lock("list").acquire().unwrap_err(), "Conflict", &["\"list\"", "127.0.0.1:", "is a list"]);
    masters[0].flush().unwrap();
    reads(&a.init().unwrap_err(), "NotBlank", &["is empty", "is settled already"]);
    is_readable(&a.status("x").unwrap().to_string().replace('\n', "; "));
    a.close(support::DEADLINE);
    reads(&a.lock("x").acquire().unwrap_err(), "Closed", &["closed"]);
}

#[test]
fn an_outage_names_every_master_and_why() {
    let Some(masters) = masters(3) else { return };
    let a = settled(&masters);
    let guard = a.lock("x").acquire().unwrap();
    masters[0].kill();
    masters[1].kill();
    let patient = builder(masters.urls()).outage_patience(secs(1)).build().unwrap();
    let error = patient.lock("x").acquire().unwrap_err();
    let two = [0, 1].map(|i| format!("127.0.0.1:{}: not connected: connection refused", masters[i].port()));
    reads(&error, "NoQuorum", &["0 of 2 needed votes", "of trying", &two[0], &two[1]]);
    masters[2].kill();
    match guard.release() {
        ReleaseOutcome::Unconfirmed(unconfirmed) => is_readable(&unconfirmed.to_string()),
        other => panic!("{other:?}"),
    }
    drop(client(&masters));
}

#[test]
fn a_wrong_setting_is_a_sentence() {
    let error = Client::builder().node("redis://127.0.0.1").ttl(ms(1)).build().unwrap_err();
    reads(&error, "Config", &["ttl", "1ms", "100ms"]);
}
