//! Arbitration with a read port per queue: each output serves the inputs that have packets for it
//! round robin, and its virtual lanes likewise, as in [`super::voq`].

use silvan_engine::cache::prefetch;

use super::Ports;
use super::queued::{Arbiter, QueuedSwitch};
use super::rounds::Rounds;
use crate::core::Core;
use crate::link::ChannelId;
use crate::port_set::PortSet;

/// A virtual lane of an output.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// The space for which the packet whose turn it is lacks credit.
    blocked: u32,
    /// The input to look at first.
    turn: u16,
    /// Of the first lane of an output: the virtual lane to look at first.
    lane_turn: u8,
    /// The same: whether the output is settled at the end of this instant.
    dirty: bool,
}

/// The state of the outputs.
#[derive(Debug)]
pub(crate) struct RoundRobin<S> {
    /// Per output and virtual lane.
    lanes: Box<[Lane]>,
    /// Where packets for other destinations may overtake those that lack credit.
    rounds: Option<Rounds<S>>,
}

impl<S: PortSet> RoundRobin<S> {
    pub fn new(ports: &Ports, divided: bool) -> Self {
        let (count, lanes) = (ports.count(), ports.lanes);
        Self {
            lanes: vec![Lane::default(); count * lanes].into(),
            rounds: divided.then(|| Rounds::new(count * lanes, false)),
        }
    }

    /// The input whose turn it is.
    pub fn next(&self, lane: usize, requests: S) -> Option<usize> {
        requests.next(self.lanes[lane].turn)
    }

    /// Has what an output touches brought into the cache.
    #[inline]
    pub fn foresee(&self, lane: usize) {
        prefetch(&self.lanes, lane);
    }

    /// Someone new waits for an output's lane; its packet needs `space`, which is asked only when it
    /// matters.
    #[inline(always)]
    pub fn ask(&mut self, core: &mut Core, ports: &Ports, lane: usize, space: impl FnOnce(&Core) -> u32) {
        let blocked = self.lanes[lane].blocked;
        if blocked > 0 && space(core) >= blocked {
            return;
        }
        let output = if ports.lanes == 1 { lane } else { lane / ports.lanes };
        let channel = ports.out(output);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
        } else if !std::mem::replace(&mut self.lanes[output * ports.lanes].dirty, true) {
            core.dirty_outputs.push((ports.place, output as u32));
        }
    }

    /// An output may send again; returns whether it is to be settled now.
    pub fn wake(&mut self, output: usize, lanes: usize) -> bool {
        let of_output = &mut self.lanes[output * lanes..(output + 1) * lanes];
        of_output.iter_mut().for_each(|lane| lane.blocked = 0);
        !of_output[0].dirty
    }
}

impl<S: PortSet> QueuedSwitch<S> {
    /// Lets one output send, if it can, and sees to it that it is asked again.
    pub(super) fn settle_output(&mut self, core: &mut Core, output: usize) {
        let lanes = self.ports.lanes;
        let Arbiter::RoundRobin(state) = &mut self.arbiter else { return };
        let of_output = &mut state.lanes[output * lanes];
        of_output.dirty = false;
        let first = usize::from(of_output.lane_turn);
        let channel = self.ports.out(output);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
        } else if lanes == 1 {
            self.settle_lane(core, (output, 0, channel));
        } else {
            self.settle_one_of(core, (output, channel), first);
        }
    }

    /// Lets a free output send from one of its virtual lanes, from the one whose turn it is on.
    #[inline(never)]
    fn settle_one_of(&mut self, core: &mut Core, (output, channel): (usize, ChannelId), first: usize) {
        let lanes = self.ports.lanes;
        let mut vl = first;
        for _ in 0..lanes {
            let next = if vl + 1 == lanes { 0 } else { vl + 1 };
            if self.settle_lane(core, (output, vl, channel)) {
                if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                    state.lanes[output * lanes].lane_turn = next as u8;
                }
                return;
            }
            vl = next;
        }
    }

    #[inline(always)]
    fn settle_lane(&mut self, core: &mut Core, (output, vl, channel): (usize, usize, ChannelId)) -> bool {
        let lane = output * self.ports.lanes + vl;
        loop {
            let mut requests = self.buffers.in_turn(lane, S::default(), core.now);
            let Arbiter::RoundRobin(state) = &mut self.arbiter else { return false };
            if let Some(rounds) = &mut state.rounds {
                requests = rounds.choice(lane, requests, self.buffers.aside(lane));
            }
            let Some(input) = state.next(lane, requests) else { return false };
            match self.candidate(core, (lane, vl, channel), input) {
                Ok(head) => {
                    let next = if input + 1 == self.ports.count() { 0 } else { input as u16 + 1 };
                    if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                        state.lanes[lane].turn = next;
                        if let Some(rounds) = &mut state.rounds {
                            // Nobody is ever busy, so nobody is served out of turn for that.
                            rounds.served(lane, input, (core.now, core.now));
                        }
                    }
                    let (_, end, left) = self.serve(core, (input, output, vl), head);
                    if left > 0 || self.ports.lanes > 1 && self.queued_bytes(output) > 0 {
                        core.wake(channel, end);
                    }
                    return true;
                }
                // All it has stand aside now; others may have credit.
                Err(0) => {}
                Err(space) => {
                    if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                        state.lanes[lane].blocked = space;
                    }
                    return false;
                }
            }
        }
    }
}
