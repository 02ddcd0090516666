//! Arbitration of switches with one read port per input: iSLIP (McKeown 1999).
//!
//! In each iteration, every free output grants to the first free requesting input at or after the output's pointer, and
//! every input accepts the first grant at or after its own pointer. A pointer moves to the position after its partner
//! only if the grant was accepted in the first iteration.
//!
//! iSLIP is designed for time slots. Here, packets start at any time, so an input could be busy every time a certain
//! output becomes free, and that output would never serve it. Therefore, outputs keep rounds ([`super::rounds`]): an
//! output serves other inputs while an input is busy at its turn, but serves that input first once it is free.
//!
//! With `strict` arbitration of special queues, outputs whose special queues yield grant last, and only to
//! inputs without another grant. Otherwise, such an input would accept the other grant, and the output would
//! stay idle although other inputs request it.
//!
//! With several virtual lanes, a matching has as many steps as there are lanes. In each step, every free output considers
//! one lane, beginning with the lane that follows the last one that the output served, or with the lane that precedes all
//! others.
//!
//! iSLIP resolves unmatched pairs in the next time slot. Without slots, the matching is repeated instead: if an
//! output's grant was not accepted in the last iteration and another free input requests the output, the next matching
//! follows after the time of a cell. Otherwise, this pair would stay idle until something else changes at the switch.

use silvan_engine::Time;
use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_network::port::{Lanes, Port, PortVl, Vl};
use silvan_network::port_set::PortSet;

use super::Ports;
use super::queued::{Arbiter, LaneOnLink, QueueHead, QueuedSwitch, Served, candidate};
use super::rounds::Rounds;
use crate::context::Context;
use crate::link::ChannelId;
use crate::queueing::buffers::{Buffers, Passage};

#[cfg(test)]
mod tests;

/// The state of an input.
#[derive(Debug, Clone, Copy, Saved)]
struct Input {
    /// The time at which its read port becomes free.
    read_free: Time,
    /// The channel whose sender is woken at that time.
    feeding: ChannelId,
    /// The output to accept first.
    accept: Port,
}

/// The state of the matching. The [`crate::queueing::buffers::Turn`] of an output contains the input to which it grants
/// first, and the virtual lane to consider first, which follows the lane served last.
#[derive(Debug, Saved)]
pub(crate) struct Islip<S> {
    /// At least one.
    iterations: u8,
    /// Whether the switch will be settled at the end of this instant.
    dirty: bool,
    /// The inputs whose read port was busy at the last check.
    busy: S,
    /// The outputs whose link was busy at the last check.
    sending: S,
    /// The outputs in `sending` for which a wake-up is scheduled at the time at which the link becomes free.
    planned: S,
    /// The inputs in `busy` for which a wake-up is scheduled at the time at which the read port becomes free.
    planned_reads: S,
    inputs: Box<[Input]>,
    /// For each output, all inputs for which [`Input::feeding`] is the output's channel, and possibly others.
    readers: Box<[S]>,
    rounds: Rounds<S>,
    /// For each output, the time after which it repeats a matching in which its grant was not accepted; `None` if
    /// outputs do not repeat matchings.
    cells: Option<Box<[Time]>>,
    /// Scratch space for the matches of an iteration, in the order of their inputs.
    matches: Vec<Match>,
}

/// A grant, or an accepted grant.
#[derive(Debug, Clone, Copy, Saved)]
struct Match {
    input: Port,
    output: Port,
    vl: Vl,
    head: QueueHead,
    /// Whether the queue of the packet yields to other queues, so that the packet can wait.
    waits: bool,
}

impl<S: PortSet> Islip<S> {
    /// `cells` contains the time of a cell for each output, if matchings are repeated. See
    /// [`crate::queueing::buffers::Buffers::is_fifo`] for `is_fifo`.
    pub fn new(ports: &Ports, iterations: u8, cells: Option<Box<[Time]>>, is_fifo: bool) -> Self {
        let count = ports.count();
        let input = Input { read_free: Time::ZERO, feeding: 0, accept: Port::FIRST };
        Self {
            iterations: iterations.max(1),
            dirty: false,
            busy: S::default(),
            sending: S::default(),
            planned: S::default(),
            planned_reads: S::default(),
            inputs: vec![input; count].into(),
            readers: vec![S::default(); count].into(),
            rounds: Rounds::new(count * ports.lanes, !is_fifo),
            cells,
            matches: Vec::new(),
        }
    }

