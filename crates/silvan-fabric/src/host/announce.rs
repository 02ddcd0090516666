//! Announces flows to the network before they start. Announcements assign a route, a rate, or both (Zdornov
//! and Birk, sections 4 to 6).
//!
//! ```text
//!  message ----> set-up -> .. -> reply    packets, now and then a probe    tear-down -> .. -> reply
//!          waits                      go                              waits for the next message
//! ```
//!
//! In this module, a flow is one message, and a connection is all traffic from a source to one destination. A
//! tear-down packet follows all data of its flow. After the tear-down packet has returned, the next message
//! of the connection is announced. If flows are retained, there is no tear-down, and the next message of
//! equal size continues with the announcement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use silvan_congestion::reaction::{ExplicitRate, Injection, Probing};
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Rate, Time};
use silvan_network::port::Port;

use super::Host;
use super::flows::{Connection, QueuedFlow};
use super::index::FlowId;
use super::outbox::ControlPacket;
use crate::context::Context;
use crate::message::Announcement;
use crate::packet::{Contents, Kind, Packet, PacketId};
use crate::switch::weight_ps;

/// State of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
enum FlowStage {
    /// The set-up packet has not returned yet.
    Announced,
    /// The flow may send.
    Running,
    /// The flow has sent all of its data, and the links keep its weight.
    Retained,
    /// The tear-down packet has not returned yet.
    Ending,
}

/// A flow from its announcement to its end.
#[derive(Debug, Clone, Copy, Saved)]
struct Trip {
    stage: FlowStage,
    bytes: u64,
    /// The time that the host's own link needs to carry the flow, in picoseconds.
    weight_ps: u64,
    /// The largest weight of any link on the flow's route, as last reported, in picoseconds.
    largest_ps: u64,
    /// Bytes sent.
    sent: u64,
    /// The start of the last packet, and its transmission time in picoseconds.
    last: Option<(Time, u64)>,
    /// The time from one probe to the next.
    probe_after: Time,
}

/// The full rate of a link, as a fixed-point number: the unit of shares.
const WHOLE: u128 = 1 << 32;

impl Trip {
    /// The share of the host's link that the flow may use. `own_ps` is the total weight of the flows
    /// announced to this link.
    fn share(&self, own_ps: u64) -> u128 {
        let largest = self.largest_ps.max(own_ps).max(self.weight_ps).max(1);
        scaled(self.weight_ps, largest).max(1)
    }
}

/// `number * WHOLE / by`. Divisions of 64-bit numbers are much faster.
fn scaled(number: u64, by: u64) -> u128 {
    let by = by.max(1);
    match number.checked_mul(WHOLE as u64) {
        Some(number) => (number / by).into(),
        None => u128::from(number) * WHOLE / u128::from(by),
    }
}

/// The transmission time of a packet at a share of the link's rate; `span_ps` is the time at the full rate.
fn stretched(span_ps: u64, share: u128) -> Time {
    Time((u128::from(span_ps) * WHOLE / share.max(1)) as u64)
}

#[derive(Debug, Saved)]
pub(crate) struct Announcer {
    #[saved(constant)]
    rates: Option<ExplicitRate>,
    rate: Rate,
    pace: BytePace,
    trips: FxHashMap<Connection, Trip>,
    /// The time that the host's link needs to carry all announced flows, in picoseconds.
    own_ps: u64,
    probes: BinaryHeap<Reverse<(Time, Connection)>>,
    /// Whether the first flow of the ring is known to be the most urgent one.
    #[saved(scratch)]
    is_selected: bool,
}

impl Announcer {
    pub fn new(rates: Option<ExplicitRate>, rate: Rate) -> Self {
        let (trips, probes) = (FxHashMap::default(), BinaryHeap::new());
        Self { rates, rate, pace: rate.pace(), trips, own_ps: 0, probes, is_selected: false }
    }

    /// Whether the time of a flow's next packet depends on the shares of the host's link.
    fn is_clocked(&self) -> bool {
        self.rates.as_ref().is_some_and(|rates| rates.injection == Injection::ShapedVirtualClock)
    }

    /// Has the flow that has sent the least be selected again, because the flows in the ring have changed.
    pub fn select_again(&mut self) {
        self.is_selected = false;
    }

    /// The earliest time at which a probe is due.
    pub fn next_probe(&self) -> Option<Time> {
        self.probes.peek().map(|entry| entry.0.0)
    }

    /// Whether probe packets read the weights of links.
    fn sends_probes(&self) -> bool {
        self.rates.as_ref().is_some_and(|rates| rates.probing == Probing::Packets)
    }

