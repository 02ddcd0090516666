//! Arbitration with one read port per input: iSLIP (McKeown 1999).
//!
//! Each iteration: every free output grants to the requesting free input at or after its
//! pointer, every input accepts the grant at or after its own; a pointer advances to one beyond
//! its partner only when the grant is accepted, and only in the first iteration.
//!
//! iSLIP is made for time slots. Packets here start when they can, so an output might find the same
//! input busy each time it is free, for ever. Therefore outputs keep rounds ([`super::rounds`]): those
//! that were busy when it was their turn come first when they are free, others are served meanwhile.
//!
//! Without slots there is no next slot either: what the iterations leave unmatched waits until something changes at
//! the switch. A switch that matches in each cell finds it a cell later. The papers give no such time, so there is
//! none here: more iterations stand for the cells of a packet (`docs/witness.md` has both beside BookSim).

use silvan_engine::Time;

use super::Ports;
use super::queued::{Arbiter, Head, QueuedSwitch};
use super::rounds::Rounds;
use crate::context::Context;
use crate::link::ChannelId;
use crate::port::{Port, Vl};
use crate::port_set::PortSet;

/// The state of the matching.
#[derive(Debug)]
pub(crate) struct Islip<S> {
    iterations: u8,
    /// When each input's read port is free, and the channel that it is to be asked on then.
    read_free: Box<[(Time, ChannelId)]>,
    /// The inputs whose read port was not free when that was looked at last.
    busy: S,
    /// The outputs whose link was not free when that was looked at last.
    sending: S,
    /// Of `sending`, those at whose end the switch has asked to be woken.
    planned: S,
    /// The same of `busy`.
    planned_reads: S,
    /// Per output: inputs whose `read_free` names its channel, and perhaps some others.
    readers: Box<[S]>,
    grant: Box<[Port]>,
    rounds: Rounds<S>,
    accept: Box<[Port]>,
    lane_turn: Vl,
    dirty: bool,
    /// Room for the matches of an iteration.
    matches: Vec<Match>,
}

/// A grant or its acceptance.
#[derive(Debug, Clone, Copy)]
struct Match {
    input: Port,
    output: Port,
    head: Head,
    /// Whether it lets others pass.
    waits: bool,
}

impl<S: PortSet> Islip<S> {
    /// `is_fifo`: see [`crate::queueing::buffers::Buffers::is_fifo`].
    pub fn new(ports: &Ports, iterations: u8, is_fifo: bool) -> Self {
        let count = ports.count();
        Self {
            iterations,
            read_free: vec![(Time::ZERO, 0); count].into(),
            busy: S::default(),
            sending: S::default(),
            planned: S::default(),
            planned_reads: S::default(),
            readers: vec![S::default(); count].into(),
            grant: vec![Port::FIRST; count].into(),
            rounds: Rounds::new(count * ports.lanes, !is_fifo),
            accept: vec![Port::FIRST; count].into(),
            lane_turn: Vl::FIRST,
            dirty: false,
            matches: Vec::new(),
        }
    }

    /// Someone new waits at an input for an output.
    pub fn ask(&mut self, ctx: &mut Context, ports: &Ports, (input, output): (Port, Port)) {
        let (read_free, feeding) = self.read_free[input.index()];
        let channel = ports.out(output);
        if read_free > ctx.now {
            ctx.wake(feeding, read_free);
        } else if ctx.free_at(channel) > ctx.now {
            ctx.wake(channel, ctx.free_at(channel));
        } else {
            self.mark(ctx, ports);
        }
    }

    /// Has the switch settled at the end of this instant.
    pub fn mark(&mut self, ctx: &mut Context, ports: &Ports) {
        if !self.dirty {
            self.dirty = true;
            ctx.dirty_outputs.push((ports.place, Port::FIRST));
        }
    }

    /// Of two grants to an input, whether it accepts the first: the other lets it pass, or it is nearer to the
    /// input's pointer.
    fn is_nearer(&self, grant: &Match, other: &Match) -> bool {
        let (count, pointer) = (self.accept.len(), self.accept[grant.input.index()].index());
        let ahead =
            |output: usize| if output < pointer { output + count - pointer } else { output - pointer };
        let distance = |grant: &Match| (grant.waits, ahead(grant.output.index()));
        distance(grant) < distance(other)
    }

    /// Looks which read ports, and which links that packets wait for (`filled`), are free by now: not those
    /// for whose end the switch has asked to be woken, as long as it was not.
    #[inline]
    fn refresh(&mut self, ctx: &Context, ports: &Ports, filled: S) {
        for input in self.busy.without(self.planned_reads).iter() {
            if self.read_free[input.index()].0 <= ctx.now {
                self.busy.remove(input);
            }
        }
        for output in filled.and(self.sending).without(self.planned).iter() {
            if ctx.free_at(ports.out(output)) <= ctx.now {
                self.sending.remove(output);
            }
        }
        debug_assert!(
            self.busy.iter().all(|input| self.read_free[input.index()].0 > ctx.now),
            "a wake-up is missing"
        );
        let sends = |output| ctx.free_at(ports.out(output)) > ctx.now;
        debug_assert!(filled.and(self.sending).iter().all(sends), "a wake-up is missing");
    }

    /// Something has been put on an output's link.
    #[inline]
    pub fn sends(&mut self, output: Port) {
        self.sending.insert(output);
        self.planned.remove(output);
    }

    /// An input's read port is in use until then, for an output that it sends to.
    #[inline]
    fn reads(&mut self, (input, output): (Port, Port), (until, channel): (Time, ChannelId), now: Time) {
        self.read_free[input.index()] = (until, channel);
        self.planned_reads.remove(input);
        self.readers[output.index()] = self.readers[output.index()].and(self.busy).or(S::of(input));
        if until > now {
            self.busy.insert(input);
        }
    }

