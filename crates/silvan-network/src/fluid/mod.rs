//! Computes flow rates in fluid models, without simulation: fair rates, optimal rates, and the rates without
//! congestion control.
//!
//! | file | contents |
//! | --- | --- |
//! | [`max_min`](max_min()) | max-min fair rates by water-filling |
//! | [`saa`](saa()) | the rates that complete a phase of communication earliest (single application assignment) |
//! | [`uncontrolled`](uncontrolled()) | the steady state of lossless back pressure with round-robin switches |
//! | [`completion`] | completion times of finite flows with rates from any of these functions |
//! | [`network`] | the conversion of a topology and its forwarding tables to a [`Problem`] |
//!
//! A fluid has no packets, queues or delays. Rates are feasible if no link carries more than its capacity.

pub mod completion;
mod max_min;
pub mod network;
mod saa;
mod uncontrolled;

pub use max_min::max_min;
pub use saa::saa;
pub use uncontrolled::uncontrolled;

/// Maximum number of flows of a problem.
pub const MAX_FLOWS: usize = 1_000_000;
/// Maximum total length of all routes of a problem, in links.
pub const MAX_HOPS: usize = 20_000_000;

/// The reason why fluid rates cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FluidError(pub String);

/// Directed links with capacities, and flows over them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Problem {
    /// Capacity of each link, in bit/s.
    capacities: Vec<f64>,
    /// All routes, concatenated.
    hops: Vec<u32>,
    flows: Vec<ProblemFlow>,
}

#[derive(Debug, Clone, PartialEq)]
struct ProblemFlow {
    /// Start of the flow's route in `hops`.
    first: usize,
    end: usize,
    weight: f64,
    /// Infinite if the flow has no cap.
    cap: f64,
}

/// Rates of all flows of a [`Problem`].
#[derive(Debug, Clone, PartialEq)]
pub struct Allocation {
    /// Rates in bit/s; zero for flows that are not active.
    pub rates: Vec<f64>,
    /// The link that limits each flow: a full link or, for [`uncontrolled`](uncontrolled()), the root of
    /// the congestion tree in which the flow waits, even if it is not on the flow's route. `None` for
    /// inactive flows and flows limited only by their own cap.
    pub bottlenecks: Vec<Option<u32>>,
}

impl Allocation {
    fn idle(flows: usize) -> Self {
        Self { rates: vec![0.0; flows], bottlenecks: vec![None; flows] }
    }
}

fn positive(value: f64, what: &str) -> Result<f64, FluidError> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(FluidError(format!("{what} of {value}: must be a finite number above zero")))
}

impl Problem {
    /// Adds a link with a capacity in bit/s; returns its number.
    ///
    /// # Errors
    /// If the capacity is not a positive finite number, or if the problem already has 2^32 links.
    pub fn add_link(&mut self, capacity: f64) -> Result<u32, FluidError> {
        let capacity = positive(capacity, "a link's capacity")?;
        let number = u32::try_from(self.capacities.len());
        let number = number.map_err(|_| FluidError("more links than can be numbered".to_owned()))?;
        self.capacities.push(capacity);
        Ok(number)
    }

    /// Adds a flow that crosses the links in order, optionally with a maximum rate `cap` in bit/s.
    /// [`saa`](saa()) uses the weight as the size of the flow.
    ///
    /// # Errors
    /// If the route is empty, crosses a link twice or contains a link that does not exist, if a weight or cap is
    /// not a positive finite number, or if [`MAX_FLOWS`] or [`MAX_HOPS`] would be exceeded.
    pub fn add_flow(&mut self, route: &[u32], weight: f64, cap: Option<f64>) -> Result<(), FluidError> {
        if self.flows.len() >= MAX_FLOWS || self.hops.len() + route.len() > MAX_HOPS {
            let what = format!("more than {MAX_FLOWS} flows, or than {MAX_HOPS} hops of all of them");
            return Err(FluidError(what));
        }
        if route.is_empty() {
            return Err(FluidError("a flow needs a route of at least one link".to_owned()));
        }
        for (at, &link) in route.iter().enumerate() {
            if link as usize >= self.capacities.len() {
                let count = self.capacities.len();
                return Err(FluidError(format!("a route over link {link}; there are {count}, from 0")));
            }
            if route[..at].contains(&link) {
                return Err(FluidError(format!("a route that crosses link {link} twice")));
            }
        }
        let weight = positive(weight, "a flow's weight")?;
        let cap = cap.map_or(Ok(f64::INFINITY), |cap| positive(cap, "a flow's cap"))?;
        let first = self.hops.len();
        self.hops.extend_from_slice(route);
        self.flows.push(ProblemFlow { first, end: self.hops.len(), weight, cap });
        Ok(())
    }

