//! Loss recovery: a host numbers the packets of each flow and stores them until they are acknowledged. It
//! sends them again after a timeout or a negative receipt.
//!
//! | | selective repeat | go-back-N |
//! | --- | --- | --- |
//! | the receiver accepts | each packet once, in any order | the next packet only |
//! | a receipt means | that one packet has arrived | that all packets up to a number have arrived |
//! | a gap | is not reported to the sender | causes a negative receipt, once |
//! | the sender repeats | the packet whose timeout has passed | that packet, or the first missing one, and all after it |
//!
//! If the receiver component acknowledges each packet, its acknowledgements are the receipts. The reaction is
//! then also informed of packets whose own acknowledgement was lost but that a later acknowledgement covers.
//! An acknowledgement of a packet that is not outstanding is ignored.
//!
//! If an acknowledgement covers several packets, it states which packets have arrived ([`ArrivedReport`]). The reaction learns
//! of all of these that are outstanding at once.
//!
//! With selective repeat, a packet can also count as lost when a packet that was sent later has been acknowledged
//! ([`super::sent_order`]).
//!
//! A flow that waits for a grant repeats its request after the timeout, and the receiver repeats its last
//! grant. The reason is that requests, grants, and data packets that request credit can be lost.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use silvan_congestion::facts::{Lost, Telemetry};
use silvan_congestion::reaction::{FlowRef, StateLevel};
use silvan_engine::saved::Saved;
use silvan_engine::{Event, Time};
use silvan_network::port::Port;
use silvan_network::routing::spraying::RouteFeedback;

use super::Host;
use super::flows::{Connection, QueuedFlow};
use super::index::FlowId;
use super::outbox::ControlPacket;
use super::sent_order::SentOrder;
use crate::context::Context;
use crate::link::{Class, key};
use crate::packet::{ArrivedReport, Contents, Echoed, FlowAddress, Marks, Packet, Segment};

/// The `data` field of the events of this module, which belong to the class `HostTimer`.
pub(crate) const TIMEOUT: u32 = 1;

/// The loss recovery settings of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecoveryRule {
    pub timeout: Time,
    pub goes_back: bool,
    /// Whether the receiver component acknowledges each packet.
    pub has_acks: bool,
    /// The distance in the order of sending after which an acknowledged packet shows that one is lost.
    pub reordering: Option<u16>,
}

/// A packet that has been sent but not acknowledged.
#[derive(Debug, Clone, Copy, Saved)]
struct Outstanding {
    packet: Segment,
    sent_at: Time,
    entropy: u16,
}

/// The packets of a flow that have arrived.
#[derive(Debug, Default, Saved)]
struct Arrived {
    /// All packets with lower numbers have arrived.
    next: u64,
    /// Later packets that have arrived.
    ahead: BTreeSet<u64>,
    /// Whether the receiver has requested the next packet with a negative receipt.
    has_asked: bool,
}

/// The decision of a receiver about a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Accept,
    /// The packet has arrived before.
    Duplicate,
    /// The packet is not the next one. If the field is true, the receiver sends a negative receipt.
    OutOfSequence(bool),
}

/// Whether a data packet is delivered, and whether the receiver component answers it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Accepted {
    pub is_new: bool,
    pub is_answered: bool,
}

/// The loss recovery state of a host, both as a sender and as a receiver.
#[derive(Debug, Saved)]
pub(crate) struct LossRecovery {
    #[saved(constant)]
    rule: RecoveryRule,
    sent: FxHashMap<Connection, BTreeMap<u64, Outstanding>>,
    /// The times at which packets time out, in the order of sending. Entries of packets that have been
    /// acknowledged or sent again are skipped.
    deadlines: VecDeque<(Time, Connection, u64)>,
    /// The order in which flows sent their packets, with [`RecoveryRule::reordering`].
    order: FxHashMap<Connection, SentOrder>,
    /// Flows that wait for a grant, with the times at which they repeat their requests, in the order of
    /// waiting. An entry is valid only if `waits_until` has the same time.
    requests: VecDeque<(Time, Connection)>,
    waits_until: FxHashMap<Connection, Time>,
    /// Whether a timeout event is pending.
    is_planned: bool,
    /// The packets that have arrived, by sending host and source.
    arrived: FxHashMap<(u32, u16), Arrived>,
}

