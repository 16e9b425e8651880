//! Pages and comments: links lead somewhere, what they name exists, lines are short, words are as agreed.
#![allow(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

const LONGEST_LINE: usize = 120;

static ROOT: LazyLock<&Path> = LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap());

/// One file of the repository.
struct Page {
    /// Below the root, as in `docs/DESIGN.md`.
    path: String,
    text: String,
}

impl Page {
    fn is(&self, ending: &str) -> bool {
        self.path.ends_with(ending)
    }

    /// Whether it is prose or source that people write: what `cargo`, `npm` and our own programs write is not.
    fn is_written(&self) -> bool {
        [".md", ".rs", ".lua", ".py", ".toml"].iter().any(|ending| self.is(ending)) || self.is_script()
    }

    fn is_script(&self) -> bool {
        self.path.starts_with("scripts/") || self.path.starts_with(".ci/")
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }
}

/// The text files of the repository as they are now: what git knows, and what it does not ignore.
static PAGES: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let listed = Command::new("git").args(["ls-files", "-z", "-co", "--exclude-standard"]).current_dir(*ROOT).output();
    let listed = match listed {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
        _ => walk(&ROOT),
    };
    let paths: BTreeSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    let text = |path: &str| fs::read_to_string(ROOT.join(path)).ok();
    paths.into_iter().filter_map(|path| Some(Page { path: path.to_string(), text: text(path)? })).collect()
});

/// The same for an unpacked package, where there is no git.
fn walk(root: &Path) -> String {
    let mut found = String::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        for path in fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_name().unwrap().to_string_lossy().to_string();
            if path.is_dir() && !["target", ".git", "node_modules"].contains(&name.as_str()) {
                open.push(path);
            } else if path.is_file() {
                found += &format!("{}\0", path.strip_prefix(root).unwrap().display());
            }
        }
    }
    found
}

fn page(path: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.path == path)
}

/// The anchor of a heading, as GitHub makes it: lower case, no punctuation but `-` and `_`, spaces as `-`.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines of a Markdown page that are not in a code block, with their numbers.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (i, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((i + 1, line));
        }
    }
    lines
}

/// The anchors of a page; the second heading of the same text gets `-1`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() < line.len() && heading.starts_with(' ') {
            let plain = anchor(heading);
            let numbered = (1..).map(|n| format!("{plain}-{n}"));
            let fresh = std::iter::once(plain.clone()).chain(numbered).find(|a| !found.contains(a)).unwrap();
            found.insert(fresh);
        }
    }
    found
}

/// `to`, as it is written on a page in the folder of `from`, below the root.
fn resolved(from: &str, to: &str) -> String {
    let joined = Path::new(from).parent().unwrap().join(to);
    let mut path = PathBuf::new();
    for part in joined.components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path.to_string_lossy().replace('\\', "/")
}

/// The targets of the links on a page: `](target)`.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        found.extend(line.split("](").skip(1).filter_map(|rest| Some((number, rest.split_once(')')?.0))));
    }
    found
}

/// The references `docs/X.md` and `docs/X.md#anchor` in any text.
fn references(line: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_alphanumeric() || "-_./#".contains(c);
    let starts = line.match_indices("docs/").map(|(at, _)| at);
    let whole = starts.map(|at| &line[at..line[at..].find(|c| !is_part(c)).map_or(line.len(), |end| at + end)]);
    whole.map(|reference| reference.trim_end_matches('.')).filter(|reference| reference.contains(".md")).collect()
}

fn complain(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} times:\n{}", wrong.len(), wrong.join("\n"));
}

/// Why a page and an anchor are not there.
fn absent(path: &str, anchor: Option<&str>) -> Option<String> {
    let known = page(path).map(|page| anchors(&page.text));
    match (known, anchor) {
        (None, None) if ROOT.join(path).exists() => None,
        (None, _) => Some(format!("there is no {path}")),
        (Some(known), Some(anchor)) if !known.contains(anchor) => Some(format!("{path} has no heading #{anchor}")),
        _ => None,
    }
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in PAGES.iter().filter(|page| page.is(".md")) {
        for (number, target) in links(&page.text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
            let path = if path.is_empty() { page.path.clone() } else { resolved(&page.path, path) };
            wrong.extend(absent(&path, anchor).map(|why| format!("{}:{number}: {why}", page.path)));
        }
    }
    complain(wrong);
}

