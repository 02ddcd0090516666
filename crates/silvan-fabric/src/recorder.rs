//! Records which packets cross which links, and when, for the explanation of delays.
//!
//! Only departures are recorded, not waits: the time that a packet waits for an output is the time between its arrival
//! and its departure, and the departures of other packets tell what the output did meanwhile. Hosts also record why
//! their flows wait ([`crate::host::WaitLog`]), because a reaction leaves no trace on links. The recorder needs one
//! partition. The binned scheduler runs outputs one by one, so lists are put in order at the end. The record is the same for
//! both schedulers.

use rustc_hash::FxHashMap;
use silvan_engine::Time;

use crate::link::{ChannelId, Links};
use crate::message::SourceReport;
use crate::packet::{Contents, FlowAddress, Kind, Packet, PacketId, Pool};

/// Number of a packet that has left no host since the start of the recording, and of link-level messages; index that
/// stands for no channel, host or switch.
pub const NOT_RECORDED: u32 = u32::MAX;

/// The time that a recording covers, and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPlan {
    /// Packets that leave a node before this time are not recorded.
    pub from: Time,
    /// The run ends at this time.
    pub until: Time,
    /// The number of departures at which the recording ends. A departure takes about 40 bytes.
    pub most: usize,
}

/// What a run has recorded. Packets, channels and hosts are indexes.
#[derive(Debug, Default, PartialEq)]
pub struct RunRecord {
    /// The packets, in the order of their first departures.
    pub packets: Vec<RecordedPacket>,
    /// Departures from hosts and switches, in the order of their channels and starts.
    pub hops: Vec<RecordedHop>,
    /// For each departure, the index of the one before of the same packet, or [`NOT_RECORDED`].
    pub previous: Vec<u32>,
    /// Whether a link has sent packets again after errors.
    pub has_repeats: bool,
    /// Packets that hosts have received.
    pub drained: Vec<RecordedDrain>,
    /// Lost packets.
    pub losses: Vec<RecordedLoss>,
    /// Notifications that switches have sent to sources.
    pub reports: Vec<RecordedReport>,
    /// Waits of flows in hosts; those of each flow are in order of time, except for a few.
    pub waits: Vec<RecordedWait>,
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Directions of links, at the end of the recording.
    pub channels: Vec<RecordedChannel>,
    /// When CPUs of ranks were busy, with the number of the job.
    pub busy: Vec<(u32, silvan_trace::execute::BusyTime)>,
    /// Messages of ranks.
    pub parcels: Vec<RecordedParcel>,
    /// Whether the limit of departures was reached, so that the end is missing.
    pub is_full: bool,
}

/// What a packet is, as far as delays depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedRole {
    /// It carries a part of a message.
    Data,
    /// It is the header of a packet whose payload was removed.
    Header,
    /// It notifies the sender of the flow in the other direction of a mark.
    Notification,
    /// It answers a packet of the flow in the other direction: an acknowledgement, or a grant.
    Answer,
    /// It announces a flow, or asks for a grant.
    Other,
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedPacket {
    /// What the packet is.
    pub role: RecordedRole,
    /// Its flow, in the direction of the packet.
    pub flow: FlowAddress,
    /// Number of its class of traffic.
    pub class: u16,
    /// Number of the packet in its flow, which repeated packets keep; 0 if packets have no numbers.
    pub number: u64,
    /// Payload in bytes.
    pub payload: u32,
    /// Whether it is the last packet of its message.
    pub is_last: bool,
    /// When its message was generated.
    pub created: Time,
    /// When its source started to send it.
    pub injected: Time,
    /// For an answer, when the source started to send the answered packet, and whether that was marked.
    pub echo: Option<(Time, bool)>,
}

/// A packet that starts to leave a node, or a link-level message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedHop {
    /// The packet.
    pub packet: u32,
    /// The channel on which it leaves.
    pub channel: ChannelId,
    /// When its first bit leaves.
    pub start: Time,
    /// When its last bit has left.
    pub end: Time,
    /// When the packet can be forwarded at the next switch, or when its tail reaches a host.
    pub arrival: Time,
    /// Bytes with headers.
    pub size: u32,
    /// Whether the packet is marked.
    pub is_marked: bool,
}

impl RecordedHop {
    fn new(
        channel: ChannelId,
        (number, packet): (u32, &Packet),
        (start, end, arrival): (Time, Time, Time),
    ) -> Self {
        Self { packet: number, channel, start, end, arrival, size: packet.size, is_marked: packet.fecn }
    }
}

/// A packet that a host has received.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedDrain {
    /// The channel of the host.
    pub channel: ChannelId,
    /// When its tail arrived.
    pub arrival: Time,
    /// When the host has drained it from its input buffer.
    pub done: Time,
}