impl Arrived {
    fn take(&mut self, number: u64, goes_back: bool) -> Judgement {
        if number < self.next || self.ahead.contains(&number) {
            return Judgement::Duplicate;
        }
        if goes_back && number > self.next {
            return Judgement::OutOfSequence(!std::mem::replace(&mut self.has_asked, true));
        }
        self.ahead.insert(number);
        while self.ahead.remove(&self.next) {
            self.next += 1;
        }
        self.has_asked = false;
        Judgement::Accept
    }

    /// The report of an acknowledgement of several packets, which acknowledges the packet with a number.
    fn report(&self, number: u64) -> ArrivedReport {
        let highest = self.ahead.last().copied().unwrap_or_else(|| self.next.saturating_sub(1));
        ArrivedReport {
            earlier: self.before(highest),
            above: (highest - number) as u32,
            below: (highest + 1 - self.next) as u32,
        }
    }

    /// The packets before a number that have arrived, as in [`ArrivedReport::earlier`].
    fn before(&self, number: u64) -> u64 {
        // Packets from `next` on have arrived only if they are ahead.
        let all = u64::MAX.checked_shl(number.saturating_sub(self.next).min(64) as u32).unwrap_or(0);
        let ahead = self.ahead.range(number.saturating_sub(64)..number);
        let bits = ahead.fold(all, |bits, one| bits | 1 << (number - 1 - one));
        // There are no packets before the first one.
        bits & !u64::MAX.checked_shl(number.min(64) as u32).unwrap_or(0)
    }
}

impl LossRecovery {
    pub fn new(rule: RecoveryRule) -> Self {
        Self {
            rule,
            sent: FxHashMap::default(),
            deadlines: VecDeque::new(),
            order: FxHashMap::default(),
            requests: VecDeque::new(),
            waits_until: FxHashMap::default(),
            is_planned: false,
            arrived: FxHashMap::default(),
        }
    }

    /// Removes the packets that a receipt acknowledges. Returns the packet with the number, if it was
    /// outstanding, and with go-back-N all earlier ones.
    fn acknowledge(
        &mut self,
        flow: Connection,
        number: u64,
    ) -> (Option<Outstanding>, BTreeMap<u64, Outstanding>) {
        let Some(sent) = self.sent.get_mut(&flow) else { return (None, BTreeMap::new()) };
        let own = sent.remove(&number);
        let mut before = BTreeMap::new();
        if self.rule.goes_back {
            let after = sent.split_off(&number);
            before = std::mem::replace(sent, after);
        }
        if sent.is_empty() {
            self.sent.remove(&flow);
        }
        (own, before)
    }

    /// Removes and returns the packets of which an acknowledgement of several packets states that they have arrived. It
    /// acknowledges the packet with a number.
    fn take_arrived(&mut self, flow: Connection, number: u64, report: ArrivedReport) -> Vec<Outstanding> {
        let Some(sent) = self.sent.get_mut(&flow) else { return Vec::new() };
        let highest = number + u64::from(report.above);
        let missing = sent.split_off(&(highest + 1 - u64::from(report.below)));
        let mut found: Vec<Outstanding> = std::mem::replace(sent, missing).into_values().collect();
        let ahead = (0..64).rev().filter(|bit| report.earlier >> bit & 1 == 1).map(|bit| highest - 1 - bit);
        found.extend(ahead.chain([number, highest]).filter_map(|number| sent.remove(&number)));
        if sent.is_empty() {
            self.sent.remove(&flow);
        }
        found
    }

    /// Removes and returns the packets that are to be sent again if the packet with a number is missing.
    fn take_missing(&mut self, flow: Connection, number: u64) -> BTreeMap<u64, Outstanding> {
        let Some(sent) = self.sent.get_mut(&flow) else { return BTreeMap::new() };
        let missing = if self.rule.goes_back {
            sent.split_off(&number)
        } else {
            sent.remove_entry(&number).into_iter().collect()
        };
        if sent.is_empty() {
            self.sent.remove(&flow);
        }
        missing
    }

