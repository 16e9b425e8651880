//! Faults of `wire`.

use super::Fault;
use super::Finder::{Simulation, Test};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "read_not_compared",
        what: "a plain vote counts with any generation",
        file: "src/wire/decode.rs",
        edits: &[
            ("g.as_slice() == settled,", "g.as_slice() == settled || true,"),
            (
                "        (Value::Nil, None) => true,\n        _ => false,\n",
                "        (generation, None) => *generation == Value::Nil,\n        _ => true,\n",
            ),
        ],
        found_by: Simulation,
    },
    Fault {
        name: "appearance_not_noticed",
        what: "a client without quarantine votes on beside a deployment that was settled since",
        file: "src/wire/decode.rs",
        edits: &[("(Value::Nil, None) => true,", "(Value::Nil | Value::BulkString(_), None) => true,")],
        found_by: Test("faults", "without_quarantine::a_client_of_one_master_is_kept_out_by_an_init_that_comes_later"),
    },
    Fault {
        name: "generation_inherited",
        what: "a new connection inherits the settled generation",
        file: "src/wire/conversation.rs",
        edits: &[("        self.settled = None;\n", "")],
        found_by: Simulation,
    },
    Fault {
        name: "history_not_watched",
        what: "a generation is cached where it may come back with old data",
        file: "src/wire/conversation.rs",
        edits: &[("            Cache::Settle(_) if self.watched => {}\n", "")],
        found_by: Simulation,
    },
    Fault {
        name: "late_reply_skipped",
        what: "the request of a reply that is late is forgotten, and its connection used on",
        file: "src/wire/reader.rs",
        edits: &[(
            "                self.fail(i, conn.id(), Cause::Hung, woken);\n",
            "                while matches!(link.reply(i, conn.id(), &redis::Value::Nil), Replied::Half) {}\n",
        )],
        found_by: Test("wire", "replies::a_late_reply_answers_no_other_request"),
    },
    Fault {
        name: "used_after_nonsense",
        what: "a connection on which a master has said what nobody asked for is used on",
        file: "src/wire/reader.rs",
        edits: &[
            ("                            end.is_none()\n", "                            true\n"),
            ("Replied::Unasked => false,", "Replied::Unasked => true,"),
        ],
        found_by: Test("wire", "replies::a_reply_too_many_answers_no_other_request"),
    },
];