    /// Schedules the matching of this switch at the end of this instant.
    #[inline(always)]
    fn mark(&mut self, ctx: &mut Context, ports: &Ports) {
        if !self.dirty {
            self.dirty = true;
            ctx.dirty_outputs.push((ports.place, Port::FIRST));
        }
    }

    /// Whether the first of two grants to an input takes precedence: the queue of the other grant yields, or
    /// the first output is nearer to the input's pointer.
    fn is_nearer(&self, grant: &Match, other: &Match) -> bool {
        let (count, pointer) = (self.inputs.len(), self.inputs[grant.input.index()].accept.index());
        let ahead = |output: usize| {
            if output < pointer { output + count - pointer } else { output - pointer }
        };
        let distance = |grant: &Match| (grant.waits, ahead(grant.output.index()));
        distance(grant) < distance(other)
    }

    /// Updates which read ports are free, and which links are free for the outputs in `filled`, for which packets wait.
    /// Ports and links with a pending wake-up are still busy, so they are skipped.
    #[inline(always)]
    fn refresh(&mut self, ctx: &Context, ports: &Ports, filled: S) {
        for input in self.busy.without(self.planned_reads).iter() {
            if self.inputs[input.index()].read_free <= ctx.now {
                self.busy.remove(input);
            }
        }
        for output in filled.and(self.sending).without(self.planned).iter() {
            if ctx.free_at(ports.out(output)) <= ctx.now {
                self.sending.remove(output);
            }
        }
        debug_assert!(
            self.busy.iter().all(|input| self.inputs[input.index()].read_free > ctx.now),
            "a wake-up is missing"
        );
        let sends = |output| ctx.free_at(ports.out(output)) > ctx.now;
        debug_assert!(filled.and(self.sending).iter().all(sends), "a wake-up is missing");
    }

    /// Called when an output's link starts to carry a packet or a notification.
    #[inline(always)]
    fn sends(&mut self, output: Port) {
        self.sending.insert(output);
        self.planned.remove(output);
    }

    /// Records that an input is being read for an output until the given time.
    #[inline(always)]
    fn reads(&mut self, (input, output): (Port, Port), (until, channel): (Time, ChannelId), now: Time) {
        let reader = &mut self.inputs[input.index()];
        (reader.read_free, reader.feeding) = (until, channel);
        self.planned_reads.remove(input);
        let readers = &mut self.readers[output.index()];
        *readers = readers.and(self.busy).or(S::of(input));
        if until > now {
            self.busy.insert(input);
        }
    }

    /// Adds a grant to the accepted ones unless another grant to its input takes precedence.
    #[inline(always)]
    fn offer(&self, offer: Match, accepted: &mut Vec<Match>, refused: &mut S) {
        if accepted.last().is_none_or(|last| last.input < offer.input) {
            accepted.push(offer);
        } else {
            self.offer_before(offer, accepted, refused);
        }
    }

    /// Same as [`Self::offer`], if an input at or after that of the offer has accepted a grant.
    #[inline(never)]
    fn offer_before(&self, offer: Match, accepted: &mut Vec<Match>, refused: &mut S) {
        let place = accepted.partition_point(|known| known.input < offer.input);
        match accepted.get_mut(place).filter(|known| known.input == offer.input) {
            Some(known) => {
                let (gains, loses) =
                    if self.is_nearer(&offer, known) { (offer, *known) } else { (*known, offer) };
                refused.insert(loses.output);
                *known = gains;
            }
            None => accepted.insert(place, offer),
        }
    }

    /// Selects the input to which a free output grants: the first one at or after the output's pointer that has a free
    /// read port, if there is credit for its packet. Inputs in `taken` are treated as busy.
    #[inline(always)]
    fn grant<L: Lanes>(
        &mut self,
        ctx: &mut Context,
        ports: &Ports,
        buffers: &mut Buffers<S, L>,
        (output, vl): (Port, Vl),
        taken: S,
    ) -> Option<Match> {
        let lane = PortVl::of(output, vl, buffers.lanes());
        let at = LaneOnLink { lane, vl, channel: ports.out(output) };
        let busy = self.busy.or(taken);
        loop {
            let asking = buffers.in_turn(lane, busy, ctx.now);
            let inputs = &self.inputs;
            let free_at = |input: Port| {
                if taken.contains(input) { Time::NEVER } else { inputs[input.index()].read_free }
            };
            let aside = || buffers.aside(lane);
            let mut left = self.rounds.choice_of_free(lane, (asking, aside), busy, ctx.now, free_at);
            let start = buffers.turn(PortVl::of(output, Vl::FIRST, buffers.lanes())).input;
            let mut input = left.next(start)?;
            loop {
                match candidate(ctx, buffers, at, input) {
                    Ok(head) => {
                        let waits = buffers.lets_pass(head.queue, ctx.now);
                        return Some(Match { input, output, vl, head, waits });
                    }
                    // The packet lacks credit, and its queue waits in a separate list, so the output serves other
                    // queues.
                    Err(0) => left.remove(input),
                    Err(_) => return None,
                }
                match left.next(start) {
                    Some(next) => input = next,
                    None => break,
                }
            }
        }
    }
}

