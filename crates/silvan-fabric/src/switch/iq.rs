//! The input-queued switch: one read port per input, matched to the outputs by iSLIP
//! (McKeown 1999).
//!
//! ```text
//!  in 0  =[ one queue, or one per output ]=>--*--*   at most one packet leaves an input
//!  in 1  =[ one queue, or one per output ]=>--*--*   at a time, and at most one enters
//!                                             |  |   an output
//!                                          out 0 out 1
//! ```
//!
//! Each iteration: every free output grants to the requesting free input at or after its
//! pointer, every input accepts the grant at or after its own; a pointer advances to one beyond
//! its partner only when the grant is accepted, and only in the first iteration.

use silvan_engine::Time;

use crate::config::Queues;
use crate::congestion::marking::Fill;
use crate::core::Core;
use crate::link::ChannelId;
use crate::packet::{Fifo, PacketId};
use crate::switch::Ports;

/// See the module.
#[derive(Debug)]
pub(crate) struct IqSwitch {
    pub ports: Ports,
    organisation: Queues,
    iterations: u8,
    /// `[(vl * ports + input) * queues per input + queue]`.
    queues: Box<[Fifo]>,
    /// Bytes in each of them.
    queue_bytes: Box<[u32]>,
    per_input: usize,
    /// Bytes and inputs waiting per `[output * lanes + vl]`.
    sums: Box<[u32]>,
    /// When each input's read port is free, and the channel it feeds until then.
    read_free: Box<[(Time, ChannelId)]>,
    grant: Box<[u16]>,
    accept: Box<[u16]>,
    lane_turn: usize,
    dirty: bool,
}

/// A grant or its acceptance: input, output and the packet.
#[derive(Debug, Clone, Copy)]
struct Match {
    input: usize,
    output: usize,
    id: PacketId,
}

impl IqSwitch {
    pub fn new(ports: Ports, organisation: Queues, iterations: u8) -> Self {
        let count = ports.count();
        let per_input = match organisation {
            Queues::PerOutput => count,
            Queues::Single => 1,
        };
        Self {
            organisation,
            iterations,
            queues: vec![Fifo::default(); ports.lanes * count * per_input].into_boxed_slice(),
            queue_bytes: vec![0; ports.lanes * count * per_input].into_boxed_slice(),
            per_input,
            sums: vec![0; count * ports.lanes].into_boxed_slice(),
            read_free: vec![(Time::ZERO, 0); count].into_boxed_slice(),
            grant: vec![0; count].into_boxed_slice(),
            accept: vec![0; count].into_boxed_slice(),
            lane_turn: 0,
            dirty: false,
            ports,
        }
    }

    fn queue_index(&self, vl: usize, input: usize, output: usize) -> usize {
        let queue = match self.organisation {
            Queues::PerOutput => output,
            Queues::Single => 0,
        };
        (vl * self.ports.count() + input) * self.per_input + queue
    }

    pub fn enqueue(&mut self, core: &mut Core, input: usize, id: PacketId) {
        let packet = &core.packets[id];
        let (vl, size) = (usize::from(packet.vl), packet.size);
        let output = self.ports.route(packet.dst);
        let index = self.queue_index(vl, input, output);
        self.queues[index].push(id, &mut core.packets);
        self.queue_bytes[index] += size;
        let bytes = self.queue_bytes[index];
        self.sums[output * self.ports.lanes + vl] += size;
        self.fill_changed(core, input, output, vl, bytes);
        let (read_free, feeding) = self.read_free[input];
        let channel = self.ports.out(output);
        if read_free > core.now {
            core.wake(feeding, read_free);
        } else if core.free_at(channel) > core.now {
            core.wake(channel, core.free_at(channel));
        } else {
            self.wake(core);
        }
    }

    fn fill_changed(&mut self, core: &mut Core, input: usize, output: usize, vl: usize, queue: u32) {
        let sum = self.sums[output * self.ports.lanes + vl];
        let mut inputs = [0; 4];
        if self.ports.marker.needs_inputs() {
            for asking in 0..self.ports.count() {
                if self.heads(core, asking, vl).contains(&output) {
                    inputs[asking / 64] |= 1 << (asking % 64);
                }
            }
        }
        let fill = Fill { input, queue, sum, inputs: &inputs };
        if self.ports.is_concerned(output * self.ports.lanes + vl, sum) {
            self.ports.fill_changed(core, output, vl, &fill);
        }
    }

