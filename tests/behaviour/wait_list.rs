//! The wait list, as a master keeps it: the scripts themselves on a real server.

use crate::support::{self, masters};
use redleash::unversioned::scripts;
use redleash_testkit::{Masters, Reply};
use std::ops::Deref;

const LOCK: &str = "rl:L:{line}";
const LIST: &str = "rl:W:{line}";
const CHANNEL: &str = "rl:C:{line}";
/// How long an empty list is remembered: as long as a test may take.
const MEMORY: &str = "60000";
const WINDOW_US: u64 = 60_000_000;

/// One master without quarantine, whose scripts are called by hand.
struct Master(Masters);

impl Deref for Master {
    type Target = Masters;
    fn deref(&self) -> &Masters {
        &self.0
    }
}

/// A waiter's attempt.
#[derive(Clone, Copy)]
struct Attempt {
    number: u64,
    waited_us: u64,
    life_ms: u64,
    yields: bool,
}

/// A waiter that has waited for so many seconds, and was notified.
fn notified(number: u64, waited: u64) -> Attempt {
    Attempt { number, waited_us: waited * 1_000_000, life_ms: 60_000, yields: false }
}

/// One that was not.
fn yielding(number: u64, waited: u64) -> Attempt {
    Attempt { yields: true, ..notified(number, waited) }
}

impl Master {
    fn start() -> Option<Master> {
        masters(1).map(Master)
    }

    fn call(&self, script: &str, keys: &[&str], args: &[&str]) -> Reply {
        let text = scripts().into_iter().find(|s| s.name == script).unwrap().text;
        let count = keys.len().to_string();
        self[0].command(&[&["EVAL", text, &count], keys, args].concat()).unwrap()
    }

    /// The code of an attempt's answer.
    fn attempt(&self, a: Attempt) -> i64 {
        let keys = [LOCK, "rl:F:{line}", "rl:N", "rl:R:{line}", LIST];
        let (waited, life, number) = (a.waited_us.to_string(), a.life_ms.to_string(), a.number.to_string());
        let window = if a.yields { WINDOW_US.to_string() } else { "0".into() };
        let value = format!("value of {number}");
        let args = [value.as_str(), "-", "", "", "", "0", "60000", "", &life, &waited, &window, &number];
        self.call("acquire", &keys, &args).items()[0].int().unwrap()
    }

    /// The answer to a release by the waiter `number`.
    fn release(&self, number: u64, at_once: bool) -> i64 {
        let value = format!("value of {number}");
        let number = number.to_string();
        let args = [value.as_str(), "0", CHANNEL, if at_once { "1" } else { "0" }, &number, MEMORY];
        self.call("release", &[LOCK, LIST], &args).int().unwrap()
    }

    fn notify(&self, number: u64) -> i64 {
        self.call("notify", &[LOCK, LIST], &[CHANNEL, &number.to_string(), MEMORY]).int().unwrap()
    }

    fn holds(&self, number: u64) {
        assert!(self[0].command(&["SET", LOCK, &format!("value of {number}")]).unwrap().is_ok());
    }

    fn set_line(&self, line: &str) {
        assert!(self[0].command(&["SET", LIST, line]).unwrap().is_ok());
    }

    fn text(&self) -> Option<String> {
        self[0].command(&["GET", LIST]).unwrap().text()
    }

    /// The waiters in the wait list, the first first.
    fn numbers(&self) -> Vec<u64> {
        let text = self.text().unwrap_or_default();
        text.split(',').skip(1).map(|entry| entry.split(':').nth(1).unwrap().parse().unwrap()).collect()
    }

    /// What is said on the channels while `act` runs, behind the number of the client.
    fn said(&self, act: impl FnOnce()) -> Vec<String> {
        let mut connection = redis::Client::open(self[0].url()).unwrap().get_connection().unwrap();
        let mut heard = connection.as_pubsub();
        heard.psubscribe(format!("{CHANNEL}:*")).unwrap();
        act();
        assert_eq!(self[0].command(&["PUBLISH", &format!("{CHANNEL}:"), "end"]).unwrap().int(), Some(1));
        let next = || {
            let message = heard.get_message().unwrap();
            let client = message.get_channel_name().strip_prefix(CHANNEL).unwrap().to_string();
            format!("{client} {}", message.get_payload::<String>().unwrap())
        };
        std::iter::repeat_with(next).take_while(|said| said != ": end").collect()
    }
}

#[test]
fn the_list_is_ordered_by_time_waited_with_one_entry_per_waiter() {
    let Some(master) = Master::start() else { return };
    master.holds(1);
    for (number, waited) in [(2, 20), (3, 40), (4, 30), (5, 10)] {
        assert_eq!(master.attempt(notified(number, waited)), 0);
    }
    assert_eq!(master.numbers(), [3, 4, 2, 5]);
    assert_eq!(master.attempt(yielding(5, 35)), 0);
    assert_eq!(master.numbers(), [3, 5, 4, 2], "a waiter that comes again has its place by how long it has waited");
    let life = master[0].command(&["PTTL", LIST]).unwrap().int().unwrap();
    assert!((1..=60_000).contains(&life), "the line lives as long as the last in it: {life}");
}

