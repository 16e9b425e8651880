//! What a master sends costs a bounded amount of memory, whatever it is. In a process of its own: every allocation
//! counts.

use crate::support::child::ran_alone;
use peak_alloc::PeakAlloc;
use redleash::unversioned::{LIMITS, Replies};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// The most that was allocated at a time while `bytes` came in reads of `size`, and what stays allocated.
fn cost(bytes: &[u8], size: usize) -> (usize, usize) {
    let mut reader = Replies::default();
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    for piece in bytes.chunks(size) {
        reader.feed(piece, drop);
    }
    (ALLOCATED.peak_usage() - before, ALLOCATED.current_usage() - before)
}

#[test]
fn a_reader_never_takes_more_than_twice_its_limits() {
    if ran_alone() {
        return;
    }
    let (cap, read) = LIMITS;
    let bulk = |len: usize| [format!("${len}\r\n").as_bytes(), &vec![b'x'; len], b"\r\n"].concat();
    let x = vec![b'x'; 4 * cap];
    let streams: Vec<(&str, Vec<u8>)> = vec![
        ("the longest text", bulk(cap - 12)),
        ("the longest text and its like", bulk(cap - 12).repeat(4)),
        ("a text that is too long", bulk(4 * cap)),
        ("texts just below the size of a read", bulk(read - 10).repeat(20)),
        ("a text without an end", [b"$65000\r\n", &x[..64_990]].concat()),
        ("a line without an end", [b"+", &x[..]].concat()),
        ("an error without an end", [b"-ERR ", &x[..]].concat()),
        ("as many numbers as were announced", [&b"*30000\r\n"[..], &b":1\r\n".repeat(30_000)].concat()),
        ("empty lists", [&b"*255\r\n"[..], &b"*0\r\n".repeat(30_000)].concat()),
        ("nulls of a newer protocol", [&b"*30000\r\n"[..], &b"_\r\n".repeat(30_000)].concat()),
        ("lists in lists that announce much", b"*2147483647\r\n:1\r\n".repeat(99)),
        ("lists in lists", b"*1\r\n".repeat(40_000)),
        ("the largest list", [b"*16\r\n".to_vec(), bulk(4_000).repeat(16)].concat().repeat(3)),
        ("small replies", b":1\r\n+OK\r\n$-1\r\n".repeat(20_000)),
        ("attributes of a newer protocol", b"|4096\r\n:1\r\n".repeat(99)),
    ];
    let limit = 2 * (cap + read);
    for (what, bytes) in &streams {
        // The pieces of a slow line are fewer bytes than any header has; those between make the cut fall anywhere.
        for size in [read, read - 1, 4_096, 1_021, 61, 3] {
            let (peak, kept) = cost(bytes, size);
            assert!(peak <= limit, "{what}, {size} at a time: {peak} bytes, the limit is {limit}");
            assert!(kept <= cap + read + 4_096, "{what}, {size} at a time: {kept} bytes are kept");
        }
    }
    // The measure sees what it must.
    let (peak, kept) = cost(&streams[0].1[..cap - 100], read);
    assert!(peak >= cap && kept >= cap - 100, "{peak} {kept}");
    assert_eq!(cost(&bulk(cap - 12), read).1, 0, "nothing is kept of what was read");
}