    /// A copy of the problem in which all flows have weight one.
    #[must_use]
    pub fn with_equal_weights(&self) -> Self {
        let mut equal = self.clone();
        equal.flows.iter_mut().for_each(|flow| flow.weight = 1.0);
        equal
    }

    /// Number of links.
    #[must_use]
    pub const fn links(&self) -> usize {
        self.capacities.len()
    }

    /// Number of flows.
    #[must_use]
    pub const fn flows(&self) -> usize {
        self.flows.len()
    }

    /// A list that marks all flows as active.
    #[must_use]
    pub fn all(&self) -> Vec<bool> {
        vec![true; self.flows.len()]
    }

    fn route(&self, flow: usize) -> &[u32] {
        &self.hops[self.flows[flow].first..self.flows[flow].end]
    }

    fn active<'a>(&'a self, active: &'a [bool]) -> impl Iterator<Item = usize> + 'a {
        (0..self.flows.len()).filter(|&flow| active.get(flow).copied().unwrap_or(false))
    }

    /// The load of each link in bit/s, given the rate of each flow in bit/s.
    #[must_use]
    pub fn loads(&self, rates: &[f64]) -> Vec<f64> {
        let mut loads = vec![0.0; self.capacities.len()];
        for (flow, rate) in rates.iter().enumerate().take(self.flows.len()) {
            self.route(flow).iter().for_each(|&link| loads[link as usize] += rate);
        }
        loads
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use proptest::prelude::*;

    /// A problem with routes over links of given capacities, weight one, and no caps.
    pub fn problem(capacities: &[f64], routes: &[&[u32]]) -> Problem {
        let mut problem = Problem::default();
        capacities.iter().for_each(|&capacity| assert!(problem.add_link(capacity).is_ok()));
        routes.iter().for_each(|route| assert!(problem.add_flow(route, 1.0, None).is_ok()));
        problem
    }

    /// Figure 1 of SYSTOR 2009 with links of 1 bit/s: four senders at sw1 (links 0 to 3), two at sw2 (4, 5),
    /// sw1 -> sw2 (6), the links to d1 (7) and d2 (8).
    pub fn figure_1() -> Problem {
        let routes: [&[u32]; 6] = [&[0, 6, 7], &[1, 6, 7], &[2, 6, 8], &[3, 6, 8], &[4, 8], &[5, 8]];
        problem(&[1.0; 9], &routes)
    }

    /// Random problems with 2 to 7 links and 1 to 9 flows, some with caps. Routes have at most four links, in
    /// ascending order.
    pub fn problems() -> impl Strategy<Value = Problem> {
        (2_usize..8).prop_flat_map(|links| {
            let route =
                proptest::sample::subsequence((0..links as u32).collect::<Vec<_>>(), 1..=links.min(4));
            let flow = (route, 1_u32..20, proptest::option::weighted(0.3, 1_u32..40));
            let capacities = proptest::collection::vec(1_u32..100, links);
            (capacities, proptest::collection::vec(flow, 1..10)).prop_map(|(capacities, flows)| {
                let mut problem = Problem::default();
                for capacity in capacities {
                    assert!(problem.add_link(f64::from(capacity)).is_ok());
                }
                for (route, weight, cap) in flows {
                    assert!(problem.add_flow(&route, f64::from(weight), cap.map(f64::from)).is_ok());
                }
                problem
            })
        })
    }

    pub fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
    }

    /// Whether no link and no cap is exceeded.
    pub fn feasible(problem: &Problem, rates: &[f64]) -> bool {
        let mut loads = problem.loads(rates).into_iter().zip(&problem.capacities);
        loads.all(|(load, capacity)| load <= capacity * (1.0 + 1e-9))
            && rates.iter().zip(&problem.flows).all(|(rate, flow)| *rate <= flow.cap * (1.0 + 1e-9))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_problems_are_rejected() {
        let mut problem = testing::problem(&[1.0, 1.0], &[]);
        let message = |result: Result<(), FluidError>| result.err().map(|e| e.0).unwrap_or_default();
        assert_eq!(message(problem.add_flow(&[], 1.0, None)), "a flow needs a route of at least one link");
        assert_eq!(message(problem.add_flow(&[2], 1.0, None)), "a route over link 2; there are 2, from 0");
        assert_eq!(message(problem.add_flow(&[0, 1, 0], 1.0, None)), "a route that crosses link 0 twice");
        let above = "must be a finite number above zero";
        assert_eq!(message(problem.add_flow(&[0], 0.0, None)), format!("a flow's weight of 0: {above}"));
        assert_eq!(
            message(problem.add_flow(&[0], 1.0, Some(f64::NAN))),
            format!("a flow's cap of NaN: {above}")
        );
        assert!(problem.add_link(-1.0).is_err());
        assert_eq!((problem.links(), problem.flows()), (2, 0), "no flow was partly added");
    }
}
