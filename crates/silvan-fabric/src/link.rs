//! Links. All communication between nodes takes place through links.
//!
//! A full-duplex link consists of two [`Channel`]s. A channel carries packets in one direction and their credits in the
//! other, both with the link's delay. The channel stores returning credit until the sender reads it, so a credit needs
//! an event only if the sender waits for it.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_engine::units::BytePace;
use silvan_engine::{Event, EventQueue, Rate, Time};
use silvan_network::port::{Port, Vl};

use crate::not_binned::NotBinned;
use crate::packet::{NO_LEDGER, Packet, PacketId};

mod control;
mod divided;
mod faults;
mod frames;
mod key;
mod ledger;
mod observe;
mod retry;
mod returns;
mod rules;
mod shared;
mod wake;

use divided::Divided;
use faults::Faults;
use retry::SentFrame;

pub(crate) use control::{Overflow, ReceiverControl, Signal, SignalCheck};
pub(crate) use faults::{Change, Effect, HostPaces, LinkState, LossCounts, What};
pub(crate) use frames::{
    FrameSpec, Frames, LaneRoom, OverlongPause, Paused, ReceiverSpec, Rule, Stage, SwitchMemory,
};
pub(crate) use key::{Class, EventKey, MAX_NODES, MAX_PORTS, key, unkey};
pub(crate) use ledger::{Balance, Ledger, LedgerView};
pub(crate) use retry::{Replay, Retries, Retry, RetrySpec};
pub(crate) use returns::{Returns, Spills};
pub(crate) use rules::{Control, CreditRules, ReturnClock, owner};
pub(crate) use shared::{CreditPool, Limit, Shared};

/// Index into [`Links::channels`].
pub(crate) type ChannelId = u32;

/// The region capacity of channels whose receivers send pause frames.
pub(crate) const UNLIMITED: u32 = 1 << 30;

/// The channel, virtual lane and destination of a packet, which determine the required credit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(crate) struct CreditWay {
    pub channel: ChannelId,
    pub vl: Vl,
    pub dst: u32,
}

/// The switch and the input at the receiving end of a channel; `None` for a host.
pub(crate) type Receiver = Option<(u32, Port)>;

/// The mutable state of the sending side of one direction of a link. Occupies half a cache line.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(align(32))]
pub(crate) struct Channel {
    /// The time at which the last bit of the previous packet has left the sender; `Time::NEVER` while the
    /// sender may not send.
    #[saved(past)]
    pub free_at: Time,
    /// The earliest time for which the sender has requested a wake-up, or `Time::NEVER`.
    wake_at: Time,
    /// Data and control bytes on the wire sent so far.
    #[saved(count)]
    pub sent_bytes: u64,
    arrival_key: u32,
    wake_key: u32,
}

const _: () = assert!(size_of::<Channel>() == 32);

/// Credits of one virtual lane of a channel, in bytes. Occupies one cache line.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(align(64))]
struct Lane {
    available: u32,
    /// The amount of credit for which the sender waits; zero if it does not wait.
    wanted: u32,
    returns: Returns,
}

const _: () = assert!(size_of::<Lane>() == 64);

impl Lane {
    fn new(capacity: u32) -> Self {
        Self { available: capacity, wanted: 0, returns: Returns::default() }
    }
}

/// Rate and delays, shared by many channels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkParameters {
    pub rate: Rate,
    pub pace: BytePace,
    /// Propagation delay.
    pub delay: Time,
    /// The propagation delay plus the latency of a switch: the time from the start of a packet until its head is ready
    /// for arbitration.
    pub head_delay: Time,
    to_host: bool,
    /// Whether the receiver is a store-and-forward switch.
    pub to_storing: bool,
    /// The size of the last packet and its transmission time, because most packets have the same size, and computing
    /// the time may require a division.
    memo: (u32, Time),
}

impl LinkParameters {
    /// The transmission time of a packet of this size.
    #[inline(always)]
    pub fn span(&mut self, bytes: u32) -> Time {
        if self.pace.is_whole() {
            return self.pace.time(bytes);
        }
        if self.memo.0 != bytes {
            self.memo = (bytes, self.pace.time(bytes));
        }
        self.memo.1
    }

