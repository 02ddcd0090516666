//! Single application assignment (SAA), the rates that complete a phase of communication as early as
//! possible.
//!
//! Each link needs the time `W_l`, which is the sum of its flows' weights divided by its capacity. A flow
//! with weight `w_f` gets the rate `w_f / W_f`, where `W_f` is the largest `W_l` on its route, so it
//! completes at `W_f`. The last flow completes at the largest `W_l`. With other rates, the last flow
//! cannot complete earlier.

use super::{Allocation, Problem};

/// The rates of the active flows in bit/s. With weights in bits, the times `W` are in seconds. A cap acts
/// like a link that only the flow uses.
#[must_use]
pub fn saa(problem: &Problem, active: &[bool]) -> Allocation {
    let mut needs = vec![0.0; problem.links()];
    for flow in problem.active(active) {
        for &link in problem.route(flow) {
            needs[link as usize] += problem.flows[flow].weight / problem.capacities[link as usize];
        }
    }
    let mut allocation = Allocation::idle(problem.flows());
    for flow in problem.active(active) {
        let weight = problem.flows[flow].weight;
        let (mut longest, mut bottleneck) = (weight / problem.flows[flow].cap, None);
        for &link in problem.route(flow) {
            if needs[link as usize] > longest {
                (longest, bottleneck) = (needs[link as usize], Some(link));
            }
        }
        allocation.rates[flow] = weight / longest;
        allocation.bottlenecks[flow] = bottleneck;
    }
    allocation
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, feasible, figure_1, problem, problems};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figure_1_of_the_source() {
        let problem = figure_1();
        let allocation = saa(&problem, &problem.all());
        assert_eq!(allocation.rates, [0.25; 6]);
        let trunk_then_d2 = [Some(6), Some(6), Some(6), Some(6), Some(8), Some(8)];
        assert_eq!(allocation.bottlenecks, trunk_then_d2);
    }

    #[test]
    fn links_need_not_be_used_up() {
        // Max-min would give the short flow 2.5 of its link, but this does not reduce the total time.
        let line = problem(&[1.0, 3.0], &[&[0, 1], &[0], &[1]]);
        let rates = saa(&line, &line.all()).rates;
        assert!([0.5, 0.5, 1.5].iter().zip(&rates).all(|(&a, &b)| close(a, b)), "{rates:?}");
    }

    proptest! {
        #[test]
        fn all_flows_end_when_the_most_loaded_link_can_be_done(problem in problems()) {
            let rates = saa(&problem, &problem.all()).rates;
            prop_assert!(feasible(&problem, &rates));
            let weights: Vec<f64> = problem.flows.iter().map(|flow| flow.weight).collect();
            let ends: Vec<f64> = weights.iter().zip(&rates).map(|(weight, rate)| weight / rate).collect();
            // Lower bound: the time that each link and each cap needs.
            let needs: Vec<f64> =
                problem.loads(&weights).iter().zip(&problem.capacities).map(|(sum, c)| sum / c).collect();
            let caps = problem.flows.iter().map(|flow| flow.weight / flow.cap);
            let least = needs.iter().copied().chain(caps).fold(0.0, f64::max);
            prop_assert!(close(ends.iter().copied().fold(0.0, f64::max), least));
            for (link, need) in needs.iter().enumerate().filter(|(_, need)| close(**need, least)) {
                for (flow, end) in ends.iter().enumerate() {
                    let crosses = problem.route(flow).contains(&(link as u32));
                    prop_assert!(!crosses || close(*end, *need), "its flows end with it");
                }
            }
        }
    }
}
