//! Packets, and the pool that stores them.

use std::num::NonZeroU16;

use silvan_congestion::facts::{Severity, Telemetry};
use silvan_engine::Time;
use silvan_engine::cache::{prefetch, prefetch_all, prefetch_end, prefetch_lines};
use silvan_engine::saved::{Damaged, Reader, Saved, Writer};
use silvan_network::port::{Port, Vl};

use crate::free_slots::FreeSlots;

/// Index of a packet in the [`Pool`].
pub(crate) type PacketId = u32;

/// Represents no packet.
pub(crate) const NO_PACKET: PacketId = u32::MAX;

/// Represents no ledger; see [`Pool::ledger`].
pub(crate) const NO_LEDGER: u32 = u32::MAX;

/// The type of a packet; see [`Contents`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(crate) enum Kind {
    Data,
    Cnp,
    Ack,
    Request,
    Grant,
    SetUp,
    Probe,
    TearDown,
    Reply,
    Header,
    Nack,
    Receipt,
    PathProbe,
    PathReply,
}

/// Identifies a flow in the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Saved)]
pub struct FlowAddress {
    /// The host that sends the flow's data.
    pub host: u32,
    /// Index of the flow's source (traffic generator) at its host.
    pub source: u16,
    /// The host that receives the flow's data.
    pub destination: u32,
}

/// The part of a message that a data packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(crate) struct Segment {
    /// Bytes of payload.
    pub bytes: u32,
    /// The time at which the message was generated.
    pub created: Time,
    /// Whether the segment is the last one of its message.
    pub is_last: bool,
}

/// What an answer repeats of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(crate) struct Echoed {
    /// The time at which the source started to send the packet. If the answer covers several packets, the receiver component
    /// defines which of them counts, also for the other fields.
    pub sent_at: Time,
    /// Acknowledged bytes of payload.
    pub bytes: u32,
    pub severity: Severity,
    /// Backward explicit congestion notification.
    pub is_marked: bool,
    /// The validation bit.
    pub is_validated: bool,
}

/// What a packet carries. The host that sends the packet writes it. A switch only validates or trims a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(crate) enum Contents {
    /// A segment of a message.
    Data {
        /// See [`Segment`].
        bytes: u32,
        created: Time,
        is_last: bool,
        /// The time at which the source started to send the packet.
        injected: Time,
        /// Validation bit: the packet left through a congested output after it was marked.
        is_validated: bool,
    },
    /// Explicit congestion notification to the source of a marked packet.
    Cnp(Echoed),
    /// Acknowledges one or several packets.
    Ack(Echoed),
    /// From a source to the receiver of its flow: requests an amount, whose meaning the components define.
    Request {
        amount: u32,
        /// Whether the source has not received the grant of an earlier request in time.
        is_repeated: bool,
    },
    /// From a receiver to the source of a flow: grants an amount, whose meaning the components define.
    Grant { amount: u32 },
    /// Precedes a flow, selects its route, and announces its size to the links. Carries the index of its announcement.
    SetUp(u32),
    /// Reads from the links of a flow's route how much data is announced to them. Carries the index of its announcement.
    Probe(u32),
    /// Follows a flow, erases its route, and removes its announced size from the links. Carries the index of its
    /// announcement.
    TearDown(u32),
    /// Returns the announcement of a set-up, probe, tear-down or data packet to the source.
    Reply(u32),
    /// The header of a data packet whose payload a switch has removed.
    Header {
        /// The lost segment; see [`Segment`].
        bytes: u32,
        created: Time,
        is_last: bool,
        /// The time at which the source started to send the data packet.
        injected: Time,
        /// Whether the payload was lost at the output to the receiver.
        at_last_hop: bool,
    },
    /// Negative acknowledgement: from a receiver to the source of a header, whose number and fields it repeats.
    Nack {
        bytes: u32,
        created: Time,
        is_last: bool,
        /// The time at which the source started to send the data packet.
        sent_at: Time,
        at_last_hop: bool,
        /// Whether the header was marked.
        is_marked: bool,
    },
    /// With loss recovery, from a receiver to the source of a data packet: the packet with its number has arrived, or is
    /// missing.
    Receipt { is_missing: bool },
    /// From a source to the receiver of its flow: tests the entropy value that the packet has.
    PathProbe,
    /// Answers a probe of an entropy value.
    PathReply {
        /// Whether the probe was marked.
        is_marked: bool,
    },
}

