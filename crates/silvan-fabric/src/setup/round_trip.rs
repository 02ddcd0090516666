//! The longest round trip on an empty network of hosts that exchange traffic.
//!
//! Each set of hosts that exchange traffic, directly or through others, has its own round trip, so that the parameters of
//! its reactions do not depend on the traffic of other hosts. A round trip is the exact time from the start of a full
//! packet until its acknowledgement has arrived, on the routes of the forwarding tables.

use rustc_hash::FxHashMap;
use silvan_congestion::round_trip::RoundTrip;
use silvan_engine::{Bytes, Rate, Time};
use silvan_network::routing::port_groups::PortGroups;
use silvan_network::routing::{Lanes, Tables, trace_lanes};
use silvan_network::topology::{Link, NodeRef, Topology, Wiring};

use super::exchanges::{Exchanges, ExchangingHosts};
use crate::config::{Config, ForwardingMode, RoutePer};

/// The round trips of a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundTrips {
    /// The longest round trip of each set of hosts that exchange traffic. At least one.
    sets: Vec<RoundTrip>,
    of_host: Vec<Option<u32>>,
    /// The set with the longest round trip among those whose data packets leave at a switch and a port (from 1). Empty if
    /// there is one set.
    of_port: FxHashMap<(u32, u16), u32>,
}

impl RoundTrips {
    /// Computes the round trips of the traffic of a configuration.
    #[must_use]
    pub fn new(topology: &Topology, tables: &Tables, config: &Config) -> Self {
        let Exchanges { sets: traffic, of_host } = Exchanges::new(topology, config);
        let mut ways = RouteTimes::new(topology, tables, config);
        let sets: Vec<RoundTrip> =
            (0..).zip(&traffic).map(|(set, traffic)| ways.of_set(set, traffic, &of_host)).collect();
        let mut of_port = FxHashMap::default();
        if sets.len() > 1 {
            let has_choice = config.chosen_routes(RoutePer::Packet).is_some()
                || config.chosen_routes(RoutePer::Flow).is_some()
                || config.hashing().is_some();
            let groups =
                if has_choice { PortGroups::new(topology, tables) } else { PortGroups::of_tables(tables) };
            for (set, traffic) in (0u32..).zip(&traffic) {
                ways.mark_ports(&groups, traffic, &mut |port| {
                    let longest = of_port.entry(port).or_insert(set);
                    if sets[*longest as usize].shortest < sets[set as usize].shortest {
                        *longest = set;
                    }
                });
            }
        }
        Self { sets, of_host, of_port }
    }

    /// The number of sets of hosts that have no traffic with each other.
    #[must_use]
    pub fn count(&self) -> usize {
        self.sets.len()
    }

    /// The longest round trip of all.
    #[must_use]
    pub fn longest(&self) -> &RoundTrip {
        self.sets.iter().rev().max_by_key(|trip| trip.shortest).unwrap_or(&self.sets[0])
    }

    /// The shortest of the round trips of all sets.
    pub(super) fn least(&self) -> Time {
        self.sets.iter().map(|trip| trip.shortest).min().unwrap_or_default()
    }

    /// The round trip of a host's set. That of a host without traffic is the longest one.
    pub(super) fn of_host(&self, host: u32) -> &RoundTrip {
        let set = self.of_host.get(host as usize).copied().flatten();
        set.map_or_else(|| self.longest(), |set| &self.sets[set as usize])
    }

    /// The longest round trip of the sets whose data packets leave a switch at a port (from 1); the longest of all if there
    /// are none.
    pub(super) fn at_port(&self, switch: u32, port: u16) -> Time {
        let set = self.of_port.get(&(switch, port));
        set.map_or_else(|| self.longest(), |&set| &self.sets[set as usize]).shortest
    }
}

/// What crosses the network, as an index: a full packet, or its acknowledgement.
const DATA: usize = 0;
const ACK: usize = 1;

/// The part of a route that begins with a link.
#[derive(Debug, Clone, Copy)]
struct RestOfRoute {
    /// The time from the start of the transmission on the link until the tail arrives at the host.
    times: [Time; 2],
    /// Transmission times on the link.
    spans: [Time; 2],
    /// Number of switches.
    hops: u32,
}

/// The longest of several times.
#[derive(Debug, Clone, Copy, Default)]
struct Longest {
    time: Time,
    pair: (u32, u32),
    hops: u32,
}

