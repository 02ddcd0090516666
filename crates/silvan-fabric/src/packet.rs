//! Packets and the pool they live in.

use silvan_engine::Time;
use silvan_engine::cache::prefetch;

use crate::congestion::facts::Telemetry;
use crate::port::{Port, Vl};

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
    /// Acknowledges a message or a packet.
    Ack,
    /// Goes ahead of a flow: chooses its route, announces its size to the links.
    SetUp,
    /// Asks the links of a flow's route how much is announced to them.
    Probe,
    /// Goes behind a flow: erases its route, takes its size off the links.
    TearDown,
    /// Brings what one of those three found back to the source.
    Reply,
}

impl Kind {
    /// Whether it tells switches of a flow.
    #[inline]
    pub fn announces(self) -> bool {
        matches!(self, Self::SetUp | Self::Probe | Self::TearDown)
    }

    /// Whether it must not overtake the data of its flow.
    #[inline]
    pub fn follows_data(self) -> bool {
        matches!(self, Self::Data | Self::TearDown)
    }
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
    /// Bytes of the message it carries; of what announces a flow, the index of the announcement.
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
    /// Where flows have routes of their own, the output port of the switch it is in.
    pub out: Port,
    /// Class of traffic, for the meters.
    pub class: u16,
    /// The source (traffic generator) at the sending host that its flow belongs to.
    pub source: u16,
    /// See [`Kind`].
    pub kind: Kind,
    /// Service level.
    pub sl: u8,
    /// Virtual lane: on a link, that of the link; in a switch, the one on which it will leave.
    pub vl: Vl,
    /// Where switches change lanes, the one on which it came into the switch that it is in.
    pub came: Vl,
    /// Forward explicit congestion notification, or marking bit: set by a switch, never cleared.
    pub fecn: bool,
    /// Validation bit: it left through a congested output after it was marked; on acknowledgements,
    /// that of the packet they answer.
    pub validated: bool,
    /// Backward explicit congestion notification.
    pub becn: bool,
    /// How severe the congestion is that a mark tells of; 0 where marks are a bit.
    pub severity: u8,
    /// Last packet of its message.
    pub last: bool,
    /// Where packets choose their ports: this one does not.
    pub pinned: bool,
}

/// Which packet of its flow one is, and the group that its detour leads over, if it makes one.
pub(crate) type Marks = (u64, Option<u16>);

/// All packets in flight. Slots are reused, so memory follows the packets in flight.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Packet>,
    free: Vec<PacketId>,
    /// Of packets that may overtake each other, or make detours.
    marks: Vec<Marks>,
    /// Telemetry per packet, in the order of the switches that wrote it. Empty unless some rule stamps packets.
    telemetry: Vec<Vec<Telemetry>>,
}

