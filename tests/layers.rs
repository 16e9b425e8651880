//! The arrows between the layers go one way: api -> engine -> wire -> protocol, and sys knows only `protocol::time`.
//! Read from the source text, so that an arrow that compiles but points upward fails here.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a directory of the project; none if it is not there yet.
fn files(below: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(below)];
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(&directory) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A file's path below `src`, as in `wire/lane.rs`.
fn below_src(path: &Path) -> String {
    path.strip_prefix(root().join("src")).unwrap().to_string_lossy().replace('\\', "/")
}

/// The code without comments and without what is in quotes: doc links and URLs are no arrows.
fn code(path: &Path) -> String {
    strip(&fs::read_to_string(path).unwrap())
}

fn strip(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut out = String::new();
    let mut i = 0;
    while i < chars.len() {
        match (at(i), at(i + 1)) {
            ('/', '/') => i += chars[i..].iter().take_while(|c| **c != '\n').count(),
            ('/', '*') => {
                i += 2;
                while i < chars.len() && (at(i), at(i + 1)) != ('*', '/') {
                    i += 1;
                }
                i += 2;
            }
            ('r', '#' | '"') if !ends_in_word(&out) && raw_hashes(&chars[i + 1..]).is_some() => {
                let hashes = raw_hashes(&chars[i + 1..]).unwrap();
                i += 2 + hashes;
                let end = |i: usize| at(i) == '"' && (1..=hashes).all(|h| at(i + h) == '#');
                while i < chars.len() && !end(i) {
                    i += 1;
                }
                i += 1 + hashes;
                out.push_str("\"\"");
            }
            ('"', _) => {
                i += 1;
                while i < chars.len() && at(i) != '"' {
                    i += if at(i) == '\\' { 2 } else { 1 };
                }
                i += 1;
                out.push_str("\"\"");
            }
            // A character, not a lifetime.
            ('\'', '\\') => {
                i += 3;
                while i < chars.len() && at(i) != '\'' {
                    i += 1;
                }
                i += 1;
            }
            ('\'', _) if at(i + 2) == '\'' => i += 3,
            (c, _) => {
                out.push(c);
                i += 1;
            }
        }
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// The number of hashes if these characters, after an `r`, open a raw string.
fn raw_hashes(chars: &[char]) -> Option<usize> {
    let hashes = chars.iter().take_while(|c| **c == '#').count();
    (chars.get(hashes) == Some(&'"')).then_some(hashes)
}

/// All paths in the code that begin with `first`, groups written out: `use crate::{a, b::c}` gives `crate::a`, `crate::b::c`.
fn paths(code: &str, first: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = code[from..].find(first).map(|at| at + from) {
        from = at + first.len();
        let before = &code[..at];
        if ends_in_word(before) || before.ends_with("::") || !code[from..].trim_start().starts_with("::") {
            continue;
        }
        read(first, &code[from..], &mut found);
    }
    found
}

/// Reads what follows a path's beginning; gives how much of the text it used.
fn read(prefix: &str, text: &str, found: &mut Vec<String>) -> usize {
    let Some(rest) = text.trim_start().strip_prefix("::") else {
        found.push(prefix.to_string());
        return text.len() - text.trim_start().len();
    };
    let rest = rest.trim_start();
    let start = text.len() - rest.len();
    if !rest.starts_with('{') {
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '*')).collect();
        return start + word.len() + read(&format!("{prefix}::{word}"), &rest[word.len()..], found);
    }
    let mut at = 1;
    loop {
        at += rest[at..].len() - rest[at..].trim_start_matches(|c: char| c.is_whitespace() || c == ',').len();
        if at >= rest.len() || rest[at..].starts_with('}') {
            return start + at + 1;
        }
        let word: String = rest[at..].chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '*')).collect();
        if word.is_empty() {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        }
        at += word.len();
        at += read(&format!("{prefix}::{word}"), &rest[at..], found);
        // ` as name`
        at += rest[at..].find([',', '}']).unwrap_or(rest.len() - at);
    }
}

const LAYERS: [&str; 4] = ["protocol", "sys", "wire", "engine"];