    pub fn wake(&mut self, core: &mut Core) {
        if !self.dirty {
            self.dirty = true;
            core.dirty_outputs.push((self.ports.node, 0));
        }
    }

    pub fn settle(&mut self, core: &mut Core) {
        self.dirty = false;
        let lanes = self.ports.lanes;
        for step in 0..lanes {
            let vl = (self.lane_turn + step) % lanes;
            for iteration in 0..self.iterations.max(1) {
                let accepted = self.match_once(core, vl, iteration == 0);
                if accepted.is_empty() {
                    break;
                }
                for pair in accepted {
                    self.send(core, vl, pair);
                }
            }
        }
        self.lane_turn = (self.lane_turn + 1) % lanes;
        if self.sums.iter().any(|&sum| sum > 0) {
            // An output that is busy is fed by an input that is: asking again when each of these
            // is free covers both.
            let now = core.now;
            for &(free_at, feeding) in self.read_free.iter().filter(|read| read.0 > now) {
                core.wake(feeding, free_at);
            }
        }
    }

    /// One iteration of request, grant and accept among the free inputs and outputs.
    fn match_once(&mut self, core: &mut Core, vl: usize, first: bool) -> Vec<Match> {
        let count = self.ports.count();
        let mut granted: Vec<Option<Match>> = vec![None; count];
        for output in 0..count {
            let Some(offer) = self.grant_of(core, vl, output) else { continue };
            let pointer = usize::from(self.accept[offer.input]);
            let distance = |output: usize| (output + count - pointer) % count;
            let best = &mut granted[offer.input];
            if best.is_none_or(|other| distance(output) < distance(other.output)) {
                *best = Some(offer);
            }
        }
        let accepted: Vec<Match> = granted.into_iter().flatten().collect();
        if first {
            for pair in &accepted {
                self.grant[pair.output] = ((pair.input + 1) % count) as u16;
                self.accept[pair.input] = ((pair.output + 1) % count) as u16;
            }
        }
        accepted
    }

    /// The input that a free output grants to.
    fn grant_of(&self, core: &mut Core, vl: usize, output: usize) -> Option<Match> {
        let channel = self.ports.wiring[output]?.out;
        if self.sums[output * self.ports.lanes + vl] == 0 || core.free_at(channel) > core.now {
            return None;
        }
        let count = self.ports.count();
        let start = usize::from(self.grant[output]);
        let (input, id) = (0..count).map(|step| (start + step) % count).find_map(|input| {
            if self.read_free[input].0 > core.now {
                return None;
            }
            let id = self.queues[self.queue_index(vl, input, output)].head()?;
            (self.ports.route(core.packets[id].dst) == output).then_some((input, id))
        })?;
        let space = core.packets[id].space;
        core.has_credit_or_wait(channel, vl as u8, space).then_some(Match { input, output, id })
    }

    fn send(&mut self, core: &mut Core, vl: usize, pair: Match) {
        let Match { input, output, id } = pair;
        let index = self.queue_index(vl, input, output);
        self.queues[index].pop(&mut core.packets);
        let size = core.packets[id].size;
        self.queue_bytes[index] -= size;
        let bytes = self.queue_bytes[index];
        self.sums[output * self.ports.lanes + vl] -= size;
        self.fill_changed(core, input, output, vl, bytes);
        let end = self.ports.transmit(core, input, output, id);
        self.read_free[input] = (end, self.ports.out(output));
    }

    /// See [`super::Switch::queued_bytes`].
    pub fn queued_bytes(&self, output: usize) -> u32 {
        self.sums[output * self.ports.lanes..(output + 1) * self.ports.lanes].iter().sum()
    }

    fn queues_of(&self, input: usize, vl: usize) -> &[Fifo] {
        let base = (vl * self.ports.count() + input) * self.per_input;
        &self.queues[base..base + self.per_input]
    }

    /// See [`super::Switch::buffered`].
    #[cfg(debug_assertions)]
    pub fn buffered(&self, core: &Core, input: usize, vl: usize) -> u32 {
        let ids = self.queues_of(input, vl).iter().flat_map(|queue| queue.iter(&core.packets));
        ids.map(|id| core.packets[id].space).sum()
    }

    /// See [`super::Switch::heads`].
    pub fn heads(&self, core: &Core, input: usize, vl: usize) -> Vec<usize> {
        let heads = self.queues_of(input, vl).iter().filter_map(|queue| queue.head());
        heads.map(|id| self.ports.route(core.packets[id].dst)).collect()
    }
}
