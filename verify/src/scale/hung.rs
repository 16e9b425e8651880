//! Locks that are held beside threads at full rate while one of three masters hangs, on processors that have nothing
//! else to do and beside busy ones.

use super::child::Holder;
use super::measure::masters;
use super::plot::number;
use super::rate::{Order, Seen};
use super::sheet::Sheet;
use super::sweeps::Pace;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// The name of the sheet.
pub const NAME: &str = "hung-rate";
/// How many loops keep processors busy.
const LOOPS: usize = 4;
/// Growth of memory shows only in a run of at least so many seconds: after 30 s, releases are left to their ttl.
const SHOWS_GROWTH: u64 = 60;
/// How much memory may grow from the second quarter of the run to the last: by a fifth, and by this.
const GROWTH: u64 = 8 << 20;
/// How much the number of threads may grow.
const MORE_THREADS: u64 = 8;
/// The threads of a client by default, beside those at full rate: 256 that renew, and a few that do the rest.
const MOST_THREADS: u64 = 256 + 32;
/// Fewer cycles per second are no load.
const LEAST_RATE: f64 = 50.0;

/// One row to be.
#[derive(Clone, Copy, Debug)]
struct Cell {
    order: Order,
    /// Processes that do nothing but keep a processor busy.
    loops: usize,
    /// The longest that an acquire may take.
    longest: Duration,
}

/// One row.
struct Row {
    cell: Cell,
    seen: Seen,
    /// The load average before it.
    load: f64,
}

fn cells(pace: Pace, span: Option<Duration>) -> [Cell; 2] {
    let seconds = span.map_or(if pace.quick { 10 } else { 60 }, |span| span.as_secs());
    // The quick form runs on machines that may do other work meanwhile.
    let (held, threads, idle, busy) = if pace.quick { (200, 4, 3_000, 3_000) } else { (1_000, 8, 100, 1_000) };
    let cell = |loops, longest| {
        let order = Order { held, threads, seconds };
        Cell { order, loops, longest: Duration::from_millis(longest) }
    };
    [cell(0, idle), cell(LOOPS, busy)]
}

/// Runs both.
///
/// # Errors
///
/// If a master, a loop or the process that holds the locks cannot be started, or ends too soon.
pub fn hung_rate(pace: Pace, span: Option<Duration>, here: &Path) -> io::Result<Sheet> {
    let rows = cells(pace, span).into_iter().map(|cell| run(cell, here)).collect::<io::Result<Vec<_>>>()?;
    Ok(sheet(&rows))
}

/// Processes that keep processors busy. Dropping this ends them, and they also end with this process.
struct Loops(Vec<Child>);

impl Loops {
    fn start(here: &Path, count: usize) -> io::Result<Loops> {
        let mut loops = Loops(Vec::new());
        for _ in 0..count {
            let spin = Command::new(here).args(["scale", "--spin"]).stdin(Stdio::piped()).spawn()?;
            loops.0.push(spin);
        }
        Ok(loops)
    }
}

impl Drop for Loops {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Keeps a processor busy until the standard input ends.
pub fn spin() -> ! {
    thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        std::hint::spin_loop();
    }
}

fn run(cell: Cell, here: &Path) -> io::Result<Row> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    let deployment = masters(3)?;
    let args = ["--rate", &cell.order.to_string(), "--nodes", &deployment.urls().join(",")];
    let mut holder = Holder::start(here, &args)?;
    let loops = Loops::start(here, cell.loops)?;
    deployment[2].pause()?;
    holder.go_on()?;
    let seen: Seen = holder.seen()?;
    drop(loops);
    deployment[2].resume()?;
    holder.release()?;
    eprintln!("{NAME}: {}, {} loops: {seen:?}", cell.order, cell.loops);
    Ok(Row { cell, seen, load })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1048576.0
}

impl Row {
    fn beside(&self) -> String {
        match self.cell.loops {
            0 => "nothing".into(),
            loops => format!("{loops} busy loops"),
        }
    }

    /// Whether the run was long enough to show growth.
    fn shows_growth(&self) -> bool {
        self.cell.order.seconds >= SHOWS_GROWTH
    }

