//! The second act: the command line `redleash run`, as cron starts it on two hosts, and what a SIGKILL does to it.

use crate::screen::Screen;
use crate::{Failure, LIMIT, MASTERS, Verdict, gone};
use redleash_testkit::{Masters, Scratch, Server, wait_until};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NAME: &str = "nightly";
/// A short lease and no lock-delay after it, so that only the lease keeps the two jobs apart.
const SHORT: [&str; 4] = ["--ttl", "3s", "--lock-delay", "0"];
const BUSY: i32 = 75;
/// How many lines the next job writes before it ends. If the first job were still alive, it would write in between.
const NEXT: &str = "20";
/// How many lines the first job writes before its redleash is killed.
const BEFORE: usize = 10;
/// `$1` is the file, `$2` how many lines to write; if it is empty, there is no end. The job ignores SIGTERM, so that it
/// continues when its redleash has ended. It ends with its directory if this process is killed.
const JOB: &str = r#"trap "" TERM
while echo "$REDLEASH_FENCE $(date +%s%N)" >> "$1"; do
    lines=$((lines + 1))
    [ "$lines" = "$2" ] && exit
    sleep 0.05
done"#;

/// What the verdict says of this act.
pub(crate) struct Outcome {
    busy: (bool, String),
    apart: (bool, String),
    pub(crate) clean: bool,
}

impl Outcome {
    pub(crate) fn show(self, verdict: &mut Verdict) {
        verdict.line("overlapping jobs", self.busy.0, self.busy.1);
        verdict.line("a killed redleash", self.apart.0, self.apart.1);
    }
}

pub(crate) fn act(screen: &mut Screen) -> Result<Outcome, Failure> {
    let scratch = Scratch::new()?;
    let servers = Masters::start(MASTERS.len())?;
    let ports: Vec<u16> = servers.iter().map(Server::port).collect();
    let cli = Cli::find(&scratch, &servers)?;
    let masters: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    screen.line("masters", &format!("three fresh ones: {}", masters.join(", ")));
    screen.block("init", &ask(cli.command().arg("init"))?.1);

    let short = SHORT.join(" ");
    screen.line("host 1", &format!("redleash run -n {short} {NAME} -- job"));
    screen.line("", "the job writes the time to a file every 50 ms, and ignores SIGTERM");
    let mut first = Run::start(&mut cli.job(&["-n"], ""))?;
    if !wait_until(LIMIT, || cli.lines().len() >= BEFORE || first.is_over()) || first.is_over() {
        return Err(format!("the first job did not run: {}", first.rest().join("; ")).into());
    }
    screen.line("host 2", &format!("redleash run -n {short} {NAME} -- job"));
    let (code, said) = ask(&mut cli.job(&["-n"], NEXT))?;
    let whom = said.split_once("held by ").map_or("", |(_, rest)| rest.split(" since").next().unwrap_or_default());
    screen.wrapped(&format!("exit {code}"), &said);
    let busy =
        (code == BUSY && !whom.is_empty(), format!("the second job is refused: exit code {code}, held by {whom}"));
    screen.block("status", &ask(cli.command().args(["status", NAME]))?.1);

    screen.line("host 2", &format!("redleash run -v -w 20 {short} {NAME} -- job"));
    let mut next = Run::start(&mut cli.job(&["-v", "-w", "20"], NEXT))?;
    // It says that it waits when it was refused for the first time.
    screen.wrapped("", &next.line().ok_or("the second redleash does not say that it waits")?);
    first.child.kill()?;
    let killed = now();
    screen.line("KILLED", "redleash on host 1, by SIGKILL: its job continues, and nothing renews the lock");
    // The job and its supervisor keep the pipe open, so its end is the end of all of them.
    first.rest().iter().for_each(|line| screen.wrapped("", line));
    let ended = first.said.try_recv() == Err(TryRecvError::Disconnected);
    screen.line(if ended { "ended" } else { "ALIVE" }, "the job of host 1, and the supervisor that ended it");
    // Line by line, as it comes: granted, then released.
    while let Some(line) = next.line() {
        screen.wrapped("host 2", &line);
    }
    let code = next.child.wait()?.code();
    let apart = judge(&cli.lines(), killed, code)?;

    let path = scratch.path().to_path_buf();
    drop((first, next, servers, scratch));
    Ok(Outcome { busy, apart, clean: ended && gone(&path, &ports) })
}