/// The layer that a file is in; everything beside the four is the API.
fn layer(file: &str) -> &str {
    let first = file.split(['/', '.']).next().unwrap();
    LAYERS.into_iter().find(|l| *l == first).unwrap_or("api")
}

/// Whether code of a layer may name this path of the crate.
fn may(layer: &str, path: &str) -> bool {
    let to = path.strip_prefix("crate::").unwrap_or("").split("::").next().unwrap();
    match layer {
        "protocol" => to == "protocol",
        "sys" => to == "sys" || path == "crate::protocol::time" || path.starts_with("crate::protocol::time::"),
        "wire" => matches!(to, "wire" | "protocol" | "sys"),
        "engine" => matches!(to, "engine" | "wire" | "protocol" | "sys"),
        _ => true,
    }
}

#[test]
fn no_arrow_points_upward() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in files("src") {
        let (file, code) = (below_src(&path), code(&path));
        for named in paths(&code, "crate") {
            seen += 1;
            if !may(layer(&file), &named) {
                wrong.push(format!("src/{file} names {named}"));
            }
        }
        // `super::super::..` that leaves the layer says `crate` in other words.
        let depth = file.trim_end_matches(".rs").trim_end_matches("/mod").split('/').count();
        for named in paths(&code, "super") {
            let up = named.split("::").take_while(|word| *word == "super").count();
            if layer(&file) != "api" && up >= depth {
                wrong.push(format!("src/{file} leaves its layer by {named}"));
            }
        }
    }
    assert!(seen > 50, "only {seen} paths were found: is the source still where this test looks?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn redis_and_r2d2_are_the_wires() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in files("src") {
        let (file, code) = (below_src(&path), code(&path));
        for library in ["redis", "r2d2"] {
            for named in paths(&code, library) {
                seen += 1;
                if layer(&file) != "wire" {
                    wrong.push(format!("src/{file} names {named}"));
                }
            }
        }
    }
    assert!(seen > 0, "nothing names redis: does this test still see the source?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The files that a file names by `crate::` or `super::` paths: the longest prefix that is a module. Its own children and
/// parents are the tree of modules, not imports.
fn imports(file: &str, code: &str, modules: &[Vec<String>]) -> Vec<Vec<String>> {
    let here = module(file);
    let mut found = Vec::new();
    let named = paths(code, "crate").into_iter().chain(paths(code, "super"));
    for words in named.map(|path| path.split("::").map(str::to_string).collect::<Vec<_>>()) {
        let up = words.iter().take_while(|word| *word == "super").count();
        let base = if up == 0 { &[] } else { &here[..here.len().saturating_sub(up)] };
        let mut path: Vec<String> = base.iter().chain(&words[up.max(1)..]).cloned().collect();
        while !path.is_empty() && !modules.contains(&path) {
            path.pop();
        }
        if !path.is_empty() && !here.starts_with(&path) && !path.starts_with(&here) {
            found.push(path);
        }
    }
    found
}

/// A file's module: `wire/lane.rs` is `["wire", "lane"]`.
fn module(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').filter(|word| *word != "lib").map(str::to_string).collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let files: Vec<PathBuf> = files("src");
    let modules: Vec<Vec<String>> = files.iter().map(|path| module(&below_src(path))).collect();
    let imports: Vec<Vec<usize>> = files
        .iter()
        .map(|path| {
            let code = code(path);
            // A module of tests stands at the end of its file.
            let code = code.split("#[cfg(test)]\nmod ").next().unwrap();
            let named = imports(&below_src(path), code, &modules);
            named.iter().map(|to| modules.iter().position(|module| module == to).unwrap()).collect()
        })
        .collect();
    assert!(imports.iter().map(Vec::len).sum::<usize>() > 100, "is the source still where this test looks?");
    // Takes away, again and again, the files that import none of those that are left.
    let mut left: Vec<usize> = (0..files.len()).collect();
    loop {
        let (stay, go): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|file| imports[**file].iter().any(|to| left.contains(to)));
        left = stay;
        if go.is_empty() {
            break;
        }
    }
    let names = |file: &usize| below_src(&files[*file]);
    let tied = |file: &usize| imports[*file].iter().filter(|to| left.contains(to)).map(names).collect::<Vec<_>>();
    let circle: Vec<String> = left.iter().map(|file| format!("{} -> {:?}", names(file), tied(file))).collect();
    assert!(circle.is_empty(), "in a circle, or above one:\n{}", circle.join("\n"));
}

