//! The state of one partition that its nodes use while they handle an event: the clock, the event queue, packets, links
//! and counters.
//!
//! Nodes affect each other only through links. If a message crosses a link to a node of another partition, it is put
//! into the [`Mailbox`] for that partition.

mod ahead;
#[cfg(test)]
mod tests;
mod turns;

use std::sync::Arc;

use silvan_engine::saved::Saved;
use silvan_engine::{Event, EventQueue, Time};
use silvan_network::port::{Port, Vl};

use crate::link::{
    ChannelId, Class, CreditWay, EventKey, Links, NoticeOnWire, ReturnTimes, SignalCheck, Stage, unkey,
};
use crate::message::{
    Announcements, Cause, CreditReturn, Entering, Mailbox, Notices, PacketMessage, SourceReport, Word,
};
use crate::meters::Meters;
use crate::packet::{NO_LEDGER, Packet, PacketId, Pool};
use crate::recorder::{RecordedLossKind, Recorder};
use crate::schedule::Applied;
use crate::shared_injection::SharedInjection;
use crate::sink::HostSink;
pub(crate) use ahead::Ahead;
pub(crate) use turns::Turns;

/// Where the packets that hosts and switches send arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Saved)]
pub(crate) enum Scope {
    /// In this partition, which is the only one, on links without pause frames, on/off messages and
    /// link-level retry.
    Local,
    /// In this partition or in others, or on links with pause frames, on/off messages or link-level retry.
    Shared,
    /// At the outputs of the binned scheduler, to which hosts send.
    Binned,
    /// Same as `Shared`, and departures are recorded.
    Recorded,
    /// Same as `Binned`, and departures are recorded.
    BinnedRecorded,
}

/// The partitions at the two ends of each channel, as seen from one of them.
#[derive(Debug, Saved)]
pub(crate) struct Borders {
    /// This partition.
    pub me: u16,
    /// For each channel, the partitions of its sender and of its receiver.
    pub ends: Arc<[(u16, u16)]>,
}

impl Borders {
    /// The partition of a channel's receiver, if it differs from this one.
    #[inline]
    fn receiver(&self, channel: ChannelId) -> Option<usize> {
        let there = self.ends[channel as usize].1;
        (there != self.me).then_some(usize::from(there))
    }

    /// The partition of a channel's sender, if it differs from this one.
    #[inline]
    fn sender(&self, channel: ChannelId) -> Option<usize> {
        let there = self.ends[channel as usize].0;
        (there != self.me).then_some(usize::from(there))
    }
}

#[derive(Debug, Saved)]
pub(crate) struct Context {
    pub now: Time,
    pub queue: EventQueue,
    pub packets: Pool,
    /// The channels and their credits. A partition uses the sending side of a channel only if one of its nodes sends on
    /// it.
    pub links: Links,
    pub meters: Meters,
    /// The input buffers of hosts, by their position in the partition.
    pub sinks: Box<[HostSink]>,
    /// The injection limits that ports share, of the hosts of all partitions.
    pub shared_injection: Box<[SharedInjection]>,
    /// Notifications on the wire.
    pub notices: Notices,
    /// Announcements of flows that are on their way.
    pub announcements: Announcements,
    /// Outputs that may have packets to send at this instant, with their switches.
    pub dirty_outputs: Vec<(u32, Port)>,
    /// Reports that switches send to sources at the end of this instant.
    pub reports: Vec<(Cause, SourceReport)>,
    /// Hosts that may have packets to send at this instant, by their position in the partition.
    pub dirty_hosts: Vec<u32>,
    /// Credit for the outputs of the binned scheduler, from hosts whose paces change.
    pub freed: Vec<CreditReturn>,
    /// Packets for the outputs of the binned scheduler, in the order in which hosts started to send them.
    pub entering: Vec<Entering>,
    /// The time before which all messages of other partitions have been received; `Time::NEVER` if there is one
    /// partition.
    pub exchanged: Time,
    /// The turns of hosts, in the binned scheduler.
    pub turns: Option<Box<Turns>>,
    /// Present if there are several partitions and traffic waits for deliveries.
    pub ahead: Option<Box<Ahead>>,
    /// Messages for other partitions, indexed by partition; empty if there is one partition.
    pub outbox: Box<[Mailbox]>,
    /// The first invariant that was violated, and the time.
    broken: Option<(Time, String)>,
    #[saved(constant)]
    scope: Scope,
    /// Present if there are several partitions, with the event-ordered scheduler.
    #[saved(constant)]
    borders: Option<Borders>,
    /// Records departures; present during a recording.
    #[saved(constant)]
    pub recorder: Option<Box<Recorder>>,
}

