//! Rounds: no input is served twice by an output before all others that wait for it have been.
//!
//! A plain round robin does that only while everybody can be served when its turn comes. Where an
//! input may be busy just then, or lack credit for its destination only, a pointer passes it over, and
//! may do so for ever. Those not served yet in a round go first.

/// Per output and virtual lane, the inputs that were served in this round, one bit each.
#[derive(Debug)]
pub(crate) struct Rounds(Box<[[u64; 4]]>);

impl Rounds {
    pub fn new(lanes: usize) -> Self {
        Self(vec![[0; 4]; lanes].into())
    }

    /// Which of the inputs that ask to choose from: those not served in this round, or all if these
    /// only `stand_aside`. When all that wait have been served, a new round begins.
    pub fn choice(&mut self, lane: usize, asking: [u64; 4], stand_aside: [u64; 4]) -> [u64; 4] {
        let served = &mut self.0[lane];
        if (0..4).all(|word| (asking[word] | stand_aside[word]) & !served[word] == 0) {
            *served = [0; 4];
        }
        let mut first = [0; 4];
        (0..4).for_each(|word| first[word] = asking[word] & !served[word]);
        if first == [0; 4] { asking } else { first }
    }

    /// Notes that an input was served.
    pub fn served(&mut self, lane: usize, input: usize) {
        self.0[lane][input / 64] |= 1 << (input % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_passed_over_come_first_when_they_can() {
        let mut rounds = Rounds::new(1);
        let inputs = |bits| [bits, 0, 0, 0];
        assert_eq!(rounds.choice(0, inputs(0b111), inputs(0)), inputs(0b111));
        rounds.served(0, 0);
        rounds.served(0, 1);
        // 2 lacks credit: the others go on, but when it has some, it is first.
        assert_eq!(rounds.choice(0, inputs(0b011), inputs(0b100)), inputs(0b011));
        assert_eq!(rounds.choice(0, inputs(0b111), inputs(0)), inputs(0b100));
        rounds.served(0, 2);
        assert_eq!(rounds.choice(0, inputs(0b111), inputs(0)), inputs(0b111));
    }
}
