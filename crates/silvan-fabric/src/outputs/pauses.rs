//! Pause frames with the binned scheduler. A switch that sends them must know the fills of its input buffers, which
//! depend on all of its outputs, and a frame occupies the link of an output.
//!
//! As long as no lane of a switch can be full, its outputs are independent. For each switch, [`Pauses`] has the number of bytes
//! that may arrive before a lane might be full. When this number is used up, the exact fills at the start of the bin
//! determine a new one. If more bytes arrive in the bin, or a lane is paused, all events of the switch in this bin are handled
//! in the order of time; see [`super::ordered`].
//!
//! The exact fills are computed from the packets in the switch, which takes time in proportion to their number. A switch
//! whose lanes are so full that this would happen often counts each packet that arrives and leaves instead.
//!
//! A frame from another switch concerns a single output. Like a packet, it is known before its bin begins.

use std::sync::Arc;

use silvan_engine::bins::UNSCHEDULED;
use silvan_engine::saved::Saved;
use silvan_engine::{Bins, Event, Time};
use silvan_network::port::{Port, Vl};
use silvan_network::port_set::{PortSet, Ports256};

use super::ordered::{BinLimits, PAUSES};
use super::{Around, Arrival, Bank, Feeder, OutputPlaces, RemoteOutput};
use crate::link::{ChannelId, Frames, LaneRoom, ReceiverControl, SignalCheck, Stage};
use crate::message::Word;

/// Lane number that identifies an [`Arrival`] as a pause frame, whose paused lanes are in the place of the packet.
pub(super) const PAUSE: u8 = super::reports::NOTICE - 1;

/// The packet that an output sends or has sent last. Its tail leaves the buffer of an input at a time.
#[derive(Debug, Clone, Copy, Saved)]
struct SentPacket {
    end: Time,
    input: u32,
    /// Zero if there is no packet, or it has been removed from the buffer.
    space: u32,
    vl: u8,
}

/// The room of a switch whose events are handled in order. The bytes that arrive do not matter.
const ORDERED: i64 = i64::MIN / 2;

/// A switch computes its fills if at least this number of bytes per port, and as many bytes as it stores, may arrive before
/// it has to do so again.
const ROOM_PER_PORT: u64 = 1_024;

const NOTHING: SentPacket = SentPacket { end: Time::NEVER, input: 0, space: 0, vl: 0 };

/// A packet that has arrived and waits for its tail until a later bin, so it is in no queue.
#[derive(Debug, Clone, Copy, Saved)]
struct Underway {
    ready: Time,
    output: u32,
    input: u32,
    space: u32,
    vl: u8,
}

/// The buffers of the inputs of a partition's switches. Inputs and outputs have the same indexes.
#[derive(Debug, Saved)]
pub(super) struct Pauses {
    #[saved(constant)]
    places: Arc<OutputPlaces>,
    /// By output.
    leaving: Box<[SentPacket]>,
    /// For each input, the time of a check that waits for the link.
    due: Box<[Time]>,
    /// For each switch, by its first output: bytes that may arrive before a lane might be full; negative after more have
    /// arrived, or if all events of the switch are handled in order.
    rooms: Box<[i64]>,
    /// For each output, whether its switch counts each packet in [`Frames`]. Otherwise, the fills of the switch in [`Frames`]
    /// have no meaning.
    is_counted: Box<[bool]>,
    /// Packets that wait for their tails at the switches.
    underway: Vec<Underway>,
    /// The switches whose events are handled in order, by the bins in which tails leave or checks are due.
    agenda: Bins<u32>,
    /// The slot of each switch in the agenda, by its first output.
    slots: Box<[u16]>,
    /// All tails that left and all checks before this time have been handled.
    handled: Time,
    /// Indexes of arrivals that may be too many. This list and the next one are empty between calls.
    #[saved(scratch)]
    beyond: Vec<u32>,
    #[saved(scratch)]
    taken: Vec<u32>,
}

impl Arrival {
    #[inline(always)]
    pub(super) fn is_pause(&self) -> bool {
        self.vl == PAUSE
    }

