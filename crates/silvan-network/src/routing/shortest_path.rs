//! Routing with the fewest hops on any graph, balanced over equally good ports.
//!
//! The channels of a ring can depend on each other in a cycle, so these tables can deadlock, for example on a
//! ring of four switches; see [`super::deadlock_cycle`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::graph::{Balancer, FAR, Graph};
use super::{RoutingError, Tables};
use crate::topology::Topology;

/// Fewest hops. Among equally good ports, each destination is assigned to the port with the fewest
/// destinations so far, similar to OpenSM's minhop. Packets can deadlock if the network has rings. No
/// parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortestPath {}

impl ShortestPath {
    /// Computes the tables of a valid topology.
    ///
    /// # Errors
    /// [`RoutingError::Unsuitable`] if a host cannot be reached.
    pub(super) fn compute(&self, topology: &Topology) -> Result<Tables, RoutingError> {
        let graph = Graph::new(topology);
        let mut balancer = Balancer::new(topology, &graph);
        for home in graph.homes() {
            let hops = graph.hops_to(home);
            balancer.route(home, &hops, |switch, edge| {
                hops[switch] != FAR && hops[switch] == hops[edge.to as usize].wrapping_add(1)
            })?;
        }
        Ok(balancer.finish())
    }
}
