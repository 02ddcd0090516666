//! What switches of all architectures share: wiring, forwarding table, marking, counters.

use std::num::NonZeroU32;
use std::sync::Arc;

use silvan_engine::cache::prefetch;
use silvan_engine::{Rate, Time};

use super::{Chooser, Detourer, Director};
use crate::congestion::marking::{Fill, Marker};
use crate::context::Context;
use crate::link::{ChannelId, Class, key};
use crate::message::{CreditReturn, Report, Word};
use crate::packet::{Kind, Packet, PacketId};
use crate::port::{Port, PortVl, Vl};
use crate::routing::lanes::Lanes;

/// The two channels of a wired port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PortWiring {
    /// The channel this port sends on.
    pub out: ChannelId,
    /// The channel this port receives from; credits return on it.
    pub into: ChannelId,
    /// Of the link that this port sends on.
    pub rate: Rate,
    /// Whether a host is at the far end.
    pub faces_host: bool,
    /// Whether some packet may come in on a slower link than it leaves on here.
    pub may_underrun: bool,
}

/// Who decides about packets besides the forwarding table.
#[derive(Debug)]
pub(crate) enum Steering {
    /// Flows have routes of their own.
    Flows(Director),
    /// Each packet chooses.
    Packets(Chooser),
    /// Lanes follow from service levels of paths and SL-to-VL tables.
    Lanes(Arc<Lanes>),
    /// The same, and each packet decides whether it makes a detour.
    Detours(Arc<Lanes>, Detourer),
}

/// The part of a switch that does not depend on its architecture.
// In memory the fields lie in this order: first what every packet touches.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ports {
    /// Number of virtual lanes.
    pub lanes: usize,
    /// Per port: the channels of `wiring`, an impossible one if unwired.
    channels: Box<[(ChannelId, ChannelId)]>,
    /// Output port per destination host, shared by switches that route alike.
    table: Arc<[Port]>,
    /// Who else has a say in where packets go; nobody in most networks.
    pub steering: Option<Box<Steering>>,
    pub marker: Marker,
    /// Its index among the switches.
    pub node: u32,
    /// Its place among the switches of its partition, by which events name it, and its partition.
    pub place: u32,
    pub partition: u16,
    /// Whether some packet may come in on a slower link than it leaves on, at any output.
    pub may_underrun: bool,
    /// Space of a full packet, which a root must have credit for.
    full_space: u32,
    /// Per port; unwired ports have no channels.
    pub wiring: Box<[Option<PortWiring>]>,
    /// Data packets marked per output since the start of the run, each where it was marked first.
    pub marks: Box<[u64]>,
    /// Bytes of the notification of a mark, where switches tell sources themselves.
    pub report: Option<NonZeroU32>,
    /// Whether marks say how severe congestion is.
    pub is_quantized: bool,
}

impl Ports {
    pub fn new(
        node: u32,
        lanes: usize,
        wiring: Box<[Option<PortWiring>]>,
        table: Arc<[Port]>,
        (marker, steering): (Marker, Option<Box<Steering>>),
        full_space: u32,
    ) -> Self {
        let marks = vec![0; wiring.len()].into_boxed_slice();
        let may_underrun = wiring.iter().flatten().any(|port| port.may_underrun);
        let both = |port: &Option<PortWiring>| {
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
            marker,
            full_space,
            marks,
            report: None,
            is_quantized: false,
            may_underrun,
        }
    }

    /// Decides where flows go, if the table does not.
    #[inline]
    pub fn director(&self) -> Option<&Director> {
        match self.steering.as_deref()? {
            Steering::Flows(director) => Some(director),
            Steering::Packets(_) | Steering::Lanes(_) | Steering::Detours(..) => None,
        }
    }

    /// The service levels of paths and SL-to-VL tables, where packets may leave on another lane than they came on.
    #[inline]
    fn maps(&self) -> Option<&Arc<Lanes>> {
        match self.steering.as_deref()? {
            Steering::Flows(_) | Steering::Packets(_) => None,
            Steering::Lanes(maps) | Steering::Detours(maps, _) => Some(maps),
        }
    }

    /// Whether packets may leave on another lane than they came on.
    #[inline]
    pub fn changes_lanes(&self) -> bool {
        self.maps().is_some()
    }

