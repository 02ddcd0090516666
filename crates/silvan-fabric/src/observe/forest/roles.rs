//! Determines the contributors and victims of trees. Contributors are found from the payload that hosts
//! behind roots receive (see [`crate::meters`]), and from the packets inside the network. The routes of these
//! packets also determine the traffic that waits.

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_network::routing::adaptive::FlowKey;
use silvan_network::traffic::Pattern;
use silvan_network::traffic::source::{Chooser, Clock, Source};

use super::NONE;
use super::growth::TreeHistory;
use super::map::Map;
use super::moment::{Moment, TreePosition};
use super::ways::{Meets, SampledRoutes};
use crate::config::Config;
use crate::host::WantedWay;
use crate::meters::{RoutedFlow, Watch};
use crate::packet::{Contents, Packet};
use crate::partition::View;

/// The traffic of one class at one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Saved)]
pub(crate) struct Who {
    pub class: u16,
    pub host: u32,
}

/// The traffic that one host and class send through a root.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct Feeding {
    /// Number of intervals in which the traffic contributed to the tree, or at whose end its packets were on
    /// the way to the root.
    pub samples: u32,
    /// Number of these intervals at whose end a flow of the host was throttled.
    pub throttled: u32,
    /// Number of intervals in which the traffic contributed to the tree.
    pub fed: u32,
    /// The start of the first interval of `samples`.
    pub first_ns: u64,
    /// The end of the last interval of `samples`.
    pub last_ns: u64,
    /// Payload sent through the root in the intervals with the tree since `first_ns`.
    pub bytes: f64,
    /// All payload that the host sent in the intervals with the tree since `first_ns`.
    pub sent_bytes: u64,
    /// Packets for the root that were inside the network, summed over the samples since `first_ns`.
    pub own_packets: u64,
    /// All packets of the host that were inside the network, summed over the samples since `first_ns`.
    pub packets: u64,
    /// Payload for the root that was inside the network at samples before its deliveries were counted.
    pub inside_bytes: u64,
}

impl Feeding {
    /// Records that the traffic contributes to the tree now.
    fn see(&mut self, now_ns: u64, is_throttled: bool) {
        if self.last_ns != now_ns {
            self.last_ns = now_ns;
            self.samples += 1;
            self.throttled += u32::from(is_throttled);
        }
    }
}

/// The traffic of one host and class that waits because of a tree.
#[derive(Debug, Clone, Copy, Default, Saved)]
pub(crate) struct WaitingTraffic {
    /// Number of samples at which a packet had to cross a branch but no root.
    pub samples: u32,
    /// The start of the first interval with such a sample.
    pub first_ns: u64,
    /// The end of the last interval with such a sample.
    pub last_ns: u64,
    /// The payload that was offered in the intervals with such samples.
    pub offered_bytes: f64,
    /// The part of the offered payload that was not sent.
    pub lost_bytes: f64,
}

/// The state of a contributor's host; see [`Feeding`].
#[derive(Debug, Clone, Copy, Saved)]
struct ContributorHost {
    host: u32,
    sent_bytes: u64,
    packets: u64,
}

/// The contributors of a tree. Counters that are updated at every sample are stored together.
#[derive(Debug, Default, Saved)]
pub(super) struct Feeders {
    places: FxHashMap<Who, u32>,
    all: Vec<(Who, Feeding)>,
    at_hosts: Vec<ContributorHost>,
}

impl Feeders {
    /// Returns the entry of a host and class. A missing entry is created.
    fn entry(&mut self, who: Who, first_ns: u64) -> &mut Feeding {
        let place = *self.places.entry(who).or_insert_with(|| {
            self.all.push((who, Feeding { first_ns, ..Feeding::default() }));
            self.at_hosts.push(ContributorHost { host: who.host, sent_bytes: 0, packets: 0 });
            self.all.len() as u32 - 1
        });
        &mut self.all[place as usize].1
    }

