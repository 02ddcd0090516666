//! Selects the outputs of packets that the forwarding table alone does not determine: adaptive routes of flows
//! ([`silvan_network::routing::adaptive`]). Also stores the weights of the switch's links (SAA: Zdornov and Birk,
//! algorithm 1).
//!
//! The output of a packet is selected once, when its head has arrived, and is stored in the packet.

use silvan_engine::Rate;
use silvan_engine::saved::Saved;
use silvan_network::port::Port;
use silvan_network::routing::Tables;
use silvan_network::routing::adaptive::{AdaptiveFlow, ExtendedTable, FlowKey, Heuristic, SwitchState};

use crate::packet::{Kind, Packet};

/// The adaptive routes of flows through one switch.
#[derive(Debug, Saved)]
pub(crate) struct AnnouncedRoutes {
    #[saved(constant)]
    pub table: ExtendedTable,
    pub state: SwitchState,
    #[saved(constant)]
    pub heuristic: Heuristic,
}

#[derive(Debug, Saved)]
pub(crate) struct Director {
    pub routes: Option<AnnouncedRoutes>,
    /// For each output, the time that the link needs to carry all flows announced to it, and its rate.
    weights: Box<[(u64, Rate)]>,
}

impl Director {
    pub fn new(routes: Option<AnnouncedRoutes>, rates: impl Iterator<Item = Rate>) -> Self {
        Self { routes, weights: rates.map(|rate| (0, rate)).collect() }
    }

    /// Returns the output of a packet on a route that is selected per flow; `None` if the forwarding table
    /// determines the output. Records set-ups and tear-downs of flows.
    pub fn direct(&mut self, input: Port, packet: &Packet, bytes: u64) -> Option<Port> {
        let routes = self.routes.as_mut()?;
        let key =
            FlowKey { source: packet.src, destination: packet.dst, connection: u32::from(packet.source) };
        let (flow, input) = (AdaptiveFlow { key, bytes }, input.number());
        let port = match packet.kind() {
            Kind::SetUp => routes.state.set_up(&routes.table, input, &flow, routes.heuristic),
            Kind::TearDown => routes.state.tear_down(&routes.table, input, &flow),
            Kind::Data | Kind::Probe => routes.state.forward(&routes.table, input, key),
            Kind::Cnp
            | Kind::Ack
            | Kind::Request
            | Kind::Grant
            | Kind::Reply
            | Kind::Header
            | Kind::Nack
            | Kind::Receipt
            | Kind::PathProbe
            | Kind::PathReply => return None,
        };
        (port != Tables::NO_ROUTE).then(|| Port::of_number(port))
    }

    /// Adds or removes an announced flow at an output. Returns the output's weight; `None` if the removed
    /// flow was not announced to it.
    pub fn weigh(&mut self, output: Port, kind: Kind, bytes: u64) -> Option<u64> {
        let (weight, rate) = self.weights.get_mut(output.index())?;
        let own = weight_ps(bytes, *rate);
        match kind {
            Kind::SetUp => *weight += own,
            Kind::TearDown => {
                let left = weight.checked_sub(own);
                *weight = left.unwrap_or(0);
                return left;
            }
            Kind::Data
            | Kind::Probe
            | Kind::Cnp
            | Kind::Ack
            | Kind::Request
            | Kind::Grant
            | Kind::Reply
            | Kind::Header
            | Kind::Nack
            | Kind::Receipt
            | Kind::PathProbe
            | Kind::PathReply => {}
        }
        Some(*weight)
    }
}

/// The time that a link needs to carry a flow, in picoseconds.
pub(crate) fn weight_ps(bytes: u64, rate: Rate) -> u64 {
    (u128::from(bytes) * 8_000_000_000_000 / u128::from(rate.0.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_weigh_what_is_announced() {
        let rate = Rate::from_gbit(8);
        let mut director = Director::new(None, [rate, Rate::from_gbit(16)].into_iter());
        assert_eq!(director.weigh(Port(0), Kind::SetUp, 1_000), Some(1_000_000));
        assert_eq!(director.weigh(Port(0), Kind::SetUp, 500), Some(1_500_000));
        assert_eq!(director.weigh(Port(1), Kind::SetUp, 500), Some(250_000));
        assert_eq!(director.weigh(Port(0), Kind::Probe, 7), Some(1_500_000));
        assert_eq!(director.weigh(Port(0), Kind::TearDown, 1_000), Some(500_000));
        assert_eq!(director.weigh(Port(0), Kind::TearDown, 501), None, "more than what is announced");
        assert_eq!(director.weigh(Port(2), Kind::SetUp, 1), None, "there is no such port");
    }
}
