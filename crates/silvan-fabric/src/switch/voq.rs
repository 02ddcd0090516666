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

use crate::congestion::facts::{QueueChange, QueueFill};
use crate::core::Core;
use crate::link::ChannelId;
use crate::packet::{Fifo, Packet, PacketId};
use crate::port::{Port, PortVl, Vl};
use crate::port_set::{PortSet, Ports256, next_of};
use crate::switch::{Outgoing, Ports};

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
    turn: Port,
}

/// One output: which of its lanes have something to send, and whose turn it is.
#[derive(Debug, Clone, Copy)]
struct Output {
    /// The channel it sends on.
    channel: ChannelId,
    /// Virtual lanes with packets for it, one bit each.
    waiting: u16,
    /// The virtual lane to look at first.
    turn: Vl,
    /// Whether it is to be settled at this instant.
    dirty: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct VoqSwitch {
    pub ports: Ports,
    /// Per output, virtual lane and input; see [`Self::queue_index`].
    queues: Box<[Fifo]>,
    /// Bytes per queue, where the marking rule looks at single queues; else empty.
    queue_bytes: Box<[u32]>,
    outputs: Box<[Output]>,
    /// Per output and virtual lane.
    lanes: Box<[OutputLane]>,
    /// Requests of the inputs from the 65th on, per output and lane; empty for smaller switches.
    beyond: Box<[[u64; 3]]>,
}

impl VoqSwitch {
    pub fn new(ports: Ports) -> Self {
        let (count, lanes) = (ports.count(), ports.lanes);
        let queues = count * count * lanes;
        let output =
            |output| Output { channel: ports.out(output), waiting: 0, turn: Vl::FIRST, dirty: false };
        let channel = |lane: PortVl| ports.out(lane.port(lanes));
        let lane =
            |lane| OutputLane { requests: 0, sum: 0, blocked: 0, channel: channel(lane), turn: Port::FIRST };
        Self {
            queues: vec![Fifo::default(); queues].into_boxed_slice(),
            queue_bytes: vec![0; if ports.marker.needs_queues() { queues } else { 0 }].into_boxed_slice(),
            beyond: vec![[0; 3]; if count > 64 { count * lanes } else { 0 }].into_boxed_slice(),
            outputs: Port::all(count).map(output).collect(),
            lanes: PortVl::all(count, lanes).map(lane).collect(),
            ports,
        }
    }

    /// The index of the queue of an input for an output's lane.
    #[inline(always)]
    fn queue_index(&self, lane: PortVl, input: Port) -> usize {
        lane.index() * self.ports.count() + input.index()
    }

    /// The requesting input whose turn it is.
    #[inline(always)]
    fn next(&self, lane: PortVl) -> Option<Port> {
        let OutputLane { requests, turn, .. } = self.lanes[lane.index()];
        match self.beyond.get(lane.index()) {
            None => next_of(requests, turn),
            Some(&[a, b, c]) => Ports256::from_words([requests, a, b, c]).next(turn),
        }
    }

    /// Notes that an input has, or has no more, packets for an output and lane.
    #[inline]
    fn set_request(&mut self, lane: PortVl, input: Port, on: bool) {
        let word = match input.index() / 64 {
            0 => &mut self.lanes[lane.index()].requests,
            beyond => &mut self.beyond[lane.index()][beyond - 1],
        };
        let bit = 1 << (input.0 % 64);
        *word = if on { *word | bit } else { *word & !bit };
    }

