//! Packet trimming: an output whose queue is full removes the payload of a data packet. What remains is the
//! header, which waits on the lane of control packets and goes to the receiver.
//!
//! In switches with a queue per input, the limit applies to the packets of all inputs, and the arriving
//! packet is trimmed.
//!
//! The rule is that of the queues of the Ultra Ethernet Consortium's simulator (uet-htsim,
//! `compositequeue.cpp`, 2025), except that the packet that is being sent does not count, and that the queue
//! of headers has no limit.

use silvan_engine::Rate;
use silvan_engine::random::Stream;
use silvan_engine::saved::Saved;
use silvan_network::port::Vl;

use crate::meters::Meters;
use crate::packet::{Contents, Packet, PacketId, Pool};

/// The settings that all switches share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrimmingRule {
    /// Bytes of data that may wait for an output on a lane, unless its rate has another limit.
    pub limit: u32,
    /// Bytes of a header on the link.
    pub size: u32,
    /// Bytes of a credit block. A header occupies whole blocks in a buffer.
    pub credit_block: u32,
    /// The lane of headers.
    pub headers: Vl,
    /// Whether the newest packet of a queue may lose its payload instead of the one that arrives.
    pub is_random: bool,
}

/// The memory that a packet occupied before it was trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freed {
    pub vl: Vl,
    pub dst: u32,
    pub space: u32,
}

/// An output that trims packets.
#[derive(Debug, Clone, Copy, Saved)]
struct TrimmingOutput {
    /// Bytes of data that may wait on a lane.
    limit: u32,
    /// Whether a host is at the far end.
    faces_host: bool,
    /// Number of trimmed packets.
    count: u64,
}

/// The trimming at the outputs of a switch, or of all switches of a partition.
#[derive(Debug, Saved)]
pub(crate) struct Trimmer {
    #[saved(constant)]
    rule: TrimmingRule,
    outputs: Box<[TrimmingOutput]>,
    /// For each output and lane, the stream that selects the packet; empty if it is always the arriving one.
    random: Box<[Stream]>,
}

impl Trimmer {
    /// The trimming of a switch with these links at its outputs: their rates, and whether they lead to hosts.
    /// `of_rates` has the limits of particular rates. `lane_stream` creates the random stream of an output's
    /// lane.
    pub fn new(
        (rule, of_rates): (TrimmingRule, &[(Rate, u32)]),
        links: impl Iterator<Item = Option<(Rate, bool)>>,
        lanes: usize,
        lane_stream: impl Fn(usize) -> Stream,
    ) -> Self {
        let limit = |rate: Rate| of_rates.iter().find(|(other, _)| *other == rate).map(|&(_, own)| own);
        let output = |link: Option<(Rate, bool)>| TrimmingOutput {
            limit: link.and_then(|(rate, _)| limit(rate)).unwrap_or(rule.limit),
            faces_host: link.is_some_and(|(_, faces_host)| faces_host),
            count: 0,
        };
        let outputs: Box<[TrimmingOutput]> = links.map(output).collect();
        let lanes = if rule.is_random { outputs.len() * lanes } else { 0 };
        Self { rule, random: (0..lanes).map(lane_stream).collect(), outputs }
    }

    /// The trimming of several switches, whose outputs are numbered in this order; `None` if there are no
    /// switches.
    pub fn join(parts: impl Iterator<Item = Self>) -> Option<Self> {
        let (mut outputs, mut random, mut rule) = (Vec::new(), Vec::new(), None);
        for part in parts {
            rule = Some(part.rule);
            outputs.extend(part.outputs);
            random.extend(part.random);
        }
        Some(Self { rule: rule?, outputs: outputs.into(), random: random.into() })
    }

    /// If `vl` is the lane of headers, updates the maximum of the bytes that wait on it. `bytes` includes the
    /// packet just added.
    pub fn note_headers(&self, vl: Vl, bytes: u32, meters: &mut Meters) {
        if vl == self.rule.headers {
            meters.most_header_bytes = meters.most_header_bytes.max(bytes);
        }
    }

    /// Whether a data packet of `size` bytes fits into a queue with `bytes` of data for an output.
    pub fn fits(&self, output: usize, bytes: u32, size: u32) -> bool {
        bytes + size <= self.outputs[output].limit
    }

    /// Draws whether the newest packet of an output's lane loses its payload, rather than the arriving one.
    /// False if it is always the arriving one.
    pub fn takes_newest(&mut self, lane: usize) -> bool {
        self.random.get_mut(lane).is_some_and(|random| random.below(2) == 0)
    }

    /// Number of packets that an output has trimmed.
    pub fn count(&self, output: usize) -> u64 {
        self.outputs[output].count
    }

    /// Removes the payload of a packet at an output. Returns the freed memory of its input. The header
    /// occupies no memory until it leaves.
    pub fn cut(&mut self, output: usize, packets: &mut Pool, meters: &mut Meters, id: PacketId) -> Freed {
        let TrimmingOutput { faces_host, count, .. } = &mut self.outputs[output];
        *count += 1;
        let packet = &mut packets[id];
        let freed = Freed { vl: packet.vl, dst: packet.dst, space: packet.space };
        if let Contents::Data { bytes, created, is_last, injected, .. } = packet.contents {
            packet.contents =
                Contents::Header { bytes, created, is_last, injected, at_last_hop: *faces_host };
        }
        packet.size = packet.size.min(self.rule.size);
        packet.space = 0;
        packet.vl = self.rule.headers;
        meters.trimmed += 1;
        meters.trimmed_marked += u64::from(packet.fecn);
        freed
    }

    /// Sets the space of a header that leaves the switch that trimmed it, and returns it.
    pub fn leaves(&self, packet: &mut Packet) -> u32 {
        packet.space = packet.size.next_multiple_of(self.rule.credit_block);
        packet.space
    }
}