    /// All entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (Who, Feeding)> {
        self.all.iter().zip(&self.at_hosts).map(|(&(who, feeding), at_host)| {
            let ContributorHost { sent_bytes, packets, .. } = *at_host;
            (who, Feeding { sent_bytes, packets, ..feeding })
        })
    }
}

/// The contributors and victims of a tree.
#[derive(Debug, Default, Saved)]
pub(super) struct TreeTraffic {
    pub feeding: Feeders,
    pub waiting: FxHashMap<Who, WaitingTraffic>,
    /// For each class, the number of samples of the tree in which the class was active: it sent or received, or
    /// had packets in the network.
    active: Vec<u32>,
}

impl TreeTraffic {
    /// Number of samples of the tree in which the class was active, at most all `samples` of the tree.
    pub fn active_samples(&self, class: u16, samples: u32) -> u32 {
        self.active.get(usize::from(class)).map_or(0, |&active| active.min(samples))
    }

    fn count_active(&mut self, active: &[bool]) {
        self.active.resize(active.len(), 0);
        self.active.iter_mut().zip(active).for_each(|(samples, &is_active)| *samples += u32::from(is_active));
    }
}

/// The branches and roots on the route of a packet inside the network, or of a message that waits for
/// injection. The payload of a message is zero.
#[derive(Debug, Clone, Copy)]
struct Met {
    who: Who,
    meets: Meets,
    destination: u32,
    payload: u32,
}

impl Met {
    /// A key that sorts by class, then by the branch or root.
    fn order(&self) -> u64 {
        let meets = match self.meets {
            Meets::Nothing => 0,
            Meets::Branch(link) => 1 << 32 | u64::from(link),
            Meets::Root(root) => 2 << 32 | u64::from(root),
        };
        u64::from(self.who.class) << 34 | meets
    }
}

#[derive(Debug, Saved)]
pub(super) struct Roles {
    /// One entry per tree.
    pub of: Vec<TreeTraffic>,
    watch: Watch,
    /// Watched roots, and the trees to which they belonged in the interval.
    watched: Vec<(u32, u32)>,
    samples: u64,
    flows: usize,
    /// The rate at which a host may inject, in bits per second; infinite without a limit.
    injection: f64,
    /// The highest rate that a host of a forest offers, in bits per second. Infinite without a limit, zero
    /// without a forest.
    forest: f64,
    payload_share: f64,
    /// Payload sent by each host up to the previous sample.
    sent: Vec<u64>,
    /// Payload sent by each class up to the previous sample.
    sent_of_class: Vec<u64>,
}

/// The trees at a sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub moment: &'a Moment,
    /// The numbers of the current trees.
    pub numbers: &'a [u32],
    pub growth: &'a TreeHistory,
}

/// Bytes that a host and class offered and sent in an interval.
struct Load {
    offered: f64,
    sent: u64,
}

impl Roles {
    /// The approximate number of packets and flows that are examined per sample.
    const MOST: usize = 8192;
    /// The maximum number of messages of a host that are examined.
    const MESSAGES: usize = 4;

    pub fn new(config: &Config) -> Self {
        let forests = config.traffic.iter().filter(|one| matches!(one.pattern, Pattern::Forest(_)));
        let rate = forests.map(|one| one.rate.map_or(f64::INFINITY, |rate| rate.0 as f64));
        let (mtu, header) = (config.packet.mtu.0 as f64, config.packet.header.0 as f64);
        Self {
            of: Vec::new(),
            watch: Watch::default(),
            watched: Vec::new(),
            samples: 0,
            flows: config.flows.len(),
            injection: config.host.injection_rate.map_or(f64::INFINITY, |rate| rate.0 as f64),
            forest: rate.fold(0.0, f64::max),
            payload_share: mtu / (mtu + header),
            sent: Vec::new(),
            sent_of_class: Vec::new(),
        }
    }

