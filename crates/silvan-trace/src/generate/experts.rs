//! Which experts a token uses: weights of experts, and expected values of draws without replacement.
//!
//! The experts of a token are drawn independently, by weight, until they differ: a set of experts has a probability that is
//! proportional to the product of their weights. The expected values then are exact: with p(z) = product of (1 + w z) over
//! some experts, the coefficient of z^k is the total weight of all sets of k of them. Only additions, multiplications and
//! divisions are used, so results are the same on all machines.

use silvan_engine::random::ln_q32;

/// Number of experts per token, at most. With the largest Zipf exponent, products of weights are still normal numbers.
pub(super) const MOST_DRAWN: u32 = 32;
/// Largest exponent of Zipf's law.
pub(super) const MOST_ZIPF: f64 = 4.0;

/// The weight of the expert with a given rank in popularity (from 1): `rank` to the power of `-exponent`.
pub(super) fn zipf(rank: u32, exponent: f64) -> f64 {
    const HALVINGS: i32 = 8;
    // The power series of the exponential function, for an argument between -0.18 and 0.
    let ln = ln_q32(u64::from(rank)) as f64 / 4_294_967_296.0;
    let argument = -exponent * ln / f64::from(1 << HALVINGS);
    let series = (1..=12).rev().fold(1.0, |sum, term| 1.0 + argument / f64::from(term) * sum);
    (0..HALVINGS).fold(series, |power, _| power * power)
}

/// A group of experts and the tokens that use them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Popularity {
    /// Share of the tokens that use at least one of the experts.
    pub reached: f64,
    /// Mean number of these experts that a token uses.
    pub used: f64,
}

/// The weights of all sets of 0, 1, 2, ... experts.
type Coefficients = Vec<f64>;

fn product(one: &[f64], other: &[f64], most: usize) -> Coefficients {
    let length = (one.len() + other.len() - 1).min(most + 1);
    let term = |at: usize| {
        let low = (at + 1).saturating_sub(other.len());
        (low..one.len().min(at + 1)).map(|first| one[first] * other[at - first]).sum()
    };
    (0..length).map(term).collect()
}

/// The popularity of each group, if a token uses `drawn` experts; `None` if too few experts have a weight above 0, or if the
/// weights differ so much that their products are not normal numbers.
pub(super) fn popularity(groups: &[Vec<f64>], drawn: usize) -> Option<Vec<Popularity>> {
    let of_group = |weights: &Vec<f64>| {
        weights.iter().fold(vec![1.0], |sets, &weight| product(&sets, &[1.0, weight], drawn))
    };
    let own: Vec<Coefficients> = groups.iter().map(of_group).collect();
    // The experts of all groups after each group, the last group first.
    let mut after = vec![vec![1.0]];
    for sets in own.iter().rev() {
        after.push(product(after.last()?, sets, drawn));
    }
    let all = *after.pop()?.get(drawn)?;
    let mut before = vec![1.0];
    let mut found = Vec::with_capacity(groups.len());
    for sets in &own {
        let others = product(&before, &after.pop()?, drawn);
        let share = |used: usize| {
            let rest = others.get(drawn - used).copied().unwrap_or(0.0);
            sets[used] * rest / all
        };
        let used = (1..sets.len()).map(|used| used as f64 * share(used)).sum();
        found.push(Popularity { reached: (1..sets.len()).map(share).sum(), used });
        before = product(&before, sets, drawn);
    }
    all.is_normal().then_some(found)
}

/// The copies of experts on the ranks of a group: experts, and the share of their copies.
pub(super) type Held = Vec<(usize, f64)>;

/// Distributes copies: one of each expert, and `redundant` more, each for the expert whose copies have the largest weight.
/// Returns the experts of all copies: first one of each expert, then the others.
pub(super) fn copies(weights: &[f64], redundant: u32) -> Vec<usize> {
    let mut counts = vec![1u32; weights.len()];
    let mut all: Vec<usize> = (0..weights.len()).collect();
    for _ in 0..redundant {
        let of_copy = |expert: usize| weights[expert] / f64::from(counts[expert]);
        // Of equal ones, the first.
        let heaviest =
            (0..weights.len()).rev().max_by(|&one, &other| of_copy(one).total_cmp(&of_copy(other)));
        let Some(heaviest) = heaviest else { break };
        counts[heaviest] += 1;
        all.push(heaviest);
    }
    all
}

