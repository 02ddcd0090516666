//! The outputs of InfiniBand VOQ switches (Paper I, section 3.1), with input buffers, one virtual output
//! queue per output, and a read port per queue. Both schedulers run this code, but only the binned scheduler
//! runs the variant with one queue per lane of an output ([`fifo`]).
//!
//! ```text
//!  in 0  =[ to 0 | to 1 | to 2 ]=--\      each output serves the inputs that have
//!  in 1  =[ to 0 | to 1 | to 2 ]=---*== out 1      packets for it round robin, and
//!  in 2  =[ to 0 | to 1 | to 2 ]=--/      its virtual lanes likewise
//! ```
//!
//! An input can feed several outputs at the same time. After an output has served an input, it serves all
//! other requesting inputs before it serves that input again. An input whose packet lacks credit keeps its
//! turn, because otherwise small packets could overtake large ones indefinitely.
//!
//! No output reads or changes the state of another output. The decisions of an output depend only on the
//! packets that arrive for it and on the credit of its own link. The scheduler decides when to settle an
//! output, and supplies packets and credit through [`Schedule`].

mod fifo;
mod observe;
mod record;
#[cfg(test)]
mod tests;

use silvan_congestion::facts::{QueueChange, QueueFill};
use silvan_engine::Time;
use silvan_engine::cache::{prefetch, prefetch_lines};
use silvan_engine::saved::Saved;
use silvan_network::port::{LaneOrder, Port, Vl};
use silvan_network::port_set::{PortSet, Ports256, next_of};

use crate::lane_tables::LaneArbiters;
use crate::packet::{Fifo, PacketId, Pool};
use crate::schedule::{Need, Schedule};
use crate::switch_marking::{MarkedLane, OutputFill, SwitchMarking};

pub(crate) use record::{Head, MOST_HOSTS, MOST_INPUTS, Output, OutputLane};

/// Number of virtual lanes of the variant that supports all networks. This variant does not store the heads of queues.
pub(crate) const MOST_LANES: usize = 16;

/// An output, one of its virtual lanes, and an input of its switch. The type is small enough for a register.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    output: u32,
    vl: u8,
    input: u16,
}

impl Slot {
    #[inline(always)]
    pub fn new(output: usize, vl: usize, input: usize) -> Self {
        Self { output: output as u32, vl: vl as u8, input: input as u16 }
    }

    #[inline(always)]
    pub fn output(self) -> usize {
        self.output as usize
    }

    #[inline(always)]
    pub fn vl(self) -> usize {
        self.vl.into()
    }

    #[inline(always)]
    pub fn input(self) -> usize {
        self.input.into()
    }
}

/// Whether a data packet fits into the queue of its output.
#[derive(Debug, Clone, Copy)]
pub(crate) enum QueueRoom {
    Enough,
    /// The packet must be trimmed.
    Trimmed,
    /// The packet takes the place of the newest packet of the queue, which has been removed and must be
    /// trimmed.
    Replaces(Slot, PacketId),
}

/// There is no marking rule.
pub(crate) const UNMARKED: u8 = 0;
/// The marking rule needs changes of the queues and departures.
pub(crate) const DEPARTURES: u8 = 1;
/// In addition, the marking rule may need arrivals.
pub(crate) const ALL_EVENTS: u8 = 2;

/// A packet that an output starts to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sending {
    pub slot: Slot,
    pub head: Head,
}

/// The packet that a lane sends next.
#[derive(Debug, Clone, Copy)]
struct NextPacket {
    slot: Slot,
    head: Head,
    /// Its position among the stored heads.
    place: Option<usize>,
}

/// The error if a lane is marked as having packets and has none. It would never be served again.
const MISSING_PACKET: &str = "an output has a lane with requests, but without packets";

