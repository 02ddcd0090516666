//! Latency histograms that are fast enough to record every packet.
//!
//! A run may have tens of thousands of classes, and most of them deliver few packets. A histogram of few
//! packets stores only the nonzero counters. With more nonzero counters, it stores an array of all counters.

use silvan_engine::Time;
use silvan_engine::saved::Saved;

/// Number of counters between two powers of two. Latencies of the same counter differ by less than 1 %.
const STEPS: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 7;

/// The longest span that the histogram distinguishes, in nanoseconds.
const LONGEST: u64 = 1 << 44;

/// Number of counters. Their ranges equal those of an `hdrhistogram` with two significant digits.
const COUNTERS: usize = index(LONGEST) + 1;

/// Largest number of nonzero counters that a histogram stores without the others. They take about 5 % of the
/// memory of all counters.
const MOST_SPARSE: usize = 120;

/// A histogram of latencies in nanoseconds, with an exact mean.
#[derive(Debug, Default, Saved)]
pub(crate) struct Latency {
    /// All counters; empty while few of them are nonzero.
    #[saved(count)]
    counts: Box<[u64]>,
    /// The nonzero counters with their indexes, in ascending order. Empty if `counts` is not.
    #[saved(count)]
    few: Vec<(u16, u64)>,
    #[saved(count)]
    sum_ps: u128,
    #[saved(most)]
    pub max_ps: u64,
}

/// The range of latencies of one counter, in nanoseconds, and the number of recorded latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bin {
    pub lower: u64,
    /// The longest span of the counter.
    pub upper: u64,
    pub count: u64,
}

/// The counter of a span that is not longer than [`LONGEST`].
#[inline]
const fn index(span_ns: u64) -> usize {
    let range = (span_ns | STEPS as u64).ilog2() - STEP_BITS;
    range as usize * STEPS + (span_ns >> range) as usize
}

/// The shortest and the longest span of a counter.
fn spans(index: usize) -> (u64, u64) {
    let range = (index / STEPS).saturating_sub(1);
    let lower = ((index - range * STEPS) as u64) << range;
    (lower, lower + (1 << range) - 1)
}

impl Latency {
    #[inline]
    pub fn record(&mut self, span: Time) {
        let index = index((span.0 / 1_000).clamp(1, LONGEST));
        match self.counts.get_mut(index) {
            Some(count) => *count += 1,
            None => self.count_few(index, 1),
        }
        self.sum_ps += u128::from(span.0);
        self.max_ps = self.max_ps.max(span.0);
    }

    /// Adds to a counter while few counters are nonzero. If there are too many, changes to an array of all
    /// counters.
    #[inline(never)]
    fn count_few(&mut self, index: usize, count: u64) {
        match self.few.binary_search_by_key(&index, |&(index, _)| index.into()) {
            Ok(at) => self.few[at].1 += count,
            Err(_) if self.few.len() >= MOST_SPARSE => {
                self.counts = vec![0; COUNTERS].into();
                for (index, count) in std::mem::take(&mut self.few) {
                    self.counts[usize::from(index)] = count;
                }
                self.counts[index] = count;
            }
            Err(at) => self.few.insert(at, (index as u16, count)),
        }
    }

    pub fn add(&mut self, other: &Self) {
        for (index, count) in other.counted() {
            match self.counts.get_mut(index) {
                Some(sum) => *sum += count,
                None => self.count_few(index, count),
            }
        }
        self.sum_ps += other.sum_ps;
        self.max_ps = self.max_ps.max(other.max_ps);
    }

