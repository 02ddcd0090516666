//! Congestion management: marking rules of switches, reactions of hosts.

use std::num::NonZeroU32;
use std::sync::Arc;

use silvan_engine::random::Stream;
use silvan_engine::{Bytes, Rate, Time};

use super::Builder;
use super::model::PacketChoice;
use super::round_trip::RoundTrip;
use crate::congestion::marking::{self, BufferRule, FecnRule, Marker, Marking, Ruled, SampledRule};
use crate::congestion::reaction::{
    Cct, ExplicitRate, Function, MvcmRule, RateRule, Reaction, Rule, WindowRule,
};
use crate::congestion::{Feedback, Notification};
use crate::error::{Reason, SetupError};
use crate::host::Announcer;
use crate::port::PortVl;
use crate::routing::adaptive::{AdaptiveTables, SwitchState};
use crate::routing::port_groups::PortGroups;
use crate::switch::{Chooser, Detourer, Director, FlowRoutes, Neighbours, PortWiring, Ports, Steering};
use crate::topology::{End, NodeRef};

/// The marking rule of a run, in bytes.
pub(super) enum MarkingRule {
    None,
    Fecn(Arc<FecnRule>),
    Sampled(Arc<SampledRule>),
    Buffers(Arc<BufferRule>),
}

/// The reaction of a run: the data that its hosts' rules share.
pub(super) struct Reactions {
    reaction: Reaction,
    /// Present if the reaction needs it.
    round_trip: Option<RoundTrip>,
    seed: u64,
    full_size: u32,
    /// The congestion control table for each rate of a host's link.
    tables: Vec<(Rate, Arc<[u64]>)>,
}

/// A rule with the state of all output lanes.
fn ruled<R: marking::MarkingRule>(
    rule: &Arc<R>,
    lanes: impl Iterator<Item = PortVl>,
    state: impl Fn(PortVl) -> R::State,
) -> Ruled<R> {
    Ruled { rule: Arc::clone(rule), ports: lanes.map(state).collect() }
}

impl Builder<'_> {
    /// The marking rule for the buffers of this network's switches.
    pub(super) fn marking_rule(&self) -> Result<MarkingRule, SetupError> {
        let (marking, switch) = (&self.model.parts.marking, &self.model.switch);
        Ok(match marking {
            Marking::None => MarkingRule::None,
            Marking::Fecn(fecn) => {
                let rule = fecn.rule(Bytes(u64::from(switch.lane)), self.queues_have_one_output());
                let rule =
                    rule.map_err(|upper| Reason::LowerAboveUpper { upper }.at("congestion.marking.lower"))?;
                MarkingRule::Fecn(Arc::new(rule))
            }
            Marking::Sampled(sampled) => MarkingRule::Sampled(Arc::new(sampled.rule())),
            Marking::Ipm => {
                MarkingRule::Buffers(Arc::new(BufferRule::ipm(switch.lane, self.model.full_space)))
            }
            Marking::Opm(opm) => MarkingRule::Buffers(Arc::new(BufferRule::opm(opm, switch.output_lane))),
            Marking::Mvpm(mvpm) => {
                MarkingRule::Buffers(Arc::new(BufferRule::mvpm(mvpm, (switch.lane, switch.output_lane))))
            }
        })
    }

    pub(super) fn marker(&self, rule: &MarkingRule, switch: usize, wiring: &[Option<PortWiring>]) -> Marker {
        let lanes = usize::from(self.model.lanes.count);
        let all = PortVl::all(wiring.len(), lanes);
        let random = |lane: PortVl| {
            Stream::new(self.model.seed, "marking", (switch as u64) << 16 | lane.index() as u64)
        };
        match rule {
            MarkingRule::None => Marker::None,
            MarkingRule::Buffers(rule) => Marker::Buffers(ruled(rule, all, |_| ())),
            MarkingRule::Sampled(rule) => Marker::Sampled(ruled(rule, all, |lane| rule.port(random(lane)))),
            MarkingRule::Fecn(rule) => {
                let faces_host =
                    |lane: PortVl| wiring[lane.port(lanes).index()].is_some_and(|port| port.faces_host);
                let port = |lane| rule.port(wiring.len(), faces_host(lane), random(lane));
                Marker::Fecn(ruled(rule, all, port))
            }
        }
    }

    /// Configures how a switch's marks reach sources.
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

    /// The announcer of a host, where flows are announced.
    pub(super) fn announcer(&self, rate: Rate) -> Option<Box<Announcer>> {
        let rates = self.explicit_rates();
        let announces = rates.is_some() || self.model.flow_routes.is_some();
        announces.then(|| Box::new(Announcer::new(rates, rate)))
    }

    /// One director per switch, where flows are announced.
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

    /// One chooser per switch, if each packet is routed adaptively.
    pub(super) fn choosers(&self) -> Option<Vec<Chooser>> {
        let PacketChoice { grade, levels, pins_isolated, .. } = *self.model.packet_routes.as_ref()?;
        let groups = PortGroups::new(self.topology, self.tables).switches.into_iter();
        Some(
            groups
                .map(|choices| Chooser::new(choices, grade, levels, pins_isolated, self.model.seed))
                .collect(),
        )
    }

    /// The switches at the ends of ports, where the length of detours matters.
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

    /// The steering of a switch if packets change lanes along their routes.
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

    pub(super) fn reactions(&self) -> Reactions {
        let reaction = &self.model.parts.reaction;
        let full_size = self.model.sizes.mtu + self.model.sizes.header;
        let mut tables: Vec<(Rate, Arc<[u64]>)> = Vec::new();
        if let Reaction::Cct(cct) = reaction {
            for rate in self.topology.links.iter().map(|link| link.rate) {
                if !tables.iter().any(|(known, _)| *known == rate) {
                    tables.push((rate, cct.table.delays_ps(rate.pace().time(full_size)).into()));
                }
            }
        }
        Reactions {
            reaction: reaction.clone(),
            round_trip: self.model.round_trip,
            seed: self.model.seed,
            full_size,
            tables,
        }
    }
}

