//! Max-min fair rates: the rate of a flow can grow only at the expense of a flow with an equal or smaller
//! rate per weight.
//!
//! The algorithm is water-filling. The rates of all flows increase together, in proportion to their
//! weights, until a link is full. The flows of this link keep their rates, and the others continue. A heap
//! yields the next link to fill. It has one entry per link, whose level is updated only when it is the lowest: the
//! level of a link never falls, because the flows that leave it have smaller rates per weight.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::{Allocation, Problem};

/// Weighted max-min fair rates of the active flows in bit/s. A cap acts like a link that only the flow uses.
#[must_use]
pub fn max_min(problem: &Problem, active: &[bool]) -> Allocation {
    let mut filling = Filling::new(problem, active);
    let mut allocation = Allocation::idle(problem.flows());
    while let Some(next) = filling.heap.pop() {
        let at = next.link as usize;
        if filling.links[at].flows == 0 {
            continue;
        }
        let level = filling.links[at].level();
        if level > next.level {
            filling.heap.push(FillLevel { level, ..next });
            continue;
        }
        for place in filling.starts[at]..filling.starts[at + 1] {
            let flow = filling.members[place] as usize;
            if !filling.open[flow] {
                continue;
            }
            let cap = problem.flows[flow].cap;
            let own = at >= problem.links();
            allocation.rates[flow] = if own { cap } else { problem.flows[flow].weight * level };
            allocation.bottlenecks[flow] = (!own).then_some(next.link);
            filling.close(problem, flow, allocation.rates[flow], at);
        }
        filling.links[at].flows = 0;
    }
    allocation
}

/// A link, or a flow's cap, during water-filling.
#[derive(Debug, Clone, Copy, Default)]
struct Basin {
    /// Capacity not used by closed flows.
    left: f64,
    /// Total weight of the open flows.
    weight: f64,
    /// Weight at the last complete summation. A new summation is needed because repeated subtraction loses
    /// precision.
    counted: f64,
    /// Number of open flows.
    flows: u32,
}

impl Basin {
    /// Rate per weight at which the link is full.
    fn level(&self) -> f64 {
        self.left.max(0.0) / self.weight
    }
}

/// The level at which a link fills. The order is reversed: the heap yields the lowest level first.
#[derive(Debug, Clone, Copy, PartialEq)]
struct FillLevel {
    level: f64,
    link: u32,
}

impl Eq for FillLevel {}

impl PartialOrd for FillLevel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for FillLevel {
    fn cmp(&self, other: &Self) -> Ordering {
        other.level.total_cmp(&self.level).then(other.link.cmp(&self.link))
    }
}

struct Filling {
    /// The links of the problem, followed by one link per flow for its cap.
    links: Vec<Basin>,
    /// Flows of each link: `members[starts[link]..starts[link + 1]]`.
    starts: Vec<usize>,
    members: Vec<u32>,
    open: Vec<bool>,
    heap: BinaryHeap<FillLevel>,
}

impl Filling {
    fn new(problem: &Problem, active: &[bool]) -> Self {
        let mut links = vec![Basin::default(); problem.links() + problem.flows()];
        let mut open = vec![false; problem.flows()];
        for (link, &capacity) in links.iter_mut().zip(&problem.capacities) {
            link.left = capacity;
        }
        let mut starts = vec![0; links.len() + 1];
        let own = |flow: usize| problem.flows[flow].cap.is_finite().then_some(problem.links() + flow);
        let basins = |flow: usize| problem.route(flow).iter().map(|&link| link as usize).chain(own(flow));
        for flow in problem.active(active) {
            open[flow] = true;
            if let Some(own) = own(flow) {
                links[own].left = problem.flows[flow].cap;
            }
            for link in basins(flow) {
                links[link].weight += problem.flows[flow].weight;
                links[link].flows += 1;
                starts[link + 1] += 1;
            }
        }
        (1..starts.len()).for_each(|at| starts[at] += starts[at - 1]);
        let mut members = vec![0; starts.last().copied().unwrap_or(0)];
        let mut next = starts.clone();
        for flow in problem.active(active) {
            for link in basins(flow) {
                members[next[link]] = flow as u32;
                next[link] += 1;
            }
        }
        let used = links.iter_mut().enumerate().filter(|(_, link)| link.flows > 0);
        let heap = used.map(|(number, link)| {
            link.counted = link.weight;
            FillLevel { level: link.level(), link: number as u32 }
        });
        let heap = heap.collect();
        Self { links, starts, members, open, heap }
    }

