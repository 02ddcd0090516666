//! Payload that watched hosts receive, for each flow. The watched hosts are those behind the roots of
//! congestion trees.

use rustc_hash::FxHashMap;
use silvan_engine::saved::Saved;

use crate::packet::Packet;

/// A flow, with the fields on which its route depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Saved)]
pub(crate) struct RoutedFlow {
    pub host: u32,
    pub class: u16,
    /// The index of the flow's source within the host.
    pub source: u16,
    pub destination: u32,
}

impl RoutedFlow {
    /// A hash of the flow that is the same in all partitions.
    fn hash(self) -> u64 {
        let ends = u64::from(self.host) << 32 | u64::from(self.destination);
        let kind = u64::from(self.class) << 16 | u64::from(self.source);
        (ends ^ kind.wrapping_mul(0xC2B2_AE3D_27D4_EB4F)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
    }
}

/// The hosts and flows whose packets are counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Saved)]
pub(crate) struct Watch {
    /// For each host, whether its received payload is counted. The list is empty if no host is watched.
    pub hosts: Vec<bool>,
    /// If there are many flows, only those whose hash under this mask equals `rest` are counted. `rest`
    /// cycles through all values.
    pub mask: u64,
    pub rest: u64,
}

/// Payload received by watched hosts.
#[derive(Debug, Clone, Default, Saved)]
pub(crate) struct Deliveries {
    watch: Watch,
    /// Payload in the current interval.
    #[saved(count)]
    bytes: FxHashMap<RoutedFlow, u64>,
}

impl Deliveries {
    /// Sets the hosts and flows to count.
    pub fn watch(&mut self, watch: &Watch) {
        self.watch.clone_from(watch);
    }

    /// Counts a packet with `bytes` of payload if its destination and its flow are watched.
    #[inline]
    pub fn count(&mut self, packet: &Packet, bytes: u32) {
        if self.watch.hosts.get(packet.dst as usize).is_some_and(|&is_watched| is_watched) {
            self.add(packet, bytes);
        }
    }

    #[inline(never)]
    fn add(&mut self, packet: &Packet, bytes: u32) {
        let Packet { src: host, class, source, dst: destination, .. } = *packet;
        let sender = RoutedFlow { host, class, source, destination };
        if sender.hash() & self.watch.mask == self.watch.rest {
            *self.bytes.entry(sender).or_default() += u64::from(bytes);
        }
    }

    /// Moves the counts of another partition into this one.
    pub fn gather(&mut self, other: &mut Self) {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, &mut other.bytes);
        }
        for (sender, bytes) in other.bytes.drain() {
            *self.bytes.entry(sender).or_default() += bytes;
        }
    }

    /// The counts of the interval, in no particular order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (RoutedFlow, u64)> {
        self.bytes.iter().map(|(sender, bytes)| (*sender, *bytes))
    }

    /// Starts the next interval.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_counted_in_turn() {
        let flows = (0..1000).map(|host| RoutedFlow { host, class: 1, source: 0, destination: 7 });
        for rest in 0..8 {
            let counted = flows.clone().filter(|flow| flow.hash() & 7 == rest).count();
            assert!((90..160).contains(&counted), "{counted} of 1000 leave {rest}");
        }
    }
}