#[test]
fn every_reference_to_a_page_leads_somewhere() {
    let mut wrong = Vec::new();
    for page in PAGES.iter().filter(|page| page.path != "verify/tests/pages.rs" && page.path != "CHANGELOG.md") {
        for (number, line) in page.text.lines().enumerate() {
            for reference in references(line) {
                let (path, anchor) = reference.split_once('#').map_or((reference, None), |(p, a)| (p, Some(a)));
                wrong.extend(absent(path, anchor).map(|why| format!("{}:{}: {why}", page.path, number + 1)));
            }
        }
    }
    complain(wrong);
}

/// The code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// What a page calls a test: `module::name`, with `*` for the rest of a name, or a long name alone.
fn named_test(span: &str) -> Option<(&str, &str)> {
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || "_0123456789*".contains(c));
    let parts: Vec<&str> = span.split("::").collect();
    match parts[..] {
        _ if !parts.iter().all(|part| is_name(part)) => None,
        [.., module, test] => Some((module, test)),
        [test] if test.matches('_').count() > 4 => Some(("", test)),
        _ => None,
    }
}

#[test]
fn every_test_that_a_page_names_exists() {
    let sources: Vec<&Page> = PAGES.iter().filter(|page| page.is(".rs")).collect();
    let exists = |module: &str, test: &str| {
        let is_module = |page: &&&Page| {
            let mut parts = page.path.trim_end_matches(".rs").split('/');
            module.is_empty() || parts.any(|part| part == module) || page.text.contains(&format!("mod {module} "))
        };
        let is_there = |page: &&Page| match test.split_once('*') {
            None => page.text.contains(&format!("fn {test}(")),
            Some(("", _)) => true,
            Some((begin, _)) => page.text.contains(&format!("fn {begin}")),
        };
        sources.iter().filter(is_module).any(is_there)
    };
    let mut wrong = Vec::new();
    for path in ["docs/SAFETY.md", "docs/VERIFICATION.md", "docs/DESIGN.md"] {
        for (number, line) in prose(&page(path).unwrap().text) {
            let tests = spans(line).filter_map(|span| Some((span, named_test(span)?)));
            let lost = tests.filter(|(_, (module, test))| !exists(module, test));
            wrong.extend(lost.map(|(span, _)| format!("{path}:{number}: there is no test {span}")));
        }
    }
    complain(wrong);
}

/// "planted `a_fault`" and "model `a-configuration`", or several of them.
#[test]
fn every_fault_and_every_model_that_a_page_names_exists() {
    let within = |folder: &'static str| PAGES.iter().filter(move |page| page.path.starts_with(folder));
    let has = |folder, name: &str| within(folder).any(|page| page.text.contains(&format!("\"{name}\"")));
    let is_name =
        |span: &&str| span.chars().all(|c| c.is_ascii_lowercase() || "-_".contains(c)) && span.contains(['-', '_']);
    let mut wrong = Vec::new();
    for path in ["docs/SAFETY.md", "docs/VERIFICATION.md"] {
        for (number, line) in prose(&page(path).unwrap().text) {
            for (what, folder) in [
                ("planted `", "verify/src/planted"),
                ("model `", "verify/src/models"),
                ("models `", "verify/src/models"),
            ] {
                let Some((_, rest)) = line.split_once(what) else { continue };
                let list = format!("`{}", rest.split([';', '|', '(']).next().unwrap());
                let lost = spans(&list).filter(is_name).filter(|name| !has(folder, name));
                wrong.extend(lost.map(|name| format!("{path}:{number}: {folder} has no {name}")));
            }
        }
    }
    complain(wrong);
}

