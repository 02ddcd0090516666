//! Hosts, which divide messages into packets, send them, and receive packets.
//!
//! ```text
//!  sources -> flows (one queue per destination) -> round robin -> link
//!                     control packets first     ->
//!  link -> input buffer -> drain
//! ```
//!
//! Without an output buffer, flows do not block each other inside a host. The injection limit spaces the
//! starts of data packets and, if configured, of control packets, and the drain limit paces the release of
//! input buffer space. Both model a host bus that is slower than the link (Paper IV, V.A).

mod adapter;
mod announce;
mod flows;
mod hours;
mod index;
mod lanes;
mod live;
mod observe;
mod outbox;
mod own_flows;
mod probing;
mod react;
mod recovery;
mod respond;
mod send;
mod sent_order;
mod shared;
mod sink;
mod sizes;
mod solo;
#[cfg(test)]
mod tests;
mod timers;
mod turns;
mod waits;

use std::collections::VecDeque;
use std::sync::Arc;

use silvan_congestion::reaction::{Reactor, StateLevel};
use silvan_congestion::receiver::{Replies, Responder};
use silvan_engine::Time;
use silvan_engine::cache::prefetch_lines;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_network::port::Vl;
use silvan_network::routing::lanes::{LEVELS, Lanes};
use silvan_network::routing::spraying::Sprayer;
use silvan_network::traffic::source::{Clock, Message, Source};

use crate::congestion_log::HostLog;
use crate::context::Context;
use crate::lane_tables::LaneArbiters;
use crate::limiter::Limiter;
use crate::link::ChannelId;
use crate::order::Order;
use crate::packet::{FlowAddress, Packet, PacketId};
use crate::recorder::RecordedWaitKind;

pub(crate) use adapter::Adapter;
pub(crate) use announce::Announcer;
use announce::Leave;
use flows::FlowTable;
pub(crate) use hours::{Hours, Spent};
use index::FlowId;
use live::Live;
pub(crate) use observe::WantedWay;
use outbox::{ControlLimit, Outbox};
use own_flows::OwnFlows;
pub(crate) use probing::PROBE;
use recovery::LossRecovery;
pub(crate) use recovery::{RecoveryRule, TIMEOUT};
use sink::Undrained;
pub(crate) use sizes::PacketSizes;
use timers::Timers;
use turns::HostTurn;
pub(crate) use turns::take_turns;
pub(crate) use waits::{WaitLog, recorded_waits};

/// The result of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// A packet was sent.
    Sent,
    /// Credit is missing on all virtual lanes.
    Blocked,
    /// Nothing may be sent now.
    Idle,
}

