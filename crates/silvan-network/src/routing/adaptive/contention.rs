//! The contention of random permutations (SYSTOR 2009, figure 5). Each host sends at most one flow, and no
//! two flows have the same destination. The contention of a flow is the number of flows on its most loaded
//! link.

use silvan_engine::random::Stream;

use super::cache::FlowKey;
use super::flow_level::{FlowLevel, Hop};
use super::state::AdaptiveFlow;
use crate::routing::RoutingError;

/// Result of one permutation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Contention {
    /// Number of flows. A host that the permutation maps to itself sends no flow.
    pub flows: u32,
    /// Largest number of flows on any link.
    pub maximum: u32,
    /// Sum over all flows of the largest number of flows on a link of their route.
    pub sum: u64,
    /// Sum over all flows of the number of switches crossed.
    pub switches: u64,
}

impl Contention {
    /// Average over all flows of the largest number of flows on a link of their route; 0 without flows.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.flows == 0 { 0.0 } else { self.sum as f64 / f64::from(self.flows) }
    }

    /// Average number of switches crossed by a flow; 0 without flows.
    #[must_use]
    pub fn mean_switches(&self) -> f64 {
        if self.flows == 0 { 0.0 } else { self.switches as f64 / f64::from(self.flows) }
    }
}

/// Random permutations derived from a seed. Permutation `n` depends only on the seed and the number of hosts,
/// so networks with the same number of hosts can be compared permutation by permutation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permutations {
    /// The seed of all permutations.
    pub seed: u64,
}

impl Permutations {
    /// The flows of permutation `number`, in the order in which they are set up. This order is also random.
    #[must_use]
    pub fn flows(self, hosts: u32, number: u64) -> Vec<AdaptiveFlow> {
        let mut destinations: Vec<u32> = (0..hosts).collect();
        Stream::new(self.seed, "permutation", number).shuffle(&mut destinations);
        let flow = |(source, &destination): (u32, &u32)| AdaptiveFlow {
            key: FlowKey { source, destination, connection: 0 },
            bytes: 1,
        };
        let mut flows: Vec<AdaptiveFlow> = (0..).zip(&destinations).map(flow).collect();
        flows.retain(|flow| flow.key.source != flow.key.destination);
        Stream::new(self.seed, "order of set-up", number).shuffle(&mut flows);
        flows
    }

    /// Sets up one permutation on a network, which is cleared first.
    ///
    /// # Errors
    /// Any error of [`FlowLevel::set_up`].
    pub fn contention(self, network: &mut FlowLevel, number: u64) -> Result<Contention, RoutingError> {
        network.clear();
        let flows = self.flows(network.hosts(), number);
        let mut hops: Vec<Hop> = Vec::with_capacity(flows.len() * 8);
        let mut ends = Vec::with_capacity(flows.len());
        for flow in &flows {
            network.set_up(flow, &mut hops)?;
            ends.push(hops.len());
        }
        // Compute the contention last, because flows also share links with flows that are set up later.
        let mut found =
            Contention { flows: flows.len() as u32, switches: hops.len() as u64, ..Contention::default() };
        let mut begin = 0;
        for (flow, end) in flows.iter().zip(ends) {
            let worst = network.contention(flow.key.source, &hops[begin..end]);
            found.maximum = found.maximum.max(worst);
            found.sum += u64::from(worst);
            begin = end;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::heuristic::Heuristic;
    use super::*;
    use crate::topology::modified_tree::ModifiedTree;

    fn averages(width: u32, heuristic: Heuristic, cache: Option<u32>) -> [f64; 2] {
        let topology = ModifiedTree::new(8, 3, width).build().unwrap();
        let mut network = FlowLevel::new(&topology, heuristic, cache).unwrap();
        let drawn = Permutations { seed: 1 };
        let mut sums = [0.0; 2];
        for number in 0..20 {
            let found = drawn.contention(&mut network, number).unwrap();
            sums[0] += f64::from(found.maximum) / 20.0;
            sums[1] += found.mean() / 20.0;
        }
        sums
    }

    #[test]
    fn permutations_have_each_host_once() {
        let drawn = Permutations { seed: 7 };
        let flows = drawn.flows(500, 3);
        let mut sources: Vec<u32> = flows.iter().map(|f| f.key.source).collect();
        let mut destinations: Vec<u32> = flows.iter().map(|f| f.key.destination).collect();
        assert!(!sources.is_sorted(), "set up in random order");
        sources.sort_unstable();
        destinations.sort_unstable();
        assert_eq!(sources, destinations);
        sources.dedup();
        assert!((490..=500).contains(&sources.len()));
        assert_eq!(flows, drawn.flows(500, 3));
        assert_ne!(flows, drawn.flows(500, 4));
        assert_ne!(flows, Permutations { seed: 8 }.flows(500, 3));
    }

    #[test]
    fn adaptivity_needs_horizontal_links() {
        let fixed = averages(0, Heuristic::FlowCount, Some(0));
        assert_eq!(averages(3, Heuristic::FlowCount, Some(0)), fixed, "default ports ignore the rows");
        let [maximum, mean] = averages(0, Heuristic::FlowCount, None);
        let ratios = [maximum / fixed[0], mean / fixed[1]];
        assert!(ratios.iter().all(|ratio| (0.95..1.05).contains(ratio)), "{ratios:?}");
        let [maximum, mean] = averages(2, Heuristic::FlowCount, None);
        assert!(maximum < 0.65 * fixed[0] && mean < 0.85 * fixed[1], "{maximum} {mean} {fixed:?}");
        assert_eq!([maximum, mean], averages(2, Heuristic::Bytes, None), "all flows have the same size");
        let [drawn, _] = averages(2, Heuristic::Random, None);
        assert!(drawn > 1.3 * maximum, "{drawn}");
    }

    #[test]
    fn small_caches_reduce_the_benefit() {
        let means = [Some(0), Some(1), None].map(|cache| averages(2, Heuristic::FlowCount, cache)[1]);
        assert!(means.is_sorted_by(|a, b| a > b), "{means:?}");
    }

    #[test]
    fn contention_is_counted_over_all_flows() {
        // With a single switch, all links are links of hosts.
        let topology = ModifiedTree::new(5, 1, 2).build().unwrap();
        let mut network = FlowLevel::new(&topology, Heuristic::FlowCount, None).unwrap();
        let found = Permutations { seed: 3 }.contention(&mut network, 0).unwrap();
        assert_eq!((found.maximum, found.sum), (1, u64::from(found.flows)));
        assert_eq!((found.mean(), found.mean_switches()), (1.0, 1.0));
        assert_eq!(Contention::default().mean(), 0.0);
    }
}
