//! The duel of `verify peers`, with redleash alone: it needs no other language.

use redleash_verify::peers::scenes::{Scene, Tally};
use redleash_verify::peers::{Options, play};

use std::path::PathBuf;

/// With this seed the fault and B come within a second of A's acquisition, long before A's renewal could heal anything.
const SEED: u64 = 19;

fn tally(client: &str, scene: Scene) -> Option<Tally> {
    if redleash_testkit::skipped() {
        return None;
    }
    let options = Options {
        peers: vec![client.into()],
        scenarios: vec![scene],
        acquisitions: 10,
        slow_acquisitions: 2,
        masters: 3,
        seed: SEED,
        jobs: 1,
        here: Some(PathBuf::from(env!("CARGO_BIN_EXE_verify"))),
        duel: false,
        nodes: String::new(),
        ttl: 0,
        fault_margin: 0,
    };
    let rows = play(&options).expect("the scene cannot be played");
    let [row] = <[_; 1]>::try_from(rows).ok().expect("one client and one scene make one row");
    Some(row.tally.expect("the scene failed"))
}

#[test]
fn a_master_that_forgot_gives_nobody_a_second_lock() {
    if let Some(tally) = tally("redleash", Scene::RestartEmpty) {
        assert_eq!((tally.acquisitions, tally.violations), (10, 0), "{tally:?}");
    }
}

/// The referee sees a violation where there must be one: until A's next renewal, fault margin 0 rests on the masters'
/// clocks.
#[test]
fn a_clock_step_is_survived_with_a_fault_margin_only() {
    if let Some(tally) = tally("redleash", Scene::ClockStep) {
        assert_eq!((tally.acquisitions, tally.violations), (10, 10), "{tally:?}");
    }
    if let Some(tally) = tally("redleash-f1", Scene::ClockStep) {
        assert_eq!((tally.acquisitions, tally.violations), (10, 0), "{tally:?}");
    }
}

#[test]
fn one_server_under_two_names_is_refused() {
    if let Some(tally) = tally("redleash", Scene::AliasMaster) {
        assert_eq!(tally.violations, 0, "{tally:?}");
        assert!(tally.note.is_some_and(|note| note.contains("the same server")));
    }
}