    /// The time at which a packet was sent that is outstanding.
    fn sent_at(&self, flow: Connection, number: u64) -> Option<Time> {
        self.sent.get(&flow)?.get(&number).map(|one| one.sent_at)
    }

    /// Whether an acknowledgement of another packet has reported this packet as arrived.
    fn has_arrived(&self, flow: Connection, number: u64) -> bool {
        self.order.get(&flow).is_some_and(|order| order.has_arrived(number))
    }

    /// Returns the next outstanding packet of a flow that acknowledgements of other packets report as arrived, and whose own
    /// acknowledgement counts as lost.
    fn take_reported(&mut self, flow: Connection) -> Option<u64> {
        while let Some((number, sent_at)) = self.order.get_mut(&flow)?.next_to_check() {
            if self.has_arrived(flow, number) && self.sent_at(flow, number) == Some(sent_at) {
                return Some(number);
            }
        }
        None
    }

    /// Removes and returns the next packet of a flow that has been overtaken at this distance and is outstanding, and whether
    /// it has arrived.
    fn take_overtaken(&mut self, flow: Connection, distance: u16) -> Option<(u64, bool)> {
        while let Some((number, sent_at)) = self.order.get_mut(&flow)?.take_overtaken(distance) {
            if self.sent_at(flow, number) == Some(sent_at) {
                return Some((number, self.has_arrived(flow, number)));
            }
        }
        None
    }

    /// Removes and returns the first flow that must repeat its request by `now`.
    fn take_waiting(&mut self, now: Time) -> Option<Connection> {
        while let Some(&(time, flow)) = self.requests.front().filter(|(time, _)| *time <= now) {
            self.requests.pop_front();
            if self.waits_until.get(&flow) == Some(&time) {
                self.waits_until.remove(&flow);
                return Some(flow);
            }
        }
        None
    }

    /// Removes the first deadline of an outstanding packet if it has passed by `now`. Returns the flow and the
    /// number of the packet. Also removes earlier deadlines of packets that were acknowledged or sent again.
    fn take_late(&mut self, now: Time) -> Option<(Connection, u64)> {
        while let Some(&(deadline, flow, number)) = self.deadlines.front() {
            if self.sent_at(flow, number).is_some_and(|sent_at| sent_at + self.rule.timeout == deadline) {
                if deadline > now {
                    return None;
                }
                self.deadlines.pop_front();
                return Some((flow, number));
            }
            self.deadlines.pop_front();
        }
        None
    }
}

impl Host {
    /// Stores a packet that is being sent until the packet is acknowledged.
    pub(super) fn keep_sent(&mut self, ctx: &mut Context, number: u64, packet: &Packet, entropy: u16) {
        let Some(recovery) = &mut self.recovery else { return };
        let flow = Connection { source: packet.source, destination: packet.dst };
        let Some(packet) = packet.segment() else {
            return ctx.report_broken(format!("host {} keeps a packet without data", self.id));
        };
        let sent = Outstanding { packet, sent_at: ctx.now, entropy };
        recovery.sent.entry(flow).or_default().insert(number, sent);
        if recovery.rule.reordering.is_some() {
            recovery.order.entry(flow).or_default().push(number, ctx.now);
        }
        recovery.deadlines.push_back((ctx.now + recovery.rule.timeout, flow, number));
        self.plan_timeout(ctx);
    }

    /// Schedules an event for the first timeout, unless an event is pending.
    fn plan_timeout(&mut self, ctx: &mut Context) {
        let Some(recovery) = &mut self.recovery else { return };
        let first = recovery.deadlines.front().map(|(time, ..)| *time);
        let first = first.into_iter().chain(recovery.requests.front().map(|(time, _)| *time)).min();
        if !recovery.is_planned
            && let Some(time) = first
        {
            recovery.is_planned = true;
            let key = key(Class::HostTimer, self.place, Port::FIRST);
            ctx.queue.push(Event { time, key, data: TIMEOUT });
        }
    }