// The order of the fields follows their use: first those for the arrival of packets, then those for sending,
// then those that only some networks need. The hosts of large networks do not fit into the cache, so the
// number of cache lines used matters.
#[derive(Debug, Saved)]
#[repr(C, align(64))]
pub(crate) struct Host {
    /// Index of this host among all hosts.
    pub id: u32,
    /// Index of this host among the hosts of its partition.
    pub place: u32,
    /// The channel on which the host sends.
    pub out: ChannelId,
    /// The channel on which the host receives.
    pub into: ChannelId,
    pub lanes: u8,
    /// Virtual lane of control packets other than tear-downs; `None` if they use the lane of their flow or of
    /// the packets that they answer.
    pub control_lane: Option<Vl>,
    /// Selects the lane of the next packet, if hosts do so by tables.
    arbiter: Option<Box<LaneArbiters>>,
    /// Whether the receiver component also needs data packets without a mark.
    answers_unmarked: bool,
    dirty: bool,
    /// Whether packets in both directions share the paces of the host.
    shares_paces: bool,
    /// Whether the host has failed.
    is_stopped: bool,
    /// Whether the host records how it uses its time, or why flows wait, or shares an injection limit or windows with other
    /// ports.
    #[saved(constant)]
    has_more_to_settle: bool,
    #[saved(constant)]
    pub sizes: PacketSizes,
    pub injection: Limiter,
    /// The index of the limit that this port shares with others, if it does.
    #[saved(constant)]
    pub shared: Option<u32>,
    /// The sources that generate messages themselves, then those of the ranks of jobs, then those created for
    /// messages with flows of their own.
    pub sources: Vec<Source>,
    /// The first `drawing` sources generate messages themselves.
    drawing: usize,
    /// The drawing sources that may generate messages now; `None` for hosts with few such sources.
    live: Option<Box<Live>>,
    /// For each traffic source whose messages have separate flows, the sources that send these messages.
    own_flows: Option<Vec<OwnFlows>>,
    /// See [`Self::permission_lasts`].
    permission_lasts: bool,
    /// Whether the host never has more than one message to send; see [`solo`].
    is_solo: bool,
    /// The message that a solo host is sending.
    on_hand: Option<Message>,
    turn: HostTurn,
    /// Delay of the injection limit after each message.
    #[saved(span)]
    pub message_overhead: Time,
    /// Virtual lane for each destination; `None` if the service level determines the lane.
    pub lane_of: Option<Arc<[u8]>>,
    /// Service level and lane for each destination, if routes determine them.
    pub paths: Option<Arc<Paths>>,
    flows: FlowTable,
    /// The output buffer, if there is one.
    pub adapter: Option<Box<Adapter>>,
    /// Announces flows before they start. Present with explicit rates or adaptive routing per flow.
    announcer: Option<Box<Announcer>>,
    control: Outbox,
    /// The number of flows with state at which the host will next remove idle flows.
    tidy_at: usize,
    /// The reaction to answers, with the states of the flows.
    pub reactor: Option<Reactor>,
    /// Whether answers carry a validation bit.
    validates: bool,
    /// Whether acknowledgements cover several packets. Data packets then may request an acknowledgement.
    has_units: bool,
    /// Flows that were skipped because they lack credit; used while the host is being settled.
    kept: Vec<FlowId>,
    /// Flows whose permission to send must be checked again because of an answer, a grant or a timer. The
    /// list may include other flows. It is used only if permissions remain valid; see
    /// [`Self::permission_lasts`].
    doubted: Vec<FlowId>,
    /// Packets in the input buffer.
    undrained: VecDeque<Undrained>,
    /// Records how the host uses its time. Present if a job needs this.
    pub hours: Option<Box<Hours>>,
    /// Records why flows wait. Present if departures are recorded.
    #[saved(constant)]
    pub waits: Option<Box<WaitLog>>,
    /// Answers the data packets that arrive.
    responder: Responder,
    /// The replies of the receiver component; empty between calls.
    replies: Replies,
    /// Timers of the reaction and of the receiver component. Allocated when one of them first needs a timer.
    timers: Option<Box<Timers>>,
    /// The order of packets, if they may overtake each other.
    order: Option<Box<Order>>,
    /// Selects entropy values, if packets have them; requires `order`.
    sprayer: Option<Box<Sprayer>>,
    /// The time of the earliest pending event for probes of entropy values.
    probes_at: Option<Time>,
    /// Repeats packets after a timeout or a negative receipt; requires `order`.
    recovery: Option<Box<LossRecovery>>,
    /// The congestion log, if the host keeps one.
    pub log: Option<Box<HostLog>>,
}

/// See [`Host::level`].
#[inline]
fn level(paths: &Option<Arc<Paths>>, sources: &[Source], source: u16, me: u32, destination: u32) -> u8 {
    match paths {
        None => sources[usize::from(source)].sl,
        Some(paths) => paths.lanes.levels.get(me as usize, destination as usize),
    }
}

