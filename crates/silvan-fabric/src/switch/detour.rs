//! Detours per packet (UGAL-L). Depending on the load of two ports, the source's switch sends a packet either on the
//! minimal route or through a randomly selected group.

use silvan_engine::saved::Saved;
use std::sync::Arc;

/// The switch at the far end of each port, by switch and port; `u32::MAX` if there is none.
pub(crate) type Neighbours = Arc<[Box<[u32]>]>;

/// The configuration and state that a switch needs to decide on detours.
#[derive(Debug, Saved)]
pub(crate) struct Detourer {
    pub neighbours: Neighbours,
    /// Advantage of minimal routes in the comparison: bytes times links.
    #[saved(constant)]
    pub bias: u64,
    #[saved(constant)]
    pub seed: u32,
    /// Number of random selections so far.
    pub count: u32,
}

impl Detourer {
    pub fn new(neighbours: Neighbours, bias: u64, seed: u64) -> Self {
        Self { neighbours, bias, seed: seed as u32, count: 0 }
    }
}
