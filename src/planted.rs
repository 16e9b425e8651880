//! Faults put into the code on purpose, to see that the checks find them. There are none without `--cfg redleash_planted`;
//! with it, `REDLEASH_PLANTED=name` chooses one for the life of the process.
//!
//! In the code: `if planted::on("name") { wrong } else { right }`. In a script: a row of `SCRIPTS`. Each has a row in
//! `verify/src/planted/faults.rs`, which says who finds it.

/// Whether the fault `name` is planted.
#[cfg(redleash_planted)]
pub(crate) fn on(name: &str) -> bool {
    static CHOSEN: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("REDLEASH_PLANTED").unwrap_or_default());
    *CHOSEN == name
}

/// Whether the fault `name` is planted: never, in this build.
#[cfg(not(redleash_planted))]
#[inline(always)]
pub(crate) const fn on(_name: &str) -> bool {
    false
}

/// The text of a script, without any fault in this build.
#[cfg(not(redleash_planted))]
pub(crate) const fn script(text: &'static str) -> &'static str {
    text
}

/// The text of a script, with the chosen fault.
#[cfg(redleash_planted)]
pub(crate) fn script(text: &'static str) -> &'static str {
    let fault = SCRIPTS.iter().find(|(name, right, _)| on(name) && text.contains(right));
    fault.map_or(text, |(_, right, wrong)| Box::leak(text.replace(right, wrong).into_boxed_str()))
}

/// Faults of the scripts: the name, the right text and the wrong one, put wherever the right one stands.
#[cfg(redleash_planted)]
const SCRIPTS: &[(&str, &str, &str)] = &[
    (
        "quarantine_not_awaited",
        "if now < tonumber(ready) then return {-1, math.ceil((tonumber(ready) - now) / 1000)} end\n",
        "",
    ),
    (
        "init_without_its_mark",
        "if g == 'init:' .. ARGV[1] .. ':' .. ARGV[2] and others == 0 then",
        "if others == 0 then",
    ),
    ("run_id_not_compared", "or run ~= ARGV[3]", ""),
    (
        "history_not_compared",
        "  if changed() then return {-6} end
",
        "",
    ),
    ("quarantine_halved", "now + ARGV[6])", "now + ARGV[6] / 2)"),
    (
        "extension_counted_in_quarantine",
        "local no = refusal()\nif no then return no end\nlocal cur, bad = holder()\nif bad then return bad end\n\
         if cur and cur ~= ARGV[1]",
        "refusal()\nlocal cur, bad = holder()\nif bad then return bad end\nif cur and cur ~= ARGV[1]",
    ),
    ("extension_shortens", "elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[7]) then", "else"),
    (
        "fence_without_own_value",
        "refusal() or not_ours()\nif no then return no end\nlocal c = raise()",
        "refusal()\nif no then return no end\nlocal c = raise()",
    ),
    (
        "fence_without_generation",
        "refusal() or not_ours()\nif no then return no end\nlocal c = raise()",
        "not_ours()\nif no then return no end\nlocal c = raise()",
    ),
    ("clock_ignored", "or '0') + 64, now_us())", "or '0') + 64, 0)"),
    ("quarantine_without_bound", " or ready - now > tonumber(ARGV[6])", ""),
    ("revoked_key_is_deleted", "redis.call('SET', KEYS[1], ARGV[1], 'KEEPTTL')", "redis.call('DEL', KEYS[1])"),
    (
        "adopted_from_anybody",
        "if cur ~= ARGV[8] and cur ~= ARGV[1] then return {0, redis.call('PTTL', KEYS[1])} end\n",
        "",
    ),
];