    /// Fixes the rate of a flow, and subtracts it from the flow's links except the full one.
    fn close(&mut self, problem: &Problem, flow: usize, rate: f64, full: usize) {
        self.open[flow] = false;
        let own = problem.flows[flow].cap.is_finite().then_some(problem.links() + flow);
        for link in problem.route(flow).iter().map(|&link| link as usize).chain(own) {
            if link == full {
                continue;
            }
            let basin = &mut self.links[link];
            basin.flows -= 1;
            basin.left -= rate;
            basin.weight -= problem.flows[flow].weight;
            if basin.flows == 0 {
                continue;
            }
            if basin.weight < 1e-3 * basin.counted {
                let members = &self.members[self.starts[link]..self.starts[link + 1]];
                let open = members.iter().map(|&member| member as usize).filter(|&member| self.open[member]);
                basin.weight = open.map(|member| problem.flows[member].weight).sum();
                basin.counted = basin.weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, feasible, figure_1, problem, problems};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_cases() {
        let rates = |problem: &Problem| max_min(problem, &problem.all()).rates;
        assert_eq!(rates(&figure_1()), [0.25; 6], "sw1 -> sw2 and the link to d2 have four flows each");
        // The textbook example of a line: one long flow, and a short one per link.
        let line = problem(&[1.0, 3.0], &[&[0, 1], &[0], &[1]]);
        assert_eq!(rates(&line), [0.5, 0.5, 2.5]);
        assert_eq!(max_min(&line, &line.all()).bottlenecks, [Some(0), Some(0), Some(1)]);
        assert_eq!(max_min(&line, &[false, true, true]).rates, [0.0, 1.0, 3.0]);
    }

    #[test]
    fn weights_and_caps() {
        let mut shared = problem(&[12.0], &[]);
        for (weight, cap) in [(1.0, None), (2.0, None), (3.0, Some(2.0))] {
            assert_eq!(shared.add_flow(&[0], weight, cap), Ok(()));
        }
        let shares = max_min(&shared, &shared.all());
        assert!(close(shares.rates[0], 10.0 / 3.0) && close(shares.rates[1], 20.0 / 3.0), "{shares:?}");
        assert_eq!((shares.rates[2], shares.bottlenecks[2]), (2.0, None));
    }

    #[test]
    fn weights_of_very_different_size_keep_their_digits() {
        let mut shared = problem(&[1e10, 1.0], &[]);
        assert_eq!(shared.add_flow(&[0, 1], 1e14, None), Ok(()));
        for _ in 0..3 {
            assert_eq!(shared.add_flow(&[0], 0.3, None), Ok(()));
        }
        let rates = max_min(&shared, &shared.all()).rates;
        assert_eq!(rates[0], 1.0);
        assert!(rates[1..].iter().all(|&rate| close(rate, (1e10 - 1.0) / 3.0)), "{rates:?}");
    }

    /// Computes the same rates by definition: all levels are recomputed in every round.
    fn by_rounds(problem: &Problem) -> Vec<f64> {
        let mut rates: Vec<Option<f64>> = vec![None; problem.flows()];
        while rates.contains(&None) {
            let mut least = (f64::INFINITY, Vec::new());
            let mut offer = |level: f64, flows: Vec<usize>| {
                if level < least.0 {
                    least = (level, flows);
                }
            };
            for (link, capacity) in problem.capacities.iter().enumerate() {
                let crosses = |flow: &usize| problem.route(*flow).contains(&(link as u32));
                let taken: f64 = (0..problem.flows()).filter(crosses).filter_map(|flow| rates[flow]).sum();
                let open: Vec<usize> =
                    (0..problem.flows()).filter(crosses).filter(|&flow| rates[flow].is_none()).collect();
                let weight: f64 = open.iter().map(|&flow| problem.flows[flow].weight).sum();
                if open.is_empty() {
                    continue;
                }
                offer((capacity - taken) / weight, open);
            }
            for flow in (0..problem.flows()).filter(|&flow| rates[flow].is_none()) {
                offer(problem.flows[flow].cap / problem.flows[flow].weight, vec![flow]);
            }
            for flow in least.1 {
                rates[flow] = Some(least.0 * problem.flows[flow].weight);
            }
        }
        rates.into_iter().flatten().collect()
    }

    proptest! {
        #[test]
        fn every_flow_has_a_full_link_where_no_flow_has_more(problem in problems()) {
            let Allocation { rates, bottlenecks } = max_min(&problem, &problem.all());
            prop_assert!(feasible(&problem, &rates));
            let loads = problem.loads(&rates);
            for (flow, bottleneck) in bottlenecks.iter().enumerate() {
                let Some(link) = *bottleneck else {
                    prop_assert_eq!(rates[flow], problem.flows[flow].cap);
                    continue;
                };
                prop_assert!(problem.route(flow).contains(&link));
                prop_assert!(close(loads[link as usize], problem.capacities[link as usize]));
                let per_weight = |flow: usize| rates[flow] / problem.flows[flow].weight;
                let sharers = (0..problem.flows()).filter(|&other| problem.route(other).contains(&link));
                for other in sharers {
                    prop_assert!(per_weight(other) <= per_weight(flow) * (1.0 + 1e-9));
                }
            }
        }

        #[test]
        fn the_heap_agrees_with_the_definition(problem in problems()) {
            let rates = max_min(&problem, &problem.all()).rates;
            let expected = by_rounds(&problem);
            prop_assert!(rates.iter().zip(&expected).all(|(&a, &b)| close(a, b)));
        }
    }
}
