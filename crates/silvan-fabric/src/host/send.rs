//! Sends data packets of the flow whose turn it is.

use silvan_congestion::facts::{Next, Sent};
use silvan_congestion::reaction::{FlowRef, Reactor, StateLevel};
use silvan_engine::Time;
use silvan_network::port::{Port, Vl};
use silvan_network::traffic::source::Message;

use super::flows::QueuedFlow;
use super::index::FlowId;
use super::{Attempt, Host};
use crate::context::Context;
use crate::link::CreditWay;
use crate::packet::{Contents, NO_PACKET, Packet, PacketId, Segment};

impl Host {
    /// Sends a packet of the next flow that may send, if there is credit or, with an output buffer, room for
    /// the packet.
    pub(super) fn send_data(&mut self, ctx: &mut Context, mut blocked_lanes: u16) -> Attempt {
        let mut attempt = Attempt::Idle;
        let refuses_all = self.refuses_all();
        if refuses_all || !self.doubted.is_empty() {
            self.flows.release_passed(&mut self.sources);
        }
        if refuses_all {
            self.check_ready(ctx.now);
            #[cfg(debug_assertions)]
            self.check_refusals(ctx.now);
            self.select();
            self.flows.hold_ring(&mut self.sources);
            return attempt;
        }
        let lasts = self.permission_lasts();
        self.select();
        #[cfg(debug_assertions)]
        self.check_passed();
        let mut turns = self.flows.ready();
        while turns > 0 {
            turns -= 1;
            let Some(id) = self.flows.take_turn() else {
                ctx.report_broken(format!("host {} has fewer flows in its ring than it counts", self.id));
                break;
            };
            let &QueuedFlow { source, destination, may_send, .. } = self.flows.get(id);
            self.sources[usize::from(source)].ready -= 1;
            if !may_send {
                let must_wait = self.must_wait(id, ctx.now);
                if !self.doubted.is_empty() {
                    turns += self.flows.release_passed(&mut self.sources);
                }
                if must_wait {
                    continue;
                }
                self.flows.get_mut(id).may_send = lasts;
            }
            let vl = self.lane(usize::from(source), destination);
            let payload = self.flows.next_payload(id, self.sizes.mtu);
            let space = self.sizes.space(payload + self.sizes.header);
            let lane_has_credit = blocked_lanes >> vl.0 & 1 == 0;
            let is_admitted = match &self.adapter {
                Some(adapter) => adapter.admits(vl, destination, space),
                None => {
                    lane_has_credit
                        && ctx
                            .has_credit_or_wait(CreditWay { channel: self.out, vl, dst: destination }, space)
                }
            };
            if is_admitted {
                self.flows.release_passed(&mut self.sources);
                self.send_packet(ctx, id, vl, payload);
                attempt = Attempt::Sent;
                break;
            }
            if let Some(adapter) = &mut self.adapter {
                adapter.note_refusal(vl, destination);
                self.flows.hold(id);
                continue;
            }
            if ctx.links.is_divided() && lane_has_credit {
                self.flows.hold(id);
                continue;
            }
            blocked_lanes |= 1 << vl.0;
            // The flow is in no list but must not count as idle, because idle flows may be removed when
            // another flow sends.
            self.flows.keep(id);
            self.kept.push(id);
            if blocked_lanes.count_ones() >= u32::from(self.lanes) {
                attempt = Attempt::Blocked;
                break;
            }
        }
        // Flows that lacked credit keep their turn.
        while let Some(id) = self.kept.pop() {
            self.sources[usize::from(self.flows.get(id).source)].ready += 1;
            self.flows.keep_turn(id);
        }
        self.flows.hold_passed();
        attempt
    }

    /// Checks that the output buffer refuses each flow that does not take part in this attempt.
    #[cfg(debug_assertions)]
    fn check_passed(&self) {
        for id in self.flows.passed() {
            let QueuedFlow { source, destination, may_send, .. } = *self.flows.get(id);
            let vl = self.lane(usize::from(source), destination);
            let space = self.sizes.space(self.flows.next_payload(id, self.sizes.mtu) + self.sizes.header);
            let is_admitted =
                self.adapter.as_ref().is_some_and(|adapter| adapter.admits(vl, destination, space));
            debug_assert!(may_send && !is_admitted, "the output buffer refuses the flow");
        }
    }

    /// Whether the output buffer has no room for a packet of any flow. False if permissions to send do not
    /// last.
    fn refuses_all(&self) -> bool {
        let Some(adapter) = &self.adapter else { return false };
        self.permission_lasts() && adapter.is_full(&self.sizes)
    }