    /// The time from the start of a packet that is transmitted in `span` until its arrival event. At a cut-through switch,
    /// its head is then ready for arbitration; at a store-and-forward switch, its tail is; at a host, its tail has arrived.
    #[inline(always)]
    pub fn until_arrival(&self, span: Time) -> Time {
        match (self.to_host, self.to_storing) {
            (true, _) => span + self.delay,
            (false, true) => span + self.head_delay,
            (false, false) => self.head_delay,
        }
    }
}

/// Divides a virtual lane's share of a receive buffer into regions with separate credits. The region of a
/// packet follows from the receiver's forwarding table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BufferDivision {
    /// A single region.
    Whole,
    /// The region of each destination, and the number of regions.
    Table(Arc<[u16]>, u32),
    /// One region per destination, created at its first use.
    PerDestination,
}

/// The properties of a channel at construction.
#[derive(Debug, Clone)]
pub(crate) struct ChannelSpec {
    pub rate: Rate,
    pub delay: Time,
    pub receiver_latency: Time,
    pub to_host: bool,
    /// Whether the receiver is a store-and-forward switch.
    pub to_storing: bool,
    pub arrival_key: u32,
    pub wake_key: u32,
    /// Bytes of the receive buffer per region of a virtual lane.
    pub region_capacity: u32,
    pub division: BufferDivision,
}

/// All channels of the network.
#[derive(Debug, Default, Clone, Saved)]
pub(crate) struct Links {
    channels: Vec<Channel>,
    /// Index into `parameters` per channel.
    parameters_of: Vec<u16>,
    #[saved(constant)]
    parameters: Vec<LinkParameters>,
    lanes: Vec<Lane>,
    /// For each lane whose sender waits for credit: the time at which the credit arrives, if known.
    ready: Vec<Time>,
    /// Returning credits that do not fit into the storage of their lane.
    spills: Spills,
    /// Receive buffer per lane, in bytes.
    capacities: Vec<u32>,
    #[saved(constant)]
    lane_count: usize,
    /// Present if receive buffers are divided.
    divided: Option<Box<Divided>>,
    /// Present with pause frames and on/off messages, and with credits if more than the ledgers determines
    /// whether a packet may start.
    control: Option<Box<Control>>,
    /// Present if links or hosts change during the run, or if receivers may drop packets.
    faults: Option<Box<Faults>>,
    /// Number of packets that crossed a link, once per link.
    #[saved(count)]
    pub packet_hops: u64,
}

impl Links {
    /// # Errors
    /// Returns an error message if the links have too many different parameters.
    pub fn new(specs: &[ChannelSpec], lane_count: u8) -> Result<Self, String> {
        let lane_count = usize::from(lane_count);
        let mut parameters: Vec<LinkParameters> = Vec::new();
        let mut known = FxHashMap::default();
        let mut parameters_of = Vec::with_capacity(specs.len());
        for spec in specs {
            let index =
                *known.entry((spec.rate.0, spec.delay, spec.to_host, spec.to_storing)).or_insert_with(|| {
                    parameters.push(LinkParameters {
                        rate: spec.rate,
                        pace: spec.rate.pace(),
                        delay: spec.delay,
                        head_delay: spec.delay + spec.receiver_latency,
                        to_host: spec.to_host,
                        to_storing: spec.to_storing,
                        memo: (0, Time::ZERO),
                    });
                    parameters.len() - 1
                });
            let index = u16::try_from(index);
            parameters_of.push(
                index.map_err(|_| "links have more than 65536 different combinations of rate and delay")?,
            );
        }
        let channels = specs
            .iter()
            .map(|spec| Channel {
                free_at: Time::ZERO,
                wake_at: Time::NEVER,
                sent_bytes: 0,
                arrival_key: spec.arrival_key,
                wake_key: spec.wake_key,
            })
            .collect();
        let mut divided = Divided::default();
        let mut capacities: Vec<u32> = Vec::new();
        for spec in specs {
            let parts = match &spec.division {
                BufferDivision::Whole => 1,
                BufferDivision::Table(_, parts) => *parts as usize,
                BufferDivision::PerDestination => 0,
            };
            divided.first.push(capacities.len() as u32);
            divided.capacities.push(spec.region_capacity);
            divided.divisions.push(spec.division.clone());
            capacities.extend(std::iter::repeat_n(spec.region_capacity, parts * lane_count));
        }
        let is_divided = divided.divisions.iter().any(|division| *division != BufferDivision::Whole);
        divided.ready(specs.len(), lane_count, capacities.len());
        Ok(Self {
            channels,
            parameters_of,
            parameters,
            lanes: capacities.iter().map(|&capacity| Lane::new(capacity)).collect(),
            ready: vec![Time::NEVER; capacities.len()],
            spills: Vec::new(),
            capacities,
            lane_count,
            divided: is_divided.then(|| Box::new(divided)),
            control: None,
            faults: None,
            packet_hops: 0,
        })
    }

