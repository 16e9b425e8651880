//! The examples of README.md do what they say.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod support;

use redleash_testkit::Masters;
use std::path::Path;
use std::process::Command;
use support::{REDLEASH, done};

#[test]
fn the_examples() {
    if redleash_testkit::skipped() {
        return;
    }
    let masters = Masters::start(3).unwrap();
    let readme = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let examples = readme.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let urls = masters.urls().join(",");
    let named = "redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";
    let script = examples.collect::<String>().replace(named, &urls);
    assert!(script.contains(&urls), "the examples name the masters");
    let path = format!("{}:{}", Path::new(REDLEASH).parent().unwrap().display(), std::env::var("PATH").unwrap());
    let done = done(Command::new("sh").args(["-euc", &script]).env("PATH", path).env_remove("REDLEASH_NODES"));
    assert_eq!((done.code(), done.err.as_str()), (0, ""), "{done:?}");
    for text in
        ["3 masters settled", "only one host", "of nightly-backup\n", "\"nightly-backup\" is free", "own code: 3"]
    {
        assert!(done.out.contains(text), "{text:?} is not in {done:?}");
    }
}
