//! Writes traces as text or binary GOAL.
//!
//! All GOAL operations need a CPU, so each delay becomes a `calc` on a CPU with a higher number than those
//! that the rank uses. Delays that are not zero use these CPUs in rotation, so a delay may wait for an
//! earlier delay on the same CPU.

mod binary;
mod text;

pub use binary::binary;
pub use text::text;

use crate::trace::{Kind, Operation, Trace};

/// Distributes the delays of a rank over unused CPUs.
struct Lanes {
    /// The CPU for delays of zero length. Such delays do not block other operations.
    first: u8,
    /// Number of CPUs for the other delays.
    count: u8,
    next: u8,
}

impl Lanes {
    /// Finds the unused CPUs of a rank.
    ///
    /// # Errors
    /// If the rank has delays, but there are fewer than two CPU numbers above those that it uses.
    fn new(trace: &Trace, rank: u32) -> Result<Self, String> {
        let operations = || trace.of_rank(rank).map(|at| trace.operation(at));
        let used = operations().filter(|operation| operation.kind != Kind::Delay);
        let highest = used.map(|operation| operation.cpu).max().unwrap_or(0);
        let delays = operations().any(|operation| operation.kind == Kind::Delay);
        if delays && highest >= 254 {
            return Err(format!(
                "rank {rank} uses cpu {highest}: delays need two higher cpu numbers, but the largest in GOAL is 255"
            ));
        }
        Ok(Self { first: highest.saturating_add(1), count: 254u8.saturating_sub(highest), next: 0 })
    }

    /// Converts an operation to a form that GOAL supports.
    fn written(&mut self, operation: Operation) -> Operation {
        if operation.kind != Kind::Delay {
            return operation;
        }
        let calc = Operation::calc(operation.size);
        if operation.size == 0 {
            return calc.on(self.first);
        }
        let cpu = self.first + 1 + self.next;
        self.next = (self.next + 1) % self.count;
        calc.on(cpu)
    }
}
