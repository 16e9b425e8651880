//! The demonstration: worker processes count the words of a directory's text files into one ledger file, while one
//! of three masters dies and comes back empty; then the same without the lock; then the command line `redleash run`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "a program of its own, with its own clock and threads")]

mod crew;
mod guarded;
mod ledger;
mod screen;
mod worker;

use crew::{Crew, Event};
use ledger::{Counts, batches, count, gather, total};
use redleash::Client;
use redleash_testkit::{Masters, Scratch, Server, available};
use screen::{Screen, group};
use std::error::Error;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use worker::Worker;

type Failure = Box<dyn Error>;

const LOCK: &str = "ledger";
const WORKERS: usize = 3;
const THREADS: usize = 2;
const BATCHES: usize = 48;
const MASTERS: [char; 3] = ['A', 'B', 'C'];
/// The master that dies.
const VICTIM: usize = 1;
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.split_first() {
        Some((word, rest)) if word == "worker" => {
            Worker::from_args(rest).and_then(|worker| worker.run()).map(|()| true)
        }
        Some((root, [])) => demonstrate(Path::new(root)),
        _ => demonstrate(Path::new(".")),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demonstrate(root: &Path) -> Result<bool, Failure> {
    if !available() {
        return Err("redis-server is not installed (scripts/demo installs it)".into());
    }
    println!("{WORKERS} processes with {THREADS} threads each count this repository's words into one file.");
    println!("An update reads the file, adds a batch and writes it back: of updates that overlap, one is lost.\n");
    let mut screen = Screen::new();
    let scratch = Scratch::new()?;
    let servers = Masters::start(MASTERS.len())?;
    for (name, server) in MASTERS.iter().zip(servers.iter()) {
        let (port, pid) = (server.port(), server.pid());
        screen.line("master", &format!("{name}, a fresh redis-server, 127.0.0.1:{port}, process {pid}"));
    }
    let client = Client::builder().nodes(servers.urls()).label("conductor").build()?;
    screen.block("init", &client.init()?.to_string());
    let (text, files) = gather(root)?;
    if batches(&text, BATCHES).iter().any(String::is_empty) {
        return Err(format!("too little text below {}", root.display()).into());
    }
    let input = scratch.path().join("input");
    fs::write(&input, &text)?;
    let truth = count(&text);
    let words = group(total(&truth));
    screen.line("input", &format!("{files} files, {words} words, in {BATCHES} batches"));

    println!("\nWith the lock");
    let mut crew = Crew::start(&scratch, "locked", &input, &servers.urls().join(","))?;
    let mut story = Story { servers: &servers, client: &client, written: 0, stale: 0, came_back: false };
    let begun = Instant::now();
    while let Some(event) = crew.next(LIMIT.saturating_sub(begun.elapsed()))? {
        story.show(event, &mut screen, &words)?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    screen.block("status", &client.status(LOCK)?.to_string());
    let (stale, came_back) = (story.stale, story.came_back);
    let locked = crew.finish()?;
    client.close(Duration::from_secs(2));

    println!("\nWithout the lock: the same workers, the same batches");
    let begun = Instant::now();
    let mut crew = Crew::start(&scratch, "unlocked", &input, "")?;
    while crew.next(LIMIT.saturating_sub(begun.elapsed()))?.is_some() {}
    let unlocked = crew.finish()?;
    screen.line("done", &format!("{BATCHES} updates in {:.1} s", begun.elapsed().as_secs_f64()));

    let path = scratch.path().to_path_buf();
    let ports: Vec<u16> = servers.iter().map(Server::port).collect();
    drop((servers, scratch));
    let clean = gone(&path, &ports);

    println!("\nThe command line: what flock does on one host, across hosts");
    let guarded = guarded::act(&mut screen)?;
    let clean = clean && guarded.clean;

    let (lacking, lost) = (difference(&truth, &locked.counts), difference(&truth, &unlocked.counts));
    let tokens: Vec<u64> = locked.updates.iter().map(|update| update.token).collect();
    let rose = tokens.windows(2).all(|pair| pair[0] < pair[1]);
    let (updates, kept) = (locked.updates.len(), group(locked.words()));
    let (first, last) = (tokens.first().unwrap_or(&0), tokens.last().unwrap_or(&0));
    println!("\nVerdict");
    let mut verdict = Verdict { passed: true };
    verdict.line(
        "with the lock",
        lacking == 0 && updates == BATCHES,
        format!("{kept} of {words} words after {updates} updates in {seconds:.1} s, {} lost", group(lacking)),
    );
    let which = if rose { "each above the one before" } else { "NOT rising" };
    verdict.line("fencing tokens", rose && stale == 0 && updates > 0, format!("{which}: {first} to {last}"));
    let victim = MASTERS[VICTIM];
    verdict.line("the lost master", came_back, format!("{victim} was killed and came back empty while they worked"));
    verdict.line(
        "without the lock",
        lost > 0,
        format!("{} of {words} words after {BATCHES} updates, {} lost", group(unlocked.words()), group(lost)),
    );
    guarded.show(&mut verdict);
    verdict.line("left behind", clean, "no server, no process, no file".into());
    println!("\n{}", if verdict.passed { "PASSED" } else { "FAILED" });
    Ok(verdict.passed)
}

/// What happens while the workers make their updates: after a quarter of them a master dies, after half of them it is
/// back.
struct Story<'a> {
    servers: &'a Masters,
    client: &'a Client,
    written: usize,
    stale: usize,
    came_back: bool,
}

impl Story<'_> {
    fn show(&mut self, event: Event, screen: &mut Screen, words: &str) -> Result<(), Failure> {
        let (name, victim) = (MASTERS[VICTIM], &self.servers[VICTIM]);
        match event {
            Event::Holds { who, token, lease } => screen.holds(&who, token, lease),
            Event::Stale(who) => {
                self.stale += 1;
                screen.line("STALE", &format!("{who} came with an old token and was refused"));
            }
            Event::Trouble { who, why } => screen.line("TROUBLE", &format!("{who}: {why}")),
            Event::Wrote { added, sum } => {
                self.written += 1;
                screen.wrote(added, sum, words);
                if self.written == BATCHES / 4 {
                    victim.kill();
                    screen.line("KILLED", &format!("master {name}: two of three are a majority, so the workers go on"));
                    screen.block("status", &self.client.status(LOCK)?.to_string());
                } else if self.written == BATCHES / 2 {
                    victim.restart_empty()?;
                    self.came_back = true;
                    screen.line(
                        "BACK",
                        &format!("master {name}, empty. It cannot know what it granted before, so it is in"),
                    );
                    screen.line("", "quarantine and gives no votes for about 61 s; the two others carry on");
                }
            }
        }
        Ok(())
    }
}

struct Verdict {
    passed: bool,
}

impl Verdict {
    fn line(&mut self, what: &str, good: bool, text: String) {
        self.passed &= good;
        println!("  {:<4}  {what:<18}{text}", if good { "ok" } else { "FAIL" });
    }
}

/// Whether a directory and the servers at these ports have ended.
fn gone(path: &Path, ports: &[u16]) -> bool {
    !path.exists() && !ports.iter().any(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
}

/// How many words are lacking or too many.
fn difference(truth: &Counts, found: &Counts) -> u64 {
    let wrong = truth.iter().map(|(word, n)| n.abs_diff(found.get(word).copied().unwrap_or(0)));
    let strange = found.iter().filter(|(word, _)| !truth.contains_key(*word)).map(|(_, n)| *n);
    wrong.chain(strange).sum()
}
