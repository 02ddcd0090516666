//! Rounds: an output serves no input twice before it has served all other waiting inputs, except inputs that are busy.
//!
//! With a plain round robin, an input is served only if it is ready when its turn comes. The pointer passes an input
//! that is busy at that time, or that lacks credit only for its destination. This can repeat indefinitely: if packets
//! end at regular times, the same input may be busy whenever the output becomes free. If the output always waited for
//! the input instead, it would be idle for about half a packet per turn.
//!
//! Therefore, an output keeps a round. Inputs that were not yet served in the round come first. While all of these are
//! busy, the other inputs take turns. Their packets are charged to the next round, and the time that they use is added
//! up as given away. An output stays idle for a busy input only if that input becomes free soon: within a sixteenth of
//! the time given away, divided by the number of other requesting inputs. As a result, an output loses at most about a
//! sixteenth of its time, and the packet at the head of a queue waits for at most about sixteen rounds.
//!
//! If an output is idle at times (because it has no packets, lacks credit, or is stopped), waiting costs little,
//! because it can send the delayed packet later. The output therefore also waits for half of the time for which it has
//! been idle since the round began.
//!
//! An output never waits for first-in first-out inputs: once such an input is free, it stays free until the packet at
//! its head is served. Only an input with several queues may start another packet in the meantime.

use silvan_engine::Time;
use silvan_engine::cache::prefetch;
use silvan_engine::saved::Saved;
use silvan_network::port::{Port, PortVl};
use silvan_network::port_set::PortSet;

/// An output waits for a busy input for at most the time given away, divided by this constant and by the number of
/// other requesting inputs.
const PATIENCE: u64 = 16;

/// The round of one output and virtual lane.
// One cache line if there are few ports.
#[derive(Debug, Clone, Copy, Saved)]
#[repr(align(64))]
struct Round<S> {
    /// Inputs served in this round.
    served: S,
    /// Inputs that were served out of turn. Their packets are charged to the next round.
    ahead: S,
    /// The input to consider first for service out of turn, which has a separate rotation.
    next_out: Port,
    /// Time during which inputs were served out of turn.
    #[saved(span)]
    given_away: Time,
    /// Time for which the output was idle between the packets of the round, excluding waits for a busy input.
    #[saved(span)]
    idle: Time,
    /// The time at which the last packet left; `NEVER` before the first packet.
    free_at: Time,
    /// The time at which the output began to wait for a busy input; `NEVER` if it is not waiting.
    waits_since: Time,
}

const _: () = assert!(size_of::<Round<silvan_network::port_set::Ports64>>() == 64);

impl<S: PortSet> Default for Round<S> {
    fn default() -> Self {
        let (served, ahead) = (S::default(), S::default());
        let (given_away, idle) = (Time::ZERO, Time::ZERO);
        let (free_at, waits_since) = (Time::NEVER, Time::NEVER);
        Self { served, ahead, next_out: Port::FIRST, given_away, idle, free_at, waits_since }
    }
}

impl<S> Round<S> {
    /// Whether the output waits for an input that is busy for `wait`, if `others` other inputs have requests. It does if
    /// `wait` is at most half of the idle time plus the time given away, divided by the patience and the others.
    fn waits_for(&self, wait: Time, now: Time, others: u32) -> bool {
        let idle = self.idle + self.gap(now);
        let rest = wait.0.saturating_sub(idle.0 / 2);
        // Compares products, because a division takes longer.
        rest.saturating_mul(PATIENCE * u64::from(others.max(1))) <= self.given_away.0
    }

    /// The time for which the output has been idle since the last packet, excluding the wait for a busy input.
    fn gap(&self, now: Time) -> Time {
        self.waits_since.min(now).saturating_sub(self.free_at)
    }
}

/// The rounds of all outputs and virtual lanes of a switch.
#[derive(Debug, Saved)]
pub(crate) struct Rounds<S> {
    lanes: Box<[Round<S>]>,
    /// Whether outputs may have to wait for a busy input, which is the case if inputs have several queues.
    is_patient: bool,
}

impl<S: PortSet> Rounds<S> {
    pub fn new(lanes: usize, is_patient: bool) -> Self {
        Self { lanes: vec![Round::default(); lanes].into(), is_patient }
    }

    /// Same as [`Rounds::choice_of_free`], for switches in which no input is busy with another output.
    pub fn choice(&mut self, lane: PortVl, asking: S, stand_aside: impl FnOnce() -> S) -> S {
        self.choice_of_free(lane, (asking, stand_aside), S::default(), Time::ZERO, |_| Time::ZERO)
    }

