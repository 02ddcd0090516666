//! The state that switches of all architectures share: wiring, forwarding table, marking, counters.

use std::sync::Arc;

use silvan_congestion::facts::{QueueChange, Severity};
use silvan_engine::saved::Saved;
use silvan_engine::{Rate, Time};
use silvan_network::port::{LaneOrder, Port, PortVl, Vl};
use silvan_network::routing::lanes::Lanes;
use silvan_network::routing::port_groups::Choices;

use super::ordered::{EventLinks, SwitchOutput};
use super::{Detourer, Director, PortChooser};
use crate::context::Context;
use crate::lane_tables::{LaneArbiters, LaneSequence};
use crate::link::{ChannelId, Class, CreditWay, key};
use crate::message::{CreditReturn, SourceReport, Word};
use crate::not_binned::NotBinned;
use crate::packet::{NO_LEDGER, Packet, PacketId};
use crate::routes::{ForwardingTable, Hasher};
use crate::switch_marking::{JudgedPacket, MarkedLane, OutputFill, SwitchMarking};
use crate::trimming::{Freed, Trimmer};

#[cfg(test)]
mod tests;

/// The two channels of a wired port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortLayout {
    /// The channel on which this port sends.
    pub out: ChannelId,
    /// The channel on which the port receives packets and returns credits.
    pub into: ChannelId,
    /// Rate of the link on which this port sends.
    pub rate: Rate,
    /// Whether a host is at the far end.
    pub faces_host: bool,
    /// Whether a packet that leaves through this port may have arrived on a slower link.
    pub may_underrun: bool,
}

/// The component that selects outputs or lanes that the forwarding table alone does not determine.
#[derive(Debug, Saved)]
pub(crate) enum Steering {
    /// Routes are selected per flow.
    Flows(Director),
    /// Each packet is routed adaptively.
    Packets(PortChooser),
    /// Packets are hashed onto the ports of minimal routes.
    Hashed(Hasher),
    /// Lanes follow from the service levels of routes and the SL-to-VL tables.
    Lanes(Arc<Lanes>),
    /// Same as `Lanes`, but packets may also take detours.
    Detours(Arc<Lanes>, Detourer),
}

/// The state of a switch that does not depend on its architecture.
// `repr(C)` keeps this order in memory: the fields that every packet uses come first.
#[derive(Debug, Saved)]
#[repr(C)]
pub(crate) struct Ports {
    /// Number of virtual lanes.
    #[saved(constant)]
    pub lanes: usize,
    /// The channels of `wiring` for each port, or invalid ones if the port is not wired.
    #[saved(constant)]
    channels: Box<[(ChannelId, ChannelId)]>,
    table: ForwardingTable,
    /// The component that selects outputs or lanes; `None` in most networks.
    pub steering: Option<Box<Steering>>,
    pub marking: SwitchMarking,
    /// Index of this switch among all switches.
    #[saved(constant)]
    pub node: u32,
    /// Index of this switch among the switches of its partition, which identifies it in events.
    #[saved(constant)]
    pub place: u32,
    #[saved(constant)]
    pub partition: u16,
    /// Whether any output may send a packet on a faster link than the one on which it arrived.
    #[saved(constant)]
    pub may_underrun: bool,
    /// Wiring of each port; `None` if unwired.
    #[saved(constant)]
    pub wiring: Box<[Option<PortLayout>]>,
    /// The lane that outputs serve before all others, if there is one.
    #[saved(constant)]
    pub first_lane: Option<Vl>,
    /// Select the lanes of outputs instead of the order of turns, if they do so by tables.
    pub arbiters: Option<Box<LaneArbiters>>,
    /// The tables between which the switch changes, beginning with the first ones; empty if they do not
    /// change.
    #[saved(constant)]
    pub all_tables: Box<[NumberedTable]>,
    /// For each port, whether packets that may use several ports must not use it; empty before the first call
    /// of [`Self::use_port`].
    avoided: Box<[bool]>,
    /// Present if the switch trims packets.
    pub trimmer: Option<Box<Trimmer>>,
}

/// Reports that a switch cannot select the output of a packet, because it lacks the required steering.
#[cold]
pub(super) fn report_missing_steering(ports: &Ports, ctx: &mut Context) {
    ctx.report_broken(format!("switch {} cannot select the output of a packet", ports.node));
}

