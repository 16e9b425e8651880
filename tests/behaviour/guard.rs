//! What a guard says of its lock.

use crate::support::{eventually, masters, secs, settled};
use redleash::{Error, Lease, LeaseState, Options};

#[test]
fn how_long_it_holds() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let fixed = Options::new().lease(Lease::Fixed { ttl: secs(30) });
    let guard = client.lock("x").options(fixed).acquire().unwrap();
    assert_eq!((guard.name(), guard.state()), ("x", LeaseState::Held));
    assert!(guard.remaining() > secs(5) && guard.remaining() < secs(30), "{:?}", guard.remaining());
    guard.ensure(secs(5)).unwrap();
    match guard.ensure(secs(31)) {
        Err(Error::EndsSoon { name, left, wanted, .. }) => {
            assert_eq!((name.as_str(), wanted), ("x", secs(31)));
            assert!(left > secs(5) && left < secs(30), "{left:?}");
        }
        other => panic!("{other:?}"),
    }
    let shown = format!("{guard:?}");
    for part in ["LockGuard", "name: \"x\"", "remaining: 2"] {
        assert!(shown.contains(part), "{shown}");
    }
}

#[test]
fn how_many_masters_may_forget_it() {
    let Some(masters) = masters(3) else { return };
    let client = settled(&masters);
    let guard = client.lock("x").acquire().unwrap();
    eventually("all three voted, late ones included", || guard.margin() == 1);
    masters[2].pause().unwrap();
    guard.extend(secs(30)).unwrap();
    assert_eq!(guard.margin(), 0);
    masters[2].resume().unwrap();
    eventually("the third votes late", || guard.margin() == 1);
}
