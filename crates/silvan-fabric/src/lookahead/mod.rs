//! How soon nodes affect each other, and what follows from it: the width of bins, the assignment of nodes to
//! threads, and the minimum time after which partitions must exchange messages.

mod partitioning;

use rustc_hash::FxHashMap;
use silvan_engine::Time;
use silvan_engine::units::BytePace;

use crate::link::{ChannelId, LinkParameters, Links, Receiver};
pub(crate) use partitioning::{Lookahead, Nodes, Partitioning};

/// Maximum width of bins, as a power of two in picoseconds. In wider bins, several packets would arrive at
/// the same output and would have to be sorted. For the same reason, a bin is no wider than the transmission
/// time of the largest packet on the fastest link, unless it would be narrower than `NARROWEST` or the ring
/// too long.
const WIDEST: u32 = 16;
/// The least value to which the transmission time limits the width of bins, as a power of two in picoseconds.
const NARROWEST: u32 = 13;
/// The minimum number of bins in a ring.
const BINS: u64 = 256;
/// The number of bins that the time to the next switch may span must be below this.
const MOST_BINS: u64 = 1 << 14;

/// The properties of a network that determine how soon nodes affect each other.
pub(crate) struct Effects<'a> {
    pub links: &'a Links,
    /// For each channel, the switch and input at its far end; `None` for a host.
    pub receivers: &'a [Receiver],
    /// The host at each channel's far end, for channels to hosts.
    pub hosts_at: FxHashMap<ChannelId, u32>,
    /// The channel on which each host sends.
    pub hosts_from: Vec<(ChannelId, u32)>,
    /// Bytes on the wire of the smallest and of the largest packet.
    pub smallest: u32,
    pub largest: u32,
    /// Bytes on the wire of the smallest data packet.
    pub least_data: u32,
    /// The rate at which switches read packets from an input's memory, if it differs from the link's rate.
    pub crossbar: Option<BytePace>,
    /// Bytes of the smallest notification that switches send to the next node; `None` if they send none.
    pub least_notice: Option<u32>,
    /// Whether switches trim packets, which frees memory when a packet arrives.
    pub trims: bool,
}

/// The minimum time after which nodes affect each other, and the longest time ahead that a ring of bins must
/// cover.
pub(crate) struct Reach {
    least: Time,
    most: Time,
    /// The maximum width of bins, as a power of two in picoseconds.
    widest: u32,
}

impl Effects<'_> {
    /// The transmission time of the smallest packet on the fastest link.
    pub fn least_span(&self) -> Time {
        self.links
            .all_parameters()
            .iter()
            .map(|link| link.pace.time(self.smallest))
            .min()
            .unwrap_or(Time::NEVER)
    }

    /// The minimum time for which a packet occupies the memory of an input after its arrival. A packet that is trimmed, or
    /// was lost on its way to a store-and-forward switch, frees memory when it arrives.
    fn least_use(&self) -> Time {
        let stores = || self.links.all_parameters().iter().any(|link| link.to_storing);
        if self.trims || self.links.has_changes() && stores() { Time::ZERO } else { self.least_span() }
    }

    /// The minimum time in which a switch can affect the node at the far end of a link with these parameters,
    /// through a packet, the credit for a received packet, or a notification. The time after which a store-and-forward
    /// switch handles a packet is longer.
    pub fn reach_of(&self, link: &LinkParameters) -> Time {
        let read = self.crossbar.map(|pace| pace.time(self.smallest));
        let freed = read.map_or(self.least_use(), |read| read.min(self.least_use())) + link.delay;
        let told = self.least_notice.map(|bytes| link.pace.time(bytes) + link.delay);
        [Some(link.head_delay), Some(freed), told].into_iter().flatten().min().unwrap_or(Time::NEVER)
    }

    /// The minimum time from the start of a data packet on the link to its host until its delivery.
    pub fn least_delivery(&self) -> Time {
        let channels = self.hosts_at.keys();
        let spans = channels
            .map(|&channel| self.links.span(channel, self.least_data.max(1)) + self.links.delay(channel));
        spans.min().unwrap_or(Time::NEVER)
    }

    /// Computes [`Reach`]; `None` if it allows no bins.
    pub fn reach(&self) -> Option<Reach> {
        let spans = self.links.all_parameters().iter().map(|link| link.pace.time(self.largest));
        let (shortest, longest) = (spans.clone().min().unwrap_or_default(), spans.max().unwrap_or_default());
        let widest = shortest.0.max(1).ilog2().clamp(NARROWEST, WIDEST);
        let mut reach = Reach { least: Time::NEVER, most: Time::ZERO, widest };
        let least_use = self.least_use();
        for link in self.links.all_parameters() {
            reach.least = reach.least.min(link.head_delay).min(least_use + link.delay);
            let stored = if link.to_storing { link.pace.time(self.largest) } else { Time::ZERO };
            reach.most = reach.most.max(link.head_delay + stored);
            if let Some(control) = self.links.by_messages() {
                let effect = link.pace.time(control.bytes()) + link.delay;
                reach.least = reach.least.min(effect);
                reach.most = reach.most.max(effect + control.response());
            }
        }
        // A packet that waits for its tail is ready later.
        reach.most = reach.most.max(longest);
        // The ring of bins must not be too long.
        while reach.most.0 >> reach.shift() >= MOST_BINS && reach.widest < WIDEST {
            reach.widest += 1;
        }
        let shift = reach.shift();
        (shift > 5 && reach.most.0 >> shift < MOST_BINS).then_some(reach)
    }
}

