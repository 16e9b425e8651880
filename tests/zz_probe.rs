#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "x")]
mod support;
use support::*;
use support::proxy::*;
#[test]
fn probe() {
    let m = masters(3).unwrap();
    let s = settled(&m);
    let _ = s.lock("w").acquire().unwrap().release();
    let _ = s.lock("w").acquire().unwrap().release();
    servers::wait_until(ms(200), || m.iter().all(|x| lock_keys(x)==0));
    for (mode, fault) in [(0, Fault::None), (1, Fault::Cut), (2, Fault::Mute)] {
    let mut left = [0;3];
    for _ in 0..20 {
        let p = Proxy::start(m[2].port(), Fault::None);
        let c = builder([m[0].url(), m[1].url(), p.url()]).build().unwrap();
        if mode > 0 {
            p.set(fault);
            drop(c.lock("w").acquire().unwrap());
            p.mend();
        }
        eventually("used", || {
            let guard = c.lock("x").acquire().unwrap();
            let there = support::servers::wait_until(support::ms(50), || value(&m[2], "x").is_some());
            drop(guard);
            there
        });
        drop(c);
        servers::wait_until(ms(300), || m.iter().all(|x| lock_keys(x)==0));
        for (i,x) in m.iter().enumerate() { left[i] += lock_keys(x); x.command(&["DEL", &lock_key("x")]).unwrap(); }
    }
    eprintln!("{mode}: client dropped: {left:?}");
    }
}