/// The parameters of a host.
#[derive(Debug)]
pub(crate) struct HostSpec {
    pub id: u32,
    pub out: ChannelId,
    pub into: ChannelId,
    pub injection: BytePace,
    /// The index of the limit that the port shares with the other ports of its host.
    pub shared: Option<u32>,
    /// Whether control packets pass the injection limit.
    pub limits_control: bool,
    pub message_overhead: Time,
    pub sizes: PacketSizes,
    pub lanes: u8,
    pub control_lane: Option<Vl>,
    pub arbiter: Option<Box<LaneArbiters>>,
    pub responder: Responder,
    pub reactor: Option<Reactor>,
    pub validates: bool,
    pub has_units: bool,
    pub lane_of: Option<Arc<[u8]>>,
    pub paths: Option<Arc<Paths>>,
    pub adapter: Option<Box<Adapter>>,
    pub announcer: Option<Box<Announcer>>,
    pub order: Option<Box<Order>>,
    pub sprayer: Option<Box<Sprayer>>,
    pub recovery: Option<RecoveryRule>,
    pub log: Option<Box<HostLog>>,
}

/// The service levels of routes, and the lane of each level on the links of hosts.
#[derive(Debug)]
pub(crate) struct Paths {
    pub lanes: Arc<Lanes>,
    pub of_level: [u8; LEVELS],
}

impl Host {
    pub fn new(spec: HostSpec) -> Self {
        let mut flows = FlowTable::default();
        let shares = |reactor: &Reactor| reactor.level().is_shared() && reactor.counts_answers();
        if spec.reactor.as_ref().is_some_and(shares) {
            flows.keep_order();
        }
        let shares_windows = spec.reactor.as_ref().is_some_and(|reactor| reactor.destinations().is_some());
        let limit = match (spec.limits_control, &spec.adapter) {
            (false, _) => ControlLimit::None,
            (true, None) => ControlLimit::OnLink,
            (true, Some(_)) => ControlLimit::IntoAdapter,
        };
        let is_own = spec.reactor.as_ref().is_none_or(|reactor| !reactor.level().is_shared());
        Self {
            id: spec.id,
            place: spec.id,
            out: spec.out,
            into: spec.into,
            injection: Limiter::new(spec.injection),
            shared: spec.shared,
            message_overhead: spec.message_overhead,
            sizes: spec.sizes,
            lanes: spec.lanes,
            control_lane: spec.control_lane,
            arbiter: spec.arbiter,
            sources: Vec::new(),
            drawing: 0,
            live: None,
            own_flows: None,
            permission_lasts: is_own,
            is_solo: false,
            on_hand: None,
            turn: HostTurn::default(),
            answers_unmarked: spec.responder.watches_unmarked(),
            reactor: spec.reactor,
            responder: spec.responder,
            replies: Replies::default(),
            timers: None,
            validates: spec.validates,
            has_units: spec.has_units,
            lane_of: spec.lane_of,
            paths: spec.paths,
            adapter: spec.adapter,
            announcer: spec.announcer,
            control: Outbox::new(spec.lanes, limit),
            flows,
            kept: Vec::new(),
            doubted: Vec::new(),
            undrained: VecDeque::new(),
            dirty: false,
            shares_paces: false,
            is_stopped: false,
            has_more_to_settle: spec.shared.is_some() || shares_windows,
            order: spec.order,
            sprayer: spec.sprayer,
            probes_at: None,
            recovery: spec.recovery.map(|rule| Box::new(LossRecovery::new(rule))),
            log: spec.log,
            hours: None,
            waits: None,
            tidy_at: 64,
        }
    }

    /// Records how the host uses its time.
    pub fn record_hours(&mut self) {
        self.hours = Some(Box::default());
        self.has_more_to_settle = true;
    }

    /// Records why flows wait, from a time on.
    pub fn record_waits(&mut self, from: Time) {
        self.waits = Some(Box::new(WaitLog::new(from)));
        self.has_more_to_settle = true;
    }

    /// Whether the reaction counts answers and has a state per flow.
    pub fn awaits_answers(&self) -> bool {
        self.reactor
            .as_ref()
            .is_some_and(|reactor| reactor.counts_answers() && reactor.level() == StateLevel::Flow)
    }

