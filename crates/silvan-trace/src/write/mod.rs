//! Writers of GOAL, text and binary.
//!
//! GOAL has no delays that need no cpu: each becomes a `calc` on a cpu that the rank does not use, in turn.
//! Only where more delays than there are such cpus run at once does one wait for another.

mod binary;
mod text;

pub use binary::binary;
pub use text::text;

use crate::trace::{Kind, Operation, Trace};

/// Where the delays of a rank go.
struct Lanes {
    /// The cpu of delays of no length: they hold nobody up.
    first: u8,
    /// How many cpus there are for the others.
    count: u8,
    next: u8,
}

impl Lanes {
    /// Of a rank.
    ///
    /// # Errors
    /// The rank has delays and uses all cpus but one, or all.
    fn new(trace: &Trace, rank: u32) -> Result<Self, String> {
        let operations = || trace.of_rank(rank).map(|at| trace.operation(at));
        let used = operations().filter(|operation| operation.kind != Kind::Delay);
        let highest = used.map(|operation| operation.cpu).max().unwrap_or(0);
        let delays = operations().any(|operation| operation.kind == Kind::Delay);
        if delays && highest >= 254 {
            return Err(format!(
                "rank {rank} uses cpu {highest}: delays need two above, and GOAL's end at 255"
            ));
        }
        Ok(Self { first: highest.saturating_add(1), count: 254u8.saturating_sub(highest), next: 0 })
    }

    /// The operation as GOAL can have it.
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
