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

use silvan_engine::cache::prefetch;

use crate::congestion::marking::Fill;
use crate::core::Core;
use crate::link::ChannelId;
use crate::packet::{Fifo, Packet, PacketId};
use crate::port_set::{PortSet, Ports256, next_of};
use crate::switch::Ports;

/// One output and virtual lane: what waits for it and whose turn it is.
#[derive(Debug, Clone, Copy)]
struct OutputLane {
    /// Inputs with packets for it, one bit each; those beyond the first 64 are in
    /// [`VoqSwitch::beyond`].
    requests: u64,
    /// Bytes in all queues for it.
    sum: u32,
    /// The space for which the packet whose turn it is lacks credit; zero if none does. Packets
    /// at least as large need not ask for as long as no credit comes.
    blocked: u32,
    /// The channel of the output.
    channel: ChannelId,
    /// The input to look at first.
    turn: u16,
}

/// One output: which of its lanes have something to send, and whose turn it is.
#[derive(Debug, Clone, Copy)]
struct Output {
    /// The channel it sends on.
    channel: ChannelId,
    /// Virtual lanes with packets for it, one bit each.
    waiting: u16,
    /// The virtual lane to look at first.
    turn: u8,
    /// Whether it is to be settled at this instant.
    dirty: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct VoqSwitch {
    pub ports: Ports,
    /// `[(output * lanes + vl) * ports + input]`.
    queues: Box<[Fifo]>,
    /// Bytes per queue, where the marking rule looks at single queues; else empty.
    queue_bytes: Box<[u32]>,
    outputs: Box<[Output]>,
    /// `[output * lanes + vl]`.
    lanes: Box<[OutputLane]>,
    /// Requests of the inputs from the 65th on, per output and lane; empty for smaller switches.
    beyond: Box<[[u64; 3]]>,
}

impl VoqSwitch {
    pub fn new(ports: Ports) -> Self {
        let (count, lanes) = (ports.count(), ports.lanes);
        let queues = count * count * lanes;
        let output = |output| Output { channel: ports.out(output), waiting: 0, turn: 0, dirty: false };
        let channel = |lane| ports.out(lane / lanes);
        let lane = |lane| OutputLane { requests: 0, sum: 0, blocked: 0, channel: channel(lane), turn: 0 };
        Self {
            queues: vec![Fifo::default(); queues].into_boxed_slice(),
            queue_bytes: vec![0; if ports.marker.needs_queues() { queues } else { 0 }].into_boxed_slice(),
            beyond: vec![[0; 3]; if count > 64 { count * lanes } else { 0 }].into_boxed_slice(),
            outputs: (0..count).map(output).collect(),
            lanes: (0..count * lanes).map(lane).collect(),
            ports,
        }
    }

    /// The requesting input whose turn it is.
    #[inline(always)]
    fn next(&self, lane: usize) -> Option<usize> {
        let OutputLane { requests, turn, .. } = self.lanes[lane];
        match self.beyond.get(lane) {
            None => next_of(requests, turn),
            Some(&[a, b, c]) => Ports256::from_words([requests, a, b, c]).next(turn),
        }
    }

    /// Notes that an input has, or has no more, packets for an output and lane.
    #[inline]
    fn set_request(&mut self, lane: usize, input: usize, on: bool) {
        let word = match input / 64 {
            0 => &mut self.lanes[lane].requests,
            beyond => &mut self.beyond[lane][beyond - 1],
        };
        let bit = 1 << (input % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }

    #[inline]
    pub fn enqueue(&mut self, core: &mut Core, input: usize, id: PacketId) {
        let packet = &core.packets[id];
        let (vl, size, space) = (usize::from(packet.vl), packet.size, packet.space);
        let output = self.ports.route_of(packet);
        let lane = output * self.ports.lanes + vl;
        self.queues[lane * self.ports.count() + input].push(id, &mut core.packets);
        self.set_request(lane, input, true);
        self.outputs[output].waiting |= 1 << vl;
        if let Some(bytes) = self.queue_bytes.get_mut(lane * self.ports.count() + input) {
            *bytes += size;
        }
        let state = &mut self.lanes[lane];
        state.sum += size;
        let OutputLane { channel, blocked, sum, .. } = *state;
        self.ports.arrived(core, (output, vl), sum, id);
        if self.ports.is_concerned(lane, sum) {
            self.fill_changed(core, (lane, vl), (input, output));
        }
        if blocked > 0 && space >= blocked {
            return;
        }
        let free_at = core.free_at(channel);
        if free_at <= core.now {
            self.make_dirty(core, output);
        } else {
            core.wake(channel, free_at);
        }
    }

    /// See [`super::Switch::foresee_arrival`].
    #[inline]
    pub fn foresee_arrival(&self, core: &Core, input: usize, id: PacketId) {
        let packet = &core.packets[id];
        let output = self.ports.route(packet.dst);
        let lane = output * self.ports.lanes + usize::from(packet.vl);
        prefetch(&self.queues, lane * self.ports.count() + input);
        let channel = self.outputs[output].channel;
        core.links.foresee_channel(channel);
        core.links.foresee_lane(channel, packet.vl);
    }

    /// See [`super::Switch::foresee_wake`].
    #[inline]
    pub fn foresee_wake(&self, core: &Core, output: usize) {
        let lane = output * self.ports.lanes;
        core.links.foresee_lane(self.outputs[output].channel, 0);
        let Some(input) = self.next(lane) else { return };
        if let Some(id) = self.queues[lane * self.ports.count() + input].head() {
            core.packets.foresee(id);
        }
        core.links.foresee_lane(self.ports.feeder(input), 0);
    }

    /// Tells the marking rule that a queue grew or shrank.
    fn fill_changed(&mut self, core: &mut Core, (lane, vl): (usize, usize), (input, output): (usize, usize)) {
        let queue = self.queue_bytes.get(lane * self.ports.count() + input).map(|&bytes| (input, bytes));
        let state = &self.lanes[lane];
        let [a, b, c] = self.beyond.get(lane).copied().unwrap_or_default();
        let inputs = Ports256::from_words([state.requests, a, b, c]);
        let fill = Fill { queue, sum: state.sum, inputs };
        self.ports.fill_changed(core, output, vl, &fill);
    }

    #[inline]
    fn make_dirty(&mut self, core: &mut Core, output: usize) {
        let dirty = &mut self.outputs[output].dirty;
        if !*dirty {
            *dirty = true;
            core.dirty_outputs.push((self.ports.place, output as u32));
        }
    }

    #[inline]
    pub fn wake(&mut self, core: &mut Core, output: usize) {
        let lanes = self.ports.lanes;
        for lane in &mut self.lanes[output * lanes..(output + 1) * lanes] {
            lane.blocked = 0;
        }
        // A packet that arrived at this instant has asked for the output already.
        if !self.outputs[output].dirty {
            self.settle(core, output);
        }
    }

    /// Lets one output send, if it can, and sees to it that it is asked again.
    #[inline]
    pub fn settle(&mut self, core: &mut Core, output: usize) {
        let state = &mut self.outputs[output];
        state.dirty = false;
        let Output { channel, waiting, turn, .. } = *state;
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
            return;
        }
        // From the lane whose turn it is to the last, then from the first on.
        let ahead = waiting & (u16::MAX << turn);
        for mut lanes in [ahead, waiting & !ahead] {
            while lanes != 0 {
                let vl = lanes.trailing_zeros() as usize;
                lanes &= lanes - 1;
                if self.settle_lane(core, output, vl) {
                    let next = if vl + 1 == self.ports.lanes { 0 } else { vl as u8 + 1 };
                    self.outputs[output].turn = next;
                    return;
                }
            }
        }
    }