    /// Checks that each flow in the ring has permission to send, but that the output buffer has no room for
    /// it.
    #[cfg(debug_assertions)]
    fn check_refusals(&self, now: Time) {
        for id in self.flows.ring() {
            let QueuedFlow { source, destination, .. } = *self.flows.get(id);
            let vl = self.lane(usize::from(source), destination);
            let space = self.sizes.space(self.flows.next_payload(id, self.sizes.mtu) + self.sizes.header);
            debug_assert!(self.may_send_at(id, now).is_some_and(|time| time <= now), "no flow has to wait");
            debug_assert!(self.adapter.as_ref().is_some_and(|adapter| !adapter.admits(
                vl,
                destination,
                space
            )));
        }
    }

    /// The virtual lane of a source's packets for a destination.
    #[inline]
    pub(super) fn lane(&self, source: usize, dst: u32) -> Vl {
        match (&self.lane_of, &self.paths) {
            (Some(lanes), _) => Vl(lanes[dst as usize]),
            (None, Some(paths)) => Vl(paths.of_level[usize::from(self.level(source as u16, dst))]),
            (None, None) => Vl(self.sources[source].vl),
        }
    }

    /// Creates a data packet with `payload` bytes of a message.
    #[inline(always)]
    pub(super) fn data_packet(
        &self,
        now: Time,
        source: u16,
        message: &Message,
        payload: u32,
        last: bool,
        vl: Vl,
    ) -> Packet {
        let class = self.sources[usize::from(source)].class;
        let sl = self.level(source, message.destination);
        let size = payload + self.sizes.header;
        Packet {
            contents: Contents::data(
                Segment { bytes: payload, created: message.created, is_last: last },
                now,
            ),
            tail_lag: Time::ZERO,
            size,
            space: self.sizes.space(size),
            src: self.id,
            dst: message.destination,
            next: NO_PACKET,
            out: Port::FIRST,
            class,
            source,
            sl,
            vl,
            came: vl,
            fecn: false,
            severity: 0,
            pinned: false,
        }
    }

    #[inline(always)]
    fn send_packet(&mut self, ctx: &mut Context, id: FlowId, vl: Vl, payload: u32) {
        if let Some((number, packet)) = self.flows.take_lost(id) {
            return self.send_again(ctx, id, vl, (number, packet));
        }
        let flow = self.flows.get_mut(id);
        let (source, destination) = (flow.source, flow.destination);
        let Some(message) = flow.messages.first_mut() else {
            return ctx.report_broken(format!("host {} gave a turn to a flow without data", self.id));
        };
        message.left -= u64::from(payload);
        let (message, last) = (*message, message.left == 0);
        if last {
            flow.messages.pop();
        }
        self.flows.serve(source);
        let mut packet = self.data_packet(ctx.now, source, &message, payload, last, vl);
        if self.order.is_some() {
            packet.pinned = self.is_pinned(source, destination, ctx.now);
        }
        if last {
            self.sources[usize::from(source)].finished(&message);
            self.own_flow_left(source, ctx.now, ctx.meters.awaits_acks());
        }
        let size = packet.size;
        let packet_id = ctx.packets.insert(packet);
        self.number(ctx, packet_id);
        if self.recovery.is_some() {
            let marks = ctx.packets.marks(packet_id);
            self.keep_sent(ctx, marks.number, &packet, marks.entropy);
        }
        if self.reactor.as_ref().is_some_and(Reactor::has_targets) {
            self.note_target(ctx, id, packet_id, (size, payload));
        }
        if self.has_units {
            let next = Next { now: ctx.now, size, payload };
            let must_ask = |reactor: &Reactor| reactor.must_ask(self.reference(id), &next);
            let asks = last || self.reactor.as_ref().is_some_and(must_ask);
            ctx.packets.set_asks(packet_id, asks);
        }
        let through = self.inject(ctx, size);
        let end = match &mut self.adapter {
            Some(adapter) => {
                adapter.admit(vl, packet.dst, packet.space);
                adapter.buffers.store(&mut ctx.packets, ctx.now, Port::FIRST, Port::FIRST, packet_id);
                self.end_changes(ctx);
                through
            }
            None => {
                ctx.meters.injected(&packet);
                self.note_lane(vl, size);
                ctx.send(self.out, packet_id)
            }
        };
        if last {
            self.injection.free_at += self.message_overhead;
            if ctx.meters.ends_message(&packet) {
                // For its rank, a packet in the output buffer counts as sent.
                let left = if self.adapter.is_some() { ctx.now } else { end };
                ctx.meters.messages_out.push((packet.class, packet.flow(), left));
            }
        }
        let of = FlowRef { flow: id, sl: packet.sl };
        self.note_sent(ctx, of, &Sent { now: ctx.now, end, size, payload });
        if self.announcer.is_some() {
            self.note_announced(ctx, packet_id, last);
        }
        self.requeue(id, end);
        self.await_grant(ctx, id);
    }