/// The outputs of one switch, or of all switches of a partition, with up to `LANES` virtual lanes. `MARKS` states which
/// calls the marking rule needs. If `FIFO`, the packets of all inputs share a queue per lane. `X` is the data that the
/// scheduler stores with each output.
#[derive(Debug, Saved)]
pub(crate) struct VoqOutputs<const LANES: usize, const MARKS: u8, const FIFO: bool, X> {
    pub records: Box<[Output<LANES, X>]>,
    /// The packets that are not stored heads, indexed by `[(output * lanes + vl) * width + input]`.
    queues: Box<[Fifo]>,
    /// Number of inputs of the largest switch.
    #[saved(constant)]
    width: usize,
    /// Virtual lanes in use, at most `LANES`.
    #[saved(constant)]
    lanes: usize,
    /// The lane that outputs serve before all others, as a bit; zero if all lanes take turns.
    #[saved(constant)]
    first: u16,
    /// Requests of inputs with numbers from 64, per output and lane; empty if no switch has more than 64 ports, or if there is a
    /// queue per lane.
    beyond: Box<[[u64; 3]]>,
    /// Bytes per queue; empty unless the marking rule reads single queues.
    queue_bytes: Box<[u32]>,
    /// The queues of lanes if `FIFO`, which are then the only queues, without their first packets.
    fifos: Box<[fifo::FifoLane]>,
    /// Select the lanes of outputs instead of their turns, if they do so by tables; only in the variant for all networks.
    pub arbiters: Option<Box<LaneArbiters>>,
    /// Whether control packets precede data if `FIFO`. Tear-down packets are an exception: they stay behind
    /// the data of their flow.
    pub control_first: bool,
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool, X> VoqOutputs<LANES, MARKS, FIFO, X> {
    /// Whether this variant supports any number of lanes and ports, packets of any size, and marking rules that read
    /// single queues.
    const IS_GENERAL: bool = LANES == MOST_LANES;

    /// `width` is the number of inputs of the largest switch; `order` contains the virtual lanes in use.
    pub fn new(
        mut records: Vec<Output<LANES, X>>,
        width: usize,
        LaneOrder { lanes, first }: LaneOrder,
        reads_queues: bool,
        marking: &SwitchMarking,
    ) -> Self {
        debug_assert!(Self::IS_GENERAL || lanes == LANES && (FIFO || width <= 64 && !reads_queues));
        let count = records.len() * lanes;
        let queues = if FIFO { 0 } else { count * width };
        if let (Some(first), false) = (first, Self::IS_GENERAL) {
            // With two lanes, the turn always stays with the lane that precedes the other.
            records.iter_mut().for_each(|record| record.turn = first.0);
        }
        if MARKS != UNMARKED {
            for (output, record) in records.iter_mut().enumerate() {
                for (vl, lane) in record.lanes[..lanes].iter_mut().enumerate() {
                    lane.above = marking.needs_all(output * lanes + vl);
                }
            }
        }
        Self {
            records: records.into(),
            queues: vec![Fifo::default(); queues].into(),
            width,
            lanes,
            first: first.map_or(0, |first| 1 << first.0),
            beyond: vec![[0; 3]; if width > 64 && !FIFO { count } else { 0 }].into(),
            queue_bytes: vec![0; if reads_queues { queues } else { 0 }].into(),
            fifos: (0..if FIFO { count } else { 0 }).map(|_| fifo::FifoLane::default()).collect(),
            arbiters: None,
            control_first: false,
        }
    }

    /// Index into the arrays with one entry per output and lane.
    #[inline(always)]
    pub fn lane_index(&self, output: usize, vl: usize) -> usize {
        if Self::IS_GENERAL { output * self.lanes + vl } else { output * LANES + vl }
    }

    /// Virtual lanes in use.
    #[inline(always)]
    pub fn lanes(&self) -> usize {
        if Self::IS_GENERAL { self.lanes } else { LANES }
    }

    #[inline(always)]
    fn queue_index(&self, slot: Slot) -> usize {
        self.lane_index(slot.output(), slot.vl()) * self.width + slot.input()
    }

    /// Queues a packet that may leave immediately. Returns whether the output should be settled when its link
    /// is free. The result is false if an earlier packet of the lane that needs no more space lacks credit.
    #[inline(always)]
    pub fn enqueue<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        slot: Slot,
        head: Head,
        now: Time,
    ) -> bool {
        let queue = self.queue_index(slot);
        let (output, vl, input) = (slot.output(), slot.vl(), slot.input());
        let vl = vl % LANES;
        let bit = 1u64 << (input % 64);
        let record = &mut self.records[output];
        if FIFO {
            self.push_last(schedule.packets(), slot, head);
        } else if Self::IS_GENERAL {
            self.queues[queue].push(head.packet, schedule.packets());
            if let Some(bytes) = self.queue_bytes.get_mut(queue) {
                *bytes += head.size;
            }
            self.set_request(slot, true);
        } else {
            let is_first = record.lanes[vl].requests & bit == 0;
            if !is_first || !record.hold(vl, input, head) {
                record.lanes[vl].more |= bit;
                self.queues[queue].push(head.packet, schedule.packets());
            }
            record.lanes[vl].requests |= bit;
        }
        let record = &mut self.records[output];
        record.waiting |= 1 << vl;
        let lane = &mut record.lanes[vl];
        lane.sum += head.size;
        let (sum, above, blocked) = (lane.sum, lane.above, lane.blocked);
        if MARKS != UNMARKED {
            if MARKS == ALL_EVENTS && marking.watches_arrivals() {
                self.arrives(schedule, marking, slot, head, now);
            }
            if marking.watches_queues() && (sum > marking.quiet_fill() || above) {
                self.queue_changed(schedule, marking, slot, now);
            }
        }
        blocked == 0 || head.space < blocked
    }

