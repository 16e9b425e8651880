//! The dependencies are what deny.toml says: licences, duplicates, sources. `scripts/deny` has cargo-deny say the same
//! and more; this needs nothing but cargo, so that it runs every time.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

static ROOT: LazyLock<&Path> = LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());
static RULES: LazyLock<String> = LazyLock::new(|| std::fs::read_to_string(ROOT.join("deny.toml")).unwrap());

/// All packages of the lock file, for whatever platform.
static PACKAGES: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let mut cargo = Command::new(env!("CARGO"));
    let output = cargo.args(["metadata", "--format-version", "1", "--locked"]).current_dir(*ROOT).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
});

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or_default()
}

/// The lines of a list in deny.toml.
fn list(name: &str) -> Vec<&'static str> {
    let (_, rest) = RULES.split_once(&format!("\n{name} = [\n")).unwrap_or_else(|| panic!("deny.toml has no {name}"));
    rest.split_once("\n]").unwrap().0.lines().map(str::trim).collect()
}

fn quoted(line: &str) -> Vec<&str> {
    line.split('"').skip(1).step_by(2).collect()
}

/// Whether an SPDX expression allows one of these licences. `AND` binds tighter than `OR`; parentheses stand around
/// whole alternatives only.
fn allows(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let expression = expression.replace('/', " OR ");
    let group = |text: &str| text.split(" OR ").any(|one| allowed.contains(one.trim_matches(['(', ')', ' '])));
    if expression.contains('(') {
        return expression.split(" AND ").all(group);
    }
    expression.split(" OR ").any(|part| part.split(" AND ").all(group))
}

#[test]
fn licences_are_those_that_are_allowed() {
    let allowed: BTreeSet<&str> = list("allow").into_iter().flat_map(quoted).collect();
    let refused: Vec<String> = PACKAGES
        .iter()
        .filter(|p| !allows(text(p, "license"), &allowed))
        .map(|p| format!("{} {}: {}", text(p, "name"), text(p, "version"), text(p, "license")))
        .collect();
    assert!(PACKAGES.len() > 100 && refused.is_empty(), "{refused:#?}");
}

#[test]
fn no_package_is_there_twice_but_those_that_are_named_with_a_reason() {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in PACKAGES.iter() {
        versions.entry(text(package, "name")).or_default().insert(text(package, "version"));
    }
    let mut skipped = BTreeSet::new();
    for line in list("skip") {
        let [package, reason] = quoted(line)[..] else { panic!("{line}: a package and a reason") };
        let (name, version) = package.split_once('@').unwrap();
        assert!(reason.len() > 3, "{package} has no reason");
        let known = versions.get_mut(name).is_some_and(|all| all.remove(version));
        assert!(known, "{package} is skipped, but is not a dependency any more");
        skipped.insert(name);
    }
    for (name, left) in &versions {
        assert!(left.len() == 1, "{name} is there in {left:?}");
    }
    assert!(!skipped.is_empty());
}

#[test]
fn all_come_from_crates_io() {
    assert!(list("skip").len() > 1 && RULES.contains("unknown-registry = \"deny\""));
    for package in PACKAGES.iter() {
        let (source, ours) =
            (package["source"].as_str(), text(package, "manifest_path").starts_with(ROOT.to_str().unwrap()));
        assert!(source == Some(REGISTRY) || source.is_none() && ours, "{}: {source:?}", text(package, "name"));
    }
}

#[test]
fn expressions_are_read_as_they_are_meant() {
    let allowed = BTreeSet::from(["MIT", "Unicode-3.0"]);
    for good in ["MIT", "Apache-2.0 OR MIT", "MIT/Apache-2.0", "(MIT OR Apache-2.0) AND Unicode-3.0", "GPL-3.0 OR MIT"]
    {
        assert!(allows(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "Apache-2.0 OR GPL-3.0", "MITX"] {
        assert!(!allows(bad, &allowed), "{bad}");
    }
}