impl Longest {
    fn add(&mut self, time: Time, pair: (u32, u32), hops: u32) {
        if time > self.time {
            (self.time, self.pair) = (time, pair);
        }
        self.hops = self.hops.max(hops);
    }
}

/// Hosts at one switch whose links have the same rate and delay.
struct EqualHosts {
    /// The link of one of the hosts.
    link: usize,
    /// The node at the other end of the links.
    at: NodeRef,
    hosts: Vec<u32>,
}

/// The times of packets on the routes of the forwarding tables.
struct RouteTimes<'a> {
    topology: &'a Topology,
    wiring: Wiring,
    tables: &'a Tables,
    /// Present if routes also depend on the source.
    lanes: Option<&'a Lanes>,
    config: &'a Config,
    /// For each switch, the rest of the route to a destination, and the number of the search that found it. `None` if
    /// there is no route.
    known: Vec<(u32, Option<RestOfRoute>)>,
    searches: u32,
    destination: u32,
}

impl<'a> RouteTimes<'a> {
    fn new(topology: &'a Topology, tables: &'a Tables, config: &'a Config) -> Self {
        let lanes = config.path_lanes.as_deref().filter(|lanes| lanes.detours.is_some());
        let known = vec![(0, None); topology.switches.len()];
        let wiring = topology.wiring();
        Self { topology, wiring, tables, lanes, config, known, searches: 0, destination: u32::MAX }
    }

    /// The longest round trip of a set of hosts.
    fn of_set(&mut self, set: u32, traffic: &[ExchangingHosts], of_host: &[Option<u32>]) -> RoundTrip {
        let mut longest = Longest::default();
        for exchange in traffic {
            match exchange {
                ExchangingHosts::Pairs(pairs) => {
                    pairs.iter().for_each(|&pair| self.add_pair(pair, &mut longest))
                }
                ExchangingHosts::All { senders, receivers } => self.add_all(senders, receivers, &mut longest),
            }
        }
        let stages = if self.topology.has_one_way_links() { longest.hops } else { longest.hops.div_ceil(2) };
        let (radix, rate) = self.at_hosts(|host| of_host[host as usize] == Some(set));
        let PacketBytes { data, ack } = self.bytes();
        RoundTrip {
            hops: longest.hops,
            stages,
            radix,
            shortest: longest.time,
            data: Bytes(data.into()),
            ack: Bytes(ack.into()),
            rate,
            pair: longest.pair,
        }
    }

    /// The largest number of hosts at one switch with an included host, and the rate of the slowest link on which an
    /// included host sends.
    fn at_hosts(&self, includes: impl Fn(u32) -> bool) -> (u32, Rate) {
        let (mut hosts, mut rate) = (vec![0u32; self.topology.switches.len()], None);
        let mut is_used = vec![false; self.topology.switches.len()];
        for link in &self.topology.links {
            for (from, to) in link.channels() {
                let (NodeRef::Host(host), NodeRef::Switch(switch)) = (from.node, to.node) else { continue };
                hosts[switch as usize] += 1;
                if includes(host) {
                    is_used[switch as usize] = true;
                    rate = Some(rate.map_or(link.rate, |rate: Rate| rate.min(link.rate)));
                }
            }
        }
        let radix =
            hosts.iter().zip(&is_used).filter(|(_, is_used)| **is_used).map(|(&hosts, _)| hosts).max();
        (radix.unwrap_or(1), rate.unwrap_or(Rate::from_gbit(1)))
    }

    fn bytes(&self) -> PacketBytes {
        let packet = &self.config.packet;
        PacketBytes { data: (packet.mtu.0 + packet.header.0) as u32, ack: packet.control.0 as u32 }
    }

    /// Prepends a link that leads to a node. `rest` is the route behind it; `None` if the node is the destination.
    fn behind(&self, link: usize, to: NodeRef, rest: Option<&RestOfRoute>) -> RestOfRoute {
        let Link { rate, delay, .. } = self.topology.links[link];
        let (pace, PacketBytes { data, ack }) = (rate.pace(), self.bytes());
        let spans = [pace.time(data), pace.time(ack)];
        let Some(rest) = rest.filter(|_| matches!(to, NodeRef::Switch(_))) else {
            return RestOfRoute { times: spans.map(|span| span + delay), spans, hops: 0 };
        };
        let head = delay + self.config.switch.latency;
        let stores = self.config.switch.forwarding == ForwardingMode::StoreAndForward;
        let until_next = |size: usize| {
            // The head of a packet waits at a faster link, so that its tail arrives in time.
            head + if stores { spans[size] } else { spans[size].saturating_sub(rest.spans[size]) }
        };
        let times = [DATA, ACK].map(|size| until_next(size) + rest.times[size]);
        RestOfRoute { times, spans, hops: rest.hops + 1 }
    }

