//! Faults of `engine` and `sys`.

use super::Fault;
use super::Finder::Test;

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "renewal_outside_gate",
        what: "a renewal is queued behind the gate, and so behind the release",
        file: "src/engine/lease.rs",
        edits: &[(
            "                lane.enqueue(request.clone());\n                gate.extension = Some(request.clone());\n",
            "                drop(gate);\n                lane.enqueue(request.clone());\n",
        )],
        found_by: Test("threads", "gate::nothing_is_written_behind_the_release"),
    },
    Fault {
        name: "loss_not_told",
        what: "a loss is not announced",
        file: "src/engine/lease.rs",
        edits: &[("        if released {\n            return;\n", "        if true {\n            return;\n")],
        found_by: Test("behaviour", "loss_signal::one_message_and_no_more"),
    },
    Fault {
        name: "renewal_sent_behind_release",
        what: "a renewal whose script was forgotten is sent again behind the release",
        file: "src/engine/lease.rs",
        edits: &[(
            "            request.close();\n        }\n        self.machine",
            "            drop(request);\n        }\n        self.machine",
        )],
        found_by: Test("threads", "gate::nothing_is_sent_again_behind_the_release"),
    },
    Fault {
        name: "caretaker_lost",
        what: "a caretaker comes once only",
        file: "src/engine/drain.rs",
        edits: &[(
            "                lane.drain_requested.store(false, ",
            "                lane.drain_requested.store(true, ",
        )],
        found_by: Test("threads", "caretaker::no_reply_is_left_unread"),
    },
    Fault {
        name: "timer_oversleeps",
        what: "the timer is not woken for what is due before its next",
        file: "src/engine/timer.rs",
        edits: &[("if at < queue.armed {", "if false {")],
        found_by: Test("threads", "timer::what_is_entered_is_handled_when_it_is_due"),
    },
    Fault {
        name: "watchdog_dies",
        what: "a watchdog ends after its first renewal",
        file: "src/engine/watchdog.rs",
        edits: &[(
            "            renew(&lease);\n            if let Some(worker)",
            "            renew(&lease);\n            if true {\n                return;\n            }\n            \
             if let Some(worker)",
        )],
        found_by: Test("behaviour", "renewal::a_watchdog_lease_outlives_its_ttl"),
    },
    Fault {
        name: "undo_elsewhere",
        what: "an attempt is undone on another connection than the one that carried it",
        file: "src/engine/masters.rs",
        edits: &[(
            "            let lane = self.lane(&command.keys);\n            lane.post",
            "            let lane = self.lane(&command.keys).config.index + 1;\n            \
             let lane = &self.lanes[lane % self.lanes.len()];\n            lane.post",
        )],
        found_by: Test("wire", "delivery::an_undo_goes_down_the_connection_of_its_attempt"),
    },
    Fault {
        name: "grant_forgotten",
        what: "a waiter that gives up drops what it was given in the last moment",
        file: "src/engine/queue.rs",
        edits: &[(
            "let grant = waiter.grant.lock().take();",
            "let grant = waiter.grant.lock().take().filter(|_| false);",
        )],
        found_by: Test("threads", "queue::who_gives_up_leaves_no_trace_and_loses_nothing"),
    },
    Fault {
        name: "fork_ignored",
        what: "a forked child uses the guard of its parent",
        file: "src/engine/masters.rs",
        edits: &[("sys::pid() != self.pid", "sys::pid() != self.pid && false")],
        found_by: Test("process", "forks::the_guard_is_lost_in_the_child_and_held_in_the_parent"),
    },
    Fault {
        name: "wall_clock",
        what: "leases are measured by the wall clock",
        file: "src/sys/clock.rs",
        edits: &[("clock_gettime(CLOCK)", "clock_gettime(ClockId::Realtime)")],
        found_by: Test("behaviour", "adoption::a_deadline_is_a_moment_of_the_boot_clock"),
    },
];
