//! Outputs that serve first come, first served, whatever the input (infinite speedup: Zdornov and
//! Birk, section 2): any number of packets may leave an input's memory at a time, to different
//! outputs, and one is on its way out of an output.
//!
//! Control packets go ahead of data where `switch.control_first` says so; those that end a flow's
//! route stay behind its data.

use std::collections::VecDeque;

use super::Ports;
use crate::congestion::marking::Fill;
use crate::core::Core;
use crate::packet::PacketId;
use crate::port_set::Ports256;

/// One virtual lane of an output: packets and the inputs whose memory they are in.
#[derive(Debug, Default)]
struct Lane {
    control: VecDeque<(PacketId, u16)>,
    data: VecDeque<(PacketId, u16)>,
    bytes: u32,
}

#[derive(Debug, Clone, Default)]
struct Output {
    /// The virtual lane to look at first.
    turn: usize,
    /// Bytes that wait, on all virtual lanes.
    bytes: u32,
    /// Whether it is settled at the end of this instant.
    dirty: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FcfsSwitch {
    pub ports: Ports,
    /// Per output and virtual lane.
    lanes: Box<[Lane]>,
    outputs: Box<[Output]>,
    control_first: bool,
}

impl FcfsSwitch {
    pub fn new(ports: Ports, control_first: bool) -> Self {
        let count = ports.count();
        let lanes = (0..count * ports.lanes).map(|_| Lane::default()).collect();
        Self { lanes, outputs: vec![Output::default(); count].into(), ports, control_first }
    }

    pub fn enqueue(&mut self, core: &mut Core, input: usize, id: PacketId) {
        let packet = &core.packets[id];
        let (vl, size) = (usize::from(packet.vl), packet.size);
        let output = self.ports.route_of(packet);
        let first = self.control_first && !packet.kind.follows_data();
        let lane = &mut self.lanes[output * self.ports.lanes + vl];
        let queue = if first { &mut lane.control } else { &mut lane.data };
        queue.push_back((id, input as u16));
        lane.bytes += size;
        let sum = lane.bytes;
        self.outputs[output].bytes += size;
        self.ports.arrived(core, (output, vl), sum, id);
        self.fill_changed(core, output, vl, input);
        let channel = self.ports.out(output);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
        } else if !std::mem::replace(&mut self.outputs[output].dirty, true) {
            core.dirty_outputs.push((self.ports.place, output as u32));
        }
    }

    #[inline]
    fn fill_changed(&mut self, core: &mut Core, output: usize, vl: usize, input: usize) {
        let lane = output * self.ports.lanes + vl;
        let sum = self.lanes[lane].bytes;
        if self.ports.is_concerned(lane, sum) {
            let fill = Fill { queue: Some((input, sum)), sum, inputs: Ports256::EMPTY };
            self.ports.fill_changed(core, output, vl, &fill);
        }
    }

    /// An output is free, or has credits.
    pub fn wake(&mut self, core: &mut Core, output: usize) {
        if !self.outputs[output].dirty {
            self.settle(core, output);
        }
    }

    /// Lets an output send, if it can.
    pub fn settle(&mut self, core: &mut Core, output: usize) {
        let (channel, lanes) = (self.ports.out(output), self.ports.lanes);
        let state = &mut self.outputs[output];
        state.dirty = false;
        let (first, waiting) = (state.turn, state.bytes);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
            return;
        }
        if waiting == 0 {
            return;
        }
        for vl in (first..lanes).chain(0..first) {
            let lane = &mut self.lanes[output * lanes + vl];
            if lane.bytes == 0 {
                continue;
            }
            let queue = if lane.control.is_empty() { &mut lane.data } else { &mut lane.control };
            let Some(&(id, input)) = queue.front() else { continue };
            let packet = &core.packets[id];
            let (way, space, size) = ((channel, vl as u8, packet.dst), packet.space, packet.size);
            if !core.has_credit_or_wait(way, space) {
                continue;
            }
            queue.pop_front();
            lane.bytes -= size;
            let state = &mut self.outputs[output];
            state.turn = if vl + 1 == lanes { 0 } else { vl + 1 };
            state.bytes -= size;
            self.fill_changed(core, output, vl, usize::from(input));
            let end = self.ports.transmit(core, (usize::from(input), output), id, None);
            if waiting > size {
                core.wake(channel, end);
            }
            return;
        }
    }

    /// See [`super::Switch::queued_bytes`].
    pub fn queued_bytes(&self, output: usize) -> u32 {
        self.outputs[output].bytes
    }

    /// The packets of an input's lane, with the outputs they wait for.
    fn of_input(&self, input: usize, vl: usize) -> impl Iterator<Item = (usize, PacketId)> {
        let count = self.ports.lanes;
        let lanes = self.lanes.iter().enumerate().filter(move |(at, _)| at % count == vl);
        let all = lanes.flat_map(move |(at, lane)| {
            lane.control.iter().chain(&lane.data).map(move |&entry| (at / count, entry))
        });
        all.filter(move |(_, (_, from))| usize::from(*from) == input).map(|(output, (id, _))| (output, id))
    }

    /// See [`super::Switch::buffered`].
    #[cfg(debug_assertions)]
    pub fn buffered(&self, core: &Core, input: usize, vl: usize) -> u32 {
        self.of_input(input, vl).map(|(_, id)| core.packets[id].space).sum()
    }

    /// The outputs that packets of an input wait for.
    pub fn heads(&self, _core: &Core, input: usize, vl: usize) -> Vec<usize> {
        let mut outputs: Vec<usize> = self.of_input(input, vl).map(|(output, _)| output).collect();
        outputs.sort_unstable();
        outputs.dedup();
        outputs
    }
}