impl Contents {
    /// A segment that its source starts to send at a time.
    #[inline(always)]
    pub fn data(Segment { bytes, created, is_last }: Segment, injected: Time) -> Self {
        Self::Data { bytes, created, is_last, injected, is_validated: false }
    }

    #[inline(always)]
    pub fn kind(&self) -> Kind {
        match self {
            Self::Data { .. } => Kind::Data,
            Self::Cnp(_) => Kind::Cnp,
            Self::Ack(_) => Kind::Ack,
            Self::Request { .. } => Kind::Request,
            Self::Grant { .. } => Kind::Grant,
            Self::SetUp(_) => Kind::SetUp,
            Self::Probe(_) => Kind::Probe,
            Self::TearDown(_) => Kind::TearDown,
            Self::Reply(_) => Kind::Reply,
            Self::Header { .. } => Kind::Header,
            Self::Nack { .. } => Kind::Nack,
            Self::Receipt { .. } => Kind::Receipt,
            Self::PathProbe => Kind::PathProbe,
            Self::PathReply { .. } => Kind::PathReply,
        }
    }

    /// The segment that the packet carries or, for a header or a negative acknowledgement, the lost one.
    #[inline(always)]
    pub fn segment(&self) -> Option<Segment> {
        match *self {
            Self::Data { bytes, created, is_last, .. }
            | Self::Header { bytes, created, is_last, .. }
            | Self::Nack { bytes, created, is_last, .. } => Some(Segment { bytes, created, is_last }),
            _ => None,
        }
    }

    /// The index of the announcement of a packet that announces a flow, or of its reply.
    pub fn announcement(&self) -> Option<u32> {
        match *self {
            Self::SetUp(number) | Self::Probe(number) | Self::TearDown(number) | Self::Reply(number) => {
                Some(number)
            }
            _ => None,
        }
    }

    /// Changes [`Self::announcement`], if there is one.
    pub fn set_announcement(&mut self, to: u32) {
        if let Self::SetUp(number) | Self::Probe(number) | Self::TearDown(number) | Self::Reply(number) = self
        {
            *number = to;
        }
    }
}

impl Kind {
    /// Whether packets of this kind answer a packet of the host that receives them. Replies to announcements
    /// do not count.
    #[inline]
    pub fn answers(self) -> bool {
        matches!(self, Self::Cnp | Self::Ack | Self::Grant | Self::Nack | Self::Receipt | Self::PathReply)
    }

    /// Whether packets of this kind must not overtake the data of their flow.
    #[inline]
    pub fn follows_data(self) -> bool {
        matches!(self, Self::Data | Self::TearDown)
    }
}

/// A packet, from the time at which its source starts to send it until it is delivered. Occupies one cache
/// line.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(align(64))]
pub(crate) struct Packet {
    pub contents: Contents,
    /// Time between the arrivals of the packet's head and tail on the last link.
    #[saved(span)]
    pub tail_lag: Time,
    /// Bytes on the wire.
    pub size: u32,
    /// Bytes that the packet occupies in a buffer (whole credit blocks).
    pub space: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Next packet in the same queue.
    pub next: PacketId,
    /// The output port at the current switch, if flows have individual routes.
    pub out: Port,
    /// Class of traffic, for the meters.
    pub class: u16,
    /// The source (traffic generator) in the sending host to which the flow belongs.
    pub source: u16,
    /// Service level.
    pub sl: u8,
    /// On a link, the packet's virtual lane; in a switch, the virtual lane on which it will leave.
    pub vl: Vl,
    /// If switches change lanes, the virtual lane on which the packet arrived at the current switch.
    pub came: Vl,
    /// Forward explicit congestion notification, or marking bit. A switch sets it, and nothing clears it.
    pub fecn: bool,
    /// Severity of the congestion that a mark reports; 0 if marks are single bits.
    pub severity: Severity,
    /// Whether the packet uses the ports of the forwarding tables although other packets select their ports.
    pub pinned: bool,
}

// Prefetching counts on this, and another line per packet would be another cache miss per hop.
const _: () = assert!(size_of::<Packet>() == 64);

impl Packet {
    /// The flow of a packet from its source, such as a data packet or a header.
    #[inline(always)]
    pub fn flow(&self) -> FlowAddress {
        FlowAddress { host: self.src, source: self.source, destination: self.dst }
    }

