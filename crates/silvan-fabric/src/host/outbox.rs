//! The control packets that a host sends, such as acknowledgements, notifications, requests, grants and
//! announcements. A host sends them before its data.

use std::collections::VecDeque;

use silvan_congestion::facts::Telemetry;
use silvan_engine::Time;
use silvan_engine::saved::{Change, Saved, Writer};
use silvan_network::port::{Port, Vl};

use super::Host;
use super::flows::Connection;
use crate::context::Context;
use crate::link::CreditWay;
use crate::message::Announcement;
use crate::packet::{ArrivedReport, Contents, Kind, NO_PACKET, Packet, PacketId};

/// A control packet that waits to be sent.
#[derive(Debug, Clone, Saved)]
pub(super) struct ControlPacket {
    pub contents: Contents,
    /// The announcement of a flow. It gets an index, which is a part of the contents, when the packet is sent.
    pub announcement: Option<Announcement>,
    pub to: u32,
    pub source: u16,
    pub class: u16,
    pub sl: u8,
    pub vl: Vl,
    /// The entropy value of the packet that it answers, or of a probe. Without one, the flow determines the value.
    pub entropy: Option<u16>,
    /// For an answer to a data packet: the telemetry of that packet.
    pub telemetry: Vec<Telemetry>,
    /// For a negative acknowledgement and, with loss recovery, for a receipt or an acknowledgement: the number of the
    /// packet.
    pub number: Option<u64>,
    /// For an acknowledgement with loss recovery: the packets of the flow that have arrived.
    pub report: Option<ArrivedReport>,
    /// For a request or a grant: the number of the connection of the flow's source.
    pub connection: u32,
    /// For an acknowledgement: the packets that it covers.
    pub packets: u32,
}

/// The flow of a control packet, with the destination, service level and lane of the packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct ControlWay {
    /// The host that receives the packet.
    pub to: u32,
    /// Index of the flow's source at its host.
    pub source: u16,
    pub class: u16,
    pub sl: u8,
    pub vl: Vl,
}

impl ControlPacket {
    /// A control packet without data from the packet that it answers, except for its contents.
    pub fn new(contents: Contents, way: ControlWay) -> Self {
        let ControlWay { to, source, class, sl, vl } = way;
        Self {
            contents,
            announcement: None,
            to,
            source,
            class,
            sl,
            vl,
            entropy: None,
            telemetry: Vec::new(),
            number: None,
            report: None,
            connection: 0,
            packets: 0,
        }
    }
}

/// The control packets that wait to be sent. Each virtual lane has its own order, so that a lane without
/// credit does not block the others.
#[derive(Debug, Saved)]
#[saved(relative(Self::save_relative))]
pub(super) struct Outbox {
    /// Packets of each virtual lane, with their numbers in the order of all control packets.
    lanes: Box<[VecDeque<(u64, ControlPacket)>]>,
    added: u64,
    len: usize,
    /// The time at which the bytes of previous packets, of data and control, have passed the injection limit;
    /// `None` if the limit does not apply to control packets. The limit of data can be later, because control
    /// packets pass during the time per message and in the pauses of explicit rates.
    passed: Option<Time>,
    /// The number of control packets that have moved to the adapter, in their order. With an output buffer, the
    /// injection limit applies to these moves, as it does to those of data; otherwise, all packets may leave.
    moved: u64,
}

/// How control packets pass the injection limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlLimit {
    /// The limit does not apply to them.
    None,
    /// When they start on the link.
    OnLink,
    /// When they move to the adapter, where they wait for the link, outside the output buffer.
    IntoAdapter,
}

impl Outbox {
    /// Saves the numbers of packets as those of a series.
    fn save_relative(&self, to: &mut Writer<'_>) {
        let series = to.series(1);
        let Self { lanes, added, len, passed, moved } = self;
        to.label("Outbox.lanes");
        to.put_state(&(lanes.len() as u64).to_le_bytes());
        for lane in lanes {
            to.put_state(&(lane.len() as u64).to_le_bytes());
            for (number, packet) in lane {
                to.put_serial(*number, series);
                packet.save(to);
            }
        }
        to.label("Outbox");
        to.put_serial(*added, series);
        len.save(to);
        let outer = to.begin(Change::Past);
        passed.save(to);
        to.end(outer);
        if *moved == u64::MAX { moved.save(to) } else { to.put_serial(*moved, series) }
    }

    pub fn new(lanes: u8, limit: ControlLimit) -> Self {
        let lanes = (0..lanes.max(1)).map(|_| VecDeque::new()).collect();
        let passed = (limit != ControlLimit::None).then_some(Time::ZERO);
        let moved = if limit == ControlLimit::IntoAdapter { 0 } else { u64::MAX };
        Self { lanes, added: 0, len: 0, passed, moved }
    }

    /// Whether packets have not moved to the adapter.
    pub fn has_unmoved(&self) -> bool {
        self.moved < self.added
    }

    /// The time at which the injection limit permits the next control packet; zero if it does not apply.
    #[inline]
    pub fn passes_at(&self) -> Time {
        self.passed.unwrap_or_default()
    }

