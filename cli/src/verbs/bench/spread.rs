//! The distribution of times, counted in steps of about three per cent, so that its memory does not grow with their
//! number.

use std::time::Duration;

/// Steps per doubling, as a power of two.
const FINE: u32 = 5;
const STEPS: usize = 1 << FINE;

/// Times, counted. The longest is kept exactly, the others to within one step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread {
    counts: Vec<u64>,
    count: u64,
    most: u64,
}

/// One step, or several in a row: times from `from` up to but not including `to`, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bin {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) count: u64,
}

fn slot(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let shift = 63 - nanos.leading_zeros() - FINE;
    ((shift as usize + 1) << FINE) + (nanos >> shift) as usize - STEPS
}

/// The least time of a slot.
fn least(slot: usize) -> u64 {
    if slot < STEPS {
        return slot as u64;
    }
    let wide = ((STEPS + slot % STEPS) as u128) << (slot / STEPS - 1);
    u64::try_from(wide).unwrap_or(u64::MAX)
}

impl Spread {
    pub(crate) fn record(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let slot = slot(nanos);
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.count += 1;
        self.most = self.most.max(nanos);
    }

    pub(crate) fn add(&mut self, other: &Spread) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(ours, theirs)| *ours += theirs);
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_nanos(self.most)
    }

    /// The time that this share of all did not exceed; zero if there are none.
    pub(crate) fn percentile(&self, share: f64) -> Duration {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let nanos = reached.map_or(0, |slot| (least(slot + 1) - 1).min(self.most));
        Duration::from_nanos(nanos)
    }

    /// From the first time to the last, in at most `limit` bins that are equally wide on a logarithmic scale.
    pub(crate) fn bins(&self, limit: usize) -> Vec<Bin> {
        let Some(first) = self.counts.iter().position(|count| *count > 0) else { return Vec::new() };
        let last = self.counts.len() - 1;
        let mut width = STEPS / 4;
        while last / width - first / width >= limit.max(1) {
            width *= 2;
        }
        let bin = |i: usize| {
            let slots = i * width..((i + 1) * width).min(self.counts.len());
            Bin { from: least(i * width), to: least((i + 1) * width), count: self.counts[slots].iter().sum() }
        };
        (first / width..=last / width).map(bin).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Spread, least, slot};
    use std::time::Duration;

    fn of(nanos: impl IntoIterator<Item = u64>) -> Spread {
        let mut spread = Spread::default();
        nanos.into_iter().for_each(|n| spread.record(Duration::from_nanos(n)));
        spread
    }

    #[test]
    fn every_time_is_in_its_slot_and_slots_are_narrow() {
        for nanos in (0..5_000).chain([65_535, 65_536, 1 << 40, u64::MAX]) {
            let (from, to) = (least(slot(nanos)), least(slot(nanos) + 1));
            assert!(from <= nanos && (nanos < to || to == u64::MAX), "{nanos} in {from}..{to}");
            assert!((to - from) as f64 <= 1.0f64.max(nanos as f64 / 31.0), "{nanos} in {from}..{to}");
        }
    }

    #[test]
    fn percentiles_are_right_to_a_step() {
        let spread = of((1..=10_000).map(|i| i * 1_000));
        for (share, exact) in [(0.5, 5_000_000.0), (0.9, 9_000_000.0), (0.99, 9_900_000.0)] {
            let found = spread.percentile(share).as_nanos() as f64;
            assert!((exact..exact * 1.04).contains(&found), "{share}: {found}");
        }
        assert_eq!((spread.percentile(1.0), spread.max()), (spread.max(), Duration::from_millis(10)));
        assert_eq!((spread.count(), Spread::default().percentile(0.5)), (10_000, Duration::ZERO));
    }

    #[test]
    fn bins_hold_everything_and_join() {
        let mut spread = of([90, 100, 1_000, 5_000_000]);
        spread.add(&of([1_000, 7]));
        for limit in [1, 4, 16, 200] {
            let bins = spread.bins(limit);
            assert!(bins.len() <= limit);
            assert_eq!(bins.iter().map(|b| b.count).sum::<u64>(), 6);
            assert!(bins.windows(2).all(|pair| pair[0].to == pair[1].from));
            assert!(bins[0].from <= 7 && bins[bins.len() - 1].to > 5_000_000);
        }
        assert!(Spread::default().bins(5).is_empty());
    }
}
