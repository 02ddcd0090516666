//! What every node of a partition works with while it handles an event: the clock, the queue, the packets, the
//! links and the meters. Nodes reach each other only through the links; see [`mail`] for those of other partitions.

mod mail;

use silvan_engine::{Event, EventQueue, Time};

use crate::link::{ChannelId, Class, Links, Way};
use crate::measure::{Ahead, Meters, Watch};
use crate::outputs::{Around, Outputs};
use crate::packet::{Kind, Packet, PacketId, Pool};
use crate::port::{Port, Vl};
use crate::queueing::isolation::Notice;
pub(crate) use mail::{Far, Mail};

/// What a switch tells the source of a packet that it marks: which flow of which host, and how severe
/// congestion is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// The source's host.
    pub to: u32,
    /// Where the packet went.
    pub destination: u32,
    pub source: u16,
    /// 0 where marks are a bit.
    pub severity: u8,
}

/// Which switch tells a source something at some instant, whether it has marked the packet itself, and the port
/// that this is about: that of the mark, or the one that the report came in at. In this order reports are sent.
pub(crate) type Cause = (u32, bool, Port);

/// What a notification says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// To the node at the far end of the link: about one of its lines.
    Line(Notice),
    /// To a host, by way of switches.
    Report(Report),
}

/// Notifications on the wire. Places are reused.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    slots: Vec<Option<Word>>,
    free: Vec<u32>,
}

impl Notices {
    fn add(&mut self, word: Word) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = Some(word);
            return id;
        }
        self.slots.push(Some(word));
        (self.slots.len() - 1) as u32
    }

    /// How many are for sources.
    pub fn reports(&self) -> usize {
        self.slots.iter().filter(|slot| matches!(slot, Some(Word::Report(_)))).count()
    }

    /// Takes a notification off the wire.
    pub fn take(&mut self, id: u32) -> Option<Word> {
        self.free.push(id);
        self.slots[id as usize].take()
    }
}

/// What a packet that goes ahead of a flow, along with it or behind it tells and learns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Announcement {
    /// Which of the three it was, as a reply tells.
    pub kind: Kind,
    /// Bytes of the flow.
    pub bytes: u64,
    /// The largest weight of a link on its way so far, in picoseconds.
    pub largest_ps: u64,
}

/// Announcements on their way. Places are reused.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    slots: Vec<Announcement>,
    free: Vec<u32>,
}

impl Announcements {
    pub fn add(&mut self, announcement: Announcement) -> u32 {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = announcement;
            return id;
        }
        self.slots.push(announcement);
        (self.slots.len() - 1) as u32
    }

    pub fn get_mut(&mut self, id: u32) -> &mut Announcement {
        &mut self.slots[id as usize]
    }

    /// Takes an announcement that is back at its source.
    pub fn take(&mut self, id: u32) -> Announcement {
        self.free.push(id);
        self.slots[id as usize]
    }
}

/// The common ground of all nodes of a partition, or of the network where there is one.
#[derive(Debug)]
pub(crate) struct Context {
    pub now: Time,
    pub queue: EventQueue,
    pub packets: Pool,
    pub links: Links,
    /// The outputs of switches, where they are run apart; then only hosts use `links`.
    pub outputs: Option<Outputs>,
    pub meters: Meters,
    /// Notifications on the wire.
    pub notices: Notices,
    /// Announcements of flows on their way.
    pub announcements: Announcements,
    /// Switches and outputs that may have something to send at this instant.
    pub dirty_outputs: Vec<(u32, Port)>,
    /// What switches tell sources at the end of this instant.
    pub reports: Vec<(Cause, Report)>,
    /// Hosts that may have something to send at this instant, by their places in the partition.
    pub dirty_hosts: Vec<u32>,
    /// When somebody looks next, where outputs are run apart.
    pub next_sample: Time,
    /// Where somebody looked: nobody has decided yet at that time.
    pub rest: Option<Time>,
    /// What happened in other partitions before this time is known; never where there are none.
    pub exchanged: Time,
    /// Where there are others, and traffic waits for deliveries.
    pub ahead: Option<Box<Ahead>>,
    /// Where there are other partitions and switches have events of their own.
    pub far: Option<Box<Far>>,
    /// Whether all nodes are of this partition and have events of their own.
    pub is_whole: bool,
    /// What does not hold, and since when.
    #[cfg(debug_assertions)]
    pub broken: Option<(Time, String)>,
    /// The partitions, where there are several: all that happens does so there, and this one only adds up.
    pub parts: Vec<Context>,
    /// Per channel, where there are several partitions: that of its sender.
    pub part_of: Box<[u16]>,
}

impl Context {
    /// The state of a partition: this, where there is one.
    pub fn part(&self, part: u16) -> &Self {
        self.parts.get(usize::from(part)).unwrap_or(self)
    }

