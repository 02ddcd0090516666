//! Sets up queues: the division of buffers in switches and host adapters, and the virtual lanes of
//! destinations.

use std::sync::Arc;

use silvan_congestion::isolation::Isolation;
use silvan_engine::units::BytePace;
use silvan_engine::{Bytes, Rate};
use silvan_network::port::{Lanes, Port};
use silvan_network::port_set::PortSet;
use silvan_network::topology::NodeRef;

use super::model::{Model, SwitchModel};
use super::{Builder, WiredChannel, small};
use crate::config::{Arbitration, Architecture, Assignment};
use crate::error::{Reason, SetupError};
use crate::host::{Adapter, Paths};
use crate::link::BufferDivision;
use crate::outputs::OutputQueues;
use crate::queueing::buffers::{BufferShape, Buffers, PortSelection};
use crate::queueing::isolation::Cams;
use crate::queueing::{Organisation, Queues};
use crate::switch::{CioqSwitch, Islip, Ports, QueuedSwitch, RoundRobin, Switches, VoqSwitch, fits_one_lane};

impl Builder<'_> {
    /// Whether each queue whose fill is reported to marking rules contains packets for only one output.
    pub(super) fn queues_have_one_output(&self) -> bool {
        let switch = &self.model.switch;
        if switch.arbitration == Arbitration::Fcfs {
            return true;
        }
        match &self.model.parts.isolation {
            // The special queue of a root contains packets by destination.
            Isolation::SpecialQueues(special) if special.at_root => self.destinations_have_one_output(),
            Isolation::SpecialQueues(_) | Isolation::None => switch.queues == Queues::PerOutput,
        }
    }

    /// Whether all packets to a destination have the same output at a switch during the whole run.
    fn destinations_have_one_output(&self) -> bool {
        let Model { flow_routes, packet_routes, config, .. } = &self.model;
        let detours = config.path_lanes.as_ref().is_some_and(|lanes| lanes.detours.is_some());
        let spreads = config.hashing().is_some() || config.path_bits.is_used() || detours;
        flow_routes.is_none() && packet_routes.is_none() && !spreads && self.reroutes.others.is_empty()
    }

    /// The division of a switch's input buffers into regions with separate credits, and the bytes of a region
    /// per lane. Fails if a region is smaller than a full packet.
    pub(super) fn division(&self, switch: usize) -> Result<(BufferDivision, u32), SetupError> {
        let SwitchModel { queues, organisation, shared, lane, queue_buffer, .. } = self.model.switch;
        if shared || queues == Queues::Single {
            return Ok((BufferDivision::Whole, lane));
        }
        let table = &self.tables.out[switch];
        let (division, regions) = if queues == Queues::PerDestination {
            (BufferDivision::PerDestination, table.len() as u32)
        } else {
            // There is one region per queue of the receiver.
            let regions = organisation.fixed(usize::from(self.topology.switches[switch].ports)) as u32;
            let output = |port: u16| Port(port.wrapping_sub(1));
            let region = |(dst, &port): (usize, &u16)| organisation.index(output(port), dst as u32) as u16;
            (BufferDivision::Table(table.iter().enumerate().map(region).collect(), regions), regions)
        };
        let given = queue_buffer.unwrap_or(Bytes(u64::from(lane / regions.max(1))));
        let block = self.model.sizes.credit_block;
        let size = small(given, "switch.queue_buffer")? / block * block;
        let needed = self.model.full_space;
        if size < needed {
            let reason = Reason::QueueTooSmall { queues: regions, size: given, needed };
            return Err(reason.at("switch.queue_buffer"));
        }
        Ok((division, size))
    }

    /// Whether switches are VOQ switches whose inputs share their memory and whose outputs serve inputs round
    /// robin, without special queues and without priority for control packets.
    pub(super) fn is_plain_voq(&self) -> bool {
        let SwitchModel { architecture, arbitration, queues, shared, control_first, .. } = self.model.switch;
        let plain = queues == Queues::PerOutput && shared && self.model.special.is_none() && !control_first;
        arbitration != Arbitration::Fcfs && architecture == Architecture::Voq && plain
    }

    /// How the outputs of switches queue packets; `None` if the outputs of a switch depend on each other.
    pub(super) fn output_queues(&self) -> Option<OutputQueues> {
        let SwitchModel { arbitration, control_first, .. } = self.model.switch;
        if arbitration == Arbitration::Fcfs {
            return Some(OutputQueues::Fifo { control_first });
        }
        self.is_plain_voq().then_some(OutputQueues::PerInput)
    }

    /// Builds the switches with the given ports.
    pub(super) fn switches(&self, ports: Vec<Ports>) -> Switches {
        let SwitchModel { architecture, arbitration, control_first, .. } = self.model.switch;
        let is_small = ports.iter().all(|ports| ports.count() <= 64);
        let all = ports.into_iter();
        if arbitration == Arbitration::Fcfs {
            return if self.model.lanes.count == 1 {
                Switches::Fifo(all.map(|ports| VoqSwitch::new(ports, control_first)).collect())
            } else {
                Switches::LanedFifo(all.map(|ports| VoqSwitch::new(ports, control_first)).collect())
            };
        }
        if self.is_plain_voq() {
            return if all.as_slice().iter().all(fits_one_lane) {
                Switches::Voq(all.map(|ports| VoqSwitch::new(ports, false)).collect())
            } else {
                Switches::LargeVoq(all.map(|ports| VoqSwitch::new(ports, false)).collect())
            };
        }
        match (architecture, is_small, self.model.lanes.count) {
            (Architecture::Cioq, true, 1) => Switches::Cioq(all.map(|ports| self.cioq(ports)).collect()),
            (Architecture::Cioq, true, _) => Switches::LanedCioq(all.map(|ports| self.cioq(ports)).collect()),
            (Architecture::Cioq, false, _) => {
                Switches::LargeCioq(all.map(|ports| self.cioq(ports)).collect())
            }
            (Architecture::Iq, true, 1) => Switches::Islip(all.map(|ports| self.islip(ports)).collect()),
            (Architecture::Iq, true, _) => Switches::LanedIslip(all.map(|ports| self.islip(ports)).collect()),
            (Architecture::Iq, false, _) => {
                Switches::LargeIslip(all.map(|ports| self.islip(ports)).collect())
            }
            (Architecture::Voq, true, 1) => {
                Switches::RoundRobin(all.map(|ports| self.round_robin(ports)).collect())
            }
            (Architecture::Voq, true, _) => {
                Switches::LanedRoundRobin(all.map(|ports| self.round_robin(ports)).collect())
            }
            (Architecture::Voq, false, _) => {
                Switches::LargeRoundRobin(all.map(|ports| self.round_robin(ports)).collect())
            }
        }
    }

    /// Builds the queues of a switch.
    fn buffers<S: PortSet, L: Lanes>(&self, ports: &Ports) -> Buffers<S, L> {
        let SwitchModel { organisation, control_first, .. } = self.model.switch;
        let (count, lanes) = (ports.count(), ports.lanes);
        let rates =
            || ports.wiring.iter().map(|port| port.map_or(Rate::default(), |port| port.rate)).collect();
        let special = self.model.special.as_ref();
        let cams = special.map(|rule| Cams::new(Arc::clone(rule), count, rates(), lanes, true));
        let shape = BufferShape { inputs: count, outputs: count, lanes, organisation, control_first };
        let routes = if ports.stores_routes() {
            PortSelection::Packet
        } else {
            PortSelection::Table(ports.table().clone())
        };
        Buffers::new(shape, routes, cams)
    }

    /// Builds a switch with buffers at inputs and outputs.
    fn cioq<S: PortSet, L: Lanes>(&self, ports: Ports) -> CioqSwitch<S, L> {
        let buffers = self.buffers(&ports);
        let crossbar = self.model.crossbar.unwrap_or(BytePace::INSTANT);
        CioqSwitch::new(ports, buffers, crossbar, self.model.switch.output_lane)
    }

    /// Builds a switch with any queues and one read port per input.
    fn islip<S: PortSet, L: Lanes>(&self, ports: Ports) -> QueuedSwitch<S, L, Islip<S>> {
        let SwitchModel { islip_iterations, islip_cell, .. } = self.model.switch;
        let mut buffers = self.buffers(&ports);
        buffers.note_wanted();
        let read = self.model.crossbar;
        let links = ports.wiring.iter().map(|port| port.map_or(BytePace::INSTANT, |port| port.rate.pace()));
        let cells = || links.map(|link| read.unwrap_or(link).time(islip_cell)).collect();
        let cells = (islip_cell > 0).then(cells);
        let arbiter = Islip::new(&ports, islip_iterations, cells, buffers.is_fifo());
        QueuedSwitch::new(ports, buffers, arbiter, read)
    }

    /// Builds a switch with any queues and one read port per queue.
    fn round_robin<S: PortSet, L: Lanes>(&self, ports: Ports) -> QueuedSwitch<S, L, RoundRobin<S>> {
        let buffers = self.buffers(&ports);
        let arbiter = RoundRobin::new(&ports, !self.model.switch.shared);
        QueuedSwitch::new(ports, buffers, arbiter, self.model.crossbar)
    }

    /// Builds the output buffer of a host, if it has one.
    pub(super) fn adapter(&self) -> Option<Box<Adapter>> {
        let (organisation, capacity) = self.model.host.output?;
        let lanes = usize::from(self.model.lanes.count);
        let special = self.model.special.as_ref();
        let cams = special
            .filter(|_| organisation == Organisation::Single)
            .map(|rule| Cams::new(Arc::clone(rule), 1, [Rate::default()].into(), lanes, false));
        let shape = BufferShape { inputs: 1, outputs: 1, lanes, organisation, control_first: false };
        let buffers = Buffers::new(shape, PortSelection::None, cams);
        Some(Box::new(Adapter::new(buffers, organisation, capacity)))
    }

    /// The virtual lane of each destination, for the hosts of a switch. `None` if service levels or routes
    /// determine lanes.
    pub(super) fn destination_lanes(&self, switch: usize) -> Option<Arc<[u8]>> {
        let data = &self.model.lanes.data;
        let hosts = self.topology.hosts.len();
        match self.model.lanes.assignment {
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

    /// The service levels of routes, and their lanes on the links of hosts; `None` if routes have no lanes.
    pub(super) fn paths(&self) -> Option<Arc<Paths>> {
        let lanes = self.model.config.path_lanes.clone()?;
        Some(Arc::new(Paths { lanes, of_level: self.model.lanes.of_levels() }))
    }

    /// The switch to which each host is connected.
    pub(super) fn first_switches(&self) -> Vec<usize> {
        let mut first = vec![0; self.topology.hosts.len()];
        for WiredChannel { from, to, .. } in self.directed() {
            if let (NodeRef::Host(host), NodeRef::Switch(switch)) = (from.node, to.node) {
                first[host as usize] = switch as usize;
            }
        }
        first
    }
}