    /// If there are trees, counts the deliveries of the interval that starts at `from_ns` and the packets
    /// inside the network. Returns whether the hosts and flows whose deliveries must be counted have changed.
    pub fn sample(
        &mut self,
        view: View,
        map: &Map,
        Seen { moment, numbers, growth }: Seen,
        (from_ns, span): (u64, Time),
    ) -> bool {
        self.samples += 1;
        self.of.resize_with(growth.trees.len(), TreeTraffic::default);
        let delivered: Vec<(RoutedFlow, u64)> = view.totals.deliveries.iter().collect();
        if !numbers.is_empty() {
            let times = (from_ns, view.now.0 / 1_000);
            let mut routes = SampledRoutes::new(view, map);
            self.feed(&mut routes, (numbers, &delivered), times);
            let met = meet(&mut routes, moment);
            let active = self.active_classes(view, &delivered, &met);
            numbers.iter().for_each(|&tree| self.of[tree as usize].count_active(&active));
            self.count_inside(view, map, (moment, &met), numbers, times);
            for group in in_order(&met, view.host_count()).chunk_by(|one, other| one.who == other.who) {
                if group.iter().any(|one| matches!(one.meets, Meets::Branch(_))) {
                    let load = self.load(view, group[0].who, span);
                    self.wait(group, (moment, numbers), &load, times);
                }
            }
        }
        self.sent.clone_from(&view.totals.sent_bytes);
        self.sent_of_class.clear();
        self.sent_of_class.extend(view.totals.classes.iter().map(|class| class.injected_bytes));
        self.watch_roots(view, map, growth, delivered.len())
    }

    /// Whether each class sent, received at a watched host, or had packets in the network in the interval.
    fn active_classes(&self, view: View, delivered: &[(RoutedFlow, u64)], met: &[Met]) -> Vec<bool> {
        let before = self.sent_of_class.iter().copied().chain(std::iter::repeat(0));
        let classes = view.totals.classes.iter().zip(before);
        let mut active: Vec<bool> = classes.map(|(class, before)| class.injected_bytes > before).collect();
        let received = delivered.iter().map(|one| one.0.class);
        for class in received.chain(met.iter().map(|one| one.who.class)) {
            active[usize::from(class)] = true;
        }
        active
    }

    /// Counts the payload that passed through the roots of the trees with these numbers.
    fn feed(
        &mut self,
        routes: &mut SampledRoutes,
        (numbers, delivered): (&[u32], &[(RoutedFlow, u64)]),
        (from_ns, now_ns): (u64, u64),
    ) {
        let SampledRoutes { view, map, .. } = *routes;
        let watched: Vec<(u32, u32)> =
            self.watched.iter().copied().filter(|(_, tree)| numbers.contains(tree)).collect();
        let endpoint = |root: u32| map.links[root as usize].host;
        let ends = watched.iter().map(|&(root, tree)| (endpoint(root), tree));
        let of_host = given(ends, view.host_count());
        let is_inner = |&(root, _): &(u32, u32)| endpoint(root) == NONE;
        let has_inner = watched.iter().any(is_inner);
        let of_link = given(watched.iter().copied().filter(is_inner), map.links.len());
        // The factor is a power of two, so sums of bytes are exact and do not depend on the order of
        // summation.
        let scale = (self.watch.mask + 1) as f64;
        for &(sender, bytes) in delivered {
            let who = Who { class: sender.class, host: sender.host };
            let mut add = |tree: u32| {
                let feeding = self.of[tree as usize].feeding.entry(who, from_ns);
                feeding.bytes += bytes as f64 * scale;
                // The host may have several flows to the root.
                feeding.fed += u32::from(feeding.last_ns != now_ns);
                feeding.see(now_ns, view.host(who.host as usize).throttled_flows() > 0);
            };
            let tree = of_host[sender.destination as usize];
            if tree != NONE {
                add(tree);
            }
            if has_inner {
                let key = FlowKey {
                    source: sender.host,
                    destination: sender.destination,
                    connection: u32::from(sender.source),
                };
                routes.pass(key, |link| {
                    let tree = of_link[link as usize];
                    if tree != NONE {
                        add(tree);
                    }
                });
            }
        }
        let before = self.sent.iter().copied().chain(std::iter::repeat(0));
        let sent: Vec<u64> =
            view.totals.sent_bytes.iter().zip(before).map(|(now, before)| now - before).collect();
        for &tree in numbers {
            for at_host in &mut self.of[tree as usize].feeding.at_hosts {
                at_host.sent_bytes += sent[at_host.host as usize];
            }
        }
    }