    /// Repeats the packets and requests that have timed out.
    pub fn expire_outstanding(&mut self, ctx: &mut Context) {
        if let Some(recovery) = &mut self.recovery {
            recovery.is_planned = false;
        }
        if self.is_stopped {
            return;
        }
        while let Some((flow, number)) =
            self.recovery.as_mut().and_then(|recovery| recovery.take_late(ctx.now))
        {
            if self.recovery.as_ref().is_some_and(|recovery| recovery.has_arrived(flow, number)) {
                self.settle_receipt(ctx, flow, number, false);
                continue;
            }
            ctx.meters.timeouts += 1;
            self.repeat(ctx, flow, number);
        }
        while let Some(flow) = self.recovery.as_mut().and_then(|recovery| recovery.take_waiting(ctx.now)) {
            if let Some(id) = self.flows.find(flow.source, flow.destination) {
                let wanted = self.missing_grant(id);
                self.send_request(id, wanted, true);
                self.await_grant(ctx, id);
                self.wake(ctx);
            }
        }
        self.plan_timeout(ctx);
    }

    /// The amount that a flow must request again, in the unit of grants; zero if the flow does not wait for a
    /// grant.
    fn missing_grant(&self, id: FlowId) -> u32 {
        self.reactor.as_ref().map_or(0, |reactor| reactor.missing_grant(self.reference(id)))
    }

    /// With loss recovery, makes a flow that waits for a grant repeat its request after the timeout.
    #[inline(always)]
    pub(super) fn await_grant(&mut self, ctx: &mut Context, id: FlowId) {
        if self.recovery.is_some() {
            self.await_missing_grant(ctx, id);
        }
    }

    #[inline(never)]
    fn await_missing_grant(&mut self, ctx: &mut Context, id: FlowId) {
        if self.missing_grant(id) == 0 {
            return;
        }
        let &QueuedFlow { source, destination, .. } = self.flows.get(id);
        let Some(recovery) = &mut self.recovery else { return };
        let (flow, time) = (Connection { source, destination }, ctx.now + recovery.rule.timeout);
        if let Entry::Vacant(entry) = recovery.waits_until.entry(flow) {
            entry.insert(time);
            recovery.requests.push_back((time, flow));
            self.plan_timeout(ctx);
        }
    }

    /// Ends a flow's wait for the grant that has arrived. If the flow needs another grant, a new wait starts.
    pub(super) fn note_grant(&mut self, ctx: &mut Context, id: FlowId) {
        let &QueuedFlow { source, destination, .. } = self.flows.get(id);
        if let Some(recovery) = &mut self.recovery {
            recovery.waits_until.remove(&Connection { source, destination });
            self.await_grant(ctx, id);
        }
    }

    /// Sends a missing packet again and, with go-back-N, the outstanding packets after it.
    fn repeat(&mut self, ctx: &mut Context, flow: Connection, number: u64) {
        let Some(recovery) = &mut self.recovery else { return };
        let missing = recovery.take_missing(flow, number);
        if missing.is_empty() {
            return;
        }
        let Connection { source, destination } = flow;
        let class = self.sources[usize::from(source)].class;
        let of = self.flow_of(source, destination);
        for (number, lost) in missing {
            ctx.meters.repeats(class, lost.packet.bytes);
            self.flows.add_lost(of.flow, number, lost.packet);
            self.note_route(ctx, flow, lost.entropy, RouteFeedback::Lost);
            self.note_lost(of, &lost, ctx.now);
        }
        // The missing packets may have carried requests for credit.
        let wanted = self.missing_grant(of.flow);
        self.resume(ctx, of, wanted);
        self.await_grant(ctx, of.flow);
    }

