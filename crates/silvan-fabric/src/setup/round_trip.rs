//! The shortest round trip of a network, from its routes.

use silvan_engine::{Bytes, Rate, Time};

use crate::config::Config;
use crate::congestion::round_trip::RoundTrip;
use crate::routing::{Analysis, Tables, analyze_lanes};
use crate::topology::{NodeRef, Topology};

impl RoundTrip {
    /// Computes the round trip of a network: that of the longest route between any two hosts, with the delay of
    /// the longest link for all links.
    #[must_use]
    pub fn of(topology: &Topology, tables: &Tables, config: &Config) -> Self {
        Self::from_analysis(topology, &analyze_lanes(topology, tables, config.path_lanes.as_deref()), config)
    }

    /// Same as [`Self::of`], for routes that have already been analyzed.
    #[must_use]
    pub fn from_analysis(topology: &Topology, analysis: &Analysis, config: &Config) -> Self {
        let lengths = || analysis.hops.iter().enumerate().filter(|(_, pairs)| **pairs > 0).map(|(n, _)| n);
        let hops = lengths().max().unwrap_or(0) as u32;
        let all_alike = lengths().min() == lengths().max();
        let delay = topology.links.iter().map(|link| link.delay.0).max().unwrap_or(0);
        let mut hosts = vec![0u32; topology.switches.len()];
        let mut rate = None;
        for link in &topology.links {
            for (from, to) in link.channels() {
                if let (NodeRef::Host(_), NodeRef::Switch(switch)) = (from.node, to.node) {
                    hosts[switch as usize] += 1;
                    rate = Some(rate.map_or(link.rate, |rate: Rate| rate.min(link.rate)));
                }
            }
        }
        let one_way = u64::from(hops + 1) * delay + u64::from(hops) * config.switch.latency.0;
        Self {
            hops,
            stages: if all_alike { hops } else { hops.div_ceil(2) },
            radix: hosts.into_iter().max().unwrap_or(1).max(1),
            flight: Time(2 * one_way),
            data: Bytes(config.packet.mtu.0 + config.packet.header.0),
            ack: config.packet.control,
            rate: rate.unwrap_or(Rate::from_gbit(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The round trip of the paper's 4-ary 5-fly, with cycles of a nanosecond.
    fn published(payload: u64, bytes_per_cycle: u64) -> RoundTrip {
        RoundTrip {
            hops: 9,
            stages: 5,
            radix: 4,
            flight: Time::from_ns(2 * 9 * 3),
            data: Bytes(22 + payload),
            ack: Bytes(22),
            rate: Rate(8_000_000_000 * bytes_per_cycle),
        }
    }

    #[test]
    fn windows_are_the_published_ones() {
        let usual = published(256, 1);
        assert_eq!(usual.shortest(), Time::from_ns(354));
        assert_eq!(usual.packets(), 2);
        for (network, omega, packets) in
            [(usual, 354.0 / 278.0, 2), (published(0, 1), 98.0 / 22.0, 5), (published(256, 16), 4.187, 5)]
        {
            assert!((network.window() - omega).abs() < 1e-3, "{}", network.window());
            assert_eq!(network.packets(), packets);
        }
    }
}
