//! Hosts: they cut messages into packets, send them, and receive packets.
//!
//! ```text
//!  sources -> flows (one queue per destination) -> round robin -> link
//!                     control packets first     ->
//!  link -> input buffer -> drain
//! ```
//!
//! No flow blocks another inside a host. The injection limit spaces the starts of data packets,
//! the drain limit paces the freeing of the input buffer; both stand for a host bus slower than
//! the link (Paper IV, V.A).

mod adapter;
mod announce;
mod flows;
mod hours;
mod index;
mod look;
mod outbox;
mod react;
mod respond;
mod send;
mod sink;
mod sizes;
mod solo;
mod timers;

use std::collections::VecDeque;
use std::sync::Arc;

use silvan_engine::Time;
use silvan_engine::cache::prefetch_lines;
use silvan_engine::units::BytePace;

use crate::congestion::reaction::{ControlLevel, Reactor};
use crate::congestion::receiver::{Replies, Responder};
use crate::context::Context;
use crate::limiter::Limiter;
use crate::link::ChannelId;
use crate::order::Order;
use crate::port::Vl;
use crate::routing::lanes::{LEVELS, Lanes};
use crate::traffic::source::{Clock, Message, Source};

pub(crate) use adapter::Adapter;
pub(crate) use announce::Announcer;
use announce::Leave;
use flows::{FlowId, FlowTable};
pub(crate) use hours::{Hours, Spent};
use outbox::Outbox;
use sink::Undrained;
pub(crate) use sizes::Sizes;
use timers::Timers;

/// How an attempt to send ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// A packet is on its way.
    Sent,
    /// Credits are missing on every virtual lane.
    Blocked,
    /// Nothing may be sent now.
    Idle,
}

/// See the module.
// The order of the fields in memory: first those that the arrival of a packet touches, then those of sending, last
// those that only some networks need. The hosts of a large network do not fit the cache, so the number of cache lines
// touched matters.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Host {
    pub drain: Limiter,
    /// Its index among the hosts.
    pub id: u32,
    /// Its index among those of its partition.
    pub place: u32,
    /// The channel it sends on.
    pub out: ChannelId,
    /// The channel it receives from.
    pub into: ChannelId,
    pub lanes: u8,
    /// Virtual lane of control packets, if it is not the lane of the packets that they answer.
    pub control_lane: Option<Vl>,
    /// Whether the receiver needs data packets without a mark as well.
    answers_unmarked: bool,
    dirty: bool,
    pub sizes: Sizes,
    pub injection: Limiter,
    /// Sources that draw messages, then those that ranks of jobs feed.
    pub sources: Vec<Source>,
    /// Number of sources that draw.
    drawing: usize,
    /// Whether the host never has more than one message to send, and that message; see [`solo`].
    is_solo: bool,
    on_hand: Option<Message>,
    flows: FlowTable,
    /// Virtual lane per destination, where the service level does not decide it.
    pub lane_of: Option<Arc<[u8]>>,
    /// Service level and lane per destination, where paths have them.
    pub paths: Option<Arc<Paths>>,
    /// The output buffer, if there is one.
    pub adapter: Option<Box<Adapter>>,
    /// Announces flows before they start, if they are announced.
    announcer: Option<Box<Announcer>>,
    control: Outbox,
    /// Time per message in addition to that of its packets.
    pub message_overhead: Time,
    /// Number of flows with state at which idle flows are dropped next.
    tidy_at: usize,
    /// The reaction to answers, with the states of the flows.
    pub reactor: Option<Reactor>,
    /// Whether answers carry a validation bit.
    validates: bool,
    /// Flows that were skipped because they lack credit, while the host is being settled.
    kept: Vec<FlowId>,
    /// Flows that wait for a resource of their own (credit, room or permission for their destination)
    /// and block no other flow meanwhile.
    held: Vec<FlowId>,
    /// Packets in the input buffer.
    undrained: VecDeque<Undrained>,
    /// How the host spends its time, if a job needs that.
    pub hours: Option<Box<Hours>>,
    /// Answers the data packets that arrive.
    responder: Responder,
    /// What the receiver wants to send; empty between calls.
    replies: Replies,
    /// Timers of the reaction and of the receiver, once one of them wants some.
    timers: Option<Box<Timers>>,
    /// The order of packets, where they may overtake each other.
    order: Option<Box<Order>>,
}

/// See [`Host::level`].
#[inline]
fn level(paths: &Option<Arc<Paths>>, sources: &[Source], source: u16, me: u32, destination: u32) -> u8 {
    match paths {
        None => sources[usize::from(source)].sl,
        Some(paths) => paths.lanes.levels.get(me as usize, destination as usize),
    }
}

