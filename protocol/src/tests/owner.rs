use super::super::command::{Command, Operation};
use super::super::layout::Namespace;
use super::super::owner::{Holder, Owner, REVOKED, Token};
use super::Seeded;
use std::sync::Arc;

const HEX: &str = "9fd3a1c47b26e85000beef12cafe6789";

fn owner(label: &str) -> Owner {
    Owner::new(Token::from_hex(HEX).unwrap(), &Arc::from(label), 1_795_242_595_543)
}

#[test]
fn the_value_is_as_documented() {
    assert_eq!(owner("web-1 pid 7").value(0), format!("{HEX}|0|web-1 pid 7|1795242595543"));
    assert_eq!(owner("x").value(31), format!("{HEX}|v|x|1795242595543"));
    let zeros = Owner::new(Token::from_bytes([0; 16]), &Arc::from(""), 0);
    assert_eq!(zeros.value(9), format!("{}|9||0", "0".repeat(32)));
}

#[test]
fn the_values_of_an_attempt_differ_in_one_byte_that_is_the_masters_own() {
    let values: Vec<String> = (0..32).map(|i| owner("x").value(i)).collect();
    for i in 0..32 {
        for j in 0..i {
            let differ: Vec<usize> =
                (0..values[i].len()).filter(|at| values[i].as_bytes()[*at] != values[j].as_bytes()[*at]).collect();
            assert_eq!((differ, values[i].len()), (vec![33], values[j].len()), "{i} {j}");
        }
    }
}

#[test]
fn an_owner_owns_its_value_on_its_own_master_and_on_no_other() {
    for label in ["", "x", "a|b", "1|2", "|", "0|1795242595543"] {
        let owner = owner(label);
        for i in 0..32 {
            for j in 0..32 {
                assert_eq!(owner.owns(j, owner.value(i).as_bytes()), i == j, "{label:?} {i} {j}");
            }
        }
    }
}

#[test]
fn an_owner_tells_what_it_was_made_of() {
    let owner = owner("web-1");
    assert_eq!((owner.since_ms(), &**owner.label(), owner.secret_hex()), (1_795_242_595_543, "web-1", HEX));
}

#[test]
fn a_fingerprint_is_the_upper_half_of_fnv_1a() {
    // The published values of the hash: of nothing cbf29ce484222325, of "a" af63dc4c8601ec8c, of "foobar"
    // 85944171f73967e8.
    for (value, fingerprint) in [("", "cbf29ce4"), ("a", "af63dc4c"), ("foobar", "85944171")] {
        assert_eq!(Holder::parse(value.as_bytes()), Holder::Foreign(fingerprint.into()));
    }
}

#[test]
fn a_value_is_written_over_whatever_the_buffer_held() {
    let mut out = "something longer than any value could be, so that a rest would show ".repeat(4);
    for i in 0..32 {
        owner("x").write_value(i, &mut out);
        assert_eq!(out, owner("x").value(i));
    }
}

#[test]
fn a_value_with_any_byte_changed_added_or_gone_is_not_owned() {
    let owner = owner("web|1");
    for i in [0, 5, 9, 10, 31] {
        let value = owner.value(i).into_bytes();
        assert!(owner.owns(i, &value));
        for at in 0..value.len() {
            let mut changed = value.clone();
            for byte in (0..=255).filter(|b| *b != value[at]) {
                changed[at] = byte;
                assert!(!owner.owns(i, &changed), "byte {at} as {byte}");
            }
            let mut shorter = value.clone();
            shorter.remove(at);
            assert!(!owner.owns(i, &shorter), "without byte {at}");
            let mut longer = value.clone();
            longer.insert(at, b'|');
            assert!(!owner.owns(i, &longer), "a bar before byte {at}");
        }
        assert!(!owner.owns(i, &value[..value.len() - 1]) && !owner.owns(i, b""));
        assert!(!owner.owns(i, &[&value[..], b"0"].concat()));
    }
}

#[test]
fn attempts_of_one_client_do_not_own_each_others_values() {
    let mut seeded = Seeded(11);
    let owners: Vec<Owner> = (0..50)
        .map(|_| {
            let bits = u128::from(seeded.next()) << 64 | u128::from(seeded.next());
            Owner::new(Token::from_bytes(bits.to_be_bytes()), &Arc::from("x"), 5)
        })
        .collect();
    for (a, one) in owners.iter().enumerate() {
        for (b, other) in owners.iter().enumerate() {
            assert_eq!(one.owns(3, other.value(3).as_bytes()), a == b);
            assert_eq!(one.token() == other.token(), a == b);
            assert_eq!(one.token().fingerprint() == other.token().fingerprint(), a == b);
        }
    }
}