    /// See [`Self::part`].
    pub fn part_mut(&mut self, part: u16) -> &mut Self {
        if self.parts.is_empty() { self } else { &mut self.parts[usize::from(part)] }
    }

    /// The state of the partition whose host or switch sends on a channel.
    pub fn owner(&self, channel: ChannelId) -> &Self {
        self.part_of.get(channel as usize).map_or(self, |&part| self.part(part))
    }

    fn owner_mut(&mut self, channel: ChannelId) -> &mut Self {
        match self.part_of.get(channel as usize) {
            Some(&part) => self.part_mut(part),
            None => self,
        }
    }

    /// The outputs, and which of them sends on a channel; none if a host does, or a switch that is not
    /// run output by output.
    fn apart(&self, channel: ChannelId) -> Option<(&Outputs, usize)> {
        let outputs = self.outputs.as_ref()?;
        Some((outputs, outputs.sender(channel)?))
    }

    fn apart_mut(&mut self, channel: ChannelId) -> Option<(&mut Outputs, usize)> {
        let outputs = self.outputs.as_mut()?;
        let output = outputs.sender(channel)?;
        Some((outputs, output))
    }

    /// Has outputs do what is to be done in the current bin; see [`Outputs::run`]. Returns how much that
    /// was.
    #[inline]
    pub fn run_outputs(&mut self, arrive_before: Time, decide_before: Time) -> u64 {
        let Self { outputs, packets, queue, links, meters, .. } = self;
        let Some(outputs) = outputs else { return 0 };
        let around = &mut Around { packets, queue, links, meters, hosts_at: decide_before };
        outputs.run(around, arrive_before, decide_before);
        let (hops, events) = outputs.take_counts();
        links.packet_hops += hops;
        events
    }

    /// Whether nothing will happen any more.
    pub fn is_idle(&self) -> bool {
        self.coming() == 0 && self.has_no_events()
    }

    fn has_no_events(&self) -> bool {
        self.queue.is_empty()
            && self.dirty_hosts.is_empty()
            && self.dirty_outputs.is_empty()
            && self.reports.is_empty()
            && self.outputs.as_ref().is_none_or(Outputs::is_idle)
            && self.ahead.as_ref().is_none_or(|ahead| ahead.next().is_none())
            && self.parts.iter().all(Self::has_no_events)
    }

    /// The counters, also those of partitions.
    pub fn meters_of_parts(&self) -> impl Iterator<Item = &Meters> {
        std::iter::once(self).chain(&self.parts).map(|ctx| &ctx.meters)
    }

    /// All packets inside the network.
    pub fn packets(&self) -> impl Iterator<Item = &Packet> {
        let all = std::iter::once(self).chain(&self.parts);
        let now = self.now;
        all.flat_map(move |ctx| {
            let coming = ctx.meters.later(now, false);
            ctx.packets.iter().chain(ctx.sent_elsewhere()).chain(coming)
        })
    }

    /// How many packets are inside the network.
    pub fn alive(&self) -> usize {
        let own = |ctx: &Self| ctx.packets.alive() + ctx.sent_elsewhere().count();
        std::iter::once(self).chain(&self.parts).map(own).sum::<usize>() + self.coming()
    }

    /// How many packets are on their way to hosts that have been counted as delivered, but for when.
    fn coming(&self) -> usize {
        self.meters_of_parts().map(|meters| meters.later(self.now, false).count()).sum()
    }

    /// How many notifications for sources are on their way.
    pub fn reports_on_their_way(&self) -> usize {
        let all = std::iter::once(self).chain(&self.parts);
        all.map(|ctx| ctx.reports.len() + ctx.notices.reports()).sum()
    }

    /// Somebody will look at a time, unless the warm-up ends before.
    pub fn expect_sample(&mut self, time: Time) {
        self.next_sample = time;
        let warmup = self.meters.warmup;
        let first = if self.meters.warm { time } else { time.min(warmup) };
        self.outputs.iter_mut().for_each(|outputs| outputs.expect_sample(first));
        self.meters.expect_sample(first);
        self.parts.iter_mut().for_each(|part| part.expect_sample(time));
    }

    /// Somebody looks now.
    pub fn sample(&mut self, now: Time) {
        self.outputs.iter_mut().for_each(|outputs| outputs.sample(now));
        self.parts.iter_mut().for_each(|part| part.sample(now));
    }

    /// Adds the latencies that partitions have counted; once, at the end.
    pub fn gather_latencies(&mut self) {
        self.meters.gather_latencies(self.parts.iter().map(|part| &part.meters));
    }