impl Pool {
    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(id) = self.free.pop()
            && let Some(slot) = self.slots.get_mut(id as usize)
        {
            // Field by field: a packet put together elsewhere and copied whole would stall.
            let Packet { created, injected, tail_lag, payload, size, space, src, dst, next, .. } = packet;
            let Packet { out, class, source, kind, sl, vl, came, .. } = packet;
            let Packet { fecn, validated, becn, severity, last, pinned, .. } = packet;
            (slot.created, slot.injected, slot.tail_lag) = (created, injected, tail_lag);
            (slot.payload, slot.size, slot.space) = (payload, size, space);
            (slot.src, slot.dst, slot.next) = (src, dst, next);
            (slot.out, slot.class, slot.source, slot.kind, slot.sl, slot.vl, slot.came) =
                (out, class, source, kind, sl, vl, came);
            (slot.fecn, slot.validated, slot.becn, slot.severity, slot.last, slot.pinned) =
                (fecn, validated, becn, severity, last, pinned);
            id
        } else {
            self.slots.push(packet);
            (self.slots.len() - 1) as PacketId
        }
    }

    #[inline]
    pub fn remove(&mut self, id: PacketId) {
        self.free.push(id);
        if let Some(telemetry) = self.telemetry.get_mut(id as usize) {
            telemetry.clear();
        }
    }

    /// Adds the telemetry of an output to a packet.
    pub fn stamp(&mut self, id: PacketId, telemetry: Telemetry) {
        if self.telemetry.len() <= id as usize {
            self.telemetry.resize(self.slots.len(), Vec::new());
        }
        self.telemetry[id as usize].push(telemetry);
    }

    /// Takes the telemetry that a packet has collected.
    #[inline]
    pub fn take_telemetry(&mut self, id: PacketId) -> Vec<Telemetry> {
        self.telemetry.get_mut(id as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Gives a packet the telemetry that it carries.
    #[inline]
    pub fn set_telemetry(&mut self, id: PacketId, telemetry: Vec<Telemetry>) {
        if telemetry.is_empty() {
            return;
        }
        if self.telemetry.len() <= id as usize {
            self.telemetry.resize(self.slots.len(), Vec::new());
        }
        self.telemetry[id as usize] = telemetry;
    }

    #[inline]
    fn marks_of(&mut self, id: PacketId) -> &mut Marks {
        if self.marks.len() <= id as usize {
            self.marks.resize(self.slots.len(), (0, None));
        }
        &mut self.marks[id as usize]
    }

    /// Says which packet of its flow one is.
    pub fn set_number(&mut self, id: PacketId, number: u64) {
        self.marks_of(id).0 = number;
    }

    /// Which packet of its flow one is; 0 where nobody said.
    pub fn number(&self, id: PacketId) -> u64 {
        self.marks.get(id as usize).map_or(0, |marks| marks.0)
    }

    /// Says over which group a packet makes a detour.
    pub fn set_detour(&mut self, id: PacketId, group: Option<u16>) {
        self.marks_of(id).1 = group;
    }

    /// The group over which a packet makes a detour, if its first switch said so.
    pub fn detour(&self, id: PacketId) -> Option<usize> {
        self.marks.get(id as usize).and_then(|marks| marks.1).map(usize::from)
    }

    /// What was said of a packet besides.
    pub fn marks(&self, id: PacketId) -> Marks {
        self.marks.get(id as usize).copied().unwrap_or_default()
    }

    /// Says of a packet what another pool knew of it.
    pub fn set_marks(&mut self, id: PacketId, marks: Marks) {
        if marks != Marks::default() || !self.marks.is_empty() {
            *self.marks_of(id) = marks;
        }
    }

    /// Has a packet brought into the cache.
    #[inline]
    pub fn prefetch(&self, id: PacketId) {
        prefetch(&self.slots, id as usize);
    }

    /// Packets alive.
    pub fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All packets alive.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        let mut is_free = vec![false; self.slots.len()];
        self.free.iter().for_each(|&id| is_free[id as usize] = true);
        self.slots.iter().zip(is_free).filter(|(_, free)| !free).map(|(packet, _)| packet)
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
/// Adding a packet writes to the last one and taking one reads the first: neither touches more,
/// as packets are all over the memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fifo {
    head: PacketId,
    /// Means nothing while the queue is empty.
    tail: PacketId,
}

impl Default for Fifo {
    fn default() -> Self {
        Self { head: NO_PACKET, tail: NO_PACKET }
    }
}

impl Fifo {
    #[inline]
    pub fn is_empty(self) -> bool {
        self.head == NO_PACKET
    }

    /// The packet whose turn it is.
    #[inline]
    pub fn head(self) -> Option<PacketId> {
        (self.head != NO_PACKET).then_some(self.head)
    }

    #[inline]
    pub fn push(&mut self, id: PacketId, packets: &mut Pool) {
        packets[id].next = NO_PACKET;
        let tail = std::mem::replace(&mut self.tail, id);
        if self.head == NO_PACKET {
            self.head = id;
        } else {
            packets[tail].next = id;
        }
    }

    #[inline]
    pub fn pop(&mut self, packets: &mut Pool) -> Option<PacketId> {
        let id = self.head()?;
        self.head = packets[id].next;
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