    /// Records whether an input has packets for an output and lane.
    #[inline]
    fn set_request(&mut self, slot: Slot, on: bool) {
        let at = self.lane_index(slot.output(), slot.vl());
        let word = match slot.input() / 64 {
            0 => &mut self.records[slot.output()].lanes[slot.vl()].requests,
            beyond => &mut self.beyond[at][beyond - 1],
        };
        let bit = 1 << (slot.input() % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }

    /// The inputs that have packets for an output and lane.
    fn inputs(&self, output: usize, vl: usize) -> Ports256 {
        let at = self.lane_index(output, vl);
        let [a, b, c] = self.beyond.get(at).copied().unwrap_or_default();
        Ports256::from_words([self.records[output].lanes[vl].requests, a, b, c])
    }

    /// The input to serve next.
    #[inline(always)]
    fn next_input(&self, output: usize, vl: usize) -> Option<Port> {
        let OutputLane { requests, turn, .. } = self.records[output].lanes[vl];
        let turn = Port(u16::from(turn));
        if Self::IS_GENERAL && !self.beyond.is_empty() {
            return self.inputs(output, vl).next(turn);
        }
        next_of(requests, turn)
    }

    /// The place of a lane in the state of the marking rule.
    #[inline(always)]
    fn marking_lane(&self, slot: Slot) -> MarkedLane {
        let (output, vl) = (slot.output(), slot.vl());
        MarkedLane { output, lane: self.lane_index(output, vl), vl }
    }

    /// Applies the marking rule to a packet that has just arrived.
    #[inline(always)]
    fn arrives<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        slot: Slot,
        head: Head,
        now: Time,
    ) {
        let (at, record) = (self.marking_lane(slot), &self.records[slot.output()]);
        marking.arrives(schedule, record, at, record.lanes[slot.vl()].sum, head.judged(), now);
    }

