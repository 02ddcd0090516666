//! Simulates whole networks of flows, without packets or time. Each flow is set up in a network that contains the
//! previous flows.

use super::cache::FlowKey;
use super::heuristic::Heuristic;
use super::state::{AdaptiveFlow, SwitchState};
use super::table::AdaptiveTables;
use crate::routing::RoutingError;
use crate::topology::{End, NodeRef, Topology, Wiring};

/// The ports of a flow at one switch of its route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Index of the switch.
    pub switch: u32,
    /// Input port of the flow, from 1.
    pub input: u16,
    /// Output port of the flow, from 1.
    pub port: u16,
}

/// A network and the flows set up in it.
#[derive(Debug, Clone)]
pub struct FlowLevel {
    wiring: Wiring,
    tables: AdaptiveTables,
    states: Vec<SwitchState>,
    /// Number of flows of each sending host.
    sending: Vec<u32>,
    heuristic: Heuristic,
}

impl FlowLevel {
    /// Creates a network without flows. `cache_entries` limits each route cache: 0 means routing only by default ports,
    /// and `None` means no limit.
    ///
    /// # Errors
    /// Same as [`AdaptiveTables::new`].
    pub fn new(
        topology: &Topology,
        heuristic: Heuristic,
        cache_entries: Option<u32>,
    ) -> Result<Self, RoutingError> {
        let tables = AdaptiveTables::new(topology)?;
        let states = tables.switches.iter().map(|table| SwitchState::new(table, cache_entries)).collect();
        let sending = vec![0; topology.hosts.len()];
        Ok(Self { wiring: topology.wiring(), tables, states, sending, heuristic })
    }

    /// Number of hosts.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.sending.len() as u32
    }

    /// The tables of the switches.
    #[must_use]
    pub fn tables(&self) -> &AdaptiveTables {
        &self.tables
    }

    /// The states of the switches.
    #[must_use]
    pub fn states(&self) -> &[SwitchState] {
        &self.states
    }

    /// Sets up a flow and appends its hops to `path`.
    ///
    /// # Errors
    /// [`RoutingError::BadHost`] if the source or the destination does not exist, or if they are equal.
    pub fn set_up(&mut self, flow: &AdaptiveFlow, path: &mut Vec<Hop>) -> Result<(), RoutingError> {
        let (tables, states, heuristic) = (&self.tables, &mut self.states, self.heuristic);
        walk(&self.wiring, flow.key, |switch, input| {
            let at = switch as usize;
            let port = states[at].set_up(&tables.switches[at], input, flow, heuristic);
            path.push(Hop { switch, input, port });
            port
        })?;
        self.sending[flow.key.source as usize] += 1;
        Ok(())
    }

    /// The hops of a flow's data packets: through default ports if the flow is not set up.
    ///
    /// # Errors
    /// Same as [`FlowLevel::set_up`].
    pub fn route(&self, key: FlowKey) -> Result<Vec<Hop>, RoutingError> {
        let mut path = Vec::new();
        walk(&self.wiring, key, |switch, input| {
            let at = switch as usize;
            let port = self.states[at].forward(&self.tables.switches[at], input, key);
            path.push(Hop { switch, input, port });
            port
        })?;
        Ok(path)
    }

    /// Removes a flow that was set up.
    ///
    /// # Errors
    /// Same as [`FlowLevel::set_up`].
    pub fn tear_down(&mut self, flow: &AdaptiveFlow) -> Result<(), RoutingError> {
        let (tables, states) = (&self.tables, &mut self.states);
        walk(&self.wiring, flow.key, |switch, input| {
            let at = switch as usize;
            states[at].tear_down(&tables.switches[at], input, flow)
        })?;
        let sending = &mut self.sending[flow.key.source as usize];
        *sending = sending.saturating_sub(1);
        Ok(())
    }

    /// The contention of a flow from host `source` along `path` in the current state: the largest number of
    /// flows on a link of its route, including the flow itself.
    #[must_use]
    pub fn contention(&self, source: u32, path: &[Hop]) -> u32 {
        let own = self.sending.get(source as usize).copied().unwrap_or(0);
        let flows = path.iter().map(|hop| self.states[hop.switch as usize].load(hop.port).flows);
        flows.fold(own, u32::max)
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.states.iter_mut().for_each(SwitchState::clear);
        self.sending.fill(0);
    }
}