#[test]
fn the_clock_threads_and_random_bits_are_syss() {
    let mut wrong = Vec::new();
    for path in files("src") {
        let (file, code) = (below_src(&path), code(&path));
        if layer(&file) == "sys" {
            continue;
        }
        for call in
            ["Instant::now", "SystemTime::now", "thread::sleep", "thread::spawn", "thread::Builder", "getrandom::"]
        {
            if code.contains(call) {
                wrong.push(format!("src/{file} calls {call}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The logger is the user's: one thread calls it, for all.
#[test]
fn the_journal_alone_logs() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in files("src") {
        let (file, code) = (below_src(&path), code(&path));
        let found =
            ["log::log", "log::error", "log::warn", "log::info", "log::debug", "log::trace", "log_enabled", "use log"]
                .into_iter()
                .filter(|call| code.contains(call));
        for call in found {
            match file.as_str() {
                "sys/journal.rs" => seen += 1,
                _ => wrong.push(format!("src/{file} has {call}")),
            }
        }
    }
    assert!(seen > 0, "nobody logs: does this test still see the source?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A user's closure runs any code, also when it is dropped. So it is kept where nobody can drop it with a mutex locked: with
/// the API's handles, in the call that it was given to, and with the callbacks of a signal.
#[test]
fn closures_of_the_users_are_kept_in_two_places() {
    let keeps = |path: &PathBuf| {
        let code = code(path);
        ["dyn Fn(", "dyn FnMut(", "dyn FnOnce("].iter().any(|closure| code.contains(closure))
    };
    let kept: Vec<String> = files("src").iter().filter(|p| keeps(p)).map(|p| below_src(p)).collect();
    let inside: Vec<&String> = kept.iter().filter(|file| layer(file) != "api").collect();
    assert_eq!(inside, ["engine/signal.rs", "engine/waiting.rs"], "of {kept:?}");
}

#[test]
fn no_file_is_above_600_lines() {
    let all = ["src", "protocol", "tests", "verify", "examples", "benches"].into_iter().flat_map(files);
    let long: Vec<_> = all
        .map(|path| (fs::read_to_string(&path).unwrap().lines().count(), path))
        .filter(|(lines, _)| *lines > 600)
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn unsafe_code_is_forbidden() {
    let library = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    assert!(library.lines().any(|line| line == "#![forbid(unsafe_code)]"));
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(manifest.contains("unsafe_code = \"forbid\""));
    for path in ["src", "protocol/src", "verify/src"].into_iter().flat_map(files) {
        let code = code(&path);
        assert!(
            !code.contains("unsafe {") && !code.contains("unsafe fn") && !code.contains("unsafe impl"),
            "{}",
            path.display()
        );
    }
}

#[test]
fn this_test_sees_what_it_must() {
    let code = strip(
        "use crate::{engine::core as c, wire::{lane, master::Address}}; // crate::comment\n\
         /* crate::block */ let s = \"crate::string \\\" crate::more\"; let r = r#\"crate::raw\" crate::raw\"#;\n\
         fn f<'a>(c: char) -> &'a str { let q = '\"'; let e = '\\''; crate::api::call(q, e) } pub(crate) fn g() {}\n\
         use super::super::client; use crate::protocol::time::Mono;",
    );
    let mut found = paths(&code, "crate");
    found.sort();
    let expected = ["api::call", "engine::core", "protocol::time::Mono", "wire::lane", "wire::master::Address"];
    assert_eq!(found, expected.map(|path| format!("crate::{path}")));
    assert_eq!(paths(&code, "super"), ["super::super::client"]);
    assert!(!may("wire", "crate::engine::core") && !may("protocol", "crate::sys::clock"));
    assert!(!may("sys", "crate::protocol::lease") && may("sys", "crate::protocol::time::Mono"));
    assert!(!may("engine", "crate::client::Client") && may("api", "crate::engine::core"));
    assert_eq!(
        (layer("engine/root.rs"), layer("client.rs"), layer("sys/mod.rs"), layer("wire.rs")),
        ("engine", "api", "sys", "wire")
    );
}
