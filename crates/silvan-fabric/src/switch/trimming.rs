//! Packet trimming: an output whose queue is full removes the payload of a data packet. What remains is the header, which
//! waits on the lane of control packets and goes to the receiver.
//!
//! The rule is that of the queues of the Ultra Ethernet Consortium's simulator (uet-htsim, `compositequeue.cpp`, 2025),
//! except that the packet that is being sent does not count, and that the queue of headers has no limit.

use silvan_engine::Rate;
use silvan_engine::random::Stream;
use silvan_network::port::{Port, Vl};

use super::{PortWiring, Ports};
use crate::context::Context;
use crate::message::CreditReturn;
use crate::packet::{Kind, NO_LEDGER, PacketId};

/// The settings that all switches share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TrimmingRule {
    /// Bytes of data that may wait for an output on a lane, unless its rate has another limit.
    pub limit: u32,
    /// Bytes of a header on the link, and in a buffer.
    pub size: u32,
    pub space: u32,
    /// The lane of headers.
    pub headers: Vl,
    /// Whether the newest packet of a queue may lose its payload instead of the one that arrives.
    pub is_random: bool,
}

/// The trimming at the outputs of a switch.
#[derive(Debug)]
pub(crate) struct Trimmer {
    /// Bytes of data that may wait for an output on a lane, by output.
    limits: Box<[u32]>,
    pub headers: Vl,
    size: u32,
    space: u32,
    /// For each output and lane, the stream that selects the packet; empty if it is always the arriving one.
    random: Box<[Stream]>,
    /// Number of trimmed packets by output.
    counts: Box<[u64]>,
}

impl Trimmer {
    /// The trimming of a switch with these ports in a run with this seed. Some rates have limits of their own.
    pub fn new((rule, of_rates): (TrimmingRule, &[(Rate, u32)]), ports: &Ports, seed: u64) -> Self {
        let TrimmingRule { limit, size, space, headers, is_random } = rule;
        let switch = u64::from(ports.node) << 16;
        let lanes = if is_random { ports.count() * ports.lanes } else { 0 };
        let random = (0..lanes as u64).map(|lane| Stream::new(seed, "trimming", switch | lane)).collect();
        let limit_of = |wiring: &Option<PortWiring>| {
            let own = of_rates.iter().find(|(rate, _)| wiring.is_some_and(|wiring| wiring.rate == *rate));
            own.map_or(limit, |&(_, own)| own)
        };
        let limits = ports.wiring.iter().map(limit_of).collect();
        Self { limits, headers, size, space, random, counts: vec![0; ports.count()].into() }
    }

    /// Bytes of data that may wait for an output on a lane.
    pub fn limit(&self, output: Port) -> u32 {
        self.limits[output.index()]
    }

    /// Whether the newest packet of an output's lane is to lose its payload, rather than the one that arrives.
    pub fn takes_newest(&mut self, lane: usize) -> bool {
        self.random.get_mut(lane).is_some_and(|random| random.below(2) == 0)
    }

    /// Number of packets that an output has trimmed.
    pub fn count(&self, output: Port) -> u64 {
        self.counts[output.index()]
    }

    /// Removes the payload of a packet, which no longer occupies the memory of its input.
    pub fn cut(&mut self, ctx: &mut Context, ports: &Ports, (input, output): (Port, Port), id: PacketId) {
        self.counts[output.index()] += 1;
        let packet = &mut ctx.packets[id];
        let (way, space) = ((ports.feeder(input), packet.vl, packet.dst), packet.space);
        packet.kind = Kind::Header;
        packet.size = packet.size.min(self.size);
        packet.space = packet.space.min(self.space);
        packet.vl = self.headers;
        packet.validated = ports.wiring[output.index()].is_some_and(|wiring| wiring.faces_host);
        ctx.meters.trimmed += 1;
        ctx.meters.trimmed_marked += u64::from(packet.fecn);
        ctx.release(CreditReturn { way, ledger: NO_LEDGER, space, leaves_at: ctx.now });
    }
}
