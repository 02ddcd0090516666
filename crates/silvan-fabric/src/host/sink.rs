//! The receiving side of a host: arriving packets, the input buffer, and its drain. The module `respond`
//! contains the answers of the receiver component.

use std::cell::RefCell;

use silvan_congestion::facts::Telemetry;
use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;
use silvan_network::routing::spraying::RouteFeedback;

use super::Host;
use super::flows::Connection;
use crate::context::Context;
use crate::link::{Class, CreditWay, HostPaces, key};
use crate::message::CreditReturn;
use crate::packet::{Contents, Marks, NO_LEDGER, Packet, PacketId};

/// A packet in the input buffer.
#[derive(Debug, Clone, Copy, Saved)]
pub(super) struct Undrained {
    /// The time at which the packet will have been drained.
    pub done: Time,
    /// Number of the packet.
    pub number: u64,
    pub packet: Packet,
}

impl Host {
    /// Receives a packet whose tail has arrived.
    pub fn receive(&mut self, ctx: &mut Context, id: PacketId) {
        let (packet, marks) = (ctx.packets[id], ctx.packets.marks(id));
        let hops = RefCell::new(ctx.packets.take_telemetry(id));
        ctx.packets.remove(id);
        let done = self.take_in(ctx, &packet);
        self.handle(ctx, &packet, (&hops, &marks), done);
        ctx.packets.recycle(hops.into_inner());
    }

    /// Acts on a packet that is in the input buffer until `done`.
    #[inline(always)]
    fn handle(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        (hops, marks): (&RefCell<Vec<Telemetry>>, &Marks),
        done: Time,
    ) {
        if !packet.is_data() {
            ctx.meters.control_delivered += 1;
        }
        match packet.contents {
            Contents::Data { .. } => {
                if self.recovery.is_some() {
                    return self.receive_numbered(ctx, packet, (hops, marks), done);
                }
                self.deliver(ctx, marks.number, packet, done);
                self.respond(ctx, packet, (hops, marks), true);
                if let Some(number) = marks.announcement()
                    && self.announces()
                {
                    self.return_weights(ctx, packet, number);
                }
            }
            Contents::SetUp(number) | Contents::Probe(number) | Contents::TearDown(number) => {
                self.reply(ctx, packet, number);
            }
            Contents::Reply(number) => self.announcement_returned(ctx, packet, number),
            Contents::Cnp(echoed) | Contents::Ack(echoed) => {
                let flow = Connection { source: packet.source, destination: packet.src };
                self.note_route(ctx, flow, marks.entropy, RouteFeedback::of_mark(echoed.is_marked));
                let is_ack = matches!(packet.contents, Contents::Ack(_));
                let is_receipt = is_ack && self.acks_are_receipts();
                if is_receipt && self.has_units {
                    return self.take_report(ctx, (flow, &echoed), (&hops.borrow(), marks));
                }
                if is_receipt && !self.settle_receipt(ctx, flow, marks.number, true) {
                    // An answer to this packet has arrived before, or the packet has counted as lost.
                    return self.find_gaps(ctx, flow, &echoed, marks);
                }
                let counts = is_ack && (is_receipt || self.recovery.is_none());
                let ends = counts && ctx.meters.acknowledged(packet.answered_flow(), echoed.bytes, ctx.now);
                self.take_answer(ctx, flow, &echoed, (&hops.borrow(), marks));
                if ends && self.own_flow_acknowledged(packet.source, ctx.now) {
                    self.wake(ctx);
                }
                self.find_gaps(ctx, flow, &echoed, marks);
            }
            Contents::Request { amount, is_repeated } => {
                self.requested(ctx, packet, marks, (amount, is_repeated));
            }
            Contents::Grant { amount } => self.granted(ctx, packet, (amount, marks.connection)),
            Contents::Header { .. } => self.answer_header(ctx, packet, (hops, marks)),
            Contents::Nack { .. } => self.was_lost(ctx, packet, marks.number, marks.entropy),
            Contents::Receipt { is_missing } => self.receipt(ctx, packet, marks.number, is_missing),
            Contents::PathProbe => self.answer_probe(ctx, packet, marks.entropy),
            Contents::PathReply { is_marked } => self.probe_answered(ctx, packet, marks.entropy, is_marked),
        }
    }