    /// Informs the reaction that a packet has been lost.
    fn note_lost(&mut self, of: FlowRef, lost: &Outstanding, now: Time) {
        let &Outstanding { packet, sent_at, .. } = lost;
        let lost = Lost { now, sent_at, is_answer: false, payload: packet.bytes, at_last_hop: false };
        if let Some(reactor) = &mut self.reactor {
            reactor.lost(of, &lost);
        }
    }

    /// Number of the next packet of a flow, then the number of packets of its messages that have not been sent.
    pub fn next_packets(&self, flow: FlowAddress) -> (u64, u64) {
        let FlowAddress { source, destination, .. } = flow;
        let next = self.order.as_ref().map_or(0, |order| order.next_of(source, destination));
        let messages = self.flows.find(source, destination).map(|id| self.flows.get(id).messages.iter());
        let mtu = u64::from(self.sizes.mtu);
        (next, messages.into_iter().flatten().map(|message| message.left.div_ceil(mtu)).sum())
    }

    /// Takes a flow's data back, as if its queue pair were reset: messages that have not been sent, and packets that have not
    /// been acknowledged. `bytes` of them have not arrived and will be sent by other flows.
    pub fn withdraw(&mut self, ctx: &mut Context, flow: FlowAddress, bytes: u64) {
        if self.adapter.is_some() || self.announcer.is_some() {
            let id = self.id;
            return ctx.report_broken(format!("host {id} takes data back that it has buffered or announced"));
        }
        let FlowAddress { source, destination, .. } = flow;
        let of = self.flow_of(source, destination);
        let class = self.sources[usize::from(source)].class;
        let is_listed = !self.flows.reopen(of.flow) && self.flows.is_listed(of.flow);
        if is_listed && self.flows.unlink(of.flow) {
            self.sources[usize::from(source)].ready -= 1;
        }
        let mut waiting = self.flows.lost_bytes(of.flow);
        while self.flows.take_lost(of.flow).is_some() {}
        while let Some(message) = self.flows.get_mut(of.flow).messages.pop() {
            waiting += message.left;
            self.sources[usize::from(source)].finished(&message);
        }
        let flow = Connection { source, destination };
        let outstanding = self.recovery.as_mut().and_then(|recovery| {
            recovery.waits_until.remove(&flow);
            recovery.order.remove(&flow);
            recovery.sent.remove(&flow)
        });
        for lost in outstanding.into_iter().flat_map(BTreeMap::into_values) {
            self.note_lost(of, &lost, ctx.now);
        }
        if let Some(sprayer) = &mut self.sprayer {
            sprayer.forget(source, destination);
        }
        ctx.meters.withdraws(class, bytes, waiting);
        self.reset(source, destination);
        self.reconsider_sharing(of, ctx.now);
        self.wake(ctx);
    }

    /// The numbers below `next` of the packets of a flow to this host that have not arrived.
    pub fn not_arrived(&self, flow: FlowAddress, next: u64) -> Vec<u64> {
        let arrived =
            self.recovery.as_ref().and_then(|recovery| recovery.arrived.get(&(flow.host, flow.source)));
        match arrived {
            Some(arrived) => (arrived.next..next).filter(|number| !arrived.ahead.contains(number)).collect(),
            None => (0..next).collect(),
        }
    }

    /// Accepts no more packets with numbers below `next` of a flow to this host. `missing` has the numbers of those that have
    /// not arrived, in ascending order.
    pub fn give_up(&mut self, ctx: &mut Context, flow: FlowAddress, next: u64, missing: &[u64]) {
        let flow = (flow.host, flow.source);
        if let Some(recovery) = &mut self.recovery {
            recovery.arrived.insert(flow, Arrived { next, ..Arrived::default() });
        }
        if let Some(order) = &mut self.order {
            order.give_up(&mut ctx.meters, flow, missing, ctx.now);
        }
    }

    /// With [`RecoveryRule::reordering`], handles what the acknowledgement of a packet says about other packets: repeats those
    /// that it shows to be lost.
    #[inline]
    pub(super) fn find_gaps(&mut self, ctx: &mut Context, flow: Connection, echoed: &Echoed, marks: &Marks) {
        if let Some(distance) = self.recovery.as_ref().and_then(|recovery| recovery.rule.reordering) {
            self.repeat_overtaken(ctx, flow, (echoed, marks), distance);
        }
    }

