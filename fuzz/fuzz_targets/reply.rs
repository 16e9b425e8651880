//! Any bytes from a master, in any pieces. The first byte says how many of the next ones are lengths of pieces.
#![no_main]

#[allow(dead_code, reason = "the other target has the rest")]
#[path = "../../tests/support/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((count, rest)) = data.split_first() else { return };
    let (lengths, bytes) = rest.split_at(usize::from(count % 8).min(rest.len()));
    properties::replies(bytes, lengths);
    properties::garbage_ends_it(&[], b"?\r\n", bytes, lengths);
});
