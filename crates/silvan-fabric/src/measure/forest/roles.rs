//! Who feeds a tree, and who only suffers: found from the packets inside the network and their ways.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use super::moment::{Map, Moment};
use super::{NONE, Nodes};
use crate::config::Config;
use crate::core::Core;
use crate::host::Host;
use crate::packet::{Kind, Packet};
use crate::routing::adaptive::FlowKey;
use crate::traffic::Pattern;
use crate::traffic::source::{Chooser, Clock};

/// What one host's packets of one class have to do with one tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub tree: u32,
    pub class: u16,
    pub host: u32,
}

/// A [`Key`]'s counts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Samples at which some packet was on its way through the root, and of those in which some flow of the
    /// host was held back.
    pub feeding: u32,
    pub throttled: u32,
    /// Samples at which some packet was to pass a branch, but no root.
    pub waiting: u32,
    /// Ends of the first and the last interval of either.
    pub first_ns: u64,
    pub last_ns: u64,
    /// The last sample at which it waited.
    waited_ns: u64,
    /// Packets through the root, and all of the host at these samples.
    pub through_root: u64,
    pub packets: u64,
    /// What the host sent in the intervals in which it fed the tree.
    pub sent_bytes: u64,
    /// What it offered, and did not send, in those in which it waited.
    pub offered_bytes: f64,
    pub lost_bytes: f64,
}

/// What a packet's way meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Meets {
    Nothing,
    /// Link.
    Branch(u32),
    /// Place of the root.
    Root(u32),
}

/// See the module.
#[derive(Debug)]
pub(super) struct Roles {
    pub counts: FxHashMap<Key, Counts>,
    /// Per tree: payload that the host at the root took in.
    pub received_bytes: FxHashMap<u32, u64>,
    flows: usize,
    /// What a host may inject in all, in bits per second.
    injection: f64,
    /// What a host of a forest offers, in bits per second.
    forest: f64,
    payload_share: f64,
    /// At the sample before: payload sent per host, per named flow, and received per host.
    sent: Vec<u64>,
    sent_of_flow: Vec<u64>,
    received: Vec<u64>,
}

/// What a host and class offered and sent in an interval, in bytes, and what the host has inside.
struct Load {
    offered: f64,
    sent: u64,
    sent_by_host: u64,
    packets: u64,
    is_throttled: bool,
}

impl Roles {
    /// About so many packets are looked at per sample.
    const PACKETS: usize = 8192;