    /// Sends a lost packet again. The packet keeps its number, but may take another route.
    #[inline(never)]
    fn send_again(&mut self, ctx: &mut Context, id: FlowId, vl: Vl, (number, lost): (u64, Segment)) {
        let &QueuedFlow { source, destination, .. } = self.flows.get(id);
        let Segment { bytes: payload, created, is_last } = lost;
        self.flows.serve(source);
        let message = Message { destination, created, left: 0, hot: false };
        let packet = self.data_packet(ctx.now, source, &message, payload, is_last, vl);
        ctx.meters.injected(&packet);
        ctx.meters.resent += 1;
        let size = packet.size;
        let packet_id = ctx.packets.insert(packet);
        ctx.packets.set_number(packet_id, number);
        self.select_entropy(ctx, packet_id);
        if self.recovery.is_some() {
            let entropy = ctx.packets.entropy(packet_id);
            self.keep_sent(ctx, number, &packet, entropy);
        }
        if self.reactor.as_ref().is_some_and(Reactor::has_targets) {
            self.note_target(ctx, id, packet_id, (size, payload));
        }
        if self.has_units {
            ctx.packets.set_asks(packet_id, true);
        }
        self.inject(ctx, size);
        self.note_lane(vl, size);
        let end = ctx.send(self.out, packet_id);
        let of = FlowRef { flow: id, sl: packet.sl };
        self.note_sent(ctx, of, &Sent { now: ctx.now, end, size, payload });
        self.requeue(id, end);
        self.await_grant(ctx, id);
    }

    /// Numbers a packet that is about to be sent, if packets may overtake each other, and gives it an entropy
    /// value, if packets have one.
    #[inline]
    fn number(&mut self, ctx: &mut Context, id: PacketId) {
        let Some(order) = &mut self.order else { return };
        let Packet { source, dst: destination, .. } = ctx.packets[id];
        let number = order.next_number(source, destination);
        ctx.packets.set_number(id, number);
        self.select_entropy(ctx, id);
    }

    /// Gives a packet that is about to be sent an entropy value, if packets have one.
    #[inline]
    fn select_entropy(&mut self, ctx: &mut Context, id: PacketId) {
        let Some(sprayer) = &mut self.sprayer else { return };
        let Packet { source, dst: destination, .. } = ctx.packets[id];
        let entropy = sprayer.next(source, destination, ctx.now);
        ctx.packets.set_entropy(id, entropy);
        self.plan_probe(ctx);
    }

    /// Writes the target and the connection of a flow into a packet of the flow that is about to be sent, if
    /// the reaction has a target.
    #[inline(never)]
    fn note_target(&self, ctx: &mut Context, id: FlowId, packet: PacketId, (size, payload): (u32, u32)) {
        let Some(reactor) = &self.reactor else { return };
        // The flow itself is in none of these lists.
        let sharing = self.flows.sharing() + self.kept.len() as u32 + 1;
        let next = Next { now: ctx.now, size, payload };
        if let Some(target) = reactor.target(self.reference(id), &next, sharing) {
            ctx.packets.set_target(packet, target);
            let source = self.flows.get(id).source;
            ctx.packets.set_connection(packet, self.sources[usize::from(source)].connection());
        }
    }

    /// Whether the packets of a flow must use the ports of the forwarding tables, because the flow is
    /// throttled.
    #[inline]
    fn is_pinned(&self, source: u16, destination: u32, now: Time) -> bool {
        let pins = self.order.as_ref().is_some_and(|order| order.pins_throttled);
        pins && self.strength(source, destination, now) > 0
    }

    /// Puts a flow that has sent a packet back into the ring, or makes it wait. If the flow has nothing left
    /// to send, removes it unless the reaction has a state per flow.
    #[inline]
    fn requeue(&mut self, id: FlowId, end: Time) {
        if self.flows.has_data(id) {
            self.enlist(id, end);
            return;
        }
        // The reaction's delay starts at the end of the last packet, so a flow with state of its own is kept
        // until then.
        match &self.reactor {
            Some(reactor) if reactor.level() != StateLevel::ServiceLevel => self.tidy(end),
            _ => self.flows.forget(id),
        }
    }
}
