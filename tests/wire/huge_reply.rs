//! A server that sends 256 MB, or lists in lists without end, costs a client neither memory nor its stack.

use crate::support::child::{Child, Task, entry, say};
use crate::support::{self, DEADLINE, builder, eventually, masters, proc, secs, settled};
use redleash::ReleaseOutcome;
use redleash_testkit::{Fault, Proxy};

const SIZE: u64 = 256 << 20;

#[test]
fn a_huge_reply_is_cut_off() {
    entry(huge_reply_child);
    let Some(masters) = masters(3) else { return };
    if !proc::readable() {
        return;
    }
    drop(settled(&masters));
    // What the process needs is measured, so it has a process of its own.
    let mut child = Child::start(huge_reply_child, &masters.urls(), "");
    child.expect("cut off at the handshake");
    child.expect("cut off in a round");
    assert!(child.end(DEADLINE).success());
}

/// The most memory the process has had since `before`, in MiB.
fn grown_since(before: u64) -> u64 {
    proc::kib("VmHWM").saturating_sub(before) / 1024
}

fn huge_reply_child(task: Task) {
    let port = |url: &String| url.rsplit_once(':').unwrap().1.parse().unwrap();
    let proxy = Proxy::start(port(&task.urls[2]), Fault::None).unwrap();
    let urls = [task.urls[0].clone(), task.urls[1].clone(), proxy.url()];
    // Everything that is needed once is there before memory is looked at.
    let warm = builder(urls.clone()).build().unwrap();
    assert_eq!(warm.lock("warm").acquire().unwrap().release(), ReleaseOutcome::Released);
    warm.close(secs(5));
    let before = proc::kib("VmRSS");

    proxy.set(Fault::Flood(SIZE));
    let client = builder(urls.clone()).build().unwrap();
    for _ in 0..50 {
        assert_eq!(client.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
    }
    eventually("the flood has begun", || proxy.flooded() > 0);
    assert!(grown_since(before) < 32, "{} MiB", grown_since(before));
    say("cut off at the handshake");

    proxy.mend();
    let client = builder(urls).build().unwrap();
    eventually("the third master votes", || {
        let guard = client.lock("margin").acquire().unwrap();
        redleash_testkit::wait_until(support::ms(50), || guard.margin() == 1)
    });
    let taken = proxy.flooded();
    proxy.set(Fault::Flood(SIZE));
    for _ in 0..50 {
        assert_eq!(client.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
    }
    eventually("the flood has begun", || proxy.flooded() > taken);
    assert!(grown_since(before) < 32, "{} MiB", grown_since(before));
    // It was not read to the end either.
    assert!(proxy.flooded() < SIZE, "{} bytes were taken", proxy.flooded());
    say("cut off in a round");
}

#[test]
fn lists_in_lists_do_not_use_up_the_stack() {
    // 40 000 nested lists, in one reply below the cap of 64 KiB... four bytes each make it 160 KiB: also above the cap.
    const DEEP: &[u8] = &deep::<160_000>();
    const LESS_DEEP: &[u8] = &deep::<40_000>();
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let proxy = Proxy::start(masters[2].port(), Fault::None).unwrap();
    for bytes in [DEEP, LESS_DEEP] {
        let client = builder([masters[0].url(), masters[1].url(), proxy.url()]).build().unwrap();
        drop(client.lock("warm").acquire().unwrap());
        proxy.set(Fault::Say(bytes));
        for _ in 0..20 {
            assert_eq!(client.lock("x").acquire().unwrap().release(), ReleaseOutcome::Released);
        }
        eventually("it was heard", || proxy.misbehaved() > 0);
        client.lock("x").acquire().unwrap().check().unwrap();
        proxy.mend();
    }
}

const fn deep<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let one = *b"*1\r\n";
    let mut i = 0;
    while i < N {
        bytes[i] = one[i % 4];
        i += 1;
    }
    bytes
}