    #[inline(never)]
    fn repeat_overtaken(
        &mut self,
        ctx: &mut Context,
        flow: Connection,
        (echoed, marks): (&Echoed, &Marks),
        distance: u16,
    ) {
        let id = self.flows.find(flow.source, flow.destination);
        let waiting = id.and_then(|id| self.flows.lowest_lost(id));
        if let Some(recovery) = &mut self.recovery
            && let Some(order) = recovery.order.get_mut(&flow)
        {
            let outstanding = recovery.sent.get(&flow).and_then(|sent| sent.keys().next().copied());
            let oldest = outstanding.into_iter().chain(waiting).min();
            // An acknowledgement of several packets has settled those that it reports.
            let earlier = if self.has_units { 0 } else { marks.report.earlier };
            order.acknowledge((marks.number, echoed.sent_at), earlier, oldest);
        }
        while let Some(number) = self.recovery.as_mut().and_then(|recovery| recovery.take_reported(flow)) {
            self.settle_receipt(ctx, flow, number, false);
        }
        while let Some((number, has_arrived)) =
            self.recovery.as_mut().and_then(|recovery| recovery.take_overtaken(flow, distance))
        {
            if has_arrived {
                self.settle_receipt(ctx, flow, number, false);
            } else {
                ctx.meters.overtaken += 1;
                self.repeat(ctx, flow, number);
            }
        }
    }

    /// What an acknowledgement of a packet states about the packets of a flow to this host, if it covers several of them, or
    /// with [`RecoveryRule::reordering`].
    pub(super) fn arrived(&self, host: u32, source: u16, number: u64) -> Option<ArrivedReport> {
        let has_report = |recovery: &&LossRecovery| self.has_units || recovery.rule.reordering.is_some();
        let arrived = self.recovery.as_deref().filter(has_report)?.arrived.get(&(host, source))?;
        Some(match self.has_units {
            true => arrived.report(number),
            false => ArrivedReport { earlier: arrived.before(number), ..ArrivedReport::default() },
        })
    }

    /// Handles an acknowledgement of several packets. The reaction learns of those that were outstanding.
    pub(super) fn take_report(
        &mut self,
        ctx: &mut Context,
        (flow, echoed): (Connection, &Echoed),
        (hops, marks): (&[Telemetry], &Marks),
    ) {
        let Some(recovery) = &mut self.recovery else { return };
        // If a packet has waited for its acknowledgement, the echoed time is later than that at which it was sent.
        let last_sent = recovery.sent_at(flow, marks.number).filter(|&time| time <= echoed.sent_at);
        let arrived = recovery.take_arrived(flow, marks.number, marks.report);
        if !arrived.is_empty() {
            let bytes = arrived.iter().map(|one| one.packet.bytes).sum();
            let Connection { source, destination } = flow;
            let address = FlowAddress { host: self.id, source, destination };
            let ends = ctx.meters.awaits_acks() && ctx.meters.acknowledged(address, bytes, ctx.now);
            let mut own = *marks;
            own.covered = arrived.len() as u32;
            self.take_answer(ctx, flow, &Echoed { bytes, ..*echoed }, (hops, &own));
            if ends && self.own_flow_acknowledged(source, ctx.now) {
                self.wake(ctx);
            }
        }
        let sent_at = last_sent.unwrap_or(echoed.sent_at);
        self.find_gaps(ctx, flow, &Echoed { sent_at, ..*echoed }, marks);
    }