    /// A pause frame for an output.
    pub(super) fn pause(output: u32, lanes: u16, time: Time) -> Self {
        let when = time.0 as u32;
        Self { output, packet: lanes.into(), when, to: 0, size: 0, space: 0, input: PAUSES, vl: PAUSE }
    }
}

impl Pauses {
    /// `agenda` must be empty.
    pub fn new(places: Arc<OutputPlaces>, agenda: Bins<u32>) -> Self {
        let count = places.firsts.len();
        Self {
            places,
            is_counted: vec![false; count].into(),
            underway: Vec::new(),
            leaving: vec![NOTHING; count].into(),
            due: vec![Time::NEVER; count].into(),
            rooms: vec![0; count].into(),
            agenda,
            slots: vec![UNSCHEDULED; count].into(),
            handled: Time::ZERO,
            beyond: Vec::new(),
            taken: Vec::new(),
        }
    }

    /// Whether all events of a switch are handled in order, because its lanes may be paused.
    #[inline]
    pub fn may_pause(&self, first: u32) -> bool {
        self.rooms[first as usize] <= ORDERED
    }

    pub fn next_bin(&self) -> Option<u64> {
        self.agenda.next()
    }

    pub fn turn_to(&mut self, bin: u64) {
        self.agenda.turn_to(bin);
    }

    pub fn is_idle(&self) -> bool {
        self.agenda.is_empty()
    }

    /// Records that a packet waits for its tail until `ready`, which is in a later bin or in a later part of this one.
    #[inline]
    pub fn is_underway(&mut self, arrival: &Arrival, input: usize, ready: Time) {
        let &Arrival { output, space, vl, .. } = arrival;
        self.underway.push(Underway { ready, output, input: input as u32, space: space.into(), vl });
    }

    /// Takes the switches of the current bin out of the agenda, because their events are handled in order in any case. All
    /// events before `from` have been handled.
    fn begin(&mut self, from: Time) {
        self.underway.retain(|packet| packet.ready >= from);
        self.agenda.take(&mut self.taken);
        for first in self.taken.drain(..) {
            let slot = &mut self.slots[first as usize];
            if self.agenda.is_due(*slot) {
                *slot = UNSCHEDULED;
            }
        }
    }

    /// Notes that a packet starts to leave the buffer of an input through an output. Its tail leaves at `end`.
    #[inline(always)]
    pub fn leaves(
        &mut self,
        frames: &mut Frames,
        (input, output): (usize, usize),
        vl: usize,
        space: u32,
        end: Time,
    ) {
        let leaving = SentPacket { end, input: input as u32, space, vl: vl as u8 };
        let before = std::mem::replace(&mut self.leaving[output], leaving);
        if self.is_counted[output] {
            // The link is free, so the previous packet has left.
            if before.space > 0 {
                frames.remove(self.places.fed_by(before.input), Vl(before.vl), before.space);
            }
            frames.starts_to_leave(self.places.fed_by(input as u32), Vl::new(vl));
        }
    }

    /// Computes the fills of a switch from the packets that it stores at `from`. `queued` calls its argument with the input,
    /// the lane and the space of each packet in a queue.
    fn recount(
        &mut self,
        frames: &mut Frames,
        first: u32,
        from: Time,
        queued: impl FnOnce(&mut dyn FnMut(usize, Vl, u32)),
    ) {
        for port in self.places.range(first) {
            let into = self.places.fed_by(port as u32);
            if into != ChannelId::MAX {
                frames.empty(into);
            }
        }
        queued(&mut |input, vl, space| frames.fill(self.places.fed_by(first + input as u32), vl, space));
        for packet in self.underway.iter().filter(|packet| self.places.first(packet.output) == first) {
            frames.fill(self.places.fed_by(packet.input), Vl(packet.vl), packet.space);
        }
        for output in self.places.range(first) {
            let SentPacket { end, input, space, vl } = self.leaving[output];
            if space > 0 && end >= from {
                frames.fill(self.places.fed_by(input), Vl(vl), space);
                frames.starts_to_leave(self.places.fed_by(input), Vl(vl));
            } else {
                self.leaving[output].space = 0;
            }
        }
    }

