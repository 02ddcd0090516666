//! The time that a transfer takes on an empty network.
//!
//! A packet that crosses links without waiting occupies each of them for its transmission time. Its head
//! reaches the next link after the delay of the link and the latency of the switch. If the next link is
//! faster, the head starts later, so that the tail arrives in time. After a store-and-forward switch, it starts
//! when the tail has arrived and the latency has passed. Packets of a transfer follow each other
//! at the pace of the slowest link so far. The drain of the receiver is treated as a further link.
//!
//! ```text
//!  start of packet n on link j = max over i <= j:
//!    path of a full packet to link i + (n - 2) slowest of the links up to i + link i + path of packet n from i to j
//! ```
//!
//! The route is that of the forwarding tables. Flow control and the reaction are ignored.

use silvan_engine::Time;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;

use crate::host::PacketSizes;
use crate::partition::View;

/// Maximum number of links to switches on a route. A longer route is treated as missing.
const MOST_LINKS: usize = 64;

/// A link of a route.
#[derive(Debug, Clone, Copy, Saved)]
struct RouteStage {
    pace: BytePace,
    /// The time from the start of a packet on the link until its head may leave the next switch or reaches
    /// the host. Behind a link to a store-and-forward switch, this does not include the transmission time.
    head: Time,
    /// Whether a store-and-forward switch is at the end of the link.
    is_stored: bool,
}

/// The route from one host to another.
#[derive(Debug, Clone, Saved)]
pub(super) struct Route {
    injection: BytePace,
    /// At least one link.
    links: Vec<RouteStage>,
    drain: BytePace,
}

/// The times of a transfer on the empty network, from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(super) struct IdealTimes {
    /// Until the last byte is drained.
    pub delivered: Time,
    /// Until the last acknowledgement has arrived; `Time::NEVER` without a route back.
    pub acked: Time,
}

impl Route {
    /// The route that the forwarding tables give to packets between two hosts, at the usual rates. `None` if
    /// the route is missing or too long. `paces` are those of injection and drain at the hosts.
    pub fn trace(view: View, (from, to): (u32, u32), paces: (BytePace, BytePace)) -> Option<Self> {
        let host = view.host(from as usize);
        let mut channel = host.out;
        let mut links = Vec::new();
        loop {
            let parameters = view.parameters(channel);
            let next = view.receiver[channel as usize];
            let head = if next.is_some() { parameters.head_delay } else { parameters.delay };
            links.push(RouteStage { pace: parameters.pace, head, is_stored: parameters.to_storing });
            let Some((switch, _)) = next else { break };
            let ports = view.ports(switch);
            channel = ports.wiring.get(ports.output_of(from, to).index()).copied().flatten()?.out;
            if links.len() > MOST_LINKS {
                return None;
            }
        }
        let (injection, drain) = paces;
        Some(Self { injection, links, drain })
    }

    /// The time for which a packet of a size occupies a stage. The drain follows the links.
    fn span(&self, stage: usize, bytes: u32) -> Time {
        match self.links.get(stage) {
            Some(link) if stage == 0 => link.pace.time(bytes).max(self.injection.time(bytes)),
            Some(link) => link.pace.time(bytes),
            None => self.drain.time(bytes),
        }
    }

    /// The time from the start of a packet at one stage to its start at the next one, if it does not wait.
    fn step(&self, stage: usize, bytes: u32) -> Time {
        let link = self.links[stage];
        match self.links.get(stage + 1) {
            _ if link.is_stored => link.head + link.pace.time(bytes),
            Some(next) => link.head + link.pace.time(bytes).saturating_sub(next.pace.time(bytes)),
            None => link.head,
        }
    }

    /// The start of the last of `packets` packets at a stage. All other packets are full.
    fn start(&self, stage: usize, packets: u64, (full, last): (u32, u32)) -> Time {
        let path = |from: usize, to: usize, bytes| {
            (from..to).fold(Time::ZERO, |sum, stage| sum + self.step(stage, bytes))
        };
        let Some(between) = packets.checked_sub(2) else { return path(0, stage, last) };
        let mut slowest = Time::ZERO;
        let ways = (0..=stage).map(|at| {
            slowest = slowest.max(self.span(at, full));
            let before = path(0, at, full) + Time(between * slowest.0) + self.span(at, full);
            before + path(at, stage, last)
        });
        ways.max().unwrap_or_default()
    }

    /// The arrival of the tail of the last packet, and the time at which it is drained.
    fn arrival(&self, packets: u64, sizes: (u32, u32)) -> (Time, Time) {
        let end = self.links.len() - 1;
        let link = self.links[end];
        let tail = self.start(end, packets, sizes) + link.pace.time(sizes.1) + link.head;
        let drained = self.start(end + 1, packets, sizes) + self.drain.time(sizes.1);
        (tail, tail.max(drained))
    }

