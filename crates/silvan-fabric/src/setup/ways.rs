//! Computes the latency and the rates of the routes between two hosts of an empty network. The shortest
//! possible delivery time of a message follows from them.
//!
//! If the tables determine the route, the values are those of that route. If flows or packets select routes,
//! they are the latency of the fastest route, the rate of the widest route, and the total rate of all routes.
//! No message can arrive earlier. If switches store packets, the first packet determines the time before the
//! slowest link, and the last packet the time behind it.

use rustc_hash::FxHashMap;
use silvan_engine::{Rate, Time};
use silvan_network::routing;
use silvan_network::routing::adaptive::AdaptiveTables;
use silvan_network::routing::port_groups::PortGroups;
use silvan_network::routing::valiant::Detours;
use silvan_network::topology::{End, NodeRef, Topology, Wiring};

use super::{Builder, Model};
use crate::jobs::{StoredLinks, Way};

/// The best properties of the remaining routes from a position to the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RemainingRoute {
    /// The latency of the first byte on the fastest route.
    latency: Time,
    /// The rate of the widest route.
    widest: Rate,
    /// The total rate of all routes.
    together: Rate,
    /// The links other than the slowest one; none with cut-through switches.
    stored: StoredLinks,
}

impl RemainingRoute {
    /// The position is the destination.
    const THERE: Self = Self {
        latency: Time::ZERO,
        widest: Rate(u64::MAX),
        together: Rate(u64::MAX),
        stored: StoredLinks { before: 0, after: 0 },
    };
    /// There is no route.
    const NONE: Self = Self { latency: Time::NEVER, widest: Rate(0), together: Rate(0), ..Self::THERE };

    /// Prepends a link, and the switch at its end if there is one. `stores` states whether switches store packets.
    fn behind(self, delay: Time, rate: Rate, stores: bool) -> Self {
        if self == Self::NONE {
            return self;
        }
        let latency = self.latency + delay;
        let StoredLinks { before, after } = self.stored;
        let stored = if !stores || self == Self::THERE {
            StoredLinks::default()
        } else if rate < self.widest {
            let behind = before.saturating_add(after).saturating_add(StoredLinks::per_byte(self.widest));
            StoredLinks { before: 0, after: behind }
        } else {
            StoredLinks { before: before.saturating_add(StoredLinks::per_byte(rate)), after }
        };
        Self { latency, widest: self.widest.min(rate), together: self.together.min(rate), stored }
    }

    /// Combines alternative routes.
    fn combined_with(self, other: Self) -> Self {
        // The first and the last packet may take different routes. The last one is not larger, so it gives a lower bound.
        let stored = match (self == Self::NONE, other == Self::NONE) {
            (true, _) => other.stored,
            (_, true) => self.stored,
            (false, false) => {
                let both = [self, other].map(|one| one.stored.of_last());
                StoredLinks { before: 0, after: both[0].after.min(both[1].after) }
            }
        };
        Self {
            latency: self.latency.min(other.latency),
            widest: self.widest.max(other.widest),
            together: Rate(self.together.0.saturating_add(other.together.0)),
            stored,
        }
    }
}

/// A switch and the port (from 1) at which packets arrived.
type Place = (u32, u16);

/// The routes that packets may take.
enum LaneRoutes<'a> {
    /// The route of the tables.
    Fixed,
    /// The routes of the tables to all LIDs.
    Lids,
    /// Each packet uses any port of a group.
    Packets(PortGroups),
    /// Each flow selects a port of extended tables.
    Flows(AdaptiveTables),
    /// Each packet takes the minimal route or a route through any other group.
    Detours(&'a Detours),
}

/// The routes of messages of one service level, computed destination by destination.
pub(super) struct MessageRoutes<'a> {
    topology: &'a Topology,
    wiring: Wiring,
    tables: &'a routing::Tables,
    model: &'a Model<'a>,
    routes: LaneRoutes<'a>,
    /// The remaining route from each position, for the destination of the last query.
    known: FxHashMap<Place, RemainingRoute>,
    destination: u32,
}

impl Builder<'_> {
    /// The routes of messages of a service level.
    pub(super) fn ways(&self, sl: u8) -> Result<MessageRoutes<'_>, String> {
        let detours = self.model.config.path_lanes.as_deref().and_then(|lanes| lanes.detours.as_ref());
        let chooses = |levels: u16| levels >> sl & 1 == 1;
        let is_free = self.model.packet_routes.as_ref().is_some_and(|choice| chooses(choice.levels));
        let routes = if self.model.config.path_bits.is_used() {
            LaneRoutes::Lids
        } else if is_free || self.model.config.hashing().is_some() {
            LaneRoutes::Packets(PortGroups::new(self.topology, self.tables))
        } else if self.model.flow_routes.is_some() {
            LaneRoutes::Flows(AdaptiveTables::new(self.topology).map_err(|error| error.to_string())?)
        } else {
            match detours.filter(|detours| detours.bias().is_some()) {
                Some(detours) => LaneRoutes::Detours(detours),
                None => LaneRoutes::Fixed,
            }
        };
        Ok(MessageRoutes {
            topology: self.topology,
            wiring: self.topology.wiring(),
            tables: self.tables,
            model: &self.model,
            routes,
            known: FxHashMap::default(),
            destination: u32::MAX,
        })
    }
}

