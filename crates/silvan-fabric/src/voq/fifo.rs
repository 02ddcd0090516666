//! Outputs that serve packets first come, first served, regardless of the input (infinite speedup: Zdornov and Birk,
//! section 2). Each lane of an output has one queue, and any number of packets can leave an input's memory at the same
//! time for different outputs.

use silvan_engine::saved::Saved;
use std::collections::VecDeque;

use silvan_network::port_set::next_of;

use super::{Head, QueueRoom, Slot, VoqOutputs};
use crate::packet::Pool;
use crate::trimming::Trimmer;

/// A waiting packet, and the input whose memory it occupies.
#[derive(Debug, Clone, Copy, Saved)]
struct QueuedPacket {
    head: Head,
    input: u16,
}

/// The queue of one virtual lane of an output.
#[derive(Debug, Default, Saved)]
pub(super) struct FifoLane {
    data: VecDeque<QueuedPacket>,
    /// Packets that precede `data`.
    control: VecDeque<QueuedPacket>,
}

impl FifoLane {
    fn front(&self) -> Option<QueuedPacket> {
        self.control.front().or_else(|| self.data.front()).copied()
    }

    fn pop_front(&mut self) {
        if self.control.pop_front().is_none() {
            self.data.pop_front();
        }
    }
}

impl<const LANES: usize, const MARKS: u8, const FIFO: bool, X> VoqOutputs<LANES, MARKS, FIFO, X> {
    /// Adds a packet to the queue of its lane.
    #[inline(always)]
    pub(super) fn push_last(&mut self, packets: &Pool, slot: Slot, head: Head) {
        let at = self.lane_index(slot.output(), slot.vl());
        let queued = QueuedPacket { head, input: slot.input };
        if self.control_first && !packets[head.packet].kind().follows_data() {
            self.fifos[at].control.push_back(queued);
        } else {
            self.fifos[at].data.push_back(queued);
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
        let Some(&QueuedPacket { head, input }) = data.back() else { return QueueRoom::Trimmed };
        if !trimmer.fits(output, lane.sum - head.size, size) {
            return QueueRoom::Trimmed;
        }
        data.pop_back();
        lane.sum -= head.size;
        QueueRoom::Replaces(Slot { input, ..slot }, head.packet)
    }

    /// The packet that a lane sends next.
    #[inline(always)]
    pub(super) fn first(&self, output: usize, vl: usize) -> Option<(Slot, Head)> {
        let QueuedPacket { head, input } = self.fifos[self.lane_index(output, vl)].front()?;
        Some((Slot { output: output as u32, vl: vl as u8, input }, head))
    }

    /// Removes the packet that a lane sends next.
    #[inline(always)]
    pub(super) fn pop_first(&mut self, slot: Slot) {
        let at = self.lane_index(slot.output(), slot.vl());
        self.fifos[at].pop_front();
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
        let all = lane.into_iter().flat_map(|lane| lane.control.iter().chain(&lane.data));
        all.map(|queued| (usize::from(queued.input), queued.head))
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
    use silvan_congestion::marking::Marker;
    use silvan_network::port::LaneOrder;

    fn packet(kind: Kind) -> Packet {
        Packet { contents: Contents::example(kind), size: 70, dst: 1, ..Packet::example() }
    }

    #[test]
    fn packets_leave_in_the_order_of_their_arrival_and_control_packets_first() {
        for control_first in [false, true] {
            let order = LaneOrder { lanes: 1, first: None };
            let marking = SwitchMarking::new(Marker::None, 1, 100);
            let mut outputs = VoqOutputs::<1, ALL_EVENTS, true, ()>::new(
                vec![Output::new(0, ())],
                4,
                order,
                false,
                &marking,
            );
            outputs.control_first = control_first;
            let mut packets = Pool::default();
            for (input, kind) in [(2, Kind::Data), (0, Kind::Ack), (2, Kind::Data), (1, Kind::TearDown)] {
                let packet = packet(kind);
                let head = Head::of(packets.insert(packet), &packet);
                outputs.push_last(&packets, Slot::new(0, 0, input), head);
            }
            assert_eq!(outputs.of_input(Slot::new(0, 0, 2)).count(), 2);
            let mut inputs = Vec::new();
            while let Some((slot, _)) = outputs.first(0, 0) {
                inputs.push(slot.input());
                outputs.pop_first(slot);
            }
            let expected = if control_first { [0, 2, 2, 1] } else { [2, 0, 2, 1] };
            assert_eq!(inputs, expected);
        }
    }
}
