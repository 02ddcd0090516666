//! Sets up congestion management: the marking rules of switches and the reactions of hosts.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_congestion::marking::{Marker, OutputFacts, SwitchFacts, SwitchOutputs};
use silvan_congestion::reaction::{ExplicitRate, Reaction, Reactor, SharedTables, Source};
use silvan_congestion::receiver::{Responder, Sink};
use silvan_congestion::{Feedback, Notification};
use silvan_engine::Rate;
use silvan_network::routing::Tables;
use silvan_network::routing::adaptive::{AdaptiveTables, SwitchState};
use silvan_network::routing::ecmp::{Hash, Selection};
use silvan_network::routing::port_groups::{Choices, PortGroups};
use silvan_network::topology::{End, NodeRef, Topology};

use super::model::{Model, PacketChoice};
use super::round_trip::RoundTrips;
use super::{Builder, WiredChannel};
use crate::error::{Reason, SetupError};
use crate::host::{Announcer, Host};
use crate::switch::{
    AnnouncedRoutes, Detourer, Director, Neighbours, PortChooser, PortLayout, Ports, Steering,
};

/// The data that all reactions of a run share.
pub(super) struct Reactions<'a> {
    /// The reaction of most hosts, then those of [`Components::hosts`], each with the tables that its hosts
    /// share.
    of: Vec<(&'a Reaction, SharedTables)>,
    /// See [`Model::own_reactions`].
    own: &'a FxHashMap<u32, usize>,
    /// Present if a reaction or the marking rule needs it.
    round_trips: Option<&'a RoundTrips>,
    /// Whether switches trim packets.
    trims: bool,
    seed: u64,
    full_size: u32,
    mtu: u32,
}

