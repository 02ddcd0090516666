//! Hosts: they cut messages into packets and send them, and take packets in.
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
mod control;
mod flows;
mod hours;
mod index;
mod look;
mod send;
mod solo;

use std::collections::VecDeque;
use std::sync::Arc;

use silvan_engine::cache::prefetch_lines;
use silvan_engine::units::BytePace;
use silvan_engine::{Event, Time};

use crate::congestion::reaction::{ControlLevel, Rule, State};
use crate::congestion::{Coalescing, Notification};
use crate::context::Context;
use crate::limiter::Limiter;
use crate::link::{ChannelId, Class, key};
use crate::message::CreditReturn;
use crate::order::Order;
use crate::packet::{Kind, Packet, PacketId};
use crate::port::{Port, Vl};
use crate::routing::lanes::{LEVELS, Lanes};
use crate::traffic::source::{Clock, Message, Source};

pub(crate) use adapter::Adapter;
pub(crate) use announce::Announcer;
use announce::Leave;
use control::{Coalescer, Outbox};
use flows::{Flow, FlowId, FlowTable};
pub(crate) use hours::{Hours, Spent};

/// Sizes that all hosts share, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub mtu: u32,
    pub header: u32,
    pub control: u32,
    pub credit_block: u32,
}

impl Sizes {
    /// What a packet of this size occupies in a buffer.
    #[inline]
    pub fn space(self, size: u32) -> u32 {
        let block = self.credit_block;
        // A predictable branch is cheaper than a division.
        if block.is_power_of_two() { (size + block - 1) & !(block - 1) } else { size.div_ceil(block) * block }
    }
}

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
// In memory the fields lie in this order: first what a packet that arrives touches, then what
// sending does, last what only some networks need. A large network's hosts do not fit the cache,
// so it counts how many lines are touched.
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
    /// Virtual lane of control packets, if not that of what they answer.
    pub control_lane: Option<Vl>,
    pub notification: Notification,
    dirty: bool,
    pub sizes: Sizes,
    pub injection: Limiter,
    /// Those that draw, then those that ranks of jobs feed.
    pub sources: Vec<Source>,
    /// How many draw.
    drawing: usize,
    /// Whether one message is all that it ever has to send, and that message; see [`solo`].
    is_solo: bool,
    on_hand: Option<Message>,
    flows: FlowTable,
    /// Virtual lane per destination, where the service level does not decide it.
    pub lane_of: Option<Arc<[u8]>>,
    /// Service level and lane per destination, where paths have them.
    pub paths: Option<Arc<Paths>>,
    /// The output buffer, if there is one.
    pub adapter: Option<Box<Adapter>>,
    /// Flows that are announced before they start, if they are.
    announcer: Option<Box<Announcer>>,
    control: Outbox,
    /// Time per message besides its packets.
    pub message_overhead: Time,
    /// Flows with state at which idle ones are cleared away next.
    tidy_at: usize,
    pub reaction: Option<Rule>,
    /// Whether the second bit of an answer says who is to blame.
    validates: bool,
    /// Flows that were passed over for want of credit, while the host is being settled.
    kept: Vec<FlowId>,
    /// Flows that wait for something of their own (credits, room or leave for their destination)
    /// and hold up nobody meanwhile.
    held: Vec<FlowId>,
    /// Packets in the input buffer, when each of them will have been drained, and which of its flow it is.
    undrained: VecDeque<(Time, u64, Packet)>,
    /// How it spends its time, if a job wants to know.
    pub hours: Option<Box<Hours>>,
    /// Control state per service level, where that is the level of control.
    pub sl_states: Box<[State; 16]>,
    /// Where notification packets are coalesced.
    coalescer: Option<Box<Coalescer>>,
    /// The order of packets, where they may overtake each other.
    order: Option<Box<Order>>,
}

/// See [`Host::level`].
#[inline]
fn level(
    paths: &Option<Arc<Paths>>,
    (sources, source): (&[Source], u16),
    (me, destination): (u32, u32),
) -> u8 {
    match paths {
        None => sources[usize::from(source)].sl,
        Some(paths) => paths.lanes.levels.get(me as usize, destination as usize),
    }
}

