//! The InfiniBand VOQ switch (Paper I, 3.1): input buffers, one virtual output queue per output,
//! a read port per queue.
//!
//! ```text
//!  in 0  =[ to 0 | to 1 | to 2 ]=--\      each output serves the inputs that have
//!  in 1  =[ to 0 | to 1 | to 2 ]=---*== out 1      packets for it round robin, and
//!  in 2  =[ to 0 | to 1 | to 2 ]=--/      its virtual lanes likewise
//! ```
//!
//! An input may feed several outputs at once. An input that was served is not served again by
//! the same output until all other requesting inputs have been. The input whose turn it is keeps
//! it while credits are missing, so small packets do not overtake large ones for ever.

use crate::congestion::marking::Fill;
use crate::core::Core;
use crate::packet::{Fifo, PacketId};
use crate::switch::Ports;

/// One output and virtual lane: who requests it and whose turn it is.
#[derive(Debug, Clone, Copy, Default)]
struct OutputLane {
    /// Bytes in all queues for it.
    sum: u32,
    /// The input to look at first.
    turn: u16,
    /// Inputs with packets for it, one bit each.
    requests: [u64; 4],
}

impl OutputLane {
    #[inline]
    fn is_idle(&self) -> bool {
        self.requests == [0; 4]
    }

