use super::super::command::{Form, form};
use super::super::generation::{Deployment, Generation, quarantine, valid_cluster};
use super::super::validity::{Drift, until};
use super::super::{Mono, Quorum};
use super::ms;
use std::time::Duration;

const RUN: &str = "0123456789abcdef0123456789abcdef01234567";

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
            assert!(seen >= lease, "{ppm} ppm, {lease:?}");
            // And any client relies on a lease for less than that, whatever drift that client assumes.
            for theirs in [0, ppm].map(|p| Drift::from_ppm(p).unwrap()) {
                assert!(until(Mono::ZERO, lease, theirs).since(Mono::ZERO) <= seen, "{ppm} ppm, {lease:?}");
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
    assert_eq!(deployment.quarantine_us(), 61_210_000);
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
fn a_cluster_id_cannot_break_the_generation_string() {
    for good in ["a", "Main_1.2-x", &"x".repeat(64)] {
        assert!(valid_cluster(good), "{good}");
    }
    for bad in ["", "a:b", "a b", "ä", "a\n", "a\0", "{a}", "a|b", &"x".repeat(65)] {
        assert!(!valid_cluster(bad), "{bad:?}");
    }
    for byte in 0..=127_u8 {
        let id = char::from(byte).to_string();
        assert_eq!(valid_cluster(&id), byte.is_ascii_alphanumeric() || ".-_".contains(&*id), "{id:?}");
    }
}

#[test]
fn a_generation_string_is_read_back() {
    for run in [RUN, ""] {
        let block = Deployment::new("eu.1", q3(), ms(60_000), Drift::DEFAULT).block().to_owned();
        let text = format!("{run}:1795242595543000:{block}:00ff00ff00ff00ff");
        let read = Generation::parse(&text).unwrap();
        assert_eq!(read, Generation { run_id: run.into(), ready_at_us: 1_795_242_595_543_000, block });
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
