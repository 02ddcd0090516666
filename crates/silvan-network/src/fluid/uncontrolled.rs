//! Rates without congestion control: the steady state of lossless back pressure.
//!
//! Each switch input has one buffer that all outputs share, with a read port per output. Each output serves
//! its inputs round-robin, and a host serves its flows round-robin. No packet is dropped, so a link cannot be
//! faster than the rate at which its far buffer is emptied. In the steady state, a full buffer accepts data
//! at the rate at which it is emptied, in the proportions in which data arrives:
//!
//! ```text
//!   f1, f2, f3, f4 --> sw1 ==link==> sw2 --> d1    f1, f2
//!                                    sw2 --> d2    f3, f4, and f5, f6 from separate ports
//! ```
//!
//! The link to d2 gives a third to each input, so f3 and f4 together get 1/3. They are half of the traffic on
//! the link between the switches, so this link runs at 2/3, and f1 and f2 are victims.
//!
//! The rates are a fixed point. In the forward direction, along the routes, each link divides its capacity
//! among its inputs (max-min fair with respect to their demands). In the backward direction, the rate at
//! which its far buffer is emptied limits each link. If links wait for each other in a cycle, they have no
//! order along all routes, and the problem is rejected. A problem that does not converge is also rejected.

use std::collections::BTreeMap;

use super::{Allocation, FluidError, Problem};

/// Maximum number of rounds.
const MOST_ROUNDS: usize = 20_000;
/// Number of rounds after which steps are halved, for the rare case of oscillation.
const FREE_ROUNDS: usize = 200;
/// Relative change per round below which rates count as converged.
const SETTLED: f64 = 1e-13;

/// The steady rates of the active flows without control, in bit/s. Weights have no effect. The bottleneck of
/// a flow is the root of the congestion tree that limits the flow.
///
/// # Errors
/// If links wait for each other in a cycle, or the rates do not converge.
pub fn uncontrolled(problem: &Problem, active: &[bool]) -> Result<Allocation, FluidError> {
    let mut network = Pressure::new(problem, active)?;
    for round in 0..MOST_ROUNDS {
        network.forward(problem);
        let step = if round < FREE_ROUNDS { 1.0 } else { 0.5 };
        if network.backward(problem, step) < SETTLED {
            return Ok(network.allocation(problem, active));
        }
    }
    let what = format!("the rates without control do not converge within {MOST_ROUNDS} rounds");
    Err(FluidError(what))
}

/// Demand on a link from one input of its switch, or from one flow of its host.
struct DemandGroup {
    /// The link that ends at the input. `None` if the flow starts at the link.
    input: Option<u32>,
    flows: Vec<u32>,
    /// The demand, in bit/s.
    demand: f64,
}

#[derive(Default)]
struct Station {
    groups: Vec<DemandGroup>,
    /// The rate at which the far end accepts data, in bit/s.
    accepted: f64,
    /// The next link that limits `accepted`. `None` if only the capacity limits it.
    blocked_by: Option<u32>,
    carried: f64,
}

struct Pressure {
    stations: Vec<Station>,
    /// The used links, in an order in which every route ascends.
    order: Vec<u32>,
    /// For each link, the next links on routes, each with the index of the group of flows that arrive there
    /// from this link.
    onward: Vec<Vec<(u32, usize)>>,
    /// Rate of each flow after the most recently computed link on its route, in bit/s.
    rates: Vec<f64>,
}

impl Pressure {
    fn new(problem: &Problem, active: &[bool]) -> Result<Self, FluidError> {
        // Groups by link and input. Flows that start at a link follow as separate groups.
        let mut grouped: Vec<BTreeMap<(u32, u32), Vec<u32>>> = Vec::new();
        grouped.resize_with(problem.links(), BTreeMap::new);
        for flow in problem.active(active) {
            let mut input = None;
            for &link in problem.route(flow) {
                let key = input.map_or((u32::MAX, flow as u32), |input| (input, 0));
                grouped[link as usize].entry(key).or_default().push(flow as u32);
                input = Some(link);
            }
        }
        let mut stations = Vec::with_capacity(problem.links());
        let mut onward = vec![Vec::new(); problem.links()];
        for (link, (groups, &capacity)) in grouped.into_iter().zip(&problem.capacities).enumerate() {
            let mut station = Station { accepted: capacity, ..Station::default() };
            for ((input, _), flows) in groups {
                let input = (input != u32::MAX).then_some(input);
                if let Some(input) = input {
                    onward[input as usize].push((link as u32, station.groups.len()));
                }
                station.groups.push(DemandGroup { input, flows, demand: 0.0 });
            }
            stations.push(station);
        }
        let order = along_routes(&stations, &onward)?;
        Ok(Self { stations, order, onward, rates: vec![0.0; problem.flows()] })
    }

