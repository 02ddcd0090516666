//! What observers and checks read of VOQ outputs. Nothing here changes a state.

use super::{Slot, VoqOutputs};
use crate::packet::{PacketId, Pool};
use crate::port::{Port, Vl};

impl<const LANES: usize, const MARKS: u8, X> VoqOutputs<LANES, MARKS, X> {
    /// Bytes in the queues of an output.
    pub fn queued_bytes(&self, output: usize) -> u32 {
        self.records[output].lanes.iter().map(|lane| lane.sum).sum()
    }

    /// The packets of an input for an output and lane, in their order.
    pub fn packets<'a>(&'a self, packets: &'a Pool, slot: Slot) -> impl Iterator<Item = PacketId> + 'a {
        let (head, queue) = self.queue(slot);
        head.map(|head| head.packet).into_iter().chain(queue.iter(packets))
    }

    /// The outputs of a switch, which are `count` from `first` on, that an input has packets for on a lane.
    pub fn requested(&self, first: usize, count: usize, input: Port, vl: Vl) -> Vec<Port> {
        let requests = |output: &Port| {
            let slot = Slot::new(first + output.index(), vl.index(), input.index());
            let (head, queue) = self.queue(slot);
            head.is_some() || !queue.is_empty()
        };
        Port::all(count).filter(requests).collect()
    }
}