/// How the payload of a packet was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedLossKind {
    /// On a link that was down or had errors.
    OnLink,
    /// In front of a full buffer.
    Dropped,
    /// A switch removed the payload, and forwards the header.
    Trimmed,
}

/// A packet that was lost, or whose payload was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedLoss {
    /// The packet.
    pub packet: u32,
    /// The channel on which it was lost, or before which it was dropped or trimmed.
    pub channel: ChannelId,
    /// When it was lost.
    pub time: Time,
    /// How it was lost.
    pub kind: RecordedLossKind,
}

/// A notification that a switch sent to a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedReport {
    /// The output that has marked the packet.
    pub channel: ChannelId,
    /// When the switch sent the notification.
    pub time: Time,
    /// The flow of the packet.
    pub flow: FlowAddress,
}

/// Why a flow, or a host, does not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedWaitKind {
    /// The flow waits for its announcement, or for a probe of it.
    Announcement,
    /// The reaction permits the next packet at a known time.
    Pace,
    /// The reaction permits the next packet after an answer, a grant or a timer.
    Answer,
    /// The flow no longer waits for an answer.
    Reopened,
    /// The host waits for its injection limit or the overhead of a message. Source and destination have no meaning.
    Injection,
}

/// A wait of a flow in its host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedWait {
    /// The flow.
    pub flow: FlowAddress,
    /// Why it waits.
    pub kind: RecordedWaitKind,
    /// When the wait began.
    pub since: Time,
    /// When the wait ends at the latest; `Time::NEVER` if that was not known.
    pub until: Time,
}

/// A direction of a link.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedChannel {
    /// Name, such as `S1:3->H3`.
    pub name: String,
    /// The switch that sends; [`NOT_RECORDED`] if a host does.
    pub from_switch: u32,
    /// The host that sends, or [`NOT_RECORDED`].
    pub from_host: u32,
    /// The switch that receives, or [`NOT_RECORDED`].
    pub to_switch: u32,
    /// The host that receives, or [`NOT_RECORDED`].
    pub to_host: u32,
    /// Rate in Gbit/s.
    pub rate_gbit_s: f64,
    /// Propagation delay.
    pub delay: Time,
    /// Time from the start of a packet until its head can be forwarded; without the transmission time if packets arrive
    /// with their tails.
    pub head_delay: Time,
    /// Whether packets arrive with their tails: at hosts and store-and-forward switches.
    pub arrives_with_tail: bool,
}

/// A message of a rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedParcel {
    /// Number of the job.
    pub job: u32,
    /// The rank that sends.
    pub from: u32,
    /// The rank that receives.
    pub to: u32,
    /// When the rank posted the message.
    pub handed: Time,
    /// When its last byte left the host.
    pub left: Option<Time>,
    /// When it had arrived.
    pub delivered: Option<Time>,
    /// Its payload.
    pub bytes: u64,
    /// The time that it takes on an empty network.
    pub alone: Time,
    /// Its flow; if it has several parts, that of the part that arrived last.
    pub flow: FlowAddress,
    /// If it is divided among ports, queue pairs or packets of ports: the flows of its parts. Otherwise empty.
    pub flows_of_parts: Vec<FlowAddress>,
}

impl RunRecord {
    /// Puts all lists in an order that does not depend on the scheduler, and leaves out the departures that do not start
    /// before `complete`. `first` has the first departure of each packet. Departures of a channel are in order of time.
    fn put_in_order(&mut self, first: Vec<u32>, channels: usize, complete: Time) {
        let order = self.order_of_packets(&first, complete);
        let (mut numbers, unsorted) = (vec![NOT_RECORDED; first.len()], std::mem::take(&mut self.packets));
        for (number, &packet) in (0..).zip(&order) {
            numbers[packet as usize] = number;
        }
        self.packets = order.iter().map(|&packet| unsorted[packet as usize]).collect();
        let new_number = |packet: u32| numbers.get(packet as usize).copied().unwrap_or(NOT_RECORDED);
        self.losses.iter_mut().for_each(|loss| loss.packet = new_number(loss.packet));

        let mut places = vec![0; channels + 1];
        self.hops.iter().for_each(|hop| places[hop.channel as usize + 1] += u32::from(hop.start < complete));
        (1..places.len()).for_each(|channel| places[channel] += places[channel - 1]);
        let count = places[channels] as usize;
        let mut to = vec![NOT_RECORDED; self.hops.len()];
        let mut from = vec![0; count];
        for (row, hop) in (0..).zip(&self.hops).filter(|(_, hop)| hop.start < complete) {
            let place = &mut places[hop.channel as usize];
            (to[row as usize], from[*place as usize]) = (*place, row);
            *place += 1;
        }
        let moved = |row: u32| to.get(row as usize).copied().unwrap_or(NOT_RECORDED);
        self.previous = from.iter().map(|&row| moved(self.previous[row as usize])).collect();
        let hop = |&row: &u32| {
            let hop = self.hops[row as usize];
            RecordedHop { packet: new_number(hop.packet), ..hop }
        };
        self.hops = from.iter().map(hop).collect();

        self.drained.sort_by_key(|drain| (drain.arrival, drain.channel));
        self.reports.sort_by_key(|report| (report.time, report.channel));
        self.losses.sort_by_key(|loss| (loss.time, loss.channel, loss.packet));
    }