/// One of the sets of tables of a switch that changes tables; see [`Ports::all_tables`].
#[derive(Debug, Clone)]
pub(crate) struct NumberedTable {
    /// Row of the forwarding table.
    pub row: u32,
    /// Present if packets are hashed onto ports.
    pub hasher: Option<Hasher>,
    /// Present if each packet is routed adaptively.
    pub choices: Option<Arc<Choices>>,
}

impl Ports {
    pub fn new(
        node: u32,
        lanes: usize,
        wiring: Box<[Option<PortLayout>]>,
        table: ForwardingTable,
        (marking, steering): (SwitchMarking, Option<Box<Steering>>),
    ) -> Self {
        let may_underrun = wiring.iter().flatten().any(|port| port.may_underrun);
        let both = |port: &Option<PortLayout>| {
            port.map_or((ChannelId::MAX, ChannelId::MAX), |wiring| (wiring.out, wiring.into))
        };
        let channels = wiring.iter().map(both).collect();
        Self {
            node,
            partition: 0,
            place: node,
            lanes,
            channels,
            wiring,
            table,
            steering,
            marking,
            may_underrun,
            first_lane: None,
            arbiters: None,
            all_tables: Box::default(),
            avoided: Box::default(),
            trimmer: None,
        }
    }

    /// Selects the forwarding tables with this number. Returns whether they exist.
    pub fn use_tables(&mut self, number: usize) -> bool {
        let Some(NumberedTable { row, hasher, choices }) = self.all_tables.get(number).cloned() else {
            return false;
        };
        self.table.row = row;
        match (self.steering.as_deref_mut(), hasher, choices) {
            (Some(Steering::Hashed(own)), Some(hasher), _) => *own = hasher,
            (Some(Steering::Packets(chooser)), _, Some(choices)) => chooser.choices = choices,
            // The row alone determines the outputs.
            _ => {}
        }
        true
    }

    /// Sets whether packets that may use several ports may use this port.
    pub fn use_port(&mut self, port: Port, is_usable: bool) {
        if self.avoided.is_empty() {
            self.avoided = vec![false; self.count()].into();
        }
        self.avoided[port.index()] = !is_usable;
    }

    /// Whether packets that may use several ports must not use this port.
    #[inline]
    pub fn avoids(&self, port: Port) -> bool {
        self.avoided.get(port.index()).is_some_and(|&is_avoided| is_avoided)
    }

    /// The order in which outputs serve their lanes.
    #[inline(always)]
    pub fn lane_order(&self) -> LaneOrder {
        LaneOrder { lanes: self.lanes, first: self.first_lane }
    }

    /// The lanes of an output in the order in which it tries them. `turn` is the lane whose turn it is without tables.
    #[inline]
    pub fn lanes_of(&self, output: Port, turn: Vl) -> LaneSequence {
        match &self.arbiters {
            Some(arbiters) => arbiters.sequence(output.index()),
            None => LaneSequence::of(self.lane_order().from(turn)),
        }
    }

    /// Records that an output sends a packet of `bytes` on a lane.
    #[inline]
    pub fn note_lane(&mut self, output: Port, vl: Vl, bytes: u32) {
        if let Some(arbiters) = &mut self.arbiters {
            arbiters.served(output.index(), vl, bytes);
        }
    }

    /// Checks that a packet alone, with the tables of the switch, determines its output, and that it leaves on the lane on
    /// which it arrived.
    ///
    /// # Errors
    /// On what else the output or lane depends.
    pub fn steers_by_packet(&self) -> Result<(), NotBinned> {
        match self.steering.as_deref() {
            None | Some(Steering::Hashed(_)) => Ok(()),
            Some(Steering::Flows(_)) => Err(NotBinned::AnnouncedFlows),
            Some(Steering::Packets(_)) => Err(NotBinned::RoutesByLoad),
            Some(Steering::Lanes(_) | Steering::Detours(..)) => Err(NotBinned::ChosenLanes),
        }
    }

    #[inline]
    pub fn director(&self) -> Option<&Director> {
        match self.steering.as_deref()? {
            Steering::Flows(director) => Some(director),
            Steering::Packets(_) | Steering::Hashed(_) | Steering::Lanes(_) | Steering::Detours(..) => None,
        }
    }