    /// Chooses the lane of a packet that has come in, and its output where that depends on its source too.
    pub(super) fn choose_lane(&self, ctx: &mut Context, input: Port, id: PacketId) {
        let Some(maps) = self.maps() else { return };
        let between = match self.detourer() {
            Some(_) => ctx.packets.detour(id),
            None => {
                let packet = &ctx.packets[id];
                maps.detours.and_then(|of| of.of_pair(packet.src as usize, packet.dst as usize))
            }
        };
        let packet = &mut ctx.packets[id];
        let ports = (input.number(), self.table[packet.dst as usize].number());
        let way = (packet.src as usize, packet.dst as usize);
        let (port, lane) = maps.step_over(self.node as usize, ports, way, packet.sl, between);
        (packet.out, packet.came) = (Port::of_number(port), packet.vl);
        // No route discards packets: that is checked before the run.
        packet.vl = lane.map_or(packet.vl, Vl);
    }

    /// The lane on which a packet came in.
    #[inline]
    pub fn came(&self, packet: &Packet) -> Vl {
        if self.changes_lanes() { packet.came } else { packet.vl }
    }

    /// Whether a packet's output is that of the table, and it may leave as soon as its head is in.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.steering.is_none() && !self.may_underrun
    }

    /// Number of ports.
    #[inline]
    pub fn count(&self) -> usize {
        self.wiring.len()
    }

    /// The output port for a destination. Tables are checked before the run, so that every
    /// host that is sent to has a route.
    #[inline]
    pub fn route(&self, host: u32) -> Port {
        self.table[host as usize]
    }

    /// Whether the output of a packet follows from its destination alone.
    pub fn is_by_destination(&self) -> bool {
        match self.steering.as_deref() {
            None => true,
            Some(Steering::Flows(_) | Steering::Packets(_) | Steering::Detours(..)) => false,
            Some(Steering::Lanes(maps)) => maps.detours.is_none(),
        }
    }

    /// The output port of what one host sends to another, unless a director decides or packets choose: then one of
    /// them.
    pub fn output_of(&self, src: u32, dst: u32) -> Port {
        let table = self.route(dst);
        let detours = self.maps().and_then(|maps| maps.detours.as_ref());
        detours.map_or(table, |detours| {
            let (port, _) = detours.step(self.node as usize, table.number(), src as usize, dst as usize);
            Port::of_number(port)
        })
    }

    /// The output port of a packet that has been directed.
    #[inline]
    pub fn route_of(&self, packet: &Packet) -> Port {
        if self.steering.is_some() { packet.out } else { self.route(packet.dst) }
    }

    /// Has the output port for a packet's destination brought into the cache.
    #[inline]
    pub fn prefetch_route(&self, packet: &Packet) {
        prefetch(&self.table, packet.dst as usize);
    }

    /// Output port per destination host.
    pub fn table(&self) -> &Arc<[Port]> {
        &self.table
    }

    /// The channel an output sends on.
    #[inline]
    pub fn out(&self, output: Port) -> ChannelId {
        self.channels[output.index()].0
    }

    /// The channel that an input receives from.
    #[inline]
    pub fn feeder(&self, input: Port) -> ChannelId {
        self.channels[input.index()].1
    }

    /// Where a packet's tail arrives too late for its output to start now (slow link to fast
    /// link), the time it may start and the key of the event that says so.
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

    /// Tells the link that a packet is in the buffer now (for the books of debug builds).
    #[inline]
    pub fn landed(&self, _ctx: &mut Context, _input: Port, _packet: PacketId) {
        #[cfg(debug_assertions)]
        if let Some(wiring) = self.wiring[_input.index()] {
            let packet = &_ctx.packets[_packet];
            let (way, space) = ((wiring.into, self.came(packet), packet.dst), packet.space);
            _ctx.landed(way, space);
        }
    }

    /// A port of this switch with one of its virtual lanes.
    #[inline(always)]
    pub fn lane(&self, port: Port, vl: Vl) -> PortVl {
        PortVl::of(port, vl, self.lanes)
    }

    /// Whether the marking rule wants to hear that a lane of an output has `sum` bytes now; see
    /// [`Marker::is_concerned`].
    #[inline]
    pub fn is_concerned(&self, lane: PortVl, sum: u32) -> bool {
        self.marker.is_concerned(lane, sum)
    }

    /// Tells the marking rule about a changed queue.
    ///
    /// A port is a root if it has credit for a full packet beyond the one it sends now or is
    /// about to send: one that spends its credit as soon as it has some is a victim, also in the
    /// instant in which a credit has come in and is not spent yet.
    pub fn fill_changed(&mut self, ctx: &mut Context, output: Port, vl: Vl, fill: &Fill) {
        let channel = self.out(output);
        let packets = if ctx.free_at(channel) <= ctx.now { 2 } else { 1 };
        let space = packets * self.full_space;
        let lane = self.lane(output, vl);
        self.marker.fill_changed(lane, fill, || ctx.has_some_credit(channel, vl, space));
    }

    /// A packet that came in waits for a lane of an output, with others `sum` bytes: the marking rule may mark
    /// it now.
    #[inline(always)]
    pub fn arrived(&mut self, ctx: &mut Context, (output, vl): (Port, Vl), sum: u32, id: PacketId) {
        if !self.marker.samples() || ctx.packets[id].kind != Kind::Data {
            return;
        }
        let size = ctx.packets[id].size;
        if let Some(severity) = self.marker.arrived(self.lane(output, vl), size, sum) {
            let severity = if self.is_quantized { severity } else { 0 };
            self.mark(ctx, output, id, severity);
        }
    }

    /// How severe the congestion is that an output marks a packet for, where marks say that.
    pub fn severity(&mut self, lane: PortVl) -> u8 {
        if self.is_quantized { self.marker.severity(lane) } else { 0 }
    }

    /// Marks a packet, or has its source told.
    #[inline(never)]
    pub fn mark(&mut self, ctx: &mut Context, output: Port, id: PacketId, severity: u8) {
        let packet = &mut ctx.packets[id];
        let is_data = packet.kind == Kind::Data;
        let is_told = self.report.is_some();
        // A mark counts where it tells something: on data that had none, or each time a source is told.
        if is_data && (is_told || !packet.fecn) {
            self.marks[output.index()] += 1;
            ctx.meters.fecn_marks += 1;
        }
        if !is_told {
            packet.fecn = true;
            packet.severity = packet.severity.max(severity);
        } else if is_data {
            let Packet { src: to, dst: destination, source, .. } = *packet;
            let cause = (self.place, true, output);
            ctx.reports.push((cause, Report { to, destination, source, severity }));
        }
    }

    /// Puts what a source is to be told on the wire. Returns the output that is busy with it.
    pub fn send_report(&self, ctx: &mut Context, report: Report) -> Option<Port> {
        let output = self.route(report.to);
        // The tables of networks that need it are checked before the run.
        let wiring = self.wiring[output.index()]?;
        let class = if wiring.faces_host { Class::HostNotice } else { Class::SwitchNotice };
        ctx.notify(wiring.out, class, Word::Report(report), self.report?.get());
        Some(output)
    }

    /// Puts a packet that was taken from an input's queue on the wire: marks it, sends it, and
    /// lets the credit for its space return once its tail has left the input's memory, which is when
    /// it has left altogether unless `read` gives the time. Returns when it has left altogether.
    ///
    /// Marking is decided as the packet is sent (Paper I, 3.2.1), so by the fill that it leaves
    /// behind; the caller has told the marking rule of that fill. With a single threshold, whoever
    /// brings the fill below it leaves unmarked, which is what makes that threshold unfair, and
    /// why two must be more than a packet apart (Paper II, IV).
    #[inline(always)]
    pub fn transmit(
        &mut self,
        ctx: &mut Context,
        (input, output): (Port, Port),
        id: PacketId,
        read: Option<Time>,
    ) -> Time {
        let packet = &ctx.packets[id];
        let (vl, dst, space) = (packet.vl, packet.dst, packet.space);
        let came = if self.changes_lanes() { packet.came } else { vl };
        let lane = self.lane(output, vl);
        if self.marker.marks(lane, packet.size) {
            let severity = self.severity(lane);
            self.mark(ctx, output, id, severity);
        }
        let end = ctx.send(self.out(output), id);
        let way = (self.feeder(input), came, dst);
        ctx.release(CreditReturn { way, space, leaves_at: read.unwrap_or(end) });
        end
    }
}
