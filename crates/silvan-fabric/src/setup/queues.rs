//! Queues: how switches and host adapters are divided, and the virtual lanes of destinations.

use std::sync::Arc;

use silvan_engine::{Bytes, Rate};

use super::{Builder, Reason, lane_share, small};
use crate::config::{Arbitration, Architecture, Assignment};
use crate::congestion::Mechanism;
use crate::host::{Adapter, Paths};
use crate::link::Division;
use crate::port_set::PortSet;
use crate::queueing::buffers::{Buffers, Routes, Shape};
use crate::queueing::isolation::{Cams, Rule};
use crate::queueing::{HostQueues, Isolation, Memory, Organisation, Queues};
use crate::simulation::ModelError;
use crate::switch::{
    Arbiter, CioqSwitch, FcfsSwitch, Islip, Ports, QueuedSwitch, RoundRobin, Switch, VoqSwitch,
};
use crate::topology::NodeRef;

impl Builder<'_> {
    fn mechanism(&self) -> Mechanism {
        self.config.congestion.mechanism
    }

    fn queues(&self) -> Queues {
        self.config.switch.queues(self.mechanism())
    }

    /// Whether the queues whose fill marking rules are told hold packets for one output alone.
    pub(super) fn queues_have_one_output(&self) -> bool {
        let config = &self.config.switch;
        if config.arbitration == Arbitration::Fcfs {
            return true;
        }
        match self.config.parts().isolation {
            // A destination has one output, unless routes are chosen.
            Isolation::SpecialQueues(special) if special.at_root => self.config.adaptive_routing.is_none(),
            _ => self.queues() == Queues::PerOutput,
        }
    }

    /// How the input buffers of a switch are divided for those who send to it, and the size of a
    /// part.
    pub(super) fn division(&self, switch: usize) -> Result<(Division, u32), ModelError> {
        let config = &self.config.switch;
        let queues = self.queues();
        if config.memory(self.mechanism()) == Memory::Shared || queues == Queues::Single {
            return Ok((Division::Whole, self.switch_lane));
        }
        let table = &self.tables.out[switch];
        let (division, parts) = if queues == Queues::PerDestination {
            (Division::PerDestination, table.len() as u32)
        } else {
            // A part per queue of the receiver.
            let organisation = Organisation::new(queues, config.queue_count);
            let parts = organisation.fixed(usize::from(self.topology.switches[switch].ports)) as u32;
            let output = |port: u16| usize::from(port.wrapping_sub(1));
            let part = |(dst, &port): (usize, &u16)| organisation.index(output(port), dst as u32) as u16;
            (Division::Table(table.iter().enumerate().map(part).collect(), parts), parts)
        };
        let given = config.queue_buffer.unwrap_or(Bytes(u64::from(self.switch_lane / parts.max(1))));
        let size = small(given, "switch.queue_buffer")? / self.sizes.credit_block * self.sizes.credit_block;
        let needed = self.full_space();
        if size < needed {
            let reason = Reason::QueueTooSmall { queues: parts, size: given, needed };
            return Err(reason.at("switch.queue_buffer"));
        }
        Ok((division, size))
    }

    /// The rule of special queues, if there are any.
    pub(super) fn special_queues(&self) -> Option<Arc<Rule>> {
        match self.config.parts().isolation {
            Isolation::None => None,
            Isolation::SpecialQueues(special) => {
                Some(Arc::new(special.rule(self.sizes.mtu + self.sizes.header)))
            }
        }
    }

    /// Memory of an output port per virtual lane, where there is such.
    pub(super) fn output_lane(&self) -> Result<u32, ModelError> {
        let config = &self.config.switch;
        let buffer = config.output_buffer.unwrap_or(config.buffer);
        lane_share(self.config, self.sizes, buffer, "switch.output_buffer")
    }

    /// The switch with these ports, and `output_lane` bytes per output and lane where outputs have
    /// buffers.
    pub(super) fn switch(&self, ports: Ports, special: Option<&Arc<Rule>>, output_lane: u32) -> Switch {
        let (config, mechanism) = (&self.config.switch, self.mechanism());
        let (architecture, queues) = (config.architecture(mechanism), self.queues());
        let control_first = config.control_first(mechanism);
        let shared = config.memory(mechanism) == Memory::Shared;
        if config.arbitration == Arbitration::Fcfs {
            return Switch::Fcfs(Box::new(FcfsSwitch::new(ports, control_first)));
        }
        let plain = queues == Queues::PerOutput && shared && special.is_none() && !control_first;
        if architecture == Architecture::Voq && plain {
            return Switch::Voq(VoqSwitch::new(ports));
        }
        match (architecture, ports.count() <= 64) {
            (Architecture::Cioq, true) => Switch::Cioq(self.cioq(ports, special, output_lane)),
            (Architecture::Cioq, false) => Switch::LargeCioq(self.cioq(ports, special, output_lane)),
            (_, true) => Switch::Queued(self.queued(ports, special)),
            (_, false) => Switch::LargeQueued(self.queued(ports, special)),
        }
    }

    /// The queues of a switch.
    fn buffers<S: PortSet>(&self, ports: &Ports, special: Option<&Arc<Rule>>) -> Buffers<S> {
        let (config, mechanism) = (&self.config.switch, self.mechanism());
        let (count, lanes) = (ports.count(), ports.lanes);
        let rates =
            || ports.wiring.iter().map(|port| port.map_or(Rate::default(), |port| port.rate)).collect();
        let cams = special.map(|rule| Cams::new(Arc::clone(rule), count, rates(), lanes, true));
        let organisation = Organisation::new(self.queues(), config.queue_count);
        let control_first = config.control_first(mechanism);
        let shape = Shape { inputs: count, outputs: count, lanes, organisation, control_first };
        let routes =
            if ports.steering.is_some() { Routes::Packet } else { Routes::Table(Arc::clone(ports.table())) };
        Buffers::new(shape, routes, cams)
    }

    /// A switch with buffers at inputs and outputs.
    fn cioq<S: PortSet>(
        &self,
        ports: Ports,
        special: Option<&Arc<Rule>>,
        output_lane: u32,
    ) -> Box<CioqSwitch<S>> {
        let crossbar = self.config.switch.crossbar.unwrap_or_else(|| Rate(2 * self.fastest().0)).pace();
        let buffers = self.buffers(&ports, special);
        Box::new(CioqSwitch::new(ports, buffers, crossbar, output_lane))
    }

    /// A switch with buffers at inputs alone, in any queues.
    fn queued<S: PortSet>(&self, ports: Ports, special: Option<&Arc<Rule>>) -> Box<QueuedSwitch<S>> {
        let (config, mechanism) = (&self.config.switch, self.mechanism());
        let shared = config.memory(mechanism) == Memory::Shared;
        let buffers = self.buffers(&ports, special);
        let arbiter = if config.architecture(mechanism) == Architecture::Iq {
            Arbiter::Islip(Islip::new(&ports, config.islip_iterations, buffers.is_fifo()))
        } else {
            Arbiter::RoundRobin(RoundRobin::new(&ports, !shared))
        };
        Box::new(QueuedSwitch::new(ports, buffers, arbiter, config.crossbar.map(Rate::pace)))
    }

    pub(super) fn fastest(&self) -> Rate {
        self.topology.links.iter().map(|link| link.rate).max().unwrap_or_default()
    }

    /// A crossbar must keep up with the links.
    pub(super) fn check_crossbar(&self) -> Result<(), ModelError> {
        let fastest = self.fastest();
        match self.config.switch.crossbar {
            Some(crossbar) if crossbar < fastest => {
                Err(Reason::SlowCrossbar { fastest }.of("switch.crossbar", crossbar))
            }
            _ => Ok(()),
        }
    }

    /// Special queues tell the node that a packet came from, over the link that it came by.
    pub(super) fn check_ways(&self) -> Result<(), ModelError> {
        match self.config.parts().isolation {
            Isolation::SpecialQueues(_) if self.topology.has_one_way_links() => {
                let topology = self.topology.name.clone();
                Err(Reason::OneWayLinks { topology }.at("congestion.isolation"))
            }
            _ => Ok(()),
        }
    }

    /// The output buffer of a host, if it has one.
    pub(super) fn adapter(&self, special: Option<&Arc<Rule>>) -> Result<Option<Box<Adapter>>, ModelError> {
        let preset = if special.is_some() { HostQueues::Single } else { HostQueues::None };
        let config = &self.config.host;
        let queues = config.queues.unwrap_or(preset);
        let organisation = match queues {
            HostQueues::None => return Ok(None),
            HostQueues::Single => Organisation::Single,
            HostQueues::PerDestination => Organisation::PerDestination,
            HostQueues::DestinationModulo => {
                Organisation::new(Queues::DestinationModulo, self.config.switch.queue_count)
            }
        };
        let lanes = usize::from(self.config.lanes.count);
        let parts = organisation.fixed(1).max(1) * lanes;
        let part = small(config.output_buffer, "host.output_buffer")? / parts as u32;
        let needed = self.full_space();
        if part < needed {
            let of = "per queue and virtual lane";
            return Err(
                Reason::TooSmall { share: part, of, needed }.of("host.output_buffer", config.output_buffer)
            );
        }
        let cams = special
            .filter(|_| organisation == Organisation::Single)
            .map(|rule| Cams::new(Arc::clone(rule), 1, [Rate::default()].into(), lanes, false));
        let shape = Shape { inputs: 1, outputs: 1, lanes, organisation, control_first: false };
        let buffers = Buffers::new(shape, Routes::None, cams);
        Ok(Some(Box::new(Adapter::new(buffers, organisation, part))))
    }

    /// The virtual lane of every destination for the hosts of each switch, where service levels do
    /// not decide it.
    pub(super) fn destination_lanes(&self, switch: usize) -> Option<Arc<[u8]>> {
        let lanes = &self.config.lanes;
        let data: Vec<u8> = (0..lanes.count).filter(|&vl| lanes.control != Some(vl)).collect();
        let data = if data.is_empty() { vec![0] } else { data };
        let hosts = self.topology.hosts.len();
        match lanes.assignment {
            Assignment::ServiceLevel | Assignment::Paths | Assignment::Routing => None,
            Assignment::Destination => Some((0..hosts).map(|dst| data[dst % data.len()]).collect()),
            Assignment::Vftree => {
                let mut shared = vec![0; usize::from(u16::MAX) + 1];
                let lane = |port: &u16| {
                    let place: &mut usize = &mut shared[usize::from(*port)];
                    *place += 1;
                    data[(*place - 1) % data.len()]
                };
                Some(self.tables.out[switch].iter().map(lane).collect())
            }
        }
    }

    /// Service levels of paths, and the lane of each on hosts' links.
    pub(super) fn paths(&self) -> Option<Arc<Paths>> {
        let lanes = self.config.path_lanes.clone()?;
        let of_level = std::array::from_fn(|level| self.vl(level as u8));
        Some(Arc::new(Paths { lanes, of_level }))
    }

    /// The switch that each host's link leads to.
    pub(super) fn first_switches(&self) -> Vec<usize> {
        let mut first = vec![0; self.topology.hosts.len()];
        for (_, _, from, to) in self.directed() {
            if let (NodeRef::Host(host), NodeRef::Switch(switch)) = (from.node, to.node) {
                first[host as usize] = switch as usize;
            }
        }
        first
    }
}