    /// Divides the capacity of each link among its groups, starting at the sources.
    fn forward(&mut self, problem: &Problem) {
        for &link in &self.order {
            let station = &mut self.stations[link as usize];
            let limit = station.accepted.min(problem.capacities[link as usize]);
            for group in &mut station.groups {
                group.demand = match (group.input, group.flows.as_slice()) {
                    // The demand of a source is the smaller of its link's capacity and the flow's cap.
                    (None, &[flow]) => {
                        let wanted = problem.flows[flow as usize].cap;
                        let wanted = wanted.min(problem.capacities[link as usize]);
                        self.rates[flow as usize] = wanted;
                        wanted
                    }
                    (_, flows) => flows.iter().map(|&flow| self.rates[flow as usize]).sum(),
                };
            }
            let level = fair_level(station.groups.iter().map(|group| group.demand).collect(), limit);
            station.carried = 0.0;
            for group in &station.groups {
                station.carried += group.demand.min(level);
                if group.demand > level {
                    let kept = level / group.demand;
                    group.flows.iter().for_each(|&flow| self.rates[flow as usize] *= kept);
                }
            }
        }
    }

    /// Limits each link to the rate at which its far buffer is emptied, starting at the destinations. Returns the
    /// largest relative change.
    fn backward(&mut self, problem: &Problem, step: f64) -> f64 {
        let mut change = 0.0_f64;
        for &link in self.order.iter().rev() {
            let capacity = problem.capacities[link as usize];
            let carried = self.stations[link as usize].carried;
            let (mut accepted, mut blocked_by) = (capacity, None);
            for &(output, at) in &self.onward[link as usize] {
                let station = &self.stations[output as usize];
                let limit = station.accepted.min(problem.capacities[output as usize]);
                let part = station.groups[at].demand / carried;
                let fastest = share_of(&station.groups, at, limit) / part;
                if fastest < accepted * (1.0 - SETTLED) {
                    (accepted, blocked_by) = (fastest, Some(output));
                }
            }
            let station = &mut self.stations[link as usize];
            let next = station.accepted + (accepted - station.accepted) * step;
            change = change.max((next - station.accepted).abs() / next);
            (station.accepted, station.blocked_by) = (next, blocked_by);
        }
        change
    }

    fn allocation(&self, problem: &Problem, active: &[bool]) -> Allocation {
        let mut allocation = Allocation::idle(problem.flows());
        for flow in problem.active(active) {
            allocation.rates[flow] = self.rates[flow];
            if self.rates[flow] < problem.flows[flow].cap * (1.0 - 1e-9) {
                allocation.bottlenecks[flow] = problem.route(flow).first().map(|&link| self.root(link));
            }
        }
        allocation
    }

    /// The full link for which a link ultimately waits, which is the root of its congestion tree.
    fn root(&self, mut link: u32) -> u32 {
        while let Some(output) = self.stations[link as usize].blocked_by {
            link = output;
        }
        link
    }
}

/// The used links in an order in which every route ascends, or an error if there is none.
fn along_routes(stations: &[Station], onward: &[Vec<(u32, usize)>]) -> Result<Vec<u32>, FluidError> {
    let inputs = |station: &Station| station.groups.iter().filter(|group| group.input.is_some()).count();
    let mut missing: Vec<usize> = stations.iter().map(inputs).collect();
    let used = || (0..stations.len()).filter(|&link| !stations[link].groups.is_empty());
    let mut order: Vec<u32> = used().filter(|&link| missing[link] == 0).map(|link| link as u32).collect();
    let mut next = 0;
    while let Some(&link) = order.get(next) {
        next += 1;
        for &(output, _) in &onward[link as usize] {
            missing[output as usize] -= 1;
            if missing[output as usize] == 0 {
                order.push(output);
            }
        }
    }
    if order.len() < used().count() {
        let what = "the routes can deadlock: their links wait for each other in a cycle, and there are no \
                    steady rates without control";
        return Err(FluidError(what.to_owned()));
    }
    Ok(order)
}