    /// Records the time at which the bytes of a packet will have passed the injection limit.
    #[inline]
    pub fn note_passed(&mut self, time: Time) {
        if let Some(passed) = &mut self.passed {
            *passed = time;
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn waits_on(&self, vl: Vl) -> bool {
        !self.lanes[usize::from(vl)].is_empty()
    }

    /// The packets that wait, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &ControlPacket> {
        self.lanes.iter().flatten().map(|(_, control)| control)
    }

    pub fn push_back(&mut self, control: ControlPacket) {
        self.lanes[usize::from(control.vl)].push_back((self.added, control));
        self.added += 1;
        self.len += 1;
    }

    /// The lane and the destination of the packet that has waited longest, excluding packets on
    /// `blocked_lanes` and packets that have not moved to the adapter.
    pub(super) fn oldest(&self, blocked_lanes: u16) -> Option<(Vl, u32)> {
        let open = self.lanes.iter().enumerate().filter(|(vl, _)| blocked_lanes >> vl & 1 == 0);
        let first = open.filter_map(|(_, lane)| lane.front()).min_by_key(|(number, _)| *number)?;
        (first.0 < self.moved).then_some((first.1.vl, first.1.to))
    }

    pub(super) fn pop(&mut self, vl: Vl) -> Option<ControlPacket> {
        let (_, control) = self.lanes[usize::from(vl)].pop_front()?;
        self.len -= 1;
        Some(control)
    }
}

impl Host {
    /// Creates a control packet for a flow of this host, with the flow's destination and service level. The
    /// packet uses the lane of control packets, or the flow's lane if it must stay behind the flow's data.
    pub(super) fn control_for(&self, contents: Contents, flow: Connection) -> ControlPacket {
        let Connection { source, destination: to } = flow;
        let own = &self.sources[usize::from(source)];
        let (class, connection) = (own.class, own.connection());
        let sl = self.level(source, to);
        let lane = self.lane(usize::from(source), to);
        let vl = if contents.kind().follows_data() { lane } else { self.control_lane.unwrap_or(lane) };
        let way = ControlWay { to, source, class, sl, vl };
        ControlPacket { connection, ..ControlPacket::new(contents, way) }
    }

    /// The flow and the way of an answer to a packet. The answer has the given service level, and the given
    /// lane unless control packets have their own lane.
    pub(super) fn way_back(&self, packet: &Packet, (sl, vl): (u8, Vl)) -> ControlWay {
        let &Packet { src: to, source, class, .. } = packet;
        ControlWay { to, source, class, sl, vl: self.control_lane.unwrap_or(vl) }
    }

    /// Creates an answer to a packet, with the service level and the lane of the route back if routes determine them.
    pub(super) fn answer_to(&self, packet: &Packet, contents: Contents) -> ControlPacket {
        ControlPacket::new(contents, self.way_back(packet, self.way_to(packet.src, (packet.sl, packet.vl))))
    }

    /// Sends the control packet that has waited longest on any virtual lane that has credit and is not in
    /// `blocked_lanes`. Adds lanes without credit to `blocked_lanes`. Returns whether a packet was sent.
    pub(super) fn send_control(&mut self, ctx: &mut Context, blocked_lanes: &mut u16) -> bool {
        let space = self.sizes.space(self.sizes.control);
        while let Some((vl, to)) = self.control.oldest(*blocked_lanes) {
            if !ctx.has_credit_or_wait(CreditWay { channel: self.out, vl, dst: to }, space) {
                *blocked_lanes |= 1 << vl.0;
                continue;
            }
            let Some(control) = self.control.pop(vl) else {
                ctx.report_broken(format!("host {} has fewer control packets than it counts", self.id));
                return false;
            };
            let id = self.control_packet(ctx, control);
            if self.adapter.is_none() {
                self.inject_control(ctx);
            }
            ctx.send(self.out, id);
            return true;
        }
        false
    }

    /// Moves a control packet to the adapter if the injection limit permits it and applies to these moves.
    pub(super) fn move_control(&mut self, ctx: &mut Context) {
        if self.control.has_unmoved() && self.control.passes_at() <= ctx.now {
            self.control.moved += 1;
            self.inject_control(ctx);
        }
    }

    /// Passes the bytes of a control packet through the injection limit, if it applies to control packets. The packet
    /// starts now, or follows the packet that is passing.
    #[inline]
    pub(super) fn inject_control(&mut self, ctx: &mut Context) {
        let Some(passed) = self.control.passed else { return };
        let data_at = self.injection.free_at;
        self.injection.free_at = passed;
        self.inject(ctx, self.sizes.control);
        // The time per message continues.
        self.injection.free_at = self.injection.free_at.max(data_at);
    }

    pub(super) fn control_packet(&self, ctx: &mut Context, control: ControlPacket) -> PacketId {
        let size = self.sizes.control;
        let mut contents = control.contents;
        if let Some(announcement) = control.announcement {
            contents.set_announcement(ctx.announcements.add(announcement));
        }
        let packet = Packet {
            contents,
            tail_lag: Time::ZERO,
            size,
            space: self.sizes.space(size),
            src: self.id,
            dst: control.to,
            next: NO_PACKET,
            out: Port::FIRST,
            class: control.class,
            source: control.source,
            sl: control.sl,
            vl: control.vl,
            came: control.vl,
            fecn: false,
            severity: 0,
            pinned: false,
        };
        ctx.meters.control_injected += 1;
        let id = ctx.packets.insert(packet);
        ctx.packets.set_telemetry(id, control.telemetry);
        if let Some(sprayer) = &self.sprayer {
            let of_flow = || sprayer.of_flow(control.to, control.source);
            ctx.packets.set_entropy(id, control.entropy.unwrap_or_else(of_flow));
        }
        if let Some(number) = control.number {
            ctx.packets.set_number(id, number);
        }
        if let Some(report) = control.report {
            ctx.packets.set_report(id, report);
        }
        if matches!(contents.kind(), Kind::Request | Kind::Grant) {
            ctx.packets.set_connection(id, control.connection);
        }
        if self.has_units {
            ctx.packets.set_covered(id, control.packets);
        }
        id
    }
}
