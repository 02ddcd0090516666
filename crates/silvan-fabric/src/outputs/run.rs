//! Processes a bin: its arrivals, and the decisions of outputs.

use std::sync::Arc;

use silvan_engine::saved::Saved;
use silvan_engine::{Event, Rate, Time};
use silvan_network::port::{Port, Vl};

use super::credit::OutputLedgers;
use super::ordered::BinLimits;
use super::reports::Reports;
use super::{
    Around, Arrival, Bank, Binned, ChannelInput, Company, Feeder, Hashing, InOrder, NONE, OutputLink,
    OutputPlaces, REMOTE, Remote, RemoteOutput, TO_HOST,
};
use crate::context::Context;
use crate::link::{ChannelId, Class, CreditWay, LinkParameters, ReturnClock, key};
use crate::message::{CreditReturn, Entering};
use crate::packet::{NO_LEDGER, PacketId, Pool};
use crate::recorder::RecordedLossKind;
use crate::routes::{Hasher, fields};
use crate::schedule::{Applied, Need, Schedule};
use crate::trimming::Freed;
use crate::voq::{ALL_EVENTS, Head, Output, QueueRoom, Sending, Slot, UNMARKED};

/// The links of outputs, and the reports of their switches to sources.
#[derive(Debug, Saved)]
pub(super) struct OutputLinks {
    pub credits: OutputLedgers,
    #[saved(constant)]
    pub links: Vec<OutputLink>,
    /// Present if switches notify sources themselves.
    pub reports: Option<Box<Reports>>,
    /// Present if receivers return credits at certain times only. Then no credit is booked early.
    #[saved(constant)]
    pub clock: Option<Box<OutputClock>>,
}

/// The times at which receivers return credits to outputs.
#[derive(Debug)]
pub(super) struct OutputClock {
    pub clock: ReturnClock,
    pub places: Arc<OutputPlaces>,
}

/// The event of the arrival of a packet's tail at a host, which has a place in its partition.
#[inline(always)]
pub(super) fn host_arrival(host: u32, time: Time, packet: PacketId) -> Event {
    Event { time, key: key(Class::HostArrival, host, Port::FIRST), data: packet }
}

/// The packets and links of a partition, for outputs with `L` lanes.
struct BinnedLinks<'a, 'p, const L: usize> {
    links: &'a mut OutputLinks,
    around: &'a mut Around<'p>,
}

impl<const L: usize> Schedule for BinnedLinks<'_, '_, L> {
    type Output = Output<L, Binned>;

    #[inline(always)]
    fn packets(&mut self) -> &mut Pool {
        &mut self.around.ctx.packets
    }

    #[inline(always)]
    fn free_at(&self, output: &Self::Output) -> Time {
        output.free_at
    }

    fn rate(&self, output: &Self::Output) -> Rate {
        self.links.links[usize::from(output.own.link)].parameters.rate
    }

    fn sent(&self, output: &Self::Output) -> u64 {
        output.own.sent_bytes
    }

    #[inline(always)]
    fn has_credit(&mut self, output: &mut Self::Output, need: Need) -> bool {
        self.links.credits.has_credit(output, need)
    }

    #[inline(always)]
    fn wait_for_credit(&mut self, output: &mut Self::Output, need: Need) -> Time {
        self.links.credits.wait(output, need)
    }

    fn note_applied(&mut self, output: &Self::Output, applied: Applied) {
        self.around.ctx.meters.fecn_marks += u64::from(applied.is_mark);
        self.around.ctx.meters.validations += u64::from(applied.is_validation);
        if let (Some(report), Some(reports)) = (applied.report, &mut self.links.reports) {
            reports.own.push((output.number, report));
        }
    }

