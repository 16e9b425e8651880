#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "x")]
mod support;
use support::*;
#[test]
fn probe() {
    let m = masters(3).unwrap();
    let s = settled(&m);
    let _ = s.lock("w").acquire().unwrap().release();
    let _ = s.lock("w").acquire().unwrap().release();
    servers::wait_until(ms(200), || m.iter().all(|x| lock_keys(x)==0));
    for order in 0..3 {
    let mut left = [0;3];
    for _ in 0..100 {
        let c = client(&m);
        if order == 2 { let _ = c.lock("y").acquire().unwrap().release(); }
        let g = c.lock("x").acquire().unwrap();
        if order == 1 { drop(g); drop(c); } else { drop(c); drop(g); }
        servers::wait_until(ms(200), || m.iter().all(|x| lock_keys(x)==0));
        for (i,x) in m.iter().enumerate() { left[i] += lock_keys(x); x.command(&["DEL", &lock_key("x")]).unwrap(); }
    }
    eprintln!("{order}: client dropped: {left:?}");
    }
}