/// Everything a host needs to know at construction.
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
    pub notification: Notification,
    pub coalescing: Option<Coalescing>,
    pub reaction: Option<Rule>,
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
        let mut sl_states = Box::new([State::default(); 16]);
        if let Some(rule) = &spec.reaction {
            (0..16).for_each(|sl| sl_states[usize::from(sl)] = rule.fresh(sl));
        }
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
            notification: spec.notification,
            reaction: spec.reaction,
            validates: spec.validates,
            lane_of: spec.lane_of,
            paths: spec.paths,
            adapter: spec.adapter,
            announcer: spec.announcer,
            sl_states,
            coalescer: spec.coalescing.map(|rule| Box::new(Coalescer::new(rule))),
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

    /// A packet arrives soon: has what it will touch brought into the cache.
    #[inline]
    pub fn prefetch_arrival(&self, ctx: &Context) {
        ctx.links.prefetch_lane(self.into, Vl::FIRST);
    }

    /// A packet may be sent soon: has what that will touch brought into the cache.
    #[inline]
    pub fn prefetch_wake(&self, ctx: &Context) {
        prefetch_lines::<_, 2>(&self.sources, 0);
        self.flows.prefetch();
        ctx.links.prefetch_lane(self.out, Vl::FIRST);
    }

    /// The service level of a source's packets for a destination.
    #[inline]
    pub(super) fn level(&self, source: u16, destination: u32) -> u8 {
        level(&self.paths, (&self.sources, source), (self.id, destination))
    }

    /// Asks to be settled at this instant.
    #[inline]
    pub fn wake(&mut self, ctx: &mut Context) {
        if !self.dirty {
            self.dirty = true;
            ctx.dirty_hosts.push(self.place);
        }
    }

    /// A wake-up: settles at once, unless it is done at the end of the instant anyway.
    #[inline]
    pub fn woken(&mut self, ctx: &mut Context) {
        if !self.dirty {
            self.settle(ctx);
        }
    }

    /// The first wake-up: when the earliest source starts.
    pub fn start(&mut self, ctx: &mut Context) {
        self.is_solo = self.is_solo() && !ctx.links.is_divided();
        self.drawing = self.sources.partition_point(|source| !matches!(source.clock, Clock::Fed));
        if let Some(due) = self.sources.iter().filter_map(Source::due).min() {
            ctx.wake(self.out, due);
        }
    }

    /// A source that waited for its trigger begins at a time from now on.
    pub fn begin(&mut self, ctx: &mut Context, source: u16, at: Time) {
        self.sources[usize::from(source)].next_at = at;
        self.wake(ctx);
    }

    /// A packet's tail is in.
    pub fn receive(&mut self, ctx: &mut Context, id: PacketId) {
        let (packet, number) = (ctx.packets[id], ctx.packets.number(id));
        ctx.packets.remove(id);
        let done = self.take_in(ctx, &packet);
        if packet.kind != Kind::Data {
            ctx.meters.control_delivered += 1;
        }
        match packet.kind {
            Kind::Data => {
                self.deliver(ctx, (number, &packet), done);
                self.acknowledge(ctx, &packet);
            }
            Kind::SetUp | Kind::Probe | Kind::TearDown => self.send_back(ctx, &packet),
            Kind::Reply => self.came_back(ctx, &packet),
            Kind::Cnp | Kind::Ack => self.heard(ctx, &packet),
        }
    }

    /// Takes a packet into the input buffer and returns its credit when it has been drained; returns when that is.
    /// With a binned scheduler, the output that sent the packet has done so.
    #[inline]
    fn take_in(&mut self, ctx: &mut Context, packet: &Packet) -> Time {
        if ctx.is_binned() {
            return ctx.now + packet.tail_lag;
        }
        let way = (self.into, packet.vl, packet.dst);
        ctx.landed(way, packet.space);
        let mut done = ctx.now;
        if packet.kind == Kind::Data {
            let head_at = ctx.now.saturating_sub(packet.tail_lag);
            done = self.drain.pass(head_at, packet.size).max(ctx.now);
            if self.order.is_none() {
                ctx.meters.check_order(packet, ctx.now);
            }
        }
        ctx.release(CreditReturn { way, space: packet.space, leaves_at: done });
        done
    }

    /// Counts a packet as delivered when the host has drained it, which may be later. An event is
    /// spent on that only if traffic waits for packets to be delivered.
    #[inline]
    fn deliver(&mut self, ctx: &mut Context, (number, packet): (u64, &Packet), done: Time) {
        let is_awaited = ctx.meters.is_awaited || ctx.meters.ends_message(packet);
        if self.order.is_none() && !is_awaited {
            ctx.meters.will_deliver(packet, (ctx.now, done));
            return;
        }
        self.count_drained(ctx);
        if done <= ctx.now {
            self.count(ctx, (number, packet), done);
            return;
        }
        self.undrained.push_back((done, number, *packet));
        // Any packet may let the last one of a message go that has come before it.
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
        while let Some(&(done, number, packet)) = self.undrained.front()
            && done <= ctx.now
        {
            self.undrained.pop_front();
            self.count(ctx, (number, &packet), done);
        }
    }

    /// Counts a packet that has been drained, unless an earlier one of its flow is to be delivered before.
    #[inline]
    fn count(&mut self, ctx: &mut Context, (number, packet): (u64, &Packet), done: Time) {
        match &mut self.order {
            None => ctx.meters.delivered(packet, done),
            Some(order) => order.deliver(&mut ctx.meters, (number, packet), done),
        }
    }

    /// Clears away flows that need no state any more, when there are many.
    #[inline]
    fn tidy(&mut self, now: Time) {
        let Some(rule) = &self.reaction else { return };
        if self.flows.len() > self.tidy_at {
            let (sources, paths, me) = (&self.sources, &self.paths, self.id);
            let level = |flow: &Flow| level(paths, (sources, flow.source), (me, flow.destination));
            self.flows.forget_fresh(|flow| rule.is_fresh(&flow.control, level(flow), now));
            self.tidy_at = (2 * self.flows.len()).max(64);
        }
    }

    /// When a flow may send its next packet; none if that depends on an acknowledgement.
    #[inline]
    fn eligible_at(&self, id: FlowId, now: Time) -> Option<Time> {
        let Some(rule) = &self.reaction else { return Some(now) };
        let flow = self.flows.get(id);
        let sl = self.level(flow.source, flow.destination);
        match rule.level() {
            ControlLevel::Qp => rule.eligible_at(&flow.control, sl, now),
            ControlLevel::Sl => rule.eligible_at(&self.sl_states[usize::from(sl)], sl, now),
        }
    }

    /// Sends what may be sent at this instant, and sees to it that the host is asked again.
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
                // The credit announces itself; nothing can be sent before.
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

    /// Draws what is due and sends a packet, if any may go.
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
            // In place of those that are held or were just found to be throttled, sources may draw
            // others, and want to now.
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

    /// Takes a message that a rank of a job hands over.
    pub fn feed(&mut self, ctx: &mut Context, source: u16, message: Message) {
        self.sources[usize::from(source)].backlog += 1;
        self.add_message(ctx, usize::from(source), message);
        self.wake(ctx);
    }

    /// Gives a message to its flow.
    #[inline]
    fn add_message(&mut self, ctx: &mut Context, index: usize, message: Message) {
        ctx.meters.generated(self.sources[index].class, message.left);
        let sl = self.level(index as u16, message.destination);
        let reaction = self.reaction.as_ref();
        let fresh = || reaction.map_or_else(State::default, |rule| rule.fresh(sl));
        let id = self.flows.entry(index as u16, message.destination, fresh);
        let flow = self.flows.get_mut(id);
        if let (Some(rule), true) = (reaction, flow.messages.is_empty()) {
            rule.restarted(&mut flow.control);
        }
        flow.messages.push(message);
        if !self.flows.is_queued(id) {
            self.enlist(id, ctx.now);
        }
    }

    /// Puts a flow with something to send into the ring, or lets it wait for its delay or window.
    #[inline]
    fn enlist(&mut self, id: FlowId, now: Time) {
        if self.must_wait(id, now) {
            return;
        }
        // What a flow's own control has let go, it holds back again only after an answer.
        let is_own = self.reaction.as_ref().is_none_or(|rule| rule.level() == ControlLevel::Qp);
        let flow = self.flows.get_mut(id);
        flow.may_send = is_own && self.announcer.is_none();
        self.sources[usize::from(flow.source)].ready += 1;
        self.flows.make_ready(id);
    }

    /// Whether the reaction holds a flow back now; sees to it that it is asked again.
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
        match self.eligible_at(id, now) {
            Some(time) if time <= now => return false,
            Some(time) => self.flows.throttle(id, time),
            None => self.flows.close(id),
        }
        true
    }

    /// The next time to look again: at once if something is ready, else when a flow is released
    /// or a message is due. A host that only lacks credits needs no wake-up: they announce
    /// themselves.
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

    /// When something may be there to be sent.
    fn next_attempt(&mut self, ctx: &Context, attempt: Attempt) -> Option<Time> {
        // Those that were held while another was sent may have lost what they waited for to that one.
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
