//! The sending side of a host, which passes arriving answers, grants and reports to the reaction component.
//! The reaction component decides when flows may send.

use silvan_congestion::facts::{Answer, Grant, Lost, Mark, Next, Queued, Sent, Telemetry};
use silvan_congestion::reaction::{FlowRef, Reactor, StateLevel};
use silvan_engine::Time;
use silvan_network::routing::spraying::RouteFeedback;

use super::flows::{Connection, QueuedFlow};
use super::index::FlowId;
use super::{Host, level};
use crate::congestion_log::TriggerEvent;
use crate::context::Context;
use crate::message::SourceReport;
use crate::packet::{Contents, Echoed, Marks, Packet, Segment};
use crate::recorder::RecordedWaitKind;

impl Host {
    /// A reference to a flow for the reaction.
    #[inline]
    pub(super) fn reference(&self, id: FlowId) -> FlowRef {
        let flow = self.flows.get(id);
        FlowRef { flow: id, sl: self.level(flow.source, flow.destination) }
    }

    /// Returns a reference to the flow from a source to a destination. A flow without state is created.
    #[inline]
    pub(super) fn flow_of(&mut self, source: u16, destination: u32) -> FlowRef {
        let sl = self.level(source, destination);
        let reactor = &mut self.reactor;
        let begin = |flow| {
            if let Some(reactor) = reactor {
                reactor.begin(FlowRef { flow, sl }, destination);
            }
        };
        FlowRef { flow: self.flows.entry(source, destination, begin), sl }
    }

    /// Handles a notification or acknowledgement for a flow of this host.
    pub(super) fn take_answer(
        &mut self,
        ctx: &mut Context,
        flow: Connection,
        &Echoed { sent_at, bytes, severity, is_marked, is_validated }: &Echoed,
        (hops, marks): (&[Telemetry], &Marks),
    ) {
        ctx.meters.becn_received += u64::from(is_marked);
        let counts = self.reactor.as_ref().is_some_and(|reactor| reactor.counts_answers());
        if !is_marked && !counts {
            return;
        }
        let mark = match (is_marked, is_validated) {
            (false, _) => Mark::Cold,
            (true, false) if self.validates => Mark::Warm,
            (true, _) => Mark::Hot,
        };
        let answer = Answer {
            now: ctx.now,
            sent_at,
            bytes,
            packets: if self.has_units { marks.covered } else { 1 },
            mark,
            severity,
            hops,
        };
        self.answered(ctx, flow, &answer);
        // The flow may now send, or it may have been slowed down, which leaves bandwidth to other flows.
        self.wake(ctx);
    }

    /// Handles the report of a switch that has marked a packet of a flow of this host.
    pub(super) fn reported(&mut self, ctx: &mut Context, report: SourceReport) {
        ctx.meters.becn_received += 1;
        ctx.meters.reports += 1;
        let SourceReport { destination, source, severity, sent_at, .. } = report;
        let answer =
            Answer { now: ctx.now, sent_at, bytes: 0, packets: 1, mark: Mark::Hot, severity, hops: &[] };
        self.answered(ctx, Connection { source, destination }, &answer);
        self.wake(ctx);
    }

    /// Passes the answer to a packet of a flow to the reaction.
    fn answered(&mut self, ctx: &mut Context, flow: Connection, answer: &Answer) {
        let Connection { source, destination } = flow;
        let Some(reactor) = &mut self.reactor else { return };
        if reactor.level() == StateLevel::ServiceLevel {
            let of = FlowRef { flow: 0, sl: level(&self.paths, &self.sources, source, self.id, destination) };
            let counts = reactor.counts_answers();
            self.react(of, flow, answer);
            self.arm(ctx, of);
            if counts {
                self.reconsider_sharing(of, ctx.now);
            }
            return;
        }
        let counts = reactor.counts_answers();
        let of = self.flow_of(source, destination);
        self.recheck_permission(of.flow);
        if counts {
            let wanted = self.reactor.as_mut().map_or(0, |reactor| reactor.acknowledged(of));
            self.send_request(of.flow, wanted, false);
            self.await_grant(ctx, of.flow);
        }
        self.react(of, flow, answer);
        self.arm(ctx, of);
        // If the reaction does not count answers, an answer can only slow a flow down.
        if counts {
            self.reconsider_sharing(of, ctx.now);
        }
        self.tidy(ctx.now);
    }

