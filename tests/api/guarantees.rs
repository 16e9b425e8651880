//! guarantees() says in words what a configuration protects against, and what not.

use crate::support::secs;
use redleash::{Client, ClientBuilder};

/// Nobody needs to answer for this: it is about the settings.
fn words(masters: usize, change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (String, String) {
    // Ports at which nobody listens refuse at once.
    let urls = (0..masters).map(|i| format!("redis://127.0.0.1:{}", i + 1));
    let guarantees = change(Client::builder().nodes(urls)).build().unwrap().guarantees();
    let text = guarantees.to_string();
    assert!(guarantees.protects.iter().chain(&guarantees.does_not_protect).all(|line| text.contains(line.as_str())));
    (guarantees.protects.join("\n"), guarantees.does_not_protect.join("\n"))
}

#[test]
fn three_masters_with_the_quarantine() {
    let (yes, no) = words(3, |b| b.max_lease(secs(45)));
    assert!(yes.contains("1 of 3") && yes.contains("quorum is 2"), "{yes}");
    assert!(yes.contains("restart") && yes.contains("57.4 s"), "{yes}");
    assert!(no.contains("check()") && no.contains("fencing token"), "{no}");
    assert!(no.contains("fault margin is 0"), "{no}");
}

#[test]
fn what_is_switched_off_is_not_promised() {
    for (yes, no) in [words(3, |b| b.quarantine(false)), words(1, |b| b)] {
        assert!(!yes.contains("restart"), "{yes}");
        assert!(no.contains("quarantine is off") && no.contains("second holder"), "{no}");
    }
}

#[test]
fn one_master_stands_alone_and_a_fault_margin_costs_votes() {
    let (yes, _) = words(1, |b| b);
    assert!(yes.contains("every one is needed"), "{yes}");
    let (yes, no) = words(5, |b| b.fault_margin(1));
    assert!(yes.contains("quorum is 4") && yes.contains("up to 1 master"), "{yes}");
    assert!(!no.contains("fault margin is 0"), "{no}");
}
