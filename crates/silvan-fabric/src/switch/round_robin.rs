//! Round-robin arbitration with one read port per queue. Each output serves the inputs that have packets for
//! it round robin, and its virtual lanes likewise, as in [`super::voq`].

use silvan_engine::saved::Saved;
use silvan_network::port::{Lanes, Port, PortVl, Vl};
use silvan_network::port_set::PortSet;

use super::queued::{Arbiter, LaneOnLink, QueuedSwitch, Served, candidate};
use super::rounds::Rounds;
use super::{Architecture, Ports};
use crate::context::Context;
use crate::link::ChannelId;
use crate::queueing::buffers::Passage;

#[cfg(test)]
mod tests;

/// The state of the outputs that [`crate::queueing::buffers::Turn`] does not contain.
#[derive(Debug, Saved)]
pub(crate) struct RoundRobin<S> {
    /// Present if packets for other destinations may overtake those that lack credit.
    rounds: Option<Rounds<S>>,
}

impl<S: PortSet> RoundRobin<S> {
    pub fn new(ports: &Ports, divided: bool) -> Self {
        Self { rounds: divided.then(|| Rounds::new(ports.count() * ports.lanes, false)) }
    }
}

impl<S: PortSet, L: Lanes> Arbiter<S, L> for RoundRobin<S> {
    #[inline(always)]
    fn ask(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, lane: PortVl, input: Port) {
        switch.ask_output(ctx, lane, input);
    }

    #[inline(always)]
    fn wake(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, output: Port) {
        if switch.unblock(output) {
            switch.settle_output(ctx, output);
        }
    }

    #[inline(always)]
    fn settle(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, output: Port) {
        switch.settle_output(ctx, output);
    }
}

impl<S: PortSet, L: Lanes> QueuedSwitch<S, L, RoundRobin<S>> {
    /// Called when a packet for an output lane has become the head of a queue at an input.
    #[inline(always)]
    fn ask_output(&mut self, ctx: &mut Context, lane: PortVl, input: Port) {
        let blocked = self.buffers.turn(lane).blocked;
        if blocked > 0 {
            let first = self.buffers.first_packet(lane, input, ctx.now);
            if first.map_or(0, |id| ctx.packets[id].space) >= blocked {
                return;
            }
        }
        let output = lane.port(self.buffers.lanes());
        let channel = self.ports.out(output);
        let free_at = ctx.free_at(channel);
        if free_at > ctx.now {
            ctx.wake(channel, free_at);
            return;
        }
        let turn = self.buffers.turn_mut(self.buffers.lane(output, Vl::FIRST));
        if !std::mem::replace(&mut turn.dirty, true) {
            ctx.dirty_outputs.push((self.ports.place, output));
        }
    }

    /// Called when an output may be able to send again. Returns whether it must be settled now.
    fn unblock(&mut self, output: Port) -> bool {
        for lane in output.with_lanes(self.buffers.lanes()) {
            self.buffers.turn_mut(lane).blocked = 0;
        }
        !self.buffers.turn(self.buffers.lane(output, Vl::FIRST)).dirty
    }

    /// Sends from an output, if possible, and schedules its next wake-up.
    fn settle_output(&mut self, ctx: &mut Context, output: Port) {
        let lanes = self.buffers.lanes();
        let turn = self.buffers.turn_mut(self.buffers.lane(output, Vl::FIRST));
        turn.dirty = false;
        let first = turn.lane;
        let channel = self.ports.out(output);
        let free_at = ctx.free_at(channel);
        if free_at > ctx.now {
            ctx.wake(channel, free_at);
        } else if lanes == 1 {
            self.settle_lane(ctx, (output, channel), Vl::FIRST);
        } else {
            self.settle_one_of(ctx, (output, channel), first);
        }
    }

    /// Sends from one of the virtual lanes of a free output. The lanes are tried one after another.
    #[inline(never)]
    fn settle_one_of(&mut self, ctx: &mut Context, (output, channel): (Port, ChannelId), first: Vl) {
        let order = self.ports.lane_order();
        for vl in self.ports.lanes_of(output, first) {
            if self.settle_lane(ctx, (output, channel), vl) {
                let turn = self.buffers.turn_mut(self.buffers.lane(output, Vl::FIRST));
                turn.lane = order.after(first, vl);
                return;
            }
        }
    }

    #[inline(always)]
    fn settle_lane(&mut self, ctx: &mut Context, (output, channel): (Port, ChannelId), vl: Vl) -> bool {
        let lane = self.buffers.lane(output, vl);
        loop {
            let mut requests = self.buffers.in_turn(lane, S::default(), ctx.now);
            if let Some(rounds) = &mut self.arbiter.rounds {
                requests = rounds.choice(lane, requests, || self.buffers.aside(lane));
            }
            let Some(input) = requests.next(self.buffers.turn(lane).input) else { return false };
            match candidate(ctx, &mut self.buffers, LaneOnLink { lane, vl, channel }, input) {
                Ok(head) => {
                    self.buffers.turn_mut(lane).input = input.after(self.ports.count());
                    if let Some(rounds) = &mut self.arbiter.rounds {
                        // In this switch, inputs are never busy, so no input is served out of turn.
                        rounds.served(lane, input, (ctx.now, ctx.now));
                    }
                    let Served { end, left, .. } = self.serve(ctx, Passage { input, output, vl }, head);
                    self.spread(ctx);
                    if left > 0 || self.buffers.lanes() > 1 && self.queued_bytes(output) > 0 {
                        ctx.wake(channel, end);
                    }
                    return true;
                }
                // All packets of this input lack credit, and their queues yield. Other inputs may have credit.
                Err(0) => {}
                Err(space) => {
                    self.buffers.turn_mut(lane).blocked = space;
                    return false;
                }
            }
        }
    }
}