    /// The nonzero counters with their indexes, in ascending order.
    fn counted(&self) -> impl Iterator<Item = (usize, u64)> {
        let few = self.few.iter().map(|&(index, count)| (usize::from(index), count));
        let all = self.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0);
        few.chain(all)
    }

    /// The nonzero counters, starting with the shortest spans.
    pub fn bins(&self) -> impl Iterator<Item = Bin> {
        self.counted().map(|(index, count)| {
            let (lower, upper) = spans(index);
            Bin { lower, upper, count }
        })
    }

    /// Number of recorded spans.
    pub fn count(&self) -> u64 {
        self.counted().map(|(_, count)| count).sum()
    }

    /// A quantile in nanoseconds with an error of at most 1 %, not larger than the maximum; zero if nothing
    /// was recorded.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        let wanted = (quantile * self.count() as f64).ceil().max(1.0) as u64;
        let mut sum = 0;
        let bin = self.bins().find(|bin| {
            sum += bin.count;
            sum >= wanted
        });
        bin.map_or(0, |bin| bin.upper.min(self.max_ps / 1_000))
    }

    /// Mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ps as f64 / self.count().max(1) as f64 / 1_000.0
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    use super::*;

    /// Spans of all lengths in the range of the histogram, in picoseconds.
    fn span() -> impl Strategy<Value = u64> {
        (0u32..53, any::<u64>()).prop_map(|(shift, bits)| bits >> (63 - shift))
    }

    #[test]
    fn spans_that_are_too_long_are_counted_as_the_longest() {
        let mut latency = Latency::default();
        [LONGEST * 1_000, LONGEST * 1_010, u64::MAX].into_iter().for_each(|span| latency.record(Time(span)));
        let bins: Vec<_> = latency.bins().map(|bin| (bin.lower, bin.count)).collect();
        assert_eq!(bins, [(LONGEST, 3)]);
        assert_eq!(latency.quantile_ns(0.5), spans(COUNTERS - 1).1);
    }

    #[test]
    fn few_and_many_counters_add_up_alike() {
        let of = |spans: std::ops::Range<u64>| {
            let mut latency = Latency::default();
            spans.for_each(|span| latency.record(Time(1_000 * span)));
            latency
        };
        assert!(of(1..50).counts.is_empty() && !of(1..200).counts.is_empty());
        for (own, other) in [(1..50, 20..60), (1..50, 1..200), (1..200, 1..50), (1..100, 100..150)] {
            let (mut sum, other) = (of(own.clone()), other);
            sum.add(&of(other.clone()));
            let mut expected = of(own);
            other.for_each(|span| expected.record(Time(1_000 * span)));
            assert_eq!(sum.bins().collect::<Vec<_>>(), expected.bins().collect::<Vec<_>>());
            assert_eq!((sum.count(), sum.mean_ns()), (expected.count(), expected.mean_ns()));
        }
    }

    proptest! {
        #[test]
        fn bins_and_quantiles_are_those_of_an_hdr_histogram(spans in prop::collection::vec(span(), 0..400)) {
            let mut latency = Latency::default();
            let mut histogram = Histogram::<u64>::new_with_bounds(1, 1 << 44, 2).unwrap();
            for &span in &spans {
                latency.record(Time(span));
                histogram.saturating_record((span / 1_000).max(1));
            }
            let bins: Vec<Bin> = histogram
                .iter_recorded()
                .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
                .map(|(value, count)| Bin {
                    lower: histogram.lowest_equivalent(value),
                    upper: histogram.highest_equivalent(value),
                    count,
                })
                .collect();
            prop_assert_eq!(latency.bins().collect::<Vec<_>>(), bins);
            prop_assert_eq!(latency.count(), histogram.len());
            let longest = spans.iter().max().map_or(0, |span| span / 1_000);
            for quantile in [0.001, 0.5, 0.99, 1.0] {
                let expected = histogram.value_at_quantile(quantile).min(longest);
                prop_assert_eq!(latency.quantile_ns(quantile), expected);
            }
            let sum: u128 = spans.iter().map(|&span| u128::from(span)).sum();
            prop_assert_eq!(latency.mean_ns(), sum as f64 / spans.len().max(1) as f64 / 1_000.0);
        }
    }
}