    /// The packets by the starts and channels of their first departures, without those that start too late.
    fn order_of_packets(&self, first: &[u32], complete: Time) -> Vec<u32> {
        let start = |packet: u32| {
            let hop = &self.hops[first[packet as usize] as usize];
            (hop.start, hop.channel)
        };
        let mut order: Vec<_> = (0..first.len() as u32)
            .map(|packet| (start(packet), packet))
            .filter(|((time, _), _)| *time < complete)
            .collect();
        order.sort();
        order.into_iter().map(|(_, packet)| packet).collect()
    }
}

/// Numbers of departures and packets for which memory is reserved, so that long lists are not moved often. Unused memory
/// costs only addresses.
const RESERVED: (usize, usize) = (1 << 22, 1 << 20);

/// A packet in the network: its number in the recording, and the index of its last departure.
#[derive(Debug, Clone, Copy)]
struct Known {
    number: u32,
    last: u32,
}

const UNKNOWN: Known = Known { number: NOT_RECORDED, last: NOT_RECORDED };

/// Records departures.
#[derive(Debug)]
pub(crate) struct Recorder {
    from: Time,
    most: usize,
    /// The width of a bin, within which departures are in no order; one picosecond with the event-ordered scheduler.
    bin: Time,
    /// Nothing is missing before this time.
    complete: Time,
    /// The numbers of packets in the recording, and their last departures, by identifier.
    known: Vec<Known>,
    /// The first departure of each packet in the recording.
    first: Vec<u32>,
    /// For each notification to a source, the place of the switch and the port that marked the packet.
    reporters: Vec<(u32, u16)>,
    /// The channel on which each output of the binned scheduler sends.
    channels: Box<[ChannelId]>,
    recording: RunRecord,
}

impl Recorder {
    /// See the fields for `bin` and `channels`.
    pub fn new(plan: RecordPlan, bin: Time, channels: Box<[ChannelId]>) -> Self {
        let (known, first, reporters) = (Vec::new(), Vec::new(), Vec::new());
        let recording = RunRecord {
            hops: Vec::with_capacity(plan.most.min(RESERVED.0)),
            previous: Vec::with_capacity(plan.most.min(RESERVED.0)),
            packets: Vec::with_capacity(plan.most.min(RESERVED.1)),
            ..RunRecord::default()
        };
        let (from, most, complete) = (plan.from, plan.most, Time::NEVER);
        Self { from, most, bin, complete, known, first, reporters, channels, recording }
    }

    /// The channel on which an output of the binned scheduler sends.
    pub fn channel(&self, output: usize) -> ChannelId {
        self.channels[output]
    }

    /// Whether the limit of departures was reached.
    pub fn is_full(&self) -> bool {
        self.recording.is_full
    }

    fn number(&self, id: PacketId) -> u32 {
        self.known.get(id as usize).map_or(NOT_RECORDED, |known| known.number)
    }

    /// Records a packet that starts now to leave a node on a channel, on which its last bit leaves at `end`.
    /// `is_from_host` states whether the node is a host.
    pub fn departs(
        &mut self,
        (channel, is_from_host): (ChannelId, bool),
        (id, packets): (PacketId, &Pool),
        times: (Time, Time, Time),
    ) {
        if self.known.len() <= id as usize {
            self.known.resize(id as usize + 1, UNKNOWN);
        }
        let packet = &packets[id];
        let mut known = if is_from_host { UNKNOWN } else { self.known[id as usize] };
        if times.1 >= self.from && self.has_room(times.0) {
            let row = self.recording.hops.len() as u32;
            if known.number == NOT_RECORDED {
                known.number = self.recording.packets.len() as u32;
                self.recording.packets.push(recorded(packet, packets.number(id), times.0));
                self.first.push(row);
            }
            self.recording.hops.push(RecordedHop::new(channel, (known.number, packet), times));
            self.recording.previous.push(known.last);
            known.last = row;
        }
        self.known[id as usize] = known;
    }

