//! Arbitration with a read port per queue: each output serves the inputs that have packets for it
//! round robin, and its virtual lanes likewise, as in [`super::voq`].

use silvan_engine::cache::prefetch;

use super::Ports;
use super::queued::{Arbiter, QueuedSwitch};
use super::rounds::Rounds;
use crate::core::Core;
use crate::port_set::PortSet;

/// A virtual lane of an output.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// The space for which the packet whose turn it is lacks credit.
    blocked: u32,
    /// The input to look at first.
    turn: u16,
}

#[derive(Debug, Clone, Copy, Default)]
struct Output {
    /// The virtual lane to look at first.
    turn: u8,
    /// Whether it is settled at the end of this instant.
    dirty: bool,
}

/// The state of the outputs.
#[derive(Debug)]
pub(crate) struct RoundRobin<S> {
    /// Per output and virtual lane.
    lanes: Box<[Lane]>,
    outputs: Box<[Output]>,
    /// Where packets for other destinations may overtake those that lack credit.
    rounds: Option<Rounds<S>>,
}

impl<S: PortSet> RoundRobin<S> {
    pub fn new(ports: &Ports, divided: bool) -> Self {
        let (count, lanes) = (ports.count(), ports.lanes);
        Self {
            lanes: vec![Lane::default(); count * lanes].into(),
            outputs: vec![Output::default(); count].into(),
            rounds: divided.then(|| Rounds::new(count * lanes, false)),
        }
    }

    /// The input whose turn it is.
    pub fn next(&self, lane: usize, requests: S) -> Option<usize> {
        requests.next(self.lanes[lane].turn)
    }

    /// Has what an output touches brought into the cache.
    #[inline]
    pub fn foresee(&self, output: usize, lane: usize) {
        prefetch(&self.lanes, lane);
        prefetch(&self.outputs, output);
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
        } else if !std::mem::replace(&mut self.outputs[output].dirty, true) {
            core.dirty_outputs.push((ports.place, output as u32));
        }
    }

    /// An output may send again; returns whether it is to be settled now.
    pub fn wake(&mut self, output: usize, lanes: usize) -> bool {
        self.lanes[output * lanes..(output + 1) * lanes].iter_mut().for_each(|lane| lane.blocked = 0);
        !self.outputs[output].dirty
    }
}

impl<S: PortSet> QueuedSwitch<S> {
    /// Lets one output send, if it can, and sees to it that it is asked again.
    pub(super) fn settle_output(&mut self, core: &mut Core, output: usize) {
        let lanes = self.ports.lanes;
        let Arbiter::RoundRobin(state) = &mut self.arbiter else { return };
        state.outputs[output].dirty = false;
        let first = usize::from(state.outputs[output].turn);
        let channel = self.ports.out(output);
        let free_at = core.free_at(channel);
        if free_at > core.now {
            core.wake(channel, free_at);
            return;
        }
        let mut vl = first;
        for _ in 0..lanes {
            let next = if vl + 1 == lanes { 0 } else { vl + 1 };
            if self.settle_lane(core, output, vl) {
                if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                    state.outputs[output].turn = next as u8;
                }
                return;
            }
            vl = next;
        }
    }

    /// Whether packets wait for an output.
    #[inline(always)]
    fn waits(&self, output: usize) -> bool {
        if self.ports.lanes == 1 { self.buffers.sum(output) > 0 } else { self.queued_bytes(output) > 0 }
    }

    #[inline(always)]
    fn settle_lane(&mut self, core: &mut Core, output: usize, vl: usize) -> bool {
        let lane = output * self.ports.lanes + vl;
        loop {
            let mut requests = self.buffers.in_turn(lane, S::default(), core.now);
            let Arbiter::RoundRobin(state) = &mut self.arbiter else { return false };
            if let Some(rounds) = &mut state.rounds {
                requests = rounds.choice(lane, requests, self.buffers.aside(lane));
            }
            let Some(input) = state.next(lane, requests) else { return false };
            match self.candidate(core, (output, vl), input) {
                Ok(head) => {
                    let next = if input + 1 == self.ports.count() { 0 } else { input as u16 + 1 };
                    if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                        state.lanes[lane].turn = next;
                        if let Some(rounds) = &mut state.rounds {
                            // Nobody is ever busy, so nobody is served out of turn for that.
                            rounds.served(lane, input, (core.now, core.now));
                        }
                    }
                    let (_, end) = self.serve(core, (input, output, vl), head);
                    if self.waits(output) {
                        core.wake(self.ports.out(output), end);
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
