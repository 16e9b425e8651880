//! From 100 to 20 000 locks held, by both watchdogs, and with a master that hangs.

use super::child::Holder;
use super::holder::{Order, Seen};
use super::measure::{joined, masters, usage, used_memory};
use super::plot::{Axis, Plot, Series, number};
use super::sheet::Sheet;
use super::sweeps::{Pace, two_digits};
use redleash_testkit::{Server, wait_until};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often a lock of the default ttl is renewed, in seconds: a third of 30 s.
const PERIOD: f64 = 10.0;

/// One row to be.
#[derive(Clone, Copy, Debug)]
struct Cell {
    order: Order,
    /// A master is stopped for as long as the locks are renewed.
    hung: bool,
}

/// One row.
struct Row {
    cell: Cell,
    seen: Seen,
    /// CPU of the busiest master, in microseconds.
    master_us: f64,
    /// Memory of a master for each lock, in bytes.
    master_bytes: f64,
    /// Keys that were left after all locks were released.
    left: i64,
}

fn cells(pace: Pace) -> Vec<Cell> {
    let cell = |shared, count, ttl_ms, renewals, hung| Cell { order: Order { shared, count, ttl_ms, renewals }, hung };
    if pace.quick {
        return vec![
            cell(false, 100, 3_000, 3, false),
            cell(true, 300, 3_000, 3, false),
            cell(true, 300, 3_000, 3, true),
        ];
    }
    vec![
        cell(false, 100, 9_000, 3, false),
        cell(false, 1_000, 9_000, 3, false),
        // About as many as a client starts threads for.
        cell(false, 4_000, 9_000, 3, false),
        // Many locks are renewed one by one: with a ttl of 9 s that would be more than some machines can do.
        cell(false, 20_000, 30_000, 2, false),
        cell(true, 100, 9_000, 3, false),
        cell(true, 1_000, 9_000, 3, false),
        cell(true, 5_000, 9_000, 3, false),
        cell(true, 20_000, 9_000, 10, false),
        cell(true, 20_000, 9_000, 10, true),
    ]
}

/// Measures all rows.
///
/// # Errors
///
/// If a master or a holder cannot be started, or ends too soon.
pub fn by_held(pace: Pace, here: &Path) -> io::Result<Sheet> {
    let cells = cells(pace);
    // The numbers of a quick look do not matter, so all run side by side.
    let rows: Vec<Row> = if pace.quick {
        thread::scope(|scope| {
            let rows: Vec<_> = cells.into_iter().map(|cell| scope.spawn(move || run(cell, here))).collect();
            rows.into_iter().map(joined).collect::<io::Result<_>>()
        })?
    } else {
        cells.into_iter().map(|cell| run(cell, here)).collect::<io::Result<_>>()?
    };
    Ok(sheet(&rows))
}

fn run(cell: Cell, here: &Path) -> io::Result<Row> {
    let deployment = masters(3)?;
    let memory = used_memory(&deployment[0])?;
    let mut holder =
        Holder::start(here, &["--hold", &cell.order.to_string(), "--nodes", &deployment.urls().join(",")])?;
    let memory = used_memory(&deployment[0])?.saturating_sub(memory);
    let busy = || deployment.iter().map(|server| Ok(usage(server.pid())?.cpu)).collect::<io::Result<Vec<Duration>>>();
    let before = busy()?;
    if cell.hung {
        deployment[2].pause()?;
    }
    holder.go_on()?;
    let seen: Seen = holder.seen()?;
    let spent = busy()?.into_iter().zip(before).map(|(after, before)| after.saturating_sub(before));
    let master_us = spent.max().unwrap_or_default().as_secs_f64() * 1e6;
    if cell.hung {
        deployment[2].resume()?;
    }
    holder.release()?;
    let master_bytes = memory as f64 / cell.order.count as f64;
    let row = Row { cell, seen, master_us, master_bytes, left: left(&deployment, cell.order.ttl_ms)? };
    eprintln!("held: {}{}: {:?}", cell.order, if cell.hung { ", a master hangs" } else { "" }, row.seen);
    Ok(row)
}

/// How many keys the masters have beside their generations, when the keys that could not be deleted have expired.
fn left(deployment: &[Server], ttl_ms: u64) -> io::Result<i64> {
    let mut left = 0;
    let mut failed = None;
    wait_until(Duration::from_millis(ttl_ms) + Duration::from_secs(10), || {
        let sizes: io::Result<Vec<i64>> =
            deployment.iter().map(|s| Ok(s.command(&["DBSIZE"])?.int().unwrap_or(i64::MAX) - 1)).collect();
        match sizes {
            Ok(sizes) => left = sizes.into_iter().max().unwrap_or(0),
            Err(error) => failed = Some(error),
        }
        left <= 0 || failed.is_some()
    });
    failed.map_or(Ok(left), Err)
}

fn mode(shared: bool) -> &'static str {
    if shared { "Shared" } else { "PerLock" }
}

impl Row {
    fn memory_kib(&self) -> f64 {
        self.seen.memory as f64 / 1024.0 / self.cell.order.count as f64
    }

    fn client_us(&self) -> f64 {
        self.seen.cpu_us / self.seen.renewals.max(1) as f64
    }

    fn master_us(&self) -> f64 {
        self.master_us / self.seen.renewals.max(1) as f64
    }