    fn problems(&self) -> Vec<String> {
        let Row { cell, seen, .. } = self;
        let mut found = Vec::new();
        if seen.lost > 0 {
            found.push(format!("{} of {} held locks were lost ({:?})", seen.lost, cell.order.held, seen.reasons));
        }
        if seen.late > 0 {
            found.push(format!("{} losses were announced after the deadline", seen.late));
        }
        if seen.unannounced > 0 {
            found.push(format!("{} losses were never announced", seen.unannounced));
        }
        if seen.longest_ms > cell.longest.as_secs_f64() * 1e3 {
            found.push(format!(
                "an acquire of a free lock took {:.0} ms ({:.1} s after the start), more than {:.0}",
                seen.longest_ms,
                seen.longest_at,
                cell.longest.as_secs_f64() * 1e3
            ));
        }
        if let Some(error) = seen.messages.first() {
            found.push(format!("{} acquires of a free lock failed, the first with: {error}", seen.errors));
        }
        let ([before, after], [fewer, more]) = (seen.memory, seen.threads);
        if self.shows_growth() && after > before + before / 5 + GROWTH {
            found.push(format!(
                "memory grew from {:.0} MiB in the second quarter to {:.0} in the last",
                mib(before),
                mib(after)
            ));
        }
        if self.shows_growth() && more > fewer + MORE_THREADS {
            found.push(format!("threads grew from {fewer} in the second quarter to {more} in the last"));
        }
        if more > MOST_THREADS + cell.order.threads as u64 {
            found.push(format!("{more} threads, more than a client starts by default"));
        }
        let rate = seen.cycles_per_second[0].min(seen.cycles_per_second[1]);
        if found.is_empty() && rate < LEAST_RATE {
            found.push(format!("it proves nothing: only {rate:.0} cycles per second"));
        }
        let what = format!(
            "{} held, {} threads at full rate, a master hangs, beside {}",
            cell.order.held,
            cell.order.threads,
            self.beside()
        );
        found.into_iter().map(|problem| format!("{what}: {problem}")).collect()
    }

    fn cells(&self) -> Vec<String> {
        let Row { cell, seen, load } = self;
        let pair = |[a, b]: [f64; 2]| format!("{}, {}", number(a), number(b));
        vec![
            self.beside(),
            number(cell.order.held as f64),
            cell.order.threads.to_string(),
            cell.order.seconds.to_string(),
            seen.lost.to_string(),
            (seen.late + seen.unannounced).to_string(),
            number(seen.least_ms.round() / 1e3),
            number(seen.renewal_latest_ms),
            number(seen.cycles_per_second[0]),
            number(seen.cycles_per_second[1]),
            number(seen.p99_ms),
            number(seen.longest_ms),
            pair(seen.memory.map(|bytes| mib(bytes).round())),
            pair(seen.threads.map(|n| n as f64)),
            number(*load),
        ]
    }
}

fn sheet(rows: &[Row]) -> Sheet {
    Sheet {
        name: NAME,
        columns: vec![
            "beside",
            "held, ttl 3 s",
            "threads at full rate",
            "seconds",
            "lost",
            "losses announced late or never",
            "least time to spare (s)",
            "latest renewal (ms)",
            "locks/s, release awaited",
            "locks/s, guard dropped",
            "acquire p99 (ms)",
            "longest acquire (ms)",
            "memory (MiB), second and last quarter",
            "threads, second and last quarter",
            "load average before",
        ],
        rows: rows.iter().map(Row::cells).collect(),
        problems: rows.iter().flat_map(Row::problems).collect(),
        ..Sheet::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(change: impl FnOnce(&mut Seen)) -> Row {
        let mut seen = Seen {
            least_ms: 1_900.0,
            cycles_per_second: [9_000.0, 12_000.0],
            longest_ms: 40.0,
            memory: [50 << 20, 60 << 20],
            threads: [20, 20],
            ..Seen::default()
        };
        change(&mut seen);
        let cell = cells(Pace { quick: false }, None)[0];
        Row { cell, seen, load: 0.1 }
    }

    #[test]
    fn what_did_not_hold_is_a_problem() {
        assert_eq!(sheet(&[row(|_| {})]).problems, Vec::<String>::new());
        type Change = fn(&mut Seen);
        let wrongs: [(Change, &str); 9] = [
            (|s| s.lost = 1, "1 of 1000 held locks"),
            (|s| s.late = 1, "after the deadline"),
            (|s| s.unannounced = 1, "never announced"),
            (|s| s.longest_ms = 101.0, "took 101 ms"),
            (|s| s.messages = vec!["no quorum".into()], "no quorum"),
            (|s| s.memory[1] = 69 << 20, "memory grew"),
            (|s| s.threads[1] = 29, "threads grew"),
            (|s| s.threads = [1_014; 2], "1014 threads"),
            (|s| s.cycles_per_second[0] = 1.0, "proves nothing"),
        ];
        for (wrong, words) in wrongs {
            let problems = sheet(&[row(wrong)]).problems;
            assert!(problems.len() == 1 && problems[0].contains(words), "{words}: {problems:?}");
        }
    }

    #[test]
    fn a_short_run_says_nothing_about_growth() {
        let mut short = row(|seen| seen.memory[1] = 500 << 20);
        short.cell.order.seconds = 10;
        assert_eq!(short.problems(), Vec::<String>::new());
        assert_eq!(short.cells().len(), sheet(&[short]).columns.len());
    }
}