    /// Updates the state of a flow or service level after an answer. Logs when its strength reaches the
    /// trigger threshold.
    #[inline]
    fn react(&mut self, of: FlowRef, flow: Connection, answer: &Answer) {
        let Some(reactor) = &mut self.reactor else { return };
        let Some(log) = &mut self.log else { return reactor.answered(of, answer) };
        let (now, trigger) = (answer.now, reactor.trigger(of.sl));
        let was_below = reactor.strength(of, now) < trigger;
        reactor.answered(of, answer);
        if was_below && reactor.strength(of, now) >= trigger {
            let Connection { source, destination } = flow;
            log.note(TriggerEvent { time: now, destination, sl: of.sl, source });
        }
    }

    /// Handles a grant from a receiver for the flow of `packet.source` to that receiver. A grant for an
    /// earlier connection of the source is ignored.
    pub(super) fn granted(&mut self, ctx: &mut Context, packet: &Packet, (bytes, connection): (u32, u32)) {
        if self.reactor.is_none() || connection != self.sources[usize::from(packet.source)].connection() {
            return;
        }
        let of = self.flow_of(packet.source, packet.src);
        self.recheck_permission(of.flow);
        if let Some(reactor) = &mut self.reactor {
            reactor.granted(of, &Grant { now: ctx.now, bytes });
        }
        self.arm(ctx, of);
        self.reconsider(of.flow, ctx.now);
        self.note_grant(ctx, of.flow);
        self.wake(ctx);
    }

    /// Handles the negative acknowledgement of a packet with this number and entropy value. The packet is
    /// sent again before the messages of its flow.
    pub(super) fn was_lost(&mut self, ctx: &mut Context, packet: &Packet, number: u64, entropy: u16) {
        let Contents::Nack { bytes, created, is_last, sent_at, at_last_hop, is_marked } = packet.contents
        else {
            return ctx
                .report_broken(format!("host {} handles a packet as a negative acknowledgement", self.id));
        };
        let flow = Connection { source: packet.source, destination: packet.src };
        // A loss at the last output does not depend on the route.
        let feedback = if at_last_hop { RouteFeedback::of_mark(is_marked) } else { RouteFeedback::Trimmed };
        self.note_route(ctx, flow, entropy, feedback);
        let of = self.flow_of(packet.source, packet.src);
        if self.recovery.is_some() && !self.settle_receipt(ctx, flow, number, true) {
            // The packet has been acknowledged, or it has been sent again after a timeout.
            return ctx.meters.discards_segment(packet);
        }
        self.flows.add_lost(of.flow, number, Segment { bytes, created, is_last });
        let lost = Lost { now: ctx.now, sent_at, is_answer: true, payload: bytes, at_last_hop };
        let wanted = self.reactor.as_mut().map_or(0, |reactor| reactor.lost(of, &lost));
        self.resume(ctx, of, wanted);
    }

    /// Lets a flow send packets again. `wanted` is the amount to request from the receiver, in the unit of
    /// grants.
    pub(super) fn resume(&mut self, ctx: &mut Context, of: FlowRef, wanted: u32) {
        let id = of.flow;
        self.recheck_permission(id);
        self.send_request(id, wanted, false);
        self.arm(ctx, of);
        if !self.flows.is_queued(id) {
            self.enlist(id, ctx.now);
        }
        self.reconsider_sharing(of, ctx.now);
        self.wake(ctx);
    }

    /// Sends a request of a flow for `wanted` units of grants, if that is not zero.
    pub(super) fn send_request(&mut self, id: FlowId, wanted: u32, is_repeated: bool) {
        if wanted > 0 {
            let QueuedFlow { source, destination, .. } = *self.flows.get(id);
            let flow = Connection { source, destination };
            let request = self.control_for(Contents::Request { amount: wanted, is_repeated }, flow);
            self.control.push_back(request);
        }
    }

    /// Whether a flow that may send keeps that permission until an answer, a grant or a timer concerns the
    /// flow, or until another flow is announced. This is false if flows share state.
    #[inline(always)]
    pub(super) fn permission_lasts(&self) -> bool {
        self.permission_lasts
    }

    /// Records that a flow's permission to send must be checked again.
    pub(super) fn recheck_permission(&mut self, id: FlowId) {
        if !std::mem::take(&mut self.flows.get_mut(id).may_send) {
            return;
        }
        self.doubted.push(id);
        // Removing the flows that were checked in their turn takes amortized constant time.
        if self.doubted.len() > 2 * self.flows.len() + 8 {
            self.doubted.sort_unstable();
            self.doubted.dedup();
            let flows = &self.flows;
            self.doubted.retain(|&id| flows.is_listed(id) && !flows.get(id).may_send);
        }
    }