    /// Returns the inputs that may be served, of those that request service (`asking`). These are the inputs that are not
    /// `busy` and were not yet served in this round, or else other inputs that are not busy. If the output must wait,
    /// there are none. `free_at` returns the time at which a busy input becomes free.
    ///
    /// A new round begins when all inputs with packets for the output have been served: those that request service, and
    /// those whose packets cannot be sent now (`stand_aside`), for example for lack of credit.
    #[inline]
    pub fn choice_of_free(
        &mut self,
        lane: PortVl,
        (asking, stand_aside): (S, impl FnOnce() -> S),
        busy: S,
        now: Time,
        free_at: impl Fn(Port) -> Time,
    ) -> S {
        let round = &mut self.lanes[lane.index()];
        if asking.without(round.served).is_empty() {
            let all = asking.or(stand_aside());
            // All requesting inputs may have been charged to the new round already; then another round begins.
            for _ in 0..2 {
                if all.without(round.served).is_empty() {
                    *round = Round { served: round.ahead, next_out: round.next_out, ..Round::default() };
                }
            }
        }
        let in_turn = asking.without(round.served);
        let first = in_turn.without(busy);
        if !first.is_empty() {
            return first;
        }
        self.out_of_turn(lane, (asking, in_turn), busy, now, free_at)
    }

    /// Selects inputs when all inputs whose turn it is are busy.
    #[inline(never)]
    fn out_of_turn(
        &mut self,
        lane: PortVl,
        (asking, in_turn): (S, S),
        busy: S,
        now: Time,
        free_at: impl Fn(Port) -> Time,
    ) -> S {
        let round = &mut self.lanes[lane.index()];
        let others = asking.count().saturating_sub(1);
        let is_short = |input: Port| round.waits_for(free_at(input).saturating_sub(now), now, others);
        if self.is_patient && in_turn.iter().any(is_short) {
            round.waits_since = round.waits_since.min(now);
            return S::default();
        }
        let free = asking.without(busy);
        let rest = free.without(round.ahead);
        let rest = if rest.is_empty() { free } else { rest };
        if in_turn.is_empty() {
            return rest;
        }
        rest.next(round.next_out).map_or(S::default(), S::of)
    }

    /// The requesting inputs that [`Self::choice_of_free`] probably returns. Changes nothing.
    #[inline]
    pub fn likely(&self, lane: PortVl, asking: S) -> S {
        let in_turn = asking.without(self.lanes[lane.index()].served);
        if in_turn.is_empty() { asking } else { in_turn }
    }

    #[inline]
    pub fn prefetch(&self, lane: PortVl) {
        prefetch(&self.lanes, lane.index());
    }

