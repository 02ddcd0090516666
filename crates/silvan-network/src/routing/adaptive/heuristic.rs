//! Criteria for the selection of output ports.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cache::FlowKey;
use super::state::AnnouncedFlows;

/// The criterion by which a switch compares its output links. The link with the lowest value is selected.
/// Ties are broken at random, except that a switch above the destination prefers the default link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Heuristic {
    /// The number of flows on the link, as in SYSTOR 2009.
    #[default]
    FlowCount,
    /// The total bytes of the flows on the link.
    Bytes,
    /// A random port, as a baseline for the other criteria.
    Random,
}

impl Heuristic {
    /// All heuristics.
    pub const ALL: [Self; 3] = [Self::FlowCount, Self::Bytes, Self::Random];

    /// The name in scenarios and in Python.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlowCount => "flow-count",
            Self::Bytes => "bytes",
            Self::Random => "random",
        }
    }

    /// The cost of a link. `place` is the index of the switch and the port, from 1.
    #[inline]
    pub(super) fn measure(self, load: AnnouncedFlows, place: (u32, u16), flow: FlowKey) -> u64 {
        match self {
            Self::FlowCount => u64::from(load.flows),
            Self::Bytes => load.bytes,
            Self::Random => draw(place, flow),
        }
    }
}

impl fmt::Display for Heuristic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns a number that, modulo the number of equal ports, selects among them for a flow at a switch.
pub(super) fn tie_break(switch: u32, flow: FlowKey) -> u64 {
    // No port has the number 0, so no cost of `Random` has these arguments.
    draw((switch, 0), flow)
}

/// A pseudorandom number that depends only on the arguments, not on earlier calls.
fn draw((switch, port): (u32, u16), flow: FlowKey) -> u64 {
    mixed([switch, u32::from(port), flow.source, flow.destination, flow.connection])
}

/// A pseudorandom number that depends only on the given words (`SplitMix64`).
#[inline]
pub fn mixed<const N: usize>(words: [u32; N]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, &word| {
        let mut z = (hash ^ u64::from(word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_scenarios() {
        for heuristic in Heuristic::ALL {
            let written = serde_json::to_string(&heuristic).unwrap();
            assert_eq!(written, format!("\"{heuristic}\""));
            assert_eq!(serde_json::from_str::<Heuristic>(&written).unwrap(), heuristic);
        }
    }

    #[test]
    fn pseudorandom_numbers_are_uniform() {
        let mut lowest = [0; 4];
        for source in 0..4000 {
            let flow = FlowKey { source, destination: 9, connection: 0 };
            let best = (0..4).min_by_key(|&port| draw((5, port), flow)).unwrap();
            lowest[usize::from(best)] += 1;
        }
        assert!(lowest.iter().all(|&n| (900..1100).contains(&n)), "{lowest:?}");
    }
}