    /// Records a packet that starts now to cross a channel again, after an error.
    pub fn departs_again(
        &mut self,
        channel: ChannelId,
        (id, packet): (PacketId, &Packet),
        times: (Time, Time, Time),
    ) {
        let known = self.known.get(id as usize).copied().unwrap_or(UNKNOWN);
        if known.number == NOT_RECORDED || !self.has_room(times.0) {
            return;
        }
        self.known[id as usize].last = self.recording.hops.len() as u32;
        self.recording.hops.push(RecordedHop::new(channel, (known.number, packet), times));
        self.recording.previous.push(known.last);
        self.recording.has_repeats = true;
    }

    /// Records a link-level message that occupies a channel until `end`.
    pub fn message(&mut self, channel: ChannelId, (start, end): (Time, Time)) {
        let (packet, arrival) = (NOT_RECORDED, end);
        if end >= self.from && self.has_room(start) {
            self.recording.hops.push(RecordedHop {
                packet,
                channel,
                start,
                end,
                arrival,
                size: 0,
                is_marked: false,
            });
            self.recording.previous.push(NOT_RECORDED);
        }
    }

    /// Whether there is room for a departure that starts at a time. If not, the recording ends.
    #[inline]
    fn has_room(&mut self, start: Time) -> bool {
        if self.recording.hops.len() >= self.most && !self.recording.is_full {
            // Departures of this bin that are not recorded may be earlier than this one.
            (self.recording.is_full, self.complete) = (true, Time(start.0 / self.bin.0 * self.bin.0));
        }
        !self.recording.is_full
    }

    /// Records a packet that arrives now at a host, which will have drained it at `done`.
    pub fn drained(&mut self, channel: ChannelId, arrival: Time, done: Time) {
        if done >= self.from && !self.recording.is_full {
            self.recording.drained.push(RecordedDrain { channel, arrival, done });
        }
    }

    /// Records a packet that is lost, or its payload.
    pub fn lost(&mut self, id: PacketId, channel: ChannelId, time: Time, kind: RecordedLossKind) {
        let packet = self.number(id);
        if packet != NOT_RECORDED && !self.recording.is_full {
            self.recording.losses.push(RecordedLoss { packet, channel, time, kind });
        }
    }

    /// Records a notification that a port of a switch (by its place) sends to a source.
    pub fn reports(&mut self, at: (u32, u16), time: Time, report: SourceReport) {
        if time >= self.from && !self.recording.is_full {
            let SourceReport { to: host, source, destination, .. } = report;
            let (channel, flow) = (NOT_RECORDED, FlowAddress { host, source, destination });
            self.reporters.push(at);
            self.recording.reports.push(RecordedReport { channel, time, flow });
        }
    }

    /// The recording of a run until `end`, without what hosts, links and jobs add.
    pub fn into_recording(self, links: &Links, end: Time) -> RunRecord {
        let mut recording = self.recording;
        let sender =
            |channel| links.sending_switch(channel).map(|(switch, port)| ((switch, port.0), channel));
        let senders: FxHashMap<_, _> = (0..links.count() as ChannelId).filter_map(sender).collect();
        for (report, at) in recording.reports.iter_mut().zip(self.reporters) {
            report.channel = senders.get(&at).copied().unwrap_or(NOT_RECORDED);
        }
        // The binned scheduler knows in advance when packets will arrive at hosts.
        recording.drained.retain(|drain| drain.arrival < self.complete && drain.arrival <= end);
        recording.losses.retain(|loss| loss.time < self.complete);
        recording.reports.retain(|report| report.time < self.complete);
        recording.put_in_order(self.first, links.count(), self.complete);
        recording
    }
}

/// A packet that starts now. `number` is its number in its flow if it carries data.
fn recorded(packet: &Packet, number: u64, now: Time) -> RecordedPacket {
    let role = match packet.kind() {
        Kind::Data => RecordedRole::Data,
        Kind::Header => RecordedRole::Header,
        Kind::Cnp => RecordedRole::Notification,
        Kind::Ack | Kind::Grant | Kind::Nack | Kind::Receipt | Kind::PathReply => RecordedRole::Answer,
        Kind::Request | Kind::SetUp | Kind::Probe | Kind::TearDown | Kind::Reply | Kind::PathProbe => {
            RecordedRole::Other
        }
    };
    let echo = match packet.contents {
        Contents::Cnp(echoed) | Contents::Ack(echoed) => Some((echoed.sent_at, echoed.is_marked)),
        _ => None,
    };
    let injected = match packet.contents {
        Contents::Data { injected, .. } | Contents::Header { injected, .. } => injected,
        _ => now,
    };
    let number = if packet.segment().is_some() { number } else { 0 };
    let (created, is_last) = packet.segment().map_or((now, false), |part| (part.created, part.is_last));
    RecordedPacket {
        role,
        flow: FlowAddress { host: packet.src, source: packet.source, destination: packet.dst },
        class: packet.class,
        number,
        payload: packet.payload(),
        is_last,
        created,
        injected,
        echo,
    }
}
