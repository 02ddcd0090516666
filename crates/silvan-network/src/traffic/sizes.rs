//! Distributions of message sizes, published or read from files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use silvan_engine::random::Stream;

/// The distribution of the sizes of messages. Between two points of a distribution, sizes are uniformly distributed, as in
/// the traffic generators of the simulators that publish them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sizes {
    /// Web search: Alizadeh et al., Data center TCP (SIGCOMM 2010), as in the simulator of HPCC. Mean 1.71 MB.
    WebSearch,
    /// Data mining: Greenberg et al., VL2 (SIGCOMM 2009), as in the simulator of `ConWeave`. Mean 7.49 MB.
    DataMining,
    /// Hadoop: Roy et al., Inside the social network's (datacenter) network (SIGCOMM 2015), as in the simulator of HPCC. Mean
    /// 120 kB.
    Hadoop,
    /// Storage of Alibaba in 2019, as in the simulator of HPCC (Li et al., SIGCOMM 2019). Mean 41 kB.
    Storage,
    /// Remote procedure calls of Google in 2008 (Montazeri et al., Homa, SIGCOMM 2018), as in the simulator of HPCC. Mean
    /// 2.9 kB.
    Rpc,
    /// Read from a file: lines with a size in bytes and the share of messages of at most this size, from 0 to 1 or from 0 to
    /// 100, in ascending order.
    File {
        /// The file. The name is relative to the scenario.
        file: String,
    },
}

/// Points of a distribution: size in bytes, and percentage of messages of at most this size.
type Published = &'static [(u32, f64)];

const WEB_SEARCH: Published = &[
    (0, 0.0),
    (10_000, 15.0),
    (20_000, 20.0),
    (30_000, 30.0),
    (50_000, 40.0),
    (80_000, 53.0),
    (200_000, 60.0),
    (1_000_000, 70.0),
    (2_000_000, 80.0),
    (5_000_000, 90.0),
    (10_000_000, 97.0),
    (30_000_000, 100.0),
];

const DATA_MINING: Published = &[
    (100, 0.0),
    (10_000, 80.0),
    (152_522, 83.46),
    (390_541, 90.0),
    (3_223_542, 95.3846),
    (100_000_000, 99.0),
    (1_000_000_000, 100.0),
];

const HADOOP: Published = &[
    (0, 0.0),
    (100, 1.0),
    (200, 2.0),
    (300, 5.0),
    (350, 15.0),
    (400, 20.0),
    (500, 30.0),
    (600, 40.0),
    (700, 50.0),
    (1_000, 60.0),
    (2_000, 67.0),
    (7_000, 70.0),
    (30_000, 72.0),
    (50_000, 82.0),
    (80_000, 87.0),
    (120_000, 90.0),
    (300_000, 95.0),
    (1_000_000, 97.5),
    (2_000_000, 99.0),
    (10_000_000, 100.0),
];

const STORAGE: Published = &[
    (0, 0.0),
    (4_000, 22.93),
    (8_000, 69.21),
    (16_000, 80.61),
    (32_000, 90.47),
    (64_000, 93.53),
    (128_000, 96.77),
    (256_000, 97.53),
    (2_000_000, 100.0),
];

/// The points of HPCC's simulator: a size, the percentage of messages up to it, and the number of points from the previous
/// size to this one. Between the two, the percentage is a linear function of the reciprocal of the size.
const RPC: &[(u32, f64, u32)] = &[
    (0, 0.0, 1),
    (3, 6.488_26, 1),
    (32, 9.732_39, 1),
    (64, 15.527_1, 5),
    (128, 35.157_3, 6),
    (256, 49.790_1, 8),
    (512, 78.492_1, 11),
    (1_024, 86.32, 14),
    (2_048, 90.886_2, 18),
    (4_096, 93.495_5, 24),
    (8_192, 96.430_9, 31),
    (16_384, 98.469_4, 41),
    (32_768, 99.040_2, 53),
    (65_536, 99.325_6, 69),
    (131_072, 99.712_9, 90),
    (262_144, 99.845_3, 118),
    (524_288, 99.949_8, 153),
    (15_158_197, 100.0, 199),
];