    /// Records that the permissions of all flows to send must be checked again.
    pub(super) fn recheck_all(&mut self) {
        let concerned: Vec<FlowId> =
            self.flows.ring().chain(self.flows.held()).chain(self.kept.iter().copied()).collect();
        concerned.into_iter().for_each(|id| self.recheck_permission(id));
    }

    /// Checks the permission of the held flows that are listed in `doubted`. Flows without permission leave
    /// the held flows.
    pub(super) fn check_held(&mut self, now: Time) {
        if self.doubted.is_empty() || !self.flows.has_held() {
            return;
        }
        // Flows do not store their list, so all held flows must be visited if both lists have flows.
        let all_held = self.flows.ready() == 0;
        let concerned =
            if all_held { std::mem::take(&mut self.doubted) } else { self.flows.held().collect() };
        for &id in &concerned {
            if self.may_not_send(id, now) {
                self.flows.unlink_held(id);
                self.must_wait(id, now);
            }
        }
        if all_held {
            self.doubted = concerned;
            self.doubted.clear();
        }
    }

    /// Checks the permission of the flows in the ring that are listed in `doubted`. Flows without permission leave the ring.
    pub(super) fn check_ready(&mut self, now: Time) {
        if self.doubted.is_empty() {
            return;
        }
        // Flows do not store their list, so all flows of the ring must be visited if both lists have flows.
        let all_ready = !self.flows.has_held();
        let mut concerned =
            if all_ready { std::mem::take(&mut self.doubted) } else { self.flows.ring().collect() };
        for id in concerned.drain(..) {
            if self.may_not_send(id, now) {
                self.flows.unlink_ready(id);
                let source = self.flows.get(id).source;
                self.sources[usize::from(source)].ready -= 1;
                self.must_wait(id, now);
            }
        }
        if all_ready {
            self.doubted = concerned;
        }
    }

    /// Whether a listed flow whose permission must be checked has to wait. Otherwise, records its permission.
    fn may_not_send(&mut self, id: FlowId, now: Time) -> bool {
        if !self.flows.is_listed(id) || self.flows.get(id).may_send {
            return false;
        }
        let may_send = self.is_due(id, now) && self.may_send_at(id, now).is_some_and(|time| time <= now);
        self.flows.get_mut(id).may_send = may_send;
        !may_send
    }

    /// If a flow waits for the reaction, checks again whether it may send.
    pub(super) fn reconsider(&mut self, id: FlowId, now: Time) {
        if self.flows.reopen(id) {
            self.note_wait(id, RecordedWaitKind::Reopened, now, None);
            self.enlist(id, now);
        }
    }

    /// If a flow waits for the reaction, checks again whether it may send. If flows share a window, checks all waiting flows of
    /// the service level, or to the same destination.
    #[inline]
    pub(super) fn reconsider_sharing(&mut self, of: FlowRef, now: Time) {
        if self.permission_lasts {
            self.reconsider(of.flow, now);
        } else {
            self.reconsider_all(of, now);
        }
    }

    /// See [`Self::reconsider_sharing`]. Flows are checked in the order in which they started to wait.
    #[inline(never)]
    fn reconsider_all(&mut self, of: FlowRef, now: Time) {
        let Some(reactor) = &self.reactor else { return };
        if let Some(destinations) = reactor.destinations() {
            destinations.changed(of.flow, self.out);
            let number = destinations.of_flow(of.flow);
            self.reconsider_destinations(&[number], now);
        } else if reactor.counts_answers() {
            let mut waiting = self.flows.waiting();
            waiting.retain(|&id| self.reference(id).sl == of.sl);
            waiting.into_iter().for_each(|id| self.reconsider(id, now));
        } else {
            self.reconsider(of.flow, now);
        }
    }

    /// Checks again whether the waiting flows to destinations may send, in the order in which they started to wait.
    fn reconsider_destinations(&mut self, numbers: &[u32], now: Time) {
        let Some(destinations) = self.reactor.as_ref().and_then(Reactor::destinations) else { return };
        let mut waiting = self.flows.waiting();
        waiting.retain(|&id| numbers.contains(&destinations.of_flow(id)));
        waiting.into_iter().for_each(|id| self.reconsider(id, now));
    }

    /// Checks again whether flows may send whose windows answers to other ports of the host have changed.
    pub(super) fn note_changed_windows(&mut self, now: Time) {
        let Some(destinations) = self.reactor.as_ref().and_then(Reactor::destinations) else { return };
        let changed = destinations.take_changed(self.out);
        self.reconsider_destinations(&changed, now);
    }

