//! The shortest round trip of a packet and its acknowledgement, and the windows and waiting slots that result from it
//! (MVCM, section 4.3).

use silvan_engine::{Bytes, Rate, Time};

/// The longest round trip of hosts that exchange traffic, on an empty network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// Most switches on a route, h.
    pub hops: u32,
    /// Stages of the network, n. This is the number of hops if links are one-way. Otherwise, it is half of
    /// that number, rounded up, because routes go up and down.
    pub stages: u32,
    /// Largest number of hosts at one switch, k, among the switches with a host that communicates.
    pub radix: u32,
    /// The time from the start of a full packet until its acknowledgement has arrived. If all links are equal, this is
    /// `RTTmin` = 2 h t_hop + (L_data + L_ack) / B.
    pub shortest: Time,
    /// A full packet on the wire, L_data.
    pub data: Bytes,
    /// An acknowledgement on the wire, L_ack.
    pub ack: Bytes,
    /// Rate of the slowest link of the hosts that communicate, B.
    pub rate: Rate,
    /// The numbers of the sender and the receiver with this round trip.
    pub pair: (u32, u32),
}

impl RoundTrip {
    /// Number of packets that fill the shortest round trip: omega = `RTTmin` / (L_data / B).
    #[must_use]
    pub fn window(&self) -> f64 {
        self.shortest.0 as f64 / self.rate.pace().time(self.data.0 as u32).0.max(1) as f64
    }

    /// The smallest window that does not throttle flows, which is omega rounded up.
    #[must_use]
    pub fn packets(&self) -> u16 {
        let span = self.rate.pace().time(self.data.0 as u32).0.max(1);
        self.shortest.0.div_ceil(span).min(u64::from(u16::MAX)) as u16
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
            shortest: Time(2 * 9 * 3_000 + (22 + payload + 22) * 1_000 / bytes_per_cycle),
            data: Bytes(22 + payload),
            ack: Bytes(22),
            rate: Rate(8_000_000_000 * bytes_per_cycle),
            pair: (0, 1),
        }
    }

    #[test]
    fn windows_are_the_published_ones() {
        let usual = published(256, 1);
        assert_eq!(usual.packets(), 2);
        for (network, omega, packets) in
            [(usual, 354.0 / 278.0, 2), (published(0, 1), 98.0 / 22.0, 5), (published(256, 16), 4.187, 5)]
        {
            assert!((network.window() - omega).abs() < 1e-3, "{}", network.window());
            assert_eq!(network.packets(), packets);
        }
    }
}