/// The virtual lane that an output considers in a step of a matching.
#[inline(always)]
fn lane_at<S: PortSet, L: Lanes>(
    (ports, buffers): (&Ports, &Buffers<S, L>),
    output: Port,
    step: usize,
) -> Vl {
    if buffers.lanes() == 1 {
        return Vl::FIRST;
    }
    let turn = buffers.turn(PortVl::of(output, Vl::FIRST, buffers.lanes())).lane;
    match &ports.arbiters {
        Some(arbiters) => arbiters.sequence(output.index()).nth(step).unwrap_or(Vl::FIRST),
        None => ports.lane_order().at(turn, step),
    }
}

impl<S: PortSet, L: Lanes> Arbiter<S, L> for Islip<S> {
    #[inline(always)]
    fn ask(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, lane: PortVl, input: Port) {
        let Input { read_free, feeding, .. } = switch.arbiter.inputs[input.index()];
        let channel = switch.ports.out(lane.port(switch.buffers.lanes()));
        if read_free > ctx.now {
            ctx.wake(feeding, read_free);
        } else if ctx.free_at(channel) > ctx.now {
            ctx.wake(channel, ctx.free_at(channel));
        } else {
            switch.arbiter.mark(ctx, &switch.ports);
        }
    }

    /// The wake-up on an output's channel replaces all others requested on that channel.
    #[inline(always)]
    fn wake(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, output: Port) {
        let state = &mut switch.arbiter;
        state.planned.remove(output);
        state.planned_reads = state.planned_reads.without(state.readers[output.index()]);
        state.mark(ctx, &switch.ports);
    }

    #[inline(always)]
    fn settle(switch: &mut QueuedSwitch<S, L, Self>, ctx: &mut Context, _output: Port) {
        switch.settle_matching(ctx);
    }

    #[inline(always)]
    fn note_sending(&mut self, output: Port) {
        self.sends(output);
    }

    #[inline]
    fn likely(&self, lane: PortVl, requests: S) -> S {
        self.rounds.likely(lane, requests.without(self.busy))
    }

    #[inline]
    fn prefetch_input(&self, input: Port) {
        prefetch(&self.inputs, input.index());
    }
}

impl<S: PortSet, L: Lanes> QueuedSwitch<S, L, Islip<S>> {
    /// Matches free inputs to free outputs, sends the matched packets, and schedules the next wake-up of the switch.
    #[inline(always)]
    fn settle_matching(&mut self, ctx: &mut Context) {
        let state = &mut self.arbiter;
        state.dirty = false;
        state.refresh(ctx, &self.ports, self.buffers.filled());
        let iterations = state.iterations;
        let mut matches = std::mem::take(&mut state.matches);
        for step in 0..self.buffers.lanes() {
            let mut refused = S::default();
            for iteration in 0..iterations {
                refused = self.match_once(ctx, step, iteration == 0, &mut matches);
                if matches.is_empty() {
                    break;
                }
                for &pair in &matches {
                    self.send(ctx, pair);
                }
                matches.clear();
                // These inputs are busy, so their new requests are handled when they become free. All matched packets
                // have started, so notifications cannot use their links first.
                self.buffers.changes.asked().clear();
                self.spread(ctx);
            }
            if !refused.is_empty() {
                self.repeat(ctx, step, refused);
            }
        }
        self.arbiter.matches = matches;
        self.plan(ctx);
    }

    /// Repeats the matching after the time of a cell for outputs that remain free, if a free input requests them.
    #[inline(never)]
    fn repeat(&mut self, ctx: &mut Context, step: usize, refused: S) {
        let Islip { cells: Some(cells), sending, busy, .. } = &self.arbiter else { return };
        for output in refused.without(*sending).iter() {
            let lane = self.buffers.lane(output, lane_at((&self.ports, &self.buffers), output, step));
            if !self.buffers.requests(lane).without(*busy).is_empty() {
                ctx.wake(self.ports.out(output), ctx.now + cells[output.index()]);
            }
        }
    }