    /// Whether packets of a flow have not been acknowledged.
    pub(super) fn has_outstanding(&self, flow: Connection) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.sent.contains_key(&flow))
    }

    /// Whether acknowledgements of the receiver component are receipts.
    pub(super) fn acks_are_receipts(&self) -> bool {
        self.recovery.as_ref().is_some_and(|recovery| recovery.rule.has_acks)
    }

    /// Handles a receipt: the packet with a number is acknowledged and, with go-back-N, all earlier ones.
    /// Returns whether that packet was outstanding. With `answers`, the caller accounts for that packet
    /// itself.
    pub(super) fn settle_receipt(
        &mut self,
        ctx: &mut Context,
        flow: Connection,
        number: u64,
        answers: bool,
    ) -> bool {
        let Some(recovery) = &mut self.recovery else { return false };
        let (own, before) = recovery.acknowledge(flow, number);
        let was_outstanding = own.is_some();
        let own = own.filter(|_| !answers);
        let counts = ctx.meters.awaits_acks();
        let Connection { source, destination } = flow;
        let address = FlowAddress { host: self.id, source, destination };
        let mut ends = false;
        for Outstanding { packet, .. } in before.into_values().chain(own) {
            ends |= counts && ctx.meters.acknowledged(address, packet.bytes, ctx.now);
            self.note_arrived(flow, packet.bytes, ctx.now);
            self.wake(ctx);
        }
        if ends {
            self.own_flow_acknowledged(source, ctx.now);
        }
        was_outstanding
    }

    /// Informs the reaction of a packet that has arrived although its own answer was not received.
    fn note_arrived(&mut self, Connection { source, destination }: Connection, payload: u32, now: Time) {
        let sl = self.level(source, destination);
        let id = self.flows.find(source, destination);
        let Some(reactor) = &mut self.reactor else { return };
        match (reactor.level(), id) {
            (StateLevel::ServiceLevel, _) => {
                let of = FlowRef { flow: 0, sl };
                reactor.arrived(of, payload);
                if reactor.counts_answers() {
                    self.reconsider_sharing(of, now);
                }
            }
            (StateLevel::Flow | StateLevel::Destination, Some(flow)) => {
                let of = FlowRef { flow, sl };
                reactor.arrived(of, payload);
                self.recheck_permission(flow);
                self.reconsider_sharing(of, now);
            }
            // The state has been removed.
            (StateLevel::Flow | StateLevel::Destination, None) => {}
        }
    }

    /// Handles a receipt from the receiver of a flow.
    pub(super) fn receipt(&mut self, ctx: &mut Context, packet: &Packet, number: u64, is_missing: bool) {
        let flow = Connection { source: packet.source, destination: packet.src };
        if !is_missing {
            self.settle_receipt(ctx, flow, number, false);
        } else {
            if let Some(before) = number.checked_sub(1) {
                self.settle_receipt(ctx, flow, before, false);
            }
            self.repeat(ctx, flow, number);
        }
    }

    /// Decides whether a data packet is delivered and answered, and sends a receipt if one is needed.
    pub(super) fn accepts(&mut self, ctx: &mut Context, packet: &Packet, number: u64) -> Accepted {
        let Some(recovery) = &mut self.recovery else { return Accepted { is_new: true, is_answered: true } };
        let RecoveryRule { goes_back, has_acks, .. } = recovery.rule;
        let arrived = recovery.arrived.entry((packet.src, packet.source)).or_default();
        let verdict = arrived.take(number, goes_back);
        let next = arrived.next;
        match verdict {
            Judgement::OutOfSequence(false) => {}
            Judgement::OutOfSequence(true) => self.send_receipt(packet, next, false),
            Judgement::Accept | Judgement::Duplicate if has_acks => {}
            // With go-back-N, a receipt covers all packets before its number.
            Judgement::Duplicate if goes_back => self.send_receipt(packet, next - 1, true),
            Judgement::Accept | Judgement::Duplicate => self.send_receipt(packet, number, true),
        }
        self.wake(ctx);
        if verdict != Judgement::Accept {
            ctx.meters.discards(packet);
        }
        let is_new = verdict == Judgement::Accept;
        Accepted { is_new, is_answered: is_new || verdict == Judgement::Duplicate }
    }

    fn send_receipt(&mut self, packet: &Packet, number: u64, is_positive: bool) {
        let receipt = self.answer_to(packet, Contents::Receipt { is_missing: !is_positive });
        self.control.push_back(ControlPacket { number: Some(number), ..receipt });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: Connection = Connection { source: 3, destination: 7 };

    fn recovery(goes_back: bool, sent: &[(u64, u64)]) -> LossRecovery {
        let mut recovery = LossRecovery::new(RecoveryRule {
            timeout: Time(100),
            goes_back,
            has_acks: false,
            reordering: None,
        });
        for &(number, now) in sent {
            let packet = Segment { bytes: 10, created: Time(0), is_last: false };
            let one = Outstanding { packet, sent_at: Time(now), entropy: 0 };
            recovery.sent.entry(FLOW).or_default().insert(number, one);
            recovery.deadlines.push_back((Time(now + 100), FLOW, number));
        }
        recovery
    }

    #[test]
    fn packets_are_accepted_once() {
        let mut any = Arrived::default();
        let verdicts = [2, 0, 2, 1, 0, 3].map(|number| any.take(number, false));
        use Judgement::{Accept, Duplicate, OutOfSequence};
        assert_eq!(verdicts, [Accept, Accept, Duplicate, Accept, Duplicate, Accept]);
        assert_eq!((any.next, any.ahead.len()), (4, 0));
        let mut next = Arrived::default();
        let verdicts = [0, 2, 3, 0, 1, 3].map(|number| next.take(number, true));
        let (asks, is_silent) = (OutOfSequence(true), OutOfSequence(false));
        assert_eq!(verdicts, [Accept, asks, is_silent, Duplicate, Accept, asks], "asks once per gap");
    }

    #[test]
    fn acknowledgements_state_which_of_the_packets_before_have_arrived() {
        let mut arrived = Arrived::default();
        for number in [0, 1, 3, 5, 70] {
            arrived.take(number, false);
        }
        // Bit k stands for number - 1 - k: first a number up to which all have arrived.
        assert_eq!([0, 1, 2].map(|number| arrived.before(number)), [0, 0b1, 0b11]);
        assert_eq!([3, 4, 6].map(|number| arrived.before(number)), [0b110, 0b1101, 0b11_0101]);
        // 64 packets before 70 are 6 to 69; before 69, they are 5 to 68.
        assert_eq!([70, 69, 71].map(|number| arrived.before(number)), [0, 1 << 63, 1]);
        let mut all = Arrived::default();
        (0..100).for_each(|number| {
            all.take(number, false);
        });
        assert_eq!(
            [63, 64, 99, 100].map(|number| all.before(number)),
            [u64::MAX >> 1, u64::MAX, u64::MAX, u64::MAX]
        );
    }

    #[test]
    fn receipts_are_selective_or_cumulative() {
        let sent = [(0, 0), (1, 10), (2, 20), (3, 30)];
        let mut selective = recovery(false, &sent);
        assert!(selective.acknowledge(FLOW, 2).0.is_some() && selective.acknowledge(FLOW, 2).0.is_none());
        assert_eq!(selective.take_missing(FLOW, 1).into_keys().collect::<Vec<_>>(), [1]);
        assert_eq!(selective.sent[&FLOW].keys().copied().collect::<Vec<_>>(), [0, 3]);
        let mut cumulative = recovery(true, &sent);
        let (own, before) = cumulative.acknowledge(FLOW, 1);
        assert_eq!(
            (own.map(|one| one.sent_at), before.into_keys().collect::<Vec<_>>()),
            (Some(Time(10)), vec![0])
        );
        assert_eq!(cumulative.take_missing(FLOW, 2).into_keys().collect::<Vec<_>>(), [2, 3]);
        assert!(cumulative.sent.is_empty());
    }

    #[test]
    fn only_packets_that_are_not_acknowledged_time_out() {
        let mut recovery = recovery(false, &[(0, 0), (1, 10), (2, 20)]);
        recovery.acknowledge(FLOW, 0);
        assert_eq!(recovery.take_late(Time(109)), None);
        assert_eq!(recovery.take_late(Time(110)), Some((FLOW, 1)));
        assert_eq!((recovery.take_late(Time(119)), recovery.take_late(Time(120))), (None, Some((FLOW, 2))));
    }
}
