//! Sets up congestion management: the marking rules of switches and the reactions of hosts.

use std::num::NonZeroU32;

use silvan_engine::Rate;

use super::Builder;
use super::model::PacketChoice;
use crate::congestion::marking::{Marker, Outputs, Switches};
use crate::congestion::reaction::{ExplicitRate, Reaction, Reactor, SharedTables, Source};
use crate::congestion::receiver::{Responder, Sink};
use crate::congestion::round_trip::RoundTrip;
use crate::congestion::{Feedback, Notification};
use crate::error::{Reason, SetupError};
use crate::host::Announcer;
use crate::routing::adaptive::{AdaptiveTables, SwitchState};
use crate::routing::port_groups::PortGroups;
use crate::switch::{Chooser, Detourer, Director, FlowRoutes, Neighbours, PortWiring, Ports, Steering};
use crate::topology::{End, NodeRef};

/// The data that all reactions of a run share.
pub(super) struct Reactions<'a> {
    reaction: &'a Reaction,
    /// Present if the reaction needs it.
    round_trip: Option<&'a RoundTrip>,
    seed: u64,
    full_size: u32,
    mtu: u32,
    tables: SharedTables,
}

impl Builder<'_> {
    /// Creates the marking rule for the buffers of the switches, without states.
    pub(super) fn marking_rule(&self) -> Marker {
        let switch = &self.model.switch;
        self.model.parts.marking.marker(&Switches {
            lane: switch.lane,
            output_lane: switch.output_lane,
            full_space: self.model.full_space,
            queues_have_one_output: self.queues_have_one_output(),
        })
    }

    /// Creates the marking rule for the outputs of a switch.
    pub(super) fn marker(&self, rule: &Marker, switch: usize, wiring: &[Option<PortWiring>]) -> Marker {
        let face_hosts: Vec<bool> =
            wiring.iter().map(|port| port.is_some_and(|port| port.faces_host)).collect();
        let lanes = usize::from(self.model.lanes.count);
        let name = &self.topology.switches[switch].name;
        rule.at(&Outputs { seed: self.model.seed, switch, name, lanes, face_hosts: &face_hosts })
    }

    /// Sets how the marks of a switch reach sources.
    pub(super) fn set_way_back(&self, ports: &mut Ports) {
        let parts = &self.model.parts;
        let is_told = parts.notification == Notification::Backward;
        ports.marking.report = NonZeroU32::new(self.model.sizes.control).filter(|_| is_told);
        ports.marking.is_quantized = parts.feedback == Feedback::Quantized;
    }

    fn explicit_rates(&self) -> Option<ExplicitRate> {
        match &self.model.parts.reaction {
            Reaction::ExplicitRate(rates) => Some(rates.clone()),
            _ => None,
        }
    }

    /// Creates the announcer of a host, if flows are announced.
    pub(super) fn announcer(&self, rate: Rate) -> Option<Box<Announcer>> {
        let rates = self.explicit_rates();
        let announces = rates.is_some() || self.model.flow_routes.is_some();
        announces.then(|| Box::new(Announcer::new(rates, rate)))
    }

    /// Creates one director per switch, if flows are announced.
    pub(super) fn directors(&self) -> Result<Option<Vec<Director>>, SetupError> {
        let adaptive = self.model.flow_routes;
        if adaptive.is_none() && self.explicit_rates().is_none() {
            return Ok(None);
        }
        let mut rates: Vec<Vec<Rate>> =
            self.topology.switches.iter().map(|switch| vec![Rate(0); usize::from(switch.ports)]).collect();
        for (_, link, from, _) in self.directed() {
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
                FlowRoutes { table, state, heuristic: adaptive.heuristic }
            });
            Director::new(routes, rates.into_iter())
        };
        Ok(Some(rates.into_iter().map(director).collect()))
    }

    /// Creates one chooser per switch, if each packet is routed adaptively.
    pub(super) fn choosers(&self) -> Option<Vec<Chooser>> {
        let PacketChoice { grade, levels, pins_isolated, .. } = *self.model.packet_routes.as_ref()?;
        let groups = PortGroups::new(self.topology, self.tables).switches.into_iter();
        Some(
            groups
                .map(|choices| Chooser::new(choices, grade, levels, pins_isolated, self.model.seed))
                .collect(),
        )
    }

    /// The switches at the far ends of ports. Present if the length of detours matters.
    pub(super) fn neighbours(&self) -> Neighbours {
        if self.model.path_lanes.as_ref().is_none_or(|lanes| lanes.bias().is_none()) {
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
        let lanes = self.model.path_lanes.clone()?;
        Some(match lanes.bias() {
            None => Steering::Lanes(lanes),
            Some(bias) => Steering::Detours(
                lanes,
                Detourer::new(Neighbours::clone(neighbours), bias.0, self.model.seed),
            ),
        })
    }

    pub(super) fn reactions(&self) -> Reactions<'_> {
        Reactions {
            reaction: &self.model.parts.reaction,
            round_trip: self.model.round_trip.as_ref(),
            seed: self.model.seed,
            full_size: self.model.sizes.mtu + self.model.sizes.header,
            mtu: self.model.sizes.mtu,
            tables: SharedTables::default(),
        }
    }

    /// Creates the receiver component of a host whose link has the given rate.
    pub(super) fn responder(&self, rate: Rate) -> Responder {
        let (components, sizes) = (&self.model.parts, &self.model.sizes);
        let full_size = sizes.mtu + sizes.header;
        let coalescing = components.coalescing;
        let notification_delay = components.notification_delay;
        let mtu = sizes.mtu;
        let tables = SharedTables::default();
        let (round_trip, seed) = (self.model.round_trip.as_ref(), self.model.seed);
        let source = Source { host: 0, rate, full_size, mtu, round_trip, seed, tables: &tables };
        let pacing = components.reaction.pacing(&source);
        components.notification.responder(&Sink {
            coalescing,
            notification_delay,
            rate,
            mtu,
            full_size,
            pacing,
        })
    }
}

impl Reactions<'_> {
    /// Creates the reaction of a host whose link has the given rate.
    pub fn reactor(&self, host: u32, rate: Rate) -> Option<Reactor> {
        let Self { reaction, round_trip, seed, full_size, mtu, tables } = self;
        let (round_trip, seed, full_size, mtu) = (*round_trip, *seed, *full_size, *mtu);
        reaction.reactor(&Source { host, rate, full_size, mtu, round_trip, seed, tables })
    }
}