    /// Lets an output that is free send from one of its lanes, if it can.
    #[inline]
    fn settle_lane(&mut self, core: &mut Core, output: usize, vl: usize) -> bool {
        let lane = output * self.ports.lanes + vl;
        let Some(input) = self.next(lane) else { return false };
        let index = lane * self.ports.count() + input;
        let Some(id) = self.queues[index].head() else { return false };
        let Packet { size, space, dst, .. } = core.packets[id];
        let state = &mut self.lanes[lane];
        if !core.has_credit_or_wait((state.channel, vl as u8, dst), space) {
            state.blocked = space;
            return false;
        }
        state.sum -= size;
        state.turn = if input + 1 == self.ports.count() { 0 } else { input as u16 + 1 };
        let OutputLane { channel, sum, .. } = *state;
        let queue = &mut self.queues[index];
        queue.pop(&mut core.packets);
        if queue.is_empty() {
            self.set_request(lane, input, false);
        }
        if let Some(bytes) = self.queue_bytes.get_mut(index) {
            *bytes -= size;
        }
        if self.ports.is_concerned(lane, sum) {
            self.fill_changed(core, (lane, vl), (input, output));
        }
        let end = self.ports.transmit(core, (input, output), id, None);
        if sum == 0 {
            self.outputs[output].waiting &= !(1 << vl);
        }
        if self.outputs[output].waiting != 0 {
            core.wake(channel, end);
        }
        true
    }

    /// See [`super::Switch::queued_bytes`].
    #[inline]
    pub fn queued_bytes(&self, output: usize) -> u32 {
        let lanes = self.ports.lanes;
        self.lanes[output * lanes..(output + 1) * lanes].iter().map(|lane| lane.sum).sum()
    }

    fn queues_of(&self, input: usize, vl: usize) -> impl Iterator<Item = (usize, Fifo)> {
        (0..self.ports.count()).map(move |output| {
            let lane = output * self.ports.lanes + vl;
            (output, self.queues[lane * self.ports.count() + input])
        })
    }

    /// See [`super::Switch::buffered`].
    #[cfg(debug_assertions)]
    pub fn buffered(&self, core: &Core, input: usize, vl: usize) -> u32 {
        let space = |id: PacketId| {
            let packet = &core.packets[id];
            if usize::from(self.ports.came(packet)) == vl { packet.space } else { 0 }
        };
        let lanes = if self.ports.changes_lanes() { 0..self.ports.lanes } else { vl..vl + 1 };
        let queues = lanes.flat_map(|lane| self.queues_of(input, lane));
        queues.flat_map(|(_, queue)| queue.iter(&core.packets)).map(space).sum()
    }

    /// See [`super::Switch::heads`]: where packets change lanes, all queues that hold one that came on a lane.
    pub fn holders(&self, core: &Core, input: usize, vl: usize) -> Vec<(usize, usize)> {
        let came = |id: PacketId| usize::from(self.ports.came(&core.packets[id])) == vl;
        let of_lane = |lane: usize| {
            let holds = self.queues_of(input, lane).filter(|(_, queue)| queue.iter(&core.packets).any(came));
            holds.map(|(output, _)| (output, lane)).collect::<Vec<_>>()
        };
        (0..self.ports.lanes).flat_map(of_lane).collect()
    }

    /// See [`super::Switch::heads`].
    pub fn heads(&self, _core: &Core, input: usize, vl: usize) -> Vec<usize> {
        self.queues_of(input, vl).filter(|(_, queue)| !queue.is_empty()).map(|(output, _)| output).collect()
    }
}