    /// Counts the packets of contributors inside the network, which are the only information about a new
    /// tree.
    fn count_inside(
        &mut self,
        view: View,
        map: &Map,
        (moment, met): (&Moment, &[Met]),
        numbers: &[u32],
        (from_ns, now_ns): (u64, u64),
    ) {
        let roots = (0u32..).zip(&moment.roots);
        let ends = roots.map(|(place, &root)| (map.links[root as usize].host, place));
        let of_host = given(ends, view.host_count());
        let is_watched = |tree: &u32| self.watched.iter().any(|watched| watched.1 == *tree);
        let watched: Vec<bool> = numbers.iter().map(is_watched).collect();
        let mut inside = vec![0; view.host_count()];
        for one in met {
            inside[one.who.host as usize] += 1;
            let last = Some(of_host[one.destination as usize]).filter(|&root| root != NONE);
            let first = if let Meets::Root(root) = one.meets { Some(root) } else { None };
            for root in last.into_iter().chain(first.filter(|first| Some(*first) != last)) {
                let tree = numbers[root as usize];
                let feeding = self.of[tree as usize].feeding.entry(one.who, from_ns);
                feeding.see(now_ns, view.host(one.who.host as usize).throttled_flows() > 0);
                feeding.own_packets += 1;
                if !watched[root as usize] {
                    feeding.inside_bytes += u64::from(one.payload);
                }
            }
        }
        for &tree in numbers {
            for at_host in &mut self.of[tree as usize].feeding.at_hosts {
                at_host.packets += inside[at_host.host as usize];
            }
        }
    }

    /// The hosts and flows whose deliveries must be counted.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Watches the hosts behind the current roots. Returns whether the watched hosts or flows have changed.
    fn watch_roots(&mut self, view: View, map: &Map, growth: &TreeHistory, flows: usize) -> bool {
        let is_new = growth.live() != self.watched;
        let mask = if self.watched.is_empty() {
            (view.alive() / Self::MOST).next_power_of_two() as u64 - 1
        } else {
            (flows * (self.watch.mask as usize + 1) / Self::MOST).next_power_of_two() as u64 - 1
        };
        if is_new {
            self.watched = growth.live().to_vec();
            self.watch.hosts.clear();
            if !self.watched.is_empty() {
                self.watch.hosts.resize(view.host_count(), false);
            }
            for &(root, _) in &self.watched {
                let link = &map.links[root as usize];
                if let Some(is_watched) = self.watch.hosts.get_mut(link.host as usize) {
                    *is_watched = true;
                } else if let Some((switch, output)) = link.switch {
                    let ports = view.ports(switch);
                    // If the table alone does not determine routes, packets for any host may arrive at the
                    // root.
                    let takes_any = !ports.is_by_destination();
                    for (host, is_watched) in (0..).zip(&mut self.watch.hosts) {
                        *is_watched |= takes_any || ports.route(host) == output;
                    }
                }
            }
        }
        let rest = self.samples & mask;
        if is_new || (mask, rest) != (self.watch.mask, self.watch.rest) {
            (self.watch.mask, self.watch.rest) = (mask, rest);
            return true;
        }
        false
    }

    /// The payload that was offered and sent by a named flow or, for other classes, by the whole host.
    fn load(&self, view: View, Who { class, host }: Who, span: Time) -> Load {
        let (at, meters) = (usize::from(class), view.totals);
        let sender = view.host(host as usize);
        let link = view.rate(sender.out).0 as f64;
        let most = link.min(self.injection) * self.payload_share;
        let offers = |one: u16| {
            let sources = sender.sources.iter().filter(|source| source.class == one || one == u16::MAX);
            // A job offers only the messages that its ranks have posted. A flow of one message offers only
            // that message.
            let has_message = |source: &&Source| {
                !matches!(source.clock, Clock::Fed | Clock::Own { .. }) || source.backlog > 0
            };
            let sources = sources.filter(has_message);
            let sum: f64 =
                sources.map(|source| self.offered(&source.clock, &source.chooser, source.message)).sum();
            sum.min(most)
        };
        let (offered, sent) = if at < self.flows {
            let before = self.sent_of_class.get(at).copied().unwrap_or(0);
            (offers(class), meters.classes[at].injected_bytes - before)
        } else {
            let before = self.sent.get(host as usize).copied().unwrap_or(0);
            (offers(u16::MAX), meters.sent_bytes[host as usize] - before)
        };
        Load { offered: offered * span.as_secs_f64() / 8.0, sent }
    }