impl Builder<'_> {
    /// Creates the marking rule for the buffers of the switches, without the states of outputs.
    pub(super) fn marking_rule(&self) -> Marker {
        let switch = &self.model.switch;
        self.model.parts.marking.marker(&SwitchFacts {
            lane: switch.lane,
            output_lane: switch.output_lane,
            full_space: self.model.full_space,
            queues_have_one_output: self.queues_have_one_output(),
            slowest: self.topology.links.iter().map(|link| link.rate).min().unwrap_or_default(),
            round_trip: self.model.round_trips.as_ref().map(RoundTrips::least),
        })
    }

    /// Creates the marking rule for the outputs of a switch.
    pub(super) fn marker(&self, rule: &Marker, switch: usize, wiring: &[Option<PortLayout>]) -> Marker {
        let trips = self.model.round_trips.as_ref();
        let port = |(number, port): (u16, &Option<PortLayout>)| {
            port.map_or_else(Default::default, |PortLayout { faces_host, rate, .. }| OutputFacts {
                faces_host,
                rate,
                round_trip: trips.map(|trips| trips.at_port(switch as u32, number)),
            })
        };
        let ports: Vec<_> = (1..).zip(wiring).map(port).collect();
        let lanes = usize::from(self.model.lanes.count);
        let name = &self.topology.switches[switch].name;
        rule.at(&SwitchOutputs { seed: self.model.config.seed, switch, name, lanes, ports: &ports })
    }

    /// Sets whether a switch reports marks directly to sources, and whether its marks contain the severity of
    /// congestion.
    pub(super) fn set_way_back(&self, ports: &mut Ports) {
        let parts = &self.model.parts;
        let is_told = parts.notification == Notification::Backward;
        ports.marking.report = NonZeroU32::new(self.model.sizes.control).filter(|_| is_told);
        ports.marking.is_quantized = parts.feedback == Feedback::Quantized;
    }

    fn reaction_of(&self, host: u32) -> &Reaction {
        let Model { parts, own_reactions, .. } = &self.model;
        let own = own_reactions.get(&host).and_then(|&index| parts.hosts.get(index));
        own.map_or(&parts.reaction, |setting| &setting.reaction)
    }

    fn explicit_rates(reaction: &Reaction) -> Option<ExplicitRate> {
        match reaction {
            Reaction::ExplicitRate(rates) => Some(rates.clone()),
            _ => None,
        }
    }

    /// Creates the announcer of a host, if its flows are announced.
    pub(super) fn announcer(&self, host: u32, rate: Rate) -> Option<Box<Announcer>> {
        let rates = Self::explicit_rates(self.reaction_of(host));
        let announces = rates.is_some() || self.model.flow_routes.is_some();
        announces.then(|| Box::new(Announcer::new(rates, rate)))
    }

    /// Creates one director per switch, if flows are announced. Fails if routing is adaptive per flow and the
    /// topology does not support it.
    pub(super) fn directors(&self) -> Result<Option<Vec<Director>>, SetupError> {
        let adaptive = self.model.flow_routes;
        if adaptive.is_none() && Self::explicit_rates(&self.model.parts.reaction).is_none() {
            return Ok(None);
        }
        let mut rates: Vec<Vec<Rate>> =
            self.topology.switches.iter().map(|switch| vec![Rate(0); usize::from(switch.ports)]).collect();
        for WiredChannel { link, from, .. } in self.directed() {
            if let NodeRef::Switch(switch) = from.node {
                rates[switch as usize][usize::from(from.port) - 1] = link.rate;
            }
        }
        let mut tables = match adaptive {
            None => None,
            Some(_) => {
                let tables = AdaptiveTables::new(self.topology);
                let tables =
                    tables.map_err(|error| Reason::NotAdaptive(error.to_string()).at("adaptive_routing"))?;
                Some(tables.switches.into_iter())
            }
        };
        let director = |rates: Vec<Rate>| {
            let routes = tables.as_mut().and_then(Iterator::next).zip(adaptive).map(|(table, adaptive)| {
                let state = SwitchState::new(&table, adaptive.cache);
                AnnouncedRoutes { table, state, heuristic: adaptive.heuristic }
            });
            Director::new(routes, rates.into_iter())
        };
        Ok(Some(rates.into_iter().map(director).collect()))
    }

    /// Creates one port chooser per switch, if each packet is routed adaptively.
    pub(super) fn choosers(&self) -> Option<Vec<PortChooser>> {
        let PacketChoice { grade, levels, pins_isolated, .. } = *self.model.packet_routes.as_ref()?;
        let groups = PortGroups::new(self.topology, self.tables).switches.into_iter();
        Some(
            groups
                .map(|choices| {
                    PortChooser::new(choices, grade, levels, pins_isolated, self.model.config.seed)
                })
                .collect(),
        )
    }

    /// For each switch, the ports that its tables permit, and the hash function that selects among them.
    /// `None` unless switches hash packets onto ports or packets use several LIDs of hosts.
    pub(super) fn hashing(&self, topology: &Topology, tables: &Tables) -> Option<Vec<(Arc<Choices>, Hash)>> {
        let path_bits = self.model.config.path_bits;
        if path_bits.is_used() {
            let hash = Hash::of_lids(path_bits, tables.lids());
            let switches = PortGroups::of_lids(tables).switches.into_iter();
            return Some(switches.map(|choices| (choices, hash)).collect());
        }
        let ecmp = self.model.config.hashing()?;
        let groups = PortGroups::new(topology, tables);
        let hashes: Vec<Hash> = match ecmp.selection {
            Selection::Hash => (0..groups.switches.len() as u64)
                .map(|switch| Hash::new(self.model.config.seed, switch))
                .collect(),
            Selection::SourceRoute => {
                let place_values = groups.place_values(topology).0.into_iter();
                // There are at least as many entropy values as routes.
                place_values.map(|value| Hash::of_source_routes(value as u16)).collect()
            }
        };
        Some(groups.switches.into_iter().zip(hashes).collect())
    }

    /// For each switch and port, the switch at the far end, or `u32::MAX`. Empty unless switches choose
    /// between minimal routes and detours.
    pub(super) fn neighbours(&self) -> Neighbours {
        if self.model.config.path_lanes.as_ref().is_none_or(|lanes| lanes.bias().is_none()) {
            return Neighbours::from([]);
        }
        let wiring = self.topology.wiring();
        let far = |peer: &Option<(End, usize)>| match peer.map(|(end, _)| end.node) {
            Some(NodeRef::Switch(switch)) => switch,
            _ => u32::MAX,
        };
        wiring.switches.iter().map(|ports| ports.iter().map(far).collect()).collect()
    }

    /// The steering of a switch, if packets change lanes along their routes.
    pub(super) fn steering_by_lanes(&self, neighbours: &Neighbours) -> Option<Steering> {
        let lanes = self.model.config.path_lanes.clone()?;
        Some(match lanes.bias() {
            None => Steering::Lanes(lanes),
            Some(bias) => Steering::Detours(
                lanes,
                Detourer::new(Neighbours::clone(neighbours), bias.0, self.model.config.seed),
            ),
        })
    }

    pub(super) fn reactions(&self) -> Reactions<'_> {
        Reactions {
            of: self.model.parts.reactions().map(|reaction| (reaction, SharedTables::default())).collect(),
            own: &self.model.own_reactions,
            round_trips: self.model.round_trips.as_ref(),
            trims: self.model.switch.trimming.is_some(),
            seed: self.model.config.seed,
            full_size: self.model.sizes.mtu + self.model.sizes.header,
            mtu: self.model.sizes.mtu,
        }
    }

    /// Groups of ports that share the windows to their destinations: those of a host with the same reaction.
    pub(super) fn sharing_windows(&self) -> Vec<Vec<u32>> {
        let mut groups: BTreeMap<(usize, Option<usize>), Vec<u32>> = BTreeMap::new();
        for (at, machine) in self.topology.machines.iter().enumerate() {
            for &port in machine.ports.iter().filter(|&&port| self.reaction_of(port).is_of_destinations()) {
                let reaction = self.model.own_reactions.get(&port).copied();
                groups.entry((at, reaction)).or_default().push(port);
            }
        }
        groups.into_values().collect()
    }

    /// Lets the ports of each group share the states of their reactions.
    pub(super) fn share_windows(&self, hosts: &mut [Host], groups: &[Vec<u32>]) {
        if groups.is_empty() {
            return;
        }
        let mut host_of: Vec<u32> = vec![0; hosts.len()];
        self.ports_of_machines().for_each(|(port, at)| host_of[port as usize] = at);
        let host_of: Arc<[u32]> = host_of.into();
        for group in groups {
            let first = group.first().and_then(|&port| hosts[port as usize].reactor.take());
            for &port in group {
                let reactor = hosts[port as usize].reactor.as_mut();
                if let (Some(reactor), Some(first)) = (reactor, &first) {
                    reactor.share_with(first);
                    reactor.set_hosts(Arc::clone(&host_of));
                }
            }
            if let (Some(&port), Some(mut reactor)) = (group.first(), first) {
                reactor.set_hosts(Arc::clone(&host_of));
                hosts[port as usize].reactor = Some(reactor);
            }
        }
    }

    /// Creates the receiver component of a host whose link has the given rate.
    pub(super) fn responder(&self, host: u32, rate: Rate) -> Responder {
        let (components, sizes) = (&self.model.parts, &self.model.sizes);
        let full_size = sizes.mtu + sizes.header;
        let (coalescing, unit) = (components.coalescing, components.acknowledge);
        let notification_delay = components.notification_delay;
        let mtu = sizes.mtu;
        let tables = SharedTables::default();
        let round_trip = self.model.round_trips.as_ref().map(|trips| trips.of_host(host));
        let seed = self.model.config.seed;
        let trims = self.model.switch.trimming.is_some();
        let source = Source { host, rate, full_size, mtu, round_trip, trims, seed, tables: &tables };
        let pacing = self.reaction_of(host).pacing(&source);
        components.notification.responder(&Sink {
            coalescing,
            unit,
            notification_delay,
            rate,
            mtu,
            full_size,
            pacing,
        })
    }
}

impl Reactions<'_> {
    /// Creates the reaction of a host whose link has the given rate; `None` without a reaction.
    pub fn reactor(&self, host: u32, rate: Rate) -> Option<Reactor> {
        let own = self.own.get(&host).map_or(0, |index| index + 1);
        let (reaction, tables) = self.of.get(own)?;
        let &Self { round_trips, trims, seed, full_size, mtu, .. } = self;
        let round_trip = round_trips.map(|trips| trips.of_host(host));
        reaction.reactor(&Source { host, rate, full_size, mtu, round_trip, trims, seed, tables })
    }
}
