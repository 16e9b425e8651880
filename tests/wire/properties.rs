//! Properties of all that comes from outside, for random inputs: replies, URLs, names, stored values, generations,
//! handles.
//!
//! `PROPTEST_CASES` sets how many inputs each gets; a failure prints the smallest input that still fails. `fuzz/` looks
//! for inputs with the same properties for longer.

#[path = "../support/properties.rs"]
mod checks;

use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Debug;
use std::time::Duration;

/// Runs `property` for inputs of `strategy`.
#[track_caller]
fn holds<T: Debug>(strategy: impl Strategy<Value = T>, property: impl Fn(T)) {
    let config = Config { failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&strategy, |input| {
        property(input);
        Ok(())
    });
    if let Err(e) = run {
        panic!("{e}");
    }
}

/// A reply as bytes, of the kinds that exist, the sizes that lie around the limits included.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let text = vec(any::<u8>(), 0..40).prop_map(|t| [format!("${}\r\n", t.len()).as_bytes(), &t, b"\r\n"].concat());
    let leaf = prop_oneof![
        4 => any::<i64>().prop_map(|n| format!(":{n}\r\n").into_bytes()),
        4 => text,
        1 => "[ -~]{0,30}".prop_map(|t| format!("+{t}\r\n").into_bytes()),
        1 => "[A-Z]{0,8}( [ -~]{0,30})?".prop_map(|t| format!("-{t}\r\n").into_bytes()),
        1 => Just(b"+OK\r\n".to_vec()),
        1 => Just(b"$-1\r\n".to_vec()),
        1 => Just(b"*-1\r\n".to_vec()),
    ];
    leaf.prop_recursive(3, 40, 6, |item| {
        vec(item, 0..7).prop_map(|items| [format!("*{}\r\n", items.len()).into_bytes(), items.concat()].concat())
    })
}

/// Bytes that are nearly replies.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        3 => reply(),
        2 => "[-+:$*_#%~>|!=(,]".prop_map(String::into_bytes),
        2 => "-?[0-9]{1,20}".prop_map(String::into_bytes),
        3 => Just(b"\r\n".to_vec()),
        1 => vec(any::<u8>(), 1..8),
    ];
    vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// Lengths of pieces; a zero counts as one.
fn lengths() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(0..4_u8, 1..4), vec(any::<u8>(), 1..8)]
}

#[test]
fn replies_are_the_same_in_whatever_pieces_they_come() {
    holds((vec(reply(), 0..8), lengths()), |(replies, lengths)| {
        let bytes = replies.concat();
        let (read, sane) = checks::read([&bytes[..]]);
        assert!(sane && read.len() == replies.len());
        checks::replies(&bytes, &lengths);
    });
}

#[test]
fn any_bytes_are_read_as_the_parser_reads_them_or_not_at_all() {
    holds((nearly(), lengths()), |(bytes, lengths)| checks::replies(&bytes, &lengths));
    holds((vec(any::<u8>(), 0..300), lengths()), |(bytes, lengths)| checks::replies(&bytes, &lengths));
}

#[test]
fn nothing_is_read_after_garbage() {
    let kinds = b"+-:$*";
    let byte = any::<u8>().prop_filter("no kind of reply", |b| !kinds.contains(b));
    // What has no kind is garbage as soon as its line ends, and so is a length that cannot be.
    let garbage = prop_oneof![
        (byte, "[ -~]{0,20}").prop_map(|(b, t)| [&[b], t.as_bytes(), b"\r\n"].concat()),
        "[$*][^-0-9\r\n+][ -~]{0,9}\r\n".prop_map(String::into_bytes),
        "[$*]-[2-9]\r\n".prop_map(String::into_bytes),
        ":[a-z]{0,9}\r\n".prop_map(String::into_bytes),
        "\\$3\r\n[a-z]{3}[a-z]{2}".prop_map(String::into_bytes),
    ];
    holds((vec(reply(), 0..5), garbage, vec(reply(), 0..5), lengths()), |(good, garbage, after, lengths)| {
        checks::garbage_ends_it(&good, &garbage, &after.concat(), &lengths);
    });
}

#[test]
fn urls() {
    holds(any::<String>(), |text| checks::url(&text));
    let schemes = "(redis|rediss|valkey|unix|redis\\+unix|redis-cluster|redis\\+sentinel|http)://";
    let hosts = "([a-z0-9.-]{0,12}|\\[[0-9a-f:]{0,12}\\]|/[ -~]{0,12})(:[0-9]{0,6})?(/[0-9a-z]{0,3})?\
                 (\\?[a-z]{0,8}=[ -~]{0,8})?";
    holds((schemes, "([ -~]{0,5}(:[ -~]{0,8})?@)?", hosts), |(scheme, user, host)| {
        checks::url(&format!("{scheme}{user}{host}"));
    });
}

#[test]
fn passwords_are_not_repeated() {
    let heads = "(redis|rediss|valkey|unix|http|redis-cluster)://";
    let tails = "[a-z0-9.:\\[\\]]{0,10}(:[0-9a-z]{0,6})?(/[0-9a-z]{0,3})?";
    // Capitals and a digit, so that no word of an error is a password.
    let passwords = prop_oneof!["[A-Z]{4}[0-9][ -~]{0,10}", "[0-9]{1,5}[#?/@:][A-Z]{4}[ -~]{0,5}"];
    holds((heads, "[a-z]{0,3}", passwords, tails), |(head, user, password, tail)| {
        checks::password_is_kept(&head, &user, &password, &tail);
    });
}

#[test]
fn names() {
    holds((any::<String>(), any::<String>()), |(space, name)| checks::names(&space, &name));
    holds(("[a-zA-Z:.]{1,70}", "[^{}\\p{Cc}]{1,520}"), |(space, name)| checks::names(&space, &name));
}

#[test]
fn owners() {
    let label = "[^\\p{Cc}]{0,40}";
    holds((any::<[u8; 16]>(), label, any::<u64>(), 0..36_usize), |(token, label, since, i)| {
        checks::owners(token, &label, since, i);
    });
}

#[test]
fn stored_values() {
    holds(vec(any::<u8>(), 0..80), |bytes| checks::values(&bytes));
    let near = "(revoked|[0-9a-f]{31,33})?\\|?[0-9a-z?]?\\|?[ -~]{0,20}\\|?[0-9+-]{0,21}";
    holds(near, |text| checks::values(text.as_bytes()));
}

#[test]
fn generations() {
    holds(any::<String>(), |text| checks::generations(&text));
    holds("[0-9a-f]{0,49}:[0-9+]{0,21}(:[0-9a-z.]{0,6}){3,5}:[0-9a-fA-Fg]{0,17}", |text| {
        checks::generations(&text);
    });
    let lease = (100_u64..86_400_000).prop_map(Duration::from_millis);
    let parts = ("[A-Za-z0-9._:-]{0,66}", lease, 1..33_usize, "([0-9a-f]{48})?", any::<u64>(), any::<u64>());
    holds(parts, |(name, lease, masters, identity, ready, nonce)| {
        checks::deployments(&name, lease, masters, &identity, ready, nonce);
    });
}

#[test]
fn handles() {
    holds(any::<String>(), |text| checks::handles(&text));
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let rest = "[0-9+-]{0,21}\n[0-9]{0,21}\n[0-9a-f]{31,33}\n[0-9]{0,21}\n[ -~]{0,130}\n[ -~\n]{0,20}";
    holds(rest, |rest| checks::handles(&format!("redleash2\n{}\n{rest}", boot.trim())));
}
