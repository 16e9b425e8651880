//! Faults of `protocol`.

use super::Fault;
use super::Finder::Simulation;

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "quorum_one_less",
        what: "the quorum is one vote too small",
        file: "protocol/src/quorum.rs",
        edits: &[("let q = (n + f) / 2 + 1;", "let q = ((n + f) / 2).max(1);")],
        found_by: Simulation,
    },
    Fault {
        name: "token_kept_over_attempts",
        what: "the attempts of a call share a token",
        file: "protocol/src/acquire.rs",
        edits: &[
            ("    slowest: Duration,\n", "    slowest: Duration,\n    former: Option<Token>,\n"),
            ("slowest: Duration::ZERO,", "slowest: Duration::ZERO, former: None,"),
            ("Token::from_bytes(fresh)", "*self.former.get_or_insert(Token::from_bytes(fresh))"),
        ],
        found_by: Simulation,
    },
    Fault {
        name: "never_yields",
        what: "a process whose quantum is over contends right behind its own release each time, ahead of all others",
        file: "protocol/src/local_queue.rs",
        edits: &[("self.knows_of_waiters(now) && self.is_quantum_over(now)", "self.knows_of_waiters(now) && false")],
        found_by: Simulation,
    },
    Fault {
        name: "waiter_never_polls",
        what: "a waiter that missed its notification waits for another one",
        file: "protocol/src/acquire.rs",
        edits: &[(
            "self.poll = now.plus(pause).min(self.limit());",
            "self.poll = if self.waiter.is_some() { self.limit() } else { now.plus(pause) };",
        )],
        found_by: Simulation,
    },
    Fault {
        name: "validity_from_the_end",
        what: "the lease is counted from the end of its round",
        file: "protocol/src/attempt.rs",
        edits: &[("Lease::new(terms, self.start)", "Lease::new(terms, end)")],
        found_by: Simulation,
    },
    Fault {
        name: "adopted_too_late",
        what: "a lease is adopted after its end",
        file: "protocol/src/attempt.rs",
        edits: &[(".min(until_old.max(start))", "")],
        found_by: Simulation,
    },
    Fault {
        name: "undo_of_a_granted_attempt",
        what: "keys that did not count are undone while the guard lives",
        file: "protocol/src/attempt.rs",
        edits: &[("return 0;", "return round.undo_targets() & !round.yes_mask();")],
        found_by: Simulation,
    },
    Fault {
        name: "drift_ignored",
        what: "the rates of clocks are taken to be the same",
        file: "protocol/src/validity.rs",
        edits: &[("u128::from(nanos(d)) * u128::from(1_000_000 - self.0) / 1_000_000", "u128::from(nanos(d))")],
        found_by: Simulation,
    },
    Fault {
        name: "granted_too_late",
        what: "a grant counts whose quorum was complete only after the end of its lease",
        file: "protocol/src/round.rs",
        edits: &[("if end.max(complete) < until {", "if end.max(complete) < until.max(Mono::NEVER) {")],
        found_by: Simulation,
    },
    Fault {
        name: "extended_too_late",
        what: "an extension counts after the lease has ended",
        file: "protocol/src/lease.rs",
        edits: &[("if !self.may_write(end) {", "if false {")],
        found_by: Simulation,
    },
    Fault {
        name: "lost_is_held_again",
        what: "a lease that was taken is held again",
        file: "protocol/src/lease.rs",
        edits: &[("            self.state = LeaseState::Lost(reason);\n", "")],
        found_by: Simulation,
    },
    Fault {
        name: "written_again_without_quarantine",
        what: "a lost key is written again where nobody vouches for the time between",
        file: "protocol/src/command.rs",
        edits: &[
            ("Extend { px_ms, recreate: quarantine }", "Extend { px_ms, recreate: true }"),
            ("ExtendMany { leases, recreate: quarantine }", "ExtendMany { leases, recreate: true }"),
        ],
        found_by: Simulation,
    },
    Fault {
        name: "value_without_index",
        what: "all masters store the same value",
        file: "protocol/src/owner.rs",
        edits: &[(".get(i).copied()", ".get(i & 0).copied()")],
        found_by: Simulation,
    },
    Fault {
        name: "largest_counter_is_the_token",
        what: "the token is the largest counter of the round",
        file: "protocol/src/fence.rs",
        edits: &[(
            "    let token = given[r - 1];\n",
            "    if r > 0 {\n        return Rank::Done(given[0]);\n    }\n    let token = given[r - 1];\n",
        )],
        found_by: Simulation,
    },
    Fault {
        name: "no_write_back",
        what: "a token is used before a quorum holds it",
        file: "protocol/src/fence.rs",
        edits: &[("if given[quorum.votes() - 1] >= token {", "if true {")],
        found_by: Simulation,
    },
    Fault {
        name: "token_after_the_end",
        what: "a token counts after the lease has ended",
        file: "protocol/src/fence.rs",
        edits: &[("match (reached, end < until.min(present)) {", "match (reached, true) {")],
        found_by: Simulation,
    },
    Fault {
        name: "settled_beside_settled_ones",
        what: "an init settles a master that has forgotten, beside settled ones",
        file: "protocol/src/init.rs",
        edits: &[(
            "self.gaps += 1;",
            "self.gaps += 1;\n            return self.marked.map_or(Step::Mark, Step::Settle);",
        )],
        found_by: super::Finder::Test("faults", "init::init_refuses_what_is_not_new"),
    },
];