    /// The route between two hosts; `None` if there is none.
    fn route(&self, (from, to): (u32, u32)) -> Option<RestOfRoute> {
        let routes = (self.tables, self.lanes);
        let path = trace_lanes(self.topology, &self.wiring, routes, from, to).ok()?;
        let links = path.channels.iter().rev();
        links.fold(None, |rest, channel| Some(self.behind(channel.link, channel.to.node, rest.as_ref())))
    }

    /// Adds the round trip of a pair. Without a route, there is none.
    fn add_pair(&self, pair: (u32, u32), longest: &mut Longest) {
        if let Some((there, back)) = self.route(pair).zip(self.route((pair.1, pair.0))) {
            longest.add(there.times[DATA] + back.times[ACK], pair, there.hops);
        }
    }

    /// Adds the round trips of all pairs of a sender and a receiver.
    fn add_all(&mut self, senders: &[u32], receivers: &[u32], longest: &mut Longest) {
        if self.lanes.is_some() {
            for pair in senders.iter().flat_map(|&from| receivers.iter().map(move |&to| (from, to))) {
                if pair.0 != pair.1 {
                    self.add_pair(pair, longest);
                }
            }
            return;
        }
        let near = self.neighbors(senders);
        let there = self.longest_way(&near, receivers, DATA);
        let back = self.longest_way(&self.neighbors(receivers), senders, ACK);
        longest.hops = longest.hops.max(there.hops);
        let most = there.time + back.time;
        self.add_pair(there.pair, longest);
        self.add_pair((back.pair.1, back.pair.0), longest);
        // Usually, one of these pairs has both the longest way there and the longest way back.
        for (hosts, &to) in receivers.iter().flat_map(|to| near.iter().map(move |hosts| (hosts, to))) {
            if longest.time >= most {
                return;
            }
            if self.way(hosts, to).is_some_and(|way| way.times[DATA] + back.time > longest.time) {
                for &from in hosts.hosts.iter().filter(|&&from| from != to) {
                    self.add_pair((from, to), longest);
                }
            }
        }
    }

    /// Groups hosts that are equally far from all others.
    fn neighbors(&self, hosts: &[u32]) -> Vec<EqualHosts> {
        let mut number = FxHashMap::default();
        let mut found: Vec<EqualHosts> = Vec::new();
        for &host in hosts {
            let Some((end, link)) = self.wiring.hosts[host as usize] else { continue };
            let Link { rate, delay, .. } = self.topology.links[link];
            let at = *number.entry((end.node, rate, delay)).or_insert_with(|| {
                found.push(EqualHosts { link, at: end.node, hosts: Vec::new() });
                found.len() - 1
            });
            found[at].hosts.push(host);
        }
        found
    }

    /// The longest way of a packet from any of the hosts to any destination.
    fn longest_way(&mut self, from: &[EqualHosts], to: &[u32], size: usize) -> Longest {
        let mut longest = Longest::default();
        for (hosts, &to) in to.iter().flat_map(|to| from.iter().map(move |hosts| (hosts, to))) {
            let Some(&other) = hosts.hosts.iter().find(|&&host| host != to) else { continue };
            if let Some(way) = self.way(hosts, to) {
                longest.add(way.times[size], (other, to), way.hops);
            }
        }
        longest
    }

    /// The route from hosts to a destination.
    fn way(&mut self, from: &EqualHosts, to: u32) -> Option<RestOfRoute> {
        let NodeRef::Switch(switch) = from.at else {
            return (from.at == NodeRef::Host(to)).then(|| self.behind(from.link, from.at, None));
        };
        let rest = self.rest_from(switch, to)?;
        Some(self.behind(from.link, from.at, Some(&rest)))
    }