    /// The chooser, if each packet is routed adaptively.
    #[inline]
    pub fn chooser(&self) -> Option<&PortChooser> {
        match self.steering.as_deref()? {
            Steering::Packets(chooser) => Some(chooser),
            Steering::Flows(_) | Steering::Hashed(_) | Steering::Lanes(_) | Steering::Detours(..) => None,
        }
    }

    pub(super) fn chooser_mut(&mut self) -> Option<&mut PortChooser> {
        match self.steering.as_deref_mut()? {
            Steering::Packets(chooser) => Some(chooser),
            Steering::Flows(_) | Steering::Hashed(_) | Steering::Lanes(_) | Steering::Detours(..) => None,
        }
    }

    /// The detour rule, if packets may take detours.
    #[inline]
    pub fn detourer(&self) -> Option<&Detourer> {
        match self.steering.as_deref()? {
            Steering::Detours(_, detourer) => Some(detourer),
            Steering::Flows(_) | Steering::Packets(_) | Steering::Hashed(_) | Steering::Lanes(_) => None,
        }
    }

    /// The service levels of routes and the SL-to-VL tables; `None` if packets leave on the lane on which they arrived.
    #[inline]
    fn maps(&self) -> Option<&Arc<Lanes>> {
        match self.steering.as_deref()? {
            Steering::Flows(_) | Steering::Packets(_) | Steering::Hashed(_) => None,
            Steering::Lanes(maps) | Steering::Detours(maps, _) => Some(maps),
        }
    }

    /// Whether packets may leave on a lane other than the one on which they arrived.
    #[inline]
    pub fn changes_lanes(&self) -> bool {
        self.maps().is_some()
    }

    /// Selects the lane of a packet that has arrived, and its output if that also depends on its source.
    pub(super) fn choose_lane(&self, ctx: &mut Context, input: Port, id: PacketId) {
        let Some(maps) = self.maps() else { return report_missing_steering(self, ctx) };
        let between = match self.detourer() {
            Some(_) => ctx.packets.detour(id),
            None => {
                let packet = &ctx.packets[id];
                maps.detours.and_then(|of| of.of_pair(packet.src as usize, packet.dst as usize))
            }
        };
        let packet = &mut ctx.packets[id];
        let ports = (input.number(), self.table.port(packet.dst).number());
        let way = (packet.src as usize, packet.dst as usize);
        let (port, lane) = maps.step_over(self.node as usize, ports, way, packet.sl, between);
        (packet.out, packet.came) = (Port::of_number(port), packet.vl);
        // Routes on which packets are discarded are rejected before the run, so there is always a lane.
        packet.vl = lane.map_or(packet.vl, Vl);
    }

    /// The lane on which a packet arrived.
    #[inline]
    pub fn came(&self, packet: &Packet) -> Vl {
        if self.changes_lanes() { packet.came } else { packet.vl }
    }

    /// Number of ports.
    #[inline]
    pub fn count(&self) -> usize {
        self.wiring.len()
    }

    /// The output port for a destination. Tables are checked before the run, so every receiving host has a route.
    #[inline]
    pub fn route(&self, host: u32) -> Port {
        self.table.port(host)
    }

    /// Whether the destination of a packet alone determines its output.
    pub fn is_by_destination(&self) -> bool {
        match self.steering.as_deref() {
            None => true,
            Some(Steering::Flows(_) | Steering::Packets(_) | Steering::Hashed(_) | Steering::Detours(..)) => {
                false
            }
            Some(Steering::Lanes(maps)) => maps.detours.is_none(),
        }
    }

    /// The output port for packets from one host to another. If a director or adaptive routing selects the port,
    /// returns one of the possible ports.
    pub fn output_of(&self, src: u32, dst: u32) -> Port {
        let table = self.route(dst);
        let detours = self.maps().and_then(|maps| maps.detours.as_ref());
        detours.map_or(table, |detours| {
            let (port, _) = detours.step(self.node as usize, table.number(), src as usize, dst as usize);
            Port::of_number(port)
        })
    }

    /// Whether packets store their output. Otherwise, it follows from the table, which does not change.
    #[inline]
    pub fn stores_routes(&self) -> bool {
        self.steering.is_some() || self.has_several_tables()
    }

    /// Whether the table changes during the run.
    #[inline]
    pub fn has_several_tables(&self) -> bool {
        !self.all_tables.is_empty()
    }

