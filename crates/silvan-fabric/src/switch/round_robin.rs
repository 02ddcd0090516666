//! Round-robin arbitration with one read port per queue. Each output serves in turn the inputs that have packets for
//! it, and also its virtual lanes in turn, as in [`super::voq`].

use silvan_engine::cache::prefetch;

use super::Ports;
use super::architecture::Architecture;
use super::queued::{Arbiter, QueuedSwitch, candidate};
use super::rounds::Rounds;
use crate::context::Context;
use crate::link::ChannelId;
use crate::port::{Port, PortVl, Vl};
use crate::port_set::PortSet;

/// One virtual lane of an output.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    /// Buffer space that the next packet needs and for which it has no credit.
    blocked: u32,
    /// The input to consider first.
    turn: Port,
    /// The virtual lane to consider first; used only in the first lane of an output.
    lane_turn: Vl,
    /// Whether the output will be settled at the end of this instant; used only in the first lane of an output.
    dirty: bool,
}

/// The state of the outputs.
#[derive(Debug)]
pub(crate) struct RoundRobin<S> {
    /// State per output and virtual lane.
    lanes: Box<[Lane]>,
    /// Present if packets for other destinations may overtake those that lack credit.
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

    /// The input to serve next.
    pub fn next(&self, lane: PortVl, requests: S) -> Option<Port> {
        requests.next(self.lanes[lane.index()].turn)
    }

    /// Prefetches the state that an output will use.
    #[inline]
    pub fn prefetch(&self, lane: PortVl) {
        prefetch(&self.lanes, lane.index());
    }

    /// Called when a packet for an output lane has become the head of a queue. `space` computes the buffer space that
    /// the packet needs, and is called only if necessary.
    #[inline(always)]
    pub fn ask(
        &mut self,
        ctx: &mut Context,
        ports: &Ports,
        lane: PortVl,
        space: impl FnOnce(&Context) -> u32,
    ) {
        let blocked = self.lanes[lane.index()].blocked;
        if blocked > 0 && space(ctx) >= blocked {
            return;
        }
        let output = lane.port(ports.lanes);
        let channel = ports.out(output);
        let free_at = ctx.free_at(channel);
        if free_at > ctx.now {
            ctx.wake(channel, free_at);
        } else if !std::mem::replace(&mut self.lanes[ports.lane(output, Vl::FIRST).index()].dirty, true) {
            ctx.dirty_outputs.push((ports.place, output));
        }
    }

    /// Called when an output may be able to send again. Returns whether it must be settled now.
    pub fn wake(&mut self, output: Port, lanes: usize) -> bool {
        let of_output = &mut self.lanes[output.lane_range(lanes)];
        of_output.iter_mut().for_each(|lane| lane.blocked = 0);
        !of_output[0].dirty
    }
}

impl<S: PortSet> QueuedSwitch<S> {
    /// Sends from an output, if possible, and schedules its next wake-up.
    pub(super) fn settle_output(&mut self, ctx: &mut Context, output: Port) {
        let lanes = self.ports.lanes;
        let Arbiter::RoundRobin(state) = &mut self.arbiter else { return };
        let of_output = &mut state.lanes[self.ports.lane(output, Vl::FIRST).index()];
        of_output.dirty = false;
        let first = of_output.lane_turn;
        let channel = self.ports.out(output);
        let free_at = ctx.free_at(channel);
        if free_at > ctx.now {
            ctx.wake(channel, free_at);
        } else if lanes == 1 {
            self.settle_lane(ctx, (output, Vl::FIRST, channel));
        } else {
            self.settle_one_of(ctx, (output, channel), first);
        }
    }

    /// Sends from one of the virtual lanes of a free output. The lanes are tried in turn.
    #[inline(never)]
    fn settle_one_of(&mut self, ctx: &mut Context, (output, channel): (Port, ChannelId), first: Vl) {
        let order = self.ports.lane_order();
        for vl in order.from(first) {
            if self.settle_lane(ctx, (output, vl, channel)) {
                if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                    let of_output = self.ports.lane(output, Vl::FIRST);
                    state.lanes[of_output.index()].lane_turn = order.after(first, vl);
                }
                return;
            }
        }
    }

    #[inline(always)]
    fn settle_lane(&mut self, ctx: &mut Context, (output, vl, channel): (Port, Vl, ChannelId)) -> bool {
        let lane = self.ports.lane(output, vl);
        loop {
            let mut requests = self.buffers.in_turn(lane, S::default(), ctx.now);
            let Arbiter::RoundRobin(state) = &mut self.arbiter else { return false };
            if let Some(rounds) = &mut state.rounds {
                requests = rounds.choice(lane, requests, || self.buffers.aside(lane));
            }
            let Some(input) = state.next(lane, requests) else { return false };
            match candidate(ctx, (&mut self.buffers, self.relays), (lane, vl, channel), input) {
                Ok(head) => {
                    let next = input.after(self.ports.count());
                    if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                        state.lanes[lane.index()].turn = next;
                        if let Some(rounds) = &mut state.rounds {
                            // In this switch, inputs are never busy, so no input is served out of turn.
                            rounds.served(lane, input, (ctx.now, ctx.now));
                        }
                    }
                    let (_, end, left) = self.serve(ctx, (input, output, vl), head);
                    if left > 0 || self.ports.lanes > 1 && self.queued_bytes(output) > 0 {
                        ctx.wake(channel, end);
                    }
                    return true;
                }
                // All packets of this input lack credit and let others pass. Other inputs may have credit.
                Err(0) => {}
                Err(space) => {
                    if let Arbiter::RoundRobin(state) = &mut self.arbiter {
                        state.lanes[lane.index()].blocked = space;
                    }
                    return false;
                }
            }
        }
    }
}