    #[inline]
    pub fn channel(&self, id: ChannelId) -> &Channel {
        &self.channels[id as usize]
    }

    #[inline]
    fn parameters(&self, id: ChannelId) -> &LinkParameters {
        &self.parameters[usize::from(self.parameters_of[id as usize])]
    }

    /// Checks that each lane of a channel has one ledger, or none because receivers stop their senders by frames, and that
    /// nothing else determines whether a packet may start.
    ///
    /// # Errors
    /// What else determines it.
    pub fn has_ledgers_of_lanes(&self) -> Result<(), NotBinned> {
        match self.control.as_deref() {
            _ if self.divided.is_some() => Err(NotBinned::DividedBuffers),
            Some(Control::Credits(CreditRules { retry: Some(_), .. })) => Err(NotBinned::Retry),
            Some(Control::Credits(CreditRules { shared: Some(_), .. })) => Err(NotBinned::SharedCredits),
            _ => self.by_messages().map_or(Ok(()), ReceiverControl::has_bins),
        }
    }

    /// Adds rules of credits. Receivers must give credits.
    pub fn set_credit_rules(&mut self, rules: CreditRules) {
        debug_assert!(self.control.is_none(), "receivers give credits");
        if !rules.is_empty() {
            self.control = Some(Box::new(Control::Credits(rules)));
        }
    }

    /// The rules of credits beyond the ledgers, if there are any.
    #[inline]
    pub fn rules(&self) -> Option<&CreditRules> {
        if let Some(Control::Credits(rules)) = self.control.as_deref() { Some(rules) } else { None }
    }

    /// See [`Self::rules`].
    #[inline]
    fn rules_mut(&mut self) -> Option<&mut CreditRules> {
        if let Some(Control::Credits(rules)) = self.control.as_deref_mut() { Some(rules) } else { None }
    }

    /// The times at which receivers return credits, if they do so at certain times only.
    pub fn clock(&self) -> Option<&ReturnClock> {
        self.rules()?.clock.as_ref()
    }

    /// Adds flow control by messages. The region capacity of the channels must be [`UNLIMITED`]: the receiver
    /// of a channel, not the sender, counts what its buffer holds.
    pub fn set_control(&mut self, control: Control) {
        debug_assert!(control.by_messages().is_some(), "credits have rules");
        self.control = Some(Box::new(control));
    }

    /// Whether receivers count what their buffers hold, and send messages that determine what senders may
    /// start.
    #[inline(always)]
    pub fn has_messages(&self) -> bool {
        self.by_messages().is_some()
    }

    /// The flow control by messages; `None` with credits.
    #[inline(always)]
    pub fn by_messages(&self) -> Option<&dyn ReceiverControl> {
        self.control.as_deref()?.by_messages()
    }

    /// See [`Self::by_messages`].
    #[inline(always)]
    pub fn by_messages_mut(&mut self) -> Option<&mut dyn ReceiverControl> {
        self.control.as_deref_mut()?.by_messages_mut()
    }

