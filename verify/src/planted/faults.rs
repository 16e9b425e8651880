//! The faults and who finds each. A fault is `planted::on("name")` in the library's source or a row of
//! `src/planted.rs`; a test compares the two lists.

/// Who finds a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finder {
    /// The simulation.
    Simulation,
    /// A test of the library: the file below `tests` without its ending, and the name of the test.
    Test(&'static str, &'static str),
}

/// One fault.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Its name in the source.
    pub name: &'static str,
    /// What is wrong, in a few words.
    pub what: &'static str,
    /// Who finds it.
    pub finder: Finder,
}

const fn sim(name: &'static str, what: &'static str) -> Fault {
    Fault { name, what, finder: Finder::Simulation }
}

/// A fault that a test of the library finds.
const fn test(name: &'static str, what: &'static str, file: &'static str, test: &'static str) -> Fault {
    Fault { name, what, finder: Finder::Test(file, test) }
}

const TIMER: &str = "timer::what_is_entered_is_handled_when_it_is_due";
const RAISED: &str = "a_counter_is_raised_for_the_holder_only_and_by_a_settled_master_only";
const FORKS: &str = "the_guard_is_lost_in_the_child_and_held_in_the_parent";

/// All of them.
pub const FAULTS: &[Fault] = &[
    sim("quorum_one_less", "the quorum is one vote too small"),
    sim("token_kept_over_attempts", "the attempts of a call share a token"),
    sim("validity_from_the_end", "the lease is counted from the end of its round"),
    sim("drift_ignored", "the rates of clocks are taken to be the same"),
    sim("undo_of_a_granted_attempt", "keys that did not count are undone while the guard lives"),
    sim("extended_too_late", "an extension counts after the lease has ended"),
    sim("lost_is_held_again", "a lease that was taken is held again"),
    sim("written_again_without_quarantine", "a lost key is written again where nobody vouches for the time between"),
    sim("adopted_too_late", "a lease is adopted after its end"),
    sim("value_without_index", "all masters store the same value"),
    sim("read_not_compared", "a plain vote counts whatever the generation"),
    sim("generation_inherited", "a new connection inherits the settled generation"),
    sim("quarantine_not_awaited", "a master that lost its memory votes at once"),
    sim("quarantine_halved", "a master that lost its memory votes too early"),
    sim("run_id_not_compared", "a restart from an old snapshot is not noticed"),
    sim("history_not_compared", "a failover and back is not noticed by the connections that were there"),
    sim("history_not_watched", "a generation is cached where it may come back with old data"),
    sim("extension_counted_in_quarantine", "an extension is counted by a master in quarantine"),
    sim("extension_shortens", "a late extension shortens the life of a key"),
    sim("revoked_key_is_deleted", "a forced release frees the lock at once"),
    sim("adopted_from_anybody", "an adoption takes the lock from whoever holds it"),
    sim("largest_counter_is_the_token", "the token is the largest counter of the round"),
    sim("no_write_back", "a token is used before a quorum holds it"),
    sim("token_after_the_end", "a token counts after the lease has ended"),
    sim("clock_ignored", "a counter that was lost begins at zero"),
    sim("quarantine_without_bound", "a quarantine gets longer by what a clock is stepped back"),
    test(
        "renewal_outside_gate",
        "a renewal is queued behind the gate, and so behind the release",
        "threads",
        "gate::nothing_is_written_behind_the_release",
    ),
    test(
        "renewal_sent_behind_release",
        "a renewal whose script was forgotten is sent again behind the release",
        "threads",
        "gate::nothing_is_sent_again_behind_the_release",
    ),
    test("caretaker_lost", "a caretaker comes once only", "threads", "caretaker::no_reply_is_left_unread"),
    test("timer_oversleeps", "the timer is not woken for what is due before its next", "threads", TIMER),
    test("watchdog_dies", "a watchdog ends after its first renewal", "renewal", "a_watchdog_lease_outlives_its_ttl"),
    test("loss_not_told", "nobody is told of a loss", "loss_signal", "one_message_and_no_more"),
    test("wall_clock", "leases are measured by the wall clock", "adoption", "a_deadline_is_a_moment_of_the_boot_clock"),
    test("fence_without_own_value", "a counter is raised for whoever asks", "fencing", RAISED),
    test("fence_without_generation", "a counter that was lost is raised like any other", "fencing", RAISED),
    test(
        "late_reply_skipped",
        "the request of a reply that is late is forgotten, and its connection used on",
        "regressions_wire",
        "a_late_reply_answers_no_other_request",
    ),
    test(
        "used_after_nonsense",
        "a connection on which a master has said what nobody asked for is used on",
        "regressions_wire",
        "a_reply_too_many_answers_no_other_request",
    ),
    test(
        "undo_elsewhere",
        "an attempt is undone on another connection than the one that carried it",
        "regressions_wire",
        "an_undo_goes_down_the_connection_of_its_attempt",
    ),
    test(
        "grant_forgotten",
        "a waiter that gives up drops what it was given in the last moment",
        "threads",
        "queue::who_gives_up_leaves_no_trace_and_loses_nothing",
    ),
    test(
        "never_steps_back",
        "a process whose turn is over stands behind its own release each time, ahead of all others",
        "threads",
        "queue::a_process_steps_back_after_its_turn_without_waiting_to_be_told",
    ),
    test(
        "init_without_its_mark",
        "an init that comes late settles a master that has forgotten",
        "wrong_masters",
        "an_init_settles_only_what_it_has_found_empty_and_nothing_has_happened_to_since",
    ),
    test(
        "appearance_not_noticed",
        "a client without quarantine votes on beside a deployment that was settled since",
        "first_user",
        "a_client_of_one_master_is_kept_out_by_an_init_that_comes_later",
    ),
    test(
        "settled_beside_settled_ones",
        "an init settles a master that has forgotten, beside settled ones",
        "wrong_masters",
        "init_refuses_what_is_not_new",
    ),
    test("fork_ignored", "a forked child uses the guard of its parent", "forks", FORKS),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(below: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(below).expect("the library's source") {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }

    /// What stands in quotes behind `before`, white space apart.
    fn named<'a>(text: &'a str, before: &str) -> impl Iterator<Item = &'a str> {
        let pieces: Vec<&str> = text.split(before).skip(1).collect();
        pieces.into_iter().filter_map(|piece| piece.trim_start().strip_prefix('"')?.split('"').next())
    }

    #[test]
    fn the_list_has_every_fault_of_the_source_and_no_other() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
        let mut files = Vec::new();
        sources(&source, &mut files);
        let mut planted = BTreeSet::new();
        for path in files {
            let text = fs::read_to_string(&path).expect("a readable source");
            let code: String =
                text.lines().filter(|l| !l.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
            planted.extend(named(&code, "planted::on(").map(String::from));
            if path.ends_with("src/planted.rs") {
                let table = code.split("const SCRIPTS").nth(1).expect("the table of the scripts' faults");
                planted.extend(named(table, "(").map(String::from));
            }
        }
        let listed: BTreeSet<String> = FAULTS.iter().map(|f| f.name.to_string()).collect();
        assert_eq!(listed.len(), FAULTS.len(), "a name stands twice");
        assert_eq!(listed, planted, "left: the list, right: the source");
    }
}