    /// The rate that a source offers, in bits per second.
    fn offered(&self, clock: &Clock, chooser: &Chooser, message: u32) -> f64 {
        let per = |bytes: u32, time: Time| f64::from(bytes) * 8.0 / time.as_secs_f64();
        match (clock, chooser) {
            (_, Chooser::Forest(_)) => self.forest,
            (Clock::Saturating | Clock::Fed | Clock::Own { .. }, _) => f64::INFINITY,
            (Clock::Listed | Clock::Closed { .. }, _) => 0.0,
            (Clock::Periodic { pace, bytes, .. }, _) => per(*bytes, pace.time(*bytes)),
            (Clock::Poisson { mean_ps }, _) => per(message, Time(*mean_ps)),
        }
    }

    /// Records the traffic of a host and class that waits for trees. `group` contains the sorted [`Met`]
    /// entries of its packets.
    fn wait(
        &mut self,
        group: &[Met],
        (moment, numbers): (&Moment, &[u32]),
        load: &Load,
        (from_ns, now_ns): (u64, u64),
    ) {
        for same in group.chunk_by(|one, other| one.meets == other.meets) {
            let Meets::Branch(link) = same[0].meets else { continue };
            // The payload that was not sent is divided first among the waiting packets, then among the trees
            // that they wait for.
            let trees = moment.trees_of(link).count().max(1);
            let share = same.len() as f64 / (group.len() * trees) as f64;
            for root in moment.trees_of(link) {
                let fresh = WaitingTraffic { first_ns: from_ns, ..WaitingTraffic::default() };
                let around = &mut self.of[numbers[root as usize] as usize];
                let waiting = around.waiting.entry(group[0].who).or_insert(fresh);
                // The traffic may wait for the tree at several links.
                waiting.samples += u32::from(waiting.last_ns != now_ns);
                waiting.last_ns = now_ns;
                waiting.offered_bytes += load.offered * share;
                waiting.lost_bytes += (load.offered - load.sent as f64).max(0.0) * share;
            }
        }
    }
}

/// For each of `count` hosts or links, the number with which `pairs` pairs it, or [`NONE`].
fn given(pairs: impl Iterator<Item = (u32, u32)>, count: usize) -> Vec<u32> {
    let mut numbers = vec![NONE; count];
    for (at, number) in pairs.filter(|one| one.0 != NONE) {
        numbers[at as usize] = number;
    }
    numbers
}

/// Sorts by sending host, then by class, then by the branch or root on the route. Omits routes without
/// either.
fn in_order(met: &[Met], hosts: usize) -> Vec<Met> {
    let all = || met.iter().filter(|one| one.meets != Meets::Nothing);
    // A counting sort is fastest, because there are many hosts with few packets each.
    let mut places = vec![0; hosts];
    all().for_each(|one| places[one.who.host as usize] += 1);
    let mut sum = 0;
    for place in &mut places {
        sum += std::mem::replace(place, sum);
    }
    let mut sorted: Vec<Met> = met.iter().copied().take(sum).collect();
    for one in all() {
        let place = &mut places[one.who.host as usize];
        sorted[*place] = *one;
        *place += 1;
    }
    for of_host in sorted.chunk_by_mut(|one, other| one.who.host == other.who.host) {
        of_host.sort_unstable_by_key(Met::order);
    }
    sorted
}

