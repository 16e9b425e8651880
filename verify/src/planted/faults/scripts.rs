//! Faults of the Lua scripts.

use super::Fault;
use super::Finder::{Simulation, Test};

const RAISED: &str = "fencing::a_counter_is_raised_for_the_holder_only_and_by_a_settled_master_only";

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "quarantine_not_awaited",
        what: "a master that lost its memory votes at once",
        file: "src/scripts/generation.lua",
        edits: &[("  if now < tonumber(ready) then return {-1, math.ceil((tonumber(ready) - now) / 1000)} end\n", "")],
        found_by: Simulation,
    },
    Fault {
        name: "quarantine_halved",
        what: "a master that lost its memory votes too early",
        file: "src/scripts/generation.lua",
        edits: &[("now + ARGV[6])", "now + ARGV[6] / 2)")],
        found_by: Simulation,
    },
    Fault {
        name: "quarantine_without_bound",
        what: "a quarantine gets longer by what a clock is stepped back",
        file: "src/scripts/generation.lua",
        edits: &[(" or ready - now > tonumber(ARGV[6])", "")],
        found_by: Simulation,
    },
    Fault {
        name: "run_id_not_compared",
        what: "a restart from an old snapshot is not noticed",
        file: "src/scripts/generation.lua",
        edits: &[(" or run ~= ARGV[3]", "")],
        found_by: Simulation,
    },
    Fault {
        name: "history_not_compared",
        what: "a failover and back is not noticed by the connections that were there",
        file: "src/scripts/generation.lua",
        edits: &[("  if changed() then return {-6} end\n", "")],
        found_by: Simulation,
    },
    Fault {
        name: "clock_ignored",
        what: "a counter that was lost begins at zero",
        file: "src/scripts/generation.lua",
        edits: &[("or '0') + 64, now_us())", "or '0') + 64, 0)")],
        found_by: Simulation,
    },
    Fault {
        name: "extension_counted_in_quarantine",
        what: "an extension is counted by a master in quarantine",
        file: "src/scripts/extend.lua",
        edits: &[("local no = refusal()\nif no then return no end\n", "refusal()\n")],
        found_by: Simulation,
    },
    Fault {
        name: "extension_shortens",
        what: "a late extension shortens the life of a key",
        file: "src/scripts/extend.lua",
        edits: &[("elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[7]) then", "else")],
        found_by: Simulation,
    },
    Fault {
        name: "revoked_key_is_deleted",
        what: "a forced release frees the lock at once",
        file: "src/scripts/revoke.lua",
        edits: &[("redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')", "redis.call('DEL', KEYS[1])")],
        found_by: Simulation,
    },
    Fault {
        name: "adopted_from_anybody",
        what: "an adoption takes the lock from any holder",
        file: "src/scripts/adopt.lua",
        edits: &[("if cur ~= ARGV[8] and cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end\n", "")],
        found_by: Simulation,
    },
    Fault {
        name: "fence_without_own_value",
        what: "a counter is raised for anybody who asks",
        file: "src/scripts/fence.lua",
        edits: &[("refusal() or not_ours()\nif no", "refusal()\nif no")],
        found_by: Test("behaviour", RAISED),
    },
    Fault {
        name: "fence_without_generation",
        what: "a counter that was lost is raised like any other",
        file: "src/scripts/fence.lua",
        edits: &[("refusal() or not_ours()\nif no", "not_ours()\nif no")],
        found_by: Test("behaviour", RAISED),
    },
    Fault {
        name: "init_without_its_mark",
        what: "an init that comes late settles a master that has forgotten",
        file: "src/scripts/init.lua",
        edits: &[("if g == 'init:' .. ARGV[1] .. ':' .. ARGV[2] and others == 0 then", "if others == 0 then")],
        found_by: Test(
            "faults",
            "init::an_init_settles_only_what_it_has_found_empty_and_nothing_has_happened_to_since",
        ),
    },
    Fault {
        name: "notification_not_sent",
        what: "a waiter is taken out of the wait list, and not notified",
        file: "src/scripts/notify_first.lua",
        edits: &[(
            "redis.pcall('PUBLISH', string.format('%s:%.0f', channel, math.floor(first / 268435456)), first)\n",
            "",
        )],
        found_by: Simulation,
    },
];