impl Reach {
    /// The width of bins, as a power of two in picoseconds.
    pub fn shift(&self) -> u32 {
        self.least.0.max(1).ilog2().min(self.widest)
    }

    /// The number of bins in a ring.
    pub fn bins(&self) -> usize {
        (BINS.max((self.most.0 >> self.shift()) + 2)) as usize
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::*;
    use crate::link::{BufferDivision, ChannelSpec};
    use crate::routes::ForwardingTable;
    use crate::switch::{PortLayout, Ports};
    use crate::switch_marking::SwitchMarking;
    use silvan_congestion::marking::Marker;
    use silvan_network::port::Port;

    /// The channels of H0 - S0 - S1 - H1, with the node at the far end of each.
    const RECEIVERS: [Receiver; 6] =
        [Some((0, Port(0))), None, Some((1, Port(0))), Some((0, Port(1))), None, Some((1, Port(1)))];

    /// Links of 8 Gbit/s, which transmit a byte per nanosecond.
    fn links(delay_ns: u64, latency_ns: u64) -> Links {
        links_to(delay_ns, latency_ns, false)
    }

    /// Same as [`links`], for cut-through or store-and-forward switches.
    fn links_to(delay_ns: u64, latency_ns: u64, stores: bool) -> Links {
        let spec = |far: &Receiver| ChannelSpec {
            rate: Rate::from_gbit(8),
            delay: Time::from_ns(delay_ns),
            receiver_latency: Time::from_ns(latency_ns),
            to_host: far.is_none(),
            to_storing: stores && far.is_some(),
            arrival_key: 0,
            wake_key: 0,
            region_capacity: 4_096,
            division: BufferDivision::Whole,
        };
        Links::new(&RECEIVERS.each_ref().map(spec), 1).unwrap()
    }

    fn effects(links: &Links) -> Effects<'_> {
        Effects {
            links,
            receivers: &RECEIVERS,
            hosts_at: [(1, 0), (4, 1)].into_iter().collect(),
            hosts_from: vec![(0, 0), (5, 1)],
            smallest: 64,
            largest: 2_048,
            least_data: 100,
            crossbar: None,
            least_notice: None,
            trims: false,
        }
    }

    fn switches() -> Vec<Ports> {
        let wired = |out, into, faces_host| {
            Some(PortLayout { out, into, rate: Rate::from_gbit(8), faces_host, may_underrun: false })
        };
        let ports = |node, wiring: [Option<PortLayout>; 2]| {
            let marking = SwitchMarking::new(Marker::None, 2, 2_048);
            let table = ForwardingTable { routes: Default::default(), row: 0 };
            Ports::new(node, 1, wiring.into(), table, (marking, None))
        };
        vec![
            ports(0, [wired(1, 0, true), wired(2, 3, false)]),
            ports(1, [wired(3, 2, false), wired(4, 5, true)]),
        ]
    }

    fn divided(threads: usize, effects: &Effects, is_awaited: bool) -> (Partitioning, Lookahead) {
        let nodes = Nodes { switches: &switches(), hosts: 2, together: &[] };
        Partitioning::of_threads(threads, effects, nodes, is_awaited)
    }

