//! One quantity grows: masters, threads, names, the way to the masters.

use super::measure::{Load, builder, failed, joined, load, masters, percentile, settle, usage, used_memory};
use super::plot::{Axis, Plot, Series, number};
use super::sheet::Sheet;
use crate::nemesis::proxy::{Link, Proxy};
use redleash::{Client, Error, Options};
use redleash_testkit::{Masters, Server};
use std::io;
use std::thread;
use std::time::Duration;

/// How long a client may take to end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How many threads put load on the masters, where the number of threads does not grow.
const THREADS: usize = 8;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Only check whether everything works.
    pub quick: bool,
}

impl Pace {
    fn span(self) -> Duration {
        if self.quick { Duration::from_millis(100) } else { Duration::from_secs(2) }
    }

    fn of<T: Clone>(self, quick: &[T], full: &[T]) -> Vec<T> {
        if self.quick { quick.to_vec() } else { full.to_vec() }
    }
}

fn axis(label: &'static str, log: bool) -> Axis {
    Axis { label, log }
}

fn series(label: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
    Series { label: label.into(), points }
}

/// Load without contention: each thread has a lock of its own.
fn own_locks(client: &Client, threads: usize, span: Duration) -> io::Result<Load> {
    load(threads, span, |thread, _| client.lock(&format!("own/{thread}")))
}

/// From 1 to 9 masters.
///
/// # Errors
///
/// If a master or a lock fails.
pub fn by_masters(pace: Pace) -> io::Result<Sheet> {
    let counts = pace.of(&[1, 3], &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let deployment = Masters::start(counts.iter().copied().max().unwrap_or(1))?;
    let mut sheet = Sheet {
        name: "masters",
        columns: vec![
            "masters",
            "quorum",
            "acquire p50 (µs)",
            "p99 (µs)",
            "locks/s, 1 thread",
            "locks/s, 8 threads",
            "client CPU per lock (µs)",
            "CPU of a master per lock (µs)",
        ],
        ..Sheet::default()
    };
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for n in counts {
        settle(&deployment[..n])?;
        let client = builder(deployment[..n].iter().map(Server::url)).build().map_err(failed)?;
        let one = own_locks(&client, 1, pace.span())?;
        let before = usage(deployment[0].pid())?.cpu;
        let many = own_locks(&client, THREADS, pace.span())?;
        let spent = usage(deployment[0].pid())?.cpu.saturating_sub(before);
        let master_us = spent.as_secs_f64() * 1e6 / many.acquire_us.len().max(1) as f64;
        client.close(CLOSE_TIMEOUT);
        p50.push((n as f64, one.percentile(0.5)));
        p99.push((n as f64, one.percentile(0.99)));
        let cells =
            [one.percentile(0.5), one.percentile(0.99), one.per_second, many.per_second, many.cpu_us, master_us];
        let cells = cells.iter().map(|value| number(*value));
        sheet.rows.push([n.to_string(), (n / 2 + 1).to_string()].into_iter().chain(cells).collect());
        eprintln!("masters: {:?}", sheet.rows.last());
        if n == 3 && master_us > 0.0 {
            let (half, spent) = (number(two_digits(0.5e6 / master_us)), number(master_us));
            sheet.says.push(format!(
                "A master of three spends {spent} µs of CPU on a lock that is acquired and released, so half a core \
                 of each master carries {half} locks per second, from all clients together."
            ));
        }
    }
    sheet.plots.push(Plot {
        name: "masters",
        title: "Acquiring a free lock, by the number of masters",
        x: axis("masters", false),
        y: axis("µs", false),
        series: vec![series("median", p50), series("99th percentile", p99)],
    });
    Ok(sheet)
}

/// From 1 to 64 threads of one client.
///
/// # Errors
///
/// If a master or a lock fails.
pub fn by_threads(pace: Pace) -> io::Result<Sheet> {
    let deployment = masters(3)?;
    let mut sheet = Sheet {
        name: "threads",
        columns: vec![
            "threads",
            "locks/s, a lock each",
            "p99 (µs)",
            "locks/s, one lock for all",
            "wait for it p50 (µs)",
            "p99 (µs)",
        ],
        ..Sheet::default()
    };
    let (mut own, mut shared) = (Vec::new(), Vec::new());
    for threads in pace.of(&[1, 8], &[1, 2, 4, 8, 16, 32, 64]) {
        let client = builder(deployment.urls()).build().map_err(failed)?;
        let each = own_locks(&client, threads, pace.span())?;
        let lock = client.lock("one for all");
        let one = load(threads, pace.span(), |_, _| lock.clone())?;
        client.close(CLOSE_TIMEOUT);
        own.push((threads as f64, each.per_second));
        shared.push((threads as f64, one.per_second));
        let cells = [each.per_second, each.percentile(0.99), one.per_second, one.percentile(0.5), one.percentile(0.99)];
        sheet.rows.push(std::iter::once(threads.to_string()).chain(cells.iter().map(|v| number(*v))).collect());
        eprintln!("threads: {:?}", sheet.rows.last());
    }
    sheet.plots.push(Plot {
        name: "threads",
        title: "Locks per second of one client, three masters",
        x: axis("threads", true),
        y: axis("locks acquired and dropped per second", true),
        series: vec![series("a lock for each thread", own), series("one lock for all threads", shared)],
    });
    Ok(sheet)
}

/// From 10 to 100 000 names.
///
/// # Errors
///
/// If a master or a lock fails.
pub fn by_names(pace: Pace) -> io::Result<Sheet> {
    let deployment = masters(3)?;
    let mut sheet = Sheet {
        name: "names",
        columns: vec![
            "names",
            "locks/s, 8 threads",
            "p99 (µs)",
            "client memory (MiB)",
            "bytes per fenced name on a master",
        ],
        ..Sheet::default()
    };
    let mut rate = Vec::new();
    for names in pace.of(&[10usize, 1_000], &[10, 100, 1_000, 10_000, 100_000]) {
        let client = builder(deployment.urls()).build().map_err(failed)?;
        // Each thread walks through names of its own.
        let part = names.div_ceil(THREADS);
        let name = |thread: usize, i: usize| format!("name/{}", thread * part + i % part);
        let cycle = load(THREADS, pace.span(), |thread, i| client.lock(&name(thread, i)))?;
        let memory = usage(std::process::id())?.rss >> 20;
        let before = used_memory(&deployment[0])?;
        let fenced = |thread: usize| -> Result<(), Error> {
            (0..part).try_for_each(|i| {
                client
                    .lock(&format!("fenced/{}", name(thread, i)))
                    .options(Options::new().fenced(true))
                    .acquire()
                    .map(drop)
            })
        };
        let fenced = &fenced;
        thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS).map(|i| scope.spawn(move || fenced(i))).collect();
            workers.into_iter().map(joined).collect::<Result<Vec<()>, _>>()
        })
        .map_err(failed)?;
        let status = client.status("name/0").map_err(failed)?;
        client.close(CLOSE_TIMEOUT);
        if let Some(silent) = status.masters.iter().find(|m| m.failure.is_some()) {
            sheet.problems.push(format!("names: {} did not answer at the end", silent.master));
        }
        let bytes = used_memory(&deployment[0])?.saturating_sub(before) as f64 / (part * THREADS) as f64;
        rate.push((names as f64, cycle.per_second));
        // With few names, what else the master does outweighs their memory.
        let bytes = if names >= 1_000 { number(bytes) } else { "-".into() };
        let cells = [names as f64, cycle.per_second, cycle.percentile(0.99), memory as f64].map(number);
        sheet.rows.push(cells.into_iter().chain([bytes]).collect());
        eprintln!("names: {:?}", sheet.rows.last());
        settle(&deployment)?;
    }
    sheet.plots.push(Plot {
        name: "names",
        title: "Locks per second by the number of names, 8 threads, three masters",
        x: axis("names", true),
        y: axis("locks acquired and dropped per second", false),
        series: vec![series("8 threads", rate)],
    });
    Ok(sheet)
}

