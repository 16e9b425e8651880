use super::super::command::{Form, form};
use super::super::generation::{
    Deployment, Found, Generation, look_up_interval, nonce, of_another_set, quarantine, valid_deployment,
};
use super::super::validity::{Drift, until};
use super::super::{Mono, Quorum};
use super::ms;
use std::time::Duration;

const RUN: &str = "0123456789abcdef01234567fedcba9876543210fedcba98";

fn q3() -> Quorum {
    Quorum::new(3, 0).unwrap()
}

#[test]
fn a_quarantine_outlasts_every_lease_at_every_drift() {
    for ppm in (0..=500_000).step_by(100) {
        let drift = Drift::from_ppm(ppm).unwrap();
        for lease in [1, 99, 100, 1_000, 15_000, 60_000, 3_600_000, 86_400_000].map(ms) {
            // A client whose clock is slow by the drift sees only this much of the quarantine.
            let seen = drift.shorten(quarantine(lease, drift));
            // A server whose address has been given away votes until its clients look, and its last lease begins then.
            let last = look_up_interval(lease);
            assert!(seen >= lease + last && last >= lease / 4, "{ppm} ppm, {lease:?}");
            // And any client relies on a lease for less than that, whatever drift that client assumes.
            for theirs in [0, ppm].map(|p| Drift::from_ppm(p).unwrap()) {
                assert!(until(Mono::ZERO.plus(last), lease, theirs).since(Mono::ZERO) <= seen, "{ppm} ppm, {lease:?}");
            }
        }
    }
}

#[test]
fn a_quarantine_saturates_and_does_not_wrap() {
    let half = Drift::from_ppm(500_000).unwrap();
    assert!(quarantine(Duration::MAX, half) >= Duration::from_nanos(u64::MAX));
    let deployment = Deployment::new("c", q3(), Duration::MAX, half);
    assert!(deployment.quarantine_us() >= u64::MAX / 1_000);
}

#[test]
fn the_quarantine_of_a_deployment_is_told_in_microseconds_rounded_up() {
    let deployment = Deployment::new("c", q3(), ms(60_000), Drift::DEFAULT);
    assert_eq!(deployment.quarantine_us(), 76_510_000);
    for nanos in [1, 999, 1_000, 1_001, 123_456_789] {
        let lease = Duration::from_nanos(nanos);
        let have = Deployment::new("c", q3(), lease, Drift::DEFAULT).quarantine_us();
        assert!(u128::from(have) * 1_000 >= quarantine(lease, Drift::DEFAULT).as_nanos(), "{nanos}");
    }
}

#[test]
fn whatever_clients_must_agree_on_changes_the_block() {
    let block =
        |c: &str, n, f, lease| Deployment::new(c, Quorum::new(n, f).unwrap(), lease, Drift::DEFAULT).block().to_owned();
    let base = block("main", 5, 0, ms(60_000));
    assert_eq!(base, "60000:main:5:3");
    let others = [
        block("other", 5, 0, ms(60_000)),
        block("main", 4, 0, ms(60_000)),
        block("main", 5, 1, ms(60_000)),
        block("main", 5, 0, ms(60_001)),
    ];
    assert!(others.iter().all(|other| *other != base), "{others:?}");
}

#[test]
fn a_deployments_name_cannot_break_the_generation_string() {
    for good in ["a", "Main_1.2-x", &"x".repeat(64)] {
        assert!(valid_deployment(good), "{good}");
    }
    for bad in ["", "a:b", "a b", "ä", "a\n", "a\0", "{a}", "a|b", &"x".repeat(65)] {
        assert!(!valid_deployment(bad), "{bad:?}");
    }
    for byte in 0..=127_u8 {
        let id = char::from(byte).to_string();
        assert_eq!(valid_deployment(&id), byte.is_ascii_alphanumeric() || ".-_".contains(&*id), "{id:?}");
    }
}

