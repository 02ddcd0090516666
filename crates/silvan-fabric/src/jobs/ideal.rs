//! How long messages take without congestion.

use rustc_hash::FxHashMap;
use silvan_engine::{Rate, Time};
use silvan_trace::execute::{Cost, Parcel, Part};

/// The way from one host to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// What the first byte takes.
    pub latency: Time,
    /// Its slowest part: a link, what the source injects or the destination drains.
    pub rate: Rate,
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

impl Ideal {
    /// Bytes of a message on the wire.
    fn wire(&self, bytes: u64) -> u64 {
        let payload = bytes.max(self.least);
        payload + payload.div_ceil(self.mtu.max(1)) * self.header
    }

    /// What the first byte takes, and what all of them take on the slowest part of the way.
    fn parts(&self, from: u32, to: u32, bytes: u64) -> (Time, Time) {
        const PS_BITS: u128 = 8_000_000_000_000;
        // Every pair that a job uses has a way.
        let Some(Way { latency, rate }) = self.ways.get(&(from, to)) else { return Default::default() };
        let span = (u128::from(self.wire(bytes)) * PS_BITS).div_ceil(u128::from(rate.0.max(1)));
        (*latency, Time(span.min(u128::from(u64::MAX / 4)) as u64))
    }

    /// What a message takes from one host to another on an empty network.
    pub fn message(&self, from: u32, to: u32, bytes: u64) -> Time {
        let (latency, span) = self.parts(from, to, bytes);
        latency + span
    }

    /// What a parcel costs on an ideal crossbar. A permission is there after its latency and its packet.
    pub fn cost(&self, parcel: &Parcel) -> Cost {
        let (from, to) = (self.hosts[parcel.from as usize], self.hosts[parcel.to as usize]);
        let (latency, span) = self.parts(from, to, parcel.bytes);
        if parcel.part == Part::Permission {
            return Cost { latency: (latency + span).0, span: 0, busy: 0 };
        }
        Cost { latency: latency.0, span: span.0.into(), busy: span.0.into() }
    }
}