    /// A packet that overtook another of its flow, in words.
    #[cfg(debug_assertions)]
    pub fn out_of_order(&self) -> Option<&String> {
        let parts = self.parts.iter().find_map(|part| part.meters.out_of_order.as_ref());
        self.meters.out_of_order.as_ref().or(parts)
    }

    /// Adds up what the partitions have counted.
    pub fn gather(&mut self) {
        if self.parts.is_empty() {
            return;
        }
        self.meters.gather(self.parts.iter_mut().map(|part| &mut part.meters));
        self.links.packet_hops = self.parts.iter().map(|part| part.links.packet_hops).sum();
    }

    /// Has what these hosts take in counted from now on.
    pub fn watch(&mut self, watch: &Watch) {
        self.meters.deliveries.watch(watch);
        self.parts.iter_mut().for_each(|part| part.watch(watch));
    }

    /// See [`Links::has_some_credit`].
    pub fn has_some_credit(&mut self, channel: ChannelId, vl: Vl, space: u32) -> bool {
        let now = self.now;
        let owner = self.owner_mut(channel);
        match owner.apart_mut(channel) {
            Some((outputs, output)) => outputs.has_some_credit(output, vl.0, space, now),
            None => owner.links.has_some_credit(channel, vl, space, now),
        }
    }

    /// See [`Links::sent_by`].
    pub fn sent_by(&self, channel: ChannelId) -> u64 {
        let owner = self.owner(channel);
        match owner.apart(channel) {
            Some((outputs, output)) => outputs.sent_by(output, self.now),
            None => owner.links.sent_by(channel, self.now),
        }
    }

    /// See [`Links::outstanding`].
    pub fn outstanding(&self, channel: ChannelId, vl: Vl) -> u32 {
        let owner = self.owner(channel);
        match owner.apart(channel) {
            Some((outputs, output)) => outputs.outstanding(output, vl.0, self.now),
            None => owner.links.outstanding(channel, vl, self.now),
        }
    }

    /// See [`Links::is_stuck`].
    pub fn is_stuck(&self, channel: ChannelId, vl: Vl) -> bool {
        let owner = self.owner(channel);
        match owner.apart(channel) {
            Some((outputs, output)) => outputs.is_stuck(output, vl.0),
            None => owner.links.is_stuck(channel, vl, self.now),
        }
    }

    /// See [`Links::check_credits`].
    #[cfg(debug_assertions)]
    pub fn check_credits(&self, channel: ChannelId, vl: Vl, buffered: u32) -> Result<(), String> {
        let owner = self.owner(channel);
        match owner.apart(channel) {
            Some((outputs, output)) => outputs.check_credits(output, vl.0, buffered),
            None => owner.links.check_credits(channel, vl, buffered),
        }
    }

    /// See [`Links::has_credit_or_wait`].
    #[inline(always)]
    pub fn has_credit_or_wait(&mut self, way: Way, space: u32) -> bool {
        self.links.has_credit_or_wait(way, space, self.now, &mut self.queue)
    }

    /// Whether any of the wake-ups of a sender that are due now, of which this is the first, counts: together they
    /// are one.
    #[inline]
    pub fn take_wakes(&mut self, event: Event) -> bool {
        let mut counts = self.links.take_wake(event.data, self.now);
        while let Some(other) = self.queue.pop_alike(event.time, event.key) {
            counts |= self.links.take_wake(other.data, self.now);
        }
        counts
    }

    /// See [`Links::wake`].
    #[inline(always)]
    pub fn wake(&mut self, channel: ChannelId, time: Time) {
        self.links.wake(channel, time, &mut self.queue);
    }

    /// See [`Links::send`].
    #[inline(always)]
    pub fn send(&mut self, channel: ChannelId, packet: PacketId) -> Time {
        let (end, arrival) = self.links.send(channel, packet, &mut self.packets[packet], self.now);
        if self.is_whole {
            self.queue.push(arrival);
        } else {
            self.send_otherwise(channel, arrival);
        }
        end
    }

    /// See [`Links::release`].
    #[inline(always)]
    pub fn release(&mut self, way: Way, space: u32, time: Time) {
        if self.is_whole || !self.release_otherwise(way, space, time) {
            self.links.release(way, space, (time, self.now, self.now), &mut self.queue);
        }
    }

    /// Sends a notification of `bytes` to the node at the far end of a channel.
    pub fn notify(&mut self, channel: ChannelId, class: Class, word: Word, bytes: u32) {
        // The next switch passes a report on after its pipeline.
        let is_forwarded = class == Class::SwitchNotice && matches!(word, Word::Report(_));
        let at = self.links.notify(channel, class, (bytes, is_forwarded), self.now);
        self.tell(channel, at, word);
    }

    /// When the sender of a channel may send next.
    #[inline(always)]
    pub fn free_at(&self, channel: ChannelId) -> Time {
        self.links.channel(channel).free_at
    }
}