#[test]
fn a_generation_string_is_read_back() {
    let block = Deployment::new("eu.1", q3(), ms(60_000), Drift::DEFAULT).block().to_owned();
    let read = |identity: &str, nonce: &str| {
        let text = format!("{identity}:1795242595543000:{block}:{nonce}");
        let read = Generation::parse(&text).unwrap();
        let (identity, block) = (identity.to_string(), block.clone());
        assert_eq!(read, Generation { identity, ready_at_us: 1_795_242_595_543_000, block, place: read.place });
        read.place
    };
    for place in [0, 2, 31] {
        assert_eq!(read(RUN, &nonce(place, 0xff)), Some(place));
    }
    // Of an older version.
    for old in ["", &RUN[..40]] {
        assert_eq!(read(old, "00ff00ff00ff00ff"), None);
        assert_eq!(read(old, &nonce(1, 0xff)), None);
    }
    assert_eq!(read(RUN, "00ff00ff00ff00ff"), None);
}

#[test]
fn the_same_masters_in_any_order_are_no_other_set() {
    use Found::{Blank, Nobody, Place};
    let fine = [
        vec![Place(0), Place(1), Place(2)],
        vec![Place(0), Blank, Place(2)],
        vec![Blank, Blank, Blank],
        vec![Nobody, Place(1), Blank],
        // In another order, or their addresses were swapped.
        vec![Place(1), Place(0), Place(2)],
        vec![Place(2), Place(0), Place(1)],
        vec![Place(2), Nobody, Place(0)],
        // The same, and one of them has begun anew, or is about to.
        vec![Place(2), Blank, Place(0)],
        vec![Place(0), Place(0), Place(2)],
        vec![Blank, Place(2), Nobody],
    ];
    for found in fine {
        assert_eq!(of_another_set(&found), None, "{found:?}");
    }
    let other = [
        // The third of one set is the first of another, new one.
        (vec![Place(2), Blank, Blank], (0, 2)),
        (vec![Blank, Place(2), Blank, Nobody, Blank], (1, 2)),
        (vec![Place(1), Blank], (0, 1)),
    ];
    for (found, sign) in other {
        assert_eq!(of_another_set(&found), Some(sign), "{found:?}");
    }
}

#[test]
fn what_is_not_a_generation_string_is_refused() {
    let good = format!("{RUN}:17:60000:c:3:2:00ff");
    assert!(Generation::parse(&good).is_some());
    let bad = [
        String::new(),
        RUN.into(),
        format!("{RUN}:17:60000:c:3:2"),
        format!("{RUN}:17:60000:c:3:2:"),
        format!("{RUN}:17:60000:c:3:2:xyz"),
        format!("{RUN}:17:60000:c:3:2:1:00ff"),
        format!("{RUN}::60000:c:3:2:00ff"),
        format!("{RUN}:-1:60000:c:3:2:00ff"),
        format!("{RUN}:+1:60000:c:3:2:00ff"),
        format!("{RUN}:99999999999999999999:60000:c:3:2:00ff"),
        "run:17:60000:c:3:2:00ff".into(),
        format!("{good}\n"),
    ];
    for text in bad {
        assert_eq!(Generation::parse(&text), None, "{text:?}");
    }
}

#[test]
fn a_lost_field_is_noticed_wherever_it_was() {
    let fields = [RUN, "17", "60000", "c", "3", "2", "00ff"];
    for gone in 0..fields.len() {
        let text: Vec<&str> = fields.iter().enumerate().filter(|(i, _)| *i != gone).map(|(_, f)| *f).collect();
        assert_eq!(Generation::parse(&text.join(":")), None, "without field {gone}");
    }
}

#[test]
fn plain_commands_vote_only_behind_a_settled_generation() {
    for bits in 0..16 {
        let [quarantine, full, fenced, settled] = [1, 2, 4, 8].map(|b| bits & b != 0);
        let want = match (full || fenced, quarantine, settled) {
            (true, ..) | (_, true, false) => Form::Script,
            _ => Form::Pair,
        };
        assert_eq!(form(quarantine, full, fenced, settled), want, "{bits:04b}");
    }
}