    /// The state of pause frames, if there are any.
    pub fn frames(&self) -> Option<&Frames> {
        if let Some(Control::Frames(frames)) = self.control.as_deref() { Some(frames) } else { None }
    }

    /// See [`Self::frames`].
    pub fn frames_mut(&mut self) -> Option<&mut Frames> {
        if let Some(Control::Frames(frames)) = self.control.as_deref_mut() { Some(frames) } else { None }
    }

    /// The state of link-level retry, if there is any.
    #[inline]
    pub fn retry(&self) -> Option<&Retry> {
        self.rules()?.retry.as_deref()
    }

    /// See [`Self::retry`].
    #[inline]
    pub fn retry_mut(&mut self) -> Option<&mut Retry> {
        self.rules_mut()?.retry.as_deref_mut()
    }

    /// The times of a frame of `size` bytes that starts on a channel now.
    fn sending(&self, channel: ChannelId, size: u32, now: Time, ack_spacing: u32) -> SentFrame {
        let link = self.parameters(channel);
        let tail = now + link.pace.time(size) + link.delay;
        SentFrame { now, tail, delay: link.delay, ack_spacing: link.pace.time(ack_spacing) }
    }

    /// With link-level retry, adds a packet that has just started to the replay buffer. Returns whether the
    /// receiver accepts the packet, which is always the case without retry.
    pub fn first_try(&mut self, channel: ChannelId, packet: PacketId, size: u32, now: Time) -> bool {
        let Some(ack_spacing) = self.retry().map(Retry::ack_spacing) else { return true };
        let sending = self.sending(channel, size, now, ack_spacing);
        self.retry_mut().is_none_or(|retry| retry.send(channel, (packet, size), sending))
    }

    /// Sends a frame again. The channel must be free. Returns the event of its arrival if the receiver accepts it.
    pub fn send_again(&mut self, channel: ChannelId, replay: Replay, now: Time) -> Option<Event> {
        let ack_spacing = self.retry()?.ack_spacing();
        let sending = self.sending(channel, replay.size, now, ack_spacing);
        let link = self.parameters(channel);
        let span = link.pace.time(replay.size);
        let time = now + link.until_arrival(span);
        let wire = &mut self.channels[channel as usize];
        debug_assert!(wire.free_at <= now, "a channel sends one frame at a time");
        wire.free_at = now + span;
        wire.sent_bytes += u64::from(replay.size);
        let key = wire.arrival_key;
        let is_accepted = self.retry_mut()?.replay(channel, replay, sending);
        is_accepted.then_some(Event { time, key, data: replay.packet })
    }

    /// Wakes the sender of a channel at this instant if packets wait, because it may start frames again.
    pub fn reopen(&mut self, channel: ChannelId, now: Time, queue: &mut EventQueue) {
        let lanes = (0..self.lane_count as u8).flat_map(|vl| self.ledgers(channel, Vl(vl)));
        let waiting: Vec<usize> = lanes.filter(|&index| self.lanes[index].wanted > 0).collect();
        for index in waiting {
            self.wake_for_credit(channel, index, now, queue);
        }
    }

    /// Puts a message of flow control for the sender of a channel on the wire of the other direction, which
    /// must be free unless messages take no space. Returns the time at which the message takes effect; `None`
    /// with credits.
    pub fn send_signal(&mut self, channel: ChannelId, now: Time) -> Option<Time> {
        let control = self.by_messages()?;
        let (reverse, bytes, response) = (control.reverse(channel), control.bytes(), control.response());
        if bytes == 0 {
            return Some(now + self.delay(channel) + response);
        }
        let link = self.parameters(reverse);
        let (end, delay) = (now + link.pace.time(bytes), link.delay);
        let wire = &mut self.channels[reverse as usize];
        debug_assert!(wire.free_at <= now, "a channel sends one message at a time");
        wire.free_at = end;
        wire.sent_bytes += u64::from(bytes);
        Some(end + delay + response)
    }

