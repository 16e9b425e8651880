//! Any text as a URL, a name, a stored value, a generation, a handle: the first byte says which.
#![no_main]

#[allow(dead_code, reason = "the other target has the rest")]
#[path = "../../tests/support/properties.rs"]
mod properties;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    match kind % 7 {
        0 => properties::url(&text),
        1 => {
            let (space, name) = text.split_once('\n').unwrap_or(("rl", &text));
            properties::names(space, name);
        }
        2 => properties::values(bytes),
        3 => properties::generations(&text),
        4 => properties::handles(&text),
        5 => {
            let mut parts = text.splitn(3, '\n').map(|part| part.replace('Z', ""));
            let mut part = || parts.next().unwrap_or_default();
            let (user, password, tail) = (part(), part(), part());
            let user = user.replace(|c: char| !c.is_ascii_lowercase(), "");
            // Not a part of an error message, and nothing that stands elsewhere in the URL.
            properties::password_is_kept("redis://", &user, &format!("{password}ZZ"), &tail);
        }
        _ => {
            let Some((token, label)) = bytes.split_first_chunk() else { return };
            let label = String::from_utf8_lossy(label).replace(char::is_control, "");
            properties::owners(*token, &label, 1 << (token[0] % 64), usize::from(token[1] % 36));
        }
    }
});