    /// Performs one iteration of request, grant and accept among the free inputs and outputs. The matches are ordered
    /// by input. Returns the outputs whose grants were not accepted.
    #[inline(always)]
    fn match_once(&mut self, ctx: &mut Context, step: usize, first: bool, accepted: &mut Vec<Match>) -> S {
        let mut refused = S::default();
        let mut later = S::default();
        let Self { ports, buffers, arbiter: state, .. } = self;
        let (lanes, is_strict) = (buffers.lanes(), buffers.is_strict());
        for vl in Vl::all(lanes) {
            let mut free = buffers.asked_for(vl).without(state.sending);
            if lanes > 1 {
                let considers = |&output: &Port| lane_at((ports, buffers), output, step) == vl;
                free = free.iter().filter(considers).map(S::of).fold(S::default(), S::or);
            }
            for output in free.iter() {
                let offer = state.grant(ctx, ports, buffers, (output, vl), S::default());
                let Some(offer) = offer else { continue };
                if offer.waits && is_strict {
                    later.insert(output);
                } else {
                    state.offer(offer, accepted, &mut refused);
                }
            }
        }
        if !later.is_empty() {
            self.match_later(ctx, step, later, accepted, &mut refused);
        }
        if first {
            self.move_pointers(accepted);
        }
        refused
    }

    /// Moves the pointers of the outputs and inputs whose grants were accepted.
    #[inline(always)]
    fn move_pointers(&mut self, accepted: &[Match]) {
        let count = self.arbiter.inputs.len();
        for pair in accepted {
            let lane = self.buffers.lane(pair.output, Vl::FIRST);
            self.buffers.turn_mut(lane).input = pair.input.after(count);
            self.arbiter.inputs[pair.input.index()].accept = pair.output.after(count);
        }
    }

    /// Lets the outputs whose special queues yield grant to inputs without another grant.
    #[inline(never)]
    fn match_later(
        &mut self,
        ctx: &mut Context,
        step: usize,
        later: S,
        accepted: &mut Vec<Match>,
        refused: &mut S,
    ) {
        let taken = accepted.iter().map(|pair| S::of(pair.input)).fold(S::default(), S::or);
        let Self { ports, buffers, arbiter: state, .. } = self;
        for output in later.iter() {
            let vl = lane_at((ports, buffers), output, step);
            if let Some(offer) = state.grant(ctx, ports, buffers, (output, vl), taken) {
                state.offer(offer, accepted, refused);
            }
        }
    }

    #[inline(always)]
    fn send(&mut self, ctx: &mut Context, pair: Match) {
        let Match { input, output, vl, head, .. } = pair;
        let Served { read_until, end, .. } = self.serve(ctx, Passage { input, output, vl }, head);
        let channel = self.ports.out(output);
        let lane = self.buffers.lane(output, vl);
        if self.buffers.lanes() > 1 {
            let order = self.ports.lane_order();
            let first = self.buffers.lane(output, Vl::FIRST);
            let turn = &mut self.buffers.turn_mut(first).lane;
            *turn = order.after(*turn, vl);
        }
        let state = &mut self.arbiter;
        state.sends(output);
        state.reads((input, output), (read_until, channel), ctx.now);
        state.rounds.served(lane, input, (ctx.now, end));
    }

    /// Schedules a wake-up for each input or output that becomes free while packets wait.
    #[inline(always)]
    fn plan(&mut self, ctx: &mut Context) {
        let state = &mut self.arbiter;
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
            let Input { read_free, feeding, .. } = state.inputs[input.index()];
            ctx.wake(feeding, read_free);
        }
        (state.planned, state.planned_reads) = (state.planned.or(outputs), state.busy);
        #[cfg(debug_assertions)]
        {
            let ends = outputs.iter().map(|output| self.ports.out(output)).map(|out| (ctx.free_at(out), out));
            let reads = state.busy.iter().map(|input| state.inputs[input.index()]);
            let mut all = ends.chain(reads.map(|input| (input.read_free, input.feeding)));
            debug_assert!(all.all(|(time, out)| ctx.links.is_woken_by(out, time)), "the switch is woken");
        }
    }
}