/// The level up to which demands are met if a limit is shared max-min fairly; infinite if all demands are met.
fn fair_level(mut demands: Vec<f64>, limit: f64) -> f64 {
    demands.sort_unstable_by(f64::total_cmp);
    let mut left = limit;
    let count = demands.len();
    for (met, demand) in demands.into_iter().enumerate() {
        let level = left / (count - met) as f64;
        if demand > level {
            return level;
        }
        left -= demand;
    }
    f64::INFINITY
}

/// The share of a limit that one group would get if it always had data to send.
fn share_of(groups: &[DemandGroup], at: usize, limit: f64) -> f64 {
    let others = groups.iter().enumerate().filter(|(other, _)| *other != at);
    let demands: Vec<f64> = others.map(|(_, group)| group.demand).chain([f64::INFINITY]).collect();
    fair_level(demands, limit)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{close, feasible, figure_1, problem, problems};
    use super::*;
    use proptest::prelude::*;

    fn all_close(rates: &[f64], expected: &[f64]) -> bool {
        rates.len() == expected.len() && rates.iter().zip(expected).all(|(&a, &b)| close(a, b))
    }

    #[test]
    fn figure_1_of_the_source() {
        let problem = figure_1();
        let found = uncontrolled(&problem, &problem.all()).unwrap();
        let sixth = 1.0 / 6.0;
        let expected = [sixth, sixth, sixth, sixth, 1.0 / 3.0, 1.0 / 3.0];
        assert!(all_close(&found.rates, &expected), "{found:?}");
        assert_eq!(found.bottlenecks, [Some(8); 6], "f1 and f2 wait for the link to d2 and never cross it");
    }

    #[test]
    fn capacity_unused_by_one_input_is_shared_by_the_others() {
        // The first flow crosses a slow link, the second has a cap, the third gets the rest.
        let mut shared = problem(&[1.0, 10.0, 10.0, 10.0], &[&[0, 3]]);
        assert_eq!(shared.add_flow(&[1, 3], 1.0, Some(2.0)), Ok(()));
        assert_eq!(shared.add_flow(&[2, 3], 1.0, None), Ok(()));
        let found = uncontrolled(&shared, &shared.all()).unwrap();
        assert!(all_close(&found.rates, &[1.0, 2.0, 7.0]), "{found:?}");
        assert_eq!(found.bottlenecks, [Some(0), None, Some(3)]);
        let found = uncontrolled(&shared, &[false, true, true]).unwrap();
        assert!(all_close(&found.rates, &[0.0, 2.0, 8.0]), "{found:?}");
    }

    #[test]
    fn cycles_are_rejected() {
        let ring = problem(&[1.0; 3], &[&[0, 1], &[1, 2], &[2, 0]]);
        let message = uncontrolled(&ring, &ring.all()).err().map(|e| e.0).unwrap_or_default();
        assert!(message.starts_with("the routes can deadlock"), "{message}");
    }

    #[test]
    fn an_oscillating_case_is_rejected() {
        let mut swings = problem(&[31.0, 34.0, 34.0, 64.0, 66.0], &[]);
        assert_eq!(swings.add_flow(&[1, 2, 3, 4], 1.0, Some(10.0)), Ok(()));
        let others: [&[u32]; 7] = [&[4], &[3], &[0, 3, 4], &[2], &[0, 1, 3, 4], &[0, 1, 3, 4], &[0, 2, 3]];
        for route in others {
            assert_eq!(swings.add_flow(route, 1.0, None), Ok(()));
        }
        let message = uncontrolled(&swings, &swings.all()).err().map(|e| e.0).unwrap_or_default();
        assert_eq!(message, "the rates without control do not converge within 20000 rounds");
    }

    proptest! {
        /// About one random case in ten thousand does not converge and is skipped.
        #[test]
        fn every_flow_waits_for_a_full_link_in_the_steady_state(problem in problems()) {
            let found = uncontrolled(&problem, &problem.all());
            prop_assume!(found.is_ok());
            let Allocation { rates, bottlenecks } = found.unwrap();
            prop_assert!(feasible(&problem, &rates));
            let loads = problem.loads(&rates);
            for (flow, root) in bottlenecks.iter().enumerate() {
                match *root {
                    None => prop_assert!(close(rates[flow], problem.flows[flow].cap)),
                    Some(root) => {
                        prop_assert!(close(loads[root as usize], problem.capacities[root as usize]));
                    }
                }
            }
        }
    }
}
