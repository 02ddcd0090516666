//! Read access to VOQ outputs for observers and checks.

use std::ops::Range;

use silvan_network::port::{Port, Vl};

use super::{Slot, VoqOutputs};
use crate::packet::{PacketId, Pool};

impl<const LANES: usize, const MARKS: u8, const FIFO: bool, X> VoqOutputs<LANES, MARKS, FIFO, X> {
    pub fn queued_bytes(&self, output: usize) -> u32 {
        self.records[output].lanes.iter().map(|lane| lane.sum).sum()
    }

    /// The packets of an input for an output and lane, in their order.
    pub fn packets<'a>(&'a self, packets: &'a Pool, slot: Slot) -> impl Iterator<Item = PacketId> + 'a {
        let (head, queue) = self.queue(slot);
        let own = head.map(|head| head.packet).into_iter().chain(queue.iter(packets));
        own.chain(self.of_input(slot).map(|head| head.packet))
    }

    /// Calls `add` with the input, the lane and the index of each packet that waits for the given outputs of
    /// one switch.
    pub fn all_packets(&self, packets: &Pool, of: Range<usize>, mut add: impl FnMut(usize, Vl, PacketId)) {
        let inputs = if FIFO { 0 } else { of.len() };
        for output in of {
            for vl in 0..self.lanes() {
                for input in 0..inputs {
                    let slot = Slot::new(output, vl, input);
                    self.packets(packets, slot).for_each(|id| add(input, Vl::new(vl), id));
                }
                self.of_lane(output, vl).for_each(|(input, head)| add(input, Vl::new(vl), head.packet));
            }
        }
    }

    /// The ports for which an input has packets on a lane, among the `count` outputs of a switch that start
    /// with `first`.
    pub fn requested(&self, first: usize, count: usize, input: Port, vl: Vl) -> Vec<Port> {
        let requests = |output: &Port| {
            let slot = Slot::new(first + output.index(), vl.index(), input.index());
            let (head, queue) = self.queue(slot);
            head.is_some() || !queue.is_empty() || self.of_input(slot).next().is_some()
        };
        Port::all(count).filter(requests).collect()
    }
}
