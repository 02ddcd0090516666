//! Arbitration with a read port per queue: each output serves the inputs that have packets for it
//! round robin, and its virtual lanes likewise, as in [`super::voq`].

use super::Ports;
use super::queued::{Arbiter, QueuedSwitch};
use super::rounds::Rounds;
use super::voq::next_of_many;
use crate::core::Core;

/// The state of the outputs.
#[derive(Debug)]
pub(crate) struct RoundRobin {
    /// Per output and virtual lane: the input to look at first.
    turn: Box<[u16]>,
    /// Per output and virtual lane: the space for which the packet whose turn it is lacks credit.
    blocked: Box<[u32]>,
    /// Per output: the virtual lane to look at first.
    lane_turn: Box<[u8]>,
    /// Where packets for other destinations may overtake those that lack credit.
    rounds: Option<Rounds>,
    /// Per output: whether it is settled at the end of this instant.
    dirty: Box<[bool]>,
}

impl RoundRobin {
    pub fn new(ports: &Ports, divided: bool) -> Self {
        let (count, lanes) = (ports.count(), ports.lanes);
        Self {
            turn: vec![0; count * lanes].into(),
            blocked: vec![0; count * lanes].into(),
            lane_turn: vec![0; count].into(),
            rounds: divided.then(|| Rounds::new(count * lanes, false)),
            dirty: vec![false; count].into(),
        }
    }

    /// The input whose turn it is.
    pub fn next(&self, lane: usize, requests: [u64; 4]) -> Option<usize> {
        next_of_many(requests, self.turn[lane])
    }

    /// Someone new waits for an output's lane; its packet needs `space`.
    pub fn ask(&mut self, core: &mut Core, ports: &Ports, lane: usize, space: u32) {
        if self.blocked[lane] > 0 && space >= self.blocked[lane] {
            return;
        }
        let output = lane / ports.lanes;
        let channel = ports.out(output);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
        } else if !std::mem::replace(&mut self.dirty[output], true) {
            core.dirty_outputs.push((ports.node, output as u32));
        }
    }

    /// An output may send again; returns whether it is to be settled now.
    pub fn wake(&mut self, output: usize) -> bool {
        let lanes = self.turn.len() / self.dirty.len();
        self.blocked[output * lanes..(output + 1) * lanes].fill(0);
        !self.dirty[output]
    }
}

impl QueuedSwitch {
    /// Lets one output send, if it can, and sees to it that it is asked again.
    pub(super) fn settle_output(&mut self, core: &mut Core, output: usize) {
        let lanes = self.ports.lanes;
        let Arbiter::RoundRobin(state) = &mut self.arbiter else { return };
        state.dirty[output] = false;
        let first = usize::from(state.lane_turn[output]);
        let channel = self.ports.out(output);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
            return;
        }
        for step in 0..lanes {
            let vl = (first + step) % lanes;
            if self.settle_lane(core, output, vl) {
                if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                    state.lane_turn[output] = ((vl + 1) % lanes) as u8;
                }
                return;
            }
        }
    }

    fn settle_lane(&mut self, core: &mut Core, output: usize, vl: usize) -> bool {
        let lane = output * self.ports.lanes + vl;
        loop {
            let mut requests = self.buffers.requests(lane);
            let Arbiter::RoundRobin(state) = &mut self.arbiter else { return false };
            if let Some(rounds) = &mut state.rounds {
                requests = rounds.choice(lane, requests, self.buffers.aside(lane));
            }
            let Some(input) = state.next(lane, requests) else { return false };
            match self.candidate(core, lane, input) {
                Ok(queue) => {
                    let next = if input + 1 == self.ports.count() { 0 } else { input as u16 + 1 };
                    if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                        state.turn[lane] = next;
                        if let Some(rounds) = &mut state.rounds {
                            // Nobody is ever busy, so nobody is served out of turn for that.
                            rounds.served(lane, input, (core.now, core.now));
                        }
                    }
                    let (_, end) = self.serve(core, (input, output, vl), queue);
                    if self.queued_bytes(output) > 0 {
                        core.wake(self.ports.out(output), end);
                    }
                    return true;
                }
                // All it has stand aside now; others may have credit.
                Err(0) => {}
                Err(space) => {
                    if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                        state.blocked[lane] = space;
                    }
                    return false;
                }
            }
        }
    }
}