    /// The output port of a packet whose route has been selected.
    #[inline]
    pub fn route_of(&self, packet: &Packet) -> Port {
        if self.stores_routes() { packet.out } else { self.route(packet.dst) }
    }

    /// Prefetches the output port for a packet's destination.
    #[inline]
    pub fn prefetch_route(&self, packet: &Packet) {
        self.table.prefetch(packet.dst);
    }

    /// Prefetches the credit of a packet from an input to an output, at both links. The credit of its last link returns
    /// as soon as the packet leaves, which may be at the instant of its arrival.
    #[inline]
    pub fn prefetch_credit(&self, ctx: &Context, (input, output): (Port, Port), packet: &Packet) {
        ctx.links.prefetch_way(CreditWay { channel: self.out(output), vl: packet.vl, dst: packet.dst });
        ctx.links.prefetch_way(CreditWay { channel: self.feeder(input), vl: packet.vl, dst: packet.dst });
    }

    pub fn table(&self) -> &ForwardingTable {
        &self.table
    }

    /// The channel on which an output sends.
    #[inline]
    pub fn out(&self, output: Port) -> ChannelId {
        self.channels[output.index()].0
    }

    /// The channel on which an input receives.
    #[inline]
    pub fn feeder(&self, input: Port) -> ChannelId {
        self.channels[input.index()].1
    }

    /// If a packet's tail arrives too late for its transmission to start now (from a slow to a fast link), returns the
    /// time at which it may start, and the key of the event for that time.
    #[inline]
    pub fn waits_for_tail(&self, ctx: &Context, input: Port, packet: PacketId) -> Option<(Time, u32)> {
        let packet = &ctx.packets[packet];
        let output = self.wiring[self.route_of(packet).index()]?;
        if !output.may_underrun {
            return None;
        }
        let span = ctx.links.span(output.out, packet.size);
        let lag = packet.tail_lag;
        (lag > span).then(|| (ctx.now + lag - span, key(Class::SwitchReady, self.place, input)))
    }

    /// Replaces the tail lag of a packet that has just arrived by the time at which its tail has arrived.
    pub fn note_tail(&self, ctx: &mut Context, input: Port, id: PacketId) {
        let lag = ctx.links.lag(self.feeder(input), &ctx.packets[id]);
        ctx.packets[id].tail_lag = ctx.now + lag;
    }

    /// Combines a port and a virtual lane of this switch.
    #[inline(always)]
    pub fn lane(&self, port: Port, vl: Vl) -> PortVl {
        PortVl::of(port, vl, self.lanes)
    }

    /// Whether the marking rule must be informed that the queues of an output lane hold `queue_bytes`; see
    /// [`silvan_congestion::marking::Marker::watches_queue`].
    #[inline]
    pub fn watches_queue(&self, lane: PortVl, queue_bytes: u32) -> bool {
        self.marking.marker.watches_queue(lane.index(), queue_bytes)
    }

    /// The record of an output, and the place of one of its lanes in the state of the marking rule.
    #[inline(always)]
    fn marking_output(&self, output: Port, vl: Vl) -> (SwitchOutput, MarkedLane) {
        let at = MarkedLane { output: output.index(), lane: self.lane(output, vl).index(), vl: vl.index() };
        (SwitchOutput { channel: self.out(output), port: output }, at)
    }

    /// Reports a change of a queue to the marking rule.
    pub fn queue_changed(&mut self, ctx: &mut Context, output: Port, vl: Vl, change: &QueueChange) {
        let (mut output, at) = self.marking_output(output, vl);
        self.marking.queue_changed(&mut EventLinks::new(ctx, self.place), &mut output, at, change);
    }

    /// Applies the marking rule to a packet that has entered the queues of an output lane. The queues hold
    /// `queue_bytes`, including the packet.
    #[inline(always)]
    pub fn arrives(&mut self, ctx: &mut Context, output: Port, id: PacketId, queue_bytes: u32) {
        if self.marking.watches_arrivals() {
            self.judge_arrival(ctx, output, id, queue_bytes);
        }
    }

