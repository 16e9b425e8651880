//! The models that are small enough for every run: some rules refuted, some of the whole protocol exhausted. The rest
//! is `verify models`.

use redleash_verify::models::config::{Config, Expected};
use redleash_verify::models::{check, configs};

fn find(name: &str) -> Config {
    configs::all().into_iter().find(|config| config.name == name).expect("a configuration of this name")
}

#[test]
fn without_the_quarantine_a_trace_shows_two_holders() {
    let config = find("no-quarantine");
    let found = check(&config);
    assert!(found.is_expected(&config), "{found:?}");
    let (_, steps) = found.broken.unwrap();
    assert!(steps.iter().any(|step| step.starts_with("A: granted")), "{steps:?}");
    assert!(steps.iter().any(|step| step.starts_with("B: granted")), "{steps:?}");
}

#[test]
fn another_result_than_the_expected_one_is_noticed() {
    let broken = find("no-quarantine");
    let wrong = Config { expected: Expected::Holds, ..broken.clone() };
    assert!(!check(&broken).is_expected(&wrong));
    let idle = Config { attempts: [0, 0], ..find("lock") };
    assert!(!check(&idle).is_expected(&idle), "nothing is ever held in it");
    let unbroken = Config { attempts: [1, 0], ..broken };
    assert!(!check(&unbroken).is_expected(&unbroken), "no client is there to break it");
}

#[test]
fn names_are_unique_and_every_rule_is_left_out_somewhere() {
    let all = configs::all();
    let mut names: Vec<&str> = all.iter().map(|config| config.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
    let mut removed: Vec<_> = all.iter().flat_map(|config| config.removed).collect();
    removed.sort_unstable();
    removed.dedup();
    assert_eq!(removed.len(), redleash_verify::models::rules::Rule::ALL.len());
}
