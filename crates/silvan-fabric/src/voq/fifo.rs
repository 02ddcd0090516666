//! Outputs that serve packets first come, first served, regardless of the input (infinite speedup: Zdornov and Birk,
//! section 2). Each lane of an output has one queue, and any number of packets can leave an input's memory at the same
//! time for different outputs.

use silvan_engine::saved::Saved;
use std::collections::VecDeque;

use silvan_network::port_set::next_of;

use super::record::QueuedPacket;
use super::{Head, QueueRoom, Slot, VoqOutputs};
use crate::packet::Pool;
use crate::trimming::Trimmer;

/// The packets of one virtual lane of an output behind its first packet, which the record of the output contains.
#[derive(Debug, Default, Saved)]
#[repr(align(64))]
pub(super) struct FifoLane {
    data: VecDeque<QueuedPacket>,
    /// Packets that precede `data`.
    control: VecDeque<QueuedPacket>,
}

impl FifoLane {
    fn pop_front(&mut self) -> Option<QueuedPacket> {
        self.control.pop_front().or_else(|| self.data.pop_front())
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool, X> VoqOutputs<LANES, MARKS, FIFO, X> {
    /// Adds a packet to the queue of its lane, before its bytes are added to the sum of the lane.
    #[inline(always)]
    pub(super) fn push_last(&mut self, packets: &Pool, slot: Slot, head: Head) {
        let queued = QueuedPacket { head, input: slot.input };
        let lane = &mut self.records[slot.output()].lanes[slot.vl()];
        debug_assert_eq!(lane.sum == 0, lane.front().is_none(), "a lane with bytes has a first packet");
        if lane.sum == 0 {
            lane.set_front(Some(queued));
        } else {
            self.push_behind(packets, slot, queued);
        }
    }

    /// Adds a packet to a queue that has packets.
    fn push_behind(&mut self, packets: &Pool, slot: Slot, queued: QueuedPacket) {
        let at = self.lane_index(slot.output(), slot.vl());
        let is_control = |queued: QueuedPacket| !packets[queued.head.packet].kind().follows_data();
        let fifo = &mut self.fifos[at];
        if !self.control_first || !is_control(queued) {
            return fifo.data.push_back(queued);
        }
        let lane = &mut self.records[slot.output()].lanes[slot.vl()];
        match lane.front() {
            Some(first) if !is_control(first) => {
                fifo.data.push_front(first);
                lane.set_front(Some(queued));
            }
            _ => fifo.control.push_back(queued),
        }
    }

    /// Checks whether an arriving data packet fits into the queue of its lane. The newest packet of the queue
    /// may be removed to make room.
    pub fn make_room(&mut self, trimmer: &mut Trimmer, slot: Slot, size: u32) -> QueueRoom {
        let (output, vl) = (slot.output(), slot.vl());
        let at = self.lane_index(output, vl);
        let lane = &mut self.records[output].lanes[vl];
        if trimmer.fits(output, lane.sum, size) {
            return QueueRoom::Enough;
        }
        if !trimmer.takes_newest(at) {
            return QueueRoom::Trimmed;
        }
        // Lanes of data carry no other packets.
        let data = &mut self.fifos[at].data;
        let Some(QueuedPacket { head, input }) = data.back().copied().or_else(|| lane.front()) else {
            return QueueRoom::Trimmed;
        };
        if !trimmer.fits(output, lane.sum - head.size, size) {
            return QueueRoom::Trimmed;
        }
        if data.pop_back().is_none() {
            lane.set_front(None);
        }
        lane.sum -= head.size;
        QueueRoom::Replaces(Slot { input, ..slot }, head.packet)
    }

    /// The packet that a lane sends next.
    #[inline(always)]
    pub(super) fn first(&self, output: usize, vl: usize) -> Option<(Slot, Head)> {
        let QueuedPacket { head, input } = self.records[output].lanes[vl].front()?;
        Some((Slot { output: output as u32, vl: vl as u8, input }, head))
    }

    /// Removes the packet that a lane sends next, before its bytes are subtracted from the sum of the lane.
    #[inline(always)]
    pub(super) fn pop_first(&mut self, slot: Slot, head: Head) {
        let at = self.lane_index(slot.output(), slot.vl());
        let lane = &mut self.records[slot.output()].lanes[slot.vl()];
        let next = if lane.sum > head.size { self.fifos[at].pop_front() } else { None };
        debug_assert_eq!(lane.sum > head.size, next.is_some(), "the sum is that of all packets");
        lane.set_front(next);
    }

    /// The packets of an input in the queue of an output's lane that occupy memory: all but the headers of packets that were
    /// trimmed here.
    pub(super) fn of_input(&self, slot: Slot) -> impl Iterator<Item = Head> {
        let all = self.of_lane(slot.output(), slot.vl());
        all.filter(move |queued| queued.0 == slot.input() && queued.1.space > 0).map(|queued| queued.1)
    }

    /// The packets in the queue of an output's lane, with their inputs.
    pub(super) fn of_lane(&self, output: usize, vl: usize) -> impl Iterator<Item = (usize, Head)> {
        let lane = self.fifos.get(self.lane_index(output, vl));
        let first = lane.and_then(|_| self.records[output].lanes[vl].front());
        let others = lane.into_iter().flat_map(|lane| lane.control.iter().chain(&lane.data)).copied();
        first.into_iter().chain(others).map(|queued| (usize::from(queued.input), queued.head))
    }

    /// The packet that an output sends next, on the first lane that has packets.
    #[inline(always)]
    pub(super) fn first_of_all(&self, output: usize) -> Option<(Slot, Head)> {
        let vl = next_of(self.records[output].waiting.into(), silvan_network::port::Port::FIRST)?;
        self.first(output, vl.index())
    }
}

#[cfg(test)]
mod tests {

    use super::super::{ALL_EVENTS, Output};
    use super::*;
    use crate::packet::{Contents, Kind, Packet};
    use crate::switch_marking::SwitchMarking;
    use crate::trimming::TrimmingRule;
    use silvan_congestion::marking::Marker;
    use silvan_engine::random::Stream;
    use silvan_network::port::{LaneOrder, Vl};

    fn packet(kind: Kind) -> Packet {
        Packet { contents: Contents::example(kind), size: 70, dst: 1, ..Packet::example() }
    }

    /// One output with four inputs and one lane.
    fn output() -> VoqOutputs<1, ALL_EVENTS, true, ()> {
        let order = LaneOrder { lanes: 1, first: None };
        let marking = SwitchMarking::new(Marker::None, 1, 100);
        VoqOutputs::new(vec![Output::new(0, ())], 4, order, false, &marking)
    }

    fn push(
        outputs: &mut VoqOutputs<1, ALL_EVENTS, true, ()>,
        packets: &mut Pool,
        input: usize,
        packet: Packet,
    ) {
        let head = Head::of(packets.insert(packet), &packet);
        outputs.push_last(packets, Slot::new(0, 0, input), head);
        outputs.records[0].lanes[0].sum += head.size;
    }

    fn pop(outputs: &mut VoqOutputs<1, ALL_EVENTS, true, ()>) -> Option<usize> {
        let (slot, head) = outputs.first(0, 0)?;
        outputs.pop_first(slot, head);
        outputs.records[0].lanes[0].sum -= head.size;
        Some(slot.input())
    }

    #[test]
    fn the_newest_packet_makes_room_also_if_it_is_the_only_one() {
        let rule = TrimmingRule { limit: 150, size: 64, credit_block: 64, headers: Vl(1), is_random: true };
        // The trimmer selects the arriving or the newest packet at random.
        let stream = |lane| Stream::new(1, "trimming", lane as u64);
        let mut trimmer = Trimmer::new((rule, &[]), std::iter::once(None), 1, stream);
        for waiting in 1..=2 {
            let (mut outputs, mut packets) = (output(), Pool::default());
            for input in 0..waiting {
                push(&mut outputs, &mut packets, input, packet(Kind::Data));
            }
            let newest = (waiting - 1, waiting as u32 - 1);
            let mut room = || outputs.make_room(&mut trimmer, Slot::new(0, 0, 3), 150 - 70 * newest.1);
            let replaced = std::iter::repeat_with(&mut room).take(64).find_map(|room| match room {
                QueueRoom::Replaces(slot, id) => Some((slot.input(), id)),
                _ => None,
            });
            assert_eq!(replaced, Some(newest));
            let left: Vec<usize> = std::iter::from_fn(|| pop(&mut outputs)).collect();
            assert_eq!(left, (0..waiting - 1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn packets_leave_in_the_order_of_their_arrival_and_control_packets_first() {
        for control_first in [false, true] {
            let mut outputs = output();
            outputs.control_first = control_first;
            let mut packets = Pool::default();
            for (input, kind) in [(2, Kind::Data), (0, Kind::Ack), (2, Kind::Data), (1, Kind::TearDown)] {
                push(&mut outputs, &mut packets, input, packet(kind));
            }
            assert_eq!(outputs.of_input(Slot::new(0, 0, 2)).count(), 2);
            let inputs: Vec<usize> = std::iter::from_fn(|| pop(&mut outputs)).collect();
            let expected = if control_first { [0, 2, 2, 1] } else { [2, 0, 2, 1] };
            assert_eq!(inputs, expected);
        }
    }
}