    /// Whether data packets read the weights of links.
    fn piggybacks(&self) -> bool {
        self.rates.as_ref().is_some_and(|rates| rates.probing == Probing::Piggyback)
    }

    /// Whether links keep the weights of flows that have sent all of their data.
    fn retains(&self) -> bool {
        self.rates.as_ref().is_some_and(|rates| rates.retain)
    }

    /// The time until the next probe of a running flow, which doubles with each call. `None` if no probe
    /// packets are used.
    fn until_probe(sends_probes: bool, trip: &mut Trip) -> Option<Time> {
        let after = trip.probe_after;
        sends_probes.then(|| {
            trip.probe_after = Time(after.0.saturating_mul(2));
            after
        })
    }

    /// Schedules the next probe of a flow.
    fn plan_probe(&mut self, flow: Connection, now: Time, after: Time) {
        self.probes.push(Reverse((Time(now.0.saturating_add(after.0)), flow)));
    }

    /// The earliest time at which a running flow may send its next packet, if that depends on its share.
    fn due(&self, flow: Connection) -> Option<Time> {
        let trip = self.trips.get(&flow).filter(|_| self.is_clocked())?;
        trip.last.map(|(start, span)| start + stretched(span, trip.share(self.own_ps)))
    }

    /// Continues a retained flow with its next message of `bytes` bytes. If the flow has another size, ends
    /// the flow and returns its size as an error; the caller must send the tear-down packet.
    fn resume(&mut self, flow: Connection, bytes: u64, now: Time) -> Result<(), u64> {
        if !self.retains() {
            return Ok(());
        }
        let (probe_after, sends_probes) = (self.first_probe(), self.sends_probes());
        let Some(trip) = self.trips.get_mut(&flow) else { return Ok(()) };
        if trip.stage != FlowStage::Retained {
            return Ok(());
        }
        if trip.bytes != bytes {
            trip.stage = FlowStage::Ending;
            self.own_ps -= trip.weight_ps;
            return Err(trip.bytes);
        }
        (trip.stage, trip.sent, trip.probe_after) = (FlowStage::Running, 0, probe_after);
        if let Some(after) = Self::until_probe(sends_probes, trip) {
            self.plan_probe(flow, now, after);
        }
        Ok(())
    }

    /// The time from the start of a flow to its first probe; `Time::NEVER` without explicit rates.
    fn first_probe(&self) -> Time {
        self.rates.as_ref().map_or(Time::NEVER, |rates| rates.probe)
    }

    /// Bytes that a flow has sent, divided by its share of the link. The flow with the smallest value sends
    /// first.
    fn urgency(&self, flow: Connection) -> u128 {
        self.trips.get(&flow).map_or(0, |trip| scaled(trip.sent, trip.share(self.own_ps) as u64))
    }
}

/// Whether an announced flow may send.
pub(super) enum Leave {
    Go,
    /// The flow may send from this time on.
    At(Time),
    /// The flow must wait for the answer to an announcement packet.
    Wait,
}

impl Host {
    /// Whether flows are announced before they start.
    pub fn announces(&self) -> bool {
        self.announcer.is_some()
    }

    /// Creates the control packet that announces a flow of this host, probes its links, or ends it. `contents` creates the
    /// contents from the index of the announcement.
    fn announcement(&self, contents: fn(u32) -> Contents, flow: Connection, bytes: u64) -> ControlPacket {
        // The index is not known before the packet is sent.
        let contents = contents(0);
        let announcement = Announcement { kind: contents.kind(), bytes, largest_ps: 0, known_ps: 0 };
        ControlPacket { announcement: Some(announcement), ..self.control_for(contents, flow) }
    }

    /// Whether a flow may send, now or later. Announces a flow with data that has not been announced, and
    /// ends a retained flow that cannot be resumed.
    pub(super) fn leave(&mut self, id: FlowId, now: Time) -> Leave {
        let flow = self.flows.get(id);
        let key = Connection { source: flow.source, destination: flow.destination };
        let Some(message) = flow.messages.first() else { return Leave::Go };
        let bytes = message.left;
        let Some(announcer) = &mut self.announcer else { return Leave::Go };
        announcer.is_selected = false;
        if let Err(retained) = announcer.resume(key, bytes, now) {
            let tear_down = self.announcement(Contents::TearDown, key, retained);
            self.control.push_back(tear_down);
            return Leave::Wait;
        }
        match announcer.trips.get(&key) {
            None => {}
            Some(Trip { stage: FlowStage::Announced | FlowStage::Retained | FlowStage::Ending, .. }) => {
                return Leave::Wait;
            }
            Some(_) => {
                return announcer.due(key).filter(|&due| due > now).map_or(Leave::Go, Leave::At);
            }
        }
        let weight_ps = weight_ps(bytes, announcer.rate);
        let trip = Trip {
            stage: FlowStage::Announced,
            bytes,
            weight_ps,
            largest_ps: 0,
            sent: 0,
            last: None,
            probe_after: announcer.first_probe(),
        };
        announcer.trips.insert(key, trip);
        announcer.own_ps += weight_ps;
        if announcer.is_clocked() {
            // All other shares may have decreased.
            self.recheck_all();
        }
        let set_up = self.announcement(Contents::SetUp, key, bytes);
        self.control.push_back(set_up);
        Leave::Wait
    }