/// Round trips of 0.1, 1 and 10 ms.
///
/// # Errors
///
/// If a master, a proxy or a lock fails.
pub fn by_distance(pace: Pace) -> io::Result<Sheet> {
    let deployment = masters(3)?;
    let proxies = deployment.iter().map(|server| Proxy::start(server.port())).collect::<io::Result<Vec<_>>>()?;
    let mut sheet = Sheet {
        name: "distance",
        columns: vec![
            "delay (ms)",
            "round trip measured (ms)",
            "acquire p50 (ms)",
            "p99 (ms)",
            "locks/s, 1 thread",
            "8 threads",
            "64 threads",
        ],
        ..Sheet::default()
    };
    let counts = pace.of(&[1, 8], &[1, 8, 64]);
    let mut lines = vec![Vec::new(); counts.len()];
    for delay_us in [100, 1_000, 10_000] {
        proxies.iter().for_each(|proxy| proxy.set(Link::slow(Duration::from_micros(delay_us / 2))));
        let client = builder(proxies.iter().map(Proxy::url)).build().map_err(failed)?;
        let round_trip = round_trip(&client)?;
        let loads = counts.iter().map(|n| own_locks(&client, *n, pace.span())).collect::<io::Result<Vec<_>>>()?;
        client.close(CLOSE_TIMEOUT);
        for (line, load) in lines.iter_mut().zip(&loads) {
            line.push((round_trip, load.per_second));
        }
        let one = loads.first().map(|load| [0.5, 0.99].map(|share| load.percentile(share) / 1e3)).unwrap_or_default();
        let head = [delay_us as f64 / 1e3, round_trip, one[0], one[1]].map(number);
        let mut row: Vec<String> = head.into_iter().chain(loads.iter().map(|load| number(load.per_second))).collect();
        row.resize(sheet.columns.len(), "-".into());
        sheet.rows.push(row);
        eprintln!("distance: {:?}", sheet.rows.last());
    }
    let label = |n: &usize| format!("{n} thread{}", if *n == 1 { "" } else { "s" });
    sheet.plots.push(Plot {
        name: "distance",
        title: "Locks per second by the round trip to three masters",
        x: axis("round trip (ms)", true),
        y: axis("locks acquired and dropped per second", true),
        series: counts.iter().zip(lines).map(|(n, line)| series(label(n), line)).collect(),
    });
    Ok(sheet)
}

/// Rounded to two digits.
pub fn two_digits(value: f64) -> f64 {
    let unit = 10f64.powf(value.max(1.0).log10().floor() - 1.0).max(1.0);
    (value / unit).round() * unit
}

/// The median in milliseconds, over all masters.
fn round_trip(client: &Client) -> io::Result<f64> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let status = client.status("distance").map_err(failed)?;
        times.extend(status.masters.iter().filter_map(|m| m.round_trip).map(|d| d.as_secs_f64() * 1e3));
    }
    times.sort_by(f64::total_cmp);
    Ok(percentile(&times, 0.5))
}
