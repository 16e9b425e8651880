//! One of three masters answers nonsense, half a reply, far too much, or one byte a second. The other two carry on, it
//! gives no vote, and when it is well again it is used again.

use crate::support::{self, builder, eventually, masters, no_keys_left, occupy, secs, settled};
use redleash::{Client, Error, ReleaseOutcome};
use redleash_testkit::{Fault, Masters, Proxy};
use std::time::Instant;

/// What a server may say instead of its reply.
const NONSENSE: [Fault; 12] = [
    Fault::Say(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    Fault::Say(b"\0\xff\xfe\r\n\r\n\0"),
    // Well formed, but not what was asked for.
    Fault::Say(b"+OK\r\n"),
    Fault::Say(b"+OK\r\n+OK\r\n"),
    Fault::Say(b":1\r\n"),
    Fault::Say(b"*2\r\n:1\r\n:1\r\n"),
    Fault::Say(b"*0\r\n*0\r\n"),
    Fault::Say(b"-ERR no idea\r\n-ERR no idea\r\n"),
    // Lengths that cannot be.
    Fault::Say(b"$-7\r\n*-3\r\n"),
    Fault::Say(b"*2147483647\r\n$9223372036854775807\r\n"),
    Fault::Half,
    Fault::HalfAndClose,
];

/// Two honest masters and a third behind a proxy.
struct Stage {
    masters: Masters,
    proxy: Proxy,
    urls: Vec<String>,
}

fn stage() -> Option<Stage> {
    let masters = masters(3)?;
    drop(settled(&masters));
    let proxy = Proxy::start(masters[2].port(), Fault::None).unwrap();
    let urls = vec![masters[0].url(), masters[1].url(), proxy.url()];
    Some(Stage { masters, proxy, urls })
}

impl Stage {
    fn client(&self) -> Client {
        // A connection that makes no progress is given up after this, not after the usual two seconds.
        builder(self.urls.clone()).connect_timeout(support::ms(700)).build().unwrap()
    }

    /// A whole life of a lock, some times over, in a time that no limit fits into as often.
    fn the_two_carry_on(&self, client: &Client, what: &str) {
        let (start, before) = (Instant::now(), self.proxy.misbehaved());
        for i in 0..20 {
            let guard = client.lock("carry").acquire().unwrap_or_else(|e| panic!("{what}, cycle {i}: {e}"));
            guard.check().unwrap();
            guard.extend(secs(20)).unwrap_or_else(|e| panic!("{what}, cycle {i}: {e}"));
            if i % 5 == 0 {
                guard.verify().unwrap_or_else(|e| panic!("{what}, cycle {i}: {e}"));
                guard.fencing_token().unwrap_or_else(|e| panic!("{what}, cycle {i}: {e}"));
            }
            assert_eq!(guard.release(), ReleaseOutcome::Released, "{what}, cycle {i}");
        }
        assert!(start.elapsed() < secs(15), "{what}: {:?}", start.elapsed());
        eventually(&format!("the third master was heard: {what}"), || self.proxy.misbehaved() > before);
    }

    fn it_is_used_again(&self, client: &Client, what: &str) {
        self.proxy.mend();
        eventually(&format!("the third master votes again after {what}"), || {
            let guard = client.lock("back").acquire().unwrap();
            redleash_testkit::wait_until(support::ms(50), || guard.margin() == 1)
        });
    }
}

#[test]
fn nonsense_from_the_first_byte() {
    let Some(stage) = stage() else { return };
    for fault in NONSENSE {
        stage.proxy.set(fault);
        let client = stage.client();
        stage.the_two_carry_on(&client, &format!("{fault:?}"));
        client.close(secs(5));
        stage.proxy.mend();
    }
    stage.it_is_used_again(&stage.client(), "everything");
    no_keys_left(&stage.masters);
}

#[test]
fn nonsense_in_the_middle() {
    let Some(stage) = stage() else { return };
    let client = stage.client();
    let held = client.lock("held").acquire().unwrap();
    for fault in NONSENSE {
        stage.it_is_used_again(&client, &format!("what came before {fault:?}"));
        stage.proxy.set(fault);
        stage.the_two_carry_on(&client, &format!("{fault:?}"));
    }
    stage.it_is_used_again(&client, "everything");
    held.check().unwrap();
    held.verify().unwrap();
    assert_eq!(held.release(), ReleaseOutcome::Released);
    no_keys_left(&stage.masters);
}

#[test]
fn nonsense_is_no_vote() {
    let Some(stage) = stage() else { return };
    // One honest master refuses, one agrees: whatever the third says must not make a quorum.
    occupy(&stage.masters[0], "x");
    let client = stage.client();
    for fault in NONSENSE {
        stage.it_is_used_again(&client, "the last");
        stage.proxy.set(fault);
        for _ in 0..10 {
            match client.lock("x").try_acquire() {
                Ok(None) | Err(Error::NoQuorum(_)) => {}
                other => panic!("{fault:?} counted as a vote: {other:?}"),
            }
        }
    }
}

#[test]
fn one_byte_a_second() {
    let Some(stage) = stage() else { return };
    stage.proxy.set(Fault::Drip);
    let client = stage.client();
    stage.the_two_carry_on(&client, "dripping from the start");
    stage.it_is_used_again(&client, "dripping");
    stage.proxy.set(Fault::Drip);
    stage.the_two_carry_on(&client, "dripping in the middle");
    stage.it_is_used_again(&client, "dripping again");
    no_keys_left(&stage.masters);
}

#[test]
fn a_dripping_majority_is_an_error_within_the_limit() {
    let Some(stage) = stage() else { return };
    let second = Proxy::start(stage.masters[1].port(), Fault::None).unwrap();
    let client = builder([stage.masters[0].url(), second.url(), stage.proxy.url()]).build().unwrap();
    drop(client.lock("warm").acquire().unwrap());
    stage.proxy.set(Fault::Drip);
    second.set(Fault::Drip);
    let start = Instant::now();
    let error = client.lock("x").try_acquire_for(secs(3)).unwrap_err();
    // A limit that starts anew with each byte would take minutes.
    assert!(start.elapsed() < secs(10), "{:?}", start.elapsed());
    assert!(matches!(error, Error::NoQuorum(_)), "{error:?}");
    let text = error.to_string();
    assert!(text.contains(&second.label()) && text.contains(&stage.proxy.label()), "{text}");
}

#[test]
fn silence_and_cuts() {
    let Some(stage) = stage() else { return };
    for fault in [Fault::Mute, Fault::Cut] {
        stage.proxy.set(fault);
        let client = &stage.client();
        stage.the_two_carry_on(client, &format!("{fault:?} from the start"));
        stage.it_is_used_again(client, &format!("{fault:?}"));
        stage.proxy.set(fault);
        stage.the_two_carry_on(client, &format!("{fault:?} in the middle"));
        stage.it_is_used_again(client, &format!("{fault:?} again"));
        // What a cut swallowed the client sends again, as long as it lives.
        no_keys_left(&stage.masters);
    }
    // A master that is not well is not asked to connect a thousand times.
    assert!(stage.proxy.accepted() < 200, "{} connections", stage.proxy.accepted());
}