    /// Applies a message of flow control at the sender of a channel. Wakes the sender if packets wait for a
    /// lane that the message opens. Returns `false` with credits, which have no such messages.
    pub fn obey(&mut self, channel: ChannelId, signal: Signal, now: Time, queue: &mut EventQueue) -> bool {
        let Some(control) = self.by_messages_mut() else { return false };
        let opened = control.obey(channel, signal, now);
        for vl in (0..self.lane_count).filter(|vl| opened >> vl & 1 != 0) {
            let index = self.of_vl(channel, Vl::new(vl));
            if self.lanes[index].wanted > 0 {
                self.wake_for_credit(channel, index, now, queue);
            }
        }
        true
    }

    /// The switch that sends on a channel, by its place, and the output; `None` for a host.
    pub fn sending_switch(&self, channel: ChannelId) -> Option<(u32, Port)> {
        let EventKey { class, node, port } = unkey(self.channels[channel as usize].wake_key);
        (class == Class::SwitchWake).then_some((node, port))
    }

    /// Changes the numbers by which events identify the nodes at the two ends of a channel.
    pub fn renumber(&mut self, id: ChannelId, sender: u32, receiver: u32) {
        let channel = &mut self.channels[id as usize];
        for (known, node) in [(&mut channel.wake_key, sender), (&mut channel.arrival_key, receiver)] {
            let EventKey { class, port, .. } = unkey(*known);
            *known = key(class, node, port);
        }
    }

    /// The parameters of all links, without duplicates.
    pub fn all_parameters(&self) -> &[LinkParameters] {
        &self.parameters
    }

    /// Index of a channel's link in [`Self::all_parameters`].
    #[inline]
    pub fn parameters_index(&self, id: ChannelId) -> usize {
        usize::from(self.parameters_of[id as usize])
    }

    /// The size of the receive buffer of an undivided virtual lane, in bytes.
    pub fn capacity(&self, id: ChannelId, vl: Vl) -> u32 {
        self.capacities[self.of_vl(id, vl)]
    }

    /// The propagation delay of a channel.
    #[inline]
    pub fn delay(&self, id: ChannelId) -> Time {
        self.parameters(id).delay
    }

    /// The time until a packet without length has arrived at the end of a channel, and whether packets arrive with their
    /// tails.
    pub fn arrival_delay(&self, id: ChannelId) -> (Time, bool) {
        let link = self.parameters(id);
        (link.until_arrival(Time::ZERO), link.to_host || link.to_storing)
    }

    /// A channel's data rate.
    pub fn rate(&self, id: ChannelId) -> Rate {
        self.parameters(id).rate
    }

    /// Index into arrays with one entry per virtual lane of each channel.
    #[inline(always)]
    fn of_vl(&self, channel: ChannelId, vl: Vl) -> usize {
        channel as usize * self.lane_count + vl.index()
    }

    /// Index of the lane whose credit a packet needs. The lane of a destination is created if it does not exist.
    #[inline(always)]
    fn lane_index(&mut self, way: CreditWay) -> usize {
        if self.divided.is_some() {
            return self.divided_lane(way);
        }
        self.of_vl(way.channel, way.vl)
    }

    /// Whether packets may overtake packets for other destinations that lack credit.
    pub fn is_divided(&self) -> bool {
        self.divided.is_some()
    }

    /// Prefetches the state of a channel.
    #[inline]
    pub fn prefetch_channel(&self, id: ChannelId) {
        prefetch(&self.channels, id as usize);
    }

    /// Prefetches the ledger of a lane, if it does not depend on the destination.
    #[inline]
    pub fn prefetch_lane(&self, id: ChannelId, vl: Vl) {
        if self.divided.is_none() {
            prefetch(&self.lanes, self.of_vl(id, vl));
        }
    }

    /// Prefetches the ledger that a packet uses.
    #[inline]
    pub fn prefetch_way(&self, way: CreditWay) {
        match &self.divided {
            None => prefetch(&self.lanes, self.of_vl(way.channel, way.vl)),
            Some(divided) => self.prefetch_divided(divided, way),
        }
    }