    /// The share of one core in per cent, with the default ttl.
    fn share(&self) -> f64 {
        self.cell.order.count as f64 / PERIOD * self.client_us() / 1e4
    }

    fn problems(&self) -> Vec<String> {
        let Cell { order, hung } = self.cell;
        let what =
            format!("{} held, {}{}", order.count, mode(order.shared), if hung { ", a master hangs" } else { "" });
        let mut problems = Vec::new();
        if self.seen.lost > 0 {
            problems.push(format!("{what}: {} lost", self.seen.lost));
        } else if self.seen.least < order.renewals {
            problems.push(format!("{what}: one was renewed {} times instead of {}", self.seen.least, order.renewals));
        }
        if self.left > 0 {
            problems.push(format!("{what}: {} keys were left", self.left));
        }
        problems
    }

    fn cells(&self) -> Vec<String> {
        let Cell { order, hung } = self.cell;
        vec![
            number(order.count as f64),
            mode(order.shared).into(),
            if hung { "one hangs" } else { "all answer" }.into(),
            number(order.ttl_ms as f64 / 1e3),
            self.seen.least.to_string(),
            self.seen.lost.to_string(),
            number(self.seen.threads as f64),
            number(self.memory_kib()),
            number(self.client_us()),
            number(self.master_us()),
            number(self.share()),
            number(self.master_bytes),
        ]
    }
}

fn sheet(rows: &[Row]) -> Sheet {
    let line = |shared: bool, value: fn(&Row) -> f64| {
        let points = rows.iter().filter(|row| row.cell.order.shared == shared && !row.cell.hung);
        let points = points.map(|row| (row.cell.order.count as f64, value(row))).collect();
        Series { label: format!("WatchdogMode::{}", mode(shared)), points }
    };
    let plot = |name, title, label, value| Plot {
        name,
        title,
        x: Axis { label: "locks held", log: true },
        y: Axis { label, log: true },
        series: vec![line(false, value), line(true, value)],
    };
    Sheet {
        name: "held",
        columns: vec![
            "held",
            "watchdog",
            "masters",
            "ttl (s)",
            "renewals of each",
            "lost",
            "threads",
            "memory per lock (KiB)",
            "client CPU per renewal (µs)",
            "master CPU per renewal (µs)",
            "client CPU at a ttl of 30 s (% of a core)",
            "memory of a master per lock (bytes)",
        ],
        rows: rows.iter().map(Row::cells).collect(),
        plots: vec![
            plot("held-memory", "Memory of a client that holds locks", "MiB", |row| row.seen.memory as f64 / 1048576.0),
            plot("held-cpu", "CPU of renewals, ttl 30 s", "% of one core of the client", Row::share),
        ],
        says: conclusions(rows),
        problems: rows.iter().flat_map(Row::problems).collect(),
    }
}

/// From the row with most locks of each mode; for `PerLock` only rows in which each lock had a thread.
fn conclusions(rows: &[Row]) -> Vec<String> {
    let pure = |row: &&Row| row.cell.order.shared || row.seen.threads > row.cell.order.count as u64;
    let largest = |shared: bool| {
        let of_mode = rows.iter().filter(|row| row.cell.order.shared == shared && !row.cell.hung).filter(pure);
        of_mode.max_by_key(|row| row.cell.order.count)
    };
    let says = |row: &Row| {
        // Half of one second of a core per period of all renewals.
        let half = |us: f64| number(two_digits(PERIOD * 0.5e6 / us.max(0.01)));
        format!(
            "`WatchdogMode::{}`: a held lock costs {} KiB and, every third of its ttl, {} µs of CPU in the client and \
             {} µs on each master. At a ttl of 30 s half a core of the client renews {} locks, and half a core of each \
             master {}.",
            mode(row.cell.order.shared),
            number(row.memory_kib()),
            number(row.client_us()),
            number(row.master_us()),
            half(row.client_us()),
            half(row.master_us())
        )
    };
    [false, true].into_iter().filter_map(largest).map(says).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lost: usize, least: u64, left: i64) -> Row {
        let order = Order { shared: true, count: 1_000, ttl_ms: 9_000, renewals: 10 };
        let seen = Seen { lost, least, renewals: 10_000, cpu_us: 40_000.0, memory: 2 << 20, ..Seen::default() };
        Row { cell: Cell { order, hung: false }, seen, master_us: 20_000.0, master_bytes: 300.0, left }
    }

    #[test]
    fn what_did_not_hold_is_a_problem() {
        assert_eq!(sheet(&[row(0, 10, 0)]).problems, Vec::<String>::new());
        for (bad, word) in [(row(1, 10, 0), "1 lost"), (row(0, 9, 0), "9 times"), (row(0, 10, 2), "2 keys")] {
            let problems = sheet(&[bad]).problems;
            assert!(problems.len() == 1 && problems[0].contains(word), "{problems:?}");
        }
    }

    #[test]
    fn conclusions_follow_from_the_rows() {
        let sheet = sheet(&[row(0, 10, 0)]);
        let says = &sheet.says[0];
        for text in
            ["2.05 KiB", "4 µs of CPU in the client and 2 µs", "renews 1 300 000 locks", "each master 2 500 000"]
        {
            assert!(says.contains(text), "{text} is not in {says}");
        }
        assert_eq!(sheet.rows[0].len(), sheet.columns.len());
    }
}
