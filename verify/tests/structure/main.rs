//! The structure of the sources: no files that import each other in a circle, layers whose arrows go one way, and
//! things that have one place.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod sources;

use sources::{Source, circles, read};
use std::collections::BTreeSet;
use std::path::Path;

/// The folders of sources that may have no circle.
const FOLDERS: &[&str] = &["src", "protocol/src", "cli/src", "verify/src", "testkit/src"];

#[test]
fn no_files_import_each_other_in_a_circle() {
    let mut wrong = Vec::new();
    for folder in FOLDERS {
        let sources = read(folder);
        assert!(sources.len() > 3, "only {} files in {folder}", sources.len());
        for circle in circles(&sources) {
            wrong.push(format!("a circle in {folder}: {}\n{}", circle.files.join(" "), circle.arrows.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The layer of a file of the library: everything beside the three folders is the API.
fn layer(source: &Source) -> &str {
    source.module.first().map(String::as_str).filter(|first| ["engine", "wire", "sys"].contains(first)).unwrap_or("api")
}

/// Whether a layer may name what begins with `first`, at the root of the library.
fn may_name(layer: &str, first: &str) -> bool {
    match layer {
        "sys" => ["sys", "protocol"].contains(&first),
        "wire" => ["wire", "sys", "protocol"].contains(&first),
        "engine" => ["engine", "wire", "sys", "protocol"].contains(&first),
        _ => true,
    }
}

#[test]
fn the_arrows_between_the_layers_go_one_way() {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for source in read("src") {
        let layer = layer(&source);
        seen.insert(layer.to_string());
        for path in &source.inside {
            let clock_only = layer != "sys" || path[0] == "sys" || path[..2] == ["protocol", "time"];
            if !may_name(layer, &path[0]) || !clock_only {
                wrong.push(format!("{} names {}", source.file, path.join("::")));
            }
        }
    }
    assert!(seen.into_iter().eq(["api", "engine", "sys", "wire"]));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is named in one place only, and where.
const ONE_PLACE: &[(&str, &str, &[&str])] = &[
    ("redis", "src", &["src/wire/"]),
    ("r2d2", "src", &["src/wire/"]),
    // The logger is the user's: one thread calls it, for all.
    ("log", "src", &["src/sys/journal.rs"]),
    ("rand", "src", &["src/sys/entropy.rs"]),
    ("rustix::time", "src", &["src/sys/"]),
    ("std::thread::Builder", "src", &["src/sys/"]),
    // Decisions have no world.
    ("std::net", "protocol/src", &[]),
    ("std::thread", "protocol/src", &[]),
    ("std::io", "protocol/src", &[]),
    ("std::fs", "protocol/src", &[]),
    ("std::process", "protocol/src", &[]),
    ("std::os", "protocol/src", &[]),
    ("std::env", "protocol/src", &[]),
    ("std::sync::Mutex", "protocol/src", &[]),
    ("std::time::Instant", "protocol/src", &[]),
    ("std::time::SystemTime", "protocol/src", &[]),
];

#[test]
fn what_has_one_place_is_named_there_only() {
    let folders = ["src", "protocol/src"].map(|folder| (folder, read(folder)));
    for (what, folder, places) in ONE_PLACE {
        let first: Vec<&str> = what.split("::").collect();
        let begins = |path: &Vec<String>| path.len() >= first.len() && path.iter().zip(&first).all(|(a, b)| a == b);
        let sources = folders.iter().filter(|(name, _)| name == folder).flat_map(|(_, sources)| sources);
        let files: Vec<&str> =
            sources.filter(|source| source.outside.iter().any(begins)).map(|source| &source.file[..]).collect();
        let wrong: Vec<&&str> =
            files.iter().filter(|file| !places.iter().any(|place| file.starts_with(place))).collect();
        assert!(wrong.is_empty(), "{what} is named in {wrong:?}");
        assert!(places.is_empty() || !files.is_empty(), "nothing names {what}");
    }
}

/// A user's closure runs any code, also when it is dropped. So it is kept where nobody can drop it with a mutex locked:
/// with the API's handles, in the call that it was given to, and with the callbacks of a signal.
#[test]
fn closures_of_the_users_are_kept_in_two_places() {
    let kept: Vec<String> =
        read("src").into_iter().filter(|s| s.closures && layer(s) != "api").map(|source| source.file).collect();
    assert_eq!(kept, ["src/engine/signal.rs", "src/engine/waiting.rs"]);
}

#[test]
fn no_file_is_above_600_lines() {
    let mut long = Vec::new();
    let mut open: Vec<_> = ["src", "protocol", "cli", "verify", "testkit", "tests", "examples", "benches", "fuzz"]
        .map(|folder| sources::root().join(folder))
        .into();
    while let Some(path) = open.pop().filter(|path| path.exists()) {
        if path.is_dir() && path.file_name() != Some("target".as_ref()) {
            open.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension() == Some("rs".as_ref()) && lines(&path) > 600 {
            long.push(path);
        }
    }
    assert!(long.is_empty(), "{long:?}");
}

fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file).unwrap().lines().count()
}

#[test]
fn unsafe_code_is_forbidden_in_every_package() {
    let manifest = |package: &str| std::fs::read_to_string(sources::root().join(package).join("Cargo.toml")).unwrap();
    let root = manifest("");
    assert!(root.contains("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"), "the workspace forbids unsafe code");
    let members = root.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let members: Vec<&str> = members.split('"').skip(1).step_by(2).collect();
    assert!(members.len() > 3, "{members:?}");
    for package in members.into_iter().chain([""]) {
        assert!(manifest(package).contains("\n[lints]\nworkspace = true\n"), "{package:?} has the workspace's lints");
    }
}