impl Context {
    /// `partitions` is the number of partitions. `borders` is present if there are several and the scheduler is the
    /// event-ordered one.
    pub fn new(
        links: Links,
        meters: Meters,
        queue: EventQueue,
        (partitions, borders): (usize, Option<Borders>),
        is_binned: bool,
    ) -> Self {
        let scope = match &borders {
            _ if is_binned => Scope::Binned,
            None if !links.has_messages() && links.retry().is_none() => Scope::Local,
            _ => Scope::Shared,
        };
        let mailboxes = if partitions > 1 { partitions } else { 0 };
        Self {
            now: Time::ZERO,
            queue,
            packets: Pool::default(),
            links,
            meters,
            sinks: Box::default(),
            shared_injection: Box::default(),
            notices: Notices::default(),
            announcements: Announcements::default(),
            dirty_outputs: Vec::new(),
            reports: Vec::new(),
            dirty_hosts: Vec::new(),
            freed: Vec::new(),
            entering: Vec::new(),
            exchanged: Time::NEVER,
            turns: None,
            ahead: None,
            outbox: (0..mailboxes).map(|_| Mailbox::default()).collect(),
            broken: None,
            scope,
            borders,
            recorder: None,
        }
    }

    /// Prepares for a recording, before the run. There must be one partition.
    pub fn expect_record(&mut self) {
        debug_assert!(self.borders.is_none(), "there is one partition");
        self.scope = if self.is_binned() { Scope::BinnedRecorded } else { Scope::Recorded };
    }

    /// Whether departures are recorded.
    pub fn is_recorded(&self) -> bool {
        matches!(self.scope, Scope::Recorded | Scope::BinnedRecorded)
    }

    /// Records departures from now on.
    pub fn record(&mut self, recorder: Recorder) {
        debug_assert!(self.is_recorded(), "the recording is expected");
        self.recorder = Some(Box::new(recorder));
    }

    /// Ends the recording, and returns the recorder.
    pub fn take_recorder(&mut self) -> Option<Recorder> {
        self.recorder.take().map(|recorder| *recorder)
    }

    /// Whether all packets and credits of the network stay in this context.
    #[inline(always)]
    pub fn is_local(&self) -> bool {
        self.scope == Scope::Local
    }

    /// Whether hosts send to the outputs of the binned scheduler.
    #[inline(always)]
    pub fn is_binned(&self) -> bool {
        matches!(self.scope, Scope::Binned | Scope::BinnedRecorded)
    }

    /// Whether no node has decisions to make at this instant.
    pub fn has_decided(&self) -> bool {
        self.dirty_hosts.is_empty() && self.dirty_outputs.is_empty() && self.reports.is_empty()
    }