    #[inline]
    pub fn enqueue(&mut self, core: &mut Core, input: Port, id: PacketId) {
        let packet = &core.packets[id];
        let (vl, size, space) = (packet.vl, packet.size, packet.space);
        let output = self.ports.route_of(packet);
        let lane = self.ports.lane(output, vl);
        let queue = self.queue_index(lane, input);
        self.queues[queue].push(id, &mut core.packets);
        self.set_request(lane, input, true);
        self.outputs[output.index()].waiting |= 1 << vl.index();
        if let Some(bytes) = self.queue_bytes.get_mut(queue) {
            *bytes += size;
        }
        let state = &mut self.lanes[lane.index()];
        state.sum += size;
        let OutputLane { channel, blocked, sum, .. } = *state;
        self.ports.arrives(core, output, id, sum);
        if self.ports.watches_queue(lane, sum) {
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
    pub fn foresee_arrival(&self, core: &Core, input: Port, id: PacketId) {
        let packet = &core.packets[id];
        let output = self.ports.route(packet.dst);
        let lane = self.ports.lane(output, packet.vl);
        prefetch(&self.queues, self.queue_index(lane, input));
        let channel = self.outputs[output.index()].channel;
        core.links.foresee_channel(channel);
        core.links.foresee_lane(channel, packet.vl);
    }

    /// See [`super::Switch::foresee_wake`].
    #[inline]
    pub fn foresee_wake(&self, core: &Core, output: Port) {
        let lane = self.ports.lane(output, Vl::FIRST);
        core.links.foresee_lane(self.outputs[output.index()].channel, Vl::FIRST);
        let Some(input) = self.next(lane) else { return };
        if let Some(id) = self.queues[self.queue_index(lane, input)].head() {
            core.packets.foresee(id);
        }
        core.links.foresee_lane(self.ports.feeder(input), Vl::FIRST);
    }

    /// Tells the marking rule that a queue grew or shrank.
    fn fill_changed(&mut self, core: &mut Core, (lane, vl): (PortVl, Vl), (input, output): (Port, Port)) {
        let bytes = self.queue_bytes.get(self.queue_index(lane, input));
        let queue = bytes.map(|&bytes| QueueFill { input, bytes });
        let state = &self.lanes[lane.index()];
        let [a, b, c] = self.beyond.get(lane.index()).copied().unwrap_or_default();
        let inputs = Ports256::from_words([state.requests, a, b, c]);
        let change = QueueChange { now: core.now, queue, queue_bytes: state.sum, inputs };
        self.ports.queue_changed(core, output, vl, &change);
    }

    #[inline]
    fn make_dirty(&mut self, core: &mut Core, output: Port) {
        let dirty = &mut self.outputs[output.index()].dirty;
        if !*dirty {
            *dirty = true;
            core.dirty_outputs.push((self.ports.place, output));
        }
    }

    #[inline]
    pub fn wake(&mut self, core: &mut Core, output: Port) {
        for lane in &mut self.lanes[output.lane_range(self.ports.lanes)] {
            lane.blocked = 0;
        }
        // A packet that arrived at this instant has asked for the output already.
        if !self.outputs[output.index()].dirty {
            self.settle(core, output);
        }
    }

    /// Lets one output send, if it can, and sees to it that it is asked again.
    #[inline]
    pub fn settle(&mut self, core: &mut Core, output: Port) {
        let state = &mut self.outputs[output.index()];
        state.dirty = false;
        let Output { channel, waiting, turn, .. } = *state;
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
            return;
        }
        // From the lane whose turn it is to the last, then from the first on.
        let ahead = waiting & (u16::MAX << turn.0);
        for mut lanes in [ahead, waiting & !ahead] {
            while lanes != 0 {
                let vl = Vl::new(lanes.trailing_zeros() as usize);
                lanes &= lanes - 1;
                if self.settle_lane(core, output, vl) {
                    self.outputs[output.index()].turn = vl.after(self.ports.lanes);
                    return;
                }
            }
        }
    }

    /// Lets an output that is free send from one of its lanes, if it can.
    #[inline]
    fn settle_lane(&mut self, core: &mut Core, output: Port, vl: Vl) -> bool {
        let lane = self.ports.lane(output, vl);
        let Some(input) = self.next(lane) else { return false };
        let index = self.queue_index(lane, input);
        let Some(id) = self.queues[index].head() else { return false };
        let Packet { size, space, dst, .. } = core.packets[id];
        let state = &mut self.lanes[lane.index()];
        if !core.has_credit_or_wait((state.channel, vl, dst), space) {
            state.blocked = space;
            return false;
        }
        state.sum -= size;
        state.turn = input.after(self.ports.count());
        let OutputLane { channel, sum, .. } = *state;
        let queue = &mut self.queues[index];
        queue.pop(&mut core.packets);
        if queue.is_empty() {
            self.set_request(lane, input, false);
        }
        if let Some(bytes) = self.queue_bytes.get_mut(index) {
            *bytes -= size;
        }
        if self.ports.watches_queue(lane, sum) {
            self.fill_changed(core, (lane, vl), (input, output));
        }
        let end = self.ports.transmit(core, id, input, Outgoing::unbuffered(output, sum), None);
        if sum == 0 {
            self.outputs[output.index()].waiting &= !(1 << vl.index());
        }
        if self.outputs[output.index()].waiting != 0 {
            core.wake(channel, end);
        }
        true
    }

    /// See [`super::Switch::queued_bytes`].
    #[inline]
    pub fn queued_bytes(&self, output: Port) -> u32 {
        self.lanes[output.lane_range(self.ports.lanes)].iter().map(|lane| lane.sum).sum()
    }

    fn queues_of(&self, input: Port, vl: Vl) -> impl Iterator<Item = (Port, Fifo)> {
        Port::all(self.ports.count()).map(move |output| {
            let lane = self.ports.lane(output, vl);
            (output, self.queues[self.queue_index(lane, input)])
        })
    }

    /// See [`super::Switch::buffered`].
    #[cfg(debug_assertions)]
    pub fn buffered(&self, core: &Core, input: Port, vl: Vl) -> u32 {
        let space = |id: PacketId| {
            let packet = &core.packets[id];
            if self.ports.came(packet) == vl { packet.space } else { 0 }
        };
        let all = self.ports.changes_lanes();
        let lanes = Vl::all(self.ports.lanes).filter(|&lane| all || lane == vl);
        let queues = lanes.flat_map(|lane| self.queues_of(input, lane));
        queues.flat_map(|(_, queue)| queue.iter(&core.packets)).map(space).sum()
    }

    /// See [`super::Switch::heads`]: where packets change lanes, all queues that hold one that came on a lane.
    pub fn holders(&self, core: &Core, input: Port, vl: Vl) -> Vec<(Port, Vl)> {
        let came = |id: PacketId| self.ports.came(&core.packets[id]) == vl;
        let of_lane = |lane: Vl| {
            let holds = self.queues_of(input, lane).filter(|(_, queue)| queue.iter(&core.packets).any(came));
            holds.map(|(output, _)| (output, lane)).collect::<Vec<_>>()
        };
        Vl::all(self.ports.lanes).flat_map(of_lane).collect()
    }

    /// See [`super::Switch::heads`].
    pub fn heads(&self, _core: &Core, input: Port, vl: Vl) -> Vec<Port> {
        self.queues_of(input, vl).filter(|(_, queue)| !queue.is_empty()).map(|(output, _)| output).collect()
    }
}