    /// Removes packets whose tails left before a time from the buffers of a switch.
    fn remove_before(&mut self, frames: &mut Frames, first: u32, time: Time) {
        for output in self.places.range(first) {
            let SentPacket { end, input, space, vl } = self.leaving[output];
            if space > 0 && end < time {
                frames.remove(self.places.fed_by(input), Vl(vl), space);
                self.leaving[output].space = 0;
            }
        }
    }

    /// Determines the bytes that may arrive at a switch before a lane might be full, and whether the switch counts its packets.
    /// The fills must be exact. If fewer than `arriving` bytes may arrive, returns false, and the switch counts its packets.
    fn set_room(&mut self, frames: &Frames, first: u32, arriving: u64) -> bool {
        let inputs = self.places.channels[self.places.range(first)].iter().map(|&(_, into)| into);
        let found = frames.room(inputs.filter(|&into| into != ChannelId::MAX));
        let room = found.and_then(|LaneRoom { room, stored }| Some((room.checked_sub(arriving)?, stored)));
        let (range, is_counted) = (
            self.places.range(first),
            match room {
                None => true,
                Some((room, stored)) => {
                    self.rooms[first as usize] = i64::try_from(room).unwrap_or(i64::MAX);
                    room < stored.max(u64::from(self.places.ports[first as usize]) * ROOM_PER_PORT)
                }
            },
        );
        self.is_counted[range].fill(is_counted);
        room.is_some()
    }

    /// Decides whether all events of a switch must be handled in order. Called if many bytes may have arrived. The fills must
    /// be exact. `arriving` is the number of bytes that arrive in this bin.
    fn decide(&mut self, frames: &Frames, first: u32, arriving: u64) {
        if !self.set_room(frames, first, arriving) {
            self.rooms[first as usize] = ORDERED;
        }
    }