    /// Wakes the other ports of the host whose flows wait for a window that an answer to this port has changed.
    pub(super) fn wake_others(&self, ctx: &mut Context) {
        let Some(destinations) = self.reactor.as_ref().and_then(Reactor::destinations) else { return };
        for port in destinations.take_to_wake() {
            ctx.wake(port, ctx.now);
        }
    }

    /// Whether no flow except `of` has data to send and shares the state of `of`, which may belong to a
    /// service level.
    fn is_first_of_level(&self, of: FlowRef) -> bool {
        let shared = self.reactor.as_ref().is_some_and(|reactor| reactor.level() == StateLevel::ServiceLevel);
        let is_other = |(id, flow): (FlowId, &QueuedFlow)| {
            id != of.flow && self.level(flow.source, flow.destination) == of.sl
        };
        !shared || !self.flows.sending().any(is_other)
    }

    /// Informs the reaction of a message that was added to a flow, and sends the request that the reaction
    /// returns. `is_first` means that the flow had no messages before.
    #[inline]
    pub(super) fn note_message(&mut self, ctx: &mut Context, of: FlowRef, bytes: u64, is_first: bool) {
        let is_first = is_first && self.is_first_of_level(of);
        let Some(reactor) = &mut self.reactor else { return };
        if is_first {
            reactor.restarted(of);
        }
        let wanted = reactor.request(of, &Queued { now: ctx.now, bytes });
        self.send_request(of.flow, wanted, false);
        self.arm(ctx, of);
        self.await_grant(ctx, of.flow);
    }

    /// Informs the reaction that a packet has been sent.
    #[inline]
    pub(super) fn note_sent(&mut self, ctx: &mut Context, of: FlowRef, sent: &Sent) {
        let Some(reactor) = &mut self.reactor else { return };
        reactor.sent(of, sent);
        self.arm(ctx, of);
    }

    /// The time at which a flow may send its next packet; `None` if that depends on an answer, a grant or a
    /// timer.
    #[inline]
    pub(super) fn may_send_at(&self, id: FlowId, now: Time) -> Option<Time> {
        let Some(reactor) = &self.reactor else { return Some(now) };
        let payload = self.flows.next_payload(id, self.sizes.mtu);
        let next = Next { now, size: payload + self.sizes.header, payload };
        reactor.may_send_at(self.reference(id), &next)
    }

    /// If there are many flows, removes idle flows whose state has no effect.
    #[inline]
    pub(super) fn tidy(&mut self, now: Time) {
        if self.flows.len() > self.tidy_at {
            self.tidy_all(now);
        }
    }

    fn tidy_all(&mut self, now: Time) {
        let Some(reactor) = &self.reactor else { return };
        let (sources, paths, me, timers) = (&self.sources, &self.paths, self.id, &mut self.timers);
        let level = |flow: &QueuedFlow| level(paths, sources, flow.source, me, flow.destination);
        self.flows.forget_fresh(|id, flow| {
            let is_fresh = reactor.is_fresh(FlowRef { flow: id, sl: level(flow) }, now);
            if is_fresh && let Some(timers) = timers {
                timers.disarm(id);
            }
            is_fresh
        });
        self.tidy_at = (2 * self.flows.len()).max(64);
    }

    /// Removes the state of a flow that has nothing to send, so that the next message of its source starts
    /// with new state.
    pub(super) fn reset(&mut self, source: u16, destination: u32) {
        let Some(id) = self.flows.find(source, destination) else { return };
        if self.flows.is_queued(id) || self.flows.has_data(id) {
            return;
        }
        if let Some(timers) = &mut self.timers {
            timers.disarm(id);
        }
        self.flows.forget(id);
    }

    /// The strength with which the reaction slows down the flow from a source to a destination; see
    /// [`silvan_congestion::reaction::ReactionRule::strength`].
    pub fn strength(&self, source: u16, destination: u32, now: Time) -> u16 {
        let Some(reactor) = &self.reactor else { return 0 };
        let sl = self.level(source, destination);
        match reactor.level() {
            StateLevel::ServiceLevel => reactor.strength(FlowRef { flow: 0, sl }, now),
            StateLevel::Flow | StateLevel::Destination => match self.flows.find(source, destination) {
                Some(flow) => reactor.strength(FlowRef { flow, sl }, now),
                None => reactor.initial_strength(sl, destination, now),
            },
        }
    }
}
