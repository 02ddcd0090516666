//! How long messages take without congestion.

use rustc_hash::FxHashMap;
use silvan_engine::{Rate, Time};
use silvan_trace::execute::{Cost, Parcel, Part};

/// The way from one host to another: the best of the routes that packets may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// What the first byte takes by the fastest.
    pub latency: Time,
    /// The least of what all together carry and the source injects: how packets are spaced.
    pub spacing: Rate,
    /// The least of what all together carry and the destination drains.
    pub drain: Rate,
    /// The least of what the widest carries and the destination drains: how the last packet comes.
    pub last: Rate,
}

/// The ways that a job's messages take, and how messages are cut into packets.
#[derive(Debug)]
pub(crate) struct Ideal {
    pub ways: FxHashMap<(u32, u32), Way>,
    /// Per rank, its host.
    pub hosts: Vec<u32>,
    pub mtu: u64,
    pub header: u64,
    /// Payload of a message of no bytes.
    pub least: u64,
}

/// What bytes take at a rate; far beyond any run at most.
fn span(bytes: u64, rate: Rate) -> Time {
    const PS_BITS: u128 = 8_000_000_000_000;
    let span = (u128::from(bytes) * PS_BITS).div_ceil(u128::from(rate.0.max(1)));
    Time(span.min(u128::from(u64::MAX / 8)) as u64)
}

impl Ideal {
    /// Bytes of a message's packets on the wire: of all but the last, and of that.
    fn wire(&self, bytes: u64) -> (u64, u64) {
        let (payload, mtu) = (bytes.max(self.least), self.mtu.max(1));
        let before = payload.div_ceil(mtu) - 1;
        (before * (mtu + self.header), payload - before * mtu + self.header)
    }

    /// What the first byte takes, from then on until all are drained, and how long the ends are busy.
    fn parts(&self, from: u32, to: u32, bytes: u64) -> (Time, Time, Time) {
        // Every pair that a job uses has a way.
        let Some(way) = self.ways.get(&(from, to)) else { return Default::default() };
        let (before, last) = self.wire(bytes);
        let drained = span(before + last, way.drain);
        let spaced = span(before, way.spacing) + span(last, way.last);
        (way.latency, drained.max(spaced), drained.max(span(before + last, way.spacing)))
    }

    /// What a message takes from one host to another on an empty network. Where routes are chosen, by flow or by
    /// packet, no choice makes it sooner: `message_slowdown_mean` compares with the best that routing allows.
    pub fn message(&self, from: u32, to: u32, bytes: u64) -> Time {
        let (latency, span, _) = self.parts(from, to, bytes);
        latency + span
    }

    /// What a parcel costs on an ideal crossbar. A permission is there after its latency and its packet.
    pub fn cost(&self, parcel: &Parcel) -> Cost {
        let (from, to) = (self.hosts[parcel.from as usize], self.hosts[parcel.to as usize]);
        let (latency, span, busy) = self.parts(from, to, parcel.bytes);
        if parcel.part == Part::Permission {
            return Cost { latency: (latency + span).0, span: 0, busy: 0 };
        }
        Cost { latency: latency.0, span: span.0.into(), busy: busy.0.into() }
    }
}