/// `engine/queue.rs`: where a page names a file, there is one whose path ends so.
#[test]
fn every_file_that_a_page_names_exists() {
    let endings = [".rs", ".lua", ".toml", ".py", ".sh"];
    let is_file = |span: &&str| endings.iter().any(|ending| span.ends_with(ending)) && !span.contains(['*', ' ', '<']);
    let exists = |file: &str| PAGES.iter().any(|page| page.path == file || page.path.ends_with(&format!("/{file}")));
    let mut wrong = Vec::new();
    for page in PAGES.iter().filter(|page| page.is(".md") && page.name() != "CHANGELOG.md") {
        for (number, line) in prose(&page.text) {
            // A name in capitals stands for any.
            let named = spans(line).filter(is_file).filter(|file| !file.contains("NAME"));
            let lost = named.filter(|file| !exists(file));
            wrong.extend(lost.map(|file| format!("{}:{number}: there is no {file}", page.path)));
        }
    }
    complain(wrong);
}

/// Whether nothing in a long line can be broken: a row of a table, a package's description, a link or another string
/// without a space, or a command that is pasted as it is.
fn cannot_be_broken(line: &str) -> bool {
    let line = line.trim();
    let pasted = ["ACL SETUSER ", "redis-cli ACL SETUSER "].iter().any(|begin| line.starts_with(begin));
    let longest = line.split(' ').map(|word| word.chars().count()).max().unwrap_or(0);
    line.starts_with('|') || line.starts_with("description = ") || pasted || longest + 20 > LONGEST_LINE
}

#[test]
fn no_line_is_beyond_120_columns() {
    let mut wrong = Vec::new();
    for page in PAGES.iter().filter(|page| page.is_written()) {
        for (number, line) in page.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > LONGEST_LINE && !cannot_be_broken(line) {
                wrong.push(format!("{}:{}: {columns} columns", page.path, number + 1));
            }
        }
    }
    complain(wrong);
}

#[test]
fn the_glossary_has_at_most_twenty_words() {
    let text = &page("docs/DESIGN.md").unwrap().text;
    let glossary = text.split("\n## Glossary\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let words = glossary.lines().filter(|line| line.starts_with("| ")).skip(1).count();
    assert!((5..=20).contains(&words), "{words} words");
}

/// A word that is not used any more.
struct Old {
    /// Whole words, also with a capital at the start. Others are names: `NODES` is a constant.
    word: &'static str,
    /// What is said instead.
    instead: &'static str,
    /// Parts of a line, in lower case, in which the word means something else.
    except: &'static [&'static str],
}

const fn old(word: &'static str, instead: &'static str, except: &'static [&'static str]) -> Old {
    Old { word, instead, except }
}

/// A node is the value of an option, of a field that has it, and of a key in JSON; and there is Node.js.
const NODES: &[&str] = &[
    "-nodes",
    ".nodes",
    "nodes:",
    "nodes<",
    "\"nodes\"",
    "fn nodes(",
    "    nodes(\"redis",
    ".node(",
    "::node)",
    "fn node(",
    "node('",
    "node-redlock",
    "for node",
    "(node)",
    "mvn node npm",
    "node and python",
];

/// What was said before, and is not any more. Words are plain English, names are identifiers.
const OLD: &[Old] = &[
    old("whoever", "the thread that, the client that", &[]),
    old("tale", "report", &[]),
    old("courtesy", "yield window", &[]),
    old("steps back", "yields", &[]),
    old("step back", "yield", &[]),
    old("in line", "in the local queue, in the wait list", &[]),
    old("into line", "into the local queue, into the wait list", &[]),
    old("leave word", "register", &[]),
    old("leaves word", "registers", &[]),
    old("left word", "registered", &[]),
    old("is told", "is notified, is announced", &[]),
    old("are told", "are notified, are announced", &[]),
    old("was told", "was notified, was announced", &[]),
    old("were told", "were notified, were announced", &[]),
    old("be told", "be notified, be announced", &[]),
    old("been told", "been notified, been announced", &[]),
    old("not told", "not notified, not announced", &[]),
    old("told of", "notified of", &[]),
    old("its turn", "its quantum", &[]),
    old("a turn", "a quantum", &[]),
    old("turns", "quanta; rotates", &["turns out", "turns into"]),
    old("is load", "costs the masters work", &[]),
    old("the begin of", "the start of", &[]),
    old("has gone", "is absent, has ended", &[]),
    old("have gone", "are absent, have ended", &["can have gone"]),
    old("is gone", "is absent, has ended", &[]),
    old("are gone", "are absent, have ended", &[]),
    old("missing key", "absent key", &[]),
    old("key is missing", "key is absent", &[]),
    old("vanished", "is absent; died", &[]),
    old("vanishes", "dies, disappears", &[]),
    old(
        "cluster",
        "deployment",
        &["redis cluster", "redis-cluster", "redis+cluster", "--cluster-enabled", "\"cluster\"", "cluster mode"],
    ),
    old("node", "master", NODES),
    old("nodes", "masters", NODES),
    old("Ear", "Subscription", &[]),
    old("News", "PubSubEvent", &[]),
    old("Outlook", "Snapshot", &[]),
    old("Finished", "RoundResult", &[]),
    old("Said", "MasterAnswer", &[]),
    old("LATE", "a name in ..._DELAY", &[]),
    old("SOON", "a name in ..._DELAY", &[]),
    old("MARK_MS", "a name in ..._WINDOW", &[]),
    old("LOOK", "a name in ..._INTERVAL", &[]),
    old("ASK", "a name in ..._INTERVAL", &["\"ask\"", "moved, ask"]),
    old("PATIENCE", "a name in ..._TIMEOUT", &[]),
];