    /// Reports a change in the size of a queue to the marking rule.
    #[inline(never)]
    fn queue_changed<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        slot: Slot,
        now: Time,
    ) {
        let (output, vl, input) = (slot.output(), slot.vl(), slot.input());
        let (queue, inputs) = if FIFO {
            // All inputs share this queue.
            let bytes = self.records[output].lanes[vl].sum;
            (Some(QueueFill { input: Port::new(input), bytes }), Ports256::EMPTY)
        } else if Self::IS_GENERAL {
            let bytes = self.queue_bytes.get(self.queue_index(slot));
            let queue = bytes.map(|&bytes| QueueFill { input: Port::new(input), bytes });
            (queue, self.inputs(output, vl))
        } else {
            (None, Ports256::from_words([self.records[output].lanes[vl].requests, 0, 0, 0]))
        };
        let at = self.marking_lane(slot);
        let record = &mut self.records[output];
        let change = QueueChange { now, queue, queue_bytes: record.lanes[vl].sum, inputs };
        record.lanes[vl].above = marking.queue_changed(schedule, record, at, &change);
    }

    /// Applies the marking rule to a packet that starts to leave.
    #[inline(never)]
    fn departs<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        slot: Slot,
        head: Head,
        now: Time,
    ) {
        let (at, record) = (self.marking_lane(slot), &mut self.records[slot.output()]);
        let fill = OutputFill::of_queues(record.lanes[slot.vl()].sum);
        marking.departs(schedule, record, at, fill, head.judged(), now);
    }

    /// Selects the packet that an output with a free link sends now, and removes it from its queue. If no
    /// packet can be sent, returns the time at which a packet will have credit, or [`Time::NEVER`] if this
    /// time is not known.
    #[inline(always)]
    pub fn settle<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        output: usize,
        now: Time,
    ) -> Result<Sending, Time> {
        if LANES == 1 {
            return self.settle_lane(schedule, marking, (output, 0), now);
        }
        if Self::IS_GENERAL && self.arbiters.is_some() {
            return self.settle_by_tables(schedule, marking, output, now);
        }
        let mut wake = Time::NEVER;
        let mut waiting = self.records[output].waiting;
        if Self::IS_GENERAL && waiting & self.first != 0 {
            let vl = self.first.trailing_zeros() as usize % LANES;
            match self.settle_lane(schedule, marking, (output, vl), now) {
                Ok(sending) => return Ok(sending),
                Err(ready) => wake = ready,
            }
            waiting &= !self.first;
        }
        // Try the lanes starting with `turn` first, then the lanes before it.
        let ahead = waiting & (u16::MAX << self.records[output].turn);
        for mut lanes in [ahead, waiting & !ahead] {
            while lanes != 0 {
                let vl = lanes.trailing_zeros() as usize % LANES;
                lanes &= lanes - 1;
                match self.serve_lane(schedule, marking, (output, vl), now) {
                    Ok(sending) => return Ok(sending),
                    Err(ready) => wake = wake.min(ready),
                }
            }
        }
        Err(wake)
    }

    /// Same as [`Self::settle`], if outputs select lanes by tables.
    #[inline(never)]
    fn settle_by_tables<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        output: usize,
        now: Time,
    ) -> Result<Sending, Time> {
        let mut wake = Time::NEVER;
        let waiting = self.records[output].waiting;
        let lanes = self.arbiters.as_ref().map(|arbiters| arbiters.sequence(output)).unwrap_or_default();
        for vl in lanes.filter(|vl| waiting >> vl.0 & 1 == 1) {
            match self.serve_lane(schedule, marking, (output, vl.index()), now) {
                Ok(sending) => return Ok(sending),
                Err(ready) => wake = wake.min(ready),
            }
        }
        Err(wake)
    }

    /// Same as [`Self::settle_lane`], and records that the lane has been served.
    #[inline(always)]
    fn serve_lane<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        (output, vl): (usize, usize),
        now: Time,
    ) -> Result<Sending, Time> {
        let sending = self.settle_lane(schedule, marking, (output, vl), now)?;
        self.served(output, vl, sending.head.size);
        Ok(sending)
    }

    /// Records that an output has served a lane with a packet of `bytes`: without tables, the turn moves to the lane
    /// after it. A lane that precedes all others takes no turns.
    #[inline(always)]
    fn served(&mut self, output: usize, vl: usize, bytes: u32) {
        let lanes = self.lanes();
        if Self::IS_GENERAL
            && let Some(arbiters) = &mut self.arbiters
        {
            return arbiters.served(output, Vl::new(vl), bytes);
        }
        if self.first == 0 || Self::IS_GENERAL && self.first >> vl & 1 == 0 {
            self.records[output].served(vl, lanes);
        }
    }

    #[inline(always)]
    fn settle_lane<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        (output, vl): (usize, usize),
        now: Time,
    ) -> Result<Sending, Time> {
        self.records[output].lanes[vl].blocked = 0;
        let Some(NextPacket { slot, head, place }) = self.next_packet(schedule.packets(), (output, vl))
        else {
            let record = &self.records[output];
            if record.waiting >> vl & 1 != 0 {
                schedule.report_broken(record, MISSING_PACKET);
            }
            return Err(Time::NEVER);
        };
        let record = &mut self.records[output];
        let need = Need { output, vl, dst: head.dst(), space: head.space, now };
        if !schedule.has_credit(record, need) {
            record.lanes[vl].blocked = head.space;
            return Err(schedule.wait_for_credit(record, need));
        }
        self.take_head(schedule.packets(), NextPacket { slot, head, place });
        let lane = &mut self.records[output].lanes[vl];
        lane.sum -= head.size;
        // After the last of 256 inputs, it is the turn of the first.
        lane.turn = (slot.input as u8).wrapping_add(1);
        if FIFO && lane.sum == 0 {
            self.records[output].waiting &= !(1 << vl);
        }
        let lane = &mut self.records[output].lanes[vl];
        if MARKS != UNMARKED && (lane.sum > marking.quiet_fill() || lane.above) {
            if marking.watches_queues() {
                self.queue_changed(schedule, marking, slot, now);
            }
            if self.records[output].lanes[vl].above {
                self.departs(schedule, marking, slot, head, now);
            }
        }
        Ok(Sending { slot, head })
    }

    /// The packet that a lane sends next.
    #[inline(always)]
    fn next_packet(&self, packets: &Pool, (output, vl): (usize, usize)) -> Option<NextPacket> {
        if FIFO {
            return self.first(output, vl).map(|(slot, head)| NextPacket { slot, head, place: None });
        }
        let input = self.next_input(output, vl)?.index();
        let slot = Slot::new(output, vl, input);
        let record = &self.records[output];
        let place = if Self::IS_GENERAL { None } else { record.find(vl, input) };
        let head = match place {
            Some(place) => record.head(place),
            None => {
                let id = self.queues[self.queue_index(slot)].head()?;
                Head::of(id, &packets[id])
            }
        };
        Some(NextPacket { slot, head, place })
    }

    /// Removes the packet at the head of a queue.
    #[inline(always)]
    fn take_head(&mut self, packets: &mut Pool, NextPacket { slot, head, place }: NextPacket) {
        if FIFO {
            return self.pop_first(slot, head);
        }
        let queue = self.queue_index(slot);
        let (output, vl, input) = (slot.output(), slot.vl(), slot.input());
        if Self::IS_GENERAL {
            let taken = self.queues[queue].pop(packets);
            if let (Some(bytes), Some(id)) = (self.queue_bytes.get_mut(queue), taken) {
                *bytes -= packets[id].size;
            }
            if self.queues[queue].is_empty() {
                self.set_request(slot, false);
                if self.inputs(output, vl).is_empty() {
                    self.records[output].waiting &= !(1 << vl);
                }
            }
            return;
        }
        let record = &mut self.records[output];
        let bit = 1u64 << (input % 64);
        let lane = &mut record.lanes[vl];
        if lane.more & bit == 0 {
            lane.requests &= !bit;
            if let Some(place) = place {
                record.free(place);
            }
        } else {
            let queue = &mut self.queues[queue];
            let taken = queue.pop(packets);
            if queue.is_empty() {
                lane.more &= !bit;
                if place.is_none() {
                    lane.requests &= !bit;
                }
            }
            if let (Some(place), Some(id)) = (place, taken) {
                record.replace(place, Head::of(id, &packets[id]));
            }
        }
        let record = &mut self.records[output];
        if record.lanes[vl].requests == 0 {
            record.waiting &= !(1 << vl);
        }
    }

    /// Whether a packet that has just arrived at an idle output may leave immediately. This requires that no other
    /// packet waits and that the marking rule does not need the fill of the queue.
    #[inline(always)]
    pub fn may_pass(&self, output: usize, vl: usize, size: u32, marking: &SwitchMarking) -> bool {
        let record = &self.records[output];
        let needs_fill = || size > marking.quiet_fill() || record.lanes[vl].above;
        record.waiting == 0 && !(MARKS != UNMARKED && marking.watches_queues() && needs_fill())
    }

    /// Accounts for a packet that passes an idle output without waiting, as if the packet had been enqueued and
    /// settled.
    #[inline(always)]
    pub fn passes<S: Schedule<Output = Output<LANES, X>>>(
        &mut self,
        schedule: &mut S,
        marking: &mut SwitchMarking,
        slot: Slot,
        head: Head,
        now: Time,
    ) {
        if MARKS == ALL_EVENTS && marking.watches_arrivals() {
            self.records[slot.output()].lanes[slot.vl()].sum = head.size;
            self.arrives(schedule, marking, slot, head, now);
            self.records[slot.output()].lanes[slot.vl()].sum = 0;
        }
        self.records[slot.output()].lanes[slot.vl()].turn = (slot.input as u8).wrapping_add(1);
        if MARKS != UNMARKED && self.records[slot.output()].lanes[slot.vl()].above {
            // The rule needs departures, but no changes of queues.
            self.departs(schedule, marking, slot, head, now);
        }
        if LANES > 1 {
            self.served(slot.output(), slot.vl(), head.size);
        }
    }

    /// Prefetches an output's record.
    #[inline(always)]
    pub fn prefetch(&self, output: usize) {
        prefetch_lines::<_, 2>(&self.records, output);
    }

    /// Prefetches the queue of an input.
    #[inline(always)]
    pub fn prefetch_queue(&self, slot: Slot) {
        if FIFO {
            return prefetch(&self.fifos, self.lane_index(slot.output(), slot.vl()));
        }
        prefetch(&self.queues, self.queue_index(slot));
    }

    /// The input that an output serves next, on the first lane that has packets.
    #[inline(always)]
    pub fn next_slot(&self, output: usize) -> Option<Slot> {
        if FIFO {
            return self.first_of_all(output).map(|(slot, _)| slot);
        }
        let waiting = self.records[output].waiting;
        let vl = if LANES == 1 { 0 } else { waiting.trailing_zeros() as usize % LANES };
        let input = self.next_input(output, vl)?.index();
        Some(Slot::new(output, vl, input))
    }

    /// The packet at the head of the queue of an input, if the output stores it.
    #[inline(always)]
    pub fn stored_head(&self, slot: Slot) -> Option<PacketId> {
        if FIFO {
            return self.first(slot.output(), slot.vl()).map(|(_, head)| head.packet);
        }
        if Self::IS_GENERAL {
            return None;
        }
        let record = &self.records[slot.output()];
        record.find(slot.vl(), slot.input()).map(|place| record.head(place).packet)
    }

    /// The queue of an input for an output and lane, as its stored head and the packets behind it.
    fn queue(&self, slot: Slot) -> (Option<Head>, Fifo) {
        let record = &self.records[slot.output()];
        if FIFO {
            return (None, Fifo::default());
        }
        let held = if Self::IS_GENERAL { None } else { record.find(slot.vl(), slot.input()) };
        (held.map(|place| record.head(place)), self.queues[self.queue_index(slot)])
    }

    pub fn lane(&self, output: usize, vl: Vl) -> &OutputLane {
        &self.records[output].lanes[vl.index()]
    }
}