    pub fn new(config: &Config) -> Self {
        let forests = config.traffic.iter().filter(|one| matches!(one.pattern, Pattern::Forest(_)));
        let rate = forests.map(|one| one.rate.map_or(f64::INFINITY, |rate| rate.0 as f64));
        let (mtu, header) = (config.packet.mtu.0 as f64, config.packet.header.0 as f64);
        Self {
            counts: FxHashMap::default(),
            received_bytes: FxHashMap::default(),
            flows: config.flows.len(),
            injection: config.host.injection_rate.map_or(f64::INFINITY, |rate| rate.0 as f64),
            forest: rate.fold(0.0, f64::max),
            payload_share: mtu / (mtu + header),
            sent: Vec::new(),
            sent_of_flow: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Looks at the packets inside, if there are trees: `numbers` are those of the moment's.
    pub fn look(
        &mut self,
        core: &Core,
        nodes: Nodes,
        map: &Map,
        (moment, numbers): (&Moment, &[u32]),
        (from_ns, span): (u64, Time),
    ) {
        if !numbers.is_empty() {
            self.take_in(core, map, moment, numbers);
            let met = meet(core, nodes, map, moment);
            for of_host in met.chunk_by(|one, other| one.0 == other.0) {
                let packets = of_host.len() as u64;
                for group in of_host.chunk_by(|one, other| one.1 == other.1) {
                    let load = self.load(core, nodes, (group[0].1, group[0].0), span);
                    let times = (from_ns, core.now.0 / 1_000);
                    self.count(group, (moment, numbers), &Load { packets, ..load }, times);
                }
            }
        }
        let meters = &core.meters;
        self.sent.clone_from(&meters.sent_bytes);
        self.received.clone_from(&meters.received_bytes);
        self.sent_of_flow.clear();
        self.sent_of_flow.extend(meters.classes[..self.flows].iter().map(|class| class.injected_bytes));
    }

    /// Counts what the hosts at roots took in.
    fn take_in(&mut self, core: &Core, map: &Map, moment: &Moment, numbers: &[u32]) {
        for (&root, &number) in moment.roots.iter().zip(numbers) {
            let host = map.links[root as usize].host as usize;
            if let Some(&now) = core.meters.received_bytes.get(host) {
                let before = self.received.get(host).copied().unwrap_or(0);
                *self.received_bytes.entry(number).or_default() += now - before;
            }
        }
    }

    /// What a host offered and sent: of a named flow its own, else all of the host together.
    fn load(&self, core: &Core, nodes: Nodes, (class, host): (u16, u32), span: Time) -> Load {
        let (at, meters) = (usize::from(class), &core.meters);
        let sender = &nodes.hosts[host as usize];
        let link = core.links.rate(sender.out).0 as f64;
        let most = link.min(self.injection) * self.payload_share;
        let offers = |one: u16| {
            let sources = sender.sources.iter().filter(|source| source.class == one || one == u16::MAX);
            // A job offers what its ranks have handed over.
            let sources = sources.filter(|source| !matches!(source.clock, Clock::Fed) || source.backlog > 0);
            let sum: f64 =
                sources.map(|source| self.offered(&source.clock, &source.chooser, source.message)).sum();
            sum.min(most)
        };
        let before = self.sent.get(host as usize).copied().unwrap_or(0);
        let sent_by_host = meters.sent_bytes[host as usize] - before;
        let (offered, sent) = if at < self.flows {
            let before = self.sent_of_flow.get(at).copied().unwrap_or(0);
            (offers(class), meters.classes[at].injected_bytes - before)
        } else {
            (offers(u16::MAX), sent_by_host)
        };
        let offered = offered * span.as_secs_f64() / 8.0;
        Load { offered, sent, sent_by_host, packets: 0, is_throttled: sender.throttled_flows() > 0 }
    }

    /// What a source offers, in bits per second.
    fn offered(&self, clock: &Clock, chooser: &Chooser, message: u32) -> f64 {
        let per = |bytes: u32, time: Time| f64::from(bytes) * 8.0 / time.as_secs_f64();
        match (clock, chooser) {
            (_, Chooser::Forest(_)) => self.forest,
            (Clock::Saturating | Clock::Fed, _) => f64::INFINITY,
            (Clock::Periodic { pace, bytes, .. }, _) => per(*bytes, pace.time(*bytes)),
            (Clock::Poisson { mean_ps }, _) => per(message, Time(*mean_ps)),
        }
    }

    /// Adds what the packets of a host and class met, in order.
    fn count(
        &mut self,
        group: &[(u32, u16, Meets)],
        (moment, numbers): (&Moment, &[u32]),
        load: &Load,
        (from_ns, now_ns): (u64, u64),
    ) {
        let (host, class) = (group[0].0, group[0].1);
        let waiting = group.iter().filter(|one| matches!(one.2, Meets::Branch(_))).count();
        let feeding = group.iter().filter(|one| matches!(one.2, Meets::Root(_))).count();
        let mut count = |root: u32, met: &dyn Fn(&mut Counts)| {
            let key = Key { tree: numbers[root as usize], class, host };
            let counts = self.counts.entry(key).or_insert(Counts { first_ns: from_ns, ..Counts::default() });
            met(counts);
            counts.last_ns = now_ns;
        };
        for same in group.chunk_by(|one, other| one.2 == other.2) {
            match same[0].2 {
                Meets::Nothing => {}
                Meets::Root(root) => count(root, &|counts| {
                    counts.feeding += 1;
                    counts.throttled += u32::from(load.is_throttled);
                    counts.through_root += same.len() as u64;
                    counts.packets += load.packets;
                    counts.sent_bytes += load.sent_by_host;
                }),
                Meets::Branch(link) => {
                    // Of what was held back, the part of those that wait; trees that do share it.
                    let trees = moment.trees_of(link).count().max(1);
                    let share = same.len() as f64 / ((waiting + feeding) * trees) as f64;
                    for root in moment.trees_of(link) {
                        count(root, &|counts| {
                            // It may wait for the tree at several links.
                            counts.waiting += u32::from(counts.waited_ns != now_ns);
                            counts.waited_ns = now_ns;
                            counts.offered_bytes += load.offered * share;
                            counts.lost_bytes += (load.offered - load.sent as f64).max(0.0) * share;
                        });
                    }
                }
            }
        }
    }
}

/// What packets meet on their ways, by sending host and class. Of many packets, those are looked at that some
/// of their bits say, which are the same however a run is done.
fn meet(core: &Core, nodes: Nodes, map: &Map, moment: &Moment) -> Vec<(u32, u16, Meets)> {
    let mask = (core.alive() / Roles::PACKETS).next_power_of_two() as u64 - 1;
    let is_looked_at = |packet: &&Packet| {
        let bits = (packet.injected.0 ^ (u64::from(packet.src) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        packet.kind == Kind::Data && (bits >> 40) & mask == 0
    };
    let packets = core.packets().filter(is_looked_at);
    let mut met: Vec<_> = packets
        .map(|packet| {
            (packet.src, packet.class, meets(packet, &nodes.hosts[packet.src as usize], nodes, map, moment))
        })
        .collect();
    met.sort_unstable();
    met
}

/// What a packet's way from its source to its destination meets first: a root, else a branch.
fn meets(packet: &Packet, source: &Host, nodes: Nodes, map: &Map, moment: &Moment) -> Meets {
    let mut found = Meets::Nothing;
    let mut channel = source.out;
    let mut link = map.of_host[packet.src as usize];
    // A way is no longer than the number of switches: tables are checked before the run.
    for _ in 0..=nodes.switches.len() {
        if let Some(member) = moment.members.get(link as usize)
            && member.root != NONE
        {
            if member.depth == 0 {
                return Meets::Root(member.root);
            }
            if found == Meets::Nothing {
                found = Meets::Branch(link);
            }
        }
        let Some((switch, input)) = nodes.receiver.get(channel as usize).copied().flatten() else { break };
        let ports = nodes.switches[switch as usize].ports();
        let routes = ports.director().and_then(|director| director.routes.as_ref());
        let output = routes.map_or_else(
            || ports.route(packet.dst),
            |routes| {
                let (source, destination) = (packet.src, packet.dst);
                let key = FlowKey { source, destination, connection: u32::from(packet.source) };
                usize::from(routes.state.forward(&routes.table, input as u16 + 1, key)).wrapping_sub(1)
            },
        );
        let Some(&next) = map.outputs[switch as usize].get(output) else { break };
        link = next;
        channel = ports.out(output);
    }
    found
}
