//! Finds distances between switches by search, for comparison with closed forms in tests.

use std::collections::VecDeque;

use super::{NodeRef, Topology};

/// The largest distance between two switches, and the sum of all distances.
pub(super) struct Distances {
    /// Number of links between the two most distant switches.
    pub diameter: u32,
    /// Sum over all ordered pairs.
    pub sum: u64,
}

impl Distances {
    /// Finds the distances between the switches for which `counts` returns true.
    pub fn between(topology: &Topology, counts: impl Fn(usize) -> bool) -> Self {
        let wiring = topology.wiring();
        let count = topology.switches.len();
        let mut found = Self { diameter: 0, sum: 0 };
        for from in (0..count).filter(|&at| counts(at)) {
            let mut hops = vec![u32::MAX; count];
            hops[from] = 0;
            let mut open = VecDeque::from([from]);
            while let Some(at) = open.pop_front() {
                for (end, _) in wiring.switches[at].iter().flatten() {
                    if let NodeRef::Switch(next) = end.node
                        && hops[next as usize] == u32::MAX
                    {
                        hops[next as usize] = hops[at] + 1;
                        open.push_back(next as usize);
                    }
                }
            }
            for (_, &far) in hops.iter().enumerate().filter(|&(at, _)| counts(at)) {
                found.diameter = found.diameter.max(far);
                found.sum += u64::from(far);
            }
        }
        found
    }

    /// Finds the distances between all switches.
    pub fn of(topology: &Topology) -> Self {
        Self::between(topology, |_| true)
    }
}