    /// Whether the share of a flow that is in a list of the host permits it to send.
    pub(super) fn is_due(&self, id: FlowId, now: Time) -> bool {
        let Some(announcer) = &self.announcer else { return true };
        let &QueuedFlow { source, destination, .. } = self.flows.get(id);
        announcer.due(Connection { source, destination }).is_none_or(|due| due <= now)
    }

    /// With explicit rates, moves the flow that has sent the least relative to its rate to the head of the
    /// ring.
    pub(super) fn select(&mut self) {
        let Some(announcer) = &mut self.announcer else { return };
        if announcer.rates.is_some() && !announcer.is_selected {
            self.flows.bring_first(&mut self.sources, |flow| {
                announcer.urgency(Connection { source: flow.source, destination: flow.destination })
            });
            announcer.is_selected = true;
        }
    }

    /// Accounts for a sent packet of an announced flow. With piggybacking, the packet reads the weights of
    /// its links. After the last packet of a flow that is not retained, sends the tear-down.
    pub(super) fn note_announced(&mut self, ctx: &mut Context, id: PacketId, last: bool) {
        let Packet { source, dst: destination, size, .. } = ctx.packets[id];
        let flow = Connection { source, destination };
        let carrier = self.announcer.as_ref().filter(|announcer| announcer.piggybacks());
        let carried = carrier.map(|announcer| {
            let known_ps = announcer.trips.get(&flow).map_or(0, |trip| trip.largest_ps);
            ctx.announcements.add(Announcement { kind: Kind::Probe, bytes: 0, largest_ps: 0, known_ps })
        });
        ctx.packets.set_announcement(id, carried);
        if let Some(end) = self.announced_sent(flow, size, last, ctx.now) {
            self.end_route(ctx, end);
        }
    }

    /// Accounts for a sent packet. Returns the tear-down packet if this was the last packet of a flow that is
    /// not retained.
    fn announced_sent(&mut self, key: Connection, size: u32, last: bool, now: Time) -> Option<ControlPacket> {
        let announcer = self.announcer.as_mut()?;
        let span = announcer.pace.time(size).0;
        let own_ps = announcer.own_ps;
        let trip = announcer.trips.get_mut(&key)?;
        announcer.is_selected = false;
        trip.sent += u64::from(size);
        trip.last = Some((now, span));
        let bytes = trip.bytes;
        if let Some(ExplicitRate { injection: Injection::PeriodicSelection, .. }) = announcer.rates {
            let running = announcer.trips.values().filter(|trip| trip.stage == FlowStage::Running);
            let together: u128 = running.map(|trip| trip.share(own_ps)).sum();
            let next = now + stretched(span, together);
            self.injection.free_at = self.injection.free_at.max(next);
        }
        let retain = announcer.retains();
        let trip = announcer.trips.get_mut(&key).filter(|_| last)?;
        if retain {
            trip.stage = FlowStage::Retained;
            return None;
        }
        trip.stage = FlowStage::Ending;
        announcer.own_ps -= trip.weight_ps;
        Some(self.announcement(Contents::TearDown, key, bytes))
    }

    /// Sends a tear-down packet. In a host with an output buffer, the packet follows the data through that
    /// buffer.
    pub(super) fn end_route(&mut self, ctx: &mut Context, control: ControlPacket) {
        if self.adapter.is_none() {
            self.control.push_back(control);
            return;
        }
        let id = self.control_packet(ctx, control);
        self.inject_control(ctx);
        let (vl, dst, space) = (ctx.packets[id].vl, ctx.packets[id].dst, ctx.packets[id].space);
        if let Some(adapter) = &mut self.adapter {
            adapter.admit(vl, dst, space);
            adapter.buffers.store(&mut ctx.packets, ctx.now, Port::FIRST, Port::FIRST, id);
        }
        self.end_changes(ctx);
    }

