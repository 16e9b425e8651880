//! Tests of the protocol. Where a space is small it is enumerated whole; where not, the generator is seeded.

mod acquire;
mod attempt;
mod command;
mod fence;
mod generation;
mod handover;
mod health;
mod init;
mod lease;
mod local_queue;
mod names;
mod owner;
mod quorum;
mod reap;
mod retry;
mod round;
mod validity;
mod waiting;

use super::{Mono, Quorum};
use std::time::Duration;

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The moment `n` milliseconds after a beginning that is not zero, so that saturation at zero does not hide errors.
fn at(n: u64) -> Mono {
    Mono::from_nanos(1_000_000_000_000 + n * 1_000_000)
}

/// Every quorum of up to `max` masters, with every fault margin.
fn quorums(max: usize) -> impl Iterator<Item = Quorum> {
    (1..=max).flat_map(|n| (0..n).filter_map(move |f| Quorum::new(n, f)))
}

/// Random bits that are the same in every run (splitmix64).
struct Seeded(u64);

impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