    /// The flow of a packet to its source, such as an acknowledgement.
    #[inline(always)]
    pub fn answered_flow(&self) -> FlowAddress {
        FlowAddress { host: self.dst, source: self.source, destination: self.src }
    }

    /// See [`Contents::kind`].
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        self.contents.kind()
    }

    #[inline(always)]
    pub fn is_data(&self) -> bool {
        matches!(self.contents, Contents::Data { .. })
    }

    /// See [`Contents::segment`].
    #[inline(always)]
    pub fn segment(&self) -> Option<Segment> {
        self.contents.segment()
    }

    /// Bytes of [`Self::segment`]; zero if there is none.
    #[inline(always)]
    pub fn payload(&self) -> u32 {
        self.segment().map_or(0, |segment| segment.bytes)
    }

    /// Whether a data packet is the last one of its message.
    #[inline(always)]
    pub fn ends_message(&self) -> bool {
        matches!(self.contents, Contents::Data { is_last: true, .. })
    }

    /// Whether a data packet has the validation bit.
    #[inline(always)]
    pub fn is_validated(&self) -> bool {
        matches!(self.contents, Contents::Data { is_validated: true, .. })
    }
}

#[cfg(test)]
impl Contents {
    /// Contents of a kind, with 100 bytes in a segment, for tests.
    pub fn example(kind: Kind) -> Self {
        let (bytes, created, is_last) = (100, Time(0), false);
        let (injected, sent_at, at_last_hop, is_marked) = (Time(0), Time(0), false, false);
        let echoed = Echoed { sent_at, bytes, severity: 0, is_marked, is_validated: false };
        match kind {
            Kind::Data => Self::data(Segment { bytes, created, is_last }, injected),
            Kind::Cnp => Self::Cnp(echoed),
            Kind::Ack => Self::Ack(echoed),
            Kind::Request => Self::Request { amount: bytes, is_repeated: false },
            Kind::Grant => Self::Grant { amount: bytes },
            Kind::SetUp => Self::SetUp(0),
            Kind::Probe => Self::Probe(0),
            Kind::TearDown => Self::TearDown(0),
            Kind::Reply => Self::Reply(0),
            Kind::Header => Self::Header { bytes, created, is_last, injected, at_last_hop },
            Kind::Nack => Self::Nack { bytes, created, is_last, sent_at, at_last_hop, is_marked },
            Kind::Receipt => Self::Receipt { is_missing: false },
            Kind::PathProbe => Self::PathProbe,
            Kind::PathReply => Self::PathReply { is_marked: false },
        }
    }
}

#[cfg(test)]
impl Packet {
    /// A data packet of 100 bytes from host 0 to host 9, for tests.
    pub fn example() -> Self {
        Self {
            contents: Contents::example(Kind::Data),
            tail_lag: Time(0),
            size: 120,
            space: 128,
            src: 0,
            dst: 9,
            next: NO_PACKET,
            out: Port::FIRST,
            class: 0,
            source: 0,
            sl: 0,
            vl: Vl::FIRST,
            came: Vl::FIRST,
            fecn: false,
            severity: 0,
            pinned: false,
        }
    }
}

/// The packets of a flow that have arrived, according to an acknowledgement of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
pub(crate) struct ArrivedReport {
    /// Bit k states whether the packet `k + 1` before the highest one has arrived.
    pub earlier: u64,
    /// The highest number, minus the acknowledged number; 0 if an acknowledgement covers one packet.
    pub above: u32,
    /// The highest number plus 1, minus the number of the first packet that has not arrived; 0 if an acknowledgement
    /// covers one packet.
    pub below: u32,
}

/// Additional data of a packet that can overtake others, makes a detour, carries a target or an announcement,
/// or has an entropy value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Saved)]
pub(crate) struct Marks {
    /// The packet number within the flow; 0 if it was not set.
    pub number: u64,
    /// For an acknowledgement with loss recovery: the packets of the flow that have arrived.
    pub report: ArrivedReport,
    /// The target that the packet carries to the receiver of its flow; 0 if it was not set.
    pub target: u32,
    /// For an acknowledgement of several packets, their number.
    pub covered: u32,
    /// For a packet with a target, a request or a grant: the number of the connection of the flow's source; 0
    /// if it was not set.
    pub connection: u32,
    /// The announcement that a data packet carries, plus one; 0 if it carries none.
    announcement: u32,
    /// The group through which the packet makes a detour, plus one.
    detour: Option<NonZeroU16>,
    /// The value that switches hash in addition to the fields of the flow.
    pub entropy: u16,
    /// Whether the source of a data packet requests an acknowledgement, if acknowledgements cover several
    /// packets.
    pub asks: bool,
}

