//! The receiving side of a host, which passes arriving data packets to the receiver component, and turns the
//! component's replies into control packets.

use std::cell::RefCell;

use silvan_congestion::facts::{Received, Request, Sender, Telemetry};
use silvan_congestion::receiver::{Content, Echo, Reply};
use silvan_network::port::Vl;

use super::Host;
use super::outbox::{ControlPacket, ControlWay};
use crate::context::Context;
use crate::packet::{Contents, Echoed, Marks, Packet};

/// The flow to which a received packet belongs.
fn sender(packet: &Packet, marks: &Marks) -> Sender {
    let Packet { src: host, source, class, sl, vl, .. } = *packet;
    Sender { host, source, connection: marks.connection, class, sl, vl }
}

impl Host {
    /// Lets the receiver component answer a data packet, which is not new if it has arrived before.
    #[inline]
    pub(super) fn respond(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        (hops, marks): (&RefCell<Vec<Telemetry>>, &Marks),
        is_new: bool,
    ) {
        if packet.fecn || self.answers_unmarked {
            self.reply_to(ctx, packet, (hops, marks), is_new);
        }
    }

    fn reply_to(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        (hops, marks): (&RefCell<Vec<Telemetry>>, &Marks),
        is_new: bool,
    ) {
        let Some(received) = self.received(ctx, packet, (hops, marks)) else {
            return ctx.report_broken(format!("host {} answers a packet without data", self.id));
        };
        self.responder.received(&Received { is_repeated: !is_new, ..received }, &mut self.replies);
        self.send_replies(ctx);
    }

    /// The facts about a received data packet, or about the header of one; `None` for other packets.
    fn received<'a>(
        &self,
        ctx: &Context,
        packet: &Packet,
        (hops, marks): (&'a RefCell<Vec<Telemetry>>, &Marks),
    ) -> Option<Received<'a>> {
        let (Contents::Data { bytes: payload, is_last, injected: sent_at, .. }
        | Contents::Header { bytes: payload, is_last, injected: sent_at, .. }) = packet.contents
        else {
            return None;
        };
        Some(Received {
            now: ctx.now,
            from: sender(packet, marks),
            size: packet.size,
            payload,
            sent_at,
            is_marked: packet.fecn,
            severity: packet.severity,
            is_validated: packet.is_validated(),
            is_last,
            hops: Some(hops),
            target: marks.target,
            entropy: marks.entropy,
            number: self.order.is_some().then_some(marks.number),
            asks: self.has_units && marks.asks,
            is_repeated: false,
        })
    }

    /// Answers the header of a packet whose payload was lost. The replies of the receiver component precede
    /// this answer.
    #[inline(never)]
    pub(super) fn answer_header(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        (hops, marks): (&RefCell<Vec<Telemetry>>, &Marks),
    ) {
        let (Contents::Header { bytes, created, is_last, injected: sent_at, at_last_hop }, Some(received)) =
            (packet.contents, self.received(ctx, packet, (hops, marks)))
        else {
            return ctx.report_broken(format!("host {} handles a packet as a header", self.id));
        };
        self.responder.trimmed(&received, at_last_hop, &mut self.replies);
        self.send_replies(ctx);
        let is_marked = received.is_marked;
        let reply =
            Reply { to: received.from, content: Content::Acknowledgement(Echo::of(&received), bytes, 1) };
        let contents = Contents::Nack { bytes, created, is_last, sent_at, at_last_hop, is_marked };
        let control = self.control_of(reply);
        self.control.push_back(ControlPacket { contents, number: Some(marks.number), ..control });
        self.wake(ctx);
    }

    /// Handles a request from a source.
    pub(super) fn requested(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        marks: &Marks,
        (bytes, is_repeated): (u32, bool),
    ) {
        let request = Request { now: ctx.now, from: sender(packet, marks), bytes, is_repeated };
        self.responder.requested(&request, &mut self.replies);
        self.send_replies(ctx);
    }

    /// Handles the expiry of the receiver component's timer.
    pub(super) fn respond_to_timer(&mut self, ctx: &mut Context) {
        self.responder.timer(ctx.now, &mut self.replies);
        self.send_replies(ctx);
    }

    /// Sends the replies of the receiver component, and arms its timer. With loss recovery, acknowledgements state which
    /// packets have arrived.
    #[inline]
    fn send_replies(&mut self, ctx: &mut Context) {
        if let Some(time) = self.responder.next_timer() {
            self.arm_responder(ctx, time);
        }
        if self.replies.is_empty() {
            return;
        }
        let mut replies = std::mem::take(&mut self.replies);
        for reply in replies.drain() {
            let control = self.control_of(reply);
            let report = control.number.and_then(|number| self.arrived(control.to, control.source, number));
            self.control.push_back(ControlPacket { report, ..control });
        }
        // Put the empty list back, so that its allocation is reused.
        self.replies = replies;
        self.wake(ctx);
    }

    /// The service level and the lane of an answer to a host: those of the route if routes determine them,
    /// otherwise those given.
    pub(super) fn way_to(&self, host: u32, (sl, vl): (u8, Vl)) -> (u8, Vl) {
        match &self.paths {
            None => (sl, vl),
            Some(paths) => {
                let level = paths.lanes.levels.get(self.id as usize, host as usize);
                (level, Vl(paths.of_level[usize::from(level)]))
            }
        }
    }

    /// Creates the control packet of a reply.
    fn control_of(&self, Reply { to, content }: Reply) -> ControlPacket {
        let (sl, vl) = self.way_to(to.host, (to.sl, to.vl));
        let vl = self.control_lane.unwrap_or(vl);
        let way = ControlWay { to: to.host, source: to.source, class: to.class, sl, vl };
        let echoed = |Echo { sent_at, severity, is_marked, is_validated, .. }: &Echo, bytes: u32| Echoed {
            sent_at: *sent_at,
            bytes,
            severity: *severity,
            is_marked: *is_marked,
            is_validated: *is_validated,
        };
        let answers = !matches!(content, Content::Grant(_));
        let has_number = self.recovery.is_some() && matches!(content, Content::Acknowledgement(..));
        let (contents, echo, packets) = match content {
            Content::Notification(echo) => (Contents::Cnp(echoed(&echo, 0)), echo, 1),
            Content::Acknowledgement(echo, bytes, packets) => {
                (Contents::Ack(echoed(&echo, bytes)), echo, packets)
            }
            Content::Grant(amount) => (Contents::Grant { amount }, Echo::default(), 0),
        };
        ControlPacket {
            entropy: answers.then_some(echo.entropy),
            number: has_number.then_some(echo.number),
            telemetry: echo.hops,
            connection: to.connection,
            packets,
            ..ControlPacket::new(contents, way)
        }
    }
}