    #[inline(always)]
    fn ledger(&mut self, index: usize) -> Ledger<'_> {
        let Lane { available, wanted, returns } = &mut self.lanes[index];
        Ledger { available, wanted, returns, spills: &mut self.spills }
    }

    /// Whether a packet for some destination has `space` bytes of credit now.
    pub fn has_some_credit(&mut self, id: ChannelId, vl: Vl, space: u32, now: Time) -> bool {
        if self.divided.is_none() {
            return self.has_credit(CreditWay { channel: id, vl, dst: 0 }, space, now);
        }
        let ledgers: Vec<usize> = self.ledgers(id, vl).collect();
        if ledgers.is_empty() || self.has_full_ledgers(id, vl) {
            // Either no packet has been sent to any destination on this lane yet, or a destination has all of its credit.
            let is_closed = self.retry().is_some_and(|retry| !retry.is_open(id));
            return !is_closed
                && self.divided.as_ref().is_some_and(|divided| divided.capacities[id as usize] >= space);
        }
        ledgers.into_iter().any(|index| self.ledger_has_credit((id, index), space, now))
    }

    /// Whether a packet has `space` bytes of credit now.
    #[inline(always)]
    pub fn has_credit(&mut self, way: CreditWay, space: u32, now: Time) -> bool {
        let index = self.lane_index(way);
        self.ledger_has_credit((way.channel, index), space, now)
    }

    #[inline(always)]
    fn ledger_has_credit(&mut self, (id, index): (ChannelId, usize), space: u32, now: Time) -> bool {
        match self.control.as_deref_mut() {
            None => {}
            Some(Control::Credits(rules)) => {
                let is_open = rules.is_open(id);
                if self.pool_is_short(id, index, space, now) {
                    return false;
                }
                if !is_open {
                    // Credit that has returned must not wake the sender.
                    self.ledger(index).collect(now);
                    return false;
                }
            }
            Some(control) => return control.by_messages().is_none_or(|control| control.is_open(index, now)),
        }
        self.ledger(index).has_credit(space, now)
    }

    /// Puts a packet on the wire. The channel must be free, and there must be credit. Returns the time at which the
    /// packet's tail has left, and the event of its arrival.
    #[inline(always)]
    pub fn send(
        &mut self,
        id: ChannelId,
        packet_id: PacketId,
        packet: &mut Packet,
        now: Time,
    ) -> (Time, Event) {
        let index = self.lane_index(CreditWay { channel: id, vl: packet.vl, dst: packet.dst });
        if let Some(control) = self.control.as_deref_mut() {
            if let Some(control) = control.by_messages_mut() {
                control.starts(index, packet.space, now);
            }
            // If receivers stop senders, no query collects returned space, so collect it here. Otherwise, this has no effect.
            self.ledger(index).collect(now);
        }
        self.ledger(index).spend(packet.space);
        let link = &mut self.parameters[usize::from(self.parameters_of[id as usize])];
        let span = link.span(packet.size);
        packet.tail_lag = span;
        let channel = &mut self.channels[id as usize];
        debug_assert!(channel.free_at <= now, "a channel sends one packet at a time");
        channel.free_at = now + span;
        channel.sent_bytes += u64::from(packet.size);
        self.packet_hops += 1;
        let arrival = now + link.until_arrival(span);
        let sent = (channel.free_at, Event { time: arrival, key: channel.arrival_key, data: packet_id });
        self.tidy(now);
        sent
    }

    /// Puts a notification on the wire, ahead of all waiting packets. Link-level messages need no credit. Returns the
    /// time and the key of its arrival event. At that time, the tail of the notification has arrived and, if the
    /// notification is forwarded, has passed the switch's pipeline.
    pub fn notify(&mut self, id: ChannelId, notice: NoticeOnWire, now: Time) -> (Time, u32) {
        let NoticeOnWire { class, bytes, is_forwarded } = notice;
        let link = &self.parameters[usize::from(self.parameters_of[id as usize])];
        let channel = &mut self.channels[id as usize];
        // Messages of a host that may not send, because its link is down, do not wait.
        let start = if channel.free_at == Time::NEVER { now } else { channel.free_at.max(now) };
        let end = start + link.pace.time(bytes);
        if channel.free_at != Time::NEVER {
            channel.free_at = end;
        }
        channel.sent_bytes += u64::from(bytes);
        let EventKey { node, port, .. } = unkey(channel.arrival_key);
        let delay = if is_forwarded { link.head_delay } else { link.delay };
        (end + delay, key(class, node, port))
    }

    /// The time from the arrival event of a packet at the end of a channel until its tail has passed the same place.
    #[inline]
    pub fn lag(&self, id: ChannelId, packet: &Packet) -> Time {
        let link = self.parameters(id);
        if link.to_host || link.to_storing { Time::ZERO } else { packet.tail_lag }
    }

    /// The transmission time of `bytes` on a channel.
    #[inline]
    pub fn span(&self, id: ChannelId, bytes: u32) -> Time {
        self.parameters(id).pace.time(bytes)
    }

    /// Frees `space` at the receiver, now or soon, and returns the credit. It arrives one link delay later
    /// or, if credits return only at certain times, one link delay after the next of these times. `ledger` is
    /// the ledger of the way, if known.
    #[inline(always)]
    pub fn release(
        &mut self,
        (way, ledger): (CreditWay, u32),
        space: u32,
        ReturnTimes { leaves_at: time, now, passed }: ReturnTimes,
        queue: &mut EventQueue,
    ) {
        let id = way.channel;
        let mut back = time + self.parameters(id).delay;
        let index = if ledger == NO_LEDGER { self.lane_index(way) } else { ledger as usize };
        let is_wanted = self.lanes[index].wanted > 0;
        if let Some(rules) = self.rules() {
            back += rules.later(id, time);
        }
        self.ledger(index).give_back(back, space, now);
        // Credit of this call may arrive before credit that was returned earlier.
        if self.has_shared_credits() {
            self.wake_lanes(id, (now, passed), queue);
        } else if is_wanted {
            self.wake_with_credit(id, index, (now, passed), queue);
        }
    }

    /// Books credit of an undivided lane before its arrival if `is_ample` holds for the credit that the sender has.
    /// Returns whether it did.
    #[inline(always)]
    pub fn book_early(
        &mut self,
        (id, vl): (ChannelId, Vl),
        space: u32,
        is_ample: impl FnOnce(u32) -> bool,
    ) -> bool {
        let has_no_rules = self.rules().is_none();
        let index = self.of_vl(id, vl);
        let lane = &mut self.lanes[index];
        let is_early = has_no_rules && is_ample(lane.available);
        if is_early {
            lane.available += space;
        }
        is_early
    }

    /// Whether lanes share credits.
    #[inline(always)]
    pub fn has_shared_credits(&self) -> bool {
        self.rules().is_some_and(|rules| rules.shared.is_some())
    }
}