impl MessageRoutes<'_> {
    /// The latency and the rates of messages between two hosts. Fails if the tables have no route, even if
    /// packets may take other routes.
    pub fn between(&mut self, from: u32, to: u32) -> Result<Way, String> {
        let routes = (self.tables, self.model.config.path_lanes.as_deref());
        let path = routing::trace_lanes(self.topology, &self.wiring, routes, from, to);
        let path = path.map_err(|error| error.to_string())?;
        let links = path.channels.iter().map(|channel| (channel.link, channel.to));
        let reach = match &self.routes {
            LaneRoutes::Fixed => self.along(links),
            LaneRoutes::Lids => {
                let paths = routing::trace_lids(self.topology, &self.wiring, self.tables, from, to)?;
                let links = |path: &routing::Path| -> Vec<(usize, End)> {
                    path.channels.iter().map(|channel| (channel.link, channel.to)).collect()
                };
                let ways = paths.iter().map(|path| self.along(links(path).into_iter()));
                ways.fold(RemainingRoute::NONE, RemainingRoute::combined_with)
            }
            LaneRoutes::Detours(detours) => {
                self.detours(detours, (from, to)).combined_with(self.along(links))
            }
            LaneRoutes::Packets(_) | LaneRoutes::Flows(_) => {
                if self.destination != to {
                    self.known.clear();
                    self.destination = to;
                }
                match path.channels.first() {
                    Some(first) => self.after(first.link, first.to),
                    None => RemainingRoute::THERE,
                }
            }
        };
        let last = path.channels.last().map_or(Rate(u64::MAX), |last| self.topology.links[last.link].rate);
        let first = path.channels.first().map_or(last, |first| self.topology.links[first.link].rate);
        let host = &self.model.host;
        let together = reach.together.min(first).min(last);
        let spacing = host.injection_rate(together);
        // If the host is slower than the links, all of these follow the slowest stage.
        let stored = if spacing < together { reach.stored.of_last() } else { reach.stored };
        Ok(Way {
            latency: reach.latency,
            spacing,
            drain: host.drain_rate(together),
            last: host.drain_rate(reach.widest),
            stored,
        })
    }

    /// The properties of a route, given as links and their far ends.
    fn along(&self, links: impl DoubleEndedIterator<Item = (usize, End)>) -> RemainingRoute {
        links.rev().fold(RemainingRoute::THERE, |reach, (link, end)| self.behind(reach, link, end))
    }

    fn behind(&self, reach: RemainingRoute, link: usize, end: End) -> RemainingRoute {
        let inside = matches!(end.node, NodeRef::Switch(_));
        let latency = if inside { self.model.switch.latency } else { Time::ZERO };
        let link = &self.topology.links[link];
        reach.behind(link.delay + latency, link.rate, self.model.switch.stores)
    }

    /// The combined properties of all routes through other groups.
    fn detours(&self, detours: &Detours, (from, to): (u32, u32)) -> RemainingRoute {
        let pair = (from as usize, to as usize);
        // The groups of neither host, one by one.
        let others = 0..(detours.groups() as u64).saturating_sub(2);
        let others = others.filter_map(|number| detours.third(number, pair.0, pair.1));
        let way = |group: usize| {
            let mut links: Vec<(usize, End)> = Vec::new();
            let mut next = self.wiring.hosts[pair.0].map(|(end, link)| (link, end));
            while let Some((link, end)) = next {
                links.push((link, end));
                let NodeRef::Switch(at) = end.node else { break };
                let table = self.tables.port(at as usize, pair.1);
                let port = detours.step_over(at as usize, table, pair, Some(group)).0;
                next = self.peer(at, port);
            }
            self.along(links.into_iter())
        };
        others.map(way).fold(RemainingRoute::NONE, RemainingRoute::combined_with)
    }

    /// The link at a port (from 1) of a switch, with its far end.
    fn peer(&self, switch: u32, port: u16) -> Option<(usize, End)> {
        let ports = &self.wiring.switches[switch as usize];
        ports.get(usize::from(port).wrapping_sub(1)).copied().flatten().map(|(end, link)| (link, end))
    }

    /// The ports through which packets may continue to the current destination.
    fn ports(&self, (switch, input): Place) -> Vec<u16> {
        let to = self.destination;
        let mut ports = match &self.routes {
            LaneRoutes::Packets(groups) => groups.ports(switch as usize, to as usize).to_vec(),
            LaneRoutes::Flows(tables) => {
                let (default, others) = tables.switches[switch as usize].candidates(input, to);
                [&[default], others].concat()
            }
            LaneRoutes::Fixed | LaneRoutes::Lids | LaneRoutes::Detours(_) => Vec::new(),
        };
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// The remaining route to the current destination that begins with the given link.
    fn after(&mut self, link: usize, end: End) -> RemainingRoute {
        let NodeRef::Switch(switch) = end.node else { return self.behind(RemainingRoute::THERE, link, end) };
        let mut open = vec![(switch, end.port)];
        while let Some(&place) = open.last() {
            let onward: Vec<(usize, End)> =
                self.ports(place).into_iter().filter_map(|port| self.peer(place.0, port)).collect();
            if self.known.contains_key(&place) {
                // All following positions have been visited.
                let best = onward.into_iter().map(|(link, end)| self.behind(self.reach(end), link, end));
                let best = best.fold(RemainingRoute::NONE, RemainingRoute::combined_with);
                self.known.insert(place, best);
                open.pop();
                continue;
            }
            self.known.insert(place, RemainingRoute::NONE);
            for (_, end) in onward {
                if let NodeRef::Switch(next) = end.node
                    && !self.known.contains_key(&(next, end.port))
                {
                    open.push((next, end.port));
                }
            }
        }
        self.behind(self.reach(end), link, end)
    }

    /// The remaining route from the end of a link, or no route if it has not been computed.
    fn reach(&self, end: End) -> RemainingRoute {
        match end.node {
            NodeRef::Host(_) => RemainingRoute::THERE,
            NodeRef::Switch(switch) => {
                self.known.get(&(switch, end.port)).copied().unwrap_or(RemainingRoute::NONE)
            }
        }
    }
}