impl Marks {
    /// See [`Pool::announcement`].
    pub fn announcement(&self) -> Option<u32> {
        self.announcement.checked_sub(1)
    }
}

/// All packets in flight. Slots are reused, so memory use is proportional to the number of packets in flight.
#[derive(Debug, Default, Saved)]
#[saved(relative(Self::save_live, Self::restore_live))]
pub(crate) struct Pool {
    slots: Vec<Packet>,
    free: FreeSlots,
    /// Marks of each packet, for packets that have any.
    marks: Vec<Marks>,
    /// Telemetry of each packet, in the order of the switches that wrote it. Empty unless a rule stamps
    /// packets.
    telemetry: Vec<Vec<Telemetry>>,
    /// Empty lists of telemetry, kept to avoid allocations.
    #[saved(scratch)]
    spare: Vec<Vec<Telemetry>>,
    /// The ledger of each packet. Empty unless receive buffers are divided.
    ledgers: Vec<u32>,
}

impl Pool {
    /// See [`FreeSlots::keep_order`]. The numbers of packets affect no result.
    pub fn keep_order(&mut self) {
        self.free.keep_order();
    }

    /// Saves the packets in the network and their numbers.
    fn save_live(&self, to: &mut Writer<'_>) {
        to.label("Pool.slots");
        self.free.save_used(&self.slots, to);
        to.label("Pool.marks");
        self.marks.save(to);
        to.label("Pool.telemetry");
        self.telemetry.save(to);
        to.label("Pool.ledgers");
        self.ledgers.save(to);
    }

    fn restore_live(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        FreeSlots::restore_used(&mut self.slots, from)?;
        self.marks.restore(from)?;
        self.telemetry.restore(from)?;
        self.ledgers.restore(from)
    }

    #[inline]
    pub fn insert(&mut self, packet: Packet) -> PacketId {
        if let Some(id) = self.free.take()
            && let Some(slot) = self.slots.get_mut(id as usize)
        {
            // Write the fields one by one: copying a packet that was just built would stall the processor.
            let Packet { contents, tail_lag, size, space, src, dst, next, .. } = packet;
            let Packet { out, class, source, sl, vl, came, fecn, severity, pinned, .. } = packet;
            (slot.contents, slot.tail_lag, slot.size, slot.space) = (contents, tail_lag, size, space);
            (slot.src, slot.dst, slot.next) = (src, dst, next);
            (slot.out, slot.class, slot.source, slot.sl, slot.vl, slot.came) =
                (out, class, source, sl, vl, came);
            (slot.fecn, slot.severity, slot.pinned) = (fecn, severity, pinned);
            id
        } else {
            self.slots.push(packet);
            (self.slots.len() - 1) as PacketId
        }
    }

    #[inline]
    pub fn remove(&mut self, id: PacketId) {
        self.free.add(id);
        if let Some(telemetry) = self.telemetry.get_mut(id as usize) {
            telemetry.clear();
        }
    }

    /// With divided receive buffers: the ledger whose credit the packet spent on its last link. [`NO_LEDGER`]
    /// if it is not known, because the buffers are not divided or the packet came from another partition.
    #[inline]
    pub fn ledger(&self, id: PacketId) -> u32 {
        self.ledgers.get(id as usize).copied().unwrap_or(NO_LEDGER)
    }

    /// See [`Self::ledger`].
    #[inline]
    pub fn set_ledger(&mut self, id: PacketId, ledger: u32) {
        if self.ledgers.len() <= id as usize {
            self.ledgers.resize(self.slots.len(), NO_LEDGER);
        }
        self.ledgers[id as usize] = ledger;
    }

    /// Removes the ledger of a packet.
    #[inline]
    pub fn forget_ledger(&mut self, id: PacketId) {
        if let Some(ledger) = self.ledgers.get_mut(id as usize) {
            *ledger = NO_LEDGER;
        }
    }

