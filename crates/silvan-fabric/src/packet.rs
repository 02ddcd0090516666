//! Packets and the pool they live in.

use silvan_engine::Time;
use silvan_engine::cache::prefetch;

/// Index of a packet in the [`Pool`].
pub(crate) type PacketId = u32;

/// No packet.
pub(crate) const NO_PACKET: PacketId = u32::MAX;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Carries payload.
    Data,
    /// Explicit congestion notification: carries a BECN to the source of a marked packet.
    Cnp,
    /// Acknowledges a message or a marked packet.
    Ack,
}

/// A packet, from the moment its source starts to send it until it is delivered. One cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Packet {
    /// When its message was generated.
    pub created: Time,
    /// When its source began to send it.
    pub injected: Time,
    /// How long after its head its tail arrives, on the link it crossed last.
    pub tail_lag: Time,
    /// Bytes of the message it carries.
    pub payload: u32,
    /// Bytes on the wire.
    pub size: u32,
    /// Bytes it occupies in a buffer (whole credit blocks).
    pub space: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Next packet in the queue it waits in.
    pub next: PacketId,
    /// The last packet of the queue that this one is at the head of.
    pub tail: PacketId,
    /// Class of traffic, for the meters.
    pub class: u16,
    /// The source (traffic generator) at the sending host that its flow belongs to.
    pub source: u16,
    /// See [`Kind`].
    pub kind: Kind,
    /// Service level.
    pub sl: u8,
    /// Virtual lane.
    pub vl: u8,
    /// Forward explicit congestion notification: set by a switch, never cleared.
    pub fecn: bool,
    /// Backward explicit congestion notification.
    pub becn: bool,
    /// Last packet of its message.
    pub last: bool,
}

/// All packets in flight. Slots are reused, so memory follows the packets in flight.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Packet>,
    free: Vec<PacketId>,
}

impl Pool {
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(id) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(id as usize)
        {
            // Field by field: a packet put together elsewhere and copied whole would stall.
            let Packet { created, injected, tail_lag, payload, size, space, src, dst, next, tail, .. } =
                packet;
            let Packet { class, source, kind, sl, vl, fecn, becn, last, .. } = packet;
            (slot.created, slot.injected, slot.tail_lag) = (created, injected, tail_lag);
            (slot.payload, slot.size, slot.space) = (payload, size, space);
            (slot.src, slot.dst, slot.next, slot.tail) = (src, dst, next, tail);
            (slot.class, slot.source, slot.kind, slot.sl, slot.vl) = (class, source, kind, sl, vl);
            (slot.fecn, slot.becn, slot.last) = (fecn, becn, last);
            id
        } else {
            self.slots.push(packet);
            (self.slots.len() - 1) as PacketId
        }
    }

    #[inline]
    pub fn remove(&mut self, id: PacketId) {
        self.free.push(id);
    }

    /// Has a packet brought into the cache.
    #[inline]
    pub fn foresee(&self, id: PacketId) {
        prefetch(&self.slots, id as usize);
    }

    /// Packets alive.
    pub fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl std::ops::Index<PacketId> for Pool {
    type Output = Packet;
    #[inline]
    fn index(&self, id: PacketId) -> &Packet {
        &self.slots[id as usize]
    }
}

impl std::ops::IndexMut<PacketId> for Pool {
    #[inline]
    fn index_mut(&mut self, id: PacketId) -> &mut Packet {
        &mut self.slots[id as usize]
    }
}

/// A first-in first-out queue of packets, linked through [`Packet::next`].
///
/// It is no more than the packet at its head, which knows the tail: a switch has many more
/// queues than packets, and what a hop touches should fit the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fifo(PacketId);

impl Default for Fifo {
    fn default() -> Self {
        Self(NO_PACKET)
    }
}

impl Fifo {
    #[inline]
    pub fn is_empty(self) -> bool {
        self.0 == NO_PACKET
    }

    /// The packet whose turn it is.
    #[inline]
    pub fn head(self) -> Option<PacketId> {
        (self.0 != NO_PACKET).then_some(self.0)
    }

    #[inline]
    pub fn push(&mut self, id: PacketId, packets: &mut Pool) {
        packets[id].next = NO_PACKET;
        if self.0 == NO_PACKET {
            packets[id].tail = id;
            self.0 = id;
        } else {
            let tail = std::mem::replace(&mut packets[self.0].tail, id);
            packets[tail].next = id;
        }
    }

    #[inline]
    pub fn pop(&mut self, packets: &mut Pool) -> Option<PacketId> {
        let id = self.head()?;
        let (next, tail) = (packets[id].next, packets[id].tail);
        self.0 = next;
        if next != NO_PACKET {
            packets[next].tail = tail;
        }
        Some(id)
    }

    /// The packets in order.
    pub fn iter(self, packets: &Pool) -> impl Iterator<Item = PacketId> + use<'_> {
        std::iter::successors(self.head(), |&id| {
            let next = packets[id].next;
            (next != NO_PACKET).then_some(next)
        })
    }
}
