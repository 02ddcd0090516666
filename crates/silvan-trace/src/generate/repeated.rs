//! A repeated collective operation in groups of ranks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Group, text, within};
use crate::collective::{Choice, Collective, Sizes};
use crate::sequence::Sequence;
use crate::trace::{MAX_RANKS, Trace, TraceBuilder};

/// A collective operation with its sizes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Repeated {
    /// The operation.
    pub operation: Collective,
    /// Number of ranks of all groups together.
    pub ranks: u32,
    /// Number of independent groups of `ranks` / `groups` consecutive ranks each.
    pub groups: u32,
    /// Bytes of the vector (all-reduce, broadcast, reduce, scan), or of each block.
    pub bytes: u64,
    /// Number of repetitions.
    pub iterations: u32,
    /// Computation time of each rank before each repetition, in ns.
    pub compute_ns: u64,
}

impl Default for Repeated {
    fn default() -> Self {
        Self {
            operation: Collective::AllReduce,
            ranks: 8,
            groups: 1,
            bytes: 1 << 20,
            iterations: 1,
            compute_ns: 0,
        }
    }
}

impl Repeated {
    /// Generates the trace; the operation uses `algorithms`.
    ///
    /// # Errors
    /// If a size is out of range, the ranks cannot be divided into the groups, an algorithm does not
    /// support the operation, or the trace would have more than `limit` operations and dependencies.
    pub fn trace(&self, algorithms: &Choice, limit: u64) -> Result<Trace, String> {
        within("ranks", u64::from(self.ranks), 1, u64::from(MAX_RANKS))?;
        within("groups", u64::from(self.groups), 1, u64::from(self.ranks))?;
        within("iterations", u64::from(self.iterations), 1, 1 << 20)?;
        within("bytes", self.bytes, 0, 1 << 50)?;
        if !self.ranks.is_multiple_of(self.groups) {
            return Err(format!("{} ranks cannot be divided into {} groups", self.ranks, self.groups));
        }
        let size = self.ranks / self.groups;
        let mut build = TraceBuilder::new(u64::from(self.ranks), limit).map_err(text)?;
        for number in 0..self.groups {
            let group = Group { number, members: (number * size..(number + 1) * size).collect() };
            for &rank in &group.members {
                let mut sequence = Sequence::new(rank);
                for _ in 0..self.iterations {
                    sequence.compute(&mut build, self.compute_ns).map_err(text)?;
                    let sizes = Sizes::Uniform(self.bytes);
                    group.collective(&mut build, &mut sequence, self.operation, sizes, algorithms)?;
                }
            }
        }
        build.finish().map_err(text)
    }
}