/// The popularity of groups that hold copies of experts, as [`popularity`]. A token uses each copy of an expert with the same
/// probability.
pub(super) fn popularity_of_copies(
    weights: &[f64],
    groups: &[Held],
    drawn: usize,
) -> Option<Vec<Popularity>> {
    let alone: Vec<Vec<f64>> = weights.iter().map(|&weight| vec![weight]).collect();
    let chosen = popularity(&alone, drawn)?;
    let sets = |weights: &[f64]| {
        let all = weights.iter().fold(vec![1.0], |sets, &weight| product(&sets, &[1.0, weight], drawn));
        all.get(drawn).copied()
    };
    let all = sets(weights)?;
    let of_group = |held: &Held| {
        // The weights of experts whose copies in other groups are used.
        let mut others = weights.to_vec();
        held.iter().for_each(|&(expert, share)| others[expert] *= 1.0 - share);
        let used = held.iter().map(|&(expert, share)| chosen[expert].used * share).sum();
        Some(Popularity { reached: 1.0 - sets(&others).unwrap_or(0.0) / all, used })
    };
    groups.iter().map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_divided_among_copies() {
        // Expert 0 has three copies, two of them in group 1, and expert 2 has two.
        let weights = [5.0, 1.0, 2.0, 0.5];
        let copies_of = [vec![0, 1, 1], vec![0], vec![1, 2], vec![2]];
        let share = |expert: usize, group: usize| {
            let own = copies_of[expert].iter().filter(|&&one| one == group).count();
            own as f64 / copies_of[expert].len() as f64
        };
        let held = |group| (0..4).map(move |expert| (expert, share(expert, group))).filter(|one| one.1 > 0.0);
        let groups: Vec<Held> = (0..3).map(|group| held(group).collect()).collect();
        for drawn in 1..=3u32 {
            let (mut all, mut wanted) = (0.0, [(0.0, 0.0); 3]);
            for set in (0..1u32 << 4).filter(|set| set.count_ones() == drawn) {
                let members = || (0..4).filter(|expert| set >> expert & 1 == 1);
                let weight: f64 = members().map(|expert| weights[expert]).product();
                all += weight;
                for (group, (reached, used)) in wanted.iter_mut().enumerate() {
                    // All choices of copies are equally likely.
                    let missed: f64 = members().map(|expert| 1.0 - share(expert, group)).product();
                    *reached += weight * (1.0 - missed);
                    *used += weight * members().map(|expert| share(expert, group)).sum::<f64>();
                }
            }
            let found = popularity_of_copies(&weights, &groups, drawn as usize).unwrap();
            for (found, (reached, used)) in found.iter().zip(wanted) {
                assert!((found.reached - reached / all).abs() < 1e-12, "{drawn}: {found:?}");
                assert!((found.used - used / all).abs() < 1e-12, "{drawn}: {found:?}");
            }
        }
        // Without further copies, the values are those of groups of experts.
        let groups = [vec![5.0, 1.0], vec![2.0, 0.5]];
        let held = [vec![(0, 1.0), (1, 1.0)], vec![(2, 1.0), (3, 1.0)]];
        let pairs = popularity(&groups, 2).unwrap().into_iter();
        for (one, other) in pairs.zip(popularity_of_copies(&weights, &held, 2).unwrap()) {
            assert!((one.reached - other.reached).abs() < 1e-12 && (one.used - other.used).abs() < 1e-12);
        }
    }

    #[test]
    fn heavy_experts_have_more_copies() {
        assert_eq!(copies(&[6.0, 1.0, 4.0, 3.0], 0), [0, 1, 2, 3]);
        // 6, then 4, then 3 of 6 / 2 and 3: the first one.
        assert_eq!(copies(&[6.0, 1.0, 4.0, 3.0], 4), [0, 1, 2, 3, 0, 2, 0, 3]);
    }

    #[test]
    fn weights_of_zipf_are_powers() {
        for exponent in [0.0, 0.3, 0.5, 1.0, 1.7, MOST_ZIPF] {
            for rank in [1, 2, 3, 10, 255, 65_536] {
                let wanted = f64::from(rank).powf(-exponent);
                assert!((zipf(rank, exponent) / wanted - 1.0).abs() < 2e-8, "{rank} {exponent}");
            }
        }
    }

    #[test]
    fn expected_values_are_those_of_all_sets() {
        let weights = [5.0, 1.0, 0.25, 0.0, 2.0, 0.5, 1.0];
        let groups = [vec![5.0, 1.0, 0.25], vec![0.0], vec![2.0, 0.5], vec![1.0]];
        let number = [0, 0, 0, 1, 2, 2, 3];
        for drawn in 1..=5 {
            let (mut all, mut wanted) = (0.0, [(0.0, 0.0); 4]);
            for set in (0..1u32 << weights.len()).filter(|set| set.count_ones() == drawn) {
                let members = || (0..weights.len()).filter(|expert| set >> expert & 1 == 1);
                let weight: f64 = members().map(|expert| weights[expert]).product();
                all += weight;
                for (group, (reached, used)) in wanted.iter_mut().enumerate() {
                    let count = members().filter(|&expert| number[expert] == group).count();
                    *reached += if count > 0 { weight } else { 0.0 };
                    *used += weight * count as f64;
                }
            }
            let found = popularity(&groups, drawn as usize).unwrap();
            for (found, (reached, used)) in found.iter().zip(wanted) {
                assert!((found.reached - reached / all).abs() < 1e-12, "{drawn}: {found:?}");
                assert!((found.used - used / all).abs() < 1e-12, "{drawn}: {found:?}");
            }
        }
        assert_eq!(popularity(&groups, 7), None, "one of seven experts has no weight");
    }

    #[test]
    fn equal_experts_reach_as_many_hosts_as_draws_without_replacement() {
        for (hosts, wanted) in [(2, 1.9930), (4, 3.6142), (8, 5.2947)] {
            let groups = vec![vec![1.0; 256 / hosts]; hosts];
            let reached: f64 = popularity(&groups, 8).unwrap().iter().map(|one| one.reached).sum();
            assert!((reached - wanted).abs() < 5e-5, "{reached}");
        }
    }
}