/// The points of [`RPC`] one by one.
fn rpc() -> Vec<(u32, f64)> {
    let mut points = vec![(0, 0.0)];
    for ends in RPC.windows(2) {
        let [(from, before, _), (to, after, count)] = [ends[0], ends[1]];
        points.extend((1..=count).map(|number| {
            let share = f64::from(number) / f64::from(count);
            let size = if number == count {
                f64::from(to)
            } else {
                f64::from(from) / (1.0 - share * (1.0 - f64::from(from) / f64::from(to)))
            };
            (size.round() as u32, before + share * (after - before))
        }));
    }
    points
}

/// The unit of cumulative shares: random numbers have 32 bits.
const ONE: u64 = 1 << 32;

/// A cumulative distribution of sizes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cdf {
    /// Sizes in bytes, and the numbers below which random numbers of 32 bits give at most these sizes. Both ascend, and the
    /// last number is 2^32.
    points: Vec<(u32, u64)>,
}

impl Cdf {
    /// Creates a distribution from points: sizes in bytes, and percentages of messages of at most these
    /// sizes.
    ///
    /// # Errors
    /// The index of a wrong point and the reason, if there is no point, if sizes or shares descend, if a
    /// share is not between 0 and 100, if the last share is not 100, or if the largest size is 0.
    pub fn new(points: &[(u32, f64)]) -> Result<Self, (usize, String)> {
        for (at, pair) in points.windows(2).enumerate() {
            let [(size, share), (next_size, next_share)] = pair else { continue };
            if next_size < size || next_share < share {
                let what = format!(
                    "{next_size} bytes with a share of {next_share} follow {size} bytes with {share}; both must ascend"
                );
                return Err((at + 1, what));
            }
        }
        let Some((at, &(largest, last))) = points.iter().enumerate().next_back() else {
            return Err((0, "has no points".to_owned()));
        };
        let is_whole = last == 100.0;
        if !is_whole || points.iter().any(|(_, share)| !(0.0..=100.0).contains(share)) {
            return Err((at, format!("the last share is {last}; must be 1 or 100, for all messages")));
        }
        if largest == 0 {
            return Err((at, "the largest size is 0 bytes".to_owned()));
        }
        // These floating-point operations have the same results on all machines.
        let number = |share: f64| (share / 100.0 * ONE as f64 + 0.5).floor() as u64;
        Ok(Self { points: points.iter().map(|&(size, share)| (size, number(share))).collect() })
    }

    /// The size of a message, at least one byte.
    pub fn draw(&self, random: &mut Stream) -> u32 {
        let number = u64::from(random.next_u32());
        let after = self.points.partition_point(|&(_, most)| most <= number);
        let (size, most) = self.points[after.min(self.points.len() - 1)];
        let Some(&(least, from)) = after.checked_sub(1).and_then(|before| self.points.get(before)) else {
            return size.max(1);
        };
        let part = u64::from(size - least) * (number - from) / (most - from);
        (least + part as u32).max(1)
    }

    /// The mean size in bytes, rounded, at least 1.
    #[must_use]
    pub fn mean(&self) -> u32 {
        let first = self.points.first().map_or(0, |&(size, most)| 2 * u128::from(size) * u128::from(most));
        let between = self.points.windows(2).map(|pair| match pair {
            [(least, from), (size, most)] => {
                (u128::from(*least) + u128::from(*size)) * u128::from(most - from)
            }
            _ => 0,
        });
        let twice = first + between.sum::<u128>();
        (((twice + u128::from(ONE)) / u128::from(2 * ONE)) as u32).max(1)
    }

    /// The largest size in bytes.
    #[must_use]
    pub fn largest(&self) -> u32 {
        self.points.last().map_or(1, |&(size, _)| size)
    }
}

