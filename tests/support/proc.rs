//! What the kernel knows of this process. Linux only; elsewhere the tests that need it say so and return.

use std::fs;

/// Whether these readings can be had; says so loudly if not.
pub fn readable() -> bool {
    let there = fs::metadata("/proc/self/task").is_ok();
    if !there {
        super::skip("no /proc on this system");
    }
    there
}

/// The names of the threads of this process that the library started. The kernel keeps 15 bytes of a name.
pub fn our_threads() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir("/proc/self/task")
        .unwrap()
        .flatten()
        // A thread may end between the listing and the reading.
        .filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok())
        .map(|name| name.trim_end().to_string())
        .filter(|name| name.starts_with("redleash-"))
        .collect();
    names.sort();
    names
}

pub fn watchdogs() -> usize {
    our_threads().iter().filter(|name| name.starts_with("redleash-watch")).count()
}

pub fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Open descriptors. The listing itself is one of them.
pub fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count() - 1
}

/// A line of /proc/self/status in KiB: `VmRSS` (now) or `VmHWM` (the most there ever was).
pub fn kib(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with(&format!("{field}:"))).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Bytes that have arrived from this port of loopback and that nobody has read yet, over all connections.
pub fn unread_from(port: u16) -> u64 {
    let remote = format!("0100007F:{port:04X}");
    let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(2).is_some_and(|r| *r == remote))
        .filter_map(|row| u64::from_str_radix(row.get(4)?.split(':').nth(1)?, 16).ok())
        .sum()
}