    /// Adds the telemetry of an output to a packet.
    #[inline]
    pub fn stamp(&mut self, id: PacketId, telemetry: Telemetry) {
        self.reserve_telemetry(id);
        let list = &mut self.telemetry[id as usize];
        if list.capacity() == 0 {
            *list = self.spare.pop().unwrap_or_default();
        }
        list.push(telemetry);
    }

    /// Prefetches the list of a packet's telemetry, if packets carry any.
    #[inline]
    pub fn prefetch_telemetry(&self, id: PacketId) {
        prefetch(&self.telemetry, id as usize);
    }

    /// Prefetches the memory for the telemetry that a packet collects next.
    #[inline]
    pub fn prefetch_stamp(&self, id: PacketId) {
        if let Some(telemetry) = self.telemetry.get(id as usize) {
            prefetch_end(telemetry);
        }
    }

    /// Prefetches the telemetry that a packet has collected.
    #[inline]
    pub fn prefetch_hops(&self, id: PacketId) {
        if let Some(telemetry) = self.telemetry.get(id as usize) {
            prefetch_all(telemetry);
        }
    }

    /// Removes and returns the telemetry that a packet has collected.
    #[inline]
    pub fn take_telemetry(&mut self, id: PacketId) -> Vec<Telemetry> {
        self.telemetry.get_mut(id as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Keeps the memory of a list of telemetry for other packets.
    #[inline]
    pub fn recycle(&mut self, mut telemetry: Vec<Telemetry>) {
        if telemetry.capacity() > 0 {
            telemetry.clear();
            self.spare.push(telemetry);
        }
    }

    /// Sets the telemetry that a packet carries.
    #[inline]
    pub fn set_telemetry(&mut self, id: PacketId, telemetry: Vec<Telemetry>) {
        if telemetry.is_empty() {
            return;
        }
        self.reserve_telemetry(id);
        let before = std::mem::replace(&mut self.telemetry[id as usize], telemetry);
        self.recycle(before);
    }

    /// Makes a list of telemetry for each packet up to `id`.
    #[inline]
    fn reserve_telemetry(&mut self, id: PacketId) {
        if self.telemetry.len() <= id as usize {
            self.telemetry.resize(self.slots.len(), Vec::new());
        }
    }

    #[inline]
    fn marks_of(&mut self, id: PacketId) -> &mut Marks {
        if self.marks.len() <= id as usize {
            self.marks.resize(self.slots.len(), Marks::default());
        }
        &mut self.marks[id as usize]
    }

    /// Sets the packet number within the flow.
    pub fn set_number(&mut self, id: PacketId, number: u64) {
        self.marks_of(id).number = number;
    }

    /// The packet number within the flow; 0 if it was not set.
    pub fn number(&self, id: PacketId) -> u64 {
        self.marks.get(id as usize).map_or(0, |marks| marks.number)
    }

    /// Sets which packets an acknowledgement reports as arrived.
    pub fn set_report(&mut self, id: PacketId, report: ArrivedReport) {
        self.marks_of(id).report = report;
    }

    /// Sets the group through which a packet makes a detour.
    pub fn set_detour(&mut self, id: PacketId, group: Option<u16>) {
        self.marks_of(id).detour = group.and_then(|group| NonZeroU16::new(group + 1));
    }

    /// The group through which a packet makes a detour, if its first switch selected one.
    pub fn detour(&self, id: PacketId) -> Option<usize> {
        self.marks.get(id as usize).and_then(|marks| marks.detour).map(|group| usize::from(group.get()) - 1)
    }

    /// Sets whether the source of a data packet requests an acknowledgement.
    pub fn set_asks(&mut self, id: PacketId, asks: bool) {
        self.marks_of(id).asks = asks;
    }

    /// Sets the number of packets that an acknowledgement covers.
    pub fn set_covered(&mut self, id: PacketId, packets: u32) {
        self.marks_of(id).covered = packets;
    }

    /// Sets the target that a packet carries to the receiver of its flow.
    pub fn set_target(&mut self, id: PacketId, target: u32) {
        self.marks_of(id).target = target;
    }

    /// Sets the number of the connection to which a packet belongs.
    pub fn set_connection(&mut self, id: PacketId, connection: u32) {
        // Slots are reused, so they may contain the number of an earlier packet.
        if connection != 0 || !self.marks.is_empty() {
            self.marks_of(id).connection = connection;
        }
    }

    /// The announcement that a data packet carries, if its source gave it one.
    #[inline]
    pub fn announcement(&self, id: PacketId) -> Option<u32> {
        self.marks.get(id as usize).and_then(|marks| marks.announcement())
    }

    /// The announcement that a packet of any kind carries.
    pub fn carried_announcement(&self, id: PacketId) -> Option<u32> {
        let packet = &self[id];
        if packet.is_data() { self.announcement(id) } else { packet.contents.announcement() }
    }

    /// Sets or removes the announcement that a data packet carries.
    #[inline]
    pub fn set_announcement(&mut self, id: PacketId, announcement: Option<u32>) {
        // Slots are reused, so they may contain the announcement of an earlier packet.
        if announcement.is_some() || !self.marks.is_empty() {
            self.marks_of(id).announcement = announcement.map_or(0, |number| number + 1);
        }
    }

    /// Sets the entropy value of a packet.
    pub fn set_entropy(&mut self, id: PacketId, entropy: u16) {
        self.marks_of(id).entropy = entropy;
    }

    /// The entropy value of a packet; 0 if it was not set.
    #[inline]
    pub fn entropy(&self, id: PacketId) -> u16 {
        self.marks.get(id as usize).map_or(0, |marks| marks.entropy)
    }

    pub fn marks(&self, id: PacketId) -> Marks {
        self.marks.get(id as usize).copied().unwrap_or_default()
    }

    /// Sets the marks of a packet from another pool.
    pub fn set_marks(&mut self, id: PacketId, marks: Marks) {
        if marks != Marks::default() || !self.marks.is_empty() {
            *self.marks_of(id) = marks;
        }
    }

    #[inline]
    pub fn prefetch(&self, id: PacketId) {
        prefetch(&self.slots, id as usize);
        prefetch(&self.ledgers, id as usize);
    }

    /// Prefetches the fields of a packet that switches hash.
    #[inline]
    pub fn prefetch_hashed(&self, id: PacketId) {
        prefetch_lines::<_, 2>(&self.slots, id as usize);
        prefetch(&self.marks, id as usize);
    }

    /// Number of packets in use.
    pub fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// All packets in use.
    pub fn iter(&self) -> impl Iterator<Item = &Packet> {
        self.numbered().map(|(packet, _)| packet)
    }

    /// All packets in use, with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (&Packet, u64)> {
        let used = self.free.used(self.slots.len()).into_iter();
        used.map(|id| (&self.slots[id as usize], self.number(id)))
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
/// Adding a packet writes to the last packet, and removing one reads the first packet. Other packets are not
/// accessed, because they are scattered in memory.
#[derive(Debug, Clone, Copy, Saved)]
pub(crate) struct Fifo {
    head: PacketId,
    /// Has no meaning while the queue is empty.
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

    /// The first packet.
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
        self.iter_after(None, packets)
    }

    /// The packets behind a packet of the queue, in order; `None` stands for all packets.
    pub fn iter_after(
        self,
        before: Option<PacketId>,
        packets: &Pool,
    ) -> impl Iterator<Item = PacketId> + use<'_> {
        let after = |id: PacketId| {
            let next = packets[id].next;
            (next != NO_PACKET).then_some(next)
        };
        let first = before.map_or_else(|| self.head(), after);
        std::iter::successors(first, move |&id| after(id))
    }

    pub fn last(self) -> Option<PacketId> {
        (!self.is_empty()).then_some(self.tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_connection_replaces_that_of_an_earlier_packet() {
        let mut pool = Pool::default();
        let id = pool.insert(Packet::example());
        pool.set_connection(id, 0);
        assert!(pool.marks.is_empty(), "no packet has another number");
        for connection in [3, 0] {
            pool.set_connection(id, connection);
            assert_eq!(pool.marks(id).connection, connection);
        }
    }

    #[test]
    fn a_packet_keeps_its_target_when_its_announcement_changes() {
        let mut pool = Pool { marks: vec![Marks::default(); 2], ..Pool::default() };
        pool.set_target(1, 7);
        pool.set_announcement(1, None);
        assert_eq!((pool.marks(1).target, pool.announcement(1)), (7, None));
        pool.set_announcement(1, Some(0));
        assert_eq!((pool.marks(1).target, pool.announcement(1)), (7, Some(0)));
    }
}