/// What a host is made from.
#[derive(Debug)]
pub(crate) struct HostSpec {
    pub id: u32,
    pub out: ChannelId,
    pub into: ChannelId,
    pub injection: BytePace,
    pub drain: BytePace,
    pub message_overhead: Time,
    pub sizes: Sizes,
    pub lanes: u8,
    pub control_lane: Option<Vl>,
    pub responder: Responder,
    pub reactor: Option<Reactor>,
    pub validates: bool,
    pub lane_of: Option<Arc<[u8]>>,
    pub paths: Option<Arc<Paths>>,
    pub adapter: Option<Box<Adapter>>,
    pub announcer: Option<Box<Announcer>>,
    pub order: Option<Box<Order>>,
}

/// Service levels of paths, and the lane of each level on hosts' links.
#[derive(Debug)]
pub(crate) struct Paths {
    pub lanes: Arc<Lanes>,
    pub of_level: [u8; LEVELS],
}

impl Host {
    pub fn new(spec: HostSpec) -> Self {
        Self {
            id: spec.id,
            place: spec.id,
            out: spec.out,
            into: spec.into,
            injection: Limiter::new(spec.injection),
            drain: Limiter::new(spec.drain),
            message_overhead: spec.message_overhead,
            sizes: spec.sizes,
            lanes: spec.lanes,
            control_lane: spec.control_lane,
            sources: Vec::new(),
            drawing: 0,
            is_solo: false,
            on_hand: None,
            answers_unmarked: spec.responder.watches_unmarked(),
            reactor: spec.reactor,
            responder: spec.responder,
            replies: Replies::default(),
            timers: None,
            validates: spec.validates,
            lane_of: spec.lane_of,
            paths: spec.paths,
            adapter: spec.adapter,
            announcer: spec.announcer,
            control: Outbox::new(spec.lanes),
            flows: FlowTable::default(),
            kept: Vec::new(),
            held: Vec::new(),
            undrained: VecDeque::new(),
            dirty: false,
            order: spec.order,
            hours: None,
            tidy_at: 64,
        }
    }

    /// Prefetches what a packet that arrives soon will touch.
    #[inline]
    pub fn prefetch_arrival(&self, ctx: &Context) {
        ctx.links.prefetch_lane(self.into, Vl::FIRST);
    }

    /// Prefetches what sending a packet will touch.
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