/// Whether `word` stands in `line` as a word of its own.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let ends = |at: usize| (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
    line.match_indices(word).map(|(at, _)| ends(at)).any(|(before, after)| !part(before) && !part(after))
}

/// Whether a line has the old word. In Markdown, code is others' names: it is left out.
fn says(page: &Page, line: &str, old: &Old) -> bool {
    let line: String = if page.is(".md") { line.split('`').step_by(2).collect() } else { line.to_string() };
    let lower = line.to_lowercase();
    let (first, rest) = old.word.split_at(1);
    let at_start = format!("{}{rest}", first.to_uppercase());
    let is_said = has_word(&line, old.word) || has_word(&line, &at_start);
    is_said && !old.except.iter().any(|except| lower.contains(except))
}

/// The lines in which words count, with their numbers: all of a source, those outside of code blocks of a page.
fn spoken(page: &Page) -> Vec<(usize, &str)> {
    if page.is(".md") { prose(&page.text) } else { (1..).zip(page.text.lines()).collect() }
}

/// `--nocapture` shows how often each old word stands in the whole repository.
#[test]
fn the_old_words_are_not_used() {
    let own = "verify/tests/pages.rs";
    let mut wrong = Vec::new();
    for old in OLD {
        let mut hits = 0;
        for page in PAGES.iter().filter(|page| page.is_written() && page.path != own && page.name() != "CHANGELOG.md") {
            for (number, _) in spoken(page).into_iter().filter(|(_, line)| says(page, line, old)) {
                hits += 1;
                wrong.push(format!("{}:{number}: {:?}: say {}", page.path, old.word, old.instead));
            }
        }
        println!("{hits:5}  {}", old.word);
    }
    complain(wrong);
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    assert_eq!(anchor(" Rules for operators"), "rules-for-operators");
    assert_eq!(anchor(" Hazards, rules, and the test that fails"), "hazards-rules-and-the-test-that-fails");
    assert_eq!(anchor(" `verify planted` (all)"), "verify-planted-all");
    let twice = anchors("# A\n```sh\n# not a heading\n```\n## B c\n## B c\n#no\n");
    assert_eq!(twice.into_iter().collect::<Vec<_>>(), ["a", "b-c", "b-c-1"]);
}

#[test]
fn references_and_words_are_found() {
    let line = "see docs/SAFETY.md#vote-lemma, docs/DESIGN.md. and docs/scale/x.svg (docs/PERFORMANCE.md)";
    assert_eq!(references(line), ["docs/SAFETY.md#vote-lemma", "docs/DESIGN.md", "docs/PERFORMANCE.md"]);
    assert!(has_word("a tale.", "tale") && !has_word("stale tales tale_", "tale"));
    assert_eq!(resolved("docs/SAFETY.md", "../README.md"), "README.md");
    assert!(absent("docs/SAFETY.md", Some("no-such-heading")).is_some() && absent("docs/NO.md", None).is_some());
    assert!(absent("docs/SAFETY.md", Some("vote-lemma")).is_none() && absent("docs/scale", None).is_none());
}