    #[test]
    fn the_lookahead_is_that_of_the_fastest_effect() {
        let links = links(30, 100);
        let lookahead = |change: fn(&mut Effects)| {
            let mut effects = effects(&links);
            change(&mut effects);
            divided(2, &effects, false).1.map(|time| time.0 / 1_000)
        };
        assert_eq!(lookahead(|_| ()), Ok(94), "a credit: 64 bytes and the delay");
        assert_eq!(lookahead(|of| of.smallest = 2_000), Ok(130), "the head of a packet: delay and latency");
        assert_eq!(lookahead(|of| of.crossbar = Some(Rate::from_gbit(16).pace())), Ok(62), "half of 64 ns");
        assert_eq!(lookahead(|of| of.least_notice = Some(20)), Ok(50), "a notification of 20 bytes");
        assert_eq!(lookahead(|of| of.trims = true), Ok(30), "a packet that is trimmed when it arrives");
    }

    #[test]
    fn traffic_that_waits_for_deliveries_limits_the_lookahead() {
        let links = links(30, 500);
        let effects = Effects { smallest: 1_000, ..effects(&links) };
        assert_eq!(divided(2, &effects, false).1, Ok(Time::from_ns(530)));
        assert_eq!(divided(2, &effects, true).1, Ok(Time::from_ns(130)), "100 bytes and the delay");
    }

    #[test]
    fn hosts_belong_to_the_partition_of_their_switch() {
        let links = links(30, 100);
        for threads in [2, 7] {
            let (found, _) = divided(threads, &effects(&links), false);
            assert_eq!((found.count, &found.of_switch[..]), (2, &[0, 1][..]), "{threads} threads");
            assert_eq!(found.of_host, [(0, 0), (1, 0)]);
        }
        let (found, _) = divided(1, &effects(&links), false);
        assert_eq!(
            (found.count, &found.of_switch[..], &found.of_host[..]),
            (1, &[0, 0][..], &[(0, 0), (0, 1)][..])
        );
    }

    #[test]
    fn the_ports_of_a_host_belong_to_one_partition() {
        let links = links(30, 100);
        for (together, count) in [(vec![vec![0], vec![1]], 2), (vec![vec![1, 0]], 1)] {
            let nodes = Nodes { switches: &switches(), hosts: 2, together: &together };
            let (found, _) = Partitioning::of_threads(2, &effects(&links), nodes, false);
            assert_eq!(found.count, count, "{together:?}");
        }
    }

    #[test]
    fn links_without_delay_allow_one_partition_and_no_bins() {
        let links = links(0, 0);
        let effects = effects(&links);
        let (found, lookahead) = divided(2, &effects, false);
        assert_eq!((found.count, lookahead), (1, Err("zero lookahead: a link has no delay")));
        assert!(effects.reach().is_none());
    }

    #[test]
    fn a_packet_lost_on_its_way_to_a_store_returns_its_credit_when_it_arrives() {
        for (stores, drops, expected) in [(false, true, 94), (true, false, 94), (true, true, 30)] {
            let mut links = links_to(30, 100, stores);
            links.plan_changes(Vec::new(), drops, 1).unwrap();
            let lookahead = divided(2, &effects(&links), false).1;
            assert_eq!(lookahead, Ok(Time::from_ns(expected)), "{stores} {drops}");
        }
    }

    #[test]
    fn the_ring_of_bins_covers_the_time_for_which_a_packet_is_stored() {
        let ring = |stores, delay_ns| {
            let links = links_to(delay_ns, 1, stores);
            let reach = Effects { largest: 50_000, ..effects(&links) }.reach().unwrap();
            (reach.shift(), reach.bins())
        };
        // A bin takes 65.536 ns, and a packet 50,000 ns. It is stored after 50,000 + 40,001 ns.
        assert_eq!(ring(false, 40_000), (16, 762 + 2));
        assert_eq!(ring(true, 40_000), (16, 1_373 + 2));
    }

    #[test]
    fn bins_are_no_wider_than_the_lookahead_and_a_packet() {
        let shift =
            |links: &Links, largest| Effects { largest, ..effects(links) }.reach().map(|reach| reach.shift());
        assert_eq!(shift(&links(30, 100), 2_048), Some(16), "94 ns, rounded down to a power of two");
        assert_eq!(shift(&links(0, 20), 2_048), Some(14), "20 ns");
        assert_eq!(shift(&links(30, 100), 10), Some(13), "10 bytes");
    }
}