    /// With loss recovery, delivers and answers a data packet. A repeated packet is answered only, and a
    /// packet out of sequence is dropped.
    fn receive_numbered(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        (hops, marks): (&RefCell<Vec<Telemetry>>, &Marks),
        done: Time,
    ) {
        let verdict = self.accepts(ctx, packet, marks.number);
        if verdict.is_new {
            self.deliver(ctx, marks.number, packet, done);
        }
        if verdict.is_answered {
            self.respond(ctx, packet, (hops, marks), verdict.is_new);
        }
    }

    /// Puts a packet into the input buffer, and returns its credit when the packet has been drained. Returns
    /// the time at which this happens. With the binned scheduler, the output that sent the packet has done
    /// this before, unless the time also depends on the packets that the host injects.
    #[inline]
    fn take_in(&mut self, ctx: &mut Context, packet: &Packet) -> Time {
        if ctx.is_binned() && !(ctx.links.has_changes() && ctx.sinks[self.place as usize].is_shared) {
            return ctx.now + packet.tail_lag;
        }
        let way = CreditWay { channel: self.into, vl: packet.vl, dst: packet.dst };
        if ctx.links.has_messages() {
            ctx.store_lane(self.into, packet.vl, packet.space);
        }
        let times = (ctx.now.saturating_sub(packet.tail_lag), ctx.now);
        // A new route may be faster than the old one.
        let may_reorder = self.order.is_some() || ctx.links.has_changes();
        let is_slowed = self.shares_paces && self.injection.free_at > ctx.now;
        let packet = if is_slowed { &Packet { size: 2 * packet.size, ..*packet } } else { packet };
        let sink = &mut ctx.sinks[self.place as usize];
        let done = sink.take_in(&mut ctx.meters, packet, times, may_reorder);
        ctx.release(CreditReturn { way, space: packet.space, leaves_at: done, ledger: NO_LEDGER });
        done
    }

    /// Changes the pace at which the host injects packets that start from now on. The input buffer has a plan of its
    /// own ([`crate::sink::DrainPlan`]).
    pub fn change_paces(&mut self, paces: HostPaces) {
        let HostPaces { injection, is_shared, is_stopped } = paces;
        self.injection.change(injection);
        self.shares_paces = is_shared;
        self.is_stopped = is_stopped;
    }

    /// Passes the bytes of a packet that starts now through the host. Returns the time at which they have
    /// passed, and the next packet may start.
    #[inline(always)]
    pub(super) fn inject(&mut self, ctx: &mut Context, size: u32) -> Time {
        let is_slowed = self.shares_paces && ctx.sinks[self.place as usize].is_draining(ctx.now);
        let passed = self.injection.pass(ctx.now, if is_slowed { 2 * size } else { size });
        self.control.note_passed(passed);
        if let Some(shared) = self.shared {
            self.inject_with_others(ctx, shared, size);
        }
        passed
    }

    /// Counts a packet as delivered when the host has drained it, at `done`. A later time needs an event only
    /// if traffic or a job waits for the delivery.
    #[inline]
    fn deliver(&mut self, ctx: &mut Context, number: u64, packet: &Packet, done: Time) {
        let is_awaited = ctx.meters.is_awaited || ctx.meters.ends_message(packet);
        if self.order.is_none() && !is_awaited {
            ctx.meters.will_deliver(packet, (ctx.now, done));
            return;
        }
        self.count_drained(ctx);
        if done <= ctx.now {
            self.count(ctx, number, packet, done);
            return;
        }
        self.undrained.push_back(Undrained { done, number, packet: *packet });
        // If packets may arrive out of order, any packet may complete a message whose last packet has already
        // arrived.
        let may_end = self.order.is_some() && ctx.meters.is_of_job(packet) || ctx.meters.ends_message(packet);
        if ctx.meters.is_awaited || may_end {
            ctx.queue.push(Event {
                time: done,
                key: key(Class::HostDrained, self.place, Port::FIRST),
                data: 0,
            });
        }
    }

    /// Counts the packets that have been drained by now.
    #[inline]
    pub fn count_drained(&mut self, ctx: &mut Context) {
        while let Some(&Undrained { done, number, packet }) = self.undrained.front()
            && done <= ctx.now
        {
            self.undrained.pop_front();
            self.count(ctx, number, &packet, done);
        }
    }

    /// Counts a packet that has been drained, unless an earlier packet of its flow is still missing.
    #[inline]
    fn count(&mut self, ctx: &mut Context, number: u64, packet: &Packet, done: Time) {
        match &mut self.order {
            None => ctx.meters.delivered(packet, done),
            Some(order) => order.deliver(&mut ctx.meters, number, packet, done),
        }
    }
}