/// The jobs do not overlap if the file has all lines of the first, then all lines of the next with a higher fencing
/// token.
fn judge(lines: &[String], killed: Duration, code: Option<i32>) -> Result<(bool, String), Failure> {
    let mut entries = Vec::new();
    for line in lines {
        let (fence, time) = line.split_once(' ').ok_or("a broken line in the job's file")?;
        entries.push((fence.parse::<u64>()?, Duration::from_nanos(time.parse()?)));
    }
    let begin = entries.first().ok_or("the jobs wrote nothing")?.0;
    let (first, next) = entries.split_at(entries.iter().take_while(|(fence, _)| *fence == begin).count());
    let (Some((_, last)), Some((fence, start))) = (first.last(), next.first()) else {
        return Ok((false, "the job of host 2 wrote nothing".into()));
    };
    let one_by_one = next.iter().all(|(other, _)| other == fence) && *fence > begin && start > last;
    let good = one_by_one && code == Some(0) && next.len().to_string() == NEXT;
    let seconds = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64();
    let (alone, pause) = (seconds(killed, *last), seconds(*last, *start));
    let text = format!("its job wrote for {alone:.1} s more; {pause:.1} s after its last line the next one began");
    Ok((good, if one_by_one { text } else { format!("the two jobs OVERLAP; {text}") }))
}

/// The time of day, as `date` prints it for the jobs.
fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The program `redleash`, our masters, and the file that the jobs write.
struct Cli {
    program: PathBuf,
    urls: String,
    file: PathBuf,
}

impl Cli {
    fn find(scratch: &Scratch, servers: &Masters) -> Result<Cli, Failure> {
        let program = std::env::current_exe()?.with_file_name("redleash");
        if !program.is_file() {
            return Err(format!("{} is missing (scripts/demo builds it)", program.display()).into());
        }
        Ok(Cli { program, urls: servers.urls().join(","), file: scratch.path().join("lines") })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for name in ["NAMESPACE", "DEPLOYMENT", "MAX_LEASE", "FAULT_MARGIN"] {
            command.env_remove(format!("REDLEASH_{name}"));
        }
        command.env("REDLEASH_NODES", &self.urls).stdin(Stdio::null());
        command
    }

    fn job(&self, options: &[&str], lines: &str) -> Command {
        let mut command = self.command();
        command.arg("run").args(options).args(SHORT).args([NAME, "--", "sh", "-c", JOB, "sh"]);
        command.arg(&self.file).arg(lines).stdout(Stdio::null());
        command
    }

    /// What the jobs wrote.
    fn lines(&self) -> Vec<String> {
        fs::read_to_string(&self.file).unwrap_or_default().lines().map(String::from).collect()
    }
}

/// Runs a command that ends soon. Returns its exit code and its output.
fn ask(command: &mut Command) -> Result<(i32, String), Failure> {
    let output = command.stdout(Stdio::piped()).output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).trim_end().to_string()))
}

/// A running `redleash run`. Its own supervisor ends the job, whatever happens to it.
struct Run {
    child: Child,
    said: Receiver<String>,
}

impl Run {
    fn start(command: &mut Command) -> Result<Run, Failure> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let (send, said) = mpsc::channel();
        if let Some(pipe) = child.stderr.take() {
            thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _ = send.send(line);
                }
            });
        }
        Ok(Run { child, said })
    }

    fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// The next line that it says; `None` at its end.
    fn line(&mut self) -> Option<String> {
        self.said.recv_timeout(LIMIT).ok()
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.line()).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