/// Follows a route from host to host. `step` receives a switch and its input port, and returns the output
/// port. [`super::relation`] checks that routes end.
fn walk(wiring: &Wiring, key: FlowKey, mut step: impl FnMut(u32, u16) -> u16) -> Result<(), RoutingError> {
    let unknown = |host: u32| {
        let hosts = wiring.hosts.len();
        RoutingError::BadHost(format!("host number {host} is not one of 0 to {}", hosts.saturating_sub(1)))
    };
    if key.destination as usize >= wiring.hosts.len() {
        return Err(unknown(key.destination));
    }
    if key.source == key.destination {
        let host = key.source;
        return Err(RoutingError::BadHost(format!("host number {host} sends to itself: there is no route")));
    }
    let mut at: Option<End> = wiring.hosts.get(key.source as usize).copied().flatten().map(|(end, _)| end);
    if at.is_none() {
        return Err(unknown(key.source));
    }
    while let Some(End { node: NodeRef::Switch(switch), port: input }) = at {
        let port = step(switch, input);
        at = wiring.switches[switch as usize][usize::from(port) - 1].map(|(end, _)| end);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;
    use crate::routing::{RoutingSpec, trace};
    use crate::topology::modified_tree::ModifiedTree;

    fn flow(source: u32, destination: u32, connection: u32) -> AdaptiveFlow {
        AdaptiveFlow { key: FlowKey { source, destination, connection }, bytes: 1 }
    }

    #[test]
    fn without_caches_routes_are_those_of_the_default_tables() {
        let topology = ModifiedTree::new(4, 3, 2).build().unwrap();
        let tables = RoutingSpec::suitable(&topology).compute(&topology).unwrap();
        let wiring = topology.wiring();
        let mut network = FlowLevel::new(&topology, Heuristic::FlowCount, Some(0)).unwrap();
        let hosts = network.hosts();
        for (from, to) in (0..hosts).flat_map(|f| (0..hosts).map(move |t| (f, t))).filter(|(f, t)| f != t) {
            let mut path = Vec::new();
            network.set_up(&flow(from, to, 0), &mut path).unwrap();
            let by_table = trace(&topology, &wiring, &tables, from, to).unwrap();
            let ports: Vec<u16> = by_table.channels.iter().skip(1).map(|c| c.from.port).collect();
            assert_eq!(path.iter().map(|hop| hop.port).collect::<Vec<_>>(), ports);
        }
    }

    /// Sets up flows of one pair of hosts until a route leads through switch `top`, and removes the earlier
    /// flows.
    fn set_up_by(network: &mut FlowLevel, (source, destination): (u32, u32), top: u32) -> Vec<Hop> {
        let found = (0..200).find_map(|connection| {
            let flow = flow(source, destination, connection);
            let mut path = Vec::new();
            network.set_up(&flow, &mut path).unwrap();
            if path[1].switch == top {
                return Some(path);
            }
            network.tear_down(&flow).unwrap();
            None
        });
        found.unwrap()
    }

    /// Two flows share a link on the way down. With horizontal links, one of them avoids it.
    #[test]
    fn a_flow_uses_the_row_if_the_link_down_is_used() {
        for (width, contention, names) in
            [(0, 2, vec!["L1.3", "L2.1", "L1.2"]), (1, 1, vec!["L1.3", "L2.1", "L2.2", "L1.2"])]
        {
            let topology = ModifiedTree::new(4, 2, width).build().unwrap();
            let mut network = FlowLevel::new(&topology, Heuristic::FlowCount, None).unwrap();
            let top = topology.switches.iter().position(|switch| switch.name == "L2.1").unwrap() as u32;
            // H1 to H5, then H9 to H6.
            let one = set_up_by(&mut network, (0, 4), top);
            let two = set_up_by(&mut network, (8, 5), top);
            let met = two.iter().map(|hop| topology.switches[hop.switch as usize].name.as_str());
            assert_eq!(met.collect::<Vec<_>>(), names, "width {width}");
            assert_eq!([network.contention(0, &one), network.contention(8, &two)], [contention; 2]);
        }
    }

    #[test]
    fn hosts_that_do_not_exist_are_rejected() {
        let topology = ModifiedTree::new(2, 2, 1).build().unwrap();
        let mut network = FlowLevel::new(&topology, Heuristic::FlowCount, None).unwrap();
        let mut error = |f, t| network.set_up(&flow(f, t, 0), &mut Vec::new()).map_err(|e| e.to_string());
        assert_eq!(error(0, 4), Err("host number 4 is not one of 0 to 3".to_owned()));
        assert_eq!(error(9, 1), Err("host number 9 is not one of 0 to 3".to_owned()));
        assert_eq!(error(1, 1), Err("host number 1 sends to itself: there is no route".to_owned()));
    }

    /// A tree, the heuristic of its switches, the cache size, and flows: from, to, bytes.
    type Case = (ModifiedTree, Heuristic, Option<u32>, Vec<(u32, u32, u64)>);

    fn cases() -> impl Strategy<Value = Case> {
        let trees = prop_oneof![Just((2, 3)), Just((4, 2)), Just((3, 3)), Just((4, 3))];
        (trees, 0..4u32, 0..3usize, proptest::option::of(0..6u32)).prop_flat_map(
            |((k, n), width, h, cache)| {
                let hosts = u32::pow(k, n);
                let flows = proptest::collection::vec((0..hosts, 0..hosts, 1..1000u64), 1..200);
                flows.prop_map(move |flows| (ModifiedTree::new(k, n, width), Heuristic::ALL[h], cache, flows))
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Routes end at the destination and never visit a switch twice. Data follow the routes, and flows that were
        /// torn down leave no state.
        #[test]
        fn routes_are_simple_and_data_follow_them((tree, heuristic, cache, pairs) in cases()) {
            let topology = tree.build().unwrap();
            let mut network = FlowLevel::new(&topology, heuristic, cache).unwrap();
            let mut routed = Vec::new();
            for (connection, &(source, destination, bytes)) in (0..).zip(&pairs) {
                let flow = AdaptiveFlow { key: FlowKey { source, destination, connection }, bytes };
                let mut path = Vec::new();
                prop_assert_eq!(network.set_up(&flow, &mut path).is_ok(), source != destination);
                if source != destination {
                    let met: BTreeSet<u32> = path.iter().map(|hop| hop.switch).collect();
                    prop_assert_eq!(met.len(), path.len());
                    let last = path[path.len() - 1];
                    let end = topology.wiring().switches[last.switch as usize][usize::from(last.port) - 1];
                    prop_assert_eq!(end.map(|(end, _)| end.node), Some(NodeRef::Host(destination)));
                    routed.push((flow, path));
                }
            }
            for (flow, path) in &routed {
                prop_assert_eq!(&network.route(flow.key).unwrap(), path);
                let worst = network.contention(flow.key.source, path);
                prop_assert!(worst >= 1 && worst as usize <= routed.len());
            }
            for (flow, _) in routed.iter().rev() {
                network.tear_down(flow).unwrap();
            }
            prop_assert!(network.states().iter().all(SwitchState::is_idle));
        }
    }
}
