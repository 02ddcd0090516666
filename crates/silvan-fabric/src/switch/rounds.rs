//! Rounds: no input is served twice by an output before all others that wait for it have been, unless
//! those are busy.
//!
//! A plain round robin gives every input its turn only while everybody can be served when its turn
//! comes. Where an input may be busy just then, or lack credit for its destination only, a pointer passes
//! it over, and may do so for ever: packets end in step, so that the same input is busy each time an
//! output is free. To wait for it each time, on the other hand, would leave the output idle for about
//! half a packet per turn.
//!
//! Therefore an output keeps a round. First come the inputs not served in it yet. While these are busy
//! elsewhere, the others that ask are served in their stead, out of turn, and the time given away is
//! added up. An output stays idle for a busy input only if that is free again within a sixteenth of the
//! time given away, divided by the number of the other inputs that ask. So at most about a sixteenth of
//! an output's time is lost, in practice half a percent and less, and nobody waits for longer than some
//! sixteen rounds.

use silvan_engine::Time;

/// An output waits for a busy input no longer than the time given away divided by this, and by how many
/// others ask.
const PATIENCE: u64 = 16;

/// A round of one output and virtual lane.
#[derive(Debug, Clone, Copy, Default)]
struct Round {
    /// Inputs that were served in it, one bit each.
    served: [u64; 4],
    /// Time for which inputs were served out of turn.
    given_away: Time,
}

/// The rounds of a switch, per output and virtual lane.
#[derive(Debug)]
pub(crate) struct Rounds(Box<[Round]>);

impl Rounds {
    pub fn new(lanes: usize) -> Self {
        Self(vec![Round::default(); lanes].into())
    }

    /// Which of the inputs that ask to choose from, where none is ever busy: those not served in this
    /// round, or all if these only `stand_aside`.
    pub fn choice(&mut self, lane: usize, asking: [u64; 4], stand_aside: [u64; 4]) -> [u64; 4] {
        self.choice_of_free(lane, (asking, stand_aside), |_| Time::ZERO)
    }

    /// Which of the inputs that ask to choose from: those that are free and were not served in this
    /// round, else the other free ones; none, if the output is to wait. `busy_for` says how much longer
    /// an input is busy.
    ///
    /// When all that wait have been served, a new round begins.
    pub fn choice_of_free(
        &mut self,
        lane: usize,
        (asking, stand_aside): ([u64; 4], [u64; 4]),
        busy_for: impl Fn(usize) -> Time,
    ) -> [u64; 4] {
        let round = &mut self.0[lane];
        if (0..4).all(|word| (asking[word] | stand_aside[word]) & !round.served[word] == 0) {
            *round = Round::default();
        }
        let others: u32 = asking.iter().map(|word| word.count_ones()).sum::<u32>().saturating_sub(1);
        let patience = Time(round.given_away.0 / (PATIENCE * u64::from(others.max(1))));
        let (mut first, mut rest, mut waits) = ([0; 4], [0; 4], false);
        for input in inputs(asking) {
            let (word, bit) = (input / 64, 1 << (input % 64));
            let (in_turn, busy) = (round.served[word] & bit == 0, busy_for(input));
            if busy > Time::ZERO {
                waits |= in_turn && busy <= patience;
            } else if in_turn {
                first[word] |= bit;
            } else {
                rest[word] |= bit;
            }
        }
        if first != [0; 4] || waits { first } else { rest }
    }

    /// Notes that an input was served for a time.
    pub fn served(&mut self, lane: usize, input: usize, span: Time) {
        let round = &mut self.0[lane];
        let (word, bit) = (input / 64, 1 << (input % 64));
        if round.served[word] & bit == 0 {
            round.served[word] |= bit;
        } else {
            round.given_away += span;
        }
    }
}

/// The inputs whose bits are set.
fn inputs(masks: [u64; 4]) -> impl Iterator<Item = usize> {
    masks.into_iter().enumerate().flat_map(|(word, mut bits)| {
        std::iter::from_fn(move || {
            let input = (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(input)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Time = Time(1_600);

    fn mask(bits: u64) -> [u64; 4] {
        [bits, 0, 0, 0]
    }

    #[test]
    fn those_passed_over_come_first_when_they_can() {
        let mut rounds = Rounds::new(1);
        assert_eq!(rounds.choice(0, mask(0b111), mask(0)), mask(0b111));
        rounds.served(0, 0, SPAN);
        rounds.served(0, 1, SPAN);
        // 2 lacks credit: the others go on, but when it has some, it is first.
        assert_eq!(rounds.choice(0, mask(0b011), mask(0b100)), mask(0b011));
        assert_eq!(rounds.choice(0, mask(0b111), mask(0)), mask(0b100));
        rounds.served(0, 2, SPAN);
        assert_eq!(rounds.choice(0, mask(0b111), mask(0)), mask(0b111));
    }

    #[test]
    fn an_output_serves_others_while_an_input_is_busy() {
        let mut rounds = Rounds::new(1);
        rounds.served(0, 0, SPAN);
        let busy = |input| if input == 1 { Time(800) } else { Time::ZERO };
        assert_eq!(rounds.choice_of_free(0, (mask(0b11), mask(0)), busy), mask(0b01));
        // The other one keeps its turn.
        assert_eq!(rounds.choice(0, mask(0b11), mask(0)), mask(0b10));
    }

    /// Two inputs ask; one is busy with something else whenever the output is free, as where packets
    /// end in step.
    #[test]
    fn nobody_waits_for_ever() {
        for remaining in [1, 100, 800, 1_599] {
            let mut rounds = Rounds::new(1);
            let busy = |input| if input == 1 { Time(remaining) } else { Time::ZERO };
            let mut passed_over = 0;
            while rounds.choice_of_free(0, (mask(0b11), mask(0)), busy) == mask(0b01) {
                rounds.served(0, 0, SPAN);
                passed_over += 1;
                assert!(passed_over <= 1 + PATIENCE, "busy for {remaining}");
            }
            // In turn once, then out of turn until the wait is short beside what was given away.
            assert_eq!(passed_over, 1 + (PATIENCE * remaining).div_ceil(SPAN.0), "busy for {remaining}");
        }
    }

    #[test]
    fn inputs_beyond_the_first_64_count() {
        assert_eq!(inputs([1, 0, 1 << 5, 1 << 63]).collect::<Vec<_>>(), [0, 133, 255]);
    }
}