    /// The route from a switch to a host, without detours.
    fn rest_from(&mut self, switch: u32, to: u32) -> Option<RestOfRoute> {
        if self.destination != to {
            (self.destination, self.searches) = (to, self.searches + 1);
        }
        // The switches and links of the route up to one whose rest is known.
        let (mut at, mut passed) = (switch, Vec::new());
        let mut rest = loop {
            if self.known[at as usize].0 == self.searches {
                break self.known[at as usize].1;
            }
            let port = usize::from(self.tables.port(at as usize, to as usize));
            let next = self.wiring.switches[at as usize].get(port.wrapping_sub(1)).copied().flatten();
            // A switch that is passed again has no route, because it is known from now on.
            self.known[at as usize] = (self.searches, None);
            let Some((end, link)) = next else { break None };
            if let NodeRef::Switch(next) = end.node {
                passed.push((at, link, end.node));
                at = next;
                continue;
            }
            let last = (end.node == NodeRef::Host(to)).then(|| self.behind(link, end.node, None));
            self.known[at as usize].1 = last;
            break last;
        };
        for (at, link, next) in passed.into_iter().rev() {
            rest = rest.map(|rest| self.behind(link, next, Some(&rest)));
            self.known[at as usize].1 = rest;
        }
        rest
    }

    /// Calls a function for each port of a switch at which data packets of the traffic may leave.
    fn mark_ports(
        &self,
        groups: &PortGroups,
        traffic: &[ExchangingHosts],
        mark: &mut impl FnMut((u32, u16)),
    ) {
        let mut visited = vec![u32::MAX; self.topology.switches.len()];
        let mut follow = |from: u32, to: u32| {
            let mut open: Vec<NodeRef> =
                self.wiring.hosts[from as usize].iter().map(|(end, _)| end.node).collect();
            while let Some(node) = open.pop() {
                let NodeRef::Switch(switch) = node else { continue };
                if std::mem::replace(&mut visited[switch as usize], to) == to {
                    continue;
                }
                for &port in groups.ports(switch as usize, to as usize) {
                    mark((switch, port));
                    let ports = &self.wiring.switches[switch as usize];
                    open.extend(ports[usize::from(port) - 1].map(|(end, _)| end.node));
                }
            }
        };
        for exchange in traffic {
            match exchange {
                // These are in the order of their receivers.
                ExchangingHosts::Pairs(pairs) => pairs.iter().for_each(|&(from, to)| follow(from, to)),
                ExchangingHosts::All { senders, receivers } => {
                    for &to in receivers {
                        senders.iter().for_each(|&from| follow(from, to));
                    }
                }
            }
        }
    }
}

/// Bytes on the wire.
struct PacketBytes {
    /// A full packet.
    data: u32,
    /// An acknowledgement.
    ack: u32,
}

#[cfg(test)]
mod tests {
    use silvan_engine::random::Stream;

    use super::*;
    use crate::tests::{config, tables, topology};

    /// The search over all pairs at once finds the same as a search pair by pair, whatever the links are.
    #[test]
    fn the_longest_round_trip_of_all_pairs_is_found() {
        let shapes = [
            r#"{"kind": "two-level-fat-tree", "leaves": 4, "spines": 2, "hosts_per_leaf": 3}"#,
            r#"{"kind": "torus", "sizes": [3, 4]}"#,
            r#"{"kind": "star", "hosts": 5}"#,
        ];
        let mut config = config(Time::from_us(1));
        for (shape, seed) in shapes.iter().flat_map(|shape| (0..30).map(move |seed| (shape, seed))) {
            let mut topology = topology(shape);
            let tables = tables(&topology);
            let mut random = Stream::new(seed, "links", 0);
            for link in &mut topology.links {
                link.delay = Time::from_ns(u64::from(random.below(3 + 100 * (seed as u32 % 2))));
                link.rate = Rate::from_gbit(u64::from(1 + random.below(1 + seed as u32 % 3)));
            }
            config.switch.forwarding =
                [ForwardingMode::CutThrough, ForwardingMode::StoreAndForward][seed as usize % 2];
            let hosts: Vec<u32> = (0..topology.hosts.len() as u32).collect();
            let (senders, receivers) =
                (&hosts[..hosts.len() - seed as usize % 3], &hosts[seed as usize % 2..]);
            let mut ways = RouteTimes::new(&topology, &tables, &config);
            let (mut all, mut one_by_one) = (Longest::default(), Longest::default());
            ways.add_all(senders, receivers, &mut all);
            for pair in senders.iter().flat_map(|&from| receivers.iter().map(move |&to| (from, to))) {
                if pair.0 != pair.1 {
                    ways.add_pair(pair, &mut one_by_one);
                }
            }
            assert_eq!((all.time, all.hops), (one_by_one.time, one_by_one.hops), "{shape} {seed}");
            assert!(all.time > Time::ZERO);
        }
    }
}
