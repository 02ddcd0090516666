//! The receiving side of a host, which passes arriving data packets to the receiver component, and turns the
//! component's replies into control packets.

use std::cell::RefCell;

use silvan_congestion::facts::{Received, Request, Sender, Telemetry};
use silvan_congestion::receiver::{Content, Echo, Reply};
use silvan_network::port::Vl;

use super::Host;
use super::outbox::{ControlPacket, ControlWay, Missing, Payload};
use crate::context::Context;
use crate::packet::{Kind, Marks, Packet};

/// The flow to which a received packet belongs.
fn sender(packet: &Packet, marks: &Marks) -> Sender {
    let Packet { src: host, source, class, sl, vl, .. } = *packet;
    Sender { host, source, connection: marks.connection, class, sl, vl }
}

impl Host {
    /// Lets the receiver component answer a data packet. A FECN is ignored if the BECN is also set.
    #[inline]
    pub(super) fn respond(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        (hops, marks): (&RefCell<Vec<Telemetry>>, &Marks),
    ) {
        let is_marked = packet.fecn && !packet.becn;
        if is_marked || self.answers_unmarked {
            self.reply_to(ctx, packet, is_marked, (hops, marks));
        }
    }

    fn reply_to(
        &mut self,
        ctx: &mut Context,
        packet: &Packet,
        is_marked: bool,
        (hops, marks): (&RefCell<Vec<Telemetry>>, &Marks),
    ) {
        let received = self.received(ctx, packet, is_marked, (hops, marks));
        self.responder.received(&received, &mut self.replies);
        self.send_replies(ctx, Some(marks.number));
    }

    /// The facts about a received data packet, or about the header of one.
    fn received<'a>(
        &self,
        ctx: &Context,
        packet: &Packet,
        is_marked: bool,
        (hops, marks): (&'a RefCell<Vec<Telemetry>>, &Marks),
    ) -> Received<'a> {
        Received {
            now: ctx.now,
            from: sender(packet, marks),
            size: packet.size,
            payload: packet.payload,
            sent_at: packet.injected,
            is_marked,
            severity: packet.severity,
            is_validated: packet.validated,
            is_last: packet.last,
            hops: Some(hops),
            target: marks.target,
            entropy: marks.entropy,
            number: self.order.is_some().then_some(marks.number),
            asks: self.has_units && marks.asks,
        }
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
        let received = self.received(ctx, packet, packet.fecn, (hops, marks));
        self.responder.trimmed(&received, packet.validated, &mut self.replies);
        self.send_replies(ctx, None);
        let echo = Echo::of(&received);
        let reply = Reply { to: received.from, content: Content::Acknowledgement(echo, packet.payload, 1) };
        let missing = Missing { number: marks.number, created: packet.created, is_last: packet.last };
        let control = self.control_of(reply);
        self.control.push_back(ControlPacket { kind: Kind::Nack, missing: Some(missing), ..control });
        self.wake(ctx);
    }

    /// Handles a request from a source.
    pub(super) fn requested(&mut self, ctx: &mut Context, packet: &Packet, marks: &Marks) {
        let (from, is_repeated) = (sender(packet, marks), packet.validated);
        let request = Request { now: ctx.now, from, bytes: packet.payload, is_repeated };
        self.responder.requested(&request, &mut self.replies);
        self.send_replies(ctx, None);
    }

    /// Handles the expiry of the receiver component's timer.
    pub(super) fn respond_to_timer(&mut self, ctx: &mut Context) {
        self.responder.timer(ctx.now, &mut self.replies);
        self.send_replies(ctx, None);
    }

    /// Sends the replies of the receiver component, and arms its timer. With loss recovery, acknowledgements
    /// get the number of the packet that they answer.
    #[inline]
    fn send_replies(&mut self, ctx: &mut Context, number: Option<u64>) {
        if let Some(time) = self.responder.next_timer() {
            self.arm_responder(ctx, time);
        }
        if self.replies.is_empty() {
            return;
        }
        let mut replies = std::mem::take(&mut self.replies);
        for reply in replies.drain() {
            let control = self.control_of(reply);
            let number = number.filter(|_| self.recovery.is_some() && control.kind == Kind::Ack);
            self.control.push_back(ControlPacket { number, ..control });
        }
        // The empty list keeps its memory.
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
        let (kind, echo, bytes, packets) = match content {
            Content::Notification(echo) => (Kind::Cnp, Some(echo), 0, 1),
            Content::Acknowledgement(echo, bytes, packets) => (Kind::Ack, Some(echo), bytes, packets),
            Content::Grant(bytes) => (Kind::Grant, None, bytes, 0),
        };
        let sent_at = echo.as_ref().map(|echo| echo.sent_at);
        let Echo { is_marked: becn, severity, is_validated: validated, entropy, hops: telemetry, .. } =
            echo.unwrap_or_default();
        let vl = self.control_lane.unwrap_or(vl);
        let way = ControlWay { to: to.host, source: to.source, class: to.class, sl, vl };
        ControlPacket {
            becn,
            severity,
            validated,
            sent_at,
            entropy,
            telemetry,
            connection: to.connection,
            packets,
            ..ControlPacket::new(kind, way, Payload::Bytes(bytes))
        }
    }
}