impl Sizes {
    /// The published distribution; `None` for a file.
    #[must_use]
    pub fn published(&self) -> Option<Cdf> {
        let points = match self {
            Self::WebSearch => WEB_SEARCH,
            Self::DataMining => DATA_MINING,
            Self::Hadoop => HADOOP,
            Self::Storage => STORAGE,
            Self::Rpc => return Cdf::new(&rpc()).ok(),
            Self::File { .. } => return None,
        };
        Cdf::new(points).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_of(cdf: &Cdf) -> f64 {
        let mut random = Stream::new(1, "message sizes", 0);
        let count = 400_000;
        (0..count).map(|_| f64::from(cdf.draw(&mut random))).sum::<f64>() / f64::from(count)
    }

    #[test]
    fn published_distributions_have_their_documented_means() {
        let all = [Sizes::WebSearch, Sizes::DataMining, Sizes::Hadoop, Sizes::Storage, Sizes::Rpc];
        let means: Vec<u32> = all.iter().filter_map(Sizes::published).map(|cdf| cdf.mean()).collect();
        let expected = [1_711_250, 7_487_884, 120_421, 40_870, 2_891];
        assert_eq!(means, expected);
    }

    #[test]
    fn the_points_of_remote_procedure_calls_are_the_published_ones() {
        let points = rpc();
        assert_eq!(points.len(), 843);
        // Lines of HPCC's file GoogleRPC2008.txt, whose shares have six digits.
        for (size, percent) in [
            (3, 6.48826),
            (36, 10.8913),
            (96, 28.6139),
            (375, 68.055),
            (956, 85.7608),
            (2_731, 92.1908),
            (33_007, 99.0443),
            (263_003, 99.846),
            (1_047_917, 99.9758),
            (13_293_619, 99.9997),
        ] {
            let found = points.iter().find(|point| point.0 == size);
            assert!(found.is_some_and(|(_, share)| (share - percent).abs() < 1e-4), "{size}: {found:?}");
        }
    }

    #[test]
    fn drawn_sizes_have_the_mean_and_the_shares_of_their_distribution() {
        for sizes in [Sizes::WebSearch, Sizes::Hadoop, Sizes::Storage] {
            let Some(cdf) = sizes.published() else { panic!("published") };
            let (drawn, mean) = (mean_of(&cdf), f64::from(cdf.mean()));
            assert!((drawn / mean - 1.0).abs() < 0.015, "{sizes:?}: {drawn}, not {mean}");
        }
        let Some(cdf) = Sizes::WebSearch.published() else { panic!("published") };
        let mut random = Stream::new(2, "message sizes", 0);
        let drawn: Vec<u32> = (0..100_000).map(|_| cdf.draw(&mut random)).collect();
        for (size, percent) in [(10_000, 15.0), (80_000, 53.0), (1_000_000, 70.0), (30_000_000, 100.0)] {
            let share = drawn.iter().filter(|&&one| one <= size).count() as f64 / 1_000.0;
            assert!((share - percent).abs() < 0.5, "{share} % up to {size} bytes");
        }
    }

    #[test]
    fn steps_and_first_points_are_sizes_of_their_own() {
        // As in the files of ConWeave: 15 % have exactly 9000 bytes.
        let cdf = Cdf::new(&[(9_000, 0.0), (9_000, 15.0), (18_582, 100.0)]);
        let Ok(cdf) = cdf else { panic!("{cdf:?}") };
        let mut random = Stream::new(1, "message sizes", 0);
        let drawn: Vec<u32> = (0..20_000).map(|_| cdf.draw(&mut random)).collect();
        let smallest = drawn.iter().filter(|&&size| size == 9_000).count();
        assert!(
            (2_800..3_200).contains(&smallest) && drawn.iter().all(|size| (9_000..18_582).contains(size))
        );
        let Ok(fixed) = Cdf::new(&[(700, 100.0)]) else { panic!("one size") };
        assert_eq!((fixed.draw(&mut random), fixed.mean(), fixed.largest()), (700, 700, 700));
    }

    #[test]
    fn wrong_points_are_named() {
        let what = |points: &[(u32, f64)]| Cdf::new(points).err();
        assert_eq!(what(&[]).map(|(at, _)| at), Some(0));
        assert_eq!(what(&[(10, 0.0), (5, 100.0)]).map(|(at, _)| at), Some(1));
        assert_eq!(what(&[(10, 50.0), (20, 40.0), (30, 100.0)]).map(|(at, _)| at), Some(1));
        assert_eq!(what(&[(10, 0.0), (20, 99.0)]).map(|(at, _)| at), Some(1));
        assert_eq!(what(&[(0, 100.0)]).map(|(at, _)| at), Some(0));
    }
}