/// Finds the branches and roots on the routes of packets inside the network, and of messages that wait for
/// injection. If there are many packets, only a subset is examined. A hash of the injection time and the
/// source selects it, so the subset does not depend on the scheduler or the number of partitions.
fn meet(routes: &mut SampledRoutes, moment: &Moment) -> Vec<Met> {
    let SampledRoutes { view, map, .. } = *routes;
    let mask = (view.alive() / Roles::MOST).next_power_of_two() as u64 - 1;
    let is_looked_at = |packet: &&Packet| {
        let Contents::Data { injected, .. } = packet.contents else { return false };
        let bits = (injected.0 ^ (u64::from(packet.src) << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (bits >> 40) & mask == 0
    };
    let mut met = |class: u16, (key, vl): (FlowKey, u8), payload: u32| Met {
        who: Who { class, host: key.source },
        meets: routes.meets((key, vl), moment),
        destination: key.destination,
        payload,
    };
    // In large networks, most packets are skipped, so they are filtered in a separate loop.
    let mut packets: Vec<&Packet> = Vec::with_capacity(2 * Roles::MOST);
    view.packets().filter(is_looked_at).for_each(|packet| packets.push(packet));
    let mut all = Vec::with_capacity(2 * packets.len());
    all.extend(packets.into_iter().map(|packet| {
        let (source, destination, connection) = (packet.src, packet.dst, u32::from(packet.source));
        met(packet.class, (FlowKey { source, destination, connection }, packet.vl.0), packet.payload())
    }));
    // If the link of a host is in a tree, the messages of the host wait, too.
    let senders = view.hosts().zip(&map.of_host);
    let held =
        senders.filter(|(_, link)| moment.members.get(**link as usize).is_some_and(TreePosition::is_in));
    for (host, _) in held {
        for WantedWay { source, destination, vl } in host.wanted().take(Roles::MESSAGES) {
            let key = FlowKey { source: host.id, destination, connection: u32::from(source) };
            all.push(met(host.sources[usize::from(source)].class, (key, vl.0), 0));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_packets_meet_is_sorted_by_host_and_class() {
        let met = |host, class, meets| Met { who: Who { class, host }, meets, destination: 0, payload: 0 };
        let all = [
            met(2, 0, Meets::Root(1)),
            met(0, 1, Meets::Branch(5)),
            met(0, 0, Meets::Nothing),
            met(0, 1, Meets::Branch(4)),
            met(2, 0, Meets::Branch(9)),
            met(0, 0, Meets::Root(7)),
        ];
        let sorted: Vec<_> =
            in_order(&all, 3).iter().map(|one| (one.who.host, one.who.class, one.meets)).collect();
        let expected = [
            (0, 0, Meets::Root(7)),
            (0, 1, Meets::Branch(4)),
            (0, 1, Meets::Branch(5)),
            (2, 0, Meets::Branch(9)),
            (2, 0, Meets::Root(1)),
        ];
        assert_eq!(sorted, expected);
        assert_eq!(given([(1, 7), (NONE, 3), (0, 2)].into_iter(), 3), [2, 7, NONE]);
    }

    #[test]
    fn an_interval_counts_once_for_each_sender() {
        let mut feeders = Feeders::default();
        let who = Who { class: 1, host: 4 };
        for (first_ns, now_ns, throttled) in [(0, 10, false), (10, 20, true), (10, 20, true), (20, 30, false)]
        {
            feeders.entry(who, first_ns).see(now_ns, throttled);
        }
        feeders.entry(Who { class: 0, host: 4 }, 20).see(30, false);
        feeders.at_hosts[0].sent_bytes = 7;
        let all: Vec<_> = feeders.iter().collect();
        let seen = |at: usize| {
            let Feeding { samples, throttled, first_ns, last_ns, sent_bytes, .. } = all[at].1;
            (samples, throttled, first_ns, last_ns, sent_bytes)
        };
        assert_eq!((all[0].0, seen(0)), (who, (3, 1, 0, 30, 7)));
        assert_eq!((all.len(), seen(1)), (2, (1, 0, 20, 30, 0)));
    }
}