    /// Records that an input is served from now until `end`.
    pub fn served(&mut self, lane: PortVl, input: Port, (now, end): (Time, Time)) {
        let round = &mut self.lanes[lane.index()];
        round.idle += round.gap(now);
        (round.free_at, round.waits_since) = (end, Time::NEVER);
        if !round.served.contains(input) {
            round.served.insert(input);
        } else if end > now {
            round.ahead.insert(input);
            round.next_out = Port((input.0 + 1) % 256);
            round.given_away += end - now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silvan_network::port_set::Ports64;

    const SPAN: (Time, Time) = (Time::ZERO, Time(1_600));
    const OUT: PortVl = PortVl::FIRST;

    fn mask(bits: u64) -> Ports64 {
        Port::all(64).filter(|port| bits >> port.0 & 1 == 1).collect()
    }

    /// The selection among the requesting inputs, given the times at which they become free.
    fn choose(
        rounds: &mut Rounds<Ports64>,
        asking: u64,
        now: Time,
        free_at: impl Fn(Port) -> Time,
    ) -> Ports64 {
        let busy = Port::all(64).filter(|&input| free_at(input) > now).collect();
        rounds.choice_of_free(OUT, (mask(asking), || mask(0)), busy, now, free_at)
    }

    #[test]
    fn inputs_that_were_passed_over_come_first_when_they_can_send() {
        const SPAN: (Time, Time) = (Time::ZERO, Time::ZERO);
        let mut rounds = Rounds::new(1, false);
        assert_eq!(rounds.choice(OUT, mask(0b111), || mask(0)), mask(0b111));
        rounds.served(OUT, Port(0), SPAN);
        rounds.served(OUT, Port(1), SPAN);
        // Input 2 lacks credit, so the others continue. When it has credit, it is first.
        assert_eq!(rounds.choice(OUT, mask(0b011), || mask(0b100)), mask(0b011));
        assert_eq!(rounds.choice(OUT, mask(0b111), || mask(0)), mask(0b100));
        rounds.served(OUT, Port(2), SPAN);
        assert_eq!(rounds.choice(OUT, mask(0b111), || mask(0)), mask(0b111));
    }

    #[test]
    fn an_output_serves_others_while_an_input_is_busy() {
        let mut rounds = Rounds::new(1, true);
        rounds.served(OUT, Port(0), SPAN);
        let busy = |input| {
            if input == Port(1) { Time(800) } else { Time::ZERO }
        };
        assert_eq!(choose(&mut rounds, 0b11, Time::ZERO, busy), mask(0b01));
        // The other input keeps its turn.
        assert_eq!(rounds.choice(OUT, mask(0b11), || mask(0)), mask(0b10));
    }

    /// Of two requesting inputs, one is busy whenever the output is free, as happens if packets end at regular times.
    #[test]
    fn no_input_starves() {
        for remaining in [1, 100, 800, 1_599].map(Time) {
            let mut rounds = Rounds::new(1, true);
            let mut passed_over = 0;
            let mut now = Time::ZERO;
            let busy = |now: Time| {
                move |input| {
                    if input == Port(1) { now + remaining } else { Time::ZERO }
                }
            };
            while choose(&mut rounds, 0b11, now, busy(now)) == mask(0b01) {
                rounds.served(OUT, Port(0), (now, now + SPAN.1));
                now += SPAN.1;
                passed_over += 1;
                assert!(passed_over <= 1 + PATIENCE, "busy for {remaining:?}");
            }
            // The free input is first served in its own turn. It is then served out of turn until the wait
            // for the busy input is at most 1 / `PATIENCE` of the time of the packets that were sent out of
            // turn.
            assert_eq!(
                passed_over,
                1 + (PATIENCE * remaining.0).div_ceil(SPAN.1.0),
                "busy for {remaining:?}"
            );
        }
    }

    #[test]
    fn an_output_never_waits_for_first_in_first_out_inputs() {
        let mut rounds = Rounds::new(1, false);
        let busy = |input| {
            if input == Port(1) { Time(u64::MAX) } else { Time::ZERO }
        };
        for packet in 0..1_000 {
            let now = Time(packet * 3_200);
            assert_eq!(choose(&mut rounds, 0b11, now, busy), mask(0b01));
            rounds.served(OUT, Port(0), (now, now + Time(1_600)));
        }
    }

    #[test]
    fn an_output_waits_for_half_the_time_it_was_idle() {
        let mut rounds = Rounds::new(1, true);
        rounds.served(OUT, Port(0), SPAN);
        let busy_until = |until| {
            move |input| {
                if input == Port(1) { Time(until) } else { Time::ZERO }
            }
        };
        assert_eq!(choose(&mut rounds, 0b11, Time(2_600), busy_until(3_101)), mask(0b01));
        assert_eq!(choose(&mut rounds, 0b11, Time(2_600), busy_until(3_100)), mask(0));
        // The time spent waiting does not count.
        assert_eq!(choose(&mut rounds, 0b11, Time(2_700), busy_until(3_201)), mask(0b01));
        assert_eq!(choose(&mut rounds, 0b11, Time(3_100), busy_until(3_100)), mask(0b10));
    }

    /// Two inputs share an output with a third one that is usually too busy. Neither of the two gets a larger share
    /// because it follows the third one in the rotation.
    #[test]
    fn packets_served_out_of_turn_are_charged() {
        let mut rounds = Rounds::new(1, true);
        let (mut now, mut turn, mut counts) = (Time::ZERO, Port::FIRST, [0u32; 3]);
        for packet in 0..3_000 {
            // The third input is free for every fourth packet.
            let busy = |input| {
                if input == Port(2) && packet % 4 > 0 { Time(u64::MAX) } else { Time::ZERO }
            };
            let choice = choose(&mut rounds, 0b111, now, busy);
            let input = choice.next(turn).unwrap();
            counts[input.index()] += 1;
            rounds.served(OUT, input, (now, now + Time(1_600)));
            (now, turn) = (now + Time(1_600), input.after(3));
        }
        assert_eq!(counts[0] + counts[1] + counts[2], 3_000);
        assert!(counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
        assert!(counts[2] >= 749, "each time it is free: {counts:?}");
    }
}
