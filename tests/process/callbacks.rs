//! Callbacks run on threads of the client: few of them, of the usual stack, and without any where none can be started.

use crate::support::child::{Child, Task, entry, say};
use crate::support::{DEADLINE, always, builder, eventually, masters, ms, proc, secs, settled};
use redleash::{Lease, Options};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn fixed(ttl: Duration) -> Options {
    Options::new().lease(Lease::Fixed { ttl })
}

#[test]
fn many_slow_callbacks_share_a_few_threads_and_all_are_called() {
    entry(slow_callbacks_child);
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    // Other clients of this process have such threads too.
    Child::start(slow_callbacks_child, &masters.urls(), "").expect("all called");
}

fn slow_callbacks_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    let called = Arc::new(AtomicUsize::new(0));
    let (end, ended) = redleash::crossbeam_channel::bounded::<()>(0);
    let guards: Vec<_> = (0..200)
        .map(|i| {
            let guard = client.lock(&format!("{i}")).options(fixed(secs(1))).acquire().unwrap();
            let (called, ended) = (called.clone(), ended.clone());
            guard.on_lost(move |_| {
                let _ = ended.recv();
                called.fetch_add(1, Ordering::SeqCst);
            });
            guard
        })
        .collect();
    guards.iter().for_each(|guard| drop(guard.lost().recv_timeout(DEADLINE).unwrap()));
    let threads = || proc::our_threads().iter().filter(|name| name.starts_with("redleash-callb")).count();
    always(ms(300), "at most 16 threads", || threads() <= 16);
    assert_eq!(called.load(Ordering::SeqCst), 0);
    drop(end);
    eventually("all are called", || called.load(Ordering::SeqCst) == 200);
    eventually("the threads that are not needed any more end", || threads() <= 2);
    say("all called");
}

#[test]
fn a_callback_has_a_stack_of_the_standard_size() {
    entry(stack_child);
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    Child::start(stack_child, &masters.urls(), "").expect("called");
}

fn stack_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    let guard = client.lock("x").options(fixed(ms(300))).acquire().unwrap();
    let (tell, told) = mpsc::channel();
    guard.on_lost(move |_| {
        // Copied once or twice where nothing is optimised.
        let room = std::hint::black_box([1_u8; 512 * 1024]);
        tell.send(std::hint::black_box(&room).iter().map(|b| u64::from(*b)).sum::<u64>()).unwrap();
    });
    assert_eq!(told.recv_timeout(DEADLINE), Ok(512 * 1024));
    say("called");
}

#[test]
fn callbacks_are_called_where_no_thread_can_be_started() {
    entry(no_threads_child);
    if !proc::readable() {
        return;
    }
    let Some(masters) = masters(3) else { return };
    drop(settled(&masters));
    let child = Child::start(no_threads_child, &masters.urls(), "");
    assert_eq!(child.expect("called"), "4");
}

fn no_threads_child(task: Task) {
    let client = builder(task.urls).build().unwrap();
    let (tell, told) = mpsc::channel();
    let guards: Vec<_> = (0..4)
        .map(|i| {
            let guard = client.lock(&format!("{i}")).options(fixed(secs(1))).acquire().unwrap();
            let tell = tell.clone();
            guard.on_lost(move |_| tell.send(i).unwrap());
            guard
        })
        .collect();
    // No room for another stack: there is less of it than one takes.
    use rustix::process::{Resource, Rlimit, setrlimit};
    let room = (proc::kib("VmSize") + 128) * 1024;
    setrlimit(Resource::As, Rlimit { current: Some(room), maximum: Some(room) }).unwrap();
    assert!(std::thread::Builder::new().stack_size(256 * 1024).spawn(|| ()).is_err(), "a thread can be started");
    let mut called: Vec<i32> = (0..4).map(|_| told.recv_timeout(DEADLINE).expect("called")).collect();
    called.sort_unstable();
    called.dedup();
    say(&format!("called {}", called.len()));
    drop(guards);
}
