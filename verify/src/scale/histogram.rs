//! Times in buckets that are 9 % wide, so that a long run takes no more memory than a short one.

use std::time::Duration;

/// See the module.
#[derive(Clone)]
pub(super) struct Histogram(Vec<u64>);

/// Buckets for each doubling.
const FINE: f64 = 8.0;

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram(vec![0; 320])
    }

    pub(super) fn add(&mut self, time: Duration) {
        let bucket = ((time.as_nanos().max(1) as f64).log2() * FINE) as usize;
        let last = self.0.len() - 1;
        self.0[bucket.min(last)] += 1;
    }

    pub(super) fn join(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, n)| *sum += n);
    }

    /// The upper end in milliseconds of the bucket in which this share of all is reached.
    pub(super) fn percentile(&self, share: f64) -> f64 {
        let wanted = (self.0.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut sum = 0;
        let found = self.0.iter().position(|n| {
            sum += n;
            sum >= wanted.max(1)
        });
        found.map_or(0.0, |bucket| ((bucket + 1) as f64 / FINE).exp2() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::Histogram;
    use std::time::Duration;

    #[test]
    fn percentiles_are_right_to_ten_per_cent() {
        let mut times = Histogram::new();
        assert_eq!(times.percentile(0.99), 0.0);
        (1..=1_000).for_each(|us| times.add(Duration::from_micros(us)));
        for (share, ms) in [(0.5, 0.5), (0.99, 0.99), (1.0, 1.0)] {
            let found = times.percentile(share);
            assert!(found >= ms && found <= ms * 1.1, "{share}: {found}");
        }
    }
}