    /// Whether the nodes of this partition have no pending work, and no packet is on its way.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self.has_decided()
            && self.entering.is_empty()
            && self.turns.as_ref().is_none_or(|turns| turns.bins.is_empty())
            && self.outbox.iter().all(Mailbox::is_empty)
            && self.ahead.as_ref().is_none_or(|ahead| ahead.next().is_none())
    }

    /// The packets inside the network that this partition knows: its own, those that other partitions have not
    /// received yet, and those that are already counted as delivered at a later time.
    pub fn packets_inside(&self) -> impl Iterator<Item = &Packet> {
        let sent = self.outbox.iter().flat_map(Mailbox::iter_packets);
        self.packets.iter().chain(sent).chain(self.meters.later(self.now, false))
    }

    /// The packets of this partition in the network, with their numbers, including those that other partitions have not
    /// received yet.
    pub fn numbered_packets(&self) -> impl Iterator<Item = (&Packet, u64)> {
        let sent = self.outbox.iter().flat_map(|mailbox| &mailbox.packets);
        let sent = sent.map(|message| (&message.packet, message.marks.number));
        self.packets.numbered().chain(sent)
    }

    /// The number of [`Self::packets_inside`].
    pub fn count_inside(&self) -> usize {
        let sent: usize = self.outbox.iter().map(|mailbox| mailbox.iter_packets().count()).sum();
        self.packets.alive() + sent + self.meters.later(self.now, false).count()
    }

    /// Records a violated invariant, unless one has been recorded. The run ends at the next sample.
    #[cold]
    pub fn report_broken(&mut self, what: String) {
        let now = self.now;
        self.broken.get_or_insert((now, what));
    }

    /// The first violated invariant, with its time.
    pub fn broken(&self) -> Option<(Time, String)> {
        let endless =
            || Some((self.queue.endless_time()?, "the events of an instant have no end".to_owned()));
        self.broken.clone().or_else(endless)
    }

    /// Counts a decision of a marking rule about a packet. If the decision includes a report to the source, queues the
    /// report.
    pub fn note_applied(&mut self, cause: Cause, applied: Applied) {
        self.meters.fecn_marks += u64::from(applied.is_mark);
        self.meters.validations += u64::from(applied.is_validation);
        let Some(report) = applied.report else { return };
        self.reports.push((cause, report));
        if let Some(recorder) = &mut self.recorder {
            recorder.reports((cause.0, cause.2.0), self.now, report);
        }
    }

    /// See [`Links::has_credit_or_wait`].
    #[inline(always)]
    pub fn has_credit_or_wait(&mut self, way: CreditWay, space: u32) -> bool {
        self.links.has_credit_or_wait(way, space, self.now, &mut self.queue)
    }

    /// Same as [`Self::has_credit_or_wait`], for a packet whose destination alone determines its way through
    /// the switch. `ledger` is the ledger of its last link, if known.
    #[inline]
    pub fn has_credit_or_wait_behind(&mut self, ledger: u32, way: CreditWay, space: u32) -> bool {
        self.links.has_credit_or_wait_behind(ledger, way, space, self.now, &mut self.queue)
    }

    /// Whether any of a sender's wake-ups that are due now is still valid. `event` is the first of them. All valid ones
    /// together cause one attempt to send.
    #[inline]
    pub fn take_wakes(&mut self, event: Event) -> bool {
        let mut counts = self.links.take_wake(event, self.now, &mut self.queue);
        while let Some(other) = self.queue.pop_alike(event.time, event.key) {
            counts |= self.links.take_wake(other, self.now, &mut self.queue);
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
        if !self.is_binned() && self.links.is_divided() {
            self.packets.set_ledger(packet, self.links.last_ledger(channel));
        }
        match self.scope {
            Scope::Binned => self.entering.push(Entering { channel, packet, when: arrival.time }),
            Scope::Local => self.queue.push(arrival),
            Scope::Shared => self.send_outside(channel, arrival),
            Scope::Recorded | Scope::BinnedRecorded => self.send_recorded(channel, end, arrival),
        }
        end
    }

    /// Records a departure, and handles it like the scope without a recording.
    #[cold]
    #[inline(never)]
    fn send_recorded(&mut self, channel: ChannelId, end: Time, arrival: Event) {
        let Self { recorder, packets, links, now, .. } = self;
        if let Some(recorder) = recorder {
            let is_from_host = links.sending_switch(channel).is_none();
            let packet = (arrival.data, &*packets);
            recorder.departs((channel, is_from_host), packet, (*now, end, arrival.time));
        }
        if self.is_binned() {
            let (packet, when) = (arrival.data, arrival.time);
            return self.entering.push(Entering { channel, packet, when });
        }
        self.send_outside(channel, arrival);
    }

    /// Handles a packet that has started to cross a link, perhaps to another partition.
    #[inline(never)]
    fn send_outside(&mut self, channel: ChannelId, arrival: Event) {
        let id = arrival.data;
        if self.links.retry().is_some() && !self.links.is_down(channel) {
            let size = self.packets[id].size;
            let is_accepted = self.links.first_try(channel, id, size, self.now);
            self.expect_retry(channel);
            if !is_accepted {
                return;
            }
        }
        self.forward(channel, arrival);
    }

    /// Schedules the arrival of a packet that has started to cross a link, or sends the packet to the
    /// partition of the receiver.
    fn forward(&mut self, channel: ChannelId, arrival: Event) {
        let id = arrival.data;
        let Some(there) = self.borders.as_ref().and_then(|borders| borders.receiver(channel)) else {
            self.expect(arrival);
            return self.queue.push(arrival);
        };
        let packet = self.packets[id];
        let number = self.announcements.are_used().then(|| self.packets.carried_announcement(id)).flatten();
        let announcement = number.map(|number| self.announcements.take(number));
        let marks = self.packets.marks(id);
        let telemetry = self.packets.take_telemetry(id);
        self.packets.remove(id);
        let (time, key) = (arrival.time, arrival.key);
        self.outbox[there].send_packet(PacketMessage { packet, marks, announcement, telemetry, time, key });
    }

    /// Records when a data packet will have been delivered, if traffic waits for deliveries and the packet's
    /// next node is a host.
    #[inline]
    fn expect(&mut self, arrival: Event) {
        let Some(ahead) = &mut self.ahead else { return };
        let EventKey { class, node: host, .. } = unkey(arrival.key);
        let packet = &self.packets[arrival.data];
        if class == Class::HostArrival && packet.is_data() {
            ahead.expect(host, (self.packets.number(arrival.data), packet), arrival.time);
        }
    }

    /// Returns credit from the receiver of a channel to its sender. The credit leaves now or at a later, known time,
    /// and arrives after the delay of the channel.
    ///
    /// The credit is entered in the channel's ledger with its arrival time. Because the ledger belongs to the link, the
    /// state of the sender does not change before that time, and no event is needed unless the sender waits for credit.
    #[inline(always)]
    pub fn release(&mut self, credit: CreditReturn) {
        debug_assert!(credit.leaves_at >= self.now, "a message cannot leave before now");
        if self.is_local() || !self.release_outside(credit) {
            let CreditReturn { way, space, leaves_at, ledger } = credit;
            let times = ReturnTimes::new(leaves_at, self.now);
            self.links.release((way, ledger), space, times, &mut self.queue);
        }
    }

    /// Same as [`Self::release`], if the channel's sender is in another partition, or is an output of the
    /// binned scheduler. Returns whether this is the case. With pause frames, also schedules the departure of
    /// the packet from the buffer.
    #[inline(never)]
    fn release_outside(&mut self, credit: CreditReturn) -> bool {
        let CreditWay { channel, vl, .. } = credit.way;
        if let Some(recorder) = &mut self.recorder
            && self.links.leads_to_host(channel)
        {
            recorder.drained(channel, self.now, credit.leaves_at);
        }
        if self.is_binned() {
            self.freed.push(credit);
            return true;
        }
        if let Some(control) = self.links.by_messages_mut() {
            let data = control.will_leave(channel, vl, credit.space);
            self.queue.push(Event { time: credit.leaves_at, key: Stage::Freed.key(), data });
        }
        let Some(there) = self.borders.as_ref().and_then(|borders| borders.sender(channel)) else {
            return false;
        };
        let back = credit.leaves_at + self.links.delay(channel);
        self.outbox[there].send_credit(credit, back);
        true
    }

    /// Whether a packet that arrives at the end of a channel was lost on the way, or is dropped there. If so,
    /// counts and removes it. With the event-ordered scheduler, also returns its credit when its tail has
    /// arrived.
    #[inline]
    pub fn loses(&mut self, channel: ChannelId, id: PacketId) -> bool {
        self.links.has_changes() && self.discard(channel, id)
    }

    #[inline(never)]
    fn discard(&mut self, channel: ChannelId, id: PacketId) -> bool {
        let packet = self.packets[id];
        let is_binned = self.is_binned();
        let is_lost = match is_binned {
            true => self.links.was_lost_on_way(id),
            false => self.links.was_lost(channel, &packet, self.now),
        };
        let is_dropped = !is_lost && self.links.drops(channel, &packet);
        if !is_lost && !is_dropped {
            return false;
        }
        let ledger = self.packets.ledger(id);
        self.remove_lost(channel, id, is_dropped, self.now);
        if is_binned {
            // The output that sent the packet has already returned its credit.
            return true;
        }
        let leaves_at = self.now + self.links.lag(channel, &packet);
        let way = CreditWay { channel, vl: packet.vl, dst: packet.dst };
        let credit = CreditReturn { way, space: packet.space, leaves_at, ledger };
        match self.borders.as_ref().and_then(|borders| borders.sender(channel)) {
            Some(there) => {
                let back = credit.leaves_at + self.links.delay(channel);
                self.outbox[there].send_credit(credit, back);
            }
            None => {
                let times = ReturnTimes::new(credit.leaves_at, self.now);
                self.links.release((way, ledger), packet.space, times, &mut self.queue);
            }
        }
        true
    }

    /// Counts and removes a packet that was lost on a channel, or dropped by its receiver.
    pub fn remove_lost(&mut self, channel: ChannelId, id: PacketId, is_dropped: bool, now: Time) {
        let packet = &self.packets[id];
        if let Some(recorder) = &mut self.recorder {
            let kind = if is_dropped { RecordedLossKind::Dropped } else { RecordedLossKind::OnLink };
            recorder.lost(id, channel, now, kind);
        }
        self.links.count_lost(channel, packet, is_dropped);
        self.meters.was_lost(packet);
        self.packets.remove(id);
    }

    /// Whether the sender of a channel is in this partition.
    pub fn sends_on(&self, channel: ChannelId) -> bool {
        self.borders.as_ref().is_none_or(|borders| borders.sender(channel).is_none())
    }

    /// Whether the receiver of a channel is in this partition.
    pub fn receives_on(&self, channel: ChannelId) -> bool {
        self.borders.as_ref().is_none_or(|borders| borders.receiver(channel).is_none())
    }

    /// Sends a notification of `bytes` to the node at the far end of a channel.
    pub fn notify(&mut self, channel: ChannelId, class: Class, word: Word, bytes: u32) {
        // The next switch forwards a report after the latency of its pipeline.
        let is_forwarded = class == Class::SwitchNotice && matches!(word, Word::Report(_));
        let start = self.free_at(channel).max(self.now);
        let (time, key) = self.links.notify(channel, NoticeOnWire { class, bytes, is_forwarded }, self.now);
        self.record_message(channel, start);
        match self.borders.as_ref().and_then(|borders| borders.receiver(channel)) {
            Some(there) => self.outbox[there].send_notice(time, key, word),
            None => {
                let data = self.notices.add(word);
                self.queue.push(Event { time, key, data });
            }
        }
    }

    /// If departures are recorded, records that a link-level message occupies a channel from `start` on.
    fn record_message(&mut self, channel: ChannelId, start: Time) {
        let end = self.free_at(channel);
        if let Some(recorder) = &mut self.recorder
            && end != Time::NEVER
        {
            recorder.message(channel, (start, end));
        }
    }

    /// If departures are recorded, records that a switch removes the payload of a packet that waits for a channel.
    pub fn record_trim(&mut self, id: PacketId, channel: ChannelId) {
        if let Some(recorder) = &mut self.recorder {
            recorder.lost(id, channel, self.now, RecordedLossKind::Trimmed);
        }
    }

    /// With pause frames or on/off messages, counts a packet that has arrived in the buffer of the receiver.
    pub fn store(&mut self, channel: ChannelId, packet: PacketId) {
        let Packet { vl, space, .. } = self.packets[packet];
        self.store_lane(channel, vl, space);
    }

    /// Same as [`Self::store`], for a packet of a given lane and space.
    pub fn store_lane(&mut self, channel: ChannelId, vl: Vl, space: u32) {
        let Some(control) = self.links.by_messages_mut() else { return };
        if control.store(channel, vl, space, self.now) {
            self.queue.push(Event { time: self.now, key: Stage::Check.key(), data: channel });
        }
    }

    /// Schedules the event at which the sender of a channel must act next because of link-level retry.
    fn expect_retry(&mut self, channel: ChannelId) {
        let free_at = self.free_at(channel);
        if let Some(time) = self.links.retry_mut().and_then(|retry| retry.next_action(channel, free_at)) {
            self.queue.push(Event { time, key: Stage::Retry.key(), data: channel });
        }
    }

    /// Handles the acknowledgements, NACKs and timer of the sender of a channel, and sends the next frame again if that is
    /// due. Returns the channel if a frame was sent.
    fn retry(&mut self, channel: ChannelId) -> Option<ChannelId> {
        let (now, free_at, delay) = (self.now, self.free_at(channel), self.links.delay(channel));
        let retry = self.links.retry_mut()?;
        if !retry.take_action(channel, now) {
            return None;
        }
        let was_open = retry.is_open(channel);
        retry.take_messages(channel, now, delay);
        let replay = retry.next_replay(channel).filter(|_| free_at <= now);
        if let Some(replay) = replay
            && let Some(arrival) = self.links.send_again(channel, replay, now)
        {
            if let Some(recorder) = &mut self.recorder {
                let packet = (arrival.data, &self.packets[arrival.data]);
                recorder.departs_again(
                    channel,
                    packet,
                    (now, self.links.channel(channel).free_at, arrival.time),
                );
            }
            self.forward(channel, arrival);
        }
        if !was_open && self.links.retry()?.is_open(channel) {
            self.links.reopen(channel, now, &mut self.queue);
        }
        self.expect_retry(channel);
        replay.map(|_| channel)
    }

    /// Discards the state of link-level retry of a channel that goes down. The packets that its receiver has not
    /// accepted are lost.
    #[cold]
    pub fn reset_retry(&mut self, channel: ChannelId) {
        let Some(retry) = self.links.retry_mut() else { return };
        let was_open = retry.is_open(channel);
        for id in retry.reset(channel) {
            let (packet, ledger) = (self.packets[id], self.packets.ledger(id));
            self.remove_lost(channel, id, false, self.now);
            let way = CreditWay { channel, vl: packet.vl, dst: packet.dst };
            let times = ReturnTimes::new(self.now, self.now);
            self.links.release((way, ledger), packet.space, times, &mut self.queue);
        }
        if !was_open {
            self.links.reopen(channel, self.now, &mut self.queue);
        }
    }

    /// Lets the sender of a channel send regardless of what its receiver has announced, because the receiver
    /// has failed.
    #[cold]
    pub fn ignore_receiver(&mut self, channel: ChannelId) {
        // Signal 0 resumes all lanes. It has no effect with credits.
        self.links.obey(channel, 0, self.now, &mut self.queue);
    }

    /// Handles an event of a link with pause frames or link-level retry. Returns the channel on which a frame
    /// was sent, if any.
    pub fn link_event(&mut self, stage: Port, data: u32) -> Option<ChannelId> {
        if stage == Port(Stage::Retry as u16) {
            return self.retry(data);
        }
        if stage == Port(Stage::Freed as u16) {
            let channel = self.links.by_messages_mut()?.left(data, self.now)?;
            self.queue.push(Event { time: self.now, key: Stage::Check.key(), data: channel });
            return None;
        }
        if stage == Port(Stage::Check as u16) {
            return self.check_signal(data);
        }
        match self.notices.take(data) {
            Some(Word::Signal(channel, _)) if self.links.is_stopped(channel) => {}
            Some(Word::Signal(channel, signal)) => {
                if !self.links.obey(channel, signal, self.now, &mut self.queue) {
                    self.report_broken(format!(
                        "a message of flow control for channel {channel} has arrived, but links have credits"
                    ));
                }
            }
            None | Some(Word::Line(_) | Word::Report(_)) => {
                self.report_broken(format!("message {data} of flow control has arrived twice"));
            }
        }
        None
    }

    /// Has the receiver of a channel send a message of flow control, if one is due. Returns the channel on which it was sent,
    /// unless it takes no space.
    fn check_signal(&mut self, channel: ChannelId) -> Option<ChannelId> {
        let now = self.now;
        let control = self.links.by_messages()?;
        let (reverse, takes_space) = (control.reverse(channel), control.bytes() > 0);
        let free_at = if takes_space { self.free_at(reverse) } else { now };
        if free_at == Time::NEVER {
            // The host cannot send. It checks again when its link is up.
            return None;
        }
        match self.links.by_messages_mut()?.check(channel, now, free_at) {
            SignalCheck::Nothing => None,
            SignalCheck::Later(time) => {
                self.queue.push(Event { time, key: Stage::Check.key(), data: channel });
                None
            }
            SignalCheck::Send(signal) => {
                let (time, key) = (self.links.send_signal(channel, now)?, Stage::Obeyed.key());
                if takes_space {
                    self.record_message(reverse, now);
                }
                let word = Word::Signal(channel, signal);
                match self.borders.as_ref().and_then(|borders| borders.sender(channel)) {
                    Some(there) => self.outbox[there].send_notice(time, key, word),
                    None => {
                        let data = self.notices.add(word);
                        self.queue.push(Event { time, key, data });
                    }
                }
                takes_space.then_some(reverse)
            }
        }
    }

    /// Receives the messages from nodes of another partition to nodes of this one. This partition has handled all
    /// events before the times at which the messages take effect.
    pub fn collect(&mut self, mailbox: &mut Mailbox) {
        for PacketMessage { mut packet, marks, announcement, telemetry, time, key } in
            mailbox.packets.drain(..)
        {
            let number = announcement.map(|announcement| self.announcements.add(announcement));
            let is_data = packet.is_data();
            if let Some(number) = number {
                packet.contents.set_announcement(number);
            }
            let data = self.packets.insert(packet);
            self.packets.set_marks(data, marks);
            self.packets.forget_ledger(data);
            if is_data && number.is_some() {
                self.packets.set_announcement(data, number);
            }
            self.packets.set_telemetry(data, telemetry);
            self.queue.push(Event { time, key, data });
        }
        for CreditReturn { way, space, leaves_at, .. } in mailbox.credits.drain(..) {
            let times = ReturnTimes { leaves_at, now: self.now, passed: Time::ZERO };
            self.links.release((way, NO_LEDGER), space, times, &mut self.queue);
        }
        for (time, key, word) in mailbox.notices.drain(..) {
            let data = self.notices.add(word);
            self.queue.push(Event { time, key, data });
        }
    }

    /// The time at which the sender of a channel may send next.
    #[inline(always)]
    pub fn free_at(&self, channel: ChannelId) -> Time {
        self.links.channel(channel).free_at
    }
}