    /// Whether flows have states, and the destinations of all messages of the first source are drawn at random.
    pub fn draws_flows(&self) -> bool {
        let is_drawn = |source: &Source| !source.has_own_flows() && source.next_destination().is_some();
        self.reactor.as_ref().is_some_and(|reactor| reactor.level() == StateLevel::Flow)
            && self.sources.first().is_some_and(is_drawn)
    }

    /// Whether the states of flows probably exceed the cache, so that prefetching is worthwhile.
    #[inline]
    fn has_many_flows(&self) -> bool {
        self.flows.len() > 16
    }

    /// Prefetches the entry that leads to the flow of an arriving answer.
    #[inline]
    pub fn prefetch_answer(&self, packet: &Packet) {
        if packet.kind().answers() && self.has_many_flows() {
            self.flows.prefetch_entry(packet.source, packet.src);
        }
    }

    /// Prefetches the data that the arrival of a packet will use.
    #[inline]
    pub fn prefetch_arrival(&self, ctx: &Context, id: PacketId) {
        let packet = &ctx.packets[id];
        if packet.kind().answers() {
            self.prefetch_state(packet.source, packet.src);
            ctx.packets.prefetch_hops(id);
            return;
        }
        ctx.links.prefetch_lane(self.into, Vl::FIRST);
    }

    /// The source and the destination of the next message, if it is probably due at `at`. `None` for hosts with few
    /// flows.
    #[inline]
    fn next_message(&self, at: Time) -> Option<(u16, u32)> {
        if !self.has_many_flows() {
            return None;
        }
        // The exact test takes longer than a superfluous prefetch.
        let wants = |number: &u16| self.sources[usize::from(*number)].due().is_some_and(|due| due <= at);
        let number = match &self.live {
            None => (0..self.drawing as u16).find(wants)?,
            Some(live) => live.indexes().iter().copied().find(wants)?,
        };
        Some((number, self.sources[usize::from(number)].next_destination()?))
    }

    /// Prefetches the entry that leads to the flow of the next message, if it is probably due at a time.
    #[inline]
    pub fn prefetch_entry(&self, at: Time) {
        if let Some((source, destination)) = self.next_message(at) {
            self.flows.prefetch_entry(source, destination);
        }
    }

    /// Prefetches the flow of the next message, if it is probably due at a time.
    #[inline]
    pub fn prefetch_flow(&self, at: Time) {
        if let Some((source, destination)) = self.next_message(at) {
            self.prefetch_state(source, destination);
        }
    }

    /// Prefetches a flow, whose entry has been prefetched, and its state.
    #[inline]
    fn prefetch_state(&self, source: u16, destination: u32) {
        if let (Some(flow), Some(reactor)) = (self.flows.prefetch_flow(source, destination), &self.reactor) {
            reactor.prefetch(flow);
        }
    }

    /// Prefetches the data that sending a packet will use.
    #[inline]
    pub fn prefetch_wake(&self, ctx: &Context) {
        prefetch_lines::<_, 2>(&self.sources, 0);
        let flow = self.flows.prefetch();
        if let Some(reactor) = &self.reactor {
            reactor.prefetch(flow);
        }
        ctx.links.prefetch_lane(self.out, Vl::FIRST);
    }

    /// The service level of a source's packets for a destination.
    #[inline]
    pub(super) fn level(&self, source: u16, destination: u32) -> u8 {
        level(&self.paths, &self.sources, source, self.id, destination)
    }