    /// The switch is woken on an output's channel: whatever else it has asked for there is forgotten.
    #[inline]
    pub fn woken(&mut self, output: Port) {
        self.planned.remove(output);
        self.planned_reads = self.planned_reads.without(self.readers[output.index()]);
    }

    fn accepted(&mut self, pair: &Match) {
        let count = self.accept.len();
        self.grant[pair.output.index()] = pair.input.after(count);
        self.accept[pair.input.index()] = pair.output.after(count);
    }
}

impl<S: PortSet> QueuedSwitch<S> {
    /// Matches free inputs to free outputs, lets them send, and sees to it that the switch is asked
    /// again.
    pub(super) fn settle_matching(&mut self, ctx: &mut Context) {
        let lanes = self.ports.lanes;
        let Arbiter::Islip(state) = &mut self.arbiter else { return };
        state.dirty = false;
        state.refresh(ctx, &self.ports, self.buffers.filled());
        let (first, iterations) = (state.lane_turn, state.iterations.max(1));
        state.lane_turn = first.after(lanes);
        let mut matches = std::mem::take(&mut state.matches);
        for vl in first.in_turn(lanes) {
            for iteration in 0..iterations {
                self.match_once(ctx, vl, iteration == 0, &mut matches);
                if matches.is_empty() {
                    break;
                }
                for pair in matches.drain(..) {
                    self.send(ctx, vl, pair);
                }
                // The inputs are busy now: whoever waits there is asked when they are not. All that
                // were matched are on their way, so notifications do not get in between.
                self.buffers.changes.asked.clear();
                self.mark_moved(ctx);
                self.tell(ctx);
            }
        }
        if let Arbiter::Islip(state) = &mut self.arbiter {
            state.matches = matches;
        }
        self.plan(ctx);
    }

    /// One iteration of request, grant and accept among the free inputs and outputs, in the order of
    /// the inputs.
    fn match_once(&mut self, ctx: &mut Context, vl: Vl, first: bool, accepted: &mut Vec<Match>) {
        let Arbiter::Islip(state) = &self.arbiter else { return };
        for output in self.buffers.asked_for(vl).without(state.sending).iter() {
            let Some(offer) = self.grant(ctx, (output, vl)) else { continue };
            let Arbiter::Islip(state) = &self.arbiter else { break };
            match accepted.iter_mut().find(|known| known.input == offer.input) {
                Some(known) if state.is_nearer(&offer, known) => *known = offer,
                Some(_) => {}
                None => accepted.push(offer),
            }
        }
        if accepted.len() > 1 {
            accepted.sort_unstable_by_key(|pair| pair.input);
        }
        if first && let Arbiter::Islip(state) = &mut self.arbiter {
            accepted.iter().for_each(|pair| state.accepted(pair));
        }
    }

    /// The input that a free output grants to: the first one with a free read port at or after the
    /// output's pointer, if there is credit for its packet.
    fn grant(&mut self, ctx: &mut Context, (output, vl): (Port, Vl)) -> Option<Match> {
        let lane = self.ports.lane(output, vl);
        loop {
            let Arbiter::Islip(state) = &mut self.arbiter else { return None };
            let asking = self.buffers.in_turn(lane, state.busy, ctx.now);
            let aside = self.buffers.aside(lane);
            let start = state.grant[output.index()];
            let read_free = &state.read_free;
            let free_at = |input: Port| read_free[input.index()].0;
            let mut left = state.rounds.choice_of_free(lane, (asking, aside), state.busy, ctx.now, free_at);
            let mut any_left = false;
            let channel = self.ports.out(output);
            while let Some(input) = left.next(start) {
                left.remove(input);
                match self.candidate(ctx, (lane, vl, channel), input) {
                    Ok(head) => {
                        let waits = self.buffers.lets_pass(head.queue, ctx.now);
                        return Some(Match { input, output, head, waits });
                    }
                    // It stands aside for want of credit: it is none of those to wait for.
                    Err(0) => any_left = true,
                    Err(_) => return None,
                }
            }
            if !any_left {
                return None;
            }
        }
    }

    fn send(&mut self, ctx: &mut Context, vl: Vl, pair: Match) {
        let Match { input, output, head, .. } = pair;
        let (read, end, _) = self.serve(ctx, (input, output, vl), head);
        let channel = self.ports.out(output);
        let lane = self.ports.lane(output, vl);
        if let Arbiter::Islip(state) = &mut self.arbiter {
            state.sends(output);
            state.reads((input, output), (read, channel), ctx.now);
            state.rounds.served(lane, input, (ctx.now, end));
        }
    }

    /// While anything waits, the switch is asked again when an input or an output becomes free.
    fn plan(&mut self, ctx: &mut Context) {
        let Arbiter::Islip(state) = &mut self.arbiter else { return };
        let filled = self.buffers.filled();
        if filled.is_empty() {
            return;
        }
        let outputs = filled.and(state.sending);
        for output in outputs.without(state.planned).iter() {
            let channel = self.ports.out(output);
            ctx.wake(channel, ctx.free_at(channel));
        }
        for input in state.busy.without(state.planned_reads).iter() {
            let (free_at, channel) = state.read_free[input.index()];
            ctx.wake(channel, free_at);
        }
        (state.planned, state.planned_reads) = (state.planned.or(outputs), state.busy);
        #[cfg(debug_assertions)]
        {
            let ends = outputs.iter().map(|output| self.ports.out(output)).map(|out| (ctx.free_at(out), out));
            let mut all = ends.chain(state.busy.iter().map(|input| state.read_free[input.index()]));
            debug_assert!(all.all(|(time, out)| ctx.links.is_woken_by(out, time)), "the switch is woken");
        }
    }
}