    #[cold]
    fn report_broken(&mut self, output: &Self::Output, what: &str) {
        self.around.ctx.report_broken(format!("output {}: {what}", output.number));
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    #[inline]
    pub(super) fn next_bin(&self) -> Option<u64> {
        let next = match (self.arrivals.next(), self.planned.next()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        match self.pauses.as_ref().and_then(|pauses| pauses.next_bin()) {
            Some(other) => Some(next.map_or(other, |one| one.min(other))),
            None => next,
        }
    }

    #[inline]
    pub(super) fn begin(&mut self, bin: u64) {
        (self.bin, self.start) = (bin, Time(bin << self.shift));
        self.arrivals.turn_to(bin);
        self.planned.turn_to(bin);
        if let Some(pauses) = &mut self.pauses {
            pauses.turn_to(bin);
        }
    }

    #[inline]
    pub(super) fn start(&self) -> Time {
        self.start
    }

    #[inline]
    pub(super) fn end(&self) -> Time {
        self.start + Time(1 << self.shift)
    }

    /// The time of an arrival in the current bin.
    #[inline(always)]
    pub(super) fn time(&self, when: u32) -> Time {
        let Time(start) = self.start;
        Time(start + u64::from(when.wrapping_sub(start as u32)))
    }

    #[inline]
    pub(super) fn sender(&self, channel: ChannelId) -> Option<usize> {
        let output = self.output_of[channel as usize];
        (output != NONE).then_some(output as usize)
    }

    /// The rate and the delays of the link on which an output sends.
    #[inline(always)]
    pub(super) fn link(&self, output: usize) -> &LinkParameters {
        &self.wiring.links[usize::from(self.voq.records[output].own.link)].parameters
    }

    /// See [`super::Outputs::enter`].
    #[inline(always)]
    pub(super) fn enter(&mut self, ctx: &mut Context, entering: Entering) {
        let Entering { channel, packet: id, when } = entering;
        let Some(entry) = self.entries[channel as usize] else {
            ctx.report_broken(format!("channel {channel} leads to no switch of its partition"));
            return;
        };
        let packet = &ctx.packets[id];
        self.arrive(&ctx.packets, entry, Head::of(id, packet), packet.vl.0, when);
    }

    /// The arrival of a packet at an input of a switch, whose table and hash function determine the output.
    #[inline(always)]
    fn arrival(
        &self,
        packets: &Pool,
        (entry, hasher): (ChannelInput, impl Fn(&Hashing) -> Hasher),
        (head, vl): (Head, u8),
        when: Time,
    ) -> Arrival {
        let port = match &self.hashing {
            None => self.routes.port(entry.row, head.dst()),
            Some(all) => self.routes.hashed(hasher(all), head.dst(), || fields(packets, head.packet)),
        };
        Arrival::new(entry.first + u32::from(port.0), head, (entry.input, vl), when)
    }

    /// Determines the output of a packet on its way to a switch.
    #[inline(always)]
    fn arrive(&mut self, packets: &Pool, entry: ChannelInput, head: Head, vl: u8, when: Time) {
        debug_assert!(when >= self.end(), "a packet arrives after the lookahead at the earliest");
        let hasher = |all: &Hashing| all.own[entry.first as usize];
        let arrival = self.arrival(packets, (entry, hasher), (head, vl), when);
        self.arrivals.push(when.0 >> self.shift, arrival);
    }

    /// Same as [`Self::arrive`], but for a switch of another partition.
    #[inline(never)]
    fn arrive_elsewhere(&mut self, around: &mut Around, remote: u32, head: Head, vl: u8, when: Time) {
        let Remote { partition, entry, .. } = self.remotes[remote as usize];
        let packets = &mut around.ctx.packets;
        let hasher = |all: &Hashing| all.remote[remote as usize];
        let arrival = self.arrival(packets, (entry, hasher), (head, vl), when);
        let id = head.packet;
        let carried = (packets[id], packets.marks(id), packets.take_telemetry(id));
        packets.remove(id);
        around.ctx.outbox[usize::from(partition)].send_head(when, arrival, carried);
    }

    /// Schedules a decision of an output, unless one is scheduled for an earlier bin.
    #[inline(always)]
    pub(super) fn plan(&mut self, output: usize, ready: Time) {
        self.planned.schedule(output as u32, ready, &mut self.voq.records[output].own.planned);
    }

    /// Has an output decide at a time, or when its link is free, unless it decides earlier.
    #[inline(always)]
    pub(super) fn wake(&mut self, output: usize, time: Time) {
        let record = &mut self.voq.records[output];
        let ready = time.max(record.free_at);
        if ready < record.own.ready_at {
            record.own.ready_at = ready;
            self.plan(output, ready);
        }
    }

    /// See [`super::Outputs::run`].
    pub(super) fn run(&mut self, around: &mut Around, arrive_before: Time, decide_before: Time) {
        self.run_arrivals(around, arrive_before, decide_before);
        let mut planned = std::mem::take(&mut self.to_decide);
        self.planned.take(&mut planned);
        for (at, &output) in planned.iter().enumerate() {
            self.prefetch_decisions(&around.ctx.packets, &planned, at);
            if !self.planned.is_due(self.voq.records[output as usize].own.planned) {
                continue;
            }
            self.decide(around, output as usize, decide_before);
            let own = &mut self.voq.records[output as usize].own;
            self.planned.schedule_again(output, own.ready_at, &mut own.planned);
        }
        planned.clear();
        self.to_decide = planned;
    }

    /// Handles the arrivals of the current bin up to one time limit, and sends the packets that can leave immediately
    /// up to another.
    fn run_arrivals(&mut self, around: &mut Around, before: Time, decide_before: Time) {
        let mut arrivals = std::mem::take(&mut self.at_hand);
        self.arrivals.take(&mut arrivals);
        if before < self.end() {
            let (bin, before) = (self.bin, before.0);
            arrivals.retain(|arrival| {
                let is_due = self.time(arrival.when).0 < before;
                if !is_due {
                    self.arrivals.push(bin, *arrival);
                }
                is_due
            });
        }
        if MARKS == ALL_EVENTS && self.wiring.reports.is_some() {
            self.put_back_later(&mut arrivals);
        }
        if MARKS == ALL_EVENTS && self.changes.is_some() {
            self.lose_and_route(around, &mut arrivals);
        }
        if MARKS == ALL_EVENTS && self.pauses.is_some() {
            self.store_heads(around, &arrivals, before);
        }
        if self.tails.is_some() {
            self.wait_for_tails(around, &mut arrivals, before);
        }
        self.events += arrivals.len() as u64;
        if MARKS == ALL_EVENTS && self.ordered.is_some() {
            self.run_ordered(around, &mut arrivals, BinLimits { arrive_before: before, decide_before });
        }
        // The order of packets that arrive at one instant matters only if they share a queue, if one of them may be trimmed
        // because of the others, or if the marking rule counts the inputs or samples arrivals.
        let trims = MARKS == ALL_EVENTS && self.trimmer.is_some();
        let needs_order = FIFO || trims || MARKS != UNMARKED && self.marking.needs_order();
        let (start, width) = (self.start().0 as u32, 1u32 << self.shift);
        for (at, arrival) in arrivals.iter().enumerate() {
            self.prefetch_arrivals(&around.ctx.packets, &arrivals, at);
            let own = &mut self.voq.records[arrival.output as usize].own;
            if own.stamp.wrapping_sub(start) < width {
                let in_order = needs_order || own.stamp != arrival.when;
                let company = if in_order { Company::Several } else { Company::Together };
                own.raise_company(company);
            } else {
                own.stamp = arrival.when;
                let company = if MARKS == ALL_EVENTS && arrival.is_message() {
                    Company::Several
                } else {
                    Company::Alone
                };
                own.set_company(company);
            }
        }
        for (at, arrival) in arrivals.iter().enumerate() {
            self.prefetch_landing(&around.ctx.packets, &arrivals, at);
            let company = self.voq.records[arrival.output as usize].own.company();
            if company == Company::Several {
                let since = arrival.when.wrapping_sub(start);
                let Arrival { output, input, .. } = *arrival;
                self.several.push(InOrder::new(output, since, input, at));
                continue;
            }
            let leave_before = if company == Company::Alone { decide_before } else { Time::ZERO };
            self.land(around, arrival, leave_before, decide_before);
        }
        if !self.several.is_empty() {
            let mut several = std::mem::take(&mut self.several);
            several.sort_unstable();
            for (at, item) in several.iter().enumerate() {
                // Only the last arrival of an instant may leave at once: all arrivals of an instant precede its decisions.
                let is_last = several.get(at + 1).is_none_or(|next| !next.is_same_instant(*item));
                let leave_before = if is_last { decide_before } else { Time::ZERO };
                self.land(around, &arrivals[item.at()], leave_before, decide_before);
            }
            several.clear();
            self.several = several;
        }
        arrivals.clear();
        self.at_hand = arrivals;
    }

    /// Handles the arrival of a packet at an output, which first makes its earlier decisions. If no other packet waits
    /// there, the packet may leave immediately, provided that it arrives before `leave_before`. That is the limit for
    /// decisions, or [`Time::ZERO`] if other arrivals of the same instant follow. Notifications leave before
    /// `decide_before`.
    #[inline(always)]
    pub(super) fn land(
        &mut self,
        around: &mut Around,
        arrival: &Arrival,
        leave_before: Time,
        decide_before: Time,
    ) {
        if MARKS == ALL_EVENTS && arrival.is_notice() {
            return self.forward(around, arrival, decide_before);
        }
        let now = self.time(arrival.when);
        self.decide(around, arrival.output as usize, now);
        if MARKS == ALL_EVENTS && arrival.is_pause() {
            return self.obey(around, arrival, now);
        }
        if !(now < leave_before && self.pass_on(around, now, arrival)) {
            self.enqueue(around, now, arrival);
        }
    }

    /// Sends a packet that has just arrived if no other packet waits or arrives at this time, there is credit, and the
    /// marking rule does not need the change. The result is the same as that of [`Self::enqueue`] and [`Self::settle`].
    #[inline(always)]
    fn pass_on(&mut self, around: &mut Around, now: Time, arrival: &Arrival) -> bool {
        let (slot, head) = (arrival.slot::<LANES>(), arrival.head());
        let (output, vl) = (slot.output(), slot.vl());
        if self.voq.records[output].free_at > now || !self.voq.may_pass(output, vl, head.size, &self.marking)
        {
            return false;
        }
        let need = Need { output, vl, dst: head.dst(), space: head.space, now };
        if !self.wiring.credits.has_credit(&mut self.voq.records[output], need) {
            return false;
        }
        let Self { voq, marking, wiring, .. } = self;
        voq.passes(&mut BinnedLinks { links: wiring, around }, marking, slot, head, now);
        if MARKS == ALL_EVENTS
            && let Some(trimmer) = &self.trimmer
        {
            trimmer.note_headers(Vl::new(vl), head.size, &mut around.ctx.meters);
        }
        self.events += 1;
        self.transmit(around, Sending { slot, head }, now);
        true
    }

    /// Queues a packet that may leave from now on, or the header of a packet that is trimmed.
    #[inline(always)]
    pub(super) fn enqueue(&mut self, around: &mut Around, now: Time, arrival: &Arrival) {
        let (slot, head) = (arrival.slot::<LANES>(), arrival.head());
        if MARKS == ALL_EVENTS && self.trimmer.is_some() {
            return self.enqueue_or_trim(around, now, slot, head);
        }
        self.push(around, now, slot, head);
    }

    /// Same as [`Self::enqueue`], if switches trim packets.
    #[inline(never)]
    fn enqueue_or_trim(&mut self, around: &mut Around, now: Time, slot: Slot, head: Head) {
        let Self { voq, trimmer: Some(trimmer), .. } = self else { return };
        let room = if head.is_data() { voq.make_room(trimmer, slot, head.size) } else { QueueRoom::Enough };
        match room {
            QueueRoom::Enough => {}
            QueueRoom::Trimmed => return self.trim(around, now, slot, head.packet),
            QueueRoom::Replaces(newest, packet) => self.trim(around, now, newest, packet),
        }
        self.push(around, now, slot, head);
        self.note_headers(around, slot);
    }

    /// Trims a packet: returns the credit for it to the sender, and queues the header at the output.
    fn trim(&mut self, around: &mut Around, now: Time, slot: Slot, id: PacketId) {
        let Some(trimmer) = &mut self.trimmer else { return };
        let output = slot.output();
        let Freed { vl, dst, space } =
            trimmer.cut(output, &mut around.ctx.packets, &mut around.ctx.meters, id);
        if let Some(recorder) = &mut around.ctx.recorder {
            recorder.lost(id, recorder.channel(output), now, RecordedLossKind::Trimmed);
        }
        let feeder = output - usize::from(self.voq.records[output].number) + slot.input();
        self.return_credit(around, feeder, (vl.index(), dst), (now, now), space);
        let header = &around.ctx.packets[id];
        let (slot, head) = (Slot::new(output, header.vl.index(), slot.input()), Head::of(id, header));
        self.push(around, now, slot, head);
        self.note_headers(around, slot);
    }

    /// Notes the bytes of a lane after a packet was added to it.
    fn note_headers(&self, around: &mut Around, slot: Slot) {
        if let Some(trimmer) = &self.trimmer {
            let bytes = self.voq.records[slot.output()].lanes[slot.vl()].sum;
            trimmer.note_headers(Vl::new(slot.vl()), bytes, &mut around.ctx.meters);
        }
    }

    #[inline(always)]
    fn push(&mut self, around: &mut Around, now: Time, slot: Slot, head: Head) {
        let Self { voq, marking, wiring, .. } = self;
        let may_send = voq.enqueue(&mut BinnedLinks { links: wiring, around }, marking, slot, head, now);
        if may_send {
            self.wake(slot.output(), now);
        }
    }

    /// Makes all decisions of an output that are due before a time.
    #[inline(always)]
    pub(super) fn decide(&mut self, around: &mut Around, output: usize, before: Time) {
        while self.voq.records[output].own.ready_at < before {
            self.settle(around, output);
        }
    }

    /// Sends from an output, if possible.
    #[inline(always)]
    fn settle(&mut self, around: &mut Around, output: usize) {
        self.events += 1;
        let now = self.voq.records[output].own.ready_at;
        let Self { voq, marking, wiring, .. } = self;
        match voq.settle(&mut BinnedLinks { links: wiring, around }, marking, output, now) {
            Ok(sending) => self.transmit(around, sending, now),
            Err(ready) => self.voq.records[output].own.ready_at = ready,
        }
    }

    /// Handles a packet whose head and tail reach a host at the given times. The time at which the host will have
    /// drained the packet is already known, and therefore also the time at which its credit returns. The packet is
    /// delivered immediately if the host does not answer it, no rank waits for it, and there is no sample before.
    #[inline(always)]
    fn deliver<const IS_WATCHED: bool>(
        &mut self,
        around: &mut Around,
        sending: Sending,
        host: u32,
        (head_at, tail_at): (Time, Time),
    ) {
        let Sending { slot, head } = sending;
        let (output, vl) = (slot.output(), slot.vl());
        if IS_WATCHED && self.leaves_to_host(around, sending, host, tail_at) {
            return;
        }
        let packet = &mut around.ctx.packets[head.packet];
        let is_data = packet.is_data();
        let sink = &mut around.ctx.sinks[host as usize];
        let done = sink.take_in(&mut around.ctx.meters, packet, (head_at, tail_at), self.may_reorder);
        if IS_WATCHED && let Some(recorder) = &mut around.ctx.recorder {
            recorder.drained(recorder.channel(output), tail_at, done);
        }
        let is_quiet = !packet.fecn && !self.acts_on_all && !around.ctx.meters.ends_message(packet);
        if is_data && is_quiet {
            self.events += 1;
            around.ctx.meters.will_deliver(packet, (tail_at, done));
            around.ctx.packets.remove(head.packet);
        } else {
            packet.tail_lag = done - tail_at;
            around.ctx.queue.push(host_arrival(host, tail_at, head.packet));
        }
        let back = done + self.link(output).delay;
        // If packets get lost, the space of data becomes free earlier than a host could drain it.
        if is_data && !IS_WATCHED {
            self.credit_of_drained(output, vl, back, head.space);
        } else {
            self.credit(output, vl, back, head.space);
        }
    }

    /// Puts a packet on the wire and returns the credit for its space.
    #[inline(always)]
    fn transmit(&mut self, around: &mut Around, sending: Sending, now: Time) {
        if MARKS == ALL_EVENTS && self.is_watched {
            self.transmit_watched(around, sending, now);
        } else {
            self.transmit_as::<false>(around, sending, now);
        }
    }

    /// Same as [`Self::transmit`], if links change during the run, or departures are recorded.
    #[inline(never)]
    fn transmit_watched(&mut self, around: &mut Around, sending: Sending, now: Time) {
        self.transmit_as::<true>(around, sending, now);
    }

    /// `IS_WATCHED` states whether links may change during the run, or departures may be recorded.
    #[inline(always)]
    fn transmit_as<const IS_WATCHED: bool>(&mut self, around: &mut Around, sending: Sending, now: Time) {
        let Sending { slot, mut head } = sending;
        let (output, vl, input) = (slot.output(), slot.vl(), slot.input());
        let occupied = head.space;
        if MARKS == ALL_EVENTS
            && occupied == 0
            && let Some(trimmer) = &self.trimmer
        {
            // The memory of a packet that was trimmed here has already been returned.
            head.space = trimmer.leaves(&mut around.ctx.packets[head.packet]);
        }
        let at = self.wiring.credits.index::<LANES>(output, vl);
        let record = &mut self.voq.records[output];
        let link = &mut self.wiring.links[usize::from(record.own.link)].parameters;
        let span = link.span(head.size);
        let (delay, arrives_at) = (link.delay, now + link.until_arrival(span));
        self.wiring.credits.spend(at, &mut record.lanes[vl], head.space);
        let end = now + span;
        record.free_at = end;
        let own = &mut record.own;
        own.sent_bytes += u64::from(head.size);
        own.ready_at = if record.waiting == 0 { Time::NEVER } else { end };
        self.hops += 1;
        let (peer, row, far_input, feeder) =
            (own.peer(), own.row, own.input, output - usize::from(record.number) + input);
        if MARKS == ALL_EVENTS
            && let (Some(pauses), Some(frames)) = (&mut self.pauses, around.ctx.links.frames_mut())
        {
            pauses.leaves(frames, (feeder, output), vl, head.space, end);
        }
        if IS_WATCHED {
            around.ctx.packets[head.packet].tail_lag = span;
            if let Some(recorder) = &mut around.ctx.recorder {
                let arrives_at = if row == TO_HOST { end + delay } else { arrives_at };
                let (from, packet) = ((recorder.channel(output), false), (head.packet, &around.ctx.packets));
                recorder.departs(from, packet, (now, end, arrives_at));
            }
        }
        if row == TO_HOST {
            self.deliver::<IS_WATCHED>(around, Sending { slot, head }, peer, (now + delay, end + delay));
        } else if row == REMOTE {
            self.arrive_elsewhere(around, peer, head, vl as u8, arrives_at);
        } else {
            let entry = ChannelInput { first: peer, row, input: far_input };
            self.arrive(&around.ctx.packets, entry, head, vl as u8, arrives_at);
        }
        if occupied > 0 {
            self.return_credit(around, feeder, (vl, head.dst()), (end, now), occupied);
        }
    }

    /// Returns the credit for a packet, whose space becomes free at `freed`, to the sender at an input.
    #[inline(always)]
    pub(super) fn return_credit(
        &mut self,
        around: &mut Around,
        feeder: usize,
        (vl, dst): (usize, u32),
        (freed, now): (Time, Time),
        space: u32,
    ) {
        match self.feeders[feeder] {
            Feeder::Output(feeder) => {
                let feeder = feeder as usize;
                self.credit(feeder, vl, freed + self.link(feeder).delay, space);
            }
            Feeder::Remote(sender) => {
                let RemoteOutput { partition, channel, delay, .. } = self.senders[sender as usize];
                let way = CreditWay { channel, vl: Vl::new(vl), dst };
                let credit = CreditReturn { way, space, leaves_at: freed, ledger: NO_LEDGER };
                around.ctx.outbox[usize::from(partition)].send_credit(credit, freed + delay);
            }
            Feeder::Host(channel) => {
                self.credit_host(around, CreditWay { channel, vl: Vl::new(vl), dst }, (freed, now), space);
            }
        }
    }
}

impl Arrival {
    #[inline(always)]
    fn new(output: u32, head: Head, (input, vl): (u8, u8), when: Time) -> Self {
        let Head { packet, to, size, space } = head;
        let (size, space) = (size as u16, space as u16);
        Self { output, packet, when: when.0 as u32, to, size, space, input: input.into(), vl }
    }

    #[inline(always)]
    pub(super) fn head(&self) -> Head {
        Head { packet: self.packet, to: self.to, size: self.size.into(), space: self.space.into() }
    }

    #[inline(always)]
    pub(super) fn slot<const LANES: usize>(&self) -> Slot {
        Slot::new(self.output as usize, usize::from(self.vl) % LANES, self.input_index())
    }

    /// Whether this is a notification or a pause frame.
    #[inline(always)]
    pub(super) fn is_message(&self) -> bool {
        self.is_notice() || self.is_pause()
    }
}