    /// Requests a call of [`Self::settle`] at the end of this instant.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Context) {
        if !self.dirty {
            self.dirty = true;
            ctx.dirty_hosts.push(self.place);
        }
    }

    /// Settles the host when it is woken, unless this will happen at the end of the instant anyway.
    #[inline]
    pub fn woken(&mut self, ctx: &mut Context) {
        if self.has_more_to_settle && self.shares_windows() {
            return self.wake(ctx);
        }
        if !self.dirty {
            self.settle(ctx);
        }
    }

    /// Whether flows to a destination share a window, also with those of other ports. These ports settle in their order at the
    /// end of an instant.
    pub fn shares_windows(&self) -> bool {
        self.reactor.as_ref().is_some_and(|reactor| reactor.destinations().is_some())
    }

    /// Schedules the first wake-up or turn, when the earliest source is due.
    pub fn start(&mut self, ctx: &mut Context) {
        // A pause frame must not take effect before an earlier turn, and turns do not record waits.
        let takes_turns = !ctx.links.is_divided() && !ctx.links.has_messages() && !ctx.is_recorded();
        self.is_solo = self.is_solo() && takes_turns;
        self.drawing = self.sources.partition_point(|source| !matches!(source.clock, Clock::Fed));
        let own = &self.sources[..self.drawing];
        self.live = (own.len() >= Live::LEAST).then(|| Box::new(Live::new(own)));
        match self.sources.iter().filter_map(Source::due).min() {
            Some(due) if self.is_solo => self.plan_turn(ctx, due),
            Some(due) => ctx.wake(self.out, due),
            None => {}
        }
    }

    /// Starts a source that waited for its trigger, at time `at`.
    pub fn begin(&mut self, ctx: &mut Context, source: u16, at: Time) {
        self.sources[usize::from(source)].next_at = at;
        if let Some(live) = &mut self.live {
            live.add(at, source);
        }
        self.wake(ctx);
    }

    /// Sends what may be sent at this instant, and schedules the next wake-up.
    pub fn settle(&mut self, ctx: &mut Context) {
        self.dirty = false;
        if self.has_more_to_settle {
            return self.settle_with_more(ctx);
        }
        if self.is_stopped {
            return;
        }
        if self.is_solo {
            self.end_turns(ctx);
        }
        self.send_if_possible(ctx);
    }

    /// See [`Self::settle`].
    #[inline(never)]
    fn settle_with_more(&mut self, ctx: &mut Context) {
        let has_turn = self.has_turn(ctx);
        self.note_changed_windows(ctx.now);
        if self.is_stopped {
            self.wake_others(ctx);
            return self.end_turn(ctx);
        }
        if self.is_solo {
            self.end_turns(ctx);
        }
        self.send_if_possible(ctx);
        self.wake_others(ctx);
        if has_turn && self.has_turn(ctx) {
            // The port has not sent.
            self.end_turn(ctx);
        }
        self.note_hours(ctx);
        self.note_injection(ctx);
    }

    fn send_if_possible(&mut self, ctx: &mut Context) {
        if self.announcer.is_some() {
            self.probe(ctx.now);
        }
        if self.adapter.is_some() {
            self.settle_adapter(ctx);
            return;
        }
        let free_at = ctx.free_at(self.out);
        if free_at > ctx.now {
            ctx.wake(self.out, free_at);
            return;
        }
        if self.arbiter.is_some() {
            return self.send_by_tables(ctx);
        }
        // If a control packet waits for credit on a lane, the lane must not carry data before that packet.
        let mut blocked_lanes = 0;
        if !self.control.is_empty() {
            // Data waits at least as long.
            if self.control.passes_at() > ctx.now {
                ctx.wake(self.out, self.control.passes_at());
                return;
            }
            if self.send_control(ctx, &mut blocked_lanes) {
                ctx.wake(self.out, ctx.free_at(self.out));
                return;
            }
            if blocked_lanes.count_ones() >= u32::from(self.lanes) {
                // Nothing can be sent. The return of credit wakes the host.
                return;
            }
        }
        if self.injection.free_at > ctx.now {
            ctx.wake(self.out, self.injection.free_at);
            return;
        }
        if !self.may_inject(ctx) {
            return self.wait_for_turn(ctx);
        }
        if self.is_solo {
            return self.settle_solo(ctx, blocked_lanes);
        }
        let attempt = self.draw_and_send(ctx, blocked_lanes);
        // The messages just generated may have added announcements or requests.
        if attempt != Attempt::Sent && !self.control.is_empty() && self.send_control(ctx, &mut blocked_lanes)
        {
            ctx.wake(self.out, ctx.free_at(self.out));
            return;
        }
        self.plan_wake(ctx, attempt);
    }

    /// The sources that may generate a message now.
    #[inline]
    fn drawing(&self) -> impl Iterator<Item = &Source> {
        // The remaining sources have not started or have ended.
        let (all, live) = match &self.live {
            None => (&self.sources[..self.drawing], &[][..]),
            Some(live) => (&[][..], live.indexes()),
        };
        all.iter().chain(live.iter().map(|&index| &self.sources[usize::from(index)]))
    }

    /// Generates the messages that are due, and sends a packet if possible.
    fn draw_and_send(&mut self, ctx: &mut Context, blocked_lanes: u16) -> Attempt {
        self.release_held(ctx.now);
        loop {
            self.generate(ctx);
            self.release_throttled(ctx.now);
            let attempt = self.send_data(ctx, blocked_lanes);
            // Sources may generate other messages instead of those that are held or were just throttled.
            if attempt != Attempt::Idle || !self.drawing().any(|source| source.wants_to_draw(ctx.now)) {
                self.note_refusals(attempt);
                return attempt;
            }
        }
    }

    /// Records whether the next attempts may skip the held flows until the output buffer has more room: it has refused
    /// all of them. Sources that generate messages only if no flow of theirs is ready count these flows, so a host
    /// with such sources skips none.
    fn note_refusals(&mut self, attempt: Attempt) {
        let Some(adapter) = &self.adapter else { return };
        let are_refused = attempt == Attempt::Idle
            && adapter.buffers.cams.is_none()
            && self.permission_lasts()
            && self.flows.ready() == 0
            && !self.drawing().any(Source::counts_ready);
        self.flows.note_refusals(are_refused);
    }

    /// Moves the held flows back to the ring, except those that must wait for their announcement or for the
    /// reaction.
    #[inline(always)]
    fn release_held(&mut self, now: Time) {
        if self.flows.are_refused() && self.doubted.is_empty() {
            return self.flows.pass_held();
        }
        if let Some(adapter) = &mut self.adapter {
            adapter.clear_refusals();
        }
        if self.permission_lasts() {
            self.check_held(now);
            if let Some(announcer) = &mut self.announcer
                && self.flows.has_held()
            {
                announcer.select_again();
            }
            self.flows.release_held(&mut self.sources);
        } else {
            while let Some(id) = self.flows.take_held() {
                self.enlist(id, now);
            }
        }
    }

    /// Puts the throttled flows whose wait has ended into the ring.
    #[inline(always)]
    fn release_throttled(&mut self, now: Time) {
        while let Some(id) = self.flows.take_released(now) {
            self.enlist(id, now);
        }
    }

    /// Generates the messages that are due.
    #[inline(always)]
    fn generate(&mut self, ctx: &mut Context) {
        let Some(mut live) = self.live.take() else {
            (0..self.drawing).for_each(|index| self.generate_from(ctx, index));
            return;
        };
        live.advance(ctx.now);
        live.indexes().iter().for_each(|&index| self.generate_from(ctx, index.into()));
        live.retain(&self.sources, ctx.now);
        self.live = Some(live);
    }

    #[inline(always)]
    fn generate_from(&mut self, ctx: &mut Context, index: usize) {
        while self.sources[index].wants_to_draw(ctx.now) {
            let message = self.sources[index].draw(ctx.now);
            let sender = self.sender_of(index, message.destination);
            self.add_message(ctx, sender, message);
        }
    }

    /// Adds a message from a rank of a job.
    pub fn feed(&mut self, ctx: &mut Context, source: u16, message: Message) {
        self.sources[usize::from(source)].backlog += 1;
        self.add_message(ctx, usize::from(source), message);
        self.wake(ctx);
    }

    /// Adds a message of the source `index` to its flow.
    #[inline]
    fn add_message(&mut self, ctx: &mut Context, index: usize, message: Message) {
        let flow = FlowAddress { host: self.id, source: index as u16, destination: message.destination };
        ctx.meters.generated(self.sources[index].class, flow, message.left, message.created);
        let of = self.flow_of(index as u16, message.destination);
        let id = of.flow;
        let messages = &mut self.flows.get_mut(id).messages;
        let is_first = messages.is_empty();
        messages.push(message);
        if self.adapter.is_some() {
            self.expect(index, &message);
        }
        if self.reactor.is_some() {
            self.note_message(ctx, of, message.left, is_first);
        }
        if !self.flows.is_queued(id) {
            self.enlist(id, ctx.now);
        }
    }

    /// Puts a flow with data to send into the ring, unless it must wait for its announcement or for the
    /// reaction.
    #[inline]
    fn enlist(&mut self, id: FlowId, now: Time) {
        if self.must_wait(id, now) {
            return;
        }
        // Flows that have been held precede the flow in the ring.
        self.flows.release_passed(&mut self.sources);
        let lasts = self.permission_lasts();
        let flow = self.flows.get_mut(id);
        flow.may_send = lasts;
        self.sources[usize::from(flow.source)].ready += 1;
        self.flows.make_ready(id);
    }

    /// Whether a flow must wait for its announcement or for the reaction. If so, adds it to the throttled or
    /// closed flows.
    #[inline]
    fn must_wait(&mut self, id: FlowId, now: Time) -> bool {
        if self.announcer.is_some() {
            match self.leave(id, now) {
                Leave::Go => {}
                Leave::At(time) => {
                    return self.makes_wait(id, RecordedWaitKind::Announcement, now, Some(time));
                }
                Leave::Wait => return self.makes_wait(id, RecordedWaitKind::Announcement, now, None),
            }
        }
        match self.may_send_at(id, now) {
            Some(time) if time <= now => false,
            Some(time) => self.makes_wait(id, RecordedWaitKind::Pace, now, Some(time)),
            None => self.makes_wait(id, RecordedWaitKind::Answer, now, None),
        }
    }

    /// Adds a flow to the throttled flows or, if the end of its wait is not known, to the closed ones. Returns true.
    #[inline]
    fn makes_wait(&mut self, id: FlowId, wait: RecordedWaitKind, now: Time, until: Option<Time>) -> bool {
        match until {
            Some(time) => self.flows.throttle(id, time),
            None => {
                self.flows.close(id);
                if self.has_more_to_settle
                    && let Some(destinations) = self.reactor.as_ref().and_then(Reactor::destinations)
                {
                    destinations.wait(id, self.out);
                }
            }
        }
        self.note_wait(id, wait, now, until);
        true
    }

    /// Schedules the next wake-up, not before the link is free and the injection limit permits sending. A
    /// host that lacks only credit needs no wake-up, because the return of credit wakes it.
    #[inline(always)]
    fn plan_wake(&mut self, ctx: &mut Context, attempt: Attempt) {
        let Some(next) = self.next_attempt(ctx, attempt) else { return };
        let wanted = match attempt {
            Attempt::Sent => true,
            Attempt::Blocked => false,
            Attempt::Idle => next > ctx.now,
        };
        debug_assert!(wanted || attempt == Attempt::Blocked, "an idle host has nothing to send now");
        if wanted {
            ctx.wake(self.out, next.max(ctx.free_at(self.out)).max(self.injection.free_at));
        }
    }

    /// The earliest time at which data may be ready to send; `None` if it is not known.
    fn next_attempt(&mut self, ctx: &Context, attempt: Attempt) -> Option<Time> {
        let waits = self.flows.ready() > 0 || self.flows.has_held() || !self.control.is_empty();
        if attempt == Attempt::Sent && waits {
            Some(ctx.now)
        } else {
            let release = self.flows.next_release();
            let draws = self.drawing().filter_map(|source| source.next_draw(ctx.now));
            let probe = self.announcer.as_ref().and_then(|announcer| announcer.next_probe());
            let start = self.live.as_ref().and_then(|live| live.next_start());
            draws.chain(start).chain(release).chain(probe).min()
        }
    }
}