    /// The requesting input whose turn it is.
    #[inline]
    fn next(&self) -> Option<usize> {
        let turn = usize::from(self.turn);
        let first = turn / 64;
        let masked = self.requests[first] & (u64::MAX << (turn % 64));
        if masked != 0 {
            return Some(first * 64 + masked.trailing_zeros() as usize);
        }
        (1..=4).map(|step| (first + step) % 4).find_map(|word| {
            let bits = self.requests[word];
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        })
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct VoqSwitch {
    pub ports: Ports,
    /// `[(output * lanes + vl) * ports + input]`.
    queues: Box<[Fifo]>,
    /// `[output * lanes + vl]`.
    outputs: Box<[OutputLane]>,
    /// The virtual lane each output looks at first.
    lane_turn: Box<[u8]>,
    /// Outputs to arbitrate at this instant, one bit each.
    dirty: [u64; 4],
}

impl VoqSwitch {
    pub fn new(ports: Ports) -> Self {
        let (count, lanes) = (ports.count(), ports.lanes);
        Self {
            queues: vec![Fifo::default(); count * count * lanes].into_boxed_slice(),
            outputs: vec![OutputLane::default(); count * lanes].into_boxed_slice(),
            lane_turn: vec![0; count].into_boxed_slice(),
            dirty: [0; 4],
            ports,
        }
    }

    #[inline]
    pub fn enqueue(&mut self, core: &mut Core, input: usize, id: PacketId) {
        let packet = &core.packets[id];
        let (vl, size) = (usize::from(packet.vl), packet.size);
        let output = self.ports.route(packet.dst);
        let lane = output * self.ports.lanes + vl;
        let queue = &mut self.queues[lane * self.ports.count() + input];
        queue.push(id, &mut core.packets);
        let bytes = queue.bytes;
        let state = &mut self.outputs[lane];
        state.sum += size;
        state.requests[input / 64] |= 1 << (input % 64);
        let fill = self.fill(lane, input, bytes);
        self.ports.fill_changed(core, output, vl, fill);
        let channel = self.ports.out(output);
        let free_at = core.free_at(channel);
        if free_at <= core.now {
            self.wake(core, output);
        } else {
            core.wake(channel, free_at);
        }
    }

    #[inline]
    fn fill(&self, lane: usize, input: usize, queue: u32) -> Fill {
        let state = &self.outputs[lane];
        Fill { input: input as u16, queue, sum: state.sum, inputs: state.requests }
    }

    #[inline]
    pub fn wake(&mut self, core: &mut Core, output: usize) {
        if self.dirty == [0; 4] {
            core.dirty_switches.push(self.ports.node);
        }
        self.dirty[output / 64] |= 1 << (output % 64);
    }

    #[inline]
    pub fn settle(&mut self, core: &mut Core) {
        let dirty = std::mem::take(&mut self.dirty);
        for (word, mut bits) in dirty.into_iter().enumerate() {
            while bits != 0 {
                self.arbitrate(core, word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }

    /// Lets one output send, if it can, and sees to it that it is asked again.
    fn arbitrate(&mut self, core: &mut Core, output: usize) {
        let channel = self.ports.out(output);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
            return;
        }
        let lanes = self.ports.lanes;
        let first = usize::from(self.lane_turn[output]);
        for step in 0..lanes {
            let vl = if first + step < lanes { first + step } else { first + step - lanes };
            let lane = output * lanes + vl;
            let Some(input) = self.outputs[lane].next() else { continue };
            let index = lane * self.ports.count() + input;
            let Some(id) = self.queues[index].head() else { continue };
            if !core.has_credit_or_wait(channel, vl as u8, core.packets[id].space) {
                continue;
            }
            self.lane_turn[output] = if vl + 1 == lanes { 0 } else { vl as u8 + 1 };
            self.send(core, output, vl, input, id);
            return;
        }
    }

    #[inline]
    fn send(&mut self, core: &mut Core, output: usize, vl: usize, input: usize, id: PacketId) {
        let lane = output * self.ports.lanes + vl;
        let queue = &mut self.queues[lane * self.ports.count() + input];
        queue.pop(&core.packets);
        let (bytes, empty) = (queue.bytes, queue.is_empty());
        let state = &mut self.outputs[lane];
        state.sum -= core.packets[id].size;
        state.turn = if input + 1 == self.ports.count() { 0 } else { input as u16 + 1 };
        if empty {
            state.requests[input / 64] &= !(1 << (input % 64));
        }
        let fill = self.fill(lane, input, bytes);
        self.ports.fill_changed(core, output, vl, fill);
        let end = self.ports.transmit(core, input, output, id);
        let lanes = &self.outputs[output * self.ports.lanes..(output + 1) * self.ports.lanes];
        if lanes.iter().any(|lane| !lane.is_idle()) {
            core.wake(self.ports.out(output), end);
        }
    }

    fn queues_of(&self, input: usize, vl: usize) -> impl Iterator<Item = (usize, &Fifo)> {
        (0..self.ports.count()).map(move |output| {
            let lane = output * self.ports.lanes + vl;
            (output, &self.queues[lane * self.ports.count() + input])
        })
    }

    /// See [`super::Switch::buffered`].
    #[cfg(debug_assertions)]
    pub fn buffered(&self, core: &Core, input: usize, vl: usize) -> u32 {
        let queues = self.queues_of(input, vl);
        queues.flat_map(|(_, queue)| queue.iter(&core.packets)).map(|id| core.packets[id].space).sum()
    }

    /// See [`super::Switch::heads`].
    pub fn heads(&self, input: usize, vl: usize) -> Vec<usize> {
        self.queues_of(input, vl).filter(|(_, queue)| !queue.is_empty()).map(|(output, _)| output).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_robin_serves_all_others_first() {
        let mut lane = OutputLane { requests: [0b1011, 0, 1 << 5, 0], ..OutputLane::default() };
        let mut order = Vec::new();
        for _ in 0..6 {
            let input = lane.next().unwrap();
            order.push(input);
            lane.turn = input as u16 + 1;
        }
        assert_eq!(order, [0, 1, 3, 133, 0, 1]);
        lane.requests = [0; 4];
        assert_eq!(lane.next(), None);
    }

    #[test]
    fn a_turn_past_the_only_request_wraps_within_its_word() {
        let lane = OutputLane { requests: [0b10, 0, 0, 0], turn: 5, ..OutputLane::default() };
        assert_eq!(lane.next(), Some(1));
    }
}