    /// Queues the probes that are due, except those of flows that are not running.
    pub(super) fn probe(&mut self, now: Time) {
        while let Some(announcer) = &mut self.announcer
            && let Some(&Reverse((time, flow))) = announcer.probes.peek()
            && time <= now
        {
            announcer.probes.pop();
            let trip = announcer.trips.get(&flow);
            if trip.is_some_and(|trip| trip.stage == FlowStage::Running) {
                let probe = self.announcement(Contents::Probe, flow, 0);
                self.control.push_back(probe);
            }
        }
    }

    /// Returns the largest weight that a data packet has collected to its source, unless the source has that
    /// value.
    #[inline(never)]
    pub(super) fn return_weights(&mut self, ctx: &mut Context, packet: &Packet, number: u32) {
        let carried = *ctx.announcements.get_mut(number);
        if carried.largest_ps == carried.known_ps {
            ctx.announcements.take(number);
        } else {
            self.reply(ctx, packet, number);
        }
    }

    /// Returns an announcement to the source of the packet that carried it.
    pub(super) fn reply(&mut self, ctx: &mut Context, packet: &Packet, number: u32) {
        let way = self.way_back(packet, (packet.sl, packet.vl));
        self.control.push_back(ControlPacket::new(Contents::Reply(number), way));
        self.wake(ctx);
    }

    /// Handles the return of an announcement of this host, by its index.
    pub(super) fn announcement_returned(&mut self, ctx: &mut Context, packet: &Packet, number: u32) {
        let announcement = ctx.announcements.take(number);
        let key = Connection { source: packet.source, destination: packet.src };
        let Some(announcer) = &mut self.announcer else {
            return ctx.report_broken(format!("host {} has announced no flow, but got an answer", self.id));
        };
        let sends_probes = announcer.sends_probes();
        announcer.is_selected = false;
        // The answer to a probe can arrive after the answer to the end of its flow.
        let Some(trip) = announcer.trips.get_mut(&key) else { return };
        let running = match (announcement.kind, trip.stage) {
            (Kind::TearDown, _) => {
                announcer.trips.remove(&key);
                None
            }
            (Kind::SetUp, FlowStage::Announced) => {
                trip.stage = FlowStage::Running;
                Some(trip)
            }
            (Kind::Probe, FlowStage::Running) => Some(trip),
            // The flow has sent its last packet since then.
            _ => return,
        };
        if let Some(trip) = running {
            trip.largest_ps = announcement.largest_ps;
            let largest = trip.largest_ps.max(announcer.own_ps);
            ctx.meters.busiest_link_ps = ctx.meters.busiest_link_ps.max(largest);
            let counter = match announcement.kind {
                Kind::SetUp => &mut ctx.meters.announced,
                _ => &mut ctx.meters.probes,
            };
            *counter += 1;
            if let Some(after) = Announcer::until_probe(sends_probes, trip) {
                announcer.plan_probe(key, ctx.now, after);
            }
        }
        let id = self.flows.find(key.source, key.destination);
        if let Some(id) = id {
            // The share of the flow may have decreased.
            self.recheck_permission(id);
        }
        // Flows take their turns in the order in which they may send, even if the host was busy when a wait ended.
        self.release_throttled(ctx.now);
        if let Some(id) = id
            && self.flows.reopen(id)
        {
            self.enlist(id, ctx.now);
        }
        self.wake(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip(weight_ps: u64, largest_ps: u64) -> Trip {
        let probe_after = Time::NEVER;
        Trip { stage: FlowStage::Running, bytes: 0, weight_ps, largest_ps, sent: 0, last: None, probe_after }
    }

    #[test]
    fn a_share_is_that_of_the_busiest_link_the_own_one_included() {
        assert_eq!(trip(1_000, 4_000).share(1_000), WHOLE / 4);
        assert_eq!(trip(1_000, 4_000).share(8_000), WHOLE / 8);
        assert_eq!(trip(1_000, 0).share(1_000), WHOLE, "alone");
        assert_eq!(stretched(100, WHOLE / 4), Time(400));
    }

    #[test]
    fn who_has_sent_least_for_its_rate_is_most_urgent() {
        let to = |destination| Connection { source: 0, destination };
        let mut announcer = Announcer::new(None, Rate::from_gbit(8));
        announcer.trips.insert(to(1), Trip { sent: 300, ..trip(3_000, 4_000) });
        announcer.trips.insert(to(2), Trip { sent: 200, ..trip(1_000, 4_000) });
        // 300 bytes at a share of 3/4, 200 bytes at 1/4.
        assert!(announcer.urgency(to(1)) < announcer.urgency(to(2)));
    }
}
