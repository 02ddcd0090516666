//! The hosts of the binned scheduler that take turns. `host/turns.rs` describes and takes the turns.

use silvan_engine::Bins;
use silvan_engine::saved::Saved;

/// The hosts of a partition that wait for their turns, by place.
#[derive(Debug, Saved)]
pub(crate) struct Turns {
    pub bins: Bins<u32>,
    /// Whether to prefetch hosts, because they do not fit into the fast caches of a core.
    #[saved(constant)]
    pub prefetches: bool,
    /// Empty between calls.
    #[saved(scratch)]
    pub due: Vec<u32>,
}

impl Turns {
    pub fn new(bins: Bins<u32>, prefetches: bool) -> Self {
        Self { bins, prefetches, due: Vec::new() }
    }
}