    /// The times of a transfer. `back` is the route of acknowledgements, and `is_each` states whether each
    /// packet has one.
    pub fn ideal(&self, bytes: u64, sizes: PacketSizes, back: Option<&Self>, is_each: bool) -> IdealTimes {
        let (mtu, header) = (u64::from(sizes.mtu.max(1)), sizes.header);
        let packets = bytes.div_ceil(mtu).max(1);
        let last = (bytes - (packets - 1) * mtu) as u32 + header;
        let full = sizes.mtu + header;
        let (tail, delivered) = self.arrival(packets, (full, last));
        let acked = back.map_or(Time::NEVER, |back| {
            let mut start = tail;
            if is_each && packets > 1 {
                let (before, _) = self.arrival(packets - 1, (full, full));
                let slowest = (0..back.links.len()).map(|at| back.links[at].pace.time(sizes.control)).max();
                start = start.max(before + slowest.unwrap_or_default());
            }
            start + back.arrival(1, (sizes.control, sizes.control)).0
        });
        IdealTimes { delivered, acked }
    }
}

#[cfg(test)]
mod tests {
    use silvan_engine::Rate;

    use super::*;

    const SIZES: PacketSizes = PacketSizes { mtu: 1000, header: 50, control: 60, credit_block: 1 };

    fn route(gbits: &[u64], drain: BytePace) -> Route {
        let pace = |&gbit: &u64| Rate::from_gbit(gbit).pace();
        let links =
            gbits.iter().map(|gbit| RouteStage { pace: pace(gbit), head: Time(1000), is_stored: false });
        Route { injection: BytePace::INSTANT, links: links.collect(), drain }
    }

    /// Same as [`route`], with store-and-forward switches.
    fn stored(gbits: &[u64]) -> Route {
        let mut route = route(gbits, BytePace::INSTANT);
        let (_, inner) = route.links.split_last_mut().unwrap();
        inner.iter_mut().for_each(|link| link.is_stored = true);
        route
    }

    #[test]
    fn a_packet_takes_the_delays_of_its_links_and_its_transmission_on_the_last_one() {
        let ideal = route(&[8, 8], BytePace::INSTANT).ideal(100, SIZES, None, false);
        assert_eq!(ideal, IdealTimes { delivered: Time(2_000 + 150_000), acked: Time::NEVER });
        // From a slow to a fast link, the packet waits until its tail follows in time.
        let ideal = route(&[4, 8], BytePace::INSTANT).ideal(100, SIZES, None, false);
        assert_eq!(ideal.delivered, Time(2_000 + 300_000));
        // A slower drain begins when the head arrives.
        let ideal = route(&[8, 8], Rate::from_gbit(4).pace()).ideal(100, SIZES, None, false);
        assert_eq!(ideal.delivered, Time(2_000 + 300_000));
    }

    #[test]
    fn a_packet_that_switches_store_takes_its_transmission_on_each_link() {
        for (gbits, per_byte) in [(&[8, 8][..], 2_000), (&[4, 8, 2], 7_000), (&[2, 8], 5_000)] {
            let ideal = stored(gbits).ideal(100, SIZES, None, false);
            assert_eq!(ideal.delivered, Time(1_000 * gbits.len() as u64 + 150 * per_byte), "{gbits:?}");
        }
        // The first packet is stored twice, and the others follow it.
        let ideal = stored(&[8, 8, 8]).ideal(2_010, SIZES, None, false);
        assert_eq!(ideal.delivered, Time(3_000 + (4 * 1_050 + 60) * 1_000));
        // The last packet follows the others on the slow link, and is stored behind it.
        let ideal = stored(&[4, 8]).ideal(2_010, SIZES, None, false);
        assert_eq!(ideal.delivered, Time(2_000 + 2 * 1_050 * 2_000 + 1_050 * 1_000 + 60 * 1_000));
    }

    #[test]
    fn packets_follow_each_other_at_the_slowest_link() {
        // Three packets of 1050, 1050 and 60 bytes: the slow link is the first, the middle, or the last one.
        for gbits in [[4, 8, 8], [8, 4, 8], [8, 8, 4]] {
            let ideal = route(&gbits, BytePace::INSTANT).ideal(2_010, SIZES, None, false);
            let slow = 2 * 1_050 * 2_000 + 60 * 2_000;
            assert_eq!(ideal.delivered, Time(3_000 + slow), "{gbits:?}");
        }
        // The last packet, which is small, waits for the full one on the last link, which is slower than the
        // one before.
        let ideal = route(&[8, 16, 8], BytePace::INSTANT).ideal(1_001, SIZES, None, false);
        let (first, wait) = (1_050 * 1_000, 525 * 1_000);
        assert_eq!(ideal.delivered, Time(3_000 + first.max(wait) + 525_000 + 51_000));
    }

    #[test]
    fn the_last_acknowledgement_may_wait_for_the_one_before() {
        let way = route(&[8, 8], BytePace::INSTANT);
        let ideal = |bytes| way.ideal(bytes, SIZES, Some(&way), true);
        let back = 2_000 + 60_000;
        assert_eq!(ideal(100).acked, Time(2_000 + 150_000 + back));
        assert_eq!(ideal(1_010).acked, Time(2_000 + 1_050_000 + 60_000 + back), "as large as the data");
        assert_eq!(ideal(1_001).acked, Time(2_000 + 1_050_000 + 60_000 + back), "larger than the data");
        assert_eq!(ideal(1_001).delivered, Time(2_000 + 1_050_000 + 51_000));
    }
}