    /// The earliest time at which a tail leaves a switch or a check is due.
    fn next_of(&self, first: u32) -> Time {
        let of = |at: usize| {
            let SentPacket { end, space, .. } = self.leaving[at];
            self.due[at].min(if space > 0 { end } else { Time::NEVER })
        };
        self.places.range(first).map(of).min().unwrap_or(Time::NEVER)
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool> Bank<LANES, MARKS, FIFO> {
    /// Stores the packets whose heads arrive before a time in the buffers of their inputs. Those at switches whose events
    /// are handled in order are stored later.
    pub(super) fn store_heads(&mut self, around: &mut Around, arrivals: &[Arrival], before: Time) {
        let start = self.start;
        let Some(frames) = around.ctx.links.frames_mut() else { return };
        let Self { pauses: Some(pauses), ordered: Some(ordered), voq, .. } = self else { return };
        let from = start.max(pauses.handled);
        pauses.handled = before;
        pauses.begin(from);
        let vl = |arrival: &Arrival| Vl::new(usize::from(arrival.vl) % LANES);
        let mut beyond = std::mem::take(&mut pauses.beyond);
        for (at, arrival) in arrivals.iter().enumerate() {
            if !arrival.is_head() {
                continue;
            }
            let first = pauses.places.first(arrival.output);
            let room = &mut pauses.rooms[first as usize];
            *room -= i64::from(arrival.space);
            if *room < 0 {
                beyond.push(at as u32);
            } else if pauses.is_counted[first as usize] {
                let channel = pauses.places.fed_by(first + arrival.input_index() as u32);
                frames.fill(channel, vl(arrival), arrival.space.into());
            }
        }
        // The remaining ones arrive at switches whose lanes might be full.
        let places = Arc::clone(&pauses.places);
        for &at in &beyond {
            let (before, arrival) = (&arrivals[..at as usize], &arrivals[at as usize]);
            let first = pauses.places.first(arrival.output);
            let is_own = |other: &&Arrival| other.is_head() && places.first(other.output) == first;
            let earlier = before.iter().filter(is_own);
            let is_undecided = pauses.rooms[first as usize] < 0 && !pauses.may_pause(first);
            if is_undecided {
                let arriving = arrivals.iter().filter(is_own).map(|other| u64::from(other.space)).sum();
                // The decision depends on the fills at the start of the bin.
                if pauses.is_counted[first as usize] {
                    for other in earlier.clone() {
                        let channel = pauses.places.fed_by(first + other.input_index() as u32);
                        frames.take_out(channel, vl(other), other.space.into());
                    }
                    pauses.remove_before(frames, first, from);
                } else {
                    let outputs = pauses.places.range(first);
                    let packets = &around.ctx.packets;
                    pauses.recount(frames, first, from, |add| {
                        voq.all_packets(packets, outputs, |input, vl, id| add(input, vl, packets[id].space));
                    });
                }
                pauses.decide(frames, first, arriving);
                if pauses.may_pause(first) {
                    ordered.add(first);
                }
            }
            for own in earlier.filter(|_| is_undecided).chain([arrival]) {
                if pauses.may_pause(first) {
                    ordered.keep(own, start, true);
                } else if pauses.is_counted[first as usize] {
                    let channel = pauses.places.fed_by(first + own.input_index() as u32);
                    frames.fill(channel, vl(own), own.space.into());
                }
            }
        }
        beyond.clear();
        pauses.beyond = beyond;
    }

    /// The time of the next tail, check or decision of a switch within the limits, or [`Time::NEVER`].
    pub(super) fn next_of(&self, first: u32, limits: BinLimits) -> Time {
        let Some(pauses) = &self.pauses else { return Time::NEVER };
        let earlier = |time: Time, limit: Time| if time < limit { time } else { Time::NEVER };
        let decisions = self.voq.records[pauses.places.range(first)].iter().map(|record| record.own.ready_at);
        let decision = decisions.min().unwrap_or(Time::NEVER);
        earlier(pauses.next_of(first), limits.arrive_before).min(earlier(decision, limits.decide_before))
    }

    /// Stores a packet in the buffer of its input. Returns the input.
    pub(super) fn store_head(
        &mut self,
        around: &mut Around,
        first: u32,
        arrival: &Arrival,
        now: Time,
    ) -> Port {
        let input = arrival.input_index();
        let (Some(pauses), Some(frames)) = (&self.pauses, around.ctx.links.frames_mut()) else {
            return Port::new(input);
        };
        let channel = pauses.places.fed_by(first + input as u32);
        frames.store(channel, Vl::new(usize::from(arrival.vl) % LANES), arrival.space.into(), now);
        Port::new(input)
    }

    /// Removes the packets whose tails leave now, lets inputs decide whether to send a frame, and lets outputs send packets.
    /// The inputs are those with changes, of which `touched` has those with arrivals, and those whose links have become free.
    pub(super) fn leave_and_decide(
        &mut self,
        around: &mut Around,
        first: u32,
        (now, touched): (Time, Ports256),
        limits: BinLimits,
    ) {
        let Some(outputs) = self.pauses.as_ref().map(|pauses| pauses.places.range(first)) else { return };
        if now < limits.arrive_before {
            self.check_inputs(around, first, touched, now);
        }
        if now < limits.decide_before {
            outputs.for_each(|output| self.decide(around, output, now + Time(1)));
        }
    }

    fn check_inputs(&mut self, around: &mut Around, first: u32, mut inputs: Ports256, now: Time) {
        let (Some(pauses), Some(frames)) = (&mut self.pauses, around.ctx.links.frames_mut()) else { return };
        for at in pauses.places.range(first) {
            let SentPacket { end, input, space, vl } = pauses.leaving[at];
            if space > 0 && end == now {
                frames.remove(pauses.places.fed_by(input), Vl(vl), space);
                pauses.leaving[at].space = 0;
                inputs.insert(Port::new((input - first) as usize));
            }
            if pauses.due[at] == now {
                pauses.due[at] = Time::NEVER;
                inputs.insert(Port::new(at - first as usize));
            }
        }
        for input in inputs.iter() {
            let at = first as usize + input.index();
            let (Some(pauses), Some(frames)) = (&mut self.pauses, around.ctx.links.frames_mut()) else {
                return;
            };
            let takes_space = frames.spec.bytes > 0;
            let free_at = if takes_space { self.voq.records[at].free_at } else { now };
            match frames.check(pauses.places.channels[at].1, now, free_at) {
                SignalCheck::Nothing => {}
                SignalCheck::Later(time) => pauses.due[at] = time,
                SignalCheck::Send(lanes) => self.send_frame(around, at, lanes as u16, now),
            }
        }
    }

    /// Puts a frame for the sender at an input on the wire of the output at the same port, which is free.
    fn send_frame(&mut self, around: &mut Around, at: usize, lanes: u16, now: Time) {
        let Some(spec) = around.ctx.links.frames().map(|frames| frames.spec) else { return };
        // The output sends one frame at a time, and only if its link is free.
        let end = if spec.bytes > 0 { self.occupy(around, at, now, spec.bytes) } else { now };
        self.events += 1;
        let time = end + self.link(at).delay + spec.response;
        match self.feeders[at] {
            Feeder::Output(output) => self.message_arrives(Arrival::pause(output, lanes, time), time),
            Feeder::Remote(sender) => {
                let RemoteOutput { partition, output, .. } = self.senders[sender as usize];
                let frame = Arrival::pause(output, lanes, time);
                around.ctx.outbox[usize::from(partition)].send_output_message(time, frame, None);
            }
            Feeder::Host(channel) => {
                let data = around.ctx.notices.add(Word::Signal(channel, lanes.into()));
                around.ctx.queue.push(Event { time, key: Stage::Obeyed.key(), data });
            }
        }
    }

    /// Pauses lanes of an output, and resumes all others, as a frame states. All earlier decisions have been made.
    pub(super) fn obey(&mut self, around: &mut Around, frame: &Arrival, now: Time) {
        let (output, lanes) = (frame.output as usize, frame.packet as u16);
        let (Some(pauses), Some(frames)) = (&self.pauses, around.ctx.links.frames_mut()) else { return };
        let resumed = frames.obey(pauses.places.channels[output].0, lanes.into(), now);
        let record = &mut self.voq.records[output];
        for (vl, lane) in record.lanes.iter_mut().enumerate() {
            lane.paused = lanes >> vl & 1 != 0;
            lane.short &= resumed >> vl & 1 == 0;
        }
        if record.waiting & resumed != 0 {
            self.wake(output, now);
        }
    }

    /// Whether a lane of a switch may still be paused, so that its events stay in order. If so, schedules the next ones.
    pub(super) fn stays_paused(&mut self, around: &mut Around, first: u32) -> bool {
        let Some(pauses) = self.pauses.as_ref().filter(|pauses| pauses.may_pause(first)) else {
            return false;
        };
        for output in pauses.places.range(first) {
            let ready = self.voq.records[output].own.ready_at;
            if ready < Time::NEVER {
                self.plan(output, ready);
            }
        }
        let (Some(pauses), Some(frames)) = (&mut self.pauses, around.ctx.links.frames()) else {
            return false;
        };
        // A check that is due must not be lost.
        if pauses.places.range(first).all(|input| pauses.due[input] == Time::NEVER)
            && pauses.set_room(frames, first, 0)
        {
            return false;
        }
        let next = pauses.next_of(first);
        if next < Time::NEVER {
            pauses.agenda.schedule(first, next, &mut pauses.slots[first as usize]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{FrameSpec, ReceiverSpec, Rule};

    /// A switch with two ports, whose inputs receive on the channels 1 and 3.
    fn switch() -> (Pauses, Frames) {
        let rule = Rule::Fixed { xoff: 300, xon: 100, headroom: 1_000 };
        let spec = FrameSpec { bytes: 84, response: Time::ZERO, longest: Time::NEVER };
        let channels = [1, 0, 3, 2].map(|reverse| ReceiverSpec { rule, capacity: 0, reverse });
        let frames = Frames::new(spec, (1, 0), &channels, Vec::new());
        let channels = Box::new([(0, 1), (2, 3)]);
        let places = OutputPlaces { channels, firsts: Box::new([0, 0]), ports: Box::new([2, 2]) };
        (Pauses::new(Arc::new(places), Bins::new(4, 64)), frames)
    }

    #[test]
    fn events_are_ordered_only_if_the_bytes_of_a_bin_may_fill_a_lane() {
        let (mut pauses, mut frames) = switch();
        frames.fill(1, Vl(0), 200);
        pauses.decide(&frames, 0, 60);
        assert_eq!((pauses.rooms[0], pauses.may_pause(0)), (40, false));
        pauses.leaves(&mut frames, (0, 1), 0, 200, Time(70));
        assert_eq!(pauses.next_of(0), Time(70));
        pauses.decide(&frames, 0, 100);
        assert!(!pauses.may_pause(0), "exactly the free bytes");
        pauses.remove_before(&mut frames, 0, Time(71));
        pauses.decide(&frames, 0, 101);
        assert_eq!((pauses.rooms[0], pauses.may_pause(0)), (199, false), "the tail has left");
        pauses.decide(&frames, 0, 301);
        assert!(pauses.may_pause(0));
    }

    #[test]
    fn packets_are_counted_only_if_few_bytes_may_arrive() {
        let rule = Rule::Fixed { xoff: 9_000, xon: 100, headroom: 1_000 };
        let (mut pauses, _) = switch();
        let spec = FrameSpec { bytes: 84, response: Time::ZERO, longest: Time::NEVER };
        let mut frames = Frames::new(
            spec,
            (1, 0),
            &[1, 0, 3, 2].map(|reverse| ReceiverSpec { rule, capacity: 0, reverse }),
            Vec::new(),
        );
        pauses.decide(&frames, 0, 9_000 - 2_048);
        assert_eq!(pauses.is_counted[..], [false; 2], "1,024 bytes per port may arrive");
        pauses.decide(&frames, 0, 9_000 - 2_047);
        assert_eq!(pauses.is_counted[..], [true; 2]);
        frames.fill(3, Vl(0), 4_501);
        pauses.decide(&frames, 0, 0);
        assert_eq!(pauses.is_counted[..], [true; 2], "more bytes are stored than may arrive");
    }

    #[test]
    fn fills_are_computed_from_the_packets_in_the_switch() {
        let (mut pauses, mut frames) = switch();
        // These fills are out of date.
        frames.fill(1, Vl(0), 77);
        let head = |output, input, space| {
            let when = 0;
            Arrival { output, packet: 0, when, to: 0, size: space, space, input, vl: 0 }
        };
        pauses.is_underway(&head(1, 0, 10), 0, Time(40));
        pauses.is_underway(&head(0, 1, 20), 1, Time(60));
        pauses.leaves(&mut frames, (0, 1), 0, 100, Time(50));
        pauses.leaves(&mut frames, (1, 0), 0, 30, Time(49));
        pauses.begin(Time(50));
        pauses.recount(&mut frames, 0, Time(50), |add| add(1, Vl(0), 120));
        // Input 0 has the packet that leaves; input 1 has one in a queue and one that waits for its tail.
        let room = |frames: &Frames, channel| frames.room([channel].into_iter()).unwrap();
        assert_eq!((room(&frames, 1).stored, room(&frames, 3).stored), (100, 140));
        assert_eq!(room(&frames, 3), LaneRoom { room: 160, stored: 140 });
        pauses.is_counted.fill(true);
        pauses.leaves(&mut frames, (1, 1), 0, 120, Time(90));
        assert_eq!(
            (room(&frames, 1).stored, room(&frames, 3).stored),
            (0, 140),
            "the previous packet has left"
        );
    }

    #[test]
    fn the_last_packet_of_an_output_has_left_when_the_next_one_starts() {
        let (mut pauses, mut frames) = switch();
        frames.fill(1, Vl(0), 100);
        frames.fill(3, Vl(0), 150);
        let room = |pauses: &mut Pauses, frames: &Frames| {
            assert!(pauses.set_room(frames, 0, 0));
            pauses.rooms[0]
        };
        assert_eq!(room(&mut pauses, &frames), 150);
        pauses.leaves(&mut frames, (0, 1), 0, 100, Time(50));
        pauses.leaves(&mut frames, (1, 1), 0, 150, Time(90));
        assert_eq!((room(&mut pauses, &frames), pauses.next_of(0)), (150, Time(90)));
        pauses.remove_before(&mut frames, 0, Time(91));
        assert_eq!((room(&mut pauses, &frames), pauses.next_of(0)), (300, Time::NEVER));
    }
}