#[test]
fn a_release_notifies_the_first_and_the_others_keep_their_places() {
    let Some(master) = Master::start() else { return };
    master.holds(1);
    for (number, waited) in [(2, 20), (3, 40), (4, 30)] {
        master.attempt(notified(number, waited));
    }
    let said = master.said(|| assert_eq!(master.release(1, true), 2));
    assert_eq!(said, [":0 3"], "the first, and nobody else");
    assert_eq!(master.numbers(), [4, 2]);
    assert_eq!(master.attempt(yielding(2, 20)), 0, "the lock is free, and it is another's quantum");
    assert_eq!(master.numbers(), [4, 2]);
    assert_eq!(master.attempt(notified(3, 40)), 1);
    assert_eq!(master.said(|| assert_eq!(master.release(3, false), 3)), [""; 0], "its quantum is not over");
    assert_eq!(master.numbers(), [4, 2]);
    assert_eq!(master.said(|| assert_eq!(master.notify(3), 2)), [":0 4"], "it is, after all");
    assert_eq!(master.said(|| assert_eq!(master.notify(3), 2)), [":0 2"]);
    assert_eq!(master.said(|| assert_eq!(master.notify(3), 1)), [""; 0]);
    assert_eq!(master.text(), None, "nobody is on the way: the lock is anybody's");
    assert_eq!(master.notify(3), 0);
}

#[test]
fn each_client_is_notified_on_its_own_channel() {
    let Some(master) = Master::start() else { return };
    master.holds(1);
    let (one, other) = (7 << 28 | 1, ((1 << 24) - 1) << 28 | ((1 << 28) - 1));
    master.attempt(notified(one, 20));
    master.attempt(notified(other, 10));
    let said = master.said(|| assert_eq!(master.release(1, true), 2));
    assert_eq!(said, [format!(":7 {one}")]);
    let said = master.said(|| assert_eq!(master.notify(1), 2));
    assert_eq!(said, [format!(":16777215 {other}")]);
}

#[test]
fn taking_the_lock_leaves_the_list_and_begins_a_quantum() {
    let Some(master) = Master::start() else { return };
    master.set_line("5,7:2:9000000000000000,8:3:9000000000000000");
    assert_eq!(master.attempt(yielding(3, 1)), 1, "the last quantum began long ago");
    assert_eq!(master.numbers(), [2]);
    assert_eq!(master.release(3, false), 3);
    assert_eq!(master.attempt(yielding(2, 1)), 0, "this one has just begun");
    assert_eq!(master.attempt(notified(2, 1)), 1);
}

#[test]
fn the_releaser_is_not_notified_of_its_own_release() {
    let Some(master) = Master::start() else { return };
    master.holds(1);
    master.attempt(notified(7, 40));
    master.attempt(notified(8, 30));
    // A master that answered its attempt too late to be counted still has it in its wait list.
    master.holds(7);
    assert_eq!(master.said(|| assert_eq!(master.release(7, true), 2)), [":0 8"]);
    master.holds(7);
    master.attempt(notified(7, 40));
    assert_eq!(master.said(|| assert_eq!(master.release(7, true), 1)), [""; 0], "nobody else waits");
}

#[test]
fn waiters_whose_time_is_over_are_not_notified() {
    let Some(master) = Master::start() else { return };
    master.holds(1);
    master.set_line("5,7:2:8,9:3:9000000000000000");
    assert_eq!(master.said(|| assert_eq!(master.release(1, true), 2)), [":0 3"]);
    master.holds(1);
    master.set_line("5,7:2:8");
    assert_eq!(master.release(1, true), 1);
    master.holds(1);
    master.attempt(notified(4, 1));
    assert_eq!(master.numbers(), [4], "an attempt clears the line of them");
    let short = Attempt { life_ms: 1, ..notified(6, 2) };
    master.attempt(short);
    assert!(redleash_testkit::wait_until(support::DEADLINE, || {
        master.attempt(notified(4, 1));
        master.numbers() == [4]
    }));
}

#[test]
fn the_list_keeps_the_sixty_three_that_waited_longest() {
    let Some(master) = Master::start() else { return };
    master.holds(1);
    for number in 2..80 {
        master.attempt(notified(number, 1_000 - number));
    }
    assert_eq!(master.numbers(), (2..65).collect::<Vec<_>>());
    master.attempt(notified(99, 1_000));
    assert_eq!(master.numbers(), [99].into_iter().chain(2..64).collect::<Vec<_>>());
}

#[test]
fn a_malformed_list_or_a_key_of_another_type_counts_as_empty() {
    let Some(master) = Master::start() else { return };
    for line in ["", "junk", "-5", "5", "5,", "5,1:2", "5,1:2:three", "5;1:2:9000000000000000"] {
        master.holds(1);
        master.set_line(line);
        assert_eq!(master.said(|| assert_eq!(master.release(1, true), 1)), [""; 0], "{line:?}");
    }
    for (line, first) in
        [(",1:2:9000000000000000x", 2), ("5,1:0002:9000000000000000", 2), ("5,x,1:3:9e15,1:2:9000000000000000", 2)]
    {
        master.holds(1);
        master.set_line(line);
        let said = master.said(|| assert_eq!(master.release(1, true), 2));
        assert!(said[0].ends_with(&first.to_string()), "{line:?}: {said:?}");
    }
    assert!(master[0].command(&["DEL", LIST]).unwrap().int().is_some());
    assert_eq!(master[0].command(&["RPUSH", LIST, "x"]).unwrap().int(), Some(1));
    master.holds(1);
    assert_eq!(master.release(1, true), 1);
    assert_eq!(master.notify(2), 0);
    assert_eq!(master.attempt(yielding(2, 1)), 1);
    assert_eq!(master.attempt(notified(3, 1)), 0);
    assert_eq!(master.numbers(), [3], "the next waiter writes it anew");
}
