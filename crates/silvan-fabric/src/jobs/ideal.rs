//! The duration of messages without congestion.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::{Rate, Time};
use silvan_network::traffic::{ArrivalPort, JobPorts, Piece, PortUse};
use silvan_trace::execute::{Cost, Parcel, Part};

/// The route from one host to another, with the best properties of all routes that packets may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// The latency of the first byte on the fastest route, if no switch stores packets.
    pub latency: Time,
    /// The rate that determines the spacing of packets: the total rate of all routes or the source's
    /// injection rate, whichever is lower.
    pub spacing: Rate,
    /// The total rate of all routes or the destination's drain rate, whichever is lower.
    pub drain: Rate,
    /// The rate of the fastest route or the destination's drain rate, whichever is lower. It determines the
    /// arrival of the last packet.
    pub last: Rate,
    /// The links on which packets are stored.
    pub stored: StoredLinks,
}

/// The links of a route other than its slowest one, if switches store packets before they forward them. A packet
/// needs its transmission time on each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct StoredLinks {
    /// The time per byte on all links before the last of the slowest ones, in 2^-20 ps.
    pub before: u64,
    /// The same for the links behind it.
    pub after: u64,
}

impl StoredLinks {
    /// The time per byte of a link, rounded down.
    pub fn per_byte(rate: Rate) -> u64 {
        let time = (8_000_000_000_000 << 20) / u128::from(rate.0.max(1));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    /// The same links, all of which count for the last packet.
    pub fn of_last(self) -> Self {
        Self { before: 0, after: self.before.saturating_add(self.after) }
    }

    /// The time of the first packet before the slowest link, and of the last packet behind it.
    fn time(self, first: u64, last: u64) -> Time {
        let sum = u128::from(self.before) * u128::from(first) + u128::from(self.after) * u128::from(last);
        Time((sum >> 20).min(u128::from(u64::MAX / 8)) as u64)
    }
}

/// The routes that a job's messages take, and how messages are divided into packets.
#[derive(Debug)]
pub(crate) struct Ideal {
    pub ways: FxHashMap<(u32, u32), Way>,
    /// The host of each rank, or one of the ports of its host.
    pub hosts: Vec<u32>,
    /// The ports of hosts, if some of them have several.
    pub ports: Option<Arc<JobPorts>>,
    /// The rate of the link of each reduction unit that has ranks. It determines how long a message occupies
    /// the unit.
    pub units: FxHashMap<u32, Rate>,
    pub mtu: u64,
    pub header: u64,
    /// Payload of a message of zero bytes.
    pub least: u64,
}

/// The transmission time of a number of bytes at a rate, limited to a time far beyond any run.
fn span_of(bytes: u64, rate: Rate) -> Time {
    const PS_BITS: u128 = 8_000_000_000_000;
    let span = (u128::from(bytes) * PS_BITS).div_ceil(u128::from(rate.0.max(1)));
    Time(span.min(u128::from(u64::MAX / 8)) as u64)
}

/// The times of a message on an empty network.
#[derive(Debug, Clone, Copy, Default)]
struct MessageTimes {
    /// The latency of the first byte, with the time for which packets are stored.
    latency: Time,
    /// The time from then until all bytes are drained.
    span: Time,
    /// The time for which both hosts are busy.
    busy: Time,
}

impl Ideal {
    /// Bytes on the wire of a message's packets: those of all packets but the last, and those of the last
    /// one.
    fn wire(&self, bytes: u64) -> (u64, u64) {
        let (payload, mtu) = (bytes.max(self.least), self.mtu.max(1));
        let before = payload.div_ceil(mtu) - 1;
        (before * (mtu + self.header), payload - before * mtu + self.header)
    }

    /// The times of a message from one host to another.
    fn parts(&self, from: u32, to: u32, bytes: u64) -> MessageTimes {
        // Every pair that a job uses has a route.
        let Some(way) = self.ways.get(&(from, to)) else { return Default::default() };
        let (before, last) = self.wire(bytes);
        let drained = span_of(before + last, way.drain);
        let spaced = span_of(before, way.spacing) + span_of(last, way.last);
        let first = if before > 0 { self.mtu.max(1) + self.header } else { last };
        MessageTimes {
            latency: way.latency + way.stored.time(first, last),
            span: drained.max(spaced),
            busy: drained.max(span_of(before + last, way.spacing)),
        }
    }

    /// The time that a message takes from one host to another on an empty network. With adaptive routing,
    /// this is a lower bound for all routes, because `message_slowdown_mean` compares with the best possible
    /// route.
    pub fn message(&self, from: u32, to: u32, bytes: u64) -> Time {
        let times = self.parts(from, to, bytes);
        times.latency + times.span
    }

    /// The largest piece of a parcel.
    fn longest_piece(&self, parcel: &Parcel) -> Piece {
        let &Parcel { from, to, index, bytes, .. } = parcel;
        let of_ports = self.ports.as_ref().and_then(|ports| {
            let pieces = ports.pieces((from, to), index, bytes, |_| true).into_iter();
            pieces.reduce(|longest, piece| if piece.bytes > longest.bytes { piece } else { longest })
        });
        let [from, to] = [from, to].map(|rank| self.hosts[rank as usize]);
        of_ports.unwrap_or(Piece { from, to, bytes })
    }

    /// The cost of a parcel on an ideal crossbar. The cost of a permission is its latency and the time of its
    /// packet.
    pub fn cost(&self, parcel: &Parcel) -> Cost {
        let Piece { from, to, bytes } = self.longest_piece(parcel);
        let MessageTimes { latency, span, busy } = self.parts(from, to, bytes);
        if parcel.part == Part::Permission {
            let latency = (latency + span).0;
            return Cost { latency, span: 0, sending: 0, receiving: 0, packets: 1, packet: 0 };
        }
        let (before, last) = self.wire(bytes);
        let busy = |host: u32| self.units.get(&host).map_or(busy, |&rate| span_of(before + last, rate)).0;
        let (mut sending, mut receiving): (u128, u128) = (busy(from).into(), busy(to).into());
        if let Some(ports) = &self.ports {
            // All ports of a host count as one interface, unless each rank sends or receives with its own port.
            let whole = u128::from(self.parts(from, to, parcel.bytes).busy.0);
            let of_host = |rank: u32| whole / ports.ports(rank).len() as u128;
            let has_own = ports.used == PortUse::Rank;
            if !has_own {
                sending = of_host(parcel.from);
            }
            if !has_own || ports.arrival == ArrivalPort::Same {
                receiving = of_host(parcel.to);
            }
        }
        let full = self.mtu.max(1) + self.header;
        let packet = sending * u128::from(full) / u128::from(before + last);
        let packets = before / full + 1;
        let packet = if packets > 1 { packet } else { sending };
        Cost { latency: latency.0, span: span.0.into(), sending, receiving, packets, packet }
    }
}
