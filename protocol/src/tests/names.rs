use super::super::layout::{MAX_NAME, MAX_NAMESPACE, NameError, Namespace};
use std::collections::HashMap;

fn keys_of(name: &str) -> Result<(), NameError> {
    Namespace::new("rl").unwrap().keys(name).map(drop)
}

#[test]
fn the_keys_are_as_documented() {
    let keys = Namespace::new("rl").unwrap().keys("orders/42").unwrap();
    assert_eq!(keys.lock, "rl:L:{orders/42}");
    assert_eq!(keys.fence, "rl:F:{orders/42}");
    assert_eq!(keys.channel, "rl:C:{orders/42}");
    assert_eq!(keys.generation, "rl:N");
    assert_eq!(&*keys.name, "orders/42");
}

#[test]
fn names_have_one_to_512_bytes() {
    assert_eq!(keys_of(""), Err(NameError::Empty));
    assert_eq!(keys_of("a"), Ok(()));
    assert_eq!(keys_of(&"a".repeat(MAX_NAME)), Ok(()));
    assert_eq!(keys_of(&"a".repeat(MAX_NAME + 1)), Err(NameError::TooLong(MAX_NAME + 1, MAX_NAME)));
    // Bytes count, not characters.
    assert_eq!(keys_of(&"ä".repeat(MAX_NAME / 2)), Ok(()));
    assert_eq!(keys_of(&"ä".repeat(MAX_NAME / 2 + 1)), Err(NameError::TooLong(MAX_NAME + 2, MAX_NAME)));
}

#[test]
fn namespaces_have_one_to_64_bytes_and_the_same_characters() {
    assert_eq!(Namespace::new(""), Err(NameError::Empty));
    assert!(Namespace::new(&"a".repeat(MAX_NAMESPACE)).is_ok());
    let long = MAX_NAMESPACE + 1;
    assert_eq!(Namespace::new(&"a".repeat(long)), Err(NameError::TooLong(long, MAX_NAMESPACE)));
    assert_eq!(Namespace::new("a{"), Err(NameError::Brace));
    assert_eq!(Namespace::new("a\r"), Err(NameError::Control));
}

#[test]
fn braces_and_control_characters_are_refused_wherever_they_stand() {
    for (at, pattern) in ["?ab", "a?b", "ab?", "?"].into_iter().enumerate() {
        for c in (0..=0x2ff).filter_map(char::from_u32) {
            let want = match c {
                '{' | '}' => Err(NameError::Brace),
                '\0'..='\x1f' | '\x7f'..='\u{9f}' => Err(NameError::Control),
                _ => Ok(()),
            };
            assert_eq!(keys_of(&pattern.replace('?', &c.to_string())), want, "{c:?} at {at}");
        }
    }
}

#[test]
fn a_refusal_says_what_to_do() {
    assert!(NameError::Empty.to_string().contains("512"));
    assert!(NameError::TooLong(600, 512).to_string().contains("600"));
    assert!(NameError::Brace.to_string().contains("'{' and '}'"));
    assert!(NameError::Control.to_string().contains("control"));
}

/// All words of up to `longest` letters.
fn words(letters: &str, longest: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = all.clone();
    for _ in 0..longest {
        last = last.iter().flat_map(|w| letters.chars().map(move |c| format!("{w}{c}"))).collect();
        all.extend_from_slice(&last);
    }
    all.retain(|w| !w.is_empty());
    all
}

#[test]
fn no_two_names_kinds_or_namespaces_share_a_key() {
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut add = |key: String, what: String| {
        if let Some(other) = seen.insert(key.clone(), what.clone()) {
            panic!("{key} is both {what} and {other}");
        }
    };
    // The letters of the kinds and the separator are what could imitate another kind's prefix.
    for space in words(":LFCN", 3) {
        let namespace = Namespace::new(&space).unwrap();
        add(namespace.generation(), format!("generation of {space}"));
        for name in words(":LFN", 3) {
            let keys = namespace.keys(&name).unwrap();
            add(keys.lock, format!("lock {name} of {space}"));
            add(keys.fence, format!("counter of {name} of {space}"));
            add(keys.channel, format!("channel of {name} of {space}"));
        }
    }
    assert!(seen.len() > 30_000);
}
