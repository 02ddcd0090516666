//! Generates traces of known applications from their sizes.

mod continuous;
mod experts;
mod hpcc;
mod hpl;
mod inference;
mod moe;
mod repeated;
mod transformer;

pub use continuous::{Continuous, Request};
pub use hpcc::{Kernel, Kernels};
pub use inference::{Inference, KeyTransfer};
pub use moe::{Dispatch, ExpertPlacement, Moe};
pub use repeated::Repeated;
pub use transformer::Transformer;

use crate::collective::{Call, Choice, Collective, Sizes};
use crate::sequence::Sequence;
use crate::trace::{BuildError, TraceBuilder};

/// A group of ranks that communicate, with the number of its communicator.
struct Group {
    number: u32,
    members: Vec<u32>,
}

impl Group {
    /// Adds the operations of one rank of the group in a collective operation.
    fn collective(
        &self,
        build: &mut TraceBuilder,
        sequence: &mut Sequence,
        operation: Collective,
        sizes: Sizes<'_>,
        algorithms: &Choice,
    ) -> Result<(), String> {
        let call = Call::new(operation, algorithms.of(operation), self.members.len() as u32, 0, sizes)?;
        let rank = sequence.rank();
        let me = self.members.iter().position(|&member| member == rank).ok_or("not a member of the group")?;
        let own = |place: u32| self.members[place as usize];
        sequence.collective(build, &call, &own, me as u32, self.number).map_err(text)
    }
}

fn text(error: BuildError) -> String {
    error.to_string()
}

/// Duration of a number of floating-point operations, in ns.
fn computing(flops: f64, per_second: f64) -> u64 {
    (flops / per_second * 1e9).round() as u64
}

/// Rejects a number that is out of range.
fn within(name: &str, number: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&number) {
        Ok(())
    } else {
        Err(format!("{name} = {number}: must be {least} to {most}"))
    }
}

/// Rejects an invalid speed.
fn speed(name: &str, number: f64) -> Result<(), String> {
    if number.is_finite() && number >= 1.0 {
        Ok(())
    } else {
        Err(format!("{name} = {number}: must be 1 or more"))
    }
}