impl Reactions {
    /// The reaction rule of a host whose link has this rate.
    pub fn rule(&self, host: u32, rate: Rate) -> Option<Rule> {
        let any = u16::MAX;
        let rates = |function, window: Option<u16>| {
            Some(Rule::Rate(RateRule { function, window: window.unwrap_or(any), pace: rate.pace() }))
        };
        match &self.reaction {
            // The hosts announce their flows, and receive their rates.
            Reaction::None | Reaction::ExplicitRate(_) => None,
            Reaction::Cct(cct) => Some(Rule::Cct(self.cct(cct, host, rate))),
            Reaction::Qcn(qcn) => Some(Rule::Qcn(qcn.rule(rate))),
            Reaction::StaticWindow(window) => Some(Rule::Window(WindowRule(window.packets))),
            Reaction::Aimd(control) => {
                let (m, slowest) = (u32::from(control.m), u32::from(control.slowest));
                rates(Function::Aimd { m, slowest }, control.window)
            }
            Reaction::Fimd(control) => {
                let (m, slowest) = (u32::from(control.m), u32::from(control.slowest));
                rates(Function::Fimd { m, slowest }, control.window)
            }
            Reaction::Lipd(lipd) => {
                let delay = lipd.delay.unwrap_or_else(|| self.shortest());
                rates(Function::Lipd { delay, limit: u32::from(lipd.limit) }, lipd.window)
            }
            Reaction::Mvcm(mvcm) => {
                let trip = self.round_trip.as_ref();
                let limit = mvcm.limit.unwrap_or_else(|| trip.map_or(1, |trip| trip.stages.min(255) as u8));
                let radix = trip.map_or(1, |trip| trip.radix);
                Some(Rule::Mvcm(MvcmRule {
                    window: mvcm.window.unwrap_or_else(|| trip.map_or(1, RoundTrip::packets)),
                    slot: mvcm.slot.unwrap_or_else(|| self.shortest()),
                    factor: mvcm.factor.map_or(radix, u32::from),
                    limit: mvcm.limited.then_some(limit),
                    warm: mvcm.warm,
                }))
            }
        }
    }

    fn shortest(&self) -> Time {
        self.round_trip.as_ref().map_or(Time::ZERO, RoundTrip::shortest)
    }

    fn cct(&self, cct: &Cct, host: u32, rate: Rate) -> crate::congestion::reaction::CctRule {
        let table = self.tables.iter().find(|(known, _)| *known == rate);
        let delays = table.map_or_else(|| Arc::from([0]), |(_, table)| Arc::clone(table));
        let mut random = Stream::new(self.seed, "ccti timer", u64::from(host));
        cct.rule(delays, self.full_size, &mut random)
    }
}