#[test]
fn tokens_are_read_from_32_lower_case_digits_only() {
    assert_eq!(
        Token::from_hex(HEX).map(|t| Owner::new(t, &Arc::from(""), 0).secret_hex().to_owned()),
        Some(HEX.into())
    );
    for bad in
        ["", "9", &HEX[1..], &format!("{HEX}0"), &HEX.replace('9', "g"), &HEX.to_uppercase(), &HEX.replace('9', "+")]
    {
        assert_eq!(Token::from_hex(bad), None, "{bad}");
    }
    assert_eq!(Token::from_hex(&"é".repeat(16)), None);
}

#[test]
fn what_is_printed_for_debugging_does_not_tell_the_token() {
    let mut seeded = Seeded(5);
    for _ in 0..200 {
        let bits = u128::from(seeded.next()) << 64 | u128::from(seeded.next());
        let token = Token::from_bytes(bits.to_be_bytes());
        let owner = Owner::new(token, &Arc::from("job"), 1_795_242_595_543);
        let hex = owner.secret_hex().to_owned();
        let command = Command {
            keys: Arc::new(Namespace::new("rl").unwrap().keys("a").unwrap()),
            owner: Arc::new(owner.clone()),
            operation: Operation::Adopt { from: Arc::new(owner.clone()), px_ms: 5 },
            nonce: 7,
        };
        let holder = Holder::parse(owner.value(3).as_bytes());
        let printed = [
            format!("{token:?} {token:#?}"),
            format!("{owner:?} {owner:#?}"),
            format!("{command:?} {command:#?}"),
            format!("{holder:?}"),
        ];
        for text in printed {
            let leaked = (0..=24).map(|i| &hex[i..i + 8]).find(|part| text.to_lowercase().contains(part));
            assert_eq!(leaked, None, "{text}");
            assert!(text.contains(&token.fingerprint()), "{text}");
            assert!(!text.contains(&format!("{:?}", bits.to_be_bytes())[1..20]), "{text}");
        }
    }
}

#[test]
fn a_stored_value_tells_label_age_and_fingerprint_of_its_holder() {
    for label in ["", "web-1", "a|b|c", "|", "||", "7|9", "revoked|", "ä ö"] {
        for i in [0, 9, 10, 31] {
            let owner = owner(label);
            let want = Holder::Owner {
                label: label.into(),
                fingerprint: owner.token().fingerprint(),
                since_ms: 1_795_242_595_543,
            };
            assert_eq!(Holder::parse(owner.value(i).as_bytes()), want, "{label:?} {i}");
        }
    }
}

#[test]
fn values_of_others_are_called_foreign_and_shown_by_fingerprint_only() {
    let foreign: [&[u8]; 8] = [
        b"",
        b"plain-random-value",
        b"\xff\xfe|0|x|5",
        b"9fd3a1c47b26e85000beef12cafe6789",
        b"9fd3a1c47b26e85000beef12cafe6789|0",
        b"9fd3a1c47b26e85000beef12cafe6789|0|x",
        b"9fd3a1c47b26e85000beef12cafe6789|0|x|soon",
        b"9fd3a1c47b26e85000beef12cafe678|0|x|5",
    ];
    for value in foreign {
        let Holder::Foreign(fingerprint) = Holder::parse(value) else { panic!("{value:?}") };
        assert_eq!(fingerprint.len(), 8);
        assert!(!HEX.contains(&fingerprint));
    }
}

#[test]
fn a_revoked_lock_is_told_from_a_held_and_a_foreign_one() {
    assert_eq!(Holder::parse(format!("{REVOKED}00ff00ff00ff00ff").as_bytes()), Holder::Revoked);
    assert_eq!(Holder::parse(REVOKED.as_bytes()), Holder::Revoked);
    assert!(matches!(Holder::parse(b"revoked"), Holder::Foreign(_)));
    // No owner can be mistaken for it, and it is nobody's.
    assert!(!owner("x").value(0).starts_with(REVOKED));
    assert!(!owner("x").owns(0, REVOKED.as_bytes()));
}