/// The times of a return of credit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReturnTimes {
    /// When the space at the receiver becomes free.
    pub leaves_at: Time,
    pub now: Time,
    /// The sender is not woken for a time before this one, because its clock may be ahead of the receiver's.
    pub passed: Time,
}

impl ReturnTimes {
    /// For a sender and a receiver with the same clock.
    pub fn new(leaves_at: Time, now: Time) -> Self {
        Self { leaves_at, now, passed: now }
    }
}

/// A link-level message that a switch or host sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoticeOnWire {
    /// The class of the arrival event, which depends on the kind of the receiving node.
    pub class: Class,
    /// Bytes on the wire.
    pub bytes: u32,
    /// Whether the receiving switch forwards the notification after the latency of its pipeline.
    pub is_forwarded: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A channel without delay.
    pub(super) fn spec(region_capacity: u32, division: BufferDivision) -> ChannelSpec {
        ChannelSpec {
            rate: Rate::from_gbit(8),
            delay: Time(0),
            receiver_latency: Time(0),
            to_host: false,
            to_storing: false,
            arrival_key: 0,
            wake_key: 1,
            region_capacity,
            division,
        }
    }

    fn links(capacity: u32) -> Links {
        Links::new(&[spec(capacity, BufferDivision::Whole)], 1).unwrap()
    }

    #[test]
    fn a_packet_arrives_at_a_switch_with_its_head_or_with_its_tail() {
        let (delay, latency, span) = (Time(30), Time(500), Time(120_000));
        for (to_host, to_storing, arrival, lag) in [
            (false, false, delay + latency, span),
            (false, true, span + delay + latency, Time::ZERO),
            (true, false, span + delay, Time::ZERO),
        ] {
            let spec = ChannelSpec {
                delay,
                receiver_latency: latency,
                to_host,
                to_storing,
                ..spec(4_096, BufferDivision::Whole)
            };
            let mut links = Links::new(&[spec], 1).unwrap();
            let mut packet = Packet::example();
            let (end, event) = links.send(0, 7, &mut packet, Time(1));
            assert_eq!((end, event.time), (Time(1) + span, Time(1) + arrival), "{to_host} {to_storing}");
            assert_eq!((packet.tail_lag, links.lag(0, &packet)), (span, lag), "{to_host} {to_storing}");
        }
    }

    #[test]
    fn a_paused_lane_is_stuck_only_if_a_packet_waits_for_it() {
        let mut links = links(UNLIMITED);
        let rule = Rule::Fixed { xoff: 300, xon: 100, headroom: 1_000 };
        let spec = FrameSpec { bytes: 84, response: Time::ZERO, longest: Time::NEVER };
        let receiver = ReceiverSpec { rule, capacity: 0, reverse: 0 };
        links.set_control(Control::Frames(Frames::new(spec, (1, 0), &[receiver], Vec::new())));
        let mut queue = EventQueue::new(Time(1), Time::ZERO);
        assert!(links.obey(0, 1, Time(5), &mut queue));
        assert!(!links.is_stuck(0, Vl::FIRST, Time(5)), "no packet waits");
        links.wait_for_credit(CreditWay { channel: 0, vl: Vl::FIRST, dst: 0 }, 64, &mut queue);
        assert!(links.is_stuck(0, Vl::FIRST, Time(5)));
        assert!(links.obey(0, 0, Time(9), &mut queue));
        assert!(!links.is_stuck(0, Vl::FIRST, Time(9)), "the lane is open again");
    }

    proptest! {
        /// For returning credits in any number and order, the accounting equals that of a plain list.
        #[test]
        fn returning_credits_are_booked_in_time(
            steps in prop::collection::vec((0u64..50, 0u64..60, 1u32..5), 1..200),
        ) {
            let mut links = links(1 << 20);
            links.lanes[0].available = 0;
            let mut queue = EventQueue::new(Time(1), Time::ZERO);
            let (mut model, mut now) = (Vec::new(), 0);
            let way = CreditWay { channel: 0, vl: Vl::FIRST, dst: 0 };
            for (wait, later, space) in steps {
                now += wait;
                links.release((way, NO_LEDGER), space, ReturnTimes::new(Time(now + later), Time(now)), &mut queue);
                model.push((now + later, space));
                let back: u32 = model.iter().filter(|entry| entry.0 <= now).map(|entry| entry.1).sum();
                prop_assert!(links.has_credit(way, back, Time(now)));
                prop_assert!(!links.has_credit(way, back + 1, Time(now)));
                let mut rest: Vec<(u64, u32)> = model.iter().copied().filter(|e| e.0 > now).collect();
                rest.sort_by_key(|entry| entry.0);
                let mut sum = back;
                let due = rest.iter().find(|entry| { sum += entry.1; sum > back + 3 });
                links.lanes[0].wanted = back + 4;
                prop_assert_eq!(links.ready_at(0, 0), due.map(|entry| Time(entry.0)));
                links.lanes[0].wanted = 0;
            }
        }
    }
}
