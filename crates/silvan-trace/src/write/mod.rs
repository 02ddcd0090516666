//! Writes traces as text or binary GOAL.
//!
//! All GOAL operations need a CPU, so each delay becomes a `calc` on a CPU with a higher number than those
//! that the rank uses. A delay that is not zero uses a CPU on which all earlier delays end before the delay can
//! begin, or one without delays. If there is neither, the delay may wait for an earlier one.

mod binary;
mod text;

pub use binary::binary;
pub use text::text;

use std::collections::VecDeque;

use crate::trace::{Kind, Operation, Trace, When};

/// Maximum number of CPUs without running delays that are known at an operation. Limits the memory.
const MOST_KNOWN: usize = 4;

/// Distributes the delays of a rank over unused CPUs.
struct Lanes {
    /// The first operation of the rank.
    begin: usize,
    /// The CPU for delays of zero length. Such delays do not block other operations.
    first: u8,
    /// For each operation of the rank, the CPU of a delay that is not zero. Empty without such delays.
    cpus: Vec<u8>,
}

impl Lanes {
    /// Finds the unused CPUs of a rank, and assigns its delays to them.
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
        let first = highest.saturating_add(1);
        let lasts = operations().any(|operation| operation.kind == Kind::Delay && operation.size > 0);
        let cpus = if lasts { assign(trace, rank, first + 1) } else { Vec::new() };
        Ok(Self { begin: trace.first(rank), first, cpus })
    }

    /// An operation in a form that GOAL supports.
    fn written(&self, trace: &Trace, at: usize) -> Operation {
        let operation = trace.operation(at);
        if operation.kind != Kind::Delay {
            return operation;
        }
        let cpu = if operation.size == 0 { self.first } else { self.cpus[at - self.begin] };
        Operation::calc(operation.size).on(cpu)
    }
}

/// The CPU of each delay of a rank that is not zero, at least `lowest`. Operations are visited in an order in
/// which they can be executed.
fn assign(trace: &Trace, rank: u32, lowest: u8) -> Vec<u8> {
    let (begin, count) = (trace.first(rank), trace.of_rank(rank).len());
    let mut waits: Vec<u32> = trace.of_rank(rank).map(|at| trace.waits(at)).collect();
    // The CPUs whose latest delay has ended when an operation starts, each with the number of its delays.
    let mut known: Vec<Vec<(u8, u32)>> = vec![Vec::new(); count];
    // The number of delays of each CPU.
    let mut delays = vec![0; 1 + usize::from(u8::MAX - lowest)];
    let (mut unused, mut next) = (0, 0);
    let mut cpus = vec![lowest; count];
    let mut ready: VecDeque<usize> = (0..count).filter(|&at| waits[at] == 0).collect();
    while let Some(at) = ready.pop_front() {
        let mut ended = std::mem::take(&mut known[at]);
        ended.retain(|&(lane, number)| delays[usize::from(lane)] == number);
        let operation = trace.operation(begin + at);
        let own = (operation.kind == Kind::Delay && operation.size > 0).then(|| {
            let lane = ended.pop().map(|(lane, _)| usize::from(lane)).unwrap_or_else(|| {
                if unused < delays.len() {
                    unused += 1;
                    return unused - 1;
                }
                next = (next + 1) % delays.len();
                next
            });
            delays[lane] += 1;
            cpus[at] = lowest + lane as u8;
            (lane as u8, delays[lane])
        });
        for (when, own) in [(When::Finish, own), (When::Start, None)] {
            for &later in trace.successors(begin + at, when).iter() {
                let later = later as usize;
                for &lane in own.iter().chain(&ended) {
                    let there = &mut known[later];
                    if there.len() < MOST_KNOWN && !there.contains(&lane) {
                        there.push(lane);
                    }
                }
                waits[later] -= 1;
                if waits[later] == 0 {
                    ready.push_back(later);
                }
            }
        }
    }
    cpus
}
