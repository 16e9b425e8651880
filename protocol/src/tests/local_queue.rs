use super::super::Mono;
use super::super::local_queue::{Entering, LocalQueue, NOTIFY_DELAY, WAITERS_WINDOW};
use super::super::wait_list::{Notify, QUANTUM};
use super::{at, ms};
use std::time::Duration;

const NS: Duration = Duration::from_nanos(1);

/// A queue in which a thread has taken the lock at this moment.
fn held(now: Mono) -> LocalQueue {
    let mut queue = LocalQueue::default();
    assert_eq!(queue.enter(true), Entering::Contends);
    queue.granted(now, 0);
    queue
}

/// The lock is released, and given up to the next or to nobody.
fn release(queue: &mut LocalQueue, now: Mono, next: bool) -> Notify {
    let notify = queue.release(now);
    queue.leave(next);
    notify
}

#[test]
fn one_thread_contends_and_the_others_queue_but_for_those_that_do_not_wait() {
    let mut queue = LocalQueue::default();
    assert_eq!(queue.enter(false), Entering::Contends);
    assert_eq!(queue.enter(true), Entering::Queues);
    assert_eq!(queue.enter(false), Entering::ContendsBeside, "it asks the masters itself");
    queue.granted(at(0), 0);
    assert_eq!(queue.enter(false), Entering::Refused, "a thread of this process holds the lock");
    assert_eq!(queue.enter(true), Entering::Queues);
    queue.leave(true);
    assert_eq!(queue.enter(true), Entering::Queues, "the next contends");
    queue.leave(false);
    assert_eq!(queue.enter(true), Entering::Contends);
}

#[test]
fn in_an_outage_each_thread_contends_for_itself_until_a_quorum_answers() {
    let mut queue = LocalQueue::default();
    queue.enter(true);
    queue.outage();
    assert_eq!(queue.enter(true), Entering::ContendsBeside);
    queue.refused();
    assert_eq!(queue.enter(true), Entering::Queues);
    queue.outage();
    queue.leave(false);
    assert_eq!(queue.enter(true), Entering::Contends);
    assert_eq!(queue.enter(true), Entering::Queues);
}

#[test]
fn a_release_notifies_once_the_quantum_is_over_and_says_under_which_number_we_waited() {
    let mut queue = held(at(0));
    queue.leave(true);
    queue.granted(at(5), 8);
    assert_eq!(queue.release(at(0).plus(QUANTUM - NS)), Notify { waiter: 8, at_once: false });
    assert_eq!(queue.release(at(0).plus(QUANTUM)), Notify { waiter: 8, at_once: true });
    queue.granted(at(20), 0);
    assert_eq!(queue.release(at(20)), Notify { waiter: 8, at_once: true }, "the number may still be known");
    queue.refused();
    queue.granted(at(30), 9);
    assert_eq!(queue.release(at(30)), Notify { waiter: 9, at_once: false }, "another had it: a new quantum");
}

#[test]
fn a_process_yields_between_its_quanta_while_waiters_are_known() {
    let mut queue = held(at(0));
    assert!(!release(&mut queue, at(1), true).at_once);
    assert!(!queue.yields(at(1)), "nobody waits elsewhere");
    queue.waiters_elsewhere(at(1), false);
    queue.granted(at(2), 0);
    release(&mut queue, at(3), true);
    assert!(!queue.yields(at(3)), "its quantum is not over");
    queue.granted(at(4), 0);
    let over = at(0).plus(QUANTUM);
    assert!(release(&mut queue, over, true).at_once);
    assert!(queue.yields(over), "it has not heard yet that a waiter was notified, and knows that there is one");
    queue.waiters_elsewhere(over.plus(ms(1)), true);
    assert!(queue.yields(over.plus(ms(1))), "a waiter was notified");
    let last = over.plus(ms(1)).plus(WAITERS_WINDOW);
    assert!(queue.yields(last) && !queue.yields(last.plus(NS)), "nothing was heard of waiters for a while");
    queue.granted(over.plus(ms(30)), 8);
    release(&mut queue, over.plus(ms(31)), true);
    assert!(!queue.yields(over.plus(ms(31))), "a new quantum");
}

#[test]
fn a_waiter_is_notified_late_if_no_thread_here_takes_the_lock_again() {
    let mut queue = held(at(0));
    release(&mut queue, at(1), false);
    assert!(queue.waiters_elsewhere(at(2), false), "to be planned");
    assert!(!queue.waiters_elsewhere(at(2), false), "the other masters say the same");
    let due = at(1).plus(NOTIFY_DELAY);
    assert_eq!(queue.late_notification(at(1)), Some(due));
    assert_eq!(queue.late_notification(due), Some(due), "now");
    assert_eq!(queue.late_notification(due), None, "once");
    // The release that ends the quantum notifies.
    queue.enter(true);
    queue.granted(at(3), 0);
    release(&mut queue, at(4), false);
    assert!(queue.waiters_elsewhere(at(4), false));
    queue.waiters_elsewhere(at(4), true);
    assert_eq!(queue.late_notification(at(9)), None);
    // The holder will.
    queue.enter(true);
    queue.granted(at(10), 0);
    queue.waiters_elsewhere(at(10), false);
    assert_eq!(queue.late_notification(at(12)), None);
}

#[test]
fn where_the_lock_is_taken_again_and_again_the_plan_stays_and_is_looked_at_rarely() {
    let mut queue = held(at(0));
    queue.waiters_elsewhere(at(0), false);
    let mut looks = 0;
    let mut next = at(1);
    for n in 0..70 {
        let now = at(0).plus(ms(n) / 10);
        release(&mut queue, now, true);
        queue.granted(now, 0);
        assert!(!queue.waiters_elsewhere(now, false), "planned already");
        if now >= next {
            looks += 1;
            next = queue.late_notification(now).expect("each release makes the same plan");
            assert!(next >= now.plus(NOTIFY_DELAY));
        }
    }
    assert!(looks <= 4, "{looks} looks in a quantum");
}

#[test]
fn at_the_end_of_the_client_a_planned_notification_is_known() {
    let mut queue = held(at(0));
    queue.granted(at(0), 9);
    queue.waiters_elsewhere(at(0), false);
    assert_eq!(queue.last_notification(), None, "the lock is held");
    release(&mut queue, at(1), false);
    assert_eq!(queue.last_notification(), Some(9));
    assert!(!queue.is_forgettable(at(500)) && !queue.is_new());
    queue.late_notification(at(500));
    assert!(queue.is_forgettable(at(500)) && !queue.is_forgettable(at(100)));
    queue.enter(true);
    assert!(!queue.is_forgettable(at(500)));
    queue.leave(false);
    assert_eq!(queue.last_notification(), None);
    assert!(LocalQueue::default().is_new());
}
