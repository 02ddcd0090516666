//! Read access to hosts for measurements and checks.

use silvan_network::port::{Port, Vl};

use super::outbox::ControlPacket;
use super::{Adapter, Host};
use crate::order::Order;
use crate::packet::{Packet, PacketId, Pool};

/// Data that a source has generated for a destination but has not sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnsentData {
    pub class: u16,
    pub destination: u32,
    /// Bytes of payload.
    pub bytes: u64,
    /// Whether the flow is in a list: it waits for its turn, a time, credit, or an answer.
    pub is_listed: bool,
}

/// The source of unsent data, with the destination and the virtual lane of these data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedWay {
    pub source: u16,
    pub destination: u32,
    pub vl: Vl,
}

impl Host {
    /// Whether the host restores the order of packets, because they may overtake each other.
    pub fn restores_order(&self) -> bool {
        self.order.is_some()
    }

    /// The numbers of the packets that the host sends and receives, if it restores the order of packets.
    pub fn packet_order(&self) -> Option<&Order> {
        self.order.as_deref()
    }

    /// The packets in the input buffer, with their numbers.
    pub fn undrained(&self) -> impl Iterator<Item = (&Packet, u64)> {
        self.undrained.iter().map(|one| (&one.packet, one.number))
    }

    /// A packet order with the same parameters and no packets.
    pub fn fresh_order(&self) -> Option<Order> {
        self.order.as_ref().map(|order| order.fresh())
    }

    /// The data that have been generated but not sent, by flow.
    pub fn waiting(&self) -> impl Iterator<Item = UnsentData> {
        let of_flows = self.flows.sending().map(|(id, flow)| {
            let source = &self.sources[usize::from(flow.source)];
            let bytes: u64 = flow.messages.iter().map(|message| message.left).sum();
            let bytes = bytes + self.flows.lost_bytes(id);
            let is_listed = flow.is_listed();
            UnsentData { class: source.class, destination: flow.destination, bytes, is_listed }
        });
        let on_hand = self.on_hand.iter().map(|message| UnsentData {
            class: self.sources[0].class,
            destination: message.destination,
            bytes: message.left,
            is_listed: true,
        });
        of_flows.chain(on_hand)
    }

    /// The ways of unsent data.
    pub fn wanted(&self) -> impl Iterator<Item = WantedWay> {
        let of_flows = self.flows.sending().map(|(_, flow)| (flow.source, flow.destination));
        let wanted = of_flows.chain(self.on_hand.iter().map(|message| (0, message.destination)));
        wanted.map(|(source, destination)| {
            let vl = self.lane(usize::from(source), destination);
            WantedWay { source, destination, vl }
        })
    }

    /// The packets that have arrived but are not delivered, because they have not been drained or wait for an
    /// earlier packet.
    pub fn undelivered(&self) -> impl Iterator<Item = &Packet> {
        let held = self.order.iter().flat_map(|order| order.held());
        self.undrained.iter().map(|undrained| &undrained.packet).chain(held)
    }

    /// Packets in the output buffer.
    pub fn buffered(&self, packets: &Pool) -> Vec<PacketId> {
        let lanes = Vl::all(self.lanes.into());
        let of = |adapter: &Adapter| {
            lanes.flat_map(|vl| adapter.buffers.waiting(packets, Port::FIRST, vl)).collect()
        };
        self.adapter.as_deref().map(of).unwrap_or_default()
    }

    /// Class, and payload in bytes, of each packet whose negative acknowledgement has not been sent yet.
    pub fn unreported(&self) -> impl Iterator<Item = (u16, u64)> {
        let lost = |control: &ControlPacket| Some((control.class, control.contents.segment()?.bytes.into()));
        self.control.iter().filter_map(lost)
    }

    /// Number of control packets that wait to be sent.
    pub fn control_waiting(&self) -> usize {
        self.control.len()
    }

    /// Number of throttled and closed flows.
    pub fn throttled_flows(&self) -> usize {
        self.flows.throttled()
    }
}