    #[inline(never)]
    fn judge_arrival(&mut self, ctx: &mut Context, output: Port, id: PacketId, queue_bytes: u32) {
        let (now, packet) = (ctx.now, &ctx.packets[id]);
        let judged = JudgedPacket::of(id, packet);
        let (output, at) = self.marking_output(output, packet.vl);
        let schedule = &mut EventLinks::new(ctx, self.place);
        self.marking.arrives(schedule, &output, at, queue_bytes, judged, now);
    }

    /// Applies the marking rule to a packet that starts to leave through an output. The caller must have
    /// reported the remaining fill.
    #[inline(always)]
    pub fn departs(&mut self, ctx: &mut Context, output: Port, id: PacketId, fill: OutputFill) {
        let lane = self.lane(output, ctx.packets[id].vl);
        // Without this test, each departure would need a call.
        if self.marking.marker.watches_departures(lane.index()) {
            self.judge_departure(ctx, output, id, fill);
        }
    }

    #[inline(never)]
    fn judge_departure(&mut self, ctx: &mut Context, output: Port, id: PacketId, fill: OutputFill) {
        let (now, packet) = (ctx.now, &ctx.packets[id]);
        let judged = JudgedPacket::of(id, packet);
        let (mut output, at) = self.marking_output(output, packet.vl);
        self.marking.departs(&mut EventLinks::new(ctx, self.place), &mut output, at, fill, judged, now);
    }

    /// Marks a packet at an output, or notifies the packet's source.
    pub fn mark(&mut self, ctx: &mut Context, output: Port, id: PacketId, severity: Severity) {
        let applied = self.marking.mark((output.index(), ctx.now), &mut ctx.packets[id], severity);
        ctx.note_applied((self.place, true, output), applied);
    }

    /// Buffer space that a full packet occupies.
    pub fn full_space(&self) -> u32 {
        self.marking.root_space(false)
    }

    /// Sends a report to a source. Returns the output whose link the report occupies; `None` if none is sent.
    pub fn send_report(&self, ctx: &mut Context, report: SourceReport) -> Option<Port> {
        let output = self.route(report.to);
        // The route exists, because networks that need routes for reports are checked before the run.
        let wiring = self.wiring[output.index()]?;
        let class = if wiring.faces_host { Class::HostNotice } else { Class::SwitchNotice };
        ctx.notify(wiring.out, class, Word::Report(report), self.marking.report?.get());
        Some(output)
    }

    /// Removes the payload of a packet that has arrived at `input` and waits for `output`. The packet then
    /// occupies no memory of its input.
    pub fn trim(&mut self, ctx: &mut Context, (input, output): (Port, Port), id: PacketId) {
        let Some(trimmer) = &mut self.trimmer else { return };
        let Freed { vl, dst, space } = trimmer.cut(output.index(), &mut ctx.packets, &mut ctx.meters, id);
        ctx.record_trim(id, self.out(output));
        let way = CreditWay { channel: self.feeder(input), vl, dst };
        ctx.release(CreditReturn { way, ledger: NO_LEDGER, space, leaves_at: ctx.now });
    }

    /// Puts a packet from an input's queue on the wire. Its credit returns at `read`, when its tail has left the
    /// input's memory; if `read` is `None`, the credit returns when the whole packet has left. Returns the time at
    /// which the whole packet has left.
    #[inline(always)]
    pub fn transmit(
        &mut self,
        ctx: &mut Context,
        id: PacketId,
        input: Port,
        output: Port,
        read: Option<Time>,
    ) -> Time {
        let packet = &ctx.packets[id];
        let (vl, dst, space) = (packet.vl, packet.dst, packet.space);
        if space == 0 {
            return self.send_header(ctx, id, output);
        }
        let came = if self.changes_lanes() { packet.came } else { vl };
        let ledger = ctx.packets.ledger(id);
        let end = ctx.send(self.out(output), id);
        let way = CreditWay { channel: self.feeder(input), vl: came, dst };
        ctx.release(CreditReturn { way, space, leaves_at: read.unwrap_or(end), ledger });
        end
    }

    /// Sends the header of a packet that this switch has trimmed; its memory has already been returned.
    /// Returns the time at which it has left.
    #[cold]
    #[inline(never)]
    pub fn send_header(&self, ctx: &mut Context, id: PacketId, output: Port) -> Time {
        if let Some(trimmer) = &self.trimmer {
            trimmer.leaves(&mut ctx.packets[id]);
        }
        ctx.send(self.out(output), id)
    }
}