    /// Requests [`Self::settle`] at the end of this instant.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Context) {
        if !self.dirty {
            self.dirty = true;
            ctx.dirty_hosts.push(self.place);
        }
    }

    /// The host is woken: it settles at once, unless that happens at the end of the instant anyway.
    #[inline]
    pub fn woken(&mut self, ctx: &mut Context) {
        if !self.dirty {
            self.settle(ctx);
        }
    }

    /// Plans the first wake-up, when the earliest source starts.
    pub fn start(&mut self, ctx: &mut Context) {
        self.is_solo = self.is_solo() && !ctx.links.is_divided();
        self.drawing = self.sources.partition_point(|source| !matches!(source.clock, Clock::Fed));
        if let Some(due) = self.sources.iter().filter_map(Source::due).min() {
            ctx.wake(self.out, due);
        }
    }

    /// A source that waited for its trigger begins at time `at`.
    pub fn begin(&mut self, ctx: &mut Context, source: u16, at: Time) {
        self.sources[usize::from(source)].next_at = at;
        self.wake(ctx);
    }

    /// Sends what may be sent at this instant, and plans the next wake-up.
    pub fn settle(&mut self, ctx: &mut Context) {
        self.dirty = false;
        self.look(ctx);
        if self.hours.is_some() {
            self.note_hours(ctx);
        }
    }

    fn look(&mut self, ctx: &mut Context) {
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
        // A lane on which a control packet waits for credit carries no data before it.
        let mut blocked_lanes = 0;
        if !self.control.is_empty() {
            if self.send_control(ctx, &mut blocked_lanes) {
                ctx.wake(self.out, ctx.free_at(self.out));
                return;
            }
            if blocked_lanes.count_ones() >= u32::from(self.lanes) {
                // A credit return wakes the host; nothing can be sent until then.
                return;
            }
        }
        if self.injection.free_at > ctx.now {
            ctx.wake(self.out, self.injection.free_at);
            return;
        }
        if self.is_solo {
            return self.settle_solo(ctx, blocked_lanes);
        }
        let attempt = self.draw_and_send(ctx, blocked_lanes);
        // Flows that were drawn just now may have been announced.
        if attempt != Attempt::Sent && self.send_control(ctx, &mut blocked_lanes) {
            ctx.wake(self.out, ctx.free_at(self.out));
            return;
        }
        self.plan_wake(ctx, attempt);
    }

    /// The sources that draw messages.
    #[inline]
    fn drawing(&self) -> impl Iterator<Item = &Source> {
        self.sources[..self.drawing].iter()
    }

    /// Draws the messages that are due and sends a packet, if one may be sent.
    fn draw_and_send(&mut self, ctx: &mut Context, blocked_lanes: u16) -> Attempt {
        for at in 0..self.held.len() {
            self.enlist(self.held[at], ctx.now);
        }
        self.held.clear();
        loop {
            self.generate(ctx);
            while let Some(id) = self.flows.take_released(ctx.now) {
                self.enlist(id, ctx.now);
            }
            let attempt = self.send_data(ctx, blocked_lanes);
            // Sources may draw other messages instead of those that are held or were just throttled.
            if attempt != Attempt::Idle || !self.drawing().any(|source| source.wants_to_draw(ctx.now)) {
                return attempt;
            }
        }
    }

    /// Draws the messages that are due.
    fn generate(&mut self, ctx: &mut Context) {
        let now = ctx.now;
        for index in 0..self.drawing {
            while self.sources[index].wants_to_draw(now) {
                let message = self.sources[index].draw(now);
                self.add_message(ctx, index, message);
            }
        }
    }

    /// Adds a message of a rank of a job.
    pub fn feed(&mut self, ctx: &mut Context, source: u16, message: Message) {
        self.sources[usize::from(source)].backlog += 1;
        self.add_message(ctx, usize::from(source), message);
        self.wake(ctx);
    }

    /// Adds a message to its flow.
    #[inline]
    fn add_message(&mut self, ctx: &mut Context, index: usize, message: Message) {
        ctx.meters.generated(self.sources[index].class, message.left);
        let of = self.flow_of(index as u16, message.destination);
        let id = of.flow;
        let is_first = self.flows.get(id).messages.is_empty();
        self.flows.get_mut(id).messages.push(message);
        if self.reactor.is_some() {
            self.note_message(ctx, of, message.left, is_first);
        }
        if !self.flows.is_queued(id) {
            self.enlist(id, ctx.now);
        }
    }

    /// Puts a flow with something to send into the ring, or makes it wait for the reaction.
    #[inline]
    fn enlist(&mut self, id: FlowId, now: Time) {
        if self.must_wait(id, now) {
            return;
        }
        // If state belongs to flows, a flow that may send keeps that until an answer arrives.
        let is_own = self.reactor.as_ref().is_none_or(|reactor| reactor.level() == ControlLevel::Qp);
        let flow = self.flows.get_mut(id);
        flow.may_send = is_own && self.announcer.is_none();
        self.sources[usize::from(flow.source)].ready += 1;
        self.flows.make_ready(id);
    }

    /// Whether a flow must wait for its announcement or its reaction; plans when it is tried again.
    #[inline]
    fn must_wait(&mut self, id: FlowId, now: Time) -> bool {
        if self.announcer.is_some() {
            match self.leave(id, now) {
                Leave::Go => {}
                Leave::At(time) => {
                    self.flows.throttle(id, time);
                    return true;
                }
                Leave::Wait => {
                    self.flows.close(id);
                    return true;
                }
            }
        }
        match self.may_send_at(id, now) {
            Some(time) if time <= now => return false,
            Some(time) => self.flows.throttle(id, time),
            None => self.flows.close(id),
        }
        true
    }

    /// Plans the next wake-up: at once if something is ready, else when a flow is released or a message is due. A
    /// host that only lacks credit needs none: a credit return wakes it.
    fn plan_wake(&mut self, ctx: &mut Context, attempt: Attempt) {
        let Some(next) = self.next_attempt(ctx, attempt) else { return };
        let wanted = match attempt {
            Attempt::Sent => true,
            Attempt::Blocked => false,
            Attempt::Idle => next > ctx.now,
        };
        debug_assert!(wanted || attempt == Attempt::Blocked, "what may be sent now has been tried");
        if wanted {
            ctx.wake(self.out, next.max(ctx.free_at(self.out)).max(self.injection.free_at));
        }
    }

    /// The earliest time at which something may be ready to send.
    fn next_attempt(&mut self, ctx: &Context, attempt: Attempt) -> Option<Time> {
        // A flow that was held while another one was sent may have lost its resource to that one.
        let waits = self.flows.ready() > 0 || !self.held.is_empty() || !self.control.is_empty();
        if attempt == Attempt::Sent && waits {
            Some(ctx.now)
        } else {
            let release = self.flows.next_release();
            let draws = self.drawing().filter_map(|source| source.next_draw(ctx.now));
            let probe = self.announcer.as_ref().and_then(|announcer| announcer.next_probe());
            draws.chain(release).chain(probe).min()
        }
    }
}
